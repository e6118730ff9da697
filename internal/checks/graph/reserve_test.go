package graph

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

const rivalRun = "20261116-020000-fedcba9876543210"

// slowAPI is a server whose answers take their time: what it does it does somewhere between
// the question and the answer.
type slowAPI struct {
	patched
	mu   *sync.Mutex
	draw *rand.Rand
}

func (s slowAPI) passes() {
	s.mu.Lock()
	d := time.Duration(s.draw.IntN(40)) * time.Millisecond
	s.mu.Unlock()
	time.Sleep(d)
}

func slowly[T any](s slowAPI, do func() (T, error)) (T, error) {
	s.passes()
	defer s.passes()
	return do()
}

func (s slowAPI) Create(ctx context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	return slowly(s, func() (kube.Object, error) { return s.patched.Create(ctx, r, o) })
}

func (s slowAPI) Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	return slowly(s, func() (kube.Object, error) { return s.patched.Read(ctx, r, namespace, name) })
}

func (s slowAPI) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	return slowly(s, func() ([]kube.Object, error) { return s.patched.List(ctx, r, namespace, selector) })
}

func (s slowAPI) Patch(ctx context.Context, r kube.Resource, namespace, name string, change kube.Object) (kube.Object, error) {
	return slowly(s, func() (kube.Object, error) { return s.patched.Patch(ctx, r, namespace, name, change) })
}

func (s slowAPI) Delete(ctx context.Context, r kube.Resource, namespace, name string, o kube.DeleteOptions) error {
	_, err := slowly(s, func() (any, error) { return nil, s.patched.Delete(ctx, r, namespace, name, o) })
	return err
}

// wanting are the settings of a run that wants gpu-0.
func wanting(run, namespace string) *Settings {
	s := memorySettings()
	s.Run, s.Namespace = run, namespace
	return s
}

// leaseOf is a reservation of gpu-0 that was renewed so long ago.
func leaseOf(run, namespace string, ago, lasts time.Duration) kube.Object {
	o := leaseManifest(wanting(run, namespace))
	o["spec"] = leaseTerms(run, time.Now().Add(-ago-time.Hour), time.Now().Add(-ago), lasts)
	return o
}

// Commands that begin at the same time want the same node, whatever namespace each keeps its
// run in, and whatever an earlier run has left: one of them has it, and each of the others is
// told which run.
func TestOfRunsThatWantANodeOneHasIt(t *testing.T) {
	ids := []string{memoryRun, rivalRun, "20261116-020000-7777777777777777"}
	for name, c := range map[string]struct {
		namespaces []string // of each run
		before     func(m *memoryAPI)
	}{
		"in one namespace":            {[]string{"aicr-validation", "aicr-validation"}, func(*memoryAPI) {}},
		"in namespaces of their own":  {[]string{"a", "b"}, func(*memoryAPI) {}},
		"three, two in one namespace": {[]string{"a", "b", "a"}, func(*memoryAPI) {}},
		"after one that was killed": {[]string{"a", "a", "b"}, func(m *memoryAPI) {
			m.put(resNamespaces, kube.Object{"metadata": fields{"name": "a"}})
			m.put(resLeases, leaseOf("20261115-020000-0123456789abcdef", "a", 3*time.Minute, reservedFor))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory()
					c.before(m)
					draw := rand.New(rand.NewPCG(seed, 1))
					api := slowAPI{patched{m}, &sync.Mutex{}, rand.New(rand.NewPCG(seed, 2))}
					errs := make([]error, len(c.namespaces))
					var all sync.WaitGroup
					for i, namespace := range c.namespaces {
						late := time.Duration(draw.IntN(3)*draw.IntN(60)) * time.Millisecond
						all.Go(func() {
							time.Sleep(late)
							errs[i] = Reserve(t.Context(), api, wanting(ids[i], namespace), time.Now, Told{})
						})
					}
					all.Wait()
					winner := -1
					for i, err := range errs {
						if err == nil && winner >= 0 {
							t.Fatalf("seed %d: run %d and run %d have the node", seed, winner, i)
						}
						if err == nil {
							winner = i
						}
					}
					if winner < 0 {
						t.Fatalf("seed %d: no run has the node: %v", seed, errs)
					}
					for i, err := range errs {
						taken, ok := errors.AsType[*TakenError](err)
						if i != winner && (!ok || taken.Node != "gpu-0" || taken.Run == ids[i] || taken.Run == "") {
							t.Fatalf("seed %d: run %d is told %v", seed, i, err)
						}
					}
					held, err := Reservations(t.Context(), m, "", time.Now())
					if err != nil || len(held) != 1 || held[0].Run != ids[winner] || !held[0].Settled {
						t.Fatalf("seed %d: reserved are %+v, and run %s has it: %v", seed, held, ids[winner], err)
					}
				})
			}
		})
	}
}

