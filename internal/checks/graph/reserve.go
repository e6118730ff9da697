package graph

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"aicr/internal/kube"
)

// A run reserves its node before it keeps anything else: a Lease a node, in the namespace of
// the validations, held by the run's id. The command renews it while it leads the run. Where
// the command ends and the load goes on in the cluster, nobody renews it, so that from then
// on it lasts as long as the load may take. One that has expired is taken over.
//
// In one namespace the server sees to it that one run has the Lease: who creates it, or
// changes the one version of it that was read. Runs that are kept in several namespaces each
// have a Lease of their own, and the node belongs to the one that, after it has made its own,
// sees no other (settle).

var resLeases = kube.Resource{Group: "coordination.k8s.io", Version: "v1", Name: "leases"}

// AnnotationNode is on a Lease: the node that it reserves. AnnotationSettled is there too
// once its run has seen no other reservation of that node.
const (
	AnnotationNode    = "aicr.run/node"
	AnnotationSettled = "aicr.run/settled"
)

// How long a Lease lasts that a command renews; for how long one that has expired is watched
// before it is taken over, since the clock of its command may be behind ours; and how long
// the decision between runs of several namespaces is waited for.
const (
	reservedFor   = AliveFor
	takeOverAfter = beatEvery + 10*time.Second
	settleWithin  = 20 * time.Second
	settleEvery   = 500 * time.Millisecond
)

// microTime is how a Lease has its times.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// TakenError says that a node, or GPUs of it, went to somebody else before the run had them.
// It says nothing of the deployment.
type TakenError struct {
	Node    string
	Run     string        // that has reserved it, or holds the GPUs; "": no run of this program
	Since   time.Time     // when it was reserved; zero: it is not reserved, or the time is unknown
	Holders []kube.Holder // of GPUs that were free when the node was chosen
}

func (e *TakenError) Error() string {
	switch {
	case len(e.Holders) > 0 && e.Run != "":
		return fmt.Sprintf("GPUs of node %s were taken meanwhile by run %s: %s", e.Node, e.Run, HeldBy(e.Holders))
	case len(e.Holders) > 0:
		return fmt.Sprintf("GPUs of node %s were taken meanwhile by %s", e.Node, HeldBy(e.Holders))
	}
	return fmt.Sprintf("GPUs of node %s were taken meanwhile by run %s, which has it reserved%s", e.Node, e.Run, sinceText(e.Since))
}

func sinceText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + t.UTC().Format(time.RFC3339)
}

// LeaseName is what the Lease of a node is called: a node's name may be longer than one.
func LeaseName(node string) string {
	if node == "" {
		return "aicr-node-<16 hex>"
	}
	sum := sha256.Sum256([]byte(node))
	return "aicr-node-" + hex.EncodeToString(sum[:8])
}

// leaseManifest is the reservation of the run's node, without its times.
func leaseManifest(s *Settings) kube.Object {
	o := manifest("coordination.k8s.io/v1", "Lease", s.Namespace, LeaseName(s.Node), s, PartKept, fields{"spec": fields{"holderIdentity": s.Run}})
	o["metadata"].(fields)["annotations"] = fields{AnnotationNode: s.Node}
	return o
}

// leaseTerms are the times of a Lease that is renewed now; since is when the run got it.
func leaseTerms(run string, since, now time.Time, lasts time.Duration) fields {
	return fields{"holderIdentity": run, "acquireTime": since.UTC().Format(microTime), "renewTime": now.UTC().Format(microTime), "leaseDurationSeconds": seconds(Duration(lasts))}
}

// reservationOf reads a Lease. One that says no time lasts from when it was made.
func reservationOf(o kube.Object) kube.Reservation {
	moment := func(paths ...[]string) (at time.Time) {
		for _, path := range paths {
			if t, err := time.Parse(time.RFC3339Nano, o.Text(path...)); err == nil {
				return t
			}
		}
		return at
	}
	made := []string{"metadata", "creationTimestamp"}
	lasts, _ := o.Int("spec", "leaseDurationSeconds")
	renewed := moment([]string{"spec", "renewTime"}, []string{"spec", "acquireTime"}, made)
	r := kube.Reservation{Node: o.Annotations()[AnnotationNode], Run: o.Text("spec", "holderIdentity"), Namespace: o.Namespace(),
		Since: moment([]string{"spec", "acquireTime"}, made), Settled: o.Annotations()[AnnotationSettled] != ""}
	r.Until = renewed.Add(cmp.Or(max(0, time.Duration(lasts)*time.Second), reservedFor))
	return r
}

