package observe

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"aicr/internal/spec"
)

// Worker is the metrics page of a worker.
func Worker(c *Client, url string, l Labels) Source {
	s := c.at(spec.SourceWorker, url, "", l, &workerPage{})
	if f, ok := s.Reader.(*fetch); ok {
		s.Reader = &oneProcess{fetch: f}
	}
	return s
}

// workerPage reads the metrics page of a vLLM worker, by itself or in Dynamo, and
// of Dynamo's mocker.
type workerPage struct{ parser }

var workerNames = namesOf(workerRunning, workerWaiting, workerKVUsage, workerGenerated, workerPrompt, workerPrefixQueries,
	workerPrefixHits, workerPreemptions, workerInFlight, workerEnded, workerFailed, workerFirstTokens, workerGaps, workerStarted)

func (w *workerPage) read(ctx context.Context, text []byte) ([]spec.Sample, error) {
	p, err := w.parse(ctx, text, workerNames)
	if err != nil {
		return nil, err
	}
	started := greatest(workerStarted.in(p))
	if delete(p, workerStarted.names[0]); len(p) == 0 { // every process may tell when it began
		return nil, errNotAWorker
	}
	id := workerID(p)
	index := indexed(p)
	engines := index.engines()
	if err := LimitEngines.within(len(engines)); err != nil {
		return nil, err
	}
	if len(engines) == 0 {
		engines = []string{""}
	}
	samples := make([]spec.Sample, 0, len(engines))
	for _, engine := range engines {
		s := index.sample(engine, len(engines) == 1)
		s.Worker.Started = started
		if s.Name = id; len(engines) > 1 {
			// Each is a scheduler with a GPU of its own: one that stands still must
			// not hide in the sum.
			s.Name = id + "/" + engine
		}
		samples = append(samples, s)
	}
	return samples, nil
}

const errNotAWorker = reason("no worker's metrics on the page: neither vllm: nor dynamo_component_")

// workerID is the worker's number as the frontend and its answers write it.
// Worker pages have the same number in hexadecimal.
func workerID(p page) string {
	for _, v := range []value{workerInFlight, workerEnded} {
		for _, s := range v.in(p) {
			if id, err := strconv.ParseUint(s.labels["worker_id"], 16, 64); err == nil {
				return strconv.FormatUint(id, 10)
			}
		}
	}
	return ""
}

// workerValues are what the values of a worker's sample are made of.
var workerValues = []value{workerRunning, workerWaiting, workerKVUsage, workerGenerated, workerPrompt, workerPrefixQueries, workerPrefixHits,
	workerPreemptions, workerInFlight, workerEnded, workerFailed, workerFirstTokens, workerGaps}

// workerEngine are those of them that its engine tells.
var workerEngine = []value{workerRunning, workerWaiting, workerKVUsage, workerGenerated, workerPrompt,
	workerPrefixQueries, workerPrefixHits, workerPreemptions}

// workerIndex is a worker's page, sorted once: each value's series by engine.
type workerIndex struct {
	of       map[string]map[string][]series // by the value's first name, and the engine
	all      map[string][]series            // by the value's first name
	pod, gpu string
}

func indexed(p page) *workerIndex {
	x := &workerIndex{of: map[string]map[string][]series{}, all: map[string][]series{}}
	for _, v := range workerValues {
		all := v.in(p)
		engines := map[string][]series{}
		for _, s := range all {
			engine := s.labels["engine"]
			engines[engine] = append(engines[engine], s)
		}
		x.of[v.names[0]], x.all[v.names[0]] = engines, all
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		for _, s := range p[name] {
			x.pod = cmp.Or(x.pod, s.firstLabel("pod", "kubernetes_pod_name"))
			x.gpu = cmp.Or(x.gpu, s.firstLabel("gpu_uuid", "UUID"))
		}
	}
	return x
}

// engines lists those on the page: one, unless the worker is data-parallel.
func (x *workerIndex) engines() []string {
	found := map[string]bool{}
	for _, v := range []value{workerRunning, workerWaiting, workerGenerated, workerFirstTokens} {
		for engine := range x.of[v.names[0]] {
			found[engine] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// has reports whether the page has any series of these values.
func (x *workerIndex) has(values ...value) bool {
	return slices.ContainsFunc(values, func(v value) bool { return len(x.all[v.names[0]]) > 0 })
}

// missing says why there is no number of a value.
func (x *workerIndex) missing(v value) string {
	if len(x.all[v.names[0]]) > 0 {
		return "the worker tells no number"
	}
	return v.absent("the worker")
}

// sample reads one engine's values. What the runtime counts is of the whole worker, so it
// is left out where there are several engines.
func (x *workerIndex) sample(engine string, sole bool) spec.Sample {
	w := &spec.WorkerSample{}
	s := spec.Sample{Source: spec.SourceWorker, Worker: w}
	anyone := false
	of := func(v value) []series { return x.of[v.names[0]][engine] }
	for _, f := range []struct {
		value value
		into  **float64
		take  func([]series) *float64
	}{
		{workerRunning, &w.Running, sum},
		{workerWaiting, &w.Waiting, sum},
		{workerKVUsage, &w.KVUsage, greatest},
		{workerGenerated, &w.Generated, sum},
		{workerPrompt, &w.PromptTokens, sum},
		{workerPrefixQueries, &w.PrefixQueries, sum},
		{workerPrefixHits, &w.PrefixHits, sum},
		{workerPreemptions, &w.Preemptions, sum},
	} {
		if *f.into = f.take(of(f.value)); *f.into != nil {
			anyone = true
		} else {
			notMeasured(&s, f.value.field, x.missing(f.value))
		}
	}
	if !anyone && !x.has(workerEngine...) && !x.has(workerFirstTokens, workerGaps) {
		// vLLM's series begin with the first request, so this is no defect.
		s.NotMeasured = nil
		for _, v := range workerEngine {
			notMeasured(&s, v.field, "the worker has no vllm: metrics, as before its first request")
		}
	}
	if made := total(sum(of(workerFirstTokens)), sum(of(workerGaps))); w.Generated == nil && made != nil {
		w.Generated = made
		delete(s.NotMeasured, workerGenerated.field)
		derived(&s, workerGenerated.field, "the counts of the worker's first-token and inter-token times, since it has no "+workerGenerated.names[0])
	}
	for _, f := range []struct {
		value value
		into  **float64
	}{
		{workerInFlight, &w.InFlight},
		{workerEnded, &w.Ended},
		{workerFailed, &w.Failed},
	} {
		switch {
		case !sole:
			notMeasured(&s, f.value.field, "the worker counts its engines together")
		default:
			if *f.into = sum(x.all[f.value.names[0]]); *f.into == nil {
				notMeasured(&s, f.value.field, x.missing(f.value))
			}
		}
	}
	if w.Failed == nil && w.Ended != nil {
		// Dynamo has the series from the first error on.
		w.Failed = new(float64)
		delete(s.NotMeasured, workerFailed.field)
		derived(&s, workerFailed.field, "there is no "+workerFailed.names[0]+" yet, which begins with the first error")
	}
	w.Pod, w.GPU = x.pod, x.gpu
	return s
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
