package graph

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
)

// leavingPod is the load's pod on gpu-9, deleted and not gone.
func leavingPod(target string) kube.Object {
	pod := onNode()
	meta := pod["metadata"].(map[string]any)
	meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = time.Now().Add(30*time.Second).UTC().Format(time.RFC3339), 30.0
	if target != "" {
		pod["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "DisruptionTarget", "status": "True", "reason": target, "message": "by " + target}}
	}
	return pod
}

func onNode() kube.Object {
	pod := running()
	pod["spec"].(map[string]any)["nodeName"] = "gpu-9"
	return pod
}

func nodeIs(ready, reason, message string) kube.Object {
	return kube.Object{"metadata": map[string]any{"name": "gpu-9"}, "status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": message}}}}
}

func readyNode() kube.Object {
	return nodeIs("True", "KubeletReady", "kubelet is posting ready status")
}

func silentNode() kube.Object {
	return nodeIs("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
}

// A node that has lost its power reports no end of its pods: they run for ever, by what
// the server was told last.
func TestALoadThatNobodyAnswersForEnds(t *testing.T) {
	const deadline = 17 * time.Minute // of testSettings
	for name, c := range map[string]struct {
		play   func(f *fakeLoad)
		within time.Duration
		reason string
		words  []string
	}{
		"its node has lost its power": {func(f *fakeLoad) {
			time.Sleep(40 * time.Second)
			f.change(func() { f.node = silentNode() })
			time.Sleep(5 * time.Minute)
			f.change(func() {
				f.pod, f.job = leavingPod("DeletionByTaintManager"), jobOf("FailureTarget", "BackoffLimitExceeded", "")
			})
		}, 8 * time.Minute, "NodeLost", []string{"load-x was lost with its node gpu-9", "Kubelet stopped posting node status"}},
		"and its Job has met its deadline since": {func(f *fakeLoad) {
			time.Sleep(deadline)
			f.change(func() {
				f.node, f.pod, f.job = silentNode(), leavingPod(""), jobOf("Failed", "DeadlineExceeded", "too long")
			})
		}, deadline + 2*time.Minute, "NodeLost", []string{"its node gpu-9", "Kubelet stopped"}},
		"its node was taken out of the cluster": {func(f *fakeLoad) {
			f.change(func() { f.node, f.pod = nil, leavingPod("") })
		}, 2 * time.Minute, "NodeLost", []string{"its node gpu-9", "is not in the cluster any more"}},
		"it was deleted, and its node is well": {func(f *fakeLoad) {
			f.change(func() { f.pod = leavingPod("") })
		}, 2 * time.Minute, "PodDeleted", []string{"was deleted while it ran", "its node does not say that it has ended"}},
		"it was put out, and its node is well": {func(f *fakeLoad) {
			f.change(func() { f.pod = leavingPod("EvictionByEvictionAPI") })
		}, 2 * time.Minute, "Evicted", []string{"put out of its node", "EvictionByEvictionAPI"}},
		"its Job met its deadline": {func(f *fakeLoad) {
			f.change(func() {
				f.pod, f.job = leavingPod(""), jobOf("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
			})
		}, 2 * time.Minute, "DeadlineExceeded", []string{"its own deadline", "active longer"}},
		"nobody does anything, and its node is silent": {func(f *fakeLoad) {
			f.change(func() { f.node = silentNode() })
		}, deadline + 5*time.Minute, "NodeLost", []string{"its node gpu-9"}},
		"nobody does anything": {func(*fakeLoad) {}, deadline + 5*time.Minute, "DeadlineExceeded", []string{"past its deadline of 17m0s", "nobody has ended it"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.pod, f.node = onNode(), readyNode()
				go c.play(f)
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				began := time.Now()
				out, err := FollowLoad(ctx, f, testSettings(), Told{}, &memorySpool{}, nil)
				if err != nil {
					t.Fatalf("after %s: %v", time.Since(began), err)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("it took %s, want %s at most", took, c.within)
				}
				if out.By != "" || out.Reason != c.reason {
					t.Errorf("by %q, reason %s (%s), want %s", out.By, out.Reason, out.Why, c.reason)
				}
				for _, w := range c.words {
					if !strings.Contains(out.Why, w) {
						t.Errorf("%q is not in: %s", w, out.Why)
					}
				}
			})
		})
	}
}