// live says that a reservation holds.
func live(r kube.Reservation, now time.Time) bool { return r.Run != "" && now.Before(r.Until) }

// Reservations are those of all runs that hold now. Who may not look into all namespaces
// sees those in home, the namespace of the validations.
func Reservations(ctx context.Context, api API, home string, now time.Time) ([]kube.Reservation, error) {
	selector := LabelOwner + "=" + OwnerValue
	all, err := api.List(ctx, resLeases, "", selector)
	if kube.IsForbidden(err) {
		all, err = api.List(ctx, resLeases, home, selector)
	}
	if err != nil && !kube.IsNotFound(err) {
		return nil, fmt.Errorf("looking which nodes are reserved: %w", err)
	}
	var held []kube.Reservation
	for _, o := range all {
		if r := reservationOf(o); r.Node != "" && live(r, now) && !o.Deleting() {
			held = append(held, r)
		}
	}
	slices.SortFunc(held, func(a, b kube.Reservation) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Since.Compare(b.Since), cmp.Compare(a.Run, b.Run))
	})
	return held, nil
}

// MarkReserved notes of each node which run has reserved it.
func MarkReserved(nodes []kube.GPUNode, held []kube.Reservation) {
	for i := range nodes {
		at := slices.IndexFunc(held, func(r kube.Reservation) bool { return r.Node == nodes[i].Name })
		if at >= 0 {
			nodes[i].Reserved = &held[at]
		}
	}
}

// claimant is a run that wants a node.
type claimant struct {
	api  RunAPI
	s    *Settings
	told Told
	now  func() time.Time
}

// Reserve reserves the node of a run, for as long as a command renews it. The error is a
// *TakenError where another run has it.
func Reserve(ctx context.Context, api RunAPI, s *Settings, now func() time.Time, told Told) error {
	c := &claimant{api, s, told, now}
	defer told.waiting("")
	err := inValidation(ctx, api, s, told, func() error { return c.claim(ctx) })
	if err == nil {
		err = c.settle(ctx)
	}
	if err != nil {
		Release(context.WithoutCancel(ctx), api, s)
		return fmt.Errorf("reserving node %s: %w", s.Node, err)
	}
	return nil
}

// claim gets the Lease of the node in the run's namespace, or says who has it.
func (c *claimant) claim(ctx context.Context) error {
	lease := leaseManifest(c.s)
	namespace, name := lease.Namespace(), lease.Name()
	for {
		now := c.now()
		lease["spec"] = leaseTerms(c.s.Run, now, now, reservedFor)
		if _, err := c.api.Create(ctx, resLeases, lease); !kube.IsExists(err) {
			return err
		}
		there, err := c.api.Read(ctx, resLeases, namespace, name)
		switch {
		case err == nil && there.Labels()[LabelOwner] != OwnerValue:
			return &ForeignError{Kind: "Lease", Namespace: namespace, Name: name}
		case err == nil && !there.Deleting():
			if err = c.takeOver(ctx, there); err == nil {
				return nil
			}
		}
		if err != nil && !kube.IsNotFound(err) && !kube.IsConflict(err) {
			return err
		}
		if err := pauseFor(ctx, settleEvery); err != nil { // it changed meanwhile: who has it now?
			return err
		}
	}
}

