package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// What a verdict can have found is what somebody looks for, each once.
func TestEveryFindingHasItsDiagnosis(t *testing.T) {
	var got []string
	for _, d := range diagnoses() {
		got = append(got, d.id)
	}
	want := slices.Sorted(slices.Values(spec.FindingIDs()))
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("(-spec.FindingIDs +diagnoses)\n%s", diff)
	}
	rows := map[string]bool{}
	for name, c := range tableOfDiagnoses() {
		for _, w := range c.want {
			rows[strings.Fields(w)[1]] = true
		}
		if len(c.want) == 0 && !strings.Contains(name, ":") {
			t.Errorf("row %q finds nothing and names no rule that it nearly meets", name)
		}
	}
	for _, id := range spec.FindingIDs() {
		if !rows[id] {
			t.Errorf("no row of the table finds %s", id)
		}
	}
}

// diagnosisCase is a run and everything that is found in it: "severity id workers".
type diagnosisCase struct {
	plan     func(*spec.Plan)
	events   []spec.Event
	half     *bout
	episodes []*spec.EpisodeRecord

	verdict spec.State
	want    []string // in order
	words   []string // summaries or evidence that must be there
}

func (c *diagnosisCase) judge() *spec.Verdict {
	p := handPlan()
	if c.plan != nil {
		c.plan(p)
	}
	all := c.episodes
	if c.half != nil {
		r := c.half.record()
		r.Episode.Number = 0
		all = append([]*spec.EpisodeRecord{r}, all...)
	}
	return Judge(p, c.events, all...)
}

// tableOfDiagnoses is made once, and judgedCases are its verdicts: several tests look
// at them.
var (
	tableOfDiagnoses = sync.OnceValue(diagnosisCases)
	judgedCases      = sync.OnceValue(func() map[string]*spec.Verdict {
		all := map[string]*spec.Verdict{}
		for name, c := range tableOfDiagnoses() {
			all[name] = c.judge()
		}
		return all
	})
)

func found(v *spec.Verdict) []string {
	lines := []string{}
	for _, f := range v.Findings {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Severity, f.ID, strings.Join(f.Workers, ","))))
	}
	return lines
}

// findingsSaid is everything in words.
func findingsSaid(v *spec.Verdict) string {
	var all []string
	for _, f := range v.Findings {
		all = append(all, fmt.Sprintf("%s (%s, GPUs %v)", f.Summary, f.Confidence, f.GPUs))
		all = append(all, f.Evidence...)
	}
	return strings.Join(append(all, v.Reason), "\n")
}

func TestDiagnosesFindWhatIsThereAndNotWhatIsNear(t *testing.T) {
	verdicts := judgedCases()
	for name, c := range tableOfDiagnoses() {
		t.Run(name, func(t *testing.T) {
			v := verdicts[name]
			if diff := cmp.Diff(append([]string{}, c.want...), found(v)); diff != "" {
				t.Errorf("findings (-want +got)\n%s%s", diff, findingsSaid(v))
			}
			if v.Verdict != c.verdict {
				t.Errorf("%s, not %s: %s", v.Verdict, c.verdict, v.Reason)
			}
			for _, w := range c.words {
				if !strings.Contains(findingsSaid(v), w) {
					t.Errorf("no %q in:\n%s", w, findingsSaid(v))
				}
			}
			for _, f := range v.Findings {
				if f.Summary == "" || f.Confidence == "" || f.Evidence == nil || len(f.Advice) == 0 {
					t.Errorf("%s is not told whole: %+v", f.ID, f)
				}
			}
		})
	}
}

func answer(worker string, took float64, tokens int, reason string) spec.Event {
	return spec.Event{Kind: spec.EventAnswer, Worker: worker, Seconds: &took, Tokens: &tokens, Reason: reason, Text: reason}
}

func podEvent(worker, reason, text string) spec.Event {
	return spec.Event{Kind: spec.EventPod, Source: "pod-" + worker, Worker: worker, Reason: reason, Text: text}
}

func nodeEvent(reason string) spec.Event {
	return spec.Event{Kind: spec.EventNode, Source: "gpu-0", Reason: reason}
}

// removedEvent is the graph deleted by somebody at a time of the run; 0: not known.
func removedEvent(at float64) spec.Event {
	e := spec.Event{T: at + 5, Kind: spec.EventRemoved, Source: "DynamoGraphDeployment ns/g", Text: "by hand"}
	if at > 0 {
		e.Seconds = &at
	}
	return e
}

func began(episode int, at float64) spec.Event {
	return spec.Event{T: at, Kind: spec.EventStage, Stage: "episode", Episode: episode}
}

// neverServes is an endpoint that was asked for so long.
func neverServes(after float64) spec.Event {
	return spec.Event{T: after, Kind: spec.EventNotServed, Text: "asked 9 times, refused"}
}

func logLine(text string, count int) spec.Event {
	return spec.Event{Kind: spec.EventLog, Source: "frontend", Text: text, Count: count}
}

func gpusFree(of, free int) spec.Event {
	return spec.Event{Kind: spec.EventGPUs, Want: &of, Have: &free}
}

func versions(runtime, chart string) spec.Event {
	return spec.Event{Kind: spec.EventVersions, Runtime: runtime, Chart: chart}
}

// heldBack is an exporter by which a GPU is held back in one of so many samples.
func heldBack(who, of int, reason string) func(s, g int) *spec.GPUSample {
	return func(s, g int) *spec.GPUSample {
		reasons := []string{}
		if g == who && s%of == 0 {
			reasons = []string{reason}
		}
		return &spec.GPUSample{PowerW: new(500.0), Utilization: new(0.9), TemperatureC: new(80.0), XID: new(0.0), DoubleBit: new(0.0), Throttle: &reasons}
	}
}

// broken is an exporter that says something of one GPU from a second on.
func broken(who, from int, say func(*spec.GPUSample)) func(s, g int) *spec.GPUSample {
	return func(s, g int) *spec.GPUSample {
		v := &spec.GPUSample{PowerW: new(500.0), XID: new(0.0), DoubleBit: new(0.0), RemapFailure: new(0.0)}
		if g == who && s >= from {
			say(v)
		}
		return v
	}
}

// oneIn fails one request in so many.
func oneIn(n int, e ending) func(u, k int, s float64, w int) ending {
	return func(u, k int, s float64, w int) ending {
		if (k*32+u)%n == 0 {
			return e
		}
		return ending{}
	}
}

// cachedShare has the server tell that so much of each prompt was cached.
func cachedShare(share float64) func(*spec.Request) {
	return func(q *spec.Request) { q.Cached = new(int(share * float64(q.Prompt))) }
}

// putsBack is a page of a worker that puts so many requests back in a second.
func putsBack(who int, each, kv float64) func(s, w int, p *spec.Sample) {
	return func(s, w int, p *spec.Sample) {
		if w == who {
			p.Worker.Preemptions, p.Worker.KVUsage = new(each*float64(s)), &kv
			p.Worker.PrefixQueries, p.Worker.PrefixHits = new(100*float64(s)), new(4*float64(s))
		}
	}
}

