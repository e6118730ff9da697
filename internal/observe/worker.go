package observe

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"aicr/internal/spec"
)

// Worker is the metrics page of a worker.
func Worker(c *Client, url string, l Labels) Source {
	page := &workerPage{}
	s := c.at(spec.SourceWorker, url, "", l, page)
	if f, ok := s.Reader.(*fetch); ok {
		s.Reader = &oneProcess{fetch: f}
	}
	s.Reader = besideLoad(c, url, s.Reader, page)
	return s
}

// The values of a worker's sample, by their names in its JSON.
const (
	fieldRunning       = "running"
	fieldWaiting       = "waiting"
	fieldDeferred      = "deferred"
	fieldInFlight      = "in_flight"
	fieldKVUsage       = "kv_usage"
	fieldAsleep        = "asleep"
	fieldGenerated     = "generated_tokens"
	fieldEndedTokens   = "ended_tokens"
	fieldPrompt        = "prompt_tokens"
	fieldPrefixQueries = "prefix_queries"
	fieldPrefixHits    = "prefix_hits"
	fieldPreemptions   = "preemptions"
	fieldRejected      = "rejected"
	fieldEnded         = "ended"
	fieldFailed        = "failed"
	fieldAborted       = "aborted"
)

// workerFields are the values that a page may tell. Of those that are extra nothing is
// said where a page has no such thing: most have not.
var workerFields = []struct {
	name  string
	extra bool
	into  func(*spec.WorkerSample) **float64
}{
	{fieldRunning, false, func(w *spec.WorkerSample) **float64 { return &w.Running }},
	{fieldWaiting, false, func(w *spec.WorkerSample) **float64 { return &w.Waiting }},
	{fieldDeferred, true, func(w *spec.WorkerSample) **float64 { return &w.Deferred }},
	{fieldInFlight, false, func(w *spec.WorkerSample) **float64 { return &w.InFlight }},
	{fieldKVUsage, false, func(w *spec.WorkerSample) **float64 { return &w.KVUsage }},
	{fieldAsleep, true, func(w *spec.WorkerSample) **float64 { return &w.Asleep }},
	{fieldGenerated, false, func(w *spec.WorkerSample) **float64 { return &w.Generated }},
	{fieldEndedTokens, true, func(w *spec.WorkerSample) **float64 { return &w.EndedTokens }},
	{fieldPrompt, false, func(w *spec.WorkerSample) **float64 { return &w.PromptTokens }},
	{fieldPrefixQueries, false, func(w *spec.WorkerSample) **float64 { return &w.PrefixQueries }},
	{fieldPrefixHits, false, func(w *spec.WorkerSample) **float64 { return &w.PrefixHits }},
	{fieldPreemptions, false, func(w *spec.WorkerSample) **float64 { return &w.Preemptions }},
	{fieldRejected, true, func(w *spec.WorkerSample) **float64 { return &w.Rejected }},
	{fieldEnded, false, func(w *spec.WorkerSample) **float64 { return &w.Ended }},
	{fieldFailed, false, func(w *spec.WorkerSample) **float64 { return &w.Failed }},
	{fieldAborted, true, func(w *spec.WorkerSample) **float64 { return &w.Aborted }},
}

// workerPage reads the metrics page of a worker, of whichever of the servers it is.
type workerPage struct {
	parser
	made    float64 // tokens by the page before, where they are estimated
	hasLoad bool    // it is of a server that may have a /load beside
}

// servedHTTP is what the page of a Python server has whatever it tells of its engine.
const servedHTTP = "http_request_duration_highr_seconds_count"

var workerNames = func() names {
	all := namesOf(workerStarted)
	all[servedHTTP] = true
	for i := range servers {
		maps.Copy(all, namesOf(servers[i].all()...))
	}
	return all
}()

