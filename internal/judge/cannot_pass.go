package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// The codes of why a run cannot pass.
const (
	WorkersUnknown          = "workers-unknown"
	WorkersNotDistinguished = "workers-not-distinguished"
	PagesOfSomeWorkers      = "pages-of-some-workers"     // of how many workers, and how many there are
	PagesSilent             = "pages-silent"              // how many, and of how many
	MoreWorkersThanPlanned  = "more-workers-than-planned" // how many, and how many the plan has
	PageOfProxy             = "page-of-proxy"             // where
	PrefillUnwatched        = "prefill-unwatched"         // how many
	NothingToCompareWith    = "no-reference-and-no-floor"
	BudgetTooShort          = "budget-too-short"  // minutes of load that stability takes, and those of the budget
	ChecksNotPassed         = "checks-not-passed" // the declared checks that this run cannot pass, with their states
)

// Hindrance is a reason why a run cannot pass, whatever the load shows: a code and the
// arguments of its words.
type Hindrance struct {
	Code string
	Args []string
}

func (h Hindrance) arg(i int) string {
	if i < len(h.Args) {
		return h.Args[i]
	}
	return "(unknown)"
}

// Text is the reason in words.
func (h Hindrance) Text() string {
	switch h.Code {
	case WorkersUnknown:
		return "the number of workers is unknown"
	case WorkersNotDistinguished:
		return "no source distinguishes the workers: the server does not name them, and they have no metrics pages"
	case PagesOfSomeWorkers:
		return fmt.Sprintf("only %s of %s workers have a metrics page, and the server does not name who serves",
			h.arg(0), h.arg(1))
	case PagesSilent:
		return fmt.Sprintf("%s of %s workers' metrics pages do not answer", h.arg(0), h.arg(1))
	case PageOfProxy:
		return fmt.Sprintf("the metrics page at %s is a proxy's, which answers for several workers, and nothing else distinguishes them", h.arg(0))
	case MoreWorkersThanPlanned:
		return fmt.Sprintf("there are %s workers, more than the plan's %s, and what is wanted is for fewer",
			h.arg(0), h.arg(1))
	case PrefillUnwatched:
		return fmt.Sprintf("the %s prefill workers cannot be seen: no answer names them, and none has a metrics page", h.arg(0))
	case NothingToCompareWith:
		return "there is neither a reference nor a floor to hold throughput against"
	case BudgetTooShort:
		return fmt.Sprintf("stability takes %s min of load without a stall, and the budget is %s min", h.arg(0), h.arg(1))
	case ChecksNotPassed:
		return "the recipe declares checks that this run cannot pass: " + someChecks(h.Args)
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
	case PagesOfSomeWorkers, PageOfProxy:
		return "name the page of each worker with --worker-metrics URL"
	case PagesSilent:
		return "see why with 'aicr watch --worker-metrics URL', or name the right pages"
	case MoreWorkersThanPlanned:
		return "set --workers " + h.arg(0) + ", an engine of a data-parallel server being one worker, or name fewer pages"
	case PrefillUnwatched:
		return "name the page of each with --worker-metrics URL role=prefill, in a file"
	case NothingToCompareWith:
		return "give a recipe that has one with --recipe FILE; 'aicr knee --write FILE' measures a reference"
	case BudgetTooShort:
		return "raise maxEpisodes in the recipe, or set --stability report"
	case ChecksNotPassed:
		return "choose what is run with --check NAME, --phase PHASE or --skip-check NAME"
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

// Known is what is known of a target besides the plan.
type Known struct {
	Looked  bool   // the target was asked; before that what only it can say is open
	Workers int    // that it has; 0: unknown
	Origin  string // of that number
	Named   bool   // its answers name who serves
	Pages   int    // workers that the observed metrics pages tell of
	Silent  int    // of these, that do not answer
}

// CannotPass is every reason for which a run by this plan cannot pass, as far as it is
// known before a load. The published gate asks for nothing but the declared checks.
func CannotPass(p *spec.Plan, known Known) (all []Hindrance) {
	add := func(code string, args ...string) { all = append(all, Hindrance{code, args}) }
	if names := notPassed(p); len(names) > 0 {
		add(ChecksNotPassed, names...)
	}
	if p.Profile == spec.ProfileClassic {
		return all
	}
	workers := p.Point.Workers
	if workers == 0 {
		workers = known.Workers
	}
	if known.Looked && workers == 0 {
		add(WorkersUnknown)
	}
	switch {
	case !known.Looked || known.Named || workers == 1:
	case known.Pages > 0 && known.Pages < workers:
		add(PagesOfSomeWorkers, fmt.Sprint(known.Pages), fmt.Sprint(workers))
	case known.Pages < 2:
		add(WorkersNotDistinguished)
	}
	if workers > 0 && known.Pages > workers {
		add(MoreWorkersThanPlanned, fmt.Sprint(known.Pages), fmt.Sprint(workers))
	}
	if known.Silent > 0 {
		add(PagesSilent, fmt.Sprint(known.Silent), fmt.Sprint(known.Pages))
	}
	if p.Reference == nil && !hasFloor(p) {
		add(NothingToCompareWith)
	}
	needed, budget := min(HealthyMinutes(p), mostMinutes), float64(p.Thresholds.MaxEpisodes)*p.Thresholds.EpisodeS/60
	if p.Stability != spec.StabilityReport && needed > longerEpisodes*budget {
		add(BudgetTooShort, fmt.Sprintf("%.1f", needed), fmt.Sprintf("%.1f", budget))
	}
	return all
}

// longerEpisodes bounds how much longer than planned episodes are: the last answers count.
const longerEpisodes = 1.2

// notPassed names the declared checks for which a run by this plan is no PASS, however
// inference-perf ends, with their states.
func notPassed(p *spec.Plan) (names []string) {
	best := BestEnd(p)
	if best == nil {
		return nil
	}
	for i, c := range best.Checks {
		if one := spec.WorstOfChecks(best.Checks[i : i+1]); !c.LeftOut() && one != spec.Pass && one != spec.Skip {
			names = append(names, c.Name+" "+string(c.Verdict))
		}
	}
	return names
}

// BestEnd is what a run of the plan comes to where inference-perf passes; nil: a PASS, or
// the recipe declares no checks.
func BestEnd(p *spec.Plan) *spec.Verdict {
	own := &spec.Verdict{Verdict: spec.Pass}
	if !Loads(p) {
		own = nil
	}
	if v := Conclude(p, own, 0); v != nil && v.Verdict != spec.Pass {
		return v
	}
	return nil
}

func hasFloor(p *spec.Plan) bool {
	for i := range p.Constraints {
		if p.Constraints[i].Name == spec.ConstraintThroughput {
			return true
		}
	}
	return false
}