// Cached prompts are told, though they change nothing.
func TestPrefixHitsAreTold(t *testing.T) {
	for hits, want := range map[float64]bool{0.04: false, 0.4: true} {
		page := func(s, w int, p *spec.Sample) {
			p.Worker.PrefixQueries, p.Worker.PrefixHits = new(100*float64(s)), new(100*hits*float64(s))
		}
		c := diagnosisCase{plan: func(p *spec.Plan) { p.Point.Prompts = "100" }, episodes: times(2, bout{page: page})}
		const told = "up to 40 % of the prompts' tokens came from a prefix cache"
		if v := c.judge(); slices.Contains(v.Notes, told) != want {
			t.Errorf("with %g: %q", hits, v.Notes)
		}
	}
}

// hole is a worker that refuses what it is sent for some seconds, and a router that
// sends it everything since it always has the least.
func hole(who int, from, until float64) bout {
	dead := func(s float64, w int) bool { return w == who && s >= from && s < until }
	return bout{
		route: func(u, n int, s float64) int {
			if s >= from && s < until {
				return who
			}
			return u % 4
		},
		ends: func(u, n int, s float64, w int) ending {
			switch {
			case dead(s, w):
				return ending{class: "http-error", afterS: 0.1, detail: "500"}
			case w == who && s > from-2 && s < from: // its streams are cut when it dies
				return ending{class: "truncated", tokens: 1 + int((from-s)*handPerS), detail: "reset"}
			}
			return ending{}
		},
	}
}

func saidLast(worker, text string) spec.Event {
	return spec.Event{Kind: spec.EventLog, Source: "pod-" + worker, Worker: worker, Reason: lastWords, Text: text}
}

func workersReady(want, have int) spec.Event {
	return spec.Event{Kind: spec.EventWorkers, Want: &want, Have: &have}
}

func unnamed(q *spec.Request) {
	if q.Class != spec.ClassOK {
		q.Worker = ""
	}
}

