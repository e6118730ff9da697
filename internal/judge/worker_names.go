package judge

import (
	"cmp"
	"strings"

	"aicr/internal/spec"
)

// longestNumber is how many digits a worker's name has that a person can tell from
// another. A longer one is an instance id of a runtime.
const longestNumber = 9

// isInstanceID says whether a worker's name is an id that no reader can find.
func isInstanceID(name string) bool {
	return len(name) > longestNumber && strings.Trim(name, "0123456789") == ""
}

// displayName is what a worker is called to a person: by its name, unless that is an
// instance id. Then it is its pod, else where its page is, with node and GPU where they
// are known; what is known of none is said to be listed at /health.
func (ev *Evidence) displayName(worker string) string {
	if !isInstanceID(worker) {
		return worker
	}
	var pod, instance string
	for _, d := range ev.looked() {
		if w := d.worker(worker); w != nil {
			pod, instance = cmp.Or(pod, w.pod), cmp.Or(instance, w.instance)
		}
	}
	for _, e := range ev.start.pods {
		if e.Worker == worker {
			pod = cmp.Or(pod, e.Source)
		}
	}
	name := cmp.Or(pod, instance)
	if name == "" {
		return "with id " + worker + " at the frontend's /health"
	}
	var place []string
	if node := cmp.Or(ev.start.places[worker].node, ev.nodeOfGPU(worker)); node != "" {
		place = append(place, "node "+node)
	}
	if gpu := ev.gpuOf(worker); gpu != "" {
		if index := ev.indexOfGPU(gpu); index != "" {
			gpu = "GPU " + index + " " + gpu
		}
		place = append(place, gpu)
	}
	if len(place) > 0 {
		name += " (" + strings.Join(place, ", ") + ")"
	}
	return name
}

func (ev *Evidence) gpuDigest(name string) *gpuDigest {
	for _, d := range ev.looked() {
		for _, g := range d.gpus {
			if g.name == name {
				return g
			}
		}
	}
	return nil
}

func (ev *Evidence) nodeOfGPU(worker string) string {
	if g := ev.gpuDigest(ev.gpuOf(worker)); g != nil {
		return g.node
	}
	return ""
}

func (ev *Evidence) indexOfGPU(gpu string) string {
	if g := ev.gpuDigest(gpu); g != nil {
		return g.index
	}
	return ""
}

// readable puts a worker's display name where a text has its instance id. Ids are long
// enough to be nothing else, so that every sentence of a verdict is mended here; the
// lists for scripts keep the ids.
func (ev *Evidence) readable(v *spec.Verdict) {
	var pairs []string
	known := map[string]bool{}
	add := func(worker string) {
		if isInstanceID(worker) && !known[worker] {
			known[worker] = true
			pairs = append(pairs, worker, ev.displayName(worker))
		}
	}
	for _, d := range ev.looked() {
		for _, w := range d.workers {
			add(w.name)
		}
	}
	for _, a := range ev.start.answers {
		add(a.Worker)
	}
	for _, f := range v.Findings {
		for _, w := range f.Workers {
			add(w)
		}
	}
	if len(pairs) == 0 {
		return
	}
	names := strings.NewReplacer(pairs...)
	v.Reason = names.Replace(v.Reason)
	for i := range v.Ledgers {
		v.Ledgers[i].Reason = names.Replace(v.Ledgers[i].Reason)
	}
	for i := range v.Expectations {
		v.Expectations[i].Note = names.Replace(v.Expectations[i].Note)
	}
	for i := range v.Findings {
		f := &v.Findings[i]
		f.Summary = names.Replace(f.Summary)
		for _, w := range f.Workers {
			if known[w] && f.Shown == nil {
				f.Shown = make([]string, 0, len(f.Workers))
			}
		}
		for _, w := range f.Workers {
			if f.Shown != nil {
				f.Shown = append(f.Shown, ev.displayName(w))
			}
		}
		for k, line := range f.Evidence {
			f.Evidence[k] = names.Replace(line)
		}
	}
}
