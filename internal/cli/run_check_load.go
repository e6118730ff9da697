package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"aicr/internal/checks"
	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/observe"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// loadGiven goes on with a run: it loads, observes, records and judges. What it prints is
// for the process that keeps it.
func (a *app) loadGiven(ctx context.Context, o *checkOptions) error {
	t := &lineTold{app: a, options: o}
	v, err := t.all(ctx)
	if err != nil {
		reason := "Error"
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			reason = "NoSpace"
		}
		t.line(graph.LoadLine{Kind: graph.LineError, Reason: reason, Text: err.Error()})
		return err
	}
	return checkCode(v.Verdict)
}

// lineTold tells how a load goes in lines.
type lineTold struct {
	app     *app
	options *checkOptions
	given   *givenRun
	lines   linePrinter

	mu   sync.Mutex
	last time.Time // progress was told
}

func (t *lineTold) all(ctx context.Context) (*spec.Verdict, error) {
	given, err := readGiven(t.options.given)
	if err != nil {
		return nil, err
	}
	t.given = given
	record, err := openRun(filepath.Join(t.options.results, recordFolder), given.run, given.plan)
	if err != nil {
		return nil, err
	}
	defer func() { _ = record.events.Close() }() // what was written is on the disk
	for _, e := range given.events {
		if err := record.Event(e); err != nil {
			return nil, err
		}
	}
	sources, missing, end := t.sources(ctx)
	defer end()
	endpoint, err := checks.NewEndpoint(t.endpoint(sources))
	if err != nil {
		return nil, unmeasured("", "what is to be loaded: %w", err)
	}
	before := given.events
	for _, m := range missing {
		t.note("not measured: " + m)
		e := spec.Event{T: endpoint.Now().Seconds(), Kind: spec.EventLog, Source: "targets", Text: "not measured: " + m}
		if err := record.Event(e); err != nil {
			return nil, err
		}
		before = append(before, e)
	}
	v, err := checks.Continue(ctx, given.plan, before, endpoint, record, t)
	if record.lost != nil {
		return nil, record.lost
	}
	if v == nil {
		return nil, err
	}
	return v, record.close(v, t.app.env.Now())
}

// endpoint is what is loaded.
func (t *lineTold) endpoint(sources []observe.Source) checks.EndpointOptions {
	g := t.given
	o := checks.EndpointOptions{
		Target: load.TargetOptions{URL: g.targets.URL, Endpoint: workload.Chat, UserAgent: "aicr/" + t.app.env.Build.Version},
		Model:  g.settings.Model, Sources: sources, Workers: g.plan.Point.Workers, Names: map[string]string{},
		Begun: g.begun, Point: g.plan.Point, Seed: g.plan.Seed,
		AnswerWithin: time.Duration(g.plan.Thresholds.AnswerWithinS * float64(time.Second)),
		Host:         hostFiles(), Progress: t.progress, Note: t.note,
	}
	o.Target.Dial = t.app.env.Network.dialer(o.Target)
	if g.settings.Gateway {
		name, value := graph.RouteHeader(&g.settings)
		o.Target.Header = http.Header{http.CanonicalHeaderKey(name): {value}}
	}
	for _, w := range g.targets.Workers {
		if u, err := url.Parse(w.URL); err == nil && u.Host != "" {
			o.Names[u.Host] = w.Name
		}
	}
	return o
}

// sources are the pages that are observed, and what is not, with the reason.
func (t *lineTold) sources(ctx context.Context) (all []observe.Source, missing []string, end func()) {
	g := &t.given.targets
	pages := observe.NewClient(t.app.env.Network.transport())
	end = pages.Close
	missing = append(missing, g.Missing...)
	if g.Frontend != "" {
		all = append(all, observe.Frontend(pages, g.Frontend))
	}
	for _, w := range g.Workers {
		all = append(all, observe.Worker(pages, w.URL, observe.Labels{Name: w.Name, Pod: w.Pod, GPU: w.GPU}))
	}
	var ours, pods []string // GPUs, where it is known of each worker which it has; else only an exporter may know
	for _, w := range g.Workers {
		pods = append(pods, w.Pod)
		if w.GPU != "" {
			ours = append(ours, w.GPU)
		}
	}
	if len(ours) < len(g.Workers) {
		ours = pods
	}
	for _, page := range g.GPUs {
		all = append(all, observe.DCGM(pages, page, ours...))
	}
	for _, page := range g.Nodes {
		all = append(all, observe.NodeExporter(pages, page, ""))
	}
	if g.Kubelet == "" {
		return all, missing, end
	}
	trust, token, err := accountOf(t.options.account)
	if err == nil {
		err = trusted(ctx, g.Kubelet, trust)
	}
	if err != nil {
		return all, append(missing, "the kubelet of the node: "+err.Error()), end
	}
	kubelet := observe.NewClient(&http.Transport{TLSClientConfig: trust, IdleConnTimeout: 2 * time.Minute})
	all = append(all, observe.Kubelet(kubelet, g.Kubelet, token))
	return all, missing, func() { pages.Close(); kubelet.Close() }
}