func TestAReservationIsRespectedAsLongAsItHolds(t *testing.T) {
	for name, c := range map[string]struct {
		there func(m *memoryAPI)
		want  string // in the error; "": the node is had
		takes time.Duration
	}{
		"nothing":             {func(*memoryAPI) {}, "", 0},
		"another run's":       {func(m *memoryAPI) { m.put(resLeases, leaseOf(rivalRun, "aicr-validation", time.Minute, 2*time.Minute)) }, "taken meanwhile by run " + rivalRun + ", which has it reserved since ", 0},
		"another namespace's": {func(m *memoryAPI) { m.put(resLeases, leaseOf("0", "mine", time.Minute, 2*time.Minute)) }, "taken meanwhile by run 0", 0},
		"of a load that nobody follows": {func(m *memoryAPI) {
			m.put(resLeases, leaseOf(rivalRun, "aicr-validation", 20*time.Minute, 25*time.Minute))
		}, "taken meanwhile", 0},
		"one that has expired": {func(m *memoryAPI) {
			m.put(resLeases, leaseOf(rivalRun, "aicr-validation", 3*time.Minute, 2*time.Minute))
		}, "", takeOverAfter},
		"one that has, in another place": {func(m *memoryAPI) { m.put(resLeases, leaseOf(rivalRun, "mine", 3*time.Minute, 2*time.Minute)) }, "", 0},
		"its own": {func(m *memoryAPI) {
			m.put(resLeases, leaseOf(memoryRun, "aicr-validation", 3*time.Minute, 2*time.Minute))
		}, "", 0},
		"of another node": {func(m *memoryAPI) {
			o := leaseOf(rivalRun, "aicr-validation", 0, time.Minute)
			o["metadata"].(fields)["name"], o["metadata"].(fields)["annotations"] = LeaseName("gpu-1"), fields{AnnotationNode: "gpu-1"}
			m.put(resLeases, o)
		}, "", 0},
		"renewed by a clock that is behind": {func(m *memoryAPI) {
			m.put(resLeases, leaseOf(rivalRun, "aicr-validation", 10*time.Minute, 2*time.Minute))
			time.AfterFunc(beatEvery, func() { m.put(resLeases, leaseOf(rivalRun, "aicr-validation", 10*time.Minute, 2*time.Minute)) })
			time.AfterFunc(beatEvery+takeOverAfter, func() { m.put(resLeases, leaseOf(rivalRun, "aicr-validation", 0, 2*time.Minute)) })
		}, "taken meanwhile by run " + rivalRun, 2*takeOverAfter + time.Second},
		"without a time": {func(m *memoryAPI) {
			o := leaseManifest(wanting(rivalRun, "aicr-validation"))
			o["metadata"].(fields)["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
			m.put(resLeases, o)
		}, "taken meanwhile", 0},
		"somebody else's Lease": {func(m *memoryAPI) {
			m.put(resLeases, kube.Object{"metadata": fields{"name": LeaseName("gpu-0"), "namespace": "aicr-validation"}})
		}, "is there already, and is not of this run", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.put(resNamespaces, validationManifest(memorySettings()))
				c.there(m)
				began := time.Now()
				err := Reserve(t.Context(), patched{m}, memorySettings(), time.Now, Told{})
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if took := time.Since(began); took > c.takes || took < c.takes/2 {
					t.Errorf("took %s, want %s", took, c.takes)
				}
				o, err := m.Read(t.Context(), resLeases, "aicr-validation", LeaseName("gpu-0"))
				if mine := err == nil && reservationOf(o).Run == memoryRun; mine != (c.want == "") {
					t.Errorf("%v, %v", o, err)
				}
			})
		})
	}
}

