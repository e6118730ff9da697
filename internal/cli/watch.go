package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/judge"
	"aicr/internal/observe"
	"aicr/internal/redact"
)

type watchOptions struct {
	url       string
	workers   []string
	frontends []string
	gpus      []string
	nodes     []string
	gpu       string
	logs      []string
	tokenFile string
	caFile    string
	insecure  bool

	interval seconds
	duration seconds

	record string
	format string
}

const (
	outputJSONLines = "jsonl"
	local           = "local"

	metricsTokenVariable = "AICR_METRICS_TOKEN"
)

func newWatch(a *app) *cobra.Command {
	o := watchOptions{interval: seconds(time.Second)}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch workers, GPUs, nodes and the frontend, and say what is off",
		Long: `Asks the servers about once a second what they do, and shows it: a line for each
worker (what it runs, what waits, its tokens a second against a fair share) and
each GPU, the worst first, and in words what is off. It sends no load, changes
nothing, and needs no more than the metrics pages that are there anyway.

A page that does not answer in time is a gap with its reason, and a value that an
exporter does not have is "not measured": neither is shown as zero.

On a terminal the table is redrawn in place. Elsewhere a line is said every few
seconds and whenever something begins or ends. It goes on until --duration is over
or it is interrupted; then what was seen is summed up, and the first word is OFF,
UNKNOWN (a source did not tell), NOTE, QUIET or NOT MEASURED (nothing was read).

Exit codes: 0 observed, whatever was off; 2 bad usage; 3 nothing was read of any
source, or what was seen could not be written; 130 interrupted.`,
		Example: `  aicr watch --url http://127.0.0.1:8000 --worker-metrics http://127.0.0.1:9200
  aicr watch --worker-metrics workers.txt --gpu-metrics http://dcgm:9400 --node-metrics http://node:9100
  aicr watch --worker-metrics http://127.0.0.1:9090 --gpu local --node-metrics local --record incident
  kubectl logs -f frontend-0 | aicr watch --log - -o jsonl`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.observe(cmd.Context(), &o) },
	}
	section(cmd, "Sources", func(f *pflag.FlagSet) {
		f.StringVarP(&o.url, "url", "u", "", "base `URL` of the endpoint, whose own /metrics is the frontend's when --frontend-metrics is not given")
		f.StringArrayVar(&o.workers, "worker-metrics", nil, "`URL` of a worker's metrics page, or a file that lists them and is read again when it changes; may be given again")
		f.StringArrayVar(&o.frontends, "frontend-metrics", nil, "`URL` of a frontend's metrics page; may be given again")
		f.StringArrayVar(&o.gpus, "gpu-metrics", nil, "`URL` of a DCGM exporter, or a file as above; may be given again")
		f.StringArrayVar(&o.nodes, "node-metrics", nil, "`URL` of a node exporter or of a kubelet's /stats/summary, a file as above, or local for this machine; may be given again")
		f.Var(newChoice(&o.gpu, "none", local), "gpu", "local asks this machine's nvidia-smi, where there is no DCGM exporter")
		f.StringArrayVar(&o.logs, "log", nil, "`FILE` of a worker's or frontend's log to follow, from its end, followed by \" name=WORKER\" where it is one worker's; - reads standard input; may be given again")
	})
	section(cmd, "Access", func(f *pflag.FlagSet) {
		f.StringVar(&o.tokenFile, "metrics-token-file", "", "`FILE` with the bearer token for the https pages of --node-metrics, which a kubelet wants")
		f.StringVar(&o.caFile, "ca-cert", "", "`FILE` with the PEM certificates to trust instead of the system's")
		f.BoolVar(&o.insecure, "insecure-skip-tls-verify", false, "do not check the servers' certificates")
	})
	section(cmd, "Observation", func(f *pflag.FlagSet) {
		f.Var(&o.interval, "interval", "ask each source once in this `TIME`")
		f.Var(&o.duration, "duration", "stop after this `TIME`; 0 goes on until Ctrl-C")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVar(&o.record, "record", "", "keep every sample in the new folder `DIR`, as it comes")
		f.VarP(newChoice(&o.format, outputText, outputJSON, outputJSONLines), "output", "o", "json and jsonl both print each sample and event as it comes, one JSON object a line")
	})
	alsoReads(cmd, metricsTokenVariable, "the bearer token itself, instead of --metrics-token-file")
	return cmd
}