func diagnosisCases() map[string]diagnosisCase {
	well := times(9, bout{})
	floor := func(v float64) func(*spec.Plan) {
		return func(p *spec.Plan) {
			p.Constraints = append(p.Constraints, spec.Constraint{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: v, Unit: "tokens/s"})
		}
	}
	return map[string]diagnosisCase{
		"healthy: nothing": {episodes: well, verdict: spec.Pass},

		// Before any load.
		"first answer after 42 s": {events: []spec.Event{answer("1", 42, 4, ""), answer("2", 3, 4, "")}, episodes: well, verdict: spec.Pass,
			want: []string{"note start/cold 1"}, words: []string{"first answer took 42 s; warm", "worker 1 took 42.0 s"}},
		"cold: 5 s are usual":     {events: []spec.Event{answer("1", 5, 4, "")}, episodes: well, verdict: spec.Pass},
		"never served":            {events: []spec.Event{neverServes(300)}, verdict: spec.Fail, want: []string{"fail start/timeout"}, words: []string{"no completion in 5 min", "asked 9 times"}},
		"timeout: nothing loaded": {events: []spec.Event{}, verdict: spec.Inconclusive},
		"other minor version": {events: []spec.Event{versions("0.9.0", "1.0.2")}, verdict: spec.Fail, want: []string{"fail config/version-skew"},
			words: []string{"runtime 0.9.0 does not go with chart 1.0.2"}},
		"skew: other patch":     {events: []spec.Event{versions("v1.0.0", "1.0.2")}, episodes: well, verdict: spec.Pass},
		"skew: no version told": {events: []spec.Event{versions("", "1.0.2"), versions("latest", "1.0.2")}, episodes: well, verdict: spec.Pass},
		"discovery panics": {events: []spec.Event{logLine("thread panicked: Unfold must not be polled after it returned Ready(None)", 24), logLine("bucket missing", 97), neverServes(121)},
			verdict: spec.Fail, want: []string{"fail config/discovery-panic"}, words: []string{"(very high", "24 x", "97 x \"bucket missing\"", "no completion in 2 min"}},
		"discovery panics, and the version is another": {events: []spec.Event{versions("0.9.0", "1.0.2"), logLine("Unfold must not be polled", 24), neverServes(121)},
			verdict: spec.Fail, want: []string{"fail config/discovery-panic", "fail config/version-skew"}},
		"discovery panics, and nobody waits for it": {events: []spec.Event{logLine("Unfold must not be polled", 1), neverServes(4)},
			verdict: spec.Fail, want: []string{"fail config/discovery-panic"}, words: []string{"(very high", "no completion in 4 s"}},
		"panic: a missing bucket alone, too early to tell": {events: []spec.Event{logLine("bucket missing", 3), neverServes(119)}, verdict: spec.Fail, want: []string{"fail start/timeout"}},
		"a missing bucket alone, for long": {events: []spec.Event{logLine("bucket missing", 3), neverServes(121)}, verdict: spec.Fail,
			want: []string{"fail config/discovery-panic"}, words: []string{"(medium"}},
		"panic: it serves all the same": {events: []spec.Event{logLine("bucket missing", 3)}, episodes: well, verdict: spec.Pass},
		"DRA plugin stale": {events: []spec.Event{podEvent("2", "FailedPrepareDynamicResources", "prepare: empty device edits"), neverServes(300)},
			verdict: spec.Invalid, want: []string{"invalid cluster/dra-stale 2"}, words: []string{"1 pod event"}},
		"DRA: another reason": {events: []spec.Event{podEvent("2", "FailedPrepareDynamicResources", "timeout"), neverServes(300)},
			verdict: spec.Fail, want: []string{"fail cluster/pods-failed 2"}, words: []string{"the DRA plugin cannot prepare the GPU of a pod", "timeout"}},
		"no free GPU": {events: []spec.Event{gpusFree(8, 0)}, verdict: spec.Fail, want: []string{"fail cluster/no-free-gpus"}, words: []string{"0 of 8 GPUs were free"}},
		"no free GPU, told node by node": {events: []spec.Event{held("gpu-0", 8, "held by pod a/b (8)"), held("gpu-1", 4, "held by claim c/d (4)")}, verdict: spec.Fail,
			want: []string{"fail cluster/no-free-gpus"}, words: []string{"0 of 12 GPUs were free", "gpu-0: held by pod a/b (8)", "gpu-1: held by claim c/d (4)"}},
		"the load's own pod": {events: []spec.Event{{Kind: spec.EventPod, Source: "aicr-load-01234567-x", Reason: "ErrImagePull", Text: "no"}, neverServes(60)}, verdict: spec.Invalid,
			want: []string{"invalid cluster/pods-failed"}, words: []string{"the load could not begin: an image cannot be pulled"}},
		"the load's image is another program's": {events: []spec.Event{{Kind: spec.EventPod, Source: "aicr-load-01234567-trial-x", Reason: "NotTheLoad", Text: "busybox was pulled"}, neverServes(60)}, verdict: spec.Invalid,
			want: []string{"invalid cluster/pods-failed"}, words: []string{"the load could not begin: the image does not run as the load: busybox was pulled"}},
		"the load's pod stays Pending": {events: []spec.Event{{Kind: spec.EventPod, Source: "aicr-load-01234567-x", Reason: "NotStarted", Text: "did not start in 5m0s: Pending; it is on node gpu-0, which is not ready"}, neverServes(60)}, verdict: spec.Invalid,
			want: []string{"invalid cluster/pods-failed"}, words: []string{"the load could not begin: a pod did not start in time: did not start in 5m0s: Pending; it is on node gpu-0"}},
		"a pod that a policy refuses, and what to do": {events: []spec.Event{{Kind: spec.EventPod, Source: "Job aicr-model-cache-populate-1", Reason: "PodRefused", Text: "failed quota", Advice: []string{"give it a LimitRange"}}, neverServes(60)}, verdict: spec.Invalid,
			want: []string{"invalid cluster/pods-failed"}, words: []string{"the model could not be fetched: the cluster refuses a pod: failed quota"}},
		"a pod of the graph that a policy refuses": {events: []spec.Event{{Kind: spec.EventPod, Source: "PodClique g-0-worker", Reason: "PodRefused", Text: "failed quota"}, neverServes(60)}, verdict: spec.Fail,
			want: []string{"fail cluster/pods-failed"}, words: []string{"the cluster refuses a pod: failed quota"}},
		"what Grove cannot make": {events: []spec.Event{{Kind: spec.EventPod, Source: "PodCliqueSet g", Reason: "GroveFailed", Text: "ERR_X: no"}, neverServes(60)}, verdict: spec.Fail,
			want: []string{"fail cluster/pods-failed"}, words: []string{"Grove cannot make the pods of the graph: ERR_X: no"}},
		"a volume before no place": {events: []spec.Event{podEvent("1", "Unschedulable", "0/3 nodes"), podEvent("", "VolumeUnbound", "no provisioner"), neverServes(60)}, verdict: spec.Fail,
			want: []string{"fail cluster/pods-failed 1"}, words: []string{"the volume for the model is not bound", "0/3 nodes"}},
		"free GPUs: one":   {events: []spec.Event{gpusFree(8, 1)}, verdict: spec.Inconclusive},
		"pods cannot pull": {events: []spec.Event{podEvent("1", "ImagePullBackOff", "no such image"), neverServes(300)}, verdict: spec.Fail, want: []string{"fail cluster/pods-failed 1"}, words: []string{"no such image", "an image cannot be pulled"}},
		"pods cannot pull, so that no worker is there": {events: []spec.Event{workersReady(2, 0), podEvent("1", "ImagePullBackOff", "no such image"), neverServes(3)}, verdict: spec.Fail,
			want: []string{"fail cluster/pods-failed 1"}},
		"workers are not there, and nothing tells why": {events: []spec.Event{workersReady(4, 3), neverServes(300)}, verdict: spec.Fail,
			want: []string{"fail start/timeout", "fail worker/absent"}, words: []string{"1 of 4 workers were never seen"}},
		"a worker runs and never becomes ready": {events: []spec.Event{workersReady(4, 3), podEvent("2", notReady, "Running not ready"), neverServes(300)}, verdict: spec.Fail,
			want: []string{"fail worker/absent 2"}, words: []string{"worker 2 never became ready: Running not ready", "worker 2 never became ready ("}},
		"a worker ends under load": {events: []spec.Event{podEvent("2", spec.PodEnded, "container main ended 3 times under load")}, episodes: well, verdict: spec.Fail,
			want: []string{"fail worker/absent 2"}, words: []string{"worker 2 ended during the run", "worker 2: container main ended 3 times under load"}},
		"a worker is replaced under load": {events: []spec.Event{podEvent("2", spec.PodReplaced, "it was deleted, and w-9 took its place")}, episodes: well, verdict: spec.Fail,
			want: []string{"fail worker/absent 2"}, words: []string{"worker 2 ended during the run", "worker 2: it was deleted, and w-9 took its place"}},
		"the frontend is started anew": {events: []spec.Event{podEvent("", spec.PodEnded, "container main ended once")}, episodes: well, verdict: spec.Fail,
			want: []string{"fail serving/restarted"}, words: []string{"pod-: container main ended once"}},
		"the frontend is replaced": {events: []spec.Event{podEvent("", spec.PodReplaced, "it was deleted, and f-1 took its place")}, episodes: well, verdict: spec.Fail,
			want: []string{"fail serving/restarted"}, words: []string{"pod-: it was deleted, and f-1 took its place"}},
		"restarted: nothing was loaded": {events: []spec.Event{podEvent("", spec.PodEnded, "x"), neverServes(300)}, verdict: spec.Fail, want: []string{"fail start/timeout"}},
		"the node is cordoned": {events: []spec.Event{nodeEvent(spec.NodeCordoned)}, episodes: well, verdict: spec.Pass,
			want: []string{"note cluster/node-changed"}, words: []string{"node gpu-0 was cordoned during the run"}},
		"the node is deleted": {events: []spec.Event{nodeEvent(spec.NodeDeleted)}, episodes: well, verdict: spec.Pass,
			want: []string{"note cluster/node-changed"}, words: []string{"node gpu-0 was deleted from the cluster during the run"}},
		"the node is deleted, and comes back": {events: []spec.Event{nodeEvent(spec.NodeRegistered)}, episodes: well, verdict: spec.Pass,
			want: []string{"note cluster/node-changed"}, words: []string{"and registered again"}},
		"ended: it could not be seen": {events: []spec.Event{podEvent("", spec.PodsUnseen, "no answer for 3m0s")}, episodes: well, verdict: spec.Inconclusive,
			words: []string{"whether pods that serve ended under load is not known: no answer for 3m0s"}},
		"somebody deletes the graph, and the workers go": {events: []spec.Event{removedEvent(0), podEvent("2", spec.PodEnded, "x"), {Kind: spec.EventInterrupt, Reason: "JobDeleted", Text: "x"}},
			episodes: times(2, bout{route: awayFrom(3, 10), page: darkened(3, 12, 99, spec.GapRefused)}), verdict: spec.Inconclusive,
			want: []string{"note cluster/removed"}, words: []string{"DynamoGraphDeployment ns/g was deleted under load, and not by this run: by hand"}},
		"somebody deletes the graph, before the answers": {events: []spec.Event{removedEvent(0), workersReady(4, 3), neverServes(300)}, verdict: spec.Inconclusive, want: []string{"note cluster/removed"}},
		"what was found before it was deleted is a note": {events: []spec.Event{began(1, 10), began(2, 100), removedEvent(120)},
			episodes: sequel(times(1, bout{gpu: broken(2, 20, func(g *spec.GPUSample) { g.XID = new(48.0) })}), times(1, bout{route: awayFrom(3, 10), page: darkened(3, 12, 99, spec.GapRefused)})), verdict: spec.Inconclusive,
			want: []string{"note cluster/removed", "note gpu/error 2"}},
		"pods crash, and their last words are known": {events: []spec.Event{podEvent("1", "CrashLoopBackOff", "ended twice"), podEvent("2", "CrashLoopBackOff", "ended twice"), saidLast("1", "first"),
			saidLast("1", "second"), saidLast("1", "3"), saidLast("1", "4"), saidLast("1", "5"), saidLast("1", "KeyError: model"), saidLast("2", "not of this one"), neverServes(3)}, verdict: spec.Fail,
			want: []string{"fail cluster/pods-failed 1,2"}, words: []string{"log of pod-1: second\n", "log of pod-1: KeyError: model\n"}},
		"pods: what is refused says why at its end": {events: []spec.Event{podEvent("1", "GraphFailed", strings.Repeat("is forbidden: ", 30)+"nobody deploys on a Friday"), neverServes(3)}, verdict: spec.Fail,
			want: []string{"fail cluster/pods-failed 1"}, words: []string{"nobody deploys on a Friday"}},
		"pods: one was slow, and all serve": {events: []spec.Event{podEvent("1", "FailedScheduling", "0/3 nodes")}, episodes: well, verdict: spec.Pass},
		"answers without a token, no load": {events: []spec.Event{answer("0", 1, 0, "no-tokens"), answer("1", 1, 0, "no-tokens"), neverServes(60)}, verdict: spec.Invalid,
			want: []string{"invalid serving/no-tokens 0,1"}, words: []string{"every answer was complete and without a token"}},

		// Requests.
		"answers without a token, under load": {episodes: times(2, bout{ends: oneIn(11, ending{class: "no-tokens", afterS: 2})}), verdict: spec.Fail,
			want: []string{"fail serving/no-tokens"}, words: []string{"88 of 960 answers were complete and without a token"}},
		"no tokens: one in 101": {episodes: times(9, bout{ends: oneIn(101, ending{class: "no-tokens", afterS: 2})}), verdict: spec.Pass, want: []string{"note serving/no-tokens"}},
		"requests fail": {episodes: times(2, bout{ends: oneIn(11, ending{class: "http-error", afterS: 2.5, detail: "status 503"})}), verdict: spec.Fail,
			want: []string{"fail serving/errors"}, words: []string{"86 of 940 requests failed (9.1 %, 95 % between 7.4 and 11 %)", "http-error: ", "status 503"}},
		"errors: one in 201": {episodes: times(9, bout{ends: oneIn(201, ending{class: "http-error", afterS: 2})}), verdict: spec.Pass, want: []string{"note serving/errors"}},
		"requests fail in the look at half the load": {half: &bout{users: 16, ends: oneIn(11, ending{class: "connect", afterS: 2.5, detail: "connection refused"})}, episodes: well, verdict: spec.Fail,
			want: []string{"fail serving/errors"}, words: []string{"requests failed (", "in the look at half the load", "connection refused"}},
		"errors: one in 201 at half the load": {half: &bout{users: 16, ends: oneIn(201, ending{class: "connect", afterS: 2.5})}, episodes: well, verdict: spec.Pass,
			want: []string{"note serving/errors"}},
		"requests fail at half the load, and the client was late": {half: &bout{users: 16, lag: 80, ends: oneIn(11, ending{class: "connect", afterS: 2.5})}, episodes: well, verdict: spec.Inconclusive,
			want: []string{"note serving/errors", "note client/late"}, words: []string{"and the client failed its own audit there"}},
		"requests fail in an episode that is repeated": {episodes: sequel(times(1, bout{lag: 80, ends: oneIn(11, ending{class: "connect", afterS: 2.5})}), times(9, bout{})), verdict: spec.Inconclusive,
			want: []string{"note serving/errors", "note client/late"}, words: []string{"in episode 1, which does not count"}},
		"requests fail before the load": {events: []spec.Event{{Kind: spec.EventRequests, Stage: "warm", Want: new(100), Have: new(80), Reason: "reset", Text: "connection reset"}}, episodes: well, verdict: spec.Fail,
			want: []string{"fail serving/errors"}, words: []string{"20 of 100 requests failed", "before the load", "connection reset"}},
		"errors: one in 40 before the load": {events: []spec.Event{{Kind: spec.EventRequests, Stage: "warm", Want: new(40), Have: new(39)}}, episodes: well, verdict: spec.Pass,
			want: []string{"note serving/errors"}},
		"streams break on one worker": {episodes: times(2, bout{ends: func(u, n int, s float64, w int) ending {
			if w == 2 && n%2 == 0 {
				return ending{class: "truncated", tokens: 50, detail: "connection reset"}
			}
			return ending{}
		}}), verdict: spec.Fail, want: []string{"fail serving/errors 2"}, words: []string{"were with worker 2"}},

		"the server claims what it did not send": {episodes: times(2, bout{spoil: texted(1, 1)}), verdict: spec.Invalid,
			want: []string{"invalid server/tokens-implausible"}, words: []string{"0.01 bytes a token, and 0.5 is the least that can be"}},
		"tokens: half a byte for each": {episodes: times(9, bout{spoil: texted(100, 50)}), verdict: spec.Pass},
		"one answer in ten is without its text": {episodes: times(2, bout{spoil: func(q *spec.Request) {
			texted(100, map[bool]int{true: 1, false: 400}[q.Seq%10 == 0])(q)
		}}), verdict: spec.Invalid, want: []string{"invalid server/tokens-implausible"}, words: []string{"with 10 % of the tokens, have less than 0.5 bytes of text a token"}},
		"tokens: one answer in forty is without text": {episodes: times(9, bout{spoil: func(q *spec.Request) {
			texted(100, map[bool]int{true: 1, false: 400}[q.Seq%40 == 0])(q)
		}}), verdict: spec.Pass},
		"one answer claims ten times what was asked for": {episodes: times(2, bout{spoil: func(q *spec.Request) {
			if texted(100, 400)(q); q.Seq == 77 {
				q.Tokens = 1000
			}
		}}), verdict: spec.Invalid, want: []string{"invalid server/tokens-implausible"}, words: []string{"1 answer claimed up to 1,000 tokens where 100 were asked for"}},
		"bytes that no request asked for": {episodes: times(9, bout{ends: oneIn(201, ending{class: spec.ClassUnsolicited, tokens: 50, detail: "HTTP/1.1 200 OK"})}), verdict: spec.Invalid,
			want: []string{"invalid server/unsolicited", "note serving/errors"}, words: []string{"for example: \"HTTP/1.1 200 OK\""}},
		"the same in the wave before the load": {episodes: blamed(times(1, bout{}), spec.BenchReason{ID: "server/unsolicited", Text: "bytes, 3 times"}), verdict: spec.Invalid,
			want: []string{"invalid server/unsolicited"}, words: []string{"episode 1: bytes, 3 times"}},
		"unsolicited before the load":          {events: []spec.Event{answer("", 1, 0, spec.ClassUnsolicited), neverServes(3)}, verdict: spec.Invalid, want: []string{"invalid server/unsolicited"}},
		"stability: answers come in one event": {episodes: times(9, bout{spoil: texted(1, 400)}), verdict: spec.Inconclusive, words: []string{"stability was not judged: most answers came in one event"}},
		"stability: answers come at once, in many events": {episodes: times(9, bout{spoil: func(q *spec.Request) {
			texted(100, 400)(q)
			q.First, q.Gap = q.Last-int64(time.Millisecond), 0
		}}), verdict: spec.Inconclusive, words: []string{"stability was not judged"}},
		"in one event: fewer than half of them": {episodes: times(9, bout{spoil: func(q *spec.Request) {
			texted(map[bool]int{true: 1, false: 100}[q.Seq%5 < 2], 400)(q)
		}}), verdict: spec.Pass},
		"nothing is served, and the audit blames the client": {episodes: times(2, bout{asked: 64, ends: func(u, n int, s float64, w int) ending {
			return ending{class: "tls", afterS: 0.2, detail: "unknown authority"}
		}}),
			verdict: spec.Fail, want: []string{"fail serving/errors", "fail fleet/slow"}, words: []string{"unknown authority"}},

		// Workers.
		"a worker fails at once and draws everything": {episodes: times(2, hole(2, 10, 13)), verdict: spec.Fail, want: []string{"fail worker/black-hole 2", "fail serving/errors 2"},
			words: []string{"worker 2 fails what it is sent at once", "GPU-2"}},
		"the same, and the client is not told who refused": {episodes: times(2, with(hole(2, 10, 13), func(b *bout) { b.spoil = unnamed })), verdict: spec.Fail,
			want: []string{"fail worker/black-hole 2", "fail serving/errors"}},
		"the frontend cannot be reached, and a worker stands empty": {episodes: times(2, with(hole(2, 10, 13), func(b *bout) {
			b.spoil = func(q *spec.Request) {
				if q.Failed() {
					q.Class, q.Detail, q.Status, q.Worker = "connect", "connection refused", 0, ""
				}
			}
		})), verdict: spec.Fail, want: []string{"fail serving/errors"}, words: []string{"connection refused"}},
		"black hole: all workers refuse alike": {episodes: times(2, bout{ends: func(u, n int, s float64, w int) ending {
			if s >= 10 && s < 13 {
				return ending{class: "http-error", afterS: 0.1}
			}
			return ending{}
		}}), verdict: spec.Fail, want: []string{"fail serving/errors"}},
		"a worker is not there": {episodes: times(2, bout{route: awayFrom(3, 0), page: darkened(3, 0, 99, spec.GapRefused)}), verdict: spec.Fail,
			want: []string{"fail worker/absent 3"}, words: []string{"worker 3 is not there", "(very high"}},
		"two are not there": {episodes: times(2, bout{route: func(u, n int, s float64) int { return u % 2 }, page: func(s, w int, p *spec.Sample) {
			if w >= 2 {
				p.Gap = spec.GapRefused
			}
		}}), verdict: spec.Fail, want: []string{"fail worker/absent 2,3"}, words: []string{"workers 2 and 3 are not there"}},
		"a worker was frozen before the load, and its gauge reads 0": {episodes: times(2, bout{nameless: true, pace: only(3, 0, 99, 0)}), verdict: spec.Fail,
			want: []string{"fail worker/absent 3", "fail worker/stall 3"}, words: []string{"worker 3 answers none of the requests that it has", "up to 8 requests waited for one that no other worker's page has"}},
		"a worker gets nothing to do, since a frozen one has all": {episodes: times(2, bout{nameless: true, pace: only(3, 0, 99, 0), route: func(u, n int, _ float64) int {
			if n == 0 {
				return u % 4
			}
			return 3
		}, page: func(_, w int, p *spec.Sample) {
			p.Worker.Running, p.Worker.Generated = new(0.0), new(5e4) // what the others made was before the first reading
			if w == 3 {
				p.Worker.Running = new(32.0)
			}
		}}), verdict: spec.Fail, want: []string{"fail worker/stall 3"}},
		"a worker gets nothing to do": {episodes: times(2, bout{nameless: true, route: awayFrom(3, 0)}), verdict: spec.Fail,
			want: []string{"fail worker/absent 3"}, words: []string{"worker 3 got nothing to do", "worker 3 is there and got nothing to do"}},
		"a worker gets nothing to do, and requests that another one has are not answered": {episodes: times(2, bout{nameless: true, route: awayFrom(3, 0), pace: only(2, 0, 99, 0), page: func(_, w int, p *spec.Sample) {
			if w == 2 {
				p.Worker.Running = new(20.0)
			}
		}}), verdict: spec.Fail, want: []string{"fail worker/absent 3", "fail worker/stall 2"}, words: []string{"worker 3 is there and got nothing to do"}},
		"a worker was silent before the load, and serves": {events: []spec.Event{{Kind: spec.EventAnswer, Worker: "3", Reason: "silent"}}, episodes: times(2, bout{}), verdict: spec.Fail,
			want: []string{"fail worker/absent 3"}, words: []string{"worker 3 never answered before the load"}},
		"a worker dies": {episodes: times(2, bout{route: awayFrom(3, 10), page: darkened(3, 12, 99, spec.GapRefused)}), verdict: spec.Fail,
			want: []string{"fail worker/absent 3"}, words: []string{"worker 3 served, and was gone from 12 s on", "GPU-3"}},
		"a worker left discovery and its page lives on": {episodes: times(2, bout{route: awayFrom(3, 10)}), verdict: spec.Fail,
			want: []string{"fail worker/absent 3"}, words: []string{"worker 3 ceased to serve"}},
		"fewer were seen than there should be, by names alone": {episodes: times(2, bout{blind: true, route: awayFrom(3, 0)}), verdict: spec.Fail,
			want: []string{"fail worker/absent"}, words: []string{"1 of 4 workers never served"}},
		"absent: idle for the last 9 s": {episodes: times(3, bout{seconds: 120, route: awayFrom(3, 109)}), verdict: spec.Pass},
		"a worker is slow": {episodes: times(2, bout{pace: only(3, 0, 99, 0.5)}), verdict: spec.Fail,
			want: []string{"fail worker/slow 3"}, words: []string{"worker 3 is slow: 0.57 of a fair share", "25.0 tokens/s for each request, its peers 50.0", "40.0 ms between tokens by the client, its peers 20.0", "GPU-3"}},
		"a worker is slow, by names alone": {episodes: times(2, bout{blind: true, pace: only(3, 0, 99, 0.8)}), verdict: spec.Fail, want: []string{"fail worker/slow 3"}},
		"a worker is slow, by pages alone": {episodes: times(2, bout{nameless: true, pace: only(3, 0, 99, 0.8)}), verdict: spec.Fail, want: []string{"fail worker/slow 3"}},
		"slow: by gauges that say little": {episodes: times(9, bout{nameless: true, page: func(s, w int, p *spec.Sample) {
			if w == 1 {
				p.Worker.Running = new([]float64{4, 4, 4, 12, 16}[s%5])
			}
		}}), verdict: spec.Pass},
		"slow: 0.91 of fair":           {episodes: times(9, bout{pace: only(3, 0, 99, 0.89)}), verdict: spec.Pass},
		"slow: in one episode of nine": {episodes: sequel(times(1, bout{pace: only(3, 0, 99, 0.5)}), times(8, bout{})), verdict: spec.Pass},
		"a worker stalls": {episodes: sequel(times(1, bout{pace: only(3, 10, 16, 0)}), times(1, bout{pace: only(1, 10, 16, 0)})), verdict: spec.Fail,
			want: []string{"fail worker/stall 1,3"}, words: []string{"workers 1 and 3 stalled 2 times in 1.0 min of load, for up to 6 s", "episode 1: worker 3 stood still from 10 s to 16 s (telemetry and client)", "(high"}},
		"stall: one alone is a note": {episodes: sequel(times(1, bout{pace: only(3, 10, 16, 0)}), times(8, bout{})), verdict: spec.Inconclusive,
			want: []string{"note worker/stall 3"}, words: []string{"worker 3 stalled once in 4.5 min of load"}},
		"three stalls, all on one worker": {episodes: times(3, bout{pace: only(3, 10, 16, 0)}), verdict: spec.Fail,
			want: []string{"fail worker/stall 3"}, words: []string{"every stall was on worker 3: chance does that once in 16"}},
		"its GPU waits meanwhile": {episodes: times(2, bout{pace: only(3, 10, 16, 0), gpu: func(s, g int) *spec.GPUSample {
			v := &spec.GPUSample{PowerW: new(560.0), Utilization: new(0.95), Throttle: &[]string{}}
			if g == 3 && s >= 10 && s < 16 {
				v.PowerW, v.Utilization = new(130.0), new(0.1)
			}
			return v
		}}), verdict: spec.Fail, want: []string{"fail worker/stall 3"}, words: []string{"its GPU drew 130 W, its peers' 560 W, no throttle: starved, not broken"}},
		"the fleet freezes": {episodes: times(2, bout{pace: allAt(10, 15, 0)}), verdict: spec.Fail, want: []string{"fail fleet/stall"},
			words: []string{"the whole fleet stood still 2 times in 1.0 min of load, for up to 5 s"}},
		"freeze: once in nine episodes": {episodes: sequel(times(1, bout{pace: allAt(10, 15, 0)}), times(8, bout{})), verdict: spec.Inconclusive, want: []string{"note fleet/stall"}},

		// Capacity.
		"all are slow": {episodes: times(2, bout{pace: allAt(0, 99, 0.7)}), verdict: spec.Fail, want: []string{"fail fleet/slow"},
			words: []string{"throughput is 0.70 of the reference (1,120 of 1,600 tokens/s)", "workers are even: 1.00 to 1.00"}},
		"slow fleet: 0.93 of the reference": {episodes: times(9, bout{pace: allAt(0, 99, 0.93)}), verdict: spec.Pass},
		"all are below the floor": {plan: func(p *spec.Plan) { p.Reference = nil; floor(1700)(p) }, episodes: times(2, bout{}), verdict: spec.Fail, want: []string{"fail fleet/slow"},
			words: []string{"throughput is 1,600 tokens/s, below the floor of 1,700"}},
		"first tokens come late": {plan: func(p *spec.Plan) { p.Reference.Throughput = 700 }, episodes: times(2, bout{ramp: 4.5, wait: func(int) float64 { return 2.5 }}), verdict: spec.Fail,
			want: []string{"fail fleet/slow"}, words: []string{"TTFT p99 is above 2,000 ms in 2 of 2 episodes"}},
		"late: first tokens after 1.9 s": {plan: func(p *spec.Plan) { p.Reference.Throughput = 800 }, episodes: times(9, bout{ramp: 3.9, wait: func(int) float64 { return 1.9 }}), verdict: spec.Pass},
		"requests wait before the workers have them": {episodes: times(2, bout{wait: func(int) float64 { return 1.2 }, page: func(s, w int, p *spec.Sample) { p.Worker.Running = new(5.0) }}), verdict: spec.Fail,
			want: []string{"fail fleet/slow-host"}, words: []string{"workers have 62 % of what is in flight", "throughput is 0.62"}},
		"host: the workers have four fifths of it": {episodes: times(2, bout{wait: func(int) float64 { return 1.2 }, page: func(s, w int, p *spec.Sample) { p.Worker.Running = new(6.5) }}), verdict: spec.Fail,
			want: []string{"fail fleet/slow"}},
		"requests wait, by the frontend alone": {plan: func(p *spec.Plan) { p.Point.Workers = 1 }, episodes: times(2, bout{blind: true, nameless: true, wait: func(int) float64 { return 1.2 },
			front: func(int) spec.FrontendSample { return spec.FrontendSample{InFlight: new(32.0), Queued: new(12.0)} }}), verdict: spec.Fail,
			want: []string{"fail fleet/slow-host"}, words: []string{"38 % of what the frontend has under way is not at its first token"}},

		// Hardware.
		"an XID": {episodes: times(1, bout{gpu: broken(2, 20, func(g *spec.GPUSample) { g.XID = new(48.0) })}), verdict: spec.Fail, want: []string{"fail gpu/error 2"},
			words: []string{"the GPU of worker 2 (GPU-2) has XID 48", "(very high"}},
		"XID: 31 is a program's": {episodes: times(9, bout{gpu: broken(2, 20, func(g *spec.GPUSample) { g.XID = new(31.0) })}), verdict: spec.Pass},
		"double-bit errors grow": {episodes: times(1, bout{gpu: broken(1, 20, func(g *spec.GPUSample) { g.DoubleBit = new(1.0) })}), verdict: spec.Fail, want: []string{"fail gpu/error 1"},
			words: []string{"new double-bit memory errors during the run"}},
		"a row could not be remapped": {episodes: times(1, bout{gpu: broken(0, 20, func(g *spec.GPUSample) { g.RemapFailure = new(1.0) })}), verdict: spec.Fail, want: []string{"fail gpu/error 0"}},
		"two GPUs are broken": {episodes: times(1, bout{gpu: func(s, g int) *spec.GPUSample {
			return broken(g&2, 0, func(v *spec.GPUSample) { v.XID = new(79.0) })(s, g&2)
		}}), verdict: spec.Fail,
			want: []string{"fail gpu/error 0,1,2,3"}, words: []string{"4 GPUs are broken by their own counters"}},
		"a GPU throttles": {episodes: times(1, bout{gpu: heldBack(3, 10, "hw_thermal")}), verdict: spec.Fail, want: []string{"fail gpu/throttle 3"},
			words: []string{"1 GPU throttles (hw_thermal)", "hw_thermal in 12 % of 34 samples, at up to 80 °C", "GPU-3"}},
		"throttle: in 3 % of the samples": {episodes: times(9, bout{gpu: heldBack(3, 40, "hw_thermal")}), verdict: spec.Pass},
		"throttle: a power cap":           {episodes: times(9, bout{gpu: heldBack(3, 1, "power_cap")}), verdict: spec.Pass},

		// The instrument.
		"the client could not hold the load": {episodes: times(3, bout{asked: 34}), verdict: spec.Invalid, want: []string{"invalid client/under-driven"},
			words: []string{"could not hold the load in 3 of 3 episodes", "held 32 of 34 in flight"}},
		"held: 32 of 33":      {episodes: times(9, bout{asked: 33}), verdict: spec.Pass},
		"the client was late": {episodes: times(3, bout{lag: 51}), verdict: spec.Invalid, want: []string{"invalid client/late"}, words: []string{"late by 51 ms at p99"}},
		"late client: 49 ms":  {episodes: times(9, bout{lag: 49}), verdict: spec.Pass},
		"late once, and repeated": {episodes: sequel(times(1, bout{lag: 51}), times(9, bout{})), verdict: spec.Pass, want: []string{"note client/late"},
			words: []string{"in 1 of 10 episodes"}},
		"past the knee": {half: &bout{users: 16, pace: allAt(0, 99, 1.9)}, episodes: well, verdict: spec.Pass, want: []string{"note load/past-knee"},
			words: []string{"from 16 to 32 in flight throughput rose by 5 % only (elasticity 0.07; the knee is at 0.55)"}},
		"knee: below it": {half: &bout{users: 16, pace: allAt(0, 99, 1.3)}, episodes: well, verdict: spec.Pass},
		"requests are put back for want of KV cache": {episodes: times(9, bout{page: putsBack(1, 2, 1)}), verdict: spec.Pass, want: []string{"note load/kv-full 1"},
			words: []string{"worker 1 put requests back 594 times for want of KV cache", "episode 1: worker 1 put requests back 66 times, its KV cache used up to 100 %; 4 % of its prompts' tokens were cached"}},
		"KV cache: full, and nothing is put back": {episodes: times(9, bout{page: putsBack(1, 0, 1)}), verdict: spec.Pass},
		"KV cache: put back, with room":           {episodes: times(9, bout{page: putsBack(1, 2, 0.8)}), verdict: spec.Pass},
		"a router that follows prefixes starves a worker": {plan: func(p *spec.Plan) { p.Point.Router, p.Point.Prompts = "kv", "1"; p.Thresholds.CachedOff = 1 },
			episodes: times(2, bout{route: seldom, spoil: cachedShare(0.94)}), verdict: spec.Invalid, want: []string{"invalid load/prefix-affinity 3"},
			words: []string{"prefix affinity starved worker 3: 94 % of", "(high", "router mode kv"}},
		"answers are too short": {episodes: times(2, bout{spoil: func(q *spec.Request) { q.Tokens = 97 * q.Tokens / 100 }}), verdict: spec.Invalid, want: []string{"invalid load/wrong-length"},
			words: []string{"answers had 97.0 tokens on average, 100 were declared"}},
		"length: 99 of 100": {episodes: times(9, bout{spoil: func(q *spec.Request) { q.Tokens = 99 * q.Tokens / 100 }}), verdict: spec.Pass},
		"prompts are too long": {episodes: times(2, bout{spoil: func(q *spec.Request) { q.Prompt = 162 }}), verdict: spec.Invalid, want: []string{"invalid load/wrong-length"},
			words: []string{"prompts had 162.0 tokens on average, 128 were declared"}},
		"prompt: a template adds a fifth": {episodes: times(9, bout{spoil: func(q *spec.Request) { q.Prompt = 154 }}), verdict: spec.Pass},
		"prompts came from a cache": {episodes: times(2, bout{spoil: cachedShare(0.5)}), verdict: spec.Invalid, want: []string{"invalid load/wrong-length"},
			words: []string{"50 % of the prompts' tokens came from a prefix cache, and unique prompts were declared"}},
		"cache: a fifth is a template": {episodes: times(9, bout{spoil: cachedShare(0.2)}), verdict: spec.Pass},
		"no page answers, and answers name nobody": {episodes: times(9, bout{nameless: true, page: func(_, _ int, p *spec.Sample) { p.Gap = spec.GapRefused }}), verdict: spec.Inconclusive,
			want: []string{"note telemetry/gap"}, words: []string{"nobody answers at the page of worker 3, and the fleet served"}},
		"one page answers, and answers name nobody": {episodes: times(2, bout{nameless: true, route: awayFrom(3, 0), page: darkened(3, 0, 99, spec.GapRefused)}), verdict: spec.Fail,
			want: []string{"fail worker/absent 3"}},
		"telemetry is missing": {episodes: times(9, bout{page: darkened(3, 6, 20, "status 500")}), verdict: spec.Inconclusive, want: []string{"note telemetry/gap"},
			words: []string{"12 % of the workers' samples are missing", "126 of 1,080 samples did not come"}},
		"gap: one sample in thirty":                {episodes: times(9, bout{page: darkened(3, 6, 10, "status 500")}), verdict: spec.Pass},
		"gap: the observer itself was starved":     {episodes: times(9, bout{page: darkened(3, 6, 20, spec.GapObserver)}), verdict: spec.Pass},
		"client and pages name different machines": {episodes: times(9, bout{spoil: func(q *spec.Request) { q.Worker = "id-" + q.Worker }}), verdict: spec.Pass, want: []string{"note telemetry/gap"}, words: []string{"name the workers differently"}},

		// Two causes at once are two findings, and the reason is the one that decided.
		"a broken GPU and a slow worker": {episodes: times(2, bout{pace: only(3, 0, 99, 0.5), gpu: broken(1, 9, func(g *spec.GPUSample) { g.XID = new(48.0) })}), verdict: spec.Fail,
			want: []string{"fail gpu/error 1", "fail worker/slow 3"}},
		"a stall and a slow worker": {episodes: times(3, bout{seconds: 50, pace: both2(only(3, 0, 99, 0.5), only(1, 20, 26, 0))}), verdict: spec.Fail,
			want: []string{"fail worker/stall 1", "fail worker/slow 3"}},
		"a stall hides the shares, not the speed": {episodes: times(3, bout{pace: both2(only(3, 0, 99, 0.5), only(1, 10, 16, 0))}), verdict: spec.Fail,
			want: []string{"fail worker/stall 1", "fail worker/slow 3"}},
		"a freeze and a stall": {episodes: times(2, bout{seconds: 50, pace: both2(allAt(10, 15, 0), only(2, 30, 36, 0))}), verdict: spec.Fail,
			want: []string{"fail worker/stall 2", "fail fleet/stall"}},
		"a throttled GPU and all slow": {episodes: times(2, bout{pace: allAt(0, 99, 0.6), gpu: heldBack(0, 3, "hw_thermal")}), verdict: spec.Fail,
			want: []string{"fail gpu/throttle 0", "fail fleet/slow"}},
		"an absent worker and failed requests": {episodes: times(2, bout{route: awayFrom(3, 10), page: darkened(3, 12, 99, spec.GapRefused), ends: oneIn(11, ending{class: "http-error", afterS: 2.5})}), verdict: spec.Fail,
			want: []string{"fail worker/absent 3", "fail serving/errors"}},
		"stalls, and then a late client": {episodes: sequel(times(2, bout{pace: only(3, 10, 16, 0)}), times(3, bout{lag: 80})), verdict: spec.Invalid,
			want: []string{"invalid client/late", "fail worker/stall 3"}},
		"cold, and a late client": {events: []spec.Event{answer("1", 42, 4, "")}, episodes: times(3, bout{lag: 80}), verdict: spec.Invalid,
			want: []string{"invalid client/late", "note start/cold 1"}},
	}
}