func (w *workerPage) read(ctx context.Context, text []byte) ([]spec.Sample, error) {
	if start := bytes.TrimSpace(text); len(start) > 0 && (start[0] == '[' || start[0] == '{') {
		return nil, errJSON
	}
	p, err := w.parse(ctx, text, workerNames)
	if err != nil {
		return nil, err
	}
	started := greatest(workerStarted.in(p))
	index := indexed(p)
	if len(index.servers) == 0 {
		return nil, notAWorker(p)
	}
	w.hasLoad = slices.ContainsFunc(index.servers, func(s *server) bool { return s.load != "" })
	id := workerID(p)
	engines := index.engines()
	if err := LimitEngines.within(len(engines)); err != nil {
		return nil, err
	}
	samples := make([]spec.Sample, 0, len(engines))
	for _, engine := range engines {
		s := index.sample(engine, len(engines) == 1)
		s.Worker.Started = started
		if len(engines) == 1 {
			w.estimate(p, index.servers, &s)
		}
		if s.Name = id; len(engines) > 1 {
			// Each is a scheduler with a GPU of its own: one that stands still must
			// not hide in the sum.
			s.Name = id + "/" + engine
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// estimate counts tokens where nothing else does as they are made.
func (w *workerPage) estimate(p page, servers []*server, s *spec.Sample) {
	for _, one := range servers {
		if s.Worker.Generated != nil || one.estimate == nil {
			continue
		}
		if made := one.estimate.made(p, w.made); made != nil {
			w.made = *made
			s.Worker.Generated = made
			delete(s.NotMeasured, fieldGenerated)
			derived(s, fieldGenerated, one.estimate.how)
		}
	}
}

const errJSON = reason("not a metrics page: it is JSON; trtllm-serve has its page at /prometheus/metrics")

// notAWorker says which pages are known, and why a vLLM may have none.
func notAWorker(p page) error {
	why := "no worker's metrics on the page: nothing of " + families()
	if len(p[servedHTTP]) > 0 {
		why += "; a vLLM that was started with --disable-log-stats tells none of its own"
	}
	return reason(why)
}

// workerID is the worker's number as the frontend and its answers write it.
// Worker pages have the same number in hexadecimal.
func workerID(p page) string {
	for _, v := range dynamo.values {
		for _, s := range v.in(p) {
			if id, err := strconv.ParseUint(s.labels["worker_id"], 16, 64); err == nil {
				return strconv.FormatUint(id, 10)
			}
		}
	}
	return ""
}

// workerIndex is a worker's page, sorted once: each value's series by engine.
type workerIndex struct {
	servers  []*server // whose page it is: a runtime's and its engine's
	found    map[string]*foundValue
	pod, gpu string
	role     spec.Role // as Dynamo's component, which of those that decode does not say so
}

// foundValue is a value that the page has.
type foundValue struct {
	value  value
	server *server
	of     map[string][]series // by engine; "": of all of them
}

// The fields of what tokens are derived from; no sample has them.
const (
	fieldFirsts = "first tokens"
	fieldGaps   = "gaps"
)

func indexed(p page) *workerIndex {
	x := &workerIndex{found: map[string]*foundValue{}}
	for i := range servers {
		s := &servers[i]
		if !s.on(p) {
			continue
		}
		x.servers = append(x.servers, s)
		for _, v := range s.values {
			x.find(p, s, v.field, v)
		}
		x.find(p, s, fieldFirsts, s.firsts)
		x.find(p, s, fieldGaps, s.gaps)
	}
	if f, a := x.found[fieldFailed], x.found[fieldAborted]; f != nil && a != nil && f.server != a.server {
		delete(x.found, fieldAborted) // they are not of the same count
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		for _, s := range p[name] {
			x.pod = cmp.Or(x.pod, s.firstLabel("pod", "kubernetes_pod_name"))
			x.gpu = cmp.Or(x.gpu, s.firstLabel("gpu_uuid", "UUID"))
			x.role = cmp.Or(x.role, spec.RoleNamed(s.labels["dynamo_component"]))
		}
	}
	return x
}

func (x *workerIndex) find(p page, s *server, field string, v value) {
	all := v.in(p)
	if x.found[field] != nil || len(all) == 0 {
		return
	}
	f := &foundValue{v, s, map[string][]series{}}
	for _, one := range all {
		engine := s.engineOf(one)
		f.of[engine] = append(f.of[engine], one)
	}
	x.found[field] = f
}

// engines lists those on the page: one, unless the worker is data-parallel.
func (x *workerIndex) engines() []string {
	found := map[string]bool{}
	for _, field := range []string{fieldRunning, fieldWaiting, fieldGenerated, fieldFirsts} {
		if f := x.found[field]; f != nil {
			for engine := range f.of {
				found[engine] = true
			}
		}
	}
	if delete(found, ""); len(found) == 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(found))
}

// series are a value's of one engine. What the page counts of all engines together is that of the
// only one.
func (x *workerIndex) series(field, engine string, sole bool) []series {
	f := x.found[field]
	if f == nil {
		return nil
	}
	if of := f.of[engine]; of != nil || !sole {
		return of
	}
	return f.of[""]
}

// missing says why there is no number of a value.
func (x *workerIndex) missing(field, engine string) string {
	if f := x.found[field]; f != nil {
		switch {
		case f.of[engine] != nil:
			return "the worker tells no number"
		case f.of[""] != nil:
			return "the worker counts its engines together"
		}
		return f.value.absent("the worker's engine " + engine)
	}
	var told, who []string
	for _, s := range x.servers {
		if v, ok := s.value(field); ok {
			told = append(told, v.names...)
		}
		who = append(who, s.name)
	}
	switch {
	case len(told) > 0:
		return value{names: told}.absent("the worker")
	case len(x.servers) == 1 && x.servers[0].name == dynamo.name:
		return "the worker has no metrics of its engine, as before its first request"
	}
	return wordy(who, "and") + " does not tell it"
}

// sample reads one engine's values. What the page counts for all of them is left out where
// there are several.
//
// A value that is missing was not measured, before the first request too: vLLM 0.32 has all
// of its series from the start, but with several API servers its gauges begin with the
// first request; Dynamo's mocker has none of its engine's until then.
func (x *workerIndex) sample(engine string, sole bool) spec.Sample {
	w := &spec.WorkerSample{}
	s := spec.Sample{Source: spec.SourceWorker, Worker: w}
	for _, f := range workerFields {
		into := f.into(w)
		if found := x.series(f.name, engine, sole); found != nil {
			*into = x.found[f.name].value.of(found)
		}
		if *into != nil {
			continue
		}
		if f.extra && x.found[f.name] == nil {
			continue
		}
		notMeasured(&s, f.name, x.missing(f.name, engine))
	}
	x.derive(&s, engine, sole)
	w.Pod, w.GPU, w.Role = x.pod, x.gpu, x.role
	return s
}

// derive makes what the page does not tell of what it does.
func (x *workerIndex) derive(s *spec.Sample, engine string, sole bool) {
	w := s.Worker
	made := total(sum(x.series(fieldFirsts, engine, sole)), sum(x.series(fieldGaps, engine, sole)))
	if w.Generated == nil && made != nil {
		w.Generated = made
		how := "the counts of the worker's first-token and inter-token times"
		if v, ok := x.found[fieldFirsts].server.value(fieldGenerated); ok {
			how += ", since it has no " + v.names[0]
		}
		delete(s.NotMeasured, fieldGenerated)
		derived(s, fieldGenerated, how)
	}
	if w.Generated == nil && w.EndedTokens != nil {
		notMeasured(s, fieldGenerated, x.found[fieldEndedTokens].server.name+" counts tokens when a request ends")
	}
	if ended := x.found[fieldEnded]; w.Failed == nil && w.Ended != nil && ended.server.begins {
		w.Failed = new(float64)
		v, _ := ended.server.value(fieldFailed)
		delete(s.NotMeasured, fieldFailed)
		derived(s, fieldFailed, "there is no "+v.names[0]+" yet, which begins with the first error")
	}
}

// notMeasured says why a value is left out of a sample.
func notMeasured(s *spec.Sample, field, why string) {
	if s.NotMeasured == nil {
		s.NotMeasured = map[string]string{}
	}
	s.NotMeasured[field] = why
}

// derived says how a value was come by.
func derived(s *spec.Sample, field, how string) {
	if s.Derived == nil {
		s.Derived = map[string]string{}
	}
	s.Derived[field] = how
}
