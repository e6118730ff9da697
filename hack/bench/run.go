//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicr/internal/sim/truth"
)

// options are those of run.
type options struct {
	script      *truth.Script
	concurrency []int
	perUser     int // requests for each of the concurrent
	input       int
	tokens      int
	rounds      int
	retries     int
	late        time.Duration
	others      float64
	quiet       time.Duration
	runTime     time.Duration
	serverCore  int
	clientCore  int
	nice        int
	fifo        bool
	self        string // this program
	work        string // folder of the clients' results
	clients     []client
	missing     []string
	markdown    string
	raw         string
}

func parseRun(args []string, stderr io.Writer) (o options, limit time.Duration, err error) {
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.SetOutput(stderr)
	o.script = scriptFlags(fs)
	levels := fs.String("concurrency", "64,256,500,1000", "levels, with commas")
	names := fs.String("clients", "", "only these clients, with commas; default: all that are found")
	aicr := fs.String("aicr", "", "the aicr binary; default: bin/aicr, then the PATH")
	aiperf := fs.String("aiperf", os.Getenv("AIPERF"), "the aiperf binary (AIPERF); default: the PATH")
	tokenizer := fs.String("tokenizer", os.Getenv("AIPERF_TOKENIZER"), "folder of the tokenizer that aiperf uses (AIPERF_TOKENIZER)")
	var peers []string
	fs.Func("peer", "another client, as `NAME=COMMAND` with {url} {model} {c} {n} {in} {out} {dir}; may be repeated", func(s string) error {
		peers = append(peers, s)
		return nil
	})
	fs.IntVar(&o.perUser, "requests-per-user", 8, "requests are so many times the concurrency")
	fs.IntVar(&o.input, "input", 128, "tokens in the prompt")
	fs.IntVar(&o.tokens, "output", 128, "tokens in the answer")
	fs.IntVar(&o.rounds, "rounds", 3, "readings of each client at each level")
	fs.IntVar(&o.retries, "retries", 2, "how often a discarded reading is taken again")
	fs.DurationVar(&o.late, "late", time.Millisecond, "discard a reading when the server's own lateness p99 is above this")
	fs.Float64Var(&o.others, "others", 0.25, "discard a reading when other processes used more than this of the two cores; 0 never does")
	fs.DurationVar(&o.quiet, "quiet", time.Minute, "wait at most this long for the machine to be idle before a reading")
	fs.DurationVar(&o.runTime, "run-time", 5*time.Minute, "give a client up after this long")
	fs.DurationVar(&limit, "max-time", time.Hour, "stop after this long, with the table of what there is")
	fs.IntVar(&o.serverCore, "server-core", 0, "the server's core")
	fs.IntVar(&o.clientCore, "client-core", 1, "the client's core, for it and all its children; -1 leaves it free")
	fs.IntVar(&o.nice, "nice", 0, "niceness of server and clients; below 0 (as root) helps on a shared machine")
	fs.BoolVar(&o.fifo, "fifo", true, "run the server before everything of ordinary priority, where that is allowed (SCHED_FIFO)")
	fs.StringVar(&o.markdown, "md", "", "also write the table as Markdown to `FILE`")
	fs.StringVar(&o.raw, "json", "", "also write every reading, the discarded ones too, to `FILE`")
	quick := fs.Bool("quick", false, "64 and 256 streams, 3 requests a stream, one round")
	if err := fs.Parse(args); err != nil {
		return o, 0, err
	}
	if *quick {
		set := map[string]bool{}
		fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
		if !set["concurrency"] {
			*levels = "64,256"
		}
		if !set["requests-per-user"] {
			o.perUser = 3
		}
		if !set["rounds"] {
			o.rounds = 1
		}
	}
	for s := range strings.SplitSeq(*levels, ",") {
		c, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || c < 1 {
			return o, 0, fmt.Errorf("--concurrency %q: want numbers above 0", *levels)
		}
		o.concurrency = append(o.concurrency, c)
	}
	if o.rounds < 1 || o.perUser < 1 || o.tokens < 1 {
		return o, 0, errors.New("--rounds, --requests-per-user and --output must be at least 1")
	}
	if err := o.script.Check(); err != nil {
		return o, 0, err
	}
	if o.self, err = os.Executable(); err != nil {
		return o, 0, err
	}
	o.clients, o.missing, err = findClients(o.self, *aicr, *aiperf, *tokenizer, peers)
	if err != nil || *names == "" {
		return o, limit, err
	}
	only := strings.Split(*names, ",")
	for _, name := range only {
		if !slices.ContainsFunc(o.clients, func(c client) bool { return c.name == name }) {
			return o, 0, fmt.Errorf("--clients: there is no %q here", name)
		}
	}
	o.clients = slices.DeleteFunc(o.clients, func(c client) bool { return !slices.Contains(only, c.name) })
	o.missing = nil
	return o, limit, nil
}