// texted gives a served request's answer so many events and bytes of text.
func texted(events, bytes int) func(*spec.Request) {
	return func(q *spec.Request) {
		if q.Served() {
			q.Events, q.TextBytes = &events, &bytes
		}
	}
}

// blamed are episodes for which the client's audit has a reason.
func blamed(all []*spec.EpisodeRecord, reason spec.BenchReason) []*spec.EpisodeRecord {
	for _, r := range all {
		r.Episode.Client.Reasons, r.Episode.Client.Valid = append(r.Episode.Client.Reasons, reason), false
	}
	return all
}

// What was said to do about an event comes first; of lines of a log nothing is said that are
// not there.
func TestTheAdviceOfACauseIsKept(t *testing.T) {
	crash := podEvent("1", "CrashLoopBackOff", "ended twice")
	for name, c := range map[string]struct {
		events   []spec.Event
		has, not string
	}{
		"its own":            {[]spec.Event{{Kind: spec.EventPod, Source: "Job j", Reason: "PodRefused", Text: "x", Advice: []string{"give it a LimitRange"}}}, "give it a LimitRange", "Dynamo's operator"},
		"lines that are":     {[]spec.Event{crash, saidLast("1", "KeyError")}, "its last lines are above", "had no line"},
		"lines that are not": {[]spec.Event{crash}, "its log had no line when it was read", "its last lines are above"},
	} {
		v := Judge(handPlan(), append(c.events, neverServes(3)))
		advice := strings.Join(v.Findings[0].Advice, "\n")
		if !strings.Contains(advice, c.has) || strings.Contains(advice, c.not) {
			t.Errorf("%s: %s", name, advice)
		}
	}
}

