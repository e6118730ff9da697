package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/load"
	"aicr/internal/load/metric"
	"aicr/internal/load/workload"
	"aicr/internal/redact"
)

// benchOptions are the flags of aicr bench. They have AIPerf's names where
// AIPerf has the thing.
type benchOptions struct {
	url, model   string
	demo         bool
	endpoint     string
	keyFile      string
	headers      []string
	caFile       string
	insecure     bool
	proxy        string
	http         string
	reuse        string
	timeout      seconds
	noProbe      bool
	streaming    bool
	input        int
	inputStdDev  float64
	output       int
	outputStdDev float64
	entries      int64
	seed         int64
	inputsFile   string
	datasetFile  string
	extra        []string
	noMinTokens  bool
	noIgnoreEOS  bool
	noTemp       bool
	noUsage      bool
	noWorkerID   bool

	concurrency int
	ramp        seconds
	rate        float64
	pattern     string
	smoothness  float64
	count       int64
	duration    seconds
	forever     bool
	grace       seconds
	warmup      int64
	sentinel    float64
	wire        string
	workers     int

	dir         string
	prefix      string
	level       string
	keep        string
	goodput     []string
	errorShare  float64
	definitions bool
	format      string
	reports     reportFlags
	ui          string
	tokenizer   string
	serverCount bool

	changed func(flag string) bool
}

// neverReuse is the --connection-reuse-strategy that takes a connection for each request.
const neverReuse = "never"

// defineReuse offers the strategy, to every command that loads an endpoint.
func (o *benchOptions) defineReuse(f *pflag.FlagSet) {
	f.Var(newChoice(&o.reuse, "pooled", neverReuse), "connection-reuse-strategy", "keep connections open, or open one for each request, which is done in any case where the server keeps none")
}