// A run that ends its namespace at the same moment does not take the reservation with it.
func TestANodeIsReservedInANamespaceThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(resNamespaces, objectOf(t, `{"metadata":{"name":"aicr-validation","deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"aicr.run/owner":"aicr"}}}`))
		time.AfterFunc(20*time.Second, func() { m.drop(resNamespaces, "", "aicr-validation") })
		if err := Reserve(t.Context(), patched{m}, memorySettings(), time.Now, Told{}); err != nil {
			t.Fatal(err)
		}
		space, err := m.Read(t.Context(), resNamespaces, "", "aicr-validation")
		if err != nil || space.Annotations()[AnnotationTouched] != memoryRun || !m.has(resLeases, "aicr-validation", LeaseName("gpu-0")) {
			t.Errorf("%v %v", space, err)
		}
		if s, err := RemoveSpace(t.Context(), m, "aicr-validation", nil, false, Told{}); err != nil || s.Stays != SpaceInUse || !m.has(resNamespaces, "", "aicr-validation") {
			t.Errorf("a namespace with a reservation in it: %+v, %v", s, err)
		}
	})
}

// The command renews the reservation; from the load on it lasts as long as the load may,
// whatever becomes of the command.
func TestAReservationLastsAsLongAsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, k := newMemory(), keptRun()
		k.Stage, k.Settings.PodWithin, k.Settings.LoadWithin = StageDeploy, Duration(5*time.Minute), Duration(40*time.Minute)
		r, _, h := newTestRun(m, k)
		if err := Reserve(t.Context(), r.API, k.Settings, time.Now, Told{}); err != nil {
			t.Fatal(err)
		}
		if err := r.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		until := func() time.Duration {
			t.Helper()
			held, err := Reservations(t.Context(), m, "", time.Now().Add(-time.Hour))
			if err != nil || len(held) != 1 {
				t.Fatal(held, err)
			}
			return time.Until(held[0].Until)
		}
		stop := r.stayAlive(t.Context())
		time.Sleep(10 * time.Minute)
		if left := until(); left < reservedFor-beatEvery-time.Second || left > reservedFor {
			t.Errorf("deploying, it holds for %s more", left)
		}
		if err := r.stage(t.Context(), StageLoad); err != nil {
			t.Fatal(err)
		}
		if left := until(); left < 44*time.Minute || left > 45*time.Minute {
			t.Errorf("loading, it holds for %s more", left)
		}
		stop() // the command is killed
		time.Sleep(30 * time.Minute)
		if held, err := Reservations(t.Context(), m, "", time.Now()); err != nil || len(held) != 1 {
			t.Errorf("%v %v", held, err)
		}
		time.Sleep(16 * time.Minute)
		if held, err := Reservations(t.Context(), m, "", time.Now()); err != nil || len(held) != 0 {
			t.Errorf("a load that must be over holds the node: %v %v", held, err)
		}
		m.put(resLeases, leaseOf(rivalRun, "aicr-validation", 0, time.Minute))
		r.renew(t.Context())
		r.renew(t.Context())
		if said := strings.Join(h.said, "\n"); strings.Count(said, "run "+rivalRun+" has the node since") != 1 {
			t.Errorf("said %q", said)
		}
		if held, _ := Reservations(t.Context(), m, "", time.Now()); len(held) != 1 || held[0].Run != rivalRun {
			t.Errorf("a reservation that was lost was taken back: %v", held)
		}
	})
}