// The text of a policy is read to its end, and never cut in its middle.
func TestThePolicysTextIsWhole(t *testing.T) {
	text := `pods "x" is forbidden: violates PodSecurity "restricted:latest": ` + strings.Repeat("allowPrivilegeEscalation != false (container \"main\" must set it), ", 12) + "the end"
	v := Judge(handPlan(), []spec.Event{podEvent("1", "PodRefused", text), neverServes(3)})
	if f := v.Findings[0]; !strings.Contains(strings.Join(f.Evidence, "\n"), text) || !strings.Contains(f.Summary, `violates PodSecurity "restricted:latest": allowPrivilegeEscalation`) || len(f.Summary) > 700 {
		t.Errorf("%s\n%q", f.Summary, f.Evidence)
	}
}

// A worker that gets next to nothing is starved by prefixes only where prefixes were
// cached.
func TestFewHitsAreNoAffinity(t *testing.T) {
	for share, want := range map[float64]bool{0.79: false, 0.82: true} {
		c := diagnosisCase{plan: func(p *spec.Plan) { p.Point.Prompts = "1" }, episodes: times(2, bout{route: seldom, spoil: cachedShare(share)})}
		if got := slices.ContainsFunc(c.judge().Findings, func(f spec.Finding) bool { return f.ID == "load/prefix-affinity" }); got != want {
			t.Errorf("%v of the prompts cached: affinity %v, want %v", share, got, want)
		}
	}
}