func (o *benchOptions) define(cmd *cobra.Command) {
	o.changed = func(flag string) bool { return cmd.Flags().Changed(flag) }
	section(cmd, "Target", func(f *pflag.FlagSet) {
		f.StringVarP(&o.url, "url", "u", "", "base `URL` of the endpoint, with or without /v1")
		f.StringVarP(&o.model, "model", "m", "", "`NAME` of the model; the only one that the server has, when not given")
		alias(f, "model", "model-names")
		f.BoolVar(&o.demo, "demo", false, "load an endpoint inside this program instead")
		f.Var(newChoice(&o.endpoint, "chat", "completions"), "endpoint-type", "API to use")
		f.StringVar(&o.keyFile, "api-key-file", "", "`FILE` with the bearer token; AICR_API_KEY is the other way to give it")
		f.StringArrayVarP(&o.headers, "header", "H", nil, "`NAME:VALUE` of a header to send with each request; may be given again")
		secret(f, "header")
		f.StringVar(&o.caFile, "ca-cert", "", "`FILE` with the PEM certificates to trust instead of the system's")
		f.BoolVar(&o.insecure, "insecure-skip-tls-verify", false, "do not check the server's certificate")
		f.StringVar(&o.proxy, "proxy", "", "`URL` of an HTTP proxy; the proxy variables of the environment are not read")
		secret(f, "proxy")
		f.Var(newChoice(&o.http, "auto", "1.1", "2"), "http-version", "version of HTTP; auto is 1.1 unless the server insists on 2")
		o.defineReuse(f)
		o.timeout = seconds(10 * time.Minute)
		f.Var(&o.timeout, "request-timeout-seconds", "give up a request after this `TIME`")
		alias(f, "request-timeout-seconds", "request-timeout")
		f.BoolVar(&o.noProbe, "no-probe", false, "send no probes before the load: nothing is calibrated, and a refused field fails every request")
	})
	section(cmd, "Workload", func(f *pflag.FlagSet) {
		f.IntVar(&o.input, "prompt-input-tokens-mean", 128, "`TOKENS` of each prompt as the server counts them, chat template included")
		alias(f, "prompt-input-tokens-mean", "isl", "synthetic-input-tokens-mean")
		f.Float64Var(&o.inputStdDev, "prompt-input-tokens-stddev", 0, "standard deviation of the prompts' length, in `TOKENS`")
		alias(f, "prompt-input-tokens-stddev", "synthetic-input-tokens-stddev")
		f.IntVar(&o.output, "prompt-output-tokens-mean", 128, "`TOKENS` of each answer")
		alias(f, "prompt-output-tokens-mean", "osl", "output-tokens-mean")
		f.Float64Var(&o.outputStdDev, "prompt-output-tokens-stddev", 0, "standard deviation of the answers' length, in `TOKENS`")
		alias(f, "prompt-output-tokens-stddev", "output-tokens-stddev")
		f.Int64Var(&o.entries, "num-dataset-entries", 0, "recycle `N` prompts, which a prefix cache will know; 0: every prompt is unique")
		alias(f, "num-dataset-entries", "num-prompts", "conversation-num")
		f.Int64Var(&o.seed, "random-seed", 0, "`NUMBER` that pins prompts and arrivals; drawn anew and printed when not given, since a server that has seen the same prompts answers from its cache")
		f.StringVar(&o.inputsFile, "inputs", "", "replay AIPerf's inputs.json from `FILE`")
		f.StringVar(&o.datasetFile, "dataset", "", "take prompts or whole chat bodies from `FILE`, one JSON value a line")
		alias(f, "dataset", "input-file")
		f.StringArrayVar(&o.extra, "extra-inputs", nil, "`KEY:VALUE` or JSON object to add to every body; may be given again")
		f.BoolVar(&o.noMinTokens, "no-min-tokens", false, "leave min_tokens out of the bodies")
		f.BoolVar(&o.noIgnoreEOS, "no-ignore-eos", false, "leave ignore_eos out of the bodies")
		f.BoolVar(&o.noTemp, "no-temperature", false, "leave temperature out of the bodies, which is 0 otherwise")
		f.BoolVar(&o.noUsage, "no-usage", false, "leave stream_options.include_usage out of the bodies: tokens are then counted as chunks")
		f.BoolVar(&o.noWorkerID, "no-worker-id", false, "do not ask who served a request (nvext.extra_fields)")
	})
	section(cmd, "Schedule", func(f *pflag.FlagSet) {
		f.IntVarP(&o.concurrency, "concurrency", "c", 1, "`N` requests to hold in flight; with --request-rate the most at once, and then unlimited when not given")
		f.Var(&o.ramp, "ramp", "start the users evenly over this `TIME`")
		alias(f, "ramp", "concurrency-ramp-duration")
		f.Float64Var(&o.rate, "request-rate", 0, "send `N` requests a second, whatever the answers do")
		f.Var(newChoice(&o.pattern, "poisson", "constant", "gamma"), "arrival-pattern", "law of the arrivals of --request-rate")
		alias(f, "arrival-pattern", "request-rate-mode")
		f.Float64Var(&o.smoothness, "arrival-smoothness", 1, "`SHAPE` of gamma arrivals: 1 is Poisson, more is more even")
		alias(f, "arrival-smoothness", "vllm-burstiness")
		f.Int64Var(&o.count, "request-count", 0, "stop after `N` requests (default: 2 for each user, 10 at least, when no other end is given)")
		alias(f, "request-count", "num-requests")
		f.Var(&o.duration, "benchmark-duration", "stop sending after this `TIME`")
		f.BoolVar(&o.forever, "until-interrupted", false, "go on until Ctrl-C")
		o.grace = seconds(30 * time.Second)
		f.Var(&o.grace, "benchmark-grace-period", "`TIME` to wait for what is in flight when sending has stopped")
		f.Int64Var(&o.warmup, "warmup-request-count", 0, "`N` requests to send, and wait for, before measuring")
		alias(f, "warmup-request-count", "num-warmup-requests")
		f.Float64Var(&o.sentinel, "sentinel-rate", 0, "send `N` requests a second of the closed loop's load on a fixed schedule")
		f.Var(newChoice(&o.wire, "auto", "loop", "goroutines"), "wire", "what carries plain HTTP: an event loop (Linux) or a goroutine a connection")
		f.IntVar(&o.workers, "workers-max", 0, "`N` event loops to use; 0: as many as the load is worth")
		alias(f, "workers-max", "max-workers")
	})
	section(cmd, "Results", func(f *pflag.FlagSet) {
		f.StringVar(&o.dir, "output-artifact-dir", "artifacts", "`DIR` for profile_export_aiperf.json and the rest")
		alias(f, "output-artifact-dir", "artifact-dir")
		f.StringVar(&o.prefix, "profile-export-prefix", "", "`NAME` of the exported files, instead of profile_export")
		alias(f, "profile-export-prefix", "profile-export-file")
		f.Var(newChoice(&o.level, "records", "summary", "raw"), "export-level", "summary leaves out the line for each request; raw is the same as records")
		alias(f, "export-level", "profile-export-level")
		f.Var(newChoice(&o.keep, "records", "tokens"), "keep", "tokens keeps the stamp of every token, 8 bytes each, for exact gaps between tokens")
		f.StringArrayVar(&o.goodput, "goodput", nil, "`TAG:LIMIT` that a good request keeps, such as time_to_first_token:500; may be given again")
		f.Float64Var(&o.errorShare, "max-error-share", 0, "`SHARE` of failed requests that is still a PASS")
		f.BoolVar(&o.definitions, "definitions", false, "also print what vLLM, SGLang, GuideLLM and inference-perf would call and compute")
		o.reports.define(f)
		outputFlag(f, &o.format)
	})
	completesReports(cmd)
	section(cmd, "Accepted so that a call of AIPerf runs", func(f *pflag.FlagSet) {
		f.BoolVar(&o.streaming, "streaming", true, "always on: there is no first token to time without it")
		f.Var(newChoice(&o.ui, "simple", "none", "dashboard"), "ui-type", "none shows no progress; the others are the same here")
		alias(f, "ui-type", "ui")
		f.StringVar(&o.tokenizer, "tokenizer", "", "`NAME` is not used: the server counts")
		f.BoolVar(&o.serverCount, "use-server-token-count", true, "always on")
	})
	alsoReads(cmd, "AICR_API_KEY", "bearer token for the endpoint")
}

