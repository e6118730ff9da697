package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// historyS is how many seconds a history has.
const historyS = 30

// Picture is what a fleet looks like now: each list worst first. That is by the
// symptoms, then who does not answer, then, of workers, who makes less than its
// share and who lets more wait; then by name. A value that is nil is not known.
type Picture struct {
	Workers   []WorkerPicture
	GPUs      []GPUPicture
	Nodes     []NodePicture
	Frontends []FrontendPicture
	Symptoms  []Symptom
}

// WorkerPicture is a worker now.
type WorkerPicture struct {
	Name, Instance, GPU        string
	Running, Waiting, InFlight *float64
	KVUsage                    *float64 // 0 to 1
	TokensPerS                 *float64
	PerRequest                 *float64 // tokens a second of each running request
	FairShare                  *float64 // its work a second over the mean of its like: 1 is fair
	Gap                        string   // why there is no current sample
	GapS                       float64  // for how long
	History                    []float64
	Symptoms                   []Symptom
	NotMeasured, Derived       map[string]string
}

// GPUPicture is a GPU now. Its history is of power.
type GPUPicture struct {
	Name, Index, Model, Node, Pod, Worker string
	Utilization, PowerW, SMClockMHz       *float64
	TemperatureC, MemoryUsed              *float64
	XID, DoubleBit, RemapFailure          *float64
	Throttle                              *[]string // reasons; empty: none
	Gap                                   string
	GapS                                  float64
	History                               []float64
	Symptoms                              []Symptom
	NotMeasured, Derived                  map[string]string
}

// NodePicture is a node now.
type NodePicture struct {
	Name, Instance                                 string
	CPUPressure, MemoryPressure, IOPressure, Load1 *float64
	Gap                                            string
	GapS                                           float64
	Symptoms                                       []Symptom
	NotMeasured, Derived                           map[string]string
}

// FrontendPicture is a frontend now. Its history is of tokens a second.
type FrontendPicture struct {
	Name, Instance                     string
	InFlight, Queued, Busy             *float64
	ServedPerS, FailedPerS, TokensPerS *float64
	StallsPerS                         *float64
	OutcomesPerS                       map[string]float64
	Gap                                string
	GapS                               float64
	History                            []float64
	Symptoms                           []Symptom
	NotMeasured, Derived               map[string]string
}

// Picture says what the samples show at a time, in nanoseconds on their clock.
func (l *Live) Picture(now int64) Picture {
	w := l.window(now)
	all := symptoms(w)
	p := Picture{Symptoms: all, Workers: w.workerPictures(), GPUs: w.gpuPictures(), Nodes: w.nodePictures(), Frontends: w.frontendPictures()}
	attach(all, p.Workers, func(s *Symptom) []string { return s.Workers }, func(v *WorkerPicture) (string, *[]Symptom) { return v.Name, &v.Symptoms }, worseWorker)
	attach(all, p.GPUs, func(s *Symptom) []string { return s.GPUs }, func(v *GPUPicture) (string, *[]Symptom) { return v.Name, &v.Symptoms }, worseGPU)
	attach(all, p.Nodes, func(s *Symptom) []string { return s.Nodes }, func(v *NodePicture) (string, *[]Symptom) { return v.Name, &v.Symptoms }, worseNode)
	attach(all, p.Frontends, func(s *Symptom) []string { return s.Frontends }, func(v *FrontendPicture) (string, *[]Symptom) { return v.Name, &v.Symptoms }, worseFrontend)
	return p
}

// attach gives each thing the symptoms that name it, and puts the worst first.
// Among equals they are as before: the lists are in the order of names.
func attach[T any](all []Symptom, to []T, names func(*Symptom) []string, of func(*T) (string, *[]Symptom), then func(a, b *T) int) {
	place := make(map[string]int, len(to))
	for i := range to {
		name, _ := of(&to[i])
		place[name] = i
	}
	for i := range all {
		for _, name := range names(&all[i]) {
			if at, ok := place[name]; ok {
				_, has := of(&to[at])
				*has = append(*has, all[i])
			}
		}
	}
	slices.SortStableFunc(to, func(a, b T) int {
		_, of1 := of(&a)
		_, of2 := of(&b)
		return cmp.Or(cmp.Compare(worst(*of2), worst(*of1)), then(&a, &b))
	})
}

// worseWorker is who does not answer, then who makes less than its share, or of whom
// that is not known, then who lets more wait.
func worseWorker(a, b *WorkerPicture) int {
	return cmp.Or(gapFirst(a.Gap, b.Gap), leastFirst(a.FairShare, b.FairShare), cmp.Compare(orZero(valueOf(b.Waiting)), orZero(valueOf(a.Waiting))))
}

func worseGPU(a, b *GPUPicture) int { return gapFirst(a.Gap, b.Gap) }

func worseNode(a, b *NodePicture) int { return gapFirst(a.Gap, b.Gap) }

func worseFrontend(a, b *FrontendPicture) int { return gapFirst(a.Gap, b.Gap) }

func gapFirst(a, b string) int {
	switch {
	case a != "" && b == "":
		return -1
	case a == "" && b != "":
		return 1
	}
	return 0
}

// leastFirst orders values, those that are not known before all others.
func leastFirst(a, b *float64) int { return cmp.Compare(valueOf(a), valueOf(b)) }

func worst(all []Symptom) int {
	most := 0
	for i := range all {
		most = max(most, all[i].weight())
	}
	return most
}

