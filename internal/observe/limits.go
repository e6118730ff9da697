package observe

import (
	"fmt"

	"aicr/internal/spec"
)

// Limit is what there may be only so much of on one page. A page is somebody else's:
// what it says costs time and memory here, each second.
type Limit int

// The limits, each several times what any exporter that was seen has.
const (
	LimitSeries   Limit = iota // lines that are read
	LimitLabel                 // bytes of a label's value
	LimitEngines               // of a worker
	LimitGPUs                  // of a node, or instances of divided ones
	LimitPods                  // that share a GPU
	LimitEvents                // by which a GPU's clocks were lowered
	LimitOutcomes              // of requests, by a frontend's labels
	LimitTime                  // it was not read within the time that an answer has
)

var limits = [...]struct {
	most int
	what string
}{
	LimitSeries:   {8192, "series"},
	LimitLabel:    {1024, "bytes in a label"},
	LimitEngines:  {256, "engines"},
	LimitGPUs:     {512, "GPUs"},
	LimitPods:     {256, "pods on one GPU"},
	LimitEvents:   {64, "clock events of one GPU"},
	LimitOutcomes: {256, "kinds of outcomes"},
	LimitTime:     {0, "the time to read it in"},
}

// LimitError says that a page is past a limit. Nothing of it is taken: a part would look
// like the whole.
type LimitError struct{ Limit Limit }

func (e *LimitError) Error() string {
	l := limits[e.Limit]
	if l.most == 0 {
		return spec.GapTooMuch + " " + l.what
	}
	return fmt.Sprintf("%s %d %s", spec.GapTooMuch, l.most, l.what)
}

// within says that so many are too many.
func (l Limit) within(n int) error {
	if n > limits[l].most {
		return &LimitError{l}
	}
	return nil
}