// seconds is a flag that takes a number of seconds, as AIPerf's do, or a
// duration such as 90s or 5m.
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }

func (s *seconds) Type() string { return "seconds" }

func (s *seconds) Set(text string) error {
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(f) || math.Abs(f) > 1e9 {
			return errors.New("want a number of seconds")
		}
		*s = seconds(f * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want a number of seconds, or a duration such as 90s or 5m")
	}
	*s = seconds(d)
	return nil
}

// benchJob is what the options come to once they have been checked.
type benchJob struct {
	options  *benchOptions
	target   load.TargetOptions
	network  Network
	spec     workload.Spec
	replay   *workload.Workload // instead of spec: bodies from a file
	main     load.Schedule
	warmup   load.Schedule
	goodput  []metric.SLO
	seedText string
	mask     *redact.Mask // of what the server is told in confidence
}

// check finds everything that is wrong with the options at once, before
// anything is touched.
func (o *benchOptions) check(a *app) (*benchJob, error) {
	var wrong []error
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	j := &benchJob{options: o, network: a.env.Network}

	switch {
	case o.url == "" && !o.demo:
		bad("name the endpoint with --url http://host:port, or try --demo", "no --url")
	case o.url != "" && o.demo:
		bad("leave one of them out", "--url and --demo are both given")
	}
	if !o.streaming {
		bad("leave --streaming=false out: first tokens are only seen in a stream", "answers that are not streamed cannot be measured")
	}
	j.target = load.TargetOptions{URL: o.url, Endpoint: workload.Endpoint(o.endpoint), Proxy: o.proxy,
		UserAgent: "aicr/" + a.env.Build.Version, HTTP2: o.http == "2"}
	j.target.Dial = a.env.Network.dialer(j.target)
	wrong = append(wrong, o.checkSecrets(a, &j.target)...)
	j.mask = a.secrets.known()
	if o.url != "" {
		if _, err := load.NewTarget(j.target); err != nil {
			bad(targetHint(err), "%w", err)
		} else if port := portOf(o.url); port != "" {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				bad("ports go from 1 to 65535", "reading the URL: %q is not a port", port)
			}
		}
	}
	wrong = append(wrong, o.checkSchedule(j)...)
	wrong = append(wrong, o.checkWorkload(a, j)...)
	if o.errorShare < 0 || o.errorShare > 1 {
		bad("0.01 allows one request in a hundred to fail", "--max-error-share: %v is not between 0 and 1", o.errorShare)
	}
	for _, text := range o.goodput {
		for pair := range strings.FieldsSeq(text) {
			tag, limit, ok := strings.Cut(pair, ":")
			value, err := strconv.ParseFloat(limit, 64)
			if !ok || err != nil {
				bad("write it as time_to_first_token:500", "--goodput: %q is not TAG:LIMIT", pair)
				continue
			}
			j.goodput = append(j.goodput, metric.SLO{Tag: tag, Limit: value})
		}
	}
	if err := (metric.Options{SLOs: j.goodput}).Validate(); err != nil {
		bad("such as time_to_first_token, inter_token_latency or request_latency", "--%w", err)
	}
	return j, errors.Join(wrong...)
}

