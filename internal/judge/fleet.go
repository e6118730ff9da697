package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// FleetSide is what is compared of a node.
type FleetSide struct {
	Side
	Node    string
	Reason  string
	GPU     string // the product, where it is known
	Workers int
	GPUs    int // of the node; 0: unknown
}

// What a node may differ from its peers by. Of throughput these are the ratios that
// capability is held against a reference by (Thresholds.RatioGood, RatioBad): the peers
// are the reference here.
const (
	fleetSlower = 0.92 // of the peers' throughput a GPU; below it a node is named
	fleetFails  = 0.80 // and below this it fails the fleet
	fleetLater  = 1.25 // of their first tokens
)

// CompareFleet holds each node against all of its peers: the nodes with the same GPUs, for
// others are slower without being ill. A node is outside, and is named,
// where the whole interval of a figure's ratio is beyond what nodes may differ by. One
// that is far slower fails the fleet, whatever floor it is above: no fault makes the
// others faster, so that this holds for two nodes as well. How far healthy nodes differ
// from run to run nobody has measured, so that less than that decides nothing.
//
// A fleet of which a node was not looked at, and not on purpose, has not passed.
func CompareFleet(nodes []*FleetSide, passed ...spec.PassedBy) *spec.FleetVerdict {
	each := 1 - (1-together)/float64(max(1, 3*len(nodes)))
	f := &spec.FleetVerdict{Schema: spec.FleetSchema, Verdict: spec.Skip, Together: together, Each: each, Nodes: []spec.FleetNode{}}
	var odd []string
	failed := false
	for i, n := range nodes {
		node := spec.FleetNode{Node: n.Node, Run: n.Run, Verdict: n.Verdict, Reason: n.Reason, GPU: n.GPU, Workers: n.Workers, Episodes: n.Episodes, LoadedS: n.LoadedS}
		p := peersOf(nodes, i)
		node.Figures = []spec.FleetFigure{
			meansBeside("throughput a GPU", "tokens/s", n.perGPU(), p.throughput, each, func(_, high float64) bool { return high < fleetSlower }),
			meansBeside("ttft p99", "ms", n.ttft, p.ttft, each, func(low, _ float64) bool { return low > fleetLater }),
			stallsBeside(n, p, each),
		}
		for k := range node.Figures {
			if x := &node.Figures[k]; x.Outside {
				node.Outside = append(node.Outside, x.Name)
			}
		}
		if x := node.Figures[0].High; x != nil && *x < fleetFails {
			failed = true
		}
		if len(node.Outside) > 0 {
			odd = append(odd, fmt.Sprintf("%s (%s)", n.Node, inWords(node.Outside)))
		}
		f.Nodes = append(f.Nodes, node)
	}
	f.Verdict = worstState(f.Nodes)
	if failed {
		f.Verdict = spec.Fail
	}
	f.Reason = fleetReason(f, odd)
	passBy(f, passed)
	for i, n := range nodes {
		if len(nodes) > 1 && !slices.ContainsFunc(slices.Delete(slices.Clone(nodes), i, i+1), n.like) {
			f.Notes = append(f.Notes, fmt.Sprintf("%s is compared with none: no other has its GPUs (%s)", n.Node, cmp.Or(n.GPU, "which, nobody says")))
		}
		if n.GPUs > n.Workers {
			f.Notes = append(f.Notes, fmt.Sprintf("%s: %d of its %d GPUs were validated, others hold the rest", n.Node, n.Workers, n.GPUs))
		}
		if n.Episodes < 2 {
			f.Notes = append(f.Notes, fmt.Sprintf("of %s %s counted, which has no spread to tell anything by", n.Node, counted(float64(n.Episodes), "episode")))
		}
	}
	return f
}

// passBy takes in the nodes that were not validated.
func passBy(f *spec.FleetVerdict, passed []spec.PassedBy) {
	f.Passed = passed
	var missing []string
	for _, p := range passed {
		if !p.LeftOut {
			missing = append(missing, fmt.Sprintf("%s (%s)", p.Node, p.Reason))
		}
	}
	if len(missing) == 0 {
		return
	}
	if f.Verdict == spec.Pass || f.Verdict == spec.Skip {
		f.Verdict = spec.Inconclusive
	}
	f.Reason = fmt.Sprintf("%s; %d of %s with GPUs not validated: %s", f.Reason, len(missing), counted(float64(len(f.Nodes)+len(passed)), "node"), inWords(missing))
	f.Notes = append(f.Notes, "a node that --node-selector leaves out does not count against the fleet: --node-selector 'kubernetes.io/hostname!=NODE'")
}

