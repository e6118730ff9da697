package load

import (
	"runtime"
	"time"
)

// wire carries a stage's requests: it opens connections, writes when the stage
// says so, stamps each read, and gives the bytes to a stream.
type wire interface {
	name() string
	// carry returns when the stage has nothing more to send and everything sent
	// has ended.
	carry(*stage)
	// settle ends the idle connections when all is over, and hears what a server still
	// says on them without having been asked, for so long at most.
	settle(within time.Duration)
	close()
}

// WireKind chooses what carries the requests.
type WireKind uint8

// The kinds. Loop is one thread with epoll for many connections: it costs about
// half as much as Goroutines, a goroutine a connection, and stamps sooner
// (docs/performance.md), but speaks only plain HTTP/1.1 on Linux. HTTP2 is
// net/http.
const (
	AutoWire WireKind = iota
	LoopWire
	GoroutineWire
	HTTP2Wire
)

// The limits of settleWithin. A run that was interrupted is not judged, and is to end.
const (
	leastSettle       = time.Second
	mostSettle        = 10 * time.Second
	interruptedSettle = 100 * time.Millisecond
)

// settleWithin is how long settle waits for servers to end idle connections in turn. Most
// do at once. One that owes answers which no request asked for has half as long again to
// begin one as the slowest answer of the run took.
func (r *run) settleWithin(interrupted bool) time.Duration {
	if interrupted {
		return interruptedSettle
	}
	return min(max(leastSettle, r.live.slowestFirst()*3/2), mostSettle)
}

func openWire(r *run) (wire, error) {
	t := r.plan.Target
	kind := r.plan.Wire
	if kind == AutoWire {
		switch {
		case t.options.HTTP2:
			kind = HTTP2Wire
		case t.base.Scheme == "https" || t.options.Dial != nil || !haveLoop:
			kind = GoroutineWire
		default:
			kind = LoopWire
		}
	}
	switch kind {
	case LoopWire:
		return newLoopWire(r)
	case HTTP2Wire:
		return newHTTP2Wire(r), nil
	case AutoWire, GoroutineWire:
	}
	return newConnWire(r), nil
}

// loopsFor is how many event loops a load is worth. One is the cheapest while
// it keeps up, since it finds more ready at each look; about five hundred
// streams of a fast model fill half a core.
func loopsFor(p *Plan) int {
	loops := p.Senders
	if loops <= 0 {
		streams := max(p.Main.Users, p.Warmup.Users, int(p.Main.Rate), int(p.Sentinel))
		loops = max(1, min(runtime.NumCPU(), 16, (streams+511)/512))
	}
	// A loop whose share of an open loop's cap is 0 could send nothing.
	for _, s := range []Schedule{p.Main, p.Warmup} {
		if s.open() && s.Users > 0 {
			loops = min(loops, s.Users)
		}
	}
	return loops
}