// targetHint says what to do about a target that cannot be one.
func targetHint(err error) string {
	if wrong, ok := errors.AsType[*load.TargetError](err); ok {
		switch wrong.Fault {
		case load.FaultURL:
		case load.FaultSecret:
			return "give a key with --api-key-file or AICR_API_KEY, or another secret with AICR_HEADER"
		case load.FaultProxy:
			return "want --proxy http://host:port"
		case load.FaultHeader:
			return "a header and a key are one line each"
		}
	}
	return "want --url http://host:port or https://host:port"
}

func portOf(raw string) string {
	if _, rest, ok := strings.Cut(raw, "://"); ok {
		raw = rest
	}
	u, err := url.Parse("http://" + raw)
	if err != nil {
		return ""
	}
	return u.Port()
}

func (o *benchOptions) checkSecrets(a *app, t *load.TargetOptions) (wrong []error) {
	if o.keyFile != "" {
		b, err := readWhole(a.ended, o.keyFile, maxSecretFile)
		t.APIKey = strings.TrimSpace(string(b))
		switch {
		case err != nil:
			wrong = append(wrong, misuse("write the bare key into the file that --api-key-file names", "reading the API key: %w", unnamed(err)))
		case t.APIKey == "":
			wrong = append(wrong, misuse("write the bare key into the file that --api-key-file names", "reading the API key: %s is empty", o.keyFile))
		}
	} else if key, ok := a.env.LookupEnv("AICR_API_KEY"); ok {
		t.APIKey = strings.TrimSpace(key)
	}
	t.Header = http.Header{}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\"(),/;<=>?@[\\]{}") {
			wrong = append(wrong, misuse("write it as --header Name:value", "--header: not NAME:VALUE"))
			continue
		}
		t.Header.Add(name, strings.TrimSpace(value))
	}
	a.secrets.add(t.Secrets()...)
	var err error
	if t.TLS, err = tlsConfig(a.ended, o.caFile, o.insecure); err != nil {
		wrong = append(wrong, err)
	}
	return wrong
}

func (o *benchOptions) checkSchedule(j *benchJob) (wrong []error) {
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	if o.demo && !o.changed("concurrency") {
		o.concurrency = demoUsers
	}
	open := o.rate > 0
	switch {
	case o.rate < 0 || math.IsNaN(o.rate) || math.IsInf(o.rate, 0):
		bad("ask for more than 0 requests a second", "--request-rate: %v requests a second is not possible", o.rate)
	case o.concurrency < 1:
		bad("ask for at least 1 request in flight", "--concurrency: %d is below 1", o.concurrency)
	}
	users := o.concurrency
	if open && !o.changed("concurrency") {
		users = 0
	}
	pattern, err := load.ParsePattern(o.pattern)
	if err != nil {
		bad("use poisson, constant or gamma", "--arrival-pattern: %w", err)
	}
	if o.smoothness <= 0 || math.IsNaN(o.smoothness) || math.IsInf(o.smoothness, 0) {
		bad("1 is Poisson", "--arrival-smoothness: %v is not above 0", o.smoothness)
	}
	for _, d := range []struct {
		flag  string
		value seconds
	}{{"ramp", o.ramp}, {"benchmark-duration", o.duration}, {"benchmark-grace-period", o.grace}} {
		if d.value < 0 {
			bad("give a number of seconds, or a duration such as 90s", "--%s: %s is below 0", d.flag, time.Duration(d.value))
		}
	}
	if o.timeout <= 0 {
		bad("give a number of seconds, or a duration such as 90s", "--request-timeout-seconds: %s is not above 0", time.Duration(o.timeout))
	}
	count := o.count
	ends := 0
	for _, given := range []bool{o.changed("request-count"), o.duration > 0, o.forever} {
		if given {
			ends++
		}
	}
	switch {
	case o.changed("request-count") && count < 1:
		bad("ask for at least 1 request", "--request-count: %d is below 1", count)
	case o.changed("request-count") && !open && count < int64(o.concurrency) && o.concurrency > 0:
		bad(fmt.Sprintf("send at least %d requests, or lower --concurrency", o.concurrency),
			"--request-count: %d requests cannot keep %d in flight", count, o.concurrency)
	case o.forever && ends > 1:
		bad("leave one of them out", "--until-interrupted goes with no other end")
	case ends == 0 && o.demo:
		count = demoRequests
	case ends == 0:
		count = max(10, 2*int64(users))
	}
	if o.warmup < 0 {
		bad("0 is no warm-up", "--warmup-request-count: %d is below 0", o.warmup)
	}
	switch {
	case o.sentinel < 0 || math.IsNaN(o.sentinel) || math.IsInf(o.sentinel, 0):
		bad("0 is no sentinel", "--sentinel-rate: %v requests a second is not possible", o.sentinel)
	case o.sentinel > 0 && open:
		bad("leave one of them out", "--sentinel-rate runs beside a closed loop, not beside --request-rate")
	}
	if o.workers < 0 {
		bad("0 is as many as the load needs", "--workers-max: %d is below 0", o.workers)
	}
	j.main = load.Schedule{Users: users, Ramp: time.Duration(o.ramp), Rate: o.rate, Pattern: pattern,
		Smoothness: o.smoothness, Count: count, Duration: time.Duration(o.duration)}
	if o.warmup > 0 {
		j.warmup = load.Schedule{Users: int(min(int64(max(1, users)), o.warmup)), Count: o.warmup}
	}
	return wrong
}