// A pod that was told to end uses its time to judge what there is, and its record can be
// had: it is not given up before that time is over, nor while the server could not be told.
func TestALoadThatIsStillThereIsNotGivenUp(t *testing.T) {
	done := message(LoadMessage{Stage: "done", Verdict: "FAIL", Reason: "worker 5 stalled"})
	for name, c := range map[string]struct {
		play func(f *fakeLoad)
		by   string
	}{
		"it ends within its time": {func(f *fakeLoad) {
			f.change(func() {
				f.pod, f.job = leavingPod("EvictionByEvictionAPI"), jobOf("Failed", "BackoffLimitExceeded", "")
			})
			f.print(25*time.Second, numberedLine(1, LineDone, "done"))
		}, ByRecord},
		"the server is away beyond the deadline": {func(f *fakeLoad) {
			f.change(func() { f.away = true })
			time.Sleep(3 * time.Hour)
			f.change(func() { f.away = false })
			time.Sleep(time.Minute) // until its node has told
			f.change(func() { f.pod = ended(1, "Error", done) })
		}, ByMessage},
		"the server is away while it is deleted": {func(f *fakeLoad) {
			f.change(func() { f.pod = leavingPod("") })
			time.Sleep(10 * time.Second)
			f.change(func() { f.away = true })
			time.Sleep(20 * time.Minute)
			f.change(func() { f.away = false })
			time.Sleep(20 * time.Second)
			f.change(func() { f.pod = ended(1, "Error", done) })
		}, ByMessage},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.pod, f.node = onNode(), readyNode()
				f.exec = func(_ []string, stdout io.Writer) error {
					_, err := stdout.Write(recordOf(t, testRun))
					return err
				}
				go c.play(f)
				out, err := FollowLoad(t.Context(), f, testSettings(), Told{}, &memorySpool{}, nil)
				if err != nil || out.By != c.by {
					t.Errorf("by %q (%s), %v; want %q", out.By, out.Why, err, c.by)
				}
			})
		})
	}
}

// deafLoad is a load whose pod does not end what it is asked.
type deafLoad struct{ ledLoad }

func (d deafLoad) Exec(ctx context.Context, namespace, pod, container string, command []string, stdout io.Writer) error {
	if slices.Contains(command, "--received") {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return d.ledLoad.Exec(ctx, namespace, pod, container, command, stdout)
}

// A record that is safe is judged, whether or not its pod hears of it.
func TestAPodThatDoesNotHearThatItsRecordIsSafeKeepsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad()
		f.log = []string{numberedLine(1, LineDone, "done")}
		f.exec = func(_ []string, stdout io.Writer) error {
			_, err := stdout.Write(recordOf(t, testRun))
			return err
		}
		k := keptRun()
		k.Settings = testSettings()
		var done []string
		r := &Run{API: deafLoad{ledLoad{f}}, Kept: k, Told: (&heard{}).told(), Now: time.Now, Book: &fullBook{spool: &memorySpool{}, done: &done}}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("it hangs"))
		defer cancel()
		began := time.Now()
		end, err := r.follow(ctx)
		if took := time.Since(began); err != nil || end.By != ByRecord || took > time.Minute {
			t.Errorf("after %s: %+v, %v", took, end, err)
		}
	})
}

// stallingLoad is a load whose pod falls silent in the middle of its record, so often.
type stallingLoad struct {
	*fakeLoad
	whole  []byte
	stalls int
}

func (l *stallingLoad) Exec(ctx context.Context, _, _, _ string, _ []string, stdout io.Writer) error {
	if l.stalls == 0 {
		_, err := stdout.Write(l.whole)
		return err
	}
	l.stalls--
	_, _ = stdout.Write(l.whole[:40])
	<-ctx.Done()
	go func() { // what was under way comes after all
		time.Sleep(fetchPause + time.Second)
		_, _ = stdout.Write(l.whole[40:])
	}()
	return context.Cause(ctx)
}

// A connection that gives nothing any more is given up, and does not write into what the
// next one brings.
func TestARecordThatCeasesToComeIsFetchedAgain(t *testing.T) {
	for stalls, good := range map[int]bool{1: true, 2: true, fetchTries: false} {
		synctest.Test(t, func(t *testing.T) {
			l := &stallingLoad{newFakeLoad(), recordOf(t, testRun), stalls}
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			spool, began := &memorySpool{}, time.Now()
			err := FetchLoad(ctx, l, testSettings(), Told{}, "load-x", spool, false)
			if (err == nil) != good || time.Since(began) > time.Hour {
				t.Errorf("after %d and %s: %v", stalls, time.Since(began), err)
			}
			time.Sleep(time.Minute)
			if good && !bytes.Equal(spool.data, l.whole) {
				t.Errorf("after %d: %d bytes of %d", stalls, len(spool.data), len(l.whole))
			}
		})
	}
}