// runCommand is the harness.
func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, limit, err := parseRun(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if o.work, err = os.MkdirTemp("", "aicr-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	if err := reapOrphans(); err != nil {
		return err
	}
	for _, m := range o.missing {
		fmt.Fprintln(stderr, "without", m)
	}

	readings := o.readAll(ctx, stderr)
	t := tabulate(readings, facts(ctx, o))
	if err := t.text(stdout); err != nil {
		return err
	}
	if o.markdown != "" {
		if err := writeFile(o.markdown, t.markdown); err != nil {
			return err
		}
	}
	if o.raw != "" {
		if err := writeFile(o.raw, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(readings)
		}); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(readings, func(r reading) bool { return r.Discarded == "" }) {
		return errors.New("no reading was accepted")
	}
	return nil
}

// readAll takes the readings: all clients at a level before the next level,
// all levels before the next round, and another client first in every round,
// so that no client has the quiet hour for itself.
func (o options) readAll(ctx context.Context, log io.Writer) []reading {
	var all []reading
	for round := range o.rounds {
		for _, c := range o.concurrency {
			for i := range o.clients {
				cl := o.clients[(i+round)%len(o.clients)]
				for try := range o.retries + 1 {
					if ctx.Err() != nil {
						fmt.Fprintln(log, "stopped:", context.Cause(ctx))
						return all
					}
					r := o.read(ctx, cl, c)
					r.Round, r.Try = round+1, try+1
					all = append(all, r)
					fmt.Fprintln(log, r)
					if r.Discarded == "" {
						break
					}
				}
			}
		}
	}
	return all
}

// reading is one run of one client. Times are in seconds and milliseconds as
// they are named.
type reading struct {
	Client      string `json:"client"`
	Concurrency int    `json:"concurrency"`
	Round       int    `json:"round"`
	Try         int    `json:"try"`

	Discarded string `json:"discarded,omitempty"` // why it does not count
	Note      string `json:"note,omitempty"`      // what is odd about it, though it counts

	Wall      float64 `json:"wall_s"`
	CPU       float64 `json:"cpu_s"` // user and system, of all the client's processes
	User      float64 `json:"user_s"`
	ServerCPU float64 `json:"server_cpu_s"`
	Others    float64 `json:"others_cores"` // of the two, that other processes used meanwhile
	RSS       float64 `json:"rss_mb"`       // peak, summed over the processes
	Ready     float64 `json:"ready_ms"`     // from exec to the first request at the server
	Reported  bool    `json:"reported"`     // the client told its TTFT
	P50Off    float64 `json:"p50_off_ms"`   // the client's TTFT less the server's
	P99Off    float64 `json:"p99_off_ms"`

	Truth truth.Truth `json:"truth"`
}

func (r reading) String() string {
	s := fmt.Sprintf("%-12s C=%-5d round %d: %6.2f CPU-s, %.1f in flight, server late p99 %v, others %.2f cores",
		r.Client, r.Concurrency, r.Round, r.CPU, r.Truth.MeanInFlight, r.Truth.Lateness.P99.Round(10*time.Microsecond), r.Others)
	if r.Reported {
		s += fmt.Sprintf(", TTFT off by %+.2f and %+.2f ms", r.P50Off, r.P99Off)
	}
	if r.Note != "" {
		s += "; " + r.Note
	}
	if r.Discarded != "" {
		s += "; DISCARDED: " + r.Discarded
	}
	return s
}

