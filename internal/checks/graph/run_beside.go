package graph

import (
	"context"
	"errors"
	"sync"
	"time"

	"aicr/internal/spec"
)

// besideStart looks at what serves while the load waits for its first answers: what was
// ready may fail then, and nobody has to wait for the answers' time to be up. Once the
// load is under way it is the measurement that tells. Until the load's end it looks whether
// what is loaded is there at all.
type besideStart struct {
	ctx  context.Context // ends when what serves has failed
	hear func(LoadLine)
	look *watcher

	underWay context.CancelFunc
	stop     context.CancelCauseFunc
	over     sync.WaitGroup
	failed   *outcome
	removed  *spec.Event // what somebody else has deleted under load
}

// besideEvery is how often it is looked.
const besideEvery = 3 * time.Second

var (
	errServingFailed = errors.New("what serves has failed")
	errRemoved       = errors.New("what is loaded was deleted")
)

func (r *Run) besideStart(ctx context.Context) *besideStart {
	b := &besideStart{look: newWatcher(r.API, r.Kept.Settings, r.told())}
	b.ctx, b.stop = context.WithCancelCause(ctx)
	looking, underWay := context.WithCancel(b.ctx)
	b.underWay = underWay
	b.hear = func(l LoadLine) {
		if isUnderWay(l) {
			underWay()
		}
		if r.Hear != nil {
			r.Hear(l)
		}
	}
	b.over.Go(func() {
		if b.removed = r.watchRemoval(b.ctx); b.removed != nil {
			b.stop(errRemoved)
		}
	})
	began := time.Now()
	b.over.Go(func() {
		for pauseFor(looking, besideEvery) == nil {
			scene, err := b.look.look(looking)
			if err != nil {
				continue // a server that is away is told of by who follows the load
			}
			if settled := b.look.seen.settled(scene.find(), time.Now()); len(settled) > 0 && r.starts(looking) && looking.Err() == nil {
				b.failed = &outcome{causes: settled, scene: scene, took: time.Since(began)}
				b.stop(errServingFailed)
				return
			}
		}
	})
	return b
}

// end stops looking. What was seen is told then.
func (b *besideStart) end() {
	b.underWay()
	b.stop(nil)
	b.over.Wait()
}