// A page that tells old numbers while the client gets its worker's tokens speaks
// against the page, not against the worker.
func TestAPageThatTellsOldNumbersIsADisagreement(t *testing.T) {
	v := (&diagnosisCase{episodes: times(9, bout{page: oldNumbers(3, 10)})}).judge()
	if v.Verdict == spec.Fail || !strings.Contains(findingsSaid(v), "worker 3 made 0.29 of a fair share by telemetry, 1.00 by the client") {
		t.Errorf("%s: %s", v.Verdict, findingsSaid(v))
	}
}

// A number that is not measured is told as such, and nowhere as 0 or as NaN.
func TestNoVerdictSaysNaN(t *testing.T) {
	for name, v := range judgedCases() {
		text := findingsSaid(v) + strings.Join(v.Notes, "\n")
		for _, l := range v.Ledgers {
			text += l.Reason + "\n"
		}
		for _, e := range v.Expectations {
			text += e.Want + e.Effective + e.Note
			if e.Value != nil && (math.IsNaN(*e.Value) || math.IsInf(*e.Value, 0)) {
				t.Errorf("%s: %s is %v", name, e.Name, *e.Value)
			}
		}
		for _, odd := range []string{"NaN", "Inf", "%!", "<nil>", "9223372036854775"} {
			if strings.Contains(text, odd) {
				t.Errorf("%s: %q in\n%s", name, odd, text)
			}
		}
	}
}