// observe watches until it is told to stop.
func (a *app) observe(ctx context.Context, o *watchOptions) error {
	job, err := a.prepareWatch(o)
	if err != nil {
		return err
	}
	defer job.client.Close()
	job.settleURL(ctx, 0)
	if len(job.sources()) == 0 && len(job.files) == 0 {
		return misuse("name pages with --worker-metrics and --frontend-metrics", "%s has no metrics page, so that there is nothing to watch", redact.URL(o.url))
	}
	clock := observe.StartClock()
	rec, err := a.openWatch(o, clock.Start())
	if err != nil {
		return err
	}
	seen := &sightings{secrets: &a.secrets, live: judge.NewLive(time.Duration(o.interval)), tally: judge.NewTally(), record: rec, clock: clock, off: map[string]*sighting{}}
	// Interrupted or not, what is under way is ended by this function, after the
	// last look.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if o.format != outputText {
		seen.stream = startStream(a.env.Stdout)
	}
	observer := observe.New(clock, time.Duration(o.interval), seen)
	observer.Set(watching, job.sources())
	live := a.watch()
	defer live.Done()
	a.follow(ctx, job, seen, live, func(sources []observe.Source) { observer.Set(watching, sources) })
	observer.Close()
	live.Done()
	now := clock.Now()
	picture := seen.look(now)
	for _, line := range seen.news(picture, now) {
		a.say("%s  %s", a.clockTime(), line)
	}
	seen.end(now)
	lost := rec.close(a.env.Now())
	unread := seen.stream.end()
	read, nothing := seen.readOf(job.sources(), job.logs)
	if o.format == outputText {
		a.printWatch(seen, picture, o, read, nothing)
	}
	switch {
	case lost != nil:
		return unmeasured(unwrittenHint(lost, "--record"), "writing the record: %w", lost)
	case unread > 0:
		return unmeasured("whoever reads standard output has to be as fast as the samples are", "%d lines were not read by anybody, and are lost", unread)
	case !read:
		return unmeasured("ask one of the pages with curl from here, or watch for longer with --duration", "nothing was read: %s", unreadTexts(nothing))
	}
	return nil
}

// follow looks at what is observed once an interval.
func (a *app) follow(ctx context.Context, job *watchJob, seen *sightings, live *status, set func([]observe.Source)) {
	o := job.options
	var over <-chan time.Time
	if o.duration > 0 {
		end := time.NewTimer(time.Duration(o.duration))
		defer end.Stop()
		over = end.C
	}
	every := time.NewTicker(time.Duration(o.interval))
	defer every.Stop()
	ended := false
	looked, skip := seen.clock.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-every.C:
		}
		if ended {
			return
		}
		select {
		case <-job.stdinEnded: // by the next tick, all of it will have been told
			ended = o.onlyStdin()
		default:
		}
		if job.reread() {
			set(job.sources())
		}
		now := seen.clock.Now()
		if err := seen.flush(); err != nil {
			a.say("the record cannot be written any more: %v", err)
		}
		if late := now - looked - time.Duration(o.interval); late > time.Duration(o.interval)+time.Second {
			// What the sources missed meanwhile is still on its way.
			a.say("%s  this program itself was stopped for %s", a.clockTime(), shortTime(late))
			skip = 2
		}
		if looked = now; skip > 0 {
			skip--
			continue
		}
		p := seen.look(now)
		for _, line := range seen.news(p, now) {
			a.say("%s  %s", a.clockTime(), line)
		}
		if o.format == outputText {
			live.Update(&fleetView{picture: p, logs: seen.logLines(), answered: seen.answered(), elapsed: now, paint: a.stderrPalette(), height: func() int { _, h := a.env.StderrTerm.size(); return h }})
		}
	}
}

