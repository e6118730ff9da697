package judge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// renamed gives worker 3 an instance id, as a runtime has it, and its page an address.
func renamed(pod string) func(r *spec.EpisodeRecord) {
	const id = "11655315835634843650"
	return func(r *spec.EpisodeRecord) {
		for i := range r.Requests {
			if r.Requests[i].Worker == "3" {
				r.Requests[i].Worker = id
			}
		}
		for i := range r.Series {
			if s := &r.Series[i]; s.Source == spec.SourceWorker && s.Name == "3" {
				s.Name, s.Instance = id, "10.0.0.7:9090"
				if s.Worker != nil {
					s.Worker.Pod = pod
				}
			}
			if s := &r.Series[i]; s.GPU != nil && s.Name == "GPU-3" {
				s.GPU.Node, s.GPU.Index = "node-a", "3"
			}
		}
	}
}

func TestAWorkerIsShownByWhatItsReaderCanFind(t *testing.T) {
	const id = "11655315835634843650"
	for name, c := range map[string]struct {
		pod     string
		blind   bool
		gpu     bool
		address string
		want    string
	}{
		"its page alone":            {want: "10.0.0.7:9090 (GPU-3)"},
		"its pod":                   {pod: "decode-0", want: "decode-0 (GPU-3)"},
		"its pod and its GPU":       {pod: "decode-0", gpu: true, want: "decode-0 (node node-a, GPU 3 GPU-3)"},
		"nothing but an answer":     {blind: true, want: "with id 11655315835634843650 at the frontend's /health"},
		"a page, placed on node":    {gpu: true, want: "10.0.0.7:9090 (node node-a, GPU 3 GPU-3)"},
		"where the frontend has it": {blind: true, address: "10.0.0.7:36177", want: "10.0.0.7:36177"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bout{pace: only(3, 10, 13, 0), blind: c.blind}
			if c.gpu {
				b.gpu = func(_, g int) *spec.GPUSample { return &spec.GPUSample{Utilization: new(0.9)} }
			}
			all := times(4, b)
			for _, r := range all {
				renamed(c.pod)(r)
			}
			var events []spec.Event
			if c.gpu {
				events = append(events, spec.Event{Kind: spec.EventPlaced, Worker: id, GPU: "GPU-3"})
			}
			if c.address != "" {
				events = append(events, spec.Event{Kind: spec.EventAnswer, Worker: id, Source: c.address, Seconds: new(0.1), Tokens: new(8)})
			}
			v := Judge(handPlan(), events, all...)
			if len(v.Findings) == 0 {
				t.Fatalf("nothing found: %s", v.Reason)
			}
			f := v.Findings[0]
			if diff := cmp.Diff([]string{id}, f.Workers); diff != "" {
				t.Errorf("for scripts (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff([]string{c.want}, f.Named()); diff != "" {
				t.Errorf("shown (-want +got)\n%s", diff)
			}
			for _, text := range append([]string{v.Reason, f.Summary}, f.Evidence...) {
				if strings.Contains(text, id) && !strings.Contains(c.want, id) {
					t.Errorf("an id alone: %s", text)
				}
			}
			if !strings.Contains(v.Reason, "worker "+c.want) {
				t.Errorf("reason: %s", v.Reason)
			}
			if short := v.Names[id]; short == "" || len(v.Stalls) == 0 || v.Stalls[0].Worker != id || v.Named(id) != short {
				t.Errorf("in tables it is %q, and the stalls are %+v", short, v.Stalls)
			}
		})
	}
}

// An engine of a worker that has several goes by an id too, and what a run waits for is
// told by names.
func TestAnEngineAndWhatIsWaitedForAreNamed(t *testing.T) {
	const id = "11655315835634843650"
	answered := func(worker string) spec.Event {
		return spec.Event{Kind: spec.EventAnswer, Worker: worker, Source: "10.0.0.7:36177"}
	}
	ev := &Evidence{start: startOf([]spec.Event{answered(id + "/1"), answered(id), {Kind: spec.EventPlaced, Worker: "decode-0", Source: "n1", GPU: "GPU-a"}})}
	next := &Next{Why: "workers " + id + " and " + id + "/1 may be slow"}
	v := &spec.Verdict{Notes: []string{"worker " + id + "/1"}, Findings: []spec.Finding{{Workers: []string{"decode-0", "decode-1"}}}}
	ev.readable(v, next)
	if want := "workers 10.0.0.7:36177 and 10.0.0.7:36177/1 may be slow"; next.Why != want || v.Notes[0] != "worker 10.0.0.7:36177/1" {
		t.Errorf("%q and %q, want %q", next.Why, v.Notes, want)
	}
	if diff := cmp.Diff([]string{"decode-0 (node n1, GPU-a)", "decode-1"}, v.Findings[0].Named()); diff != "" { // a pod, with its node
		t.Error(diff)
	}
}

// A worker has another id with each start. Its stalls of earlier runs are found by its
// page, where no GPU is known.
func TestStallsOfEarlierRunsAreFoundByAWorkersPage(t *testing.T) {
	const id, page = "11655315835634843650", "10.0.0.7:9090"
	v := &spec.Verdict{Names: map[string]string{"1": "2", id: page}, Stalls: []spec.Stall{{Worker: id}, {Worker: id}}}
	e := NewHistoryEntry(spec.Run{}, spec.Deployment{}, handPlan(), v)
	if diff := cmp.Diff([]spec.HistoryStall{{Worker: page, Count: 2}}, e.Stalls); diff != "" {
		t.Error(diff)
	}
	ev := &Evidence{plan: handPlan(func(p *spec.Plan) {
		p.Prior = []spec.PriorStall{{Worker: page, Count: 2}, {Worker: "10.0.0.8:9090", Count: 1}, {Count: 4}}
	}),
		start: startOf([]spec.Event{{Kind: spec.EventAnswer, Worker: "99999999999999", Source: page}})}
	if got := ev.priorOf("99999999999999"); got != 2 {
		t.Errorf("%v stalls of earlier runs, want 2", got)
	}
}

// The names of a simulated fleet, and of pods, stay.
func TestANameThatCanBeReadStays(t *testing.T) {
	for _, name := range []string{"3", "123456789", "decode-0", "10.0.0.7:9090", ""} {
		if got := (&Evidence{}).displayName(name); got != name {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}
