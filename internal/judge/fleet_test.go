package judge

import (
	"math"
	"slices"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// nodeWith is a node whose episodes had so many tokens a second and a GPU.
func nodeWith(name string, stalls int, perGPU ...float64) *FleetSide {
	s := &FleetSide{Node: name, Workers: 8}
	s.Verdict, s.Episodes, s.LoadedS, s.Stalls = spec.Pass, len(perGPU), 50*float64(len(perGPU)), stalls
	for i, v := range perGPU {
		s.throughput = append(s.throughput, math.Log(8*v))
		s.ttft = append(s.ttft, math.Log(200+float64(i)))
	}
	return s
}

func (s *FleetSide) with(gpu string) *FleetSide {
	s.GPU = gpu
	return s
}

// Other GPUs are slower without being ill.
func TestANodesPeersHaveTheSameGPUs(t *testing.T) {
	well, less := []float64{1000, 1010, 990, 1005}, []float64{500, 505, 495, 500}
	f := CompareFleet([]*FleetSide{nodeWith("a", 0, well...).with("H100"), nodeWith("b", 0, well...).with("H100"), nodeWith("old", 0, less...).with("A100")})
	if f.Verdict != spec.Pass || f.Nodes[2].Outside != nil || f.Nodes[2].Figures[0].Ratio != nil {
		t.Errorf("%s: %s", f.Verdict, f.Reason)
	}
	if want := []string{"old is compared with none: no other has its GPUs (A100)"}; !slices.Equal(f.Notes, want) {
		t.Errorf("noted %q, want %q", f.Notes, want)
	}
	f = CompareFleet([]*FleetSide{nodeWith("a", 0, well...).with("H100"), nodeWith("b", 0, less...).with("H100"), nodeWith("old", 0, less...).with("A100")})
	if f.Verdict != spec.Fail || len(f.Nodes[1].Outside) == 0 {
		t.Errorf("the slow one of the two alike: %s: %s", f.Verdict, f.Reason)
	}
	f = CompareFleet([]*FleetSide{nodeWith("a", 0, well...).with("H100"), nodeWith("b", 0, well...)})
	if want := "2 of 2 nodes PASS; none has a peer to be compared with"; f.Reason != want {
		t.Errorf("%q, want %q", f.Reason, want)
	}
	if want := []string{"a is compared with none: no other has its GPUs (H100)", "b is compared with none: no other has its GPUs (which, nobody says)"}; !slices.Equal(f.Notes, want) {
		t.Errorf("noted %q, want %q", f.Notes, want)
	}
}

func TestANodeIsHeldAgainstItsPeers(t *testing.T) {
	well := []float64{1000, 1010, 990, 1005}
	for name, c := range map[string]struct {
		nodes []*FleetSide
		want  string // node: figures
		fails bool   // by that alone: each passes by its own floor
	}{
		"all alike":                   {[]*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 0, well...), nodeWith("c", 0, well...)}, "", false},
		"one is slow":                 {[]*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 0, 800, 805, 795, 800), nodeWith("c", 0, well...)}, "b: throughput a GPU", false},
		"one is far slower":           {[]*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 0, 700, 705, 695, 700), nodeWith("c", 0, well...)}, "b: throughput a GPU", true},
		"a little slower is no fault": {[]*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 0, 950, 955, 945, 950), nodeWith("c", 0, well...)}, "", false},
		"one is faster":               {[]*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 0, 1400, 1405, 1395, 1400), nodeWith("c", 0, well...)}, "", false},
		"one stalls":                  {[]*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 14, well...), nodeWith("c", 1, well...)}, "b: stalls", false},
		"one of two is slow":          {[]*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 0, 500, 505, 495, 500)}, "b: throughput a GPU", true},
		"one alone has no peers":      {[]*FleetSide{nodeWith("b", 0, 500, 505, 495, 500)}, "", false},
		"one episode is no spread":    {[]*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 0, 500), nodeWith("c", 0, well...)}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := CompareFleet(c.nodes)
			var got []string
			for _, n := range f.Nodes {
				if len(n.Outside) > 0 {
					got = append(got, n.Node+": "+strings.Join(n.Outside, ", "))
				}
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("%q, want %q", text, c.want)
			}
			if c.want != "" && !strings.Contains(f.Reason, "worse than its peers: b") {
				t.Errorf("the reason does not say it: %s", f.Reason)
			}
			if want := map[bool]spec.State{true: spec.Fail, false: spec.Pass}[c.fails]; f.Verdict != want {
				t.Errorf("%s, want %s: nodes that pass by their floors, %s", f.Verdict, want, f.Reason)
			}
		})
	}
}

