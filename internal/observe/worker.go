package observe

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"aicr/internal/spec"
)

// Worker is the metrics page of a worker.
func Worker(c *Client, url string, l Labels) Source {
	return c.at(spec.SourceWorker, url, "", l, &workerPage{})
}

// workerPage reads the metrics page of a vLLM worker, by itself or in Dynamo, and
// of Dynamo's mocker.
type workerPage struct{ parser }

var workerNames = namesOf(workerRunning, workerWaiting, workerKVUsage, workerGenerated, workerPrompt, workerPrefixQueries,
	workerPrefixHits, workerPreemptions, workerInFlight, workerEnded, workerFailed, workerFirstTokens, workerGaps)

func (w *workerPage) read(text []byte) ([]spec.Sample, error) {
	p, err := w.parse(text, workerNames)
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		return nil, errNotAWorker
	}
	id := workerID(p)
	engines := enginesOf(p)
	if len(engines) == 0 {
		engines = []string{""}
	}
	samples := make([]spec.Sample, 0, len(engines))
	for _, engine := range engines {
		s := workerSample(p, engine, len(engines) == 1)
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

// enginesOf lists the engines on a page: one, unless the worker is data-parallel.
func enginesOf(p page) []string {
	found := map[string]bool{}
	for _, v := range []value{workerRunning, workerWaiting, workerGenerated, workerFirstTokens} {
		for _, s := range v.in(p) {
			found[s.labels["engine"]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// workerSample reads one engine's values. What the runtime counts is of the whole
// worker, so it is left out where there are several engines.
func workerSample(p page, engine string, sole bool) spec.Sample {
	w := &spec.WorkerSample{}
	s := spec.Sample{Source: spec.SourceWorker, Worker: w}
	anyone := false
	of := func(v value) []series {
		all := v.in(p)
		return slices.DeleteFunc(slices.Clone(all), func(s series) bool { return s.labels["engine"] != engine })
	}
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
			notMeasured(&s, f.value.field, f.value.missing("the worker", p))
		}
	}
	if !anyone {
		// vLLM's series begin with the first request, so this is no defect.
		s.NotMeasured = nil
		for _, v := range []value{workerRunning, workerWaiting, workerKVUsage, workerGenerated, workerPrompt, workerPrefixQueries, workerPrefixHits, workerPreemptions} {
			notMeasured(&s, v.field, "the worker has no vllm: metrics, as before its first request")
		}
	}
	if first, gaps := sum(of(workerFirstTokens)), sum(of(workerGaps)); w.Generated == nil && first != nil {
		total := *first
		if gaps != nil {
			total += *gaps
		}
		w.Generated = &total
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
			if *f.into = sum(f.value.in(p)); *f.into == nil {
				notMeasured(&s, f.value.field, f.value.missing("the worker", p))
			}
		}
	}
	if w.Failed == nil && w.Ended != nil {
		// Dynamo has the series from the first error on.
		w.Failed = new(float64)
		delete(s.NotMeasured, workerFailed.field)
		derived(&s, workerFailed.field, "there is no "+workerFailed.names[0]+" yet, which begins with the first error")
	}
	for _, all := range p {
		for _, one := range all {
			w.Pod = cmp.Or(w.Pod, one.firstLabel("pod", "kubernetes_pod_name"))
			w.GPU = cmp.Or(w.GPU, one.firstLabel("gpu_uuid", "UUID"))
		}
	}
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