// perGPU is throughput with its fleet's size taken out.
func (s *FleetSide) perGPU() (all []float64) {
	for _, v := range s.throughput {
		all = append(all, v-math.Log(float64(max(1, s.Workers))))
	}
	return all
}

// like: it can be told by the other one what is to be expected of it.
func (s *FleetSide) like(other *FleetSide) bool { return s.GPU == other.GPU }

type peers struct {
	throughput, ttft []float64
	stalls           int
	minutes          float64
}

func peersOf(nodes []*FleetSide, but int) (p peers) {
	for i, n := range nodes {
		if i == but || !n.like(nodes[but]) {
			continue
		}
		p.throughput = append(p.throughput, n.perGPU()...)
		p.ttft = append(p.ttft, n.ttft...)
		p.stalls += n.Stalls
		p.minutes += n.LoadedS / 60
	}
	return p
}

func meansBeside(name, unit string, own, others []float64, sure float64, outside func(low, high float64) bool) spec.FleetFigure {
	d, low, high := stats.MeanDifference(others, own, sure)
	f := spec.FleetFigure{Name: name, Unit: unit, Value: exponent(stats.Mean(own)), Ratio: exponent(d), Low: exponent(low), High: exponent(high)}
	f.Outside = f.Low != nil && f.High != nil && outside(math.Exp(low), math.Exp(high))
	return f
}

// stallsBeside compares stalls a loaded minute, as two runs are compared.
func stallsBeside(n *FleetSide, p peers, sure float64) spec.FleetFigure {
	f := spec.FleetFigure{Name: "stalls", Unit: "a loaded minute"}
	minutes := n.LoadedS / 60
	if minutes <= 0 {
		return f
	}
	f.Value = number(float64(n.Stalls) / minutes)
	all := n.Stalls + p.stalls
	if p.minutes <= 0 || all == 0 {
		return f
	}
	ratio := func(share float64) float64 { return share / (1 - share) * p.minutes / minutes }
	low, high := stats.ClopperPearson(n.Stalls, all, sure)
	f.Ratio, f.Low, f.High = number(ratio(float64(n.Stalls)/float64(all))), number(ratio(low)), number(ratio(high))
	f.Outside = ratio(low) > 1
	return f
}

// worstState is the verdict of all: what failed before what could not be measured, that
// before what is not decided, and a node that there was nothing to do on before those that
// passed.
func worstState(nodes []spec.FleetNode) spec.State {
	order := []spec.State{spec.Fail, spec.Invalid, spec.NotJudged, spec.Inconclusive, spec.Skip, spec.Pass}
	worst := len(order)
	for _, n := range nodes {
		at := slices.Index(order, n.Verdict)
		if at < 0 { // nobody knows what that is: no pass
			at = slices.Index(order, spec.NotJudged)
		}
		worst = min(worst, at)
	}
	if worst == len(order) {
		return spec.NotJudged
	}
	return order[worst]
}

func compared(n spec.FleetNode) bool {
	return slices.ContainsFunc(n.Figures, func(x spec.FleetFigure) bool { return x.Ratio != nil })
}

// fleetReason says which nodes the verdict is by: their names, where it is no pass.
func fleetReason(f *spec.FleetVerdict, odd []string) string {
	var by []string
	for _, n := range f.Nodes {
		if n.Verdict == f.Verdict {
			by = append(by, n.Node)
		}
	}
	all := counted(float64(len(f.Nodes)), "node")
	text := fmt.Sprintf("%d of %s %s", len(by), all, f.Verdict)
	if f.Verdict != spec.Pass && len(by) > 0 {
		text += ": " + inWords(by)
	}
	switch worse := "worse than its peers: " + inWords(odd); {
	case len(odd) > 0 && len(by) == 0:
		return fmt.Sprintf("%d of %s %s", len(odd), all, worse)
	case len(odd) > 0:
		return text + "; " + worse
	case len(f.Nodes) > 1 && f.Verdict == spec.Pass && !slices.ContainsFunc(f.Nodes, compared):
		return text + "; none has a peer to be compared with"
	case len(f.Nodes) > 1 && f.Verdict == spec.Pass:
		return text + "; no node is worse than its peers show"
	}
	return text
}