// Who failed is named in the first line, whether or not its peers are there to compare.
func TestAFleetNamesWhoFailed(t *testing.T) {
	a, b := nodeWith("a", 0, 1000), nodeWith("b", 0, 1000)
	b.Verdict = spec.Fail
	for want, nodes := range map[string][]*FleetSide{
		"1 of 2 nodes FAIL: b": {a, b},
		"1 of 1 node FAIL: b":  {b},
		"2 of 2 nodes PASS; no node is worse than its peers show": {a, nodeWith("c", 0, 1000)},
	} {
		if got := CompareFleet(nodes).Reason; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheWorstNodeDecides(t *testing.T) {
	for want, states := range map[spec.State][]spec.State{
		spec.Pass: {spec.Pass, spec.Pass}, spec.Fail: {spec.Pass, spec.Fail, spec.Invalid}, spec.Invalid: {spec.Inconclusive, spec.Invalid},
		spec.Inconclusive: {spec.Pass, spec.Skip, spec.Inconclusive}, spec.Skip: {spec.Pass, spec.Skip}, spec.NotJudged: {spec.Pass, spec.NotJudged},
	} {
		var nodes []*FleetSide
		for _, s := range states {
			n := nodeWith("n", 0, 1)
			n.Verdict = s
			nodes = append(nodes, n)
		}
		if got := CompareFleet(nodes).Verdict; got != want {
			t.Errorf("%v: %s", states, got)
		}
	}
	if got := CompareFleet(nil).Verdict; got != spec.NotJudged {
		t.Errorf("no node: %s", got)
	}
}

// Of a node on which others hold GPUs it is said how many were validated.
func TestAFleetTellsHowManyGPUsOfANodeWereValidated(t *testing.T) {
	part, whole := nodeWith("a", 0, 1000, 1010), nodeWith("b", 0, 1000, 1010)
	part.GPUs, whole.GPUs = 16, 8
	notes := CompareFleet([]*FleetSide{part, whole}).Notes
	if want := "a: 8 of its 16 GPUs were validated, others hold the rest"; len(notes) != 1 || notes[0] != want {
		t.Errorf("%q, want %q", notes, want)
	}
}

// A fleet of which a node was not looked at has not passed, unless the node was left out on
// purpose; what has failed stays failed.
func TestAFleetOfWhichANodeWasNotValidatedHasNotPassed(t *testing.T) {
	well := []float64{1000, 1010, 990, 1005}
	pass := func() []*FleetSide { return []*FleetSide{nodeWith("a", 0, well...), nodeWith("b", 0, well...)} }
	fail := func() []*FleetSide { all := pass(); all[1].Verdict = spec.Fail; return all }
	skip := func() []*FleetSide { all := pass()[:1]; all[0].Verdict = spec.Skip; return all }
	notReady := spec.PassedBy{Node: "c", Reason: "it is not ready"}
	full := spec.PassedBy{Node: "d", Reason: "all of its 2 GPUs are held", Held: "pod team/train (2)"}
	leftOut := spec.PassedBy{Node: "e", Reason: "its labels are not those of --node-selector", LeftOut: true}
	for name, c := range map[string]struct {
		nodes  []*FleetSide
		passed []spec.PassedBy
		want   spec.State
		reason string
	}{
		"every node":          {pass(), nil, spec.Pass, "2 of 2 nodes PASS; no node is worse than its peers show"},
		"left out on purpose": {pass(), []spec.PassedBy{leftOut}, spec.Pass, "2 of 2 nodes PASS; no node is worse than its peers show"},
		"not ready":           {pass(), []spec.PassedBy{notReady}, spec.Inconclusive, "2 of 2 nodes PASS; no node is worse than its peers show; 1 of 3 nodes with GPUs not validated: c (it is not ready)"},
		"held, and left out":  {pass(), []spec.PassedBy{full, leftOut}, spec.Inconclusive, "2 of 2 nodes PASS; no node is worse than its peers show; 1 of 4 nodes with GPUs not validated: d (all of its 2 GPUs are held)"},
		"one failed, one not": {fail(), []spec.PassedBy{notReady}, spec.Fail, "1 of 2 nodes FAIL: b; 1 of 3 nodes with GPUs not validated: c (it is not ready)"},
		"none was looked at":  {nil, []spec.PassedBy{notReady}, spec.NotJudged, "0 of 0 nodes NOT JUDGED; 1 of 1 node with GPUs not validated: c (it is not ready)"},
		"a skip is no pass":   {skip(), []spec.PassedBy{notReady}, spec.Inconclusive, "1 of 1 node SKIP: a; 1 of 2 nodes with GPUs not validated: c (it is not ready)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := CompareFleet(c.nodes, c.passed...)
			if f.Verdict != c.want || f.Reason != c.reason || len(f.Passed) != len(c.passed) {
				t.Errorf("%s: %s\nwant %s: %s", f.Verdict, f.Reason, c.want, c.reason)
			}
		})
	}
}
