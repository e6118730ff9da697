package graph

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// salvageWithin is how long is taken for the record of a load that was interrupted: who
// interrupts does not want to wait, nor to lose what was measured.
const salvageWithin = time.Minute

// salvage has a load that was interrupted end in good order, and takes in what it has
// measured by then. If that cannot be had in its time, it says so.
func (r *Run) salvage(ctx context.Context) *End {
	switch s := r.Kept.Settings; {
	case s.NoCleanup:
		r.Told.Say("interrupted during the load, which goes on: '" + r.Attach + "' gets what it comes to")
		return &End{}
	case s.Engine != EngineOwn:
		r.Told.Say("interrupted during the load: AIPerf gives no result before its end, so that nothing of it is kept")
		return &End{}
	}
	r.Told.Say(fmt.Sprintf("interrupted during the load: it is told to end, and the record of what it has measured is fetched, for %s at most", salvageWithin))
	brief, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), salvageWithin, fmt.Errorf("not had in %s", salvageWithin))
	defer cancel()
	end, err := r.lastOf(brief)
	if err != nil && !end.Waits { // then it is told where it is
		r.Told.Say("the load's record could not be fetched, and what it has measured does not count: " + err.Error())
	}
	return end
}

// lastOf takes in the last of a load.
func (r *Run) lastOf(ctx context.Context) (*End, error) {
	spool, err := r.Book.Spool()
	if err != nil {
		return &End{Waits: true}, err
	}
	out, err := EndLoad(ctx, r.API, r.Kept.Settings, r.told(), spool)
	switch {
	case err != nil:
		return &End{Waits: isUnkept(err)}, err
	case out.Pod == "":
		return &End{}, nil // nothing was loaded yet
	case out.By == "":
		return &End{}, errors.New(out.Why)
	}
	return r.takeIn(ctx, out, spool)
}
