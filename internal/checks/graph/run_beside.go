package graph

import (
	"context"
	"errors"
	"sync"
	"time"
)

// besideStart looks at what serves while the load waits for its first answers: what was
// ready may fail then, and nobody has to wait for the answers' time to be up. Once the
// load is under way it is the measurement that tells.
type besideStart struct {
	ctx  context.Context // ends when what serves has failed
	hear func(LoadLine)
	look *watcher

	underWay context.CancelFunc
	stop     context.CancelCauseFunc
	over     sync.WaitGroup
	failed   *outcome
}

// besideEvery is how often it is looked.
const besideEvery = 3 * time.Second

var errServingFailed = errors.New("what serves has failed")

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

// end stops looking, and gives what has failed; nil: nothing.
func (b *besideStart) end() *outcome {
	b.underWay()
	b.over.Wait()
	b.stop(nil)
	return b.failed
}