// watchJob is what the options come to.
type watchJob struct {
	app     *app
	options *watchOptions
	client  *observe.Client
	token   string
	files   []*targetFile
	asked   bool // for the frontend's page, rather than taken to be the endpoint's own

	logs       map[string]*readBytes // of each log that is followed, by its name
	stdinEnded chan struct{}
}

func (a *app) prepareWatch(o *watchOptions) (*watchJob, error) {
	var wrong []error
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	j := &watchJob{app: a, options: o, asked: len(o.frontends) > 0, logs: map[string]*readBytes{}, stdinEnded: make(chan struct{})}
	if o.url == "" && len(o.workers)+len(o.frontends)+len(o.gpus)+len(o.nodes)+len(o.logs) == 0 && o.gpu != local {
		bad("name one, such as --url http://127.0.0.1:8000 or --worker-metrics http://127.0.0.1:9090", "there is nothing to watch")
	}
	if i := time.Duration(o.interval); i < 100*time.Millisecond || i > 10*time.Second {
		bad("a second is a good interval", "--interval: %s is not between 0.1s and 10s", i)
	}
	if o.duration < 0 {
		bad("0 goes on until Ctrl-C", "--duration: %s is negative", time.Duration(o.duration))
	}
	if o.url != "" {
		page, err := observe.ParseTarget(pageOfEndpoint(o.url))
		if err != nil {
			bad("write it as http://HOST:PORT", "--url: %w", err)
		} else if len(o.frontends) == 0 {
			o.frontends = []string{page.URL}
		}
	}
	for _, list := range [][]string{o.workers, o.frontends, o.gpus, o.nodes} {
		for i := range list {
			list[i] = withScheme(list[i])
		}
	}
	for _, f := range o.frontends {
		if _, err := observe.ParseTarget(f); err != nil {
			bad("write it as http://HOST:PORT/metrics", "--frontend-metrics: %w", err)
		}
	}
	for _, list := range []struct {
		flag   string
		values []string
	}{{"worker-metrics", o.workers}, {"gpu-metrics", o.gpus}, {"node-metrics", o.nodes}} {
		for _, v := range list.values {
			if isURL(v) {
				if _, err := observe.ParseTarget(v); err != nil {
					bad("write it as http://HOST:PORT/metrics", "--%s: %w", list.flag, err)
				}
			} else if v != local || list.flag != "node-metrics" {
				f := &targetFile{path: v, flag: list.flag, secrets: &a.secrets, ended: a.ended}
				j.files = append(j.files, f)
				if _, err := f.read(); err != nil {
					wrong = append(wrong, err)
				}
			}
		}
	}
	dashes := 0
	for _, v := range o.logs {
		l, worker := splitLog(v)
		if worker == "" && l != v {
			bad("write it as --log 'engine.log name=WORKER'", "--log: name= is empty")
		}
		if l == "-" {
			dashes++
		} else if err := readable(l); err != nil {
			bad("", "--log: %w", err)
		}
	}
	if dashes > 1 {
		bad("", "--log: standard input can be read once")
	}
	config, token, more := a.access(o)
	j.token = token
	a.secrets.add(token)
	for _, list := range [][]string{{o.url}, o.workers, o.frontends, o.gpus, o.nodes} {
		for _, address := range list {
			if isURL(address) {
				a.secrets.add(redact.InURL(address)...)
			}
		}
	}
	wrong = append(wrong, more...)
	transport := a.env.Network.transport()
	transport.TLSClientConfig = config
	j.client = observe.NewClient(transport)
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return j, nil
}

