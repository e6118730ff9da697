package judge

import (
	"strings"

	"aicr/internal/spec"
)

// The codes of why a run cannot pass.
const (
	WorkersUnknown          = "workers-unknown"
	WorkersNotDistinguished = "workers-not-distinguished"
	NothingToCompareWith    = "no-reference-and-no-floor"
)

// Hindrance is a reason why a run cannot pass, whatever the load shows.
type Hindrance struct{ Code string }

// Text is the reason in words.
func (h Hindrance) Text() string {
	switch h.Code {
	case WorkersUnknown:
		return "the number of workers is unknown"
	case WorkersNotDistinguished:
		return "no source distinguishes the workers: the server does not name them, and they have no metrics pages"
	case NothingToCompareWith:
		return "there is neither a reference nor a floor to hold throughput against"
	}
	return h.Code
}

// Mend is what to do about it, with the flag written out.
func (h Hindrance) Mend() string {
	switch h.Code {
	case WorkersUnknown:
		return "set it with --workers N"
	case WorkersNotDistinguished:
		return "name each worker's metrics page with --worker-metrics URL, or set --workers 1 where there is one"
	case NothingToCompareWith:
		return "give a recipe that has one with --recipe FILE; 'aicr knee --write FILE' measures a reference"
	}
	return ""
}

// Words are the reason and what mends it.
func (h Hindrance) Words() string {
	if mend := h.Mend(); mend != "" {
		return h.Text() + ": " + mend
	}
	return h.Text()
}

func wordsOf(all []Hindrance) string {
	var words []string
	for _, h := range all {
		words = append(words, h.Words())
	}
	return strings.Join(words, "; ")
}

// Known is what is known of a target besides the plan.
type Known struct {
	Looked  bool   // the target was asked; before that what only it can say is open
	Workers int    // that it has; 0: unknown
	Origin  string // of that number
	Apart   bool   // some source distinguishes them
}

// CannotPass is every reason for which a run by this plan cannot pass, as far as it is
// known before a load. The published gate asks for none of this.
func CannotPass(p *spec.Plan, known Known) []Hindrance {
	if p.Profile == spec.ProfileClassic {
		return nil
	}
	var all []Hindrance
	workers := p.Point.Workers
	if workers == 0 {
		workers = known.Workers
	}
	if known.Looked && workers == 0 {
		all = append(all, Hindrance{WorkersUnknown})
	}
	if known.Looked && workers != 1 && !known.Apart {
		all = append(all, Hindrance{WorkersNotDistinguished})
	}
	if p.Reference == nil && !hasFloor(p) {
		all = append(all, Hindrance{NothingToCompareWith})
	}
	return all
}

func hasFloor(p *spec.Plan) bool {
	for i := range p.Constraints {
		if p.Constraints[i].Name == spec.ConstraintThroughput {
			return true
		}
	}
	return false
}
