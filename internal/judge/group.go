package judge

import (
	"cmp"
	"fmt"
	"slices"

	"aicr/internal/spec"
)

// group is whom a worker may be compared with: those that do the same of each request, on
// as many GPUs.
type group struct {
	role spec.Role
	gpus int
}

// makes is what its workers make of requests.
func (g group) makes() string {
	if g.role == spec.RolePrefill {
		return "prompt tokens"
	}
	return "tokens"
}

// holder is what a worker tells of its GPUs, and holding is what comes of it.
type holder struct {
	role spec.Role
	gpus []string // names
	pod  string
}

type holding struct {
	group
	gpus []int // as far as they are known
}

// located is a GPU, and the pod that has it.
type located struct{ name, pod string }

// holdings says which GPUs each worker holds: those that it names, else all of its pod,
// unless others are in it: then it is known only how many fall to each. Who tells of none
// is taken to be as the most of its role are, since a page that is missing makes no
// worker another kind.
func holdings(workers []holder, gpus []located) []holding {
	byName, byPod, mates := make(map[string]int, len(gpus)), map[string][]int{}, map[string]int{}
	for i, g := range gpus {
		byName[g.name] = i
		if g.pod != "" {
			byPod[g.pod] = append(byPod[g.pod], i)
		}
	}
	for _, w := range workers {
		mates[w.pod]++
	}
	all := make([]holding, len(workers))
	counts := map[group]int{}
	for i, w := range workers {
		h := &all[i]
		h.role = w.role
		switch pod := byPod[w.pod]; {
		case len(w.gpus) > 0:
			h.group.gpus = len(w.gpus)
			for _, name := range w.gpus {
				if g, ok := byName[name]; ok {
					h.gpus = append(h.gpus, g)
				}
			}
		case mates[w.pod] == 1:
			h.group.gpus, h.gpus = len(pod), pod
		case w.pod != "" && len(pod)%mates[w.pod] == 0:
			h.group.gpus = len(pod) / mates[w.pod]
		}
		if h.group.gpus > 0 {
			counts[h.group]++
		}
	}
	usual := map[spec.Role]int{}
	for g, n := range counts {
		if m := (group{g.role, usual[g.role]}); cmp.Or(cmp.Compare(n, counts[m]), cmp.Compare(m.gpus, g.gpus)) > 0 {
			usual[g.role] = g.gpus
		}
	}
	for i := range all {
		if h := &all[i]; h.group.gpus == 0 {
			h.group.gpus = usual[h.role]
		}
	}
	return all
}

// peerWorkers are the workers of the same group as one of them, without it.
func peerWorkers[W interface {
	comparable
	peerGroup() group
}](one W, among []W) []W {
	var peers []W
	for _, o := range among {
		if o != one && o.peerGroup() == one.peerGroup() {
			peers = append(peers, o)
		}
	}
	return peers
}

func (l *lane) peerGroup() group         { return l.group }
func (w *workerDigest) peerGroup() group { return w.group }

// unwatched is how many workers there should be that read prompts for others and were not
// seen: no answer names them, and none has a page.
func (ev *Evidence) unwatched() int {
	if reads, _ := ev.mostSeen(); reads > 0 {
		return 0
	}
	return ev.plan.Point.Prefill
}

// mostSeen is how many workers were seen in an episode, at the most: those that read prompts
// for others, and the rest. A page that was not given was not read.
func (ev *Evidence) mostSeen() (reads, rest int) {
	for _, d := range ev.looked() {
		n := 0
		for _, w := range d.workers {
			if w.group.role == spec.RolePrefill {
				n++
			}
		}
		reads = max(reads, n)
		if d.named {
			rest = max(rest, len(d.workers)-n)
		}
	}
	return reads, rest
}

// unseenWorkers is how many of each are missing, where answers name who serves: more of one kind
// make up for none of the other, but where no page answers in a worker's place its kind is
// not known.
func (ev *Evidence) unseenWorkers() (missing int, words []string) {
	p := &ev.plan.Point
	reads, rest := ev.mostSeen()
	if p.Workers == 0 || rest == 0 || !ev.loaded() {
		return 0, nil
	}
	kindless := 0 // who they are is told by name
	for _, d := range ev.looked() {
		n := 0
		for _, w := range d.workers {
			if w.absent == neverThere && w.group.role == spec.RoleBoth {
				n++
			}
		}
		kindless = max(kindless, n)
	}
	say := func(short, want int, kind string) {
		told := min(max(0, short), kindless)
		if kindless -= told; short > told {
			missing += short - told
			words = append(words, fmt.Sprintf("%d of %d %s were never seen", short-told, want, kind))
		}
	}
	if p.Prefill == 0 {
		say(p.Workers-(rest+reads-kindless), p.Workers, "workers")
		return missing, words
	}
	say(p.Workers-p.Prefill-(rest-kindless), p.Workers-p.Prefill, "workers that answer")
	if reads > 0 {
		say(p.Prefill-reads, p.Prefill, "prefill workers")
	}
	return missing, words
}

// join finds each worker's GPUs, and with them its peers.
func (t *timeline) join(series []spec.Sample) {
	pods := map[string]string{}
	for i := range series {
		if s := &series[i]; s.Source == spec.SourceGPU && s.GPU != nil {
			pods[s.Name] = s.GPU.Pod
		}
	}
	var gpus []located
	for name, pod := range pods {
		gpus = append(gpus, located{name, pod})
	}
	slices.SortFunc(gpus, func(a, b located) int { return cmp.Compare(a.name, b.name) })
	holders := make([]holder, len(t.workers))
	for i, l := range t.workers {
		holders[i] = holder{l.role, l.gpus, l.pod}
	}
	for i, h := range holdings(holders, gpus) {
		l := t.workers[i]
		if l.group = h.group; len(l.gpus) > 0 {
			continue
		}
		for _, g := range h.gpus {
			l.gpus = append(l.gpus, gpus[g].name)
		}
	}
}

// groups are the workers of an episode by whom they may be compared with.
func (t *timeline) groups() map[group][]*lane {
	by := map[group][]*lane{}
	for _, l := range t.workers {
		by[l.group] = append(by[l.group], l)
	}
	return by
}