// pageOfEndpoint is the page of an endpoint. A gateway that wants a key in the query wants it
// there too.
func pageOfEndpoint(endpoint string) string {
	base, rest := endpoint, ""
	if i := strings.IndexAny(endpoint, "?#"); i >= 0 {
		base, rest = endpoint[:i], endpoint[i:]
	}
	return strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v1") + "/metrics" + rest
}

// clockTime is the time of day, which is what the other logs of an incident have.
func (a *app) clockTime() string { return a.env.Now().Format(time.TimeOnly) }

func isURL(v string) bool { return strings.Contains(v, "://") }

// pages makes the sources of one kind that a flag names, itself or by a file.
func (j *watchJob) pages(flag string, values []string, source func(observe.Target) observe.Source) (all []observe.Source) {
	for _, v := range values {
		if isURL(v) {
			if t, err := observe.ParseTarget(v); err == nil { // it was checked before
				all = append(all, source(t))
			}
		}
	}
	for _, f := range j.files {
		if f.flag == flag {
			for _, t := range f.targets {
				all = append(all, source(t))
			}
		}
	}
	return all
}

// workerPages are the workers' pages.
func (j *watchJob) workerPages() []observe.Source {
	return j.pages("worker-metrics", j.options.workers,
		func(t observe.Target) observe.Source { return observe.Worker(j.client, t.URL, t.Labels) })
}

// sources makes every source that is named, by a flag or by a file.
func (j *watchJob) sources() []observe.Source {
	o, c := j.options, j.client
	all := j.workerPages()
	each := func(flag string, values []string, source func(observe.Target) observe.Source) {
		all = append(all, j.pages(flag, values, source)...)
	}
	each("frontend-metrics", o.frontends, func(t observe.Target) observe.Source { return observe.Frontend(c, t.URL) })
	each("gpu-metrics", o.gpus, func(t observe.Target) observe.Source { return observe.DCGM(c, t.URL) })
	each("node-metrics", o.nodes, func(t observe.Target) observe.Source {
		token := ""
		if strings.HasPrefix(t.URL, "https:") {
			token = j.token
		}
		if page, _, _ := strings.Cut(t.URL, "?"); strings.HasSuffix(page, "/stats/summary") {
			return observe.Kubelet(c, t.URL, token)
		}
		return observe.NodeExporter(c, t.URL, token)
	})
	return append(all, j.localSources()...)
}

// settleURL finds out what the endpoint's own page is, when it was only supposed to
// be a frontend's: a worker that is asked directly has its own there. A proxy has that of
// one of its workers, another each time, so that it is none where anything else says how
// many there are.
func (j *watchJob) settleURL(ctx context.Context, workers int) {
	o := j.options
	if j.asked || o.url == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	page := o.frontends[0]
	_, err := observe.Frontend(j.client, page).Reader.Read(ctx)
	if !errors.Is(err, observe.ErrNoSuchPage) {
		return
	}
	o.frontends = nil
	source := observe.Worker(j.client, page, observe.Labels{})
	engines, notWorker := source.Reader.Read(ctx)
	const name = "name each worker's own page with --worker-metrics"
	switch {
	case notWorker != nil:
		j.app.say("the endpoint has no metrics page of its own: %v", err)
	case observe.AnswersForSeveral(ctx, source):
		j.app.say("the endpoint's metrics page answers for several processes, as that of a proxy before workers does, and is not observed: %s", name)
	case j.pagesOfWorkers() > 0:
		j.app.detail("the endpoint's own metrics page is not observed, since --worker-metrics names the workers' pages")
	case workers > max(1, len(engines)):
		j.app.say("the endpoint's metrics page tells of %d of %d workers, and is not observed: %s", len(engines), workers, name)
	default:
		j.app.say("the endpoint is a worker itself, with no frontend before it")
		o.workers = append(o.workers, page)
	}
}
