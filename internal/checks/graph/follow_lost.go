package graph

import (
	"context"
	"errors"
	"time"

	"aicr/internal/kube"
)

// How long a load is waited for that nobody answers for.
const (
	overdueFor = time.Minute     // its pod was to be gone
	lateFor    = 2 * time.Minute // its Job's deadline is over, and what ends it may be slow
)

var errForsaken = errors.New("nobody answers for its pod any more")

// forsaken says that nobody answers for the load any more. A node that has lost its power
// reports no end: its pod stays as it was last seen, for as long as the Node is there.
//
// It is by what is seen here, look after look, and not by time stamps: clocks differ, and
// a pod that was told to end has its time to judge what it has measured. While the server
// is away nobody can report to it, so that the looks begin anew then.
func (f *follower) forsaken(l *loadSeen) bool {
	grace, _ := l.pod.Int("metadata", "deletionGracePeriodSeconds")
	gone := f.leaving.over(l.pod.Deleting(), time.Duration(grace)*time.Second+overdueFor)
	l.late = f.late.over(time.Since(f.began) >= loadDeadline(f.s), lateFor)
	return gone || l.late
}

// unseen is a look that could not be had.
func (f *follower) unseen() { f.leaving, f.late = lasting{}, lasting{} }

// lasting is since when something is seen, look after look.
type lasting struct{ since time.Time }

func (s *lasting) over(seen bool, least time.Duration) bool {
	switch {
	case !seen:
		*s = lasting{}
	case s.since.IsZero():
		s.since = time.Now()
	}
	return seen && time.Since(s.since) >= least
}

// lookAtNode finds out whether the node of a pod that has not ended is there. What cannot
// be found out is not told.
func (l *loadSeen) lookAtNode(ctx context.Context, api API) {
	name := l.pod.Text("spec", "nodeName")
	if name == "" || l.container().Has("state", "terminated") {
		return
	}
	node, err := api.Read(ctx, resNodes, "", name)
	switch ready := conditionOf(node, "Ready"); {
	case kube.IsNotFound(err):
		l.lost = name + ", which is not in the cluster any more"
	case err == nil && ready != nil && ready.Text("status") != "True":
		l.lost = name + ", which is not ready: " + sentence(ready.Text("reason")+": "+ready.Text("message"), 300)
	}
}