// A run that ends gives its node back, whichever way it ends, and does not renew it after.
func TestARunThatEndsGivesItsNodeBack(t *testing.T) {
	for name, change := range map[string]func(*Settings){"removed": func(*Settings) {}, "left on the cluster": func(s *Settings) { s.NoCleanup = true }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := newMemory(), keptRun()
				change(k.Settings)
				failsToPull(m)
				r, _, _ := newTestRun(m, k)
				if err := Reserve(t.Context(), r.API, k.Settings, time.Now, Told{}); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Go(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				if m.has(resLeases, "aicr-validation", LeaseName("gpu-0")) {
					t.Error("the reservation is there")
				}
			})
		})
	}
}

// A run that is picked up while it deploys has its reservation again.
func TestARunThatIsAttachedToReservesItsNodeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		there func(m *memoryAPI)
		said  string
		owner string
	}{
		"it has expired": {func(m *memoryAPI) { m.put(resLeases, leaseOf(memoryRun, "aicr-validation", time.Hour, reservedFor)) }, "", memoryRun},
		"it is gone":     {func(*memoryAPI) {}, "", memoryRun},
		"another has it": {func(m *memoryAPI) { m.put(resLeases, leaseOf(rivalRun, "aicr-validation", 0, time.Hour)) }, "node gpu-0 is reserved by run " + rivalRun, rivalRun},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := newMemory(), keptRun()
				c.there(m)
				k.Stage = StageDeploy
				r, _, h := newTestRun(m, k)
				if err := r.begin(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.reserve(t.Context())
				o, err := m.Read(t.Context(), resLeases, "aicr-validation", LeaseName("gpu-0"))
				if err != nil || reservationOf(o).Run != c.owner {
					t.Errorf("%v %v", o, err)
				}
				if said := strings.Join(h.said, "\n"); c.said == "" && said != "" || !strings.Contains(said, c.said) {
					t.Errorf("said %q", said)
				}
			})
		})
	}
}

// A run that was killed before it was kept has left a reservation alone.
func TestCleanFindsAReservationByItsLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(resNamespaces, validationManifest(memorySettings()))
		m.put(resLeases, leaseOf(memoryRun, "aicr-validation", time.Minute, reservedFor))
		var spared []Spared
		told := Told{Spared: func(s Spared) { spared = append(spared, s) }}
		if removed, _, err := Clean(t.Context(), m, "aicr-validation", "", false, told); err != nil || len(removed) > 0 || len(spared) != 1 || !spared[0].Alive {
			t.Errorf("a run that begins: %v, %v, %v", removed, spared, err)
		}
		time.Sleep(AliveFor)
		removed, left, err := Clean(t.Context(), m, "aicr-validation", "", false, told)
		if err != nil || len(left) > 0 || len(m.remains()) > 0 || fmt.Sprint(removed[0]) != fmt.Sprint(Removed{memoryRun, "Lease", "aicr-validation", LeaseName("gpu-0")}) {
			t.Errorf("%v, left %v, %v", removed, left, err)
		}
	})
}

// Who may look into one namespace sees the reservations in it.
func TestReservationsAreSeenWhereOneMayLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(resLeases, leaseOf(memoryRun, "mine", 0, time.Minute))
		m.put(resLeases, leaseOf(rivalRun, "theirs", 0, time.Minute))
		for denied, want := range map[bool]int{false: 2, true: 1} {
			m.deny["list all leases"] = denied
			if held, err := Reservations(t.Context(), m, "mine", time.Now()); err != nil || len(held) != want {
				t.Errorf("%v: %v %v", denied, held, err)
			}
		}
		m.deny["list leases"] = true
		if held, err := Reservations(t.Context(), m, "mine", time.Now()); !kube.IsForbidden(err) {
			t.Errorf("who may not look has seen %v, %v", held, err)
		}
	})
}

