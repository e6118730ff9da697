package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/report/layout"
	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
)

// tokenVariable sets the token that is drawn otherwise: a script has to know it.
const tokenVariable = "AICR_FAULTS_TOKEN"

type serveOptions struct {
	listen     string
	workerPort int
	gpuPort    int
	nodePort   int
	model      string
	seed       uint64
	speed      float64
	faults     string
	format     string
}

func newSimServe(a *app) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve FILE|NAME",
		Short: "Serve a scenario over HTTP in real time",
		Long: `Serves the fleet as an OpenAI-compatible endpoint with the wire format of Dynamo's
frontend. Behind it, on ports of their own, are the workers' metrics with vLLM's
names, a DCGM exporter and a node exporter. What goes wrong in the scenario goes
wrong here; its windows count from the first request, and recur with every stretch
of the episode's length.

Faults are switched while it runs by a POST to /faults, with the token that is
printed at the start, or by writing them into the file of --faults-file. Either
takes the scenario's faults: list, replaces what was set before, and counts
windows from then on.

It runs until it is interrupted.

Exit codes: 2 bad usage, a bad scenario file, or a port that is taken; 130
interrupted.`,
		Example: `  aicr sim serve small
  aicr sim serve one-worker-stall --listen 127.0.0.1:9000
  aicr sim serve small --faults-file faults.yaml --speed 2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse("see 'aicr sim list' for those that are built in", "one scenario is served at a time, %d were named", len(args))
			}
			return nil
		},
		ValidArgsFunction: scenarioNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.simServe(cmd.Context(), args[0], &o) },
	}
	section(cmd, "Addresses", func(f *pflag.FlagSet) {
		f.StringVar(&o.listen, "listen", "127.0.0.1:8000", "serve the frontend at `ADDRESS`; port 0 is any that is free, for the other ports too")
		f.IntVar(&o.workerPort, "worker-port", 9200, "serve the first worker's metrics at port `P`, the others' at those that follow; 0 is any")
		f.IntVar(&o.gpuPort, "gpu-port", 9400, "serve the DCGM exporter at port `P`; 0 is any")
		f.IntVar(&o.nodePort, "node-port", 9100, "serve the node exporter at port `P`; 0 is any")
	})
	section(cmd, "Behaviour", func(f *pflag.FlagSet) {
		f.StringVar(&o.model, "model", serve.DefaultModel, "serve the model under this `NAME`")
		f.Uint64Var(&o.seed, "seed", 1, "`SEED` of all that is left to chance")
		f.Float64Var(&o.speed, "speed", 1, "let the fleet go `X` times as fast as real time")
		f.StringVar(&o.faults, "faults-file", "", "switch faults as `FILE` says, whenever it changes")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) { outputFlag(f, &o.format) })
	alsoReads(cmd, tokenVariable, "token for /faults, instead of one that is drawn")
	return cmd
}

func (o *serveOptions) check(changed func(string) bool) (host string, port int, err error) {
	var wrong []error
	host, text, err := net.SplitHostPort(o.listen)
	if err != nil {
		wrong = append(wrong, misuse("write it as 127.0.0.1:8000", "--listen: %q is not an address and a port", o.listen))
	} else if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		wrong = append(wrong, misuse("write it as 127.0.0.1:8000", "--listen: %q is not a port", text))
	}
	for _, p := range []struct {
		name string
		port *int
	}{{"worker-port", &o.workerPort}, {"gpu-port", &o.gpuPort}, {"node-port", &o.nodePort}} {
		if *p.port < 0 || *p.port > 65535 {
			wrong = append(wrong, misuse("", "--%s: %d is not a port", p.name, *p.port))
		}
		if port == 0 && !changed(p.name) {
			*p.port = 0
		}
	}
	if !(o.speed > 0 && o.speed <= 1000) {
		wrong = append(wrong, misuse("", "--speed: %v is not above 0 and at most 1000", o.speed))
	}
	return host, port, errors.Join(wrong...)
}

// collisions finds ports that two things would want.
func (o *serveOptions) collisions(port, workers int) error {
	type wish struct {
		who  string
		port int
	}
	wishes := []wish{{"--listen", port}, {"--gpu-port", o.gpuPort}, {"--node-port", o.nodePort}}
	for i := range workers {
		wishes = append(wishes, wish{fmt.Sprintf("worker %d", i), offset(o.workerPort, i)})
	}
	var wrong []error
	taken := map[int]string{}
	for _, w := range wishes {
		switch other, double := taken[w.port]; {
		case w.port == 0:
		case w.port > 65535:
			return misuse("name another --worker-port", "%s has no port: %d", w.who, w.port)
		case double:
			wrong = append(wrong, misuse("name other ports with --listen, --worker-port, --gpu-port and --node-port; 0 is any that is free",
				"%s and %s both want port %d", other, w.who, w.port))
		}
		taken[w.port] = w.who
	}
	return errors.Join(wrong...)
}

func (a *app) simServe(ctx context.Context, arg string, o *serveOptions) error {
	host, port, err := o.check(func(flag string) bool { return a.settings.of(flag).Source != FromDefault })
	s, readErr := readScenario(a.ended, arg)
	if err == nil && readErr == nil {
		err = o.collisions(port, s.Fleet.Workers)
	}
	if err := errors.Join(err, readErr); err != nil {
		return err
	}
	token, given := a.env.LookupEnv(tokenVariable)
	if !given || token == "" {
		token = rand.Text()
	}
	fleet := sim.NewLive(s.Scenario, o.seed, o.speed)
	server := serve.New(fleet, s.Scenario, serve.Options{Model: o.model, Token: token, Node: sim.NodeName,
		Log: func(line string) { a.say("frontend: %s", line) }})

	house := &listeners{network: a.env.Network}
	defer house.close()
	frontend, err := house.serve(host, port, server.Frontend())
	if err != nil {
		return err
	}
	doc := serving{Scenario: s.Metadata.Name, Line: s.line, Model: o.model, Router: s.Fleet.Router, Speed: o.speed, URL: "http://" + frontend, FaultsToken: token}
	doc.FrontendMetrics, doc.Faults = doc.URL+"/metrics", doc.URL+"/faults"
	for i, w := range fleet.Snapshot().Workers {
		at, err := house.serve(host, offset(o.workerPort, i), server.Worker(i))
		if err != nil {
			return err
		}
		doc.Workers = append(doc.Workers, servingWorker{strconv.Itoa(i), strconv.FormatUint(w.ID, 10), "http://" + at + "/metrics"})
	}
	for _, page := range []struct {
		port int
		h    http.Handler
		url  *string
	}{{o.gpuPort, server.GPUs(), &doc.GPUMetrics}, {o.nodePort, server.Node(), &doc.NodeMetrics}} {
		at, err := house.serve(host, page.port, page.h)
		if err != nil {
			return err
		}
		*page.url = "http://" + at + "/metrics"
	}
	var wg sync.WaitGroup
	wg.Go(func() { fleet.Run(ctx) })
	wg.Go(func() { a.watchLateness(ctx, fleet) })
	if o.faults != "" {
		wg.Go(func() { a.followFaults(ctx, o.faults, s.Scenario, server) })
	}
	if !loopback(host) {
		a.say("warning: %s can be reached from other machines; what is served has no password but /faults", o.listen)
	}
	if err := a.printServing(&doc, s.Scenario, o.format); err != nil {
		return err
	}
	<-ctx.Done()
	house.close()
	wg.Wait()
	return nil
}

func offset(port, i int) int {
	if port == 0 {
		return 0
	}
	return port + i
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// listeners are the servers of one fleet.
type listeners struct {
	network Network
	all     []*http.Server
}

func (l *listeners) serve(host string, port int, h http.Handler) (address string, err error) {
	at, err := l.network.listen(net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return "", misuse("name other ports with --listen, --worker-port, --gpu-port and --node-port; 0 is any that is free", "listening: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute}
	l.all = append(l.all, srv)
	go func() { _ = srv.Serve(at) }() // it ends by Close
	_, text, err := net.SplitHostPort(at.Addr().String())
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // all addresses are none that can be asked
	}
	return net.JoinHostPort(host, text), nil
}

func (l *listeners) close() {
	for _, srv := range l.all {
		_ = srv.Close() // there is nobody left to tell
	}
}

// serving is the product: where everything is.
type serving struct {
	Scenario        string          `json:"scenario"`
	Line            string          `json:"line,omitempty"` // what goes wrong, of one that is built in
	Model           string          `json:"model"`
	Router          string          `json:"router"`
	Speed           float64         `json:"speed"`
	URL             string          `json:"url"`
	FrontendMetrics string          `json:"frontendMetrics"`
	Workers         []servingWorker `json:"workers"`
	GPUMetrics      string          `json:"gpuMetrics"`
	NodeMetrics     string          `json:"nodeMetrics"`
	Faults          string          `json:"faults"`
	FaultsToken     string          `json:"faultsToken"`
}

type servingWorker struct {
	Name    string `json:"name"`
	ID      string `json:"id"` // a u64: as text, since it does not fit a float
	Metrics string `json:"metrics"`
}

func (a *app) printServing(d *serving, s *spec.Scenario, format string) error {
	if format == outputJSON {
		return a.printJSON(d)
	}
	var b bytes.Buffer
	paint := a.stdoutPalette()
	fmt.Fprintf(&b, "%s  %s: %d workers, %s, model %s\n\n", paint.Green("SERVING"), d.Scenario, s.Fleet.Workers, d.Router, d.Model)
	line := func(name, text string) { fmt.Fprintf(&b, "  %-12s %s\n", name, text) }
	if d.Line != "" {
		line("goes wrong", d.Line)
	}
	line("endpoint", paint.Bold(d.URL+"/v1"))
	line("frontend", d.FrontendMetrics)
	for i, w := range d.Workers {
		if i == shownWorkers && len(d.Workers) > shownWorkers+1 {
			line("…", fmt.Sprintf("and %d more, on the ports that follow; -o json has them all", len(d.Workers)-shownWorkers))
			break
		}
		line("worker "+w.Name, fmt.Sprintf("%s  id %s", w.Metrics, w.ID))
	}
	line("gpus", d.GPUMetrics)
	line("node", d.NodeMetrics)
	if d.Speed != 1 {
		line("speed", fmt.Sprintf("%v: a second of the metrics is 1/%[1]v of a second of the clock", d.Speed))
	}
	line("load it", fmt.Sprintf("aicr bench --url %s --model %s --concurrency %d --ramp %s --benchmark-duration %.0f --isl %d --osl %d", d.URL, d.Model,
		s.Load.ConcurrencyPerGPU*s.Fleet.GPUs(), s.Load.Ramp, s.Load.Episode.D().Seconds(), s.Load.InputTokens, s.Load.OutputTokens))
	line("watch it", watchCommand(d))
	line("faults", fmt.Sprintf("export FAULTS='Authorization: Bearer %s'", d.FaultsToken))
	// The header comes by a pipe: a command line is anybody's to read.
	line("  break it", fmt.Sprintf("echo $FAULTS | curl -H @- %s -d '[{kind: worker-slow, workers: [0], factor: 4}]'", d.Faults))
	line("  mend it", fmt.Sprintf("echo $FAULTS | curl -H @- %s -d '[]'", d.Faults))
	_, err := a.env.Stdout.Write(b.Bytes())
	return err
}

// watchCommand is how the fleet is watched; of many workers, by a list.
func watchCommand(d *serving) string {
	words := []string{"aicr watch --url", d.URL, "--gpu-metrics", d.GPUMetrics, "--node-metrics", d.NodeMetrics}
	if len(d.Workers) > shownWorkers {
		return strings.Join(append(words, "--worker-metrics FILE, with the workers' pages a line each"), " ")
	}
	for _, w := range d.Workers {
		words = append(words, "--worker-metrics", w.Metrics)
	}
	return strings.Join(words, " ")
}

// shownWorkers is how many workers the text has a line for.
const shownWorkers = 16

// How often a fleet is asked whether it keeps up, and how late is too late: a
// step of a worker takes some 10 ms.
const (
	latenessEvery = 5 * time.Second
	tooLate       = 50 * time.Millisecond
)

// watchLateness says so when this machine cannot keep up with the fleet.
func (a *app) watchLateness(ctx context.Context, fleet *sim.Live) {
	every := time.NewTicker(latenessEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if late := fleet.Late(); late > tooLate {
				a.say("warning: this machine cannot keep up: the fleet was up to %s late; what is measured of it now is not the fleet's", layout.Short(late))
			}
		}
	}
}

// faultsEvery is how often the file of faults is looked at.
const faultsEvery = 200 * time.Millisecond

// followFaults sets the faults that a file tells, whenever it tells others. A
// file that is not there tells nothing; one that is wrong changes nothing.
func (a *app) followFaults(ctx context.Context, path string, s *spec.Scenario, server *serve.Server) {
	var last []byte
	there, said := false, ""
	say := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != said {
			said = text
			a.say("%s", text)
		}
	}
	every := time.NewTicker(faultsEvery)
	defer every.Stop()
	for {
		data, err := readWhole(ctx.Done(), path, maxFaultsFile)
		switch {
		case errors.Is(err, os.ErrNotExist):
			if there {
				there, last = false, nil
				server.SetFaults(nil)
				say("%s is gone", path)
			} else if said == "" {
				say("%s is not there yet", path)
			}
		case err != nil:
			say("reading faults: %v", err)
		case !there || !bytes.Equal(data, last):
			there, last, said = true, data, ""
			a.setFaults(path, data, s, server)
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (a *app) setFaults(path string, data []byte, s *spec.Scenario, server *serve.Server) {
	faults, err := spec.DecodeFaults(data, s)
	if err != nil {
		tell(a.env.Stderr, a.stderrPalette(), problems(mistakes(path, err), Misused, ""))
		a.say("the faults are left as they were")
		return
	}
	server.SetFaults(faults)
}