// read takes one reading with a server of its own.
func (o options) read(ctx context.Context, cl client, concurrency int) (r reading) {
	r = reading{Client: cl.name, Concurrency: concurrency}
	discard := func(err error) reading {
		r.Discarded = err.Error()
		return r
	}
	awaitQuiet(ctx, o.quiet)

	ctx, cancel := context.WithTimeout(ctx, o.runTime)
	defer cancel()
	server, err := o.startServer(ctx)
	if err != nil {
		return discard(fmt.Errorf("starting the server: %w", err))
	}
	used := busySeconds(o.serverCore, o.clientCore)
	defer func() {
		used = busySeconds(o.serverCore, o.clientCore) - used
		r.ServerCPU = server.stop()
		r.Others = max(0, (used-r.CPU-r.ServerCPU)/r.Wall)
		if r.Discarded == "" && o.others > 0 && r.Others > o.others {
			r.Discarded = "other processes were in the way"
		}
	}()

	dir, err := os.MkdirTemp(o.work, cl.name+"-")
	if err != nil {
		return discard(err)
	}
	requests := o.perUser * concurrency
	command := cl.command(call{
		url: server.url, model: o.script.Model, concurrency: concurrency, requests: requests,
		input: o.input, output: o.tokens, dir: dir,
	})
	began := time.Now()
	p, err := startProcess(place{core: o.clientCore, nice: o.nice}, cl.env, command)
	if err != nil {
		return discard(err)
	}
	end := p.wait(ctx, cl.family)
	r.Wall = time.Since(began).Seconds()
	r.CPU, r.User, r.RSS = end.cpu.Seconds(), end.user.Seconds(), float64(end.rss)/(1<<20)

	whole, err := server.truth(ctx, "")
	if err != nil {
		return discard(err)
	}
	if r.Truth, err = server.truth(ctx, fmt.Sprintf("?asked=%d&concurrency=%d", o.tokens, concurrency)); err != nil {
		return discard(err)
	}
	r.Ready = whole.FirstArrival.Sub(began).Seconds() * 1000
	export, exportErr := findExport(dir)
	if exportErr == nil {
		r.Reported = true
		r.P50Off = export.P50 - r.Truth.TTFT.P50/1e6
		r.P99Off = export.P99 - r.Truth.TTFT.P99/1e6
	}
	switch {
	case end.err != nil && !r.Reported:
		return discard(fmt.Errorf("%w: %s", end.err, end.lastWords))
	case end.err != nil:
		r.Note = end.err.Error()
	case cl.exports && !r.Reported:
		r.Note = exportErr.Error()
	}
	if got := r.Truth.Outcomes[truth.Served]; got < requests {
		return discard(fmt.Errorf("the server served %d of %d requests", got, requests))
	} else if got > requests {
		r.Note = strings.TrimPrefix(r.Note+fmt.Sprintf("; %d requests more than asked", got-requests), "; ")
	}
	if late := r.Truth.Lateness.P99; late > o.late {
		return discard(fmt.Errorf("the server itself was late: p99 %v", late))
	}
	return r
}

// exported is what is read of an AIPerf-shaped result.
type exported struct{ P50, P99 float64 }

func findExport(dir string) (exported, error) {
	var found string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "profile_export_aiperf.json" {
			found = path
		}
		return err
	})
	if err != nil {
		return exported{}, err
	}
	if found == "" {
		return exported{}, errors.New("no profile_export_aiperf.json")
	}
	b, err := os.ReadFile(found)
	if err != nil {
		return exported{}, err
	}
	var doc struct {
		TTFT *struct {
			Unit string
			P50  float64
			P99  float64
		} `json:"time_to_first_token"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return exported{}, fmt.Errorf("reading %s: %w", found, err)
	}
	if doc.TTFT == nil || doc.TTFT.Unit != "ms" {
		return exported{}, fmt.Errorf("%s has no time_to_first_token in ms", found)
	}
	return exported{doc.TTFT.P50, doc.TTFT.P99}, nil
}

// writeFile writes a result whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone by then when all went well
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// lookPath finds a binary: the one named, else the first of the usual ones.
func lookPath(named string, usual ...string) (string, error) {
	if named != "" {
		return exec.LookPath(named)
	}
	for _, name := range usual {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", exec.ErrNotFound
}
