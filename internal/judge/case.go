package judge

import "aicr/internal/spec"

// Case is a run under judgement: what has been heard of it so far. It keeps a
// digest of each episode, not the episode. It is not for use by several
// goroutines at once.
type Case struct {
	plan   *spec.Plan
	events []spec.Event
}

// NewCase has heard nothing.
func NewCase(p *spec.Plan) *Case { return &Case{plan: p} }

// Hear takes what happened besides load.
func (c *Case) Hear(events ...spec.Event) { c.events = append(c.events, events...) }

// Add takes an episode. The look at half the load is number 0; a repeated one has
// the number that follows.
func (c *Case) Add(r *spec.EpisodeRecord) {}

// Next says that the case is not decided yet, and why one more episode is wanted.
type Next struct {
	Why   string // what would end it
	Retry string // the remedy, when an episode was invalid and is repeated
}

// Verdict says what has been heard so far means. It is decided when Next is nil;
// otherwise the verdict is that of a run that ends here: never PASS.
func (c *Case) Verdict() (*spec.Verdict, *Next) {
	return &spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.Inconclusive}, nil
}

// Judge is the verdict on a whole run.
func Judge(p *spec.Plan, events []spec.Event, episodes ...*spec.EpisodeRecord) *spec.Verdict {
	c := NewCase(p)
	c.Hear(events...)
	for _, e := range episodes {
		c.Add(e)
	}
	v, _ := c.Verdict()
	return v
}