// claims are GPUs of gpu-0 that claims hold, by namespace/name.
func claims(all ...string) (held []kube.Holder) {
	for _, c := range all {
		namespace, name, _ := strings.Cut(c, "/")
		held = append(held, kube.Holder{Kind: "ResourceClaim", Namespace: namespace, Name: name, GPUs: 1})
	}
	return held
}

// What the scheduler says of a worker without a GPU is a failure of the deployment only
// where nobody else has taken one since the node was chosen.
func TestGPUsThatWereTakenMeanwhileAreNoFailure(t *testing.T) {
	noClaim := map[string]any{"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
		"message": "0/3 nodes are available: 1 cannot allocate all claims, 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate"}}}
	own, other := NamesOf(memoryRun).Namespace, NamesOf(rivalRun).Namespace
	gone := func(n *kube.GPUNode) { n.Devices = n.Devices[:1] }
	for name, c := range map[string]struct {
		had, has []kube.Holder
		change   func(*kube.GPUNode)
		pod      map[string]any
		ledger   error
		want     string // of the error; "": it is judged
	}{
		"by a pod of another team": {nil, claims("team/train", own+"/w-0"), nil, noClaim, nil, "GPUs of node gpu-0 were taken meanwhile by claim team/train (1)"},
		"by another run":           {nil, claims(other + "/w-0"), nil, noClaim, nil, "GPUs of node gpu-0 were taken meanwhile by run " + rivalRun + ": claim " + other + "/w-0 (1)"},
		"by more of the same":      {claims("team/a"), claims("team/a", "team/b"), nil, noClaim, nil, "taken meanwhile by claim team/b (1)"},
		"by none that is new":      {claims("team/a"), claims("team/a"), gone, noClaim, nil, ""},
		"nobody":                   {nil, nil, nil, noClaim, nil, ""},
		"a GPU that is gone":       {nil, nil, gone, noClaim, nil, ""},
		"it is not known":          {nil, claims("team/train"), nil, noClaim, errors.New("no answer"), ""},
		"and something is wrong":   {nil, claims("team/train"), nil, podNoImage, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := newMemory(), keptRun()
				m.put(resNamespaces, namespaceManifest(wanting(rivalRun, "aicr-validation")))
				k.Settings.Held = c.had
				play(m, map[time.Duration]func(){time.Second: func() {
					m.graphIs("pending", 1, 0)
					pod := memoryPod("w-0", "worker", c.pod)
					if c.pod["conditions"] != nil {
						delete(pod["spec"].(map[string]any), "nodeName")
					}
					m.put(resPods, pod)
				}})
				r, b, _ := newTestRun(m, k)
				r.Ledger = func(context.Context) ([]kube.GPUNode, error) {
					n := gpuNode("gpu-0", 0, 2)
					n.ClaimHeld = c.has
					if len(c.had) > 0 {
						n.Devices = append(n.Devices, kube.Device{}) // the run had two free
					}
					if c.change != nil {
						c.change(&n)
					}
					return []kube.GPUNode{gpuNode("gpu-1", 0, 2), n}, c.ledger
				}
				end, err := r.Go(t.Context())
				if err != nil || end.Verdict == nil {
					t.Fatal(end, err)
				}
				v := end.Verdict
				switch {
				case c.want == "" && v.Verdict != spec.Fail:
					t.Errorf("%+v", v)
				case c.want != "" && (v.Verdict != spec.Inconclusive || !strings.HasSuffix(v.Reason, c.want) || len(v.Findings) > 0):
					t.Errorf("%+v, want %q", v, c.want)
				}
				for _, e := range b.events {
					if c.want != "" && e.Kind == spec.EventPod {
						t.Errorf("it is told as a fault of the deployment: %+v", e)
					}
				}
				m.drop(resNamespaces, "", other)
				if left := ownLeft(m); len(left) > 0 {
					t.Errorf("left %q", left)
				}
			})
		})
	}
}