// takeOver gets a Lease that is there: one that is the run's own, or that nobody holds any
// longer. It changes the version of it that was read, and no other.
func (c *claimant) takeOver(ctx context.Context, there kube.Object) error {
	was := reservationOf(there)
	since := c.now()
	switch {
	case was.Run == c.s.Run:
		since = was.Since
	case live(was, c.now()):
		return &TakenError{Node: c.s.Node, Run: was.Run, Since: was.Since}
	case was.Run != "":
		c.told.waiting(fmt.Sprintf("whether run %s still renews its reservation of node %s, which has expired", was.Run, c.s.Node))
		if err := pauseFor(ctx, takeOverAfter); err != nil {
			return err
		}
	}
	_, err := c.api.Patch(ctx, resLeases, there.Namespace(), there.Name(), kube.Object{
		"metadata": fields{"resourceVersion": there.ResourceVersion(), "labels": words(Labels(c.s.Run, PartKept)),
			"annotations": fields{AnnotationNode: c.s.Node, AnnotationSettled: nil}},
		"spec": leaseTerms(c.s.Run, since, c.now(), reservedFor),
	})
	return err
}

// settle decides between runs that have a Lease of the node each, in namespaces of their own.
// A run has the node if it sees no other Lease after it has made its own: of two, at most one
// can. Of those that see each other, the lowest id waits for the others to give way.
func (c *claimant) settle(ctx context.Context) error {
	for began := time.Now(); ; {
		rival, err := c.rival(ctx)
		if err != nil {
			return err
		}
		if rival == nil {
			_, err := c.api.Patch(ctx, resLeases, c.s.Namespace, LeaseName(c.s.Node), kube.Object{"metadata": fields{"annotations": fields{AnnotationSettled: "true"}}})
			return err
		}
		if rival.Settled || rival.Run < c.s.Run || time.Since(began) >= settleWithin {
			return &TakenError{Node: c.s.Node, Run: rival.Run, Since: rival.Since}
		}
		c.told.waiting(fmt.Sprintf("run %s, which wants node %s too, to give way", rival.Run, c.s.Node))
		if err := pauseFor(ctx, settleEvery); err != nil {
			return err
		}
	}
}

// rival is another run that has reserved the node, or is about to; nil: there is none.
func (c *claimant) rival(ctx context.Context) (*kube.Reservation, error) {
	held, err := Reservations(ctx, c.api, c.s.Namespace, c.now())
	if err != nil {
		return nil, err
	}
	held = slices.DeleteFunc(held, func(r kube.Reservation) bool { return r.Node != c.s.Node || r.Run == c.s.Run })
	if len(held) == 0 {
		return nil, nil
	}
	// The one that decides: a settled one, else the lowest id.
	slices.SortFunc(held, func(a, b kube.Reservation) int {
		if a.Settled != b.Settled {
			if a.Settled {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Run, b.Run)
	})
	return &held[0], nil
}

// Release gives a node back. What cannot be released expires.
func Release(ctx context.Context, api API, s *Settings) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	there, err := api.Read(ctx, resLeases, s.Namespace, LeaseName(s.Node))
	if err != nil || !oursOf(there, s.Run) || there.UID() == "" {
		return
	}
	_ = api.Delete(ctx, resLeases, s.Namespace, there.Name(), kube.DeleteOptions{UID: there.UID(), ResourceVersion: there.ResourceVersion()})
}

// renew has the reservation of a run last from now on. It is not made anew: where it is gone,
// somebody has removed it, and where it is another run's, it had expired.
func renew(ctx context.Context, api RunAPI, s *Settings, lasts time.Duration, now time.Time) error {
	there, err := api.Read(ctx, resLeases, s.Namespace, LeaseName(s.Node))
	if err != nil {
		return err
	}
	was := reservationOf(there)
	if was.Run != s.Run {
		return &TakenError{Node: s.Node, Run: was.Run, Since: was.Since}
	}
	_, err = api.Patch(ctx, resLeases, s.Namespace, there.Name(), kube.Object{
		"metadata": fields{"resourceVersion": there.ResourceVersion()}, "spec": leaseTerms(s.Run, was.Since, now, lasts)})
	return err
}

// reservedAt is for how long a run's node is reserved at a stage. A load goes on without the
// command, so that its node is reserved for as long as it may take at worst.
func reservedAt(stage string, s *Settings) time.Duration {
	if stage == StageLoad {
		return max(reservedFor, time.Duration(s.PodWithin+s.LoadWithin))
	}
	return reservedFor
}