func (o *benchOptions) checkWorkload(a *app, j *benchJob) (wrong []error) {
	seed := o.seed
	j.seedText = "given"
	if !o.changed("random-seed") {
		seed = rand.Int64N(1 << 31)
		j.seedText = "drawn"
	}
	j.spec = workload.Spec{
		Model: o.model, Endpoint: workload.Endpoint(o.endpoint),
		InputTokens:  workload.Length{Mean: o.input, StdDev: o.inputStdDev},
		OutputTokens: workload.Length{Mean: o.output, StdDev: o.outputStdDev},
		Seed:         uint64(seed), Count: max(0, j.main.Count), Entries: o.entries,
		Fields: workload.Fields{IncludeUsage: !o.noUsage, MinTokens: !o.noMinTokens, IgnoreEOS: !o.noIgnoreEOS,
			Temperature0: !o.noTemp, WorkerID: !o.noWorkerID},
	}
	extra, err := workload.ParseExtra(o.extra)
	if err != nil {
		wrong = append(wrong, fieldProblems("--extra-inputs: ", err)...)
	}
	j.spec.Extra = extra
	if o.inputsFile != "" && o.datasetFile != "" {
		return append(wrong, misuse("leave one of them out", "--inputs and --dataset are both given"))
	}
	switch {
	case o.inputsFile != "":
		j.replay, err = readWorkload(a.ended, "--inputs", o.inputsFile, func(f io.Reader) (*workload.Workload, error) {
			return workload.ReadInputs(f, filepath.Base(o.inputsFile), workload.Replay{Model: o.model})
		})
	case o.datasetFile != "":
		if o.model == "" && !o.demo {
			wrong = append(wrong, misuse("name the model with --model", "--dataset needs a --model"))
		}
		j.replay, err = readWorkload(a.ended, "--dataset", o.datasetFile, func(f io.Reader) (*workload.Workload, error) {
			return workload.ReadDataset(f, filepath.Base(o.datasetFile), j.spec)
		})
	default:
		tried := j.spec // only to find what is wrong with it
		tried.Model = cmp.Or(tried.Model, "the server's own")
		_, err = workload.Synthetic(tried)
	}
	return append(wrong, fieldProblems("", err)...)
}

func readWorkload(ended <-chan struct{}, flag, path string, read func(io.Reader) (*workload.Workload, error)) (*workload.Workload, error) {
	f, err := openInput(ended, path)
	if err != nil {
		return nil, misuse("check the path in "+flag, "reading the requests: %w", err)
	}
	defer func() { _ = f.Close() }()
	return read(io.LimitReader(f, maxDatasetFile))
}

// fieldProblems words what the workload found wrong.
func fieldProblems(prefix string, err error) (wrong []error) {
	whole := ""
	if f, ok := errors.AsType[*workload.FileError](err); ok {
		whole = f.Hint
	}
	for _, p := range problems(err, Misused, whole) {
		hint := p.Hint
		if f, ok := errors.AsType[*workload.FieldError](p.Cause); ok {
			hint = f.Hint
		}
		wrong = append(wrong, misuse(hint, "%s%w", prefix, p.Cause))
	}
	return wrong
}

// hostFiles is the machine's file tree, for the engine's audit of itself.
func hostFiles() fs.FS { return os.DirFS("/") }