// held is a node with no free GPU.
func held(node string, gpus int, by string) spec.Event {
	none := 0
	return spec.Event{Kind: spec.EventGPUs, Source: node, Want: &gpus, Have: &none, Text: by}
}

func TestNoFreeGPUFailsUnlessTheRecipeSkipsThen(t *testing.T) {
	for _, profile := range []string{spec.ProfileStandard, spec.ProfileClassic} {
		for word, want := range map[string]spec.State{"": spec.Fail, spec.NoFreeGPUsSkip: spec.Skip, spec.NoFreeGPUsFail: spec.Fail} {
			th, _ := spec.DefaultThresholds(profile)
			c := NewCase(&spec.Plan{Profile: profile, Thresholds: th, NoFreeGPUs: word})
			c.Hear(held("gpu-0", 8, "held by pod a/b (8)"))
			v, _ := c.Verdict()
			if v.Verdict != want || !strings.Contains(v.Reason, "gpu-0: held by pod a/b (8)") {
				t.Errorf("%s, %q: %s, %s", profile, word, v.Verdict, v.Reason)
			}
			if failed := slices.ContainsFunc(v.Ledgers, func(l spec.Ledger) bool { return l.State == spec.Fail }); failed != (want == spec.Fail) {
				t.Errorf("%s, %q: %s, and its ledgers are %v", profile, word, v.Verdict, v.Ledgers)
			}
		}
	}
}
