package judge

import (
	"cmp"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// longestNumber is how many digits a worker's name has that a person can tell from
// another. A longer one is an instance id of a runtime.
const longestNumber = 9

// instanceID splits the name of a worker into a runtime's instance id and the engine
// behind it, where a worker has several; not ok: it is a name that a person can find.
func instanceID(name string) (id, engine string, ok bool) {
	id, engine, _ = strings.Cut(name, "/")
	return id, engine, len(id) > longestNumber && strings.Trim(id, "0123456789") == ""
}

// IsInstanceID says whether a worker's name is a runtime's instance id, by which no reader
// finds it.
func IsInstanceID(name string) bool {
	_, _, ok := instanceID(name)
	return ok
}

// shortName is what a worker is called in a table: its name, unless that is an instance
// id. Then it is its pod, else the host:port of its page, else the address that the
// frontend has of it.
func (ev *Evidence) shortName(worker string) string {
	id, engine, ok := instanceID(worker)
	if !ok {
		return worker
	}
	var pod, instance, address string
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
	for _, a := range ev.start.answers {
		if a.Worker == worker {
			address = cmp.Or(address, a.Source)
		}
	}
	name := cmp.Or(pod, instance, address)
	switch {
	case name == "":
		return "id " + id + strings.TrimPrefix(worker, id)
	case engine != "":
		return name + "/" + engine
	}
	return name
}

// displayName is what a worker is called in a sentence: by its short name, with node and
// GPU where they are known. Of one that nothing is known of but the id it is said where
// ids are listed.
func (ev *Evidence) displayName(worker string) string {
	if !IsInstanceID(worker) && ev.start.places[worker].node == "" {
		return worker
	}
	name := ev.shortName(worker)
	if strings.HasPrefix(name, "id ") {
		return "with " + name + " at the frontend's /health"
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

// mostShown bounds the names that are kept: a server may make up an id for each answer.
const mostShown = 4096

// readable puts a worker's display name where a text has its instance id, and keeps the
// names of all ids for what shows workers in tables. Ids are long enough to be nothing
// else, so that every sentence of a verdict is mended here; the lists for scripts keep
// the ids.
func (ev *Evidence) readable(v *spec.Verdict, next *Next) {
	var ids []string
	v.Names = map[string]string{}
	add := func(worker string) {
		if IsInstanceID(worker) && v.Names[worker] == "" && len(ids) < mostShown {
			v.Names[worker] = ev.shortName(worker)
			ids = append(ids, worker)
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
	if len(ids) == 0 {
		v.Names = nil
	} else {
		ev.rename(v, next, ids)
	}
	ev.show(v.Findings)
}

// show keeps with findings what a person finds their workers by, where that is more than
// their names.
func (ev *Evidence) show(all []spec.Finding) {
	for i := range all {
		f := &all[i]
		shown := make([]string, len(f.Workers))
		for k, w := range f.Workers {
			shown[k] = ev.displayName(w)
		}
		if !slices.Equal(shown, f.Workers) {
			f.Shown = shown
		}
	}
}

// rename puts names where the sentences of a verdict, and of what it waits for, have ids.
func (ev *Evidence) rename(v *spec.Verdict, next *Next, ids []string) {
	slices.SortFunc(ids, func(a, b string) int { // the first that fits is taken, and an id may begin with another
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	var pairs []string
	for _, id := range ids {
		pairs = append(pairs, id+" (node", v.Names[id]+" (node", id, ev.displayName(id))
	}
	names := strings.NewReplacer(pairs...)
	all := func(texts []string) {
		for i, text := range texts {
			texts[i] = names.Replace(text)
		}
	}
	v.Reason = names.Replace(v.Reason)
	for i := range v.Ledgers {
		v.Ledgers[i].Reason = names.Replace(v.Ledgers[i].Reason)
	}
	for i := range v.Expectations {
		v.Expectations[i].Note = names.Replace(v.Expectations[i].Note)
	}
	for i := range v.Findings {
		f := &v.Findings[i]
		f.Summary, f.Evidence = names.Replace(f.Summary), slices.Clone(f.Evidence)
		all(f.Evidence)
	}
	all(v.Notes)
	if next != nil {
		next.Why, next.Retry = names.Replace(next.Why), names.Replace(next.Retry)
	}
}