// accountOf reads what a pod's own account has: the token, and who is trusted.
func accountOf(dir string) (*tls.Config, string, error) {
	token, err := readWhole(nil, filepath.Join(dir, "token"), maxSecretFile)
	if err != nil {
		return nil, "", fmt.Errorf("the pod's account: %w", err)
	}
	ca, err := readWhole(nil, filepath.Join(dir, "ca.crt"), maxCertificate)
	if err != nil {
		return nil, "", fmt.Errorf("the pod's account: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, "", errors.New("the pod's account has no certificate")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, strings.TrimSpace(string(token)), nil
}

// trusted says why a page must not be sent a token: whoever has it may not be who it
// says. Many kubelets sign their certificate themselves.
func trusted(ctx context.Context, page string, trust *tls.Config) error {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "https" {
		return errors.New("its page is not one that is encrypted")
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := (&tls.Dialer{Config: trust}).DialContext(ctx, "tcp", host)
	if err == nil {
		return conn.Close()
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return errors.New("its certificate is not one that the cluster has signed, so that it is not sent a token")
	}
	return fmt.Errorf("it cannot be reached: %w", err)
}

// line prints one. The process that keeps this one numbers it.
func (t *lineTold) line(l graph.LoadLine) { t.lines.write(t.app.env.Stdout, l) }

func (t *lineTold) note(text string) { t.line(graph.LoadLine{Kind: graph.LineNote, Text: text}) }

// Stage is told of a stage.
func (t *lineTold) Stage(stage string, number int) {
	text := "waiting for every worker to answer"
	switch {
	case stage == stageEpisode && number == 0:
		text = "half the load"
	case stage == stageEpisode:
		text = fmt.Sprintf("episode %d of at most %d", number, t.given.plan.Thresholds.MaxEpisodes)
	}
	t.line(graph.LoadLine{Kind: graph.LineStage, Stage: stage, Number: number, Text: text})
}

// progressEvery is how often it is told how an episode goes.
const progressEvery = 2 * time.Second

func (t *lineTold) progress(p checks.Progress) {
	t.mu.Lock()
	due := time.Since(t.last) >= progressEvery
	if due {
		t.last = time.Now()
	}
	t.mu.Unlock()
	if !due {
		return
	}
	rate := p.TokensPerS
	if math.IsNaN(rate) {
		rate = 0 // the first moment: nothing was counted yet
	}
	t.line(graph.LoadLine{Kind: graph.LineProgress, Number: p.Episode,
		Text: fmt.Sprintf("%s: %d of %d in flight, %s tokens/s, ttft p50 %s p99 %s, %s", p.Elapsed.Round(time.Second), p.InFlight, p.Point.Concurrency,
			layout.Number(rate), layout.Short(p.TTFT50), layout.Short(p.TTFT99), layout.Plural(int(p.Failed), "error")),
		Progress: &graph.LoadProgress{Elapsed: graph.Duration(p.Elapsed), Concurrency: p.Point.Concurrency, InFlight: p.InFlight, Sent: p.Sent, Done: p.Done,
			Failed: p.Failed, Tokens: p.Tokens, TokensPerS: rate, TTFT50: graph.Duration(p.TTFT50), TTFT99: graph.Duration(p.TTFT99)}})
}

// Episode tells what an episode came to: no more than somebody follows.
func (t *lineTold) Episode(e *spec.Episode) {
	brief := &spec.Episode{Schema: e.Schema, Number: e.Number, Start: e.Start, LoadedS: e.LoadedS, Requests: e.Requests, Tokens: e.Tokens}
	for _, f := range e.Figures {
		if f.Name == judge.Throughput || f.Name == judge.GrossThroughput || f.Name == judge.FirstToken {
			brief.Figures = append(brief.Figures, f)
		}
	}
	t.line(graph.LoadLine{Kind: graph.LineEpisode, Number: e.Number, Text: episodeFigures(e), Episode: brief})
}

// Judged is told what an episode made of the case.
func (t *lineTold) Judged(number int, v *spec.Verdict, next *judge.Next) {
	l := graph.LoadLine{Kind: graph.LineJudged, Number: number, Verdict: briefVerdict(v), Text: fmt.Sprintf("after episode %d: %s: %s", number, v.Verdict, v.Reason)}
	if next != nil {
		l.Next = &graph.LoadNext{Why: next.Why, Retry: next.Retry}
	}
	t.line(l)
}
