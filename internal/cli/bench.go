package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/redact"
	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
)

func newBench(a *app) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:     "bench --url URL",
		Aliases: []string{"profile"},
		Short:   "Load an LLM endpoint and measure what it does",
		Long: `Sends chat completions on a schedule, stamps each token as it arrives, and
prints throughput and latencies by AIPerf's definitions, with the engine's audit
of itself: when the client was the limit, the result is INVALID. A call of
'aiperf profile' runs with only the program's name changed.

Exit codes: 0 every request was served; 1 more failed than --max-error-share
allows; 2 bad usage, or the server is not ready; 3 invalid: the client was the
limit, or what the server sent cannot be; or inconclusive; 130 interrupted.`,
		Example: `  aicr bench --demo
  aicr bench --url http://localhost:8000 --model Qwen/Qwen3-8B --concurrency 64 --request-count 512
  aicr bench --url https://llm.example --api-key-file key --request-rate 10 --benchmark-duration 60
  aicr bench --url http://localhost:8000 --inputs artifacts/inputs.json --concurrency 16 --definitions`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd.Context(), &o) },
	}
	o.define(cmd)
	return cmd
}

// bench is the command from its options to its exit code.
func (a *app) bench(ctx context.Context, o *benchOptions) error {
	job, err := o.check(a)
	out, outErr := openArtifacts(o.dir, o.prefix, o.level)
	files, badReports := o.reports.check(o.format, 1)
	if err := errors.Join(err, outErr, badReports); err != nil {
		return err
	}
	a.warnOfReports(files)
	if o.demo {
		stop, err := job.startDemo(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	target, err := load.NewTarget(job.target)
	if err != nil {
		return misuse(targetHint(err), "%w", err)
	}
	if err := job.fitDescriptors(target); err != nil {
		return err
	}
	probe, work, err := a.prepareLoad(ctx, job, target)
	if err != nil {
		return err
	}
	var addresses map[uint64]string
	if probe.Workers {
		addresses = load.AddressesOf(target.Instances(ctx))
	}
	res, err := a.runLoad(ctx, job, target, work, probe.Closes)
	if err != nil {
		return err
	}
	// Ten million records are 2.5 GB that hold no pointer: collecting often costs
	// little, and garbage as large as they are must not pile up beside them.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	made := &benchReport{app: a, job: job, target: target, probe: probe, work: work, res: res, addresses: addresses}
	doc := made.document()
	// What could not be written is no reason to keep the result from the user.
	err = out.write(made, doc)
	brief := &spec.Report{Verdict: &spec.Verdict{Verdict: doc.Verdict, Reason: doc.Reason}, Bench: doc}
	err = errors.Join(err, a.printReport(brief, o.format, files))
	if len(files) > 0 {
		err = errors.Join(err, a.writeReports(made.report(doc), files))
	}
	return errors.Join(err, exitOf(doc.Verdict))
}

// fitDescriptors makes room for the connections of the load. The demo's server is in this
// process, and has as many again.
func (j *benchJob) fitDescriptors(target *load.Target) error {
	connections := max(j.main.Users, j.warmup.Users)
	if j.options.demo {
		connections *= 2
	}
	if limit, ok := errors.AsType[*load.DescriptorLimit](target.FitDescriptors(connections)); ok {
		return misuse(limit.Hint(), "%w", limit)
	}
	return nil
}

// exitOf is how a run with that verdict ends. Only a pass is one: what is not
// known here is not measured.
func exitOf(verdict spec.State) error {
	switch verdict {
	case spec.Pass:
		return nil
	case spec.Fail:
		return Failed
	case spec.Invalid, spec.Inconclusive, spec.Skip, spec.NotJudged, spec.NotRun:
	}
	return Unmeasured
}

// The demo: enough users and requests to show every part of the report in some
// ten seconds.
const (
	demoUsers    = 16
	demoRequests = 128
)

// startDemo serves a simulated fleet on loopback: three workers, quick enough to
// have the whole demo over in some ten seconds. They have fewer places than the demo
// has users: who waits for one has a first token late enough for the audit to
// bear the stalls of a busy machine, which fleet and engine share here.
func (j *benchJob) startDemo(ctx context.Context) (stop func(), err error) {
	s, _ := spec.NewScenario("demo", "small")
	s.Fleet.Workers, s.Fleet.MaxSequences = 3, 3
	s.Fleet.Timing.Base, s.Fleet.Timing.Host = spec.Duration(4*time.Millisecond), spec.Duration(time.Millisecond)
	fleet := sim.NewLive(s, 1, 1)
	listener, err := j.network.listen("127.0.0.1:0")
	if err != nil {
		return nil, unmeasured("", "starting the demo endpoint: %w", err)
	}
	srv := &http.Server{Handler: serve.New(fleet, s, serve.Options{Model: "demo"}).Frontend()}
	go func() { _ = srv.Serve(listener) }() // it ends by Close
	// An interrupt ends the load in good order, for which the fleet is still needed.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go fleet.Run(ctx)
	j.target.URL, j.spec.Model = "http://"+listener.Addr().String(), "demo"
	j.target.Dial = j.network.dialer(j.target)
	return func() {
		_ = srv.Close()
		cancel()
	}, nil
}

// prepareLoad probes the server and builds the requests that it takes.
func (a *app) prepareLoad(ctx context.Context, j *benchJob, target *load.Target) (*load.Probe, *workload.Workload, error) {
	o := j.options
	if o.noProbe {
		if err := target.Lookup(ctx); err != nil {
			return nil, nil, probeProblem(j, err)
		}
		w := j.replay
		var err error
		if w == nil {
			w, err = workload.Synthetic(j.spec)
		}
		return &load.Probe{Model: j.modelName(), Fields: j.spec.Fields}, w, err
	}
	waiting := a.watch()
	begun := a.env.Now()
	over := make(chan struct{})
	go tick(over, func() { waiting.Update(probing{target.String(), a.env.Now().Sub(begun)}) })
	probe, work, err := j.probe(ctx, target)
	close(over)
	waiting.Done()
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, probeProblem(j, err)
	}
	for i := range probe.Refused {
		probe.Refused[i].Message = j.foreign(probe.Refused[i].Message)
	}
	a.detail("probed with %d requests: first token after %s", probe.Requests, probe.FirstAnswer.Round(time.Millisecond))
	return probe, work, nil
}

func (j *benchJob) probe(ctx context.Context, target *load.Target) (*load.Probe, *workload.Workload, error) {
	timeout := time.Duration(j.options.timeout)
	if j.replay != nil {
		p, err := load.Knock(ctx, target, j.replay, timeout)
		if err == nil {
			p.Model = j.modelName()
		}
		return p, j.replay, err
	}
	p, err := load.Examine(ctx, target, j.spec, timeout)
	if err != nil {
		return nil, nil, err
	}
	fitted := j.spec
	fitted.Model, fitted.Fields, fitted.Calibration = p.Model, p.Fields, p.Calibration
	w, err := workload.Synthetic(fitted)
	return p, w, err
}

// modelName is the model that is asked for: the one that was named, or that the
// first of the bodies to be replayed names.
func (j *benchJob) modelName() string {
	if j.spec.Model != "" || j.replay == nil || j.replay.Len() == 0 {
		return j.spec.Model
	}
	var body struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(j.replay.Body(nil, 0), &body) // it was read before
	return body.Model
}

// tick calls f now and then until over is closed.
func tick(over <-chan struct{}, f func()) {
	t := time.NewTicker(blockEvery)
	defer t.Stop()
	for {
		f()
		select {
		case <-over:
			return
		case <-t.C:
		}
	}
}

// runLoad carries out the load; closes: the server does not keep its connections.
func (a *app) runLoad(ctx context.Context, j *benchJob, target *load.Target, work *workload.Workload, closes bool) (*load.Result, error) {
	o := j.options
	plan := &load.Plan{
		Target: target, Work: work, Warmup: j.warmup, Main: j.main, Sentinel: o.sentinel,
		Timeout: time.Duration(o.timeout), Grace: time.Duration(o.grace), Seed: j.spec.Seed,
		KeepTokens: o.keep == "tokens", Choices: o.definitions, NoReuse: o.reuse == neverReuse || closes, Senders: o.workers, Host: hostFiles(),
	}
	switch o.wire {
	case "loop":
		plan.Wire = load.LoopWire
	case "goroutines":
		plan.Wire = load.GoroutineWire
	}
	live := &load.Live{}
	view := &progress{live: live, plan: plan}
	if o.ui != "none" {
		shown := a.watch()
		defer shown.Done()
		over := make(chan struct{})
		defer close(over)
		go tick(over, func() {
			view.sample(a.env.Now())
			shown.Update(view)
		})
	}
	res, err := load.Run(ctx, plan, live)
	if err != nil {
		return nil, unmeasured("", "running the load: %w", err)
	}
	for i, text := range res.Log.Details {
		res.Log.Details[i] = j.foreign(text)
	}
	return res, nil
}

// someNames lists the first of a server's names, each on one line and cut.
func someNames(names []string) string {
	const most, longest = 10, 100
	var shown []string
	for _, name := range names[:min(len(names), most)] {
		shown = append(shown, redact.Cut(redact.Clean(name), longest))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// foreign makes a server's words fit to be shown and kept: some repeat the key that they
// refuse.
func (j *benchJob) foreign(text string) string { return redact.Clean(j.mask.Foreign(text)) }

// probeProblem says what to do about a server that could not be probed.
func probeProblem(j *benchJob, err error) error {
	url := redact.URL(j.target.URL)
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		// The layers below name the host once each; once is enough.
		return misuse(connectHint(err), "looking up %s: %s", redact.Clean(dns.Name), dns.Err)
	}
	f, ok := errors.AsType[*load.Failure](err)
	if !ok {
		return &Problem{Code: Misused, Cause: fmt.Errorf("probing %s: %w", url, err), Hint: connectHint(err)}
	}
	f.Message = j.foreign(f.Message)
	hint := ""
	switch f.Class {
	case load.Connect:
		hint = connectHint(f)
	case load.TLSFailed:
		hint = "give the server's certificates with --ca-cert, or check that the port speaks TLS"
	case load.HTTPStatus:
		hint = statusHint(j, f)
	case load.BadStream:
		switch {
		case len(f.Models) > 0:
			hint = "name one of them with --model: " + someNames(f.Models)
		case f.Unlisted:
			hint = "name the model with --model, where the server has one and does not list it; --url must be the base of an OpenAI-compatible API"
		case strings.Contains(f.Message, "HTML"):
			hint = "that is a web page: check the host, the port and the path of --url"
		case strings.Contains(f.Message, "HTTP/1.1"):
			hint = "check the port; if it speaks TLS, use https:// in --url"
		default:
			hint = "--url must be the base of an OpenAI-compatible API that can stream"
		}
	case load.Timeout:
		hint = "allow more with --request-timeout-seconds, or look at the server's log: it accepted the request and sent no answer"
	case load.NoTokens:
		hint = "the server is up and serves nothing: look at its workers"
	case load.Unsolicited:
		hint = "the server, or a proxy before it, sends more than the answer: ask a worker without what is between"
	case load.Oversized:
		hint = "the server does not end its answers: does it take max_tokens?"
	case load.ErrorEvent, load.Truncated, load.Reset:
		hint = "look at the server's log: it accepted the request and broke it off"
	case load.OK, load.Interrupt:
	}
	return &Problem{Code: Misused, Cause: fmt.Errorf("probing %s: %w", url, f), Hint: hint}
}

func connectHint(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "check the host in --url; a service of a cluster has a name only inside of it"
	}
	return "check the host and port in --url, and that the server is up; kubectl port-forward reaches one inside a cluster"
}

func statusHint(j *benchJob, f *load.Failure) string {
	const giveKey = "give a key with --api-key-file or AICR_API_KEY"
	switch {
	case f.TooLong:
		return load.ContextHint
	case f.Status == 401, f.Status == 403:
		if j.target.APIKey == "" {
			return giveKey
		}
		return "the server does not take this API key"
	case f.Unlisted && f.Status == 404:
		return "check the path of --url: it must be the base of an OpenAI-compatible API; one that does not list its models serves the one that --model names"
	case f.Unlisted && f.Status >= 500 && j.target.APIKey == "":
		return "name the model with --model, or " + giveKey + " where the server wants one; else look at the server's log"
	case f.Unlisted:
		return "name the model with --model, or look at the server's log"
	}
	switch f.Status {
	case 404:
		switch {
		case f.Models == nil:
			return "check the path of --url: it has no OpenAI API below it"
		case len(f.Models) == 0:
			return "the server has no model yet: its workers are absent, or not registered"
		}
		return "the server has: " + someNames(f.Models)
	case 429, 503, 529:
		return "the server is up and takes no requests now: wait until it is ready"
	case 301, 302, 307, 308:
		return "redirects are not followed: give the final address in --url"
	}
	if f.Status >= 500 {
		return "look at the server's log, and whether its workers are up"
	}
	return "the server refuses this kind of request: see --endpoint-type, --extra-inputs and the --no-… flags"
}