func (w *window) workerPictures() []WorkerPicture {
	list := make([]WorkerPicture, len(w.workers))
	type made struct{ tokens, n float64 }
	by := map[group]made{}
	for i, t := range w.workers {
		p := &list[i]
		*p = WorkerPicture{Name: t.name, Instance: t.instance, NotMeasured: maps.Clone(t.notMeasured), Derived: maps.Clone(t.derived),
			History: w.tokenHistory(i)}
		p.GPU = strings.Join(t.gpus, ", ")
		if len(t.gpus) == 0 {
			p.GPU = strings.Join(w.gpuNames(i), ", ")
		}
		if why, ns := t.gapAt(w.now); why != "" {
			p.Gap, p.GapS = why, seconds(ns)
			continue
		}
		s := t.current(w.now)
		p.Running, p.Waiting, p.InFlight, p.KVUsage, p.TokensPerS = known(s.running), known(s.waiting), known(s.inFlight), known(s.kv), known(s.generated)
		if s.ran > 0 {
			p.PerRequest = known(s.generated / s.ran)
		}
		if !math.IsNaN(s.tokens) {
			m := by[w.groupOf[i]]
			by[w.groupOf[i]] = made{m.tokens + s.tokens, m.n + 1}
		}
	}
	for i, t := range w.workers {
		if s, m := t.current(w.now), by[w.groupOf[i]]; s != nil && m.tokens > 0 {
			list[i].FairShare = known(s.tokens / (m.tokens / m.n))
		}
	}
	return list
}

// tokenHistory is worker i's tokens a second, oldest first.
func (w *window) tokenHistory(i int) []float64 {
	h := make([]float64, historyS)
	for k := range h {
		v := math.NaN()
		if s := w.told(i, k); s != nil {
			v = s.generated
		}
		h[historyS-1-k] = v
	}
	return h
}

// history lays a value of a source's states on the last seconds, oldest first. A
// second without a sample is NaN, unless the source is asked less often than that.
func history[S any, P stamped[S]](t *track[S, P], now int64, value func(P) float64) []float64 {
	h := make([]float64, historyS)
	at := len(t.states) - 1
	for k := range h {
		end := now - int64(k)*second
		for at >= 0 && t.of(at).at().t > end {
			at--
		}
		h[historyS-1-k] = math.NaN()
		if at < 0 {
			continue
		}
		if p := t.of(at); p.at().gap == "" && end-p.at().t < max(second, t.period*3/2) {
			h[historyS-1-k] = value(p)
		}
	}
	return h
}

func (w *window) gpuPictures() []GPUPicture {
	list := make([]GPUPicture, len(w.gpus))
	for i, t := range w.gpus {
		p := &list[i]
		*p = GPUPicture{Name: t.name, Index: t.index, Model: t.model, Node: t.node, Pod: t.pod,
			NotMeasured: maps.Clone(t.notMeasured), Derived: maps.Clone(t.derived),
			History: history(&t.track, w.now, func(s *gpuState) float64 { return s.power })}
		if why, ns := t.gapAt(w.now); why != "" {
			p.Gap, p.GapS = why, seconds(ns)
			continue
		}
		s := t.current(w.now)
		p.Utilization, p.PowerW, p.SMClockMHz = known(s.utilization), known(s.power), known(s.clock)
		p.TemperatureC, p.MemoryUsed = known(s.temperature), known(s.memory)
		p.XID, p.DoubleBit, p.RemapFailure = known(s.xid), known(s.doubleBit), known(s.remap)
		if s.throttleKnown {
			reasons := append([]string{}, s.throttle...)
			p.Throttle = &reasons
		}
	}
	for i, gpus := range w.gpusOf {
		for _, g := range gpus {
			list[g].Worker = w.workers[i].name
		}
	}
	return list
}

func (w *window) nodePictures() []NodePicture {
	list := make([]NodePicture, len(w.nodes))
	for i, t := range w.nodes {
		p := &list[i]
		*p = NodePicture{Name: t.name, Instance: t.instance, NotMeasured: maps.Clone(t.notMeasured), Derived: maps.Clone(t.derived)}
		if why, ns := t.gapAt(w.now); why != "" {
			p.Gap, p.GapS = why, seconds(ns)
			continue
		}
		s := t.current(w.now)
		p.CPUPressure, p.MemoryPressure, p.IOPressure, p.Load1 = known(s.cpu), known(s.memory), known(s.io), known(s.load1)
	}
	return list
}

func (w *window) frontendPictures() []FrontendPicture {
	list := make([]FrontendPicture, len(w.frontends))
	for i, t := range w.frontends {
		p := &list[i]
		*p = FrontendPicture{Name: t.name, Instance: t.instance, NotMeasured: maps.Clone(t.notMeasured), Derived: maps.Clone(t.derived),
			History: history(&t.track, w.now, func(s *frontendState) float64 { return s.tokens })}
		if why, ns := t.gapAt(w.now); why != "" {
			p.Gap, p.GapS = why, seconds(ns)
			continue
		}
		s := t.current(w.now)
		p.InFlight, p.Queued, p.Busy = known(s.inFlight), known(s.queued), known(s.busy)
		p.ServedPerS, p.FailedPerS, p.TokensPerS, p.StallsPerS = known(s.served), known(s.failed), known(s.tokens), known(s.stalls)
		p.OutcomesPerS = maps.Clone(s.outcomes)
	}
	return list
}
