package load

import "fmt"

// DescriptorLimit says that a load needs more open files than this process may have.
type DescriptorLimit struct {
	InFlight int    // connections that were asked for
	Need     uint64 // descriptors that they take, with those that are open already
	Limit    uint64 // that the process may have, at most
}

func (e *DescriptorLimit) Error() string {
	return fmt.Sprintf("%d connections at once need %d file descriptors, and this process may have %d",
		e.InFlight, e.Need, e.Limit)
}

// Hint is what to do about it.
func (e *DescriptorLimit) Hint() string {
	room := max(0, int64(e.Limit)-int64(e.Need)+int64(e.InFlight))
	return fmt.Sprintf("raise the limit with `ulimit -n %d` before the command (in a container: its runtime's nofile), "+
		"or ask for at most %d in flight", e.Need, room)
}

// spareDescriptors is what else a run opens: event loops, metrics pages, files of the record.
const spareDescriptors = 64

// limits is what a process may open: now, and after it has raised its own limit.
type limits struct{ soft, hard uint64 }

// fit says to what the soft limit is to be raised for so many connections, 0 where it is
// enough, or why the load cannot be done.
func (l limits) fit(connections int, open uint64) (raise uint64, err error) {
	need := uint64(connections) + open + spareDescriptors
	switch {
	case need <= l.soft:
		return 0, nil
	case need <= l.hard:
		return need, nil
	}
	return 0, &DescriptorLimit{InFlight: connections, Need: need, Limit: l.hard}
}

// FitDescriptors makes room for so many connections to the target at once: it raises this
// process's own limit of open files where it may, and else refuses with a *DescriptorLimit.
// HTTP/2 carries many requests on each.
func (t *Target) FitDescriptors(connections int) error {
	if t.options.HTTP2 || t.options.Dial != nil {
		return nil
	}
	return fitDescriptors(connections)
}

// fitDescriptors makes room for the plan's connections. What an open loop without a cap
// will have in flight is not known.
func (p *Plan) fitDescriptors() error {
	if p.Wire == HTTP2Wire {
		return nil
	}
	return p.Target.FitDescriptors(max(p.Main.Users, p.Warmup.Users))
}
