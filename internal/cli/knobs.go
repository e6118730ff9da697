package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/checks/graph"
	"aicr/internal/spec"
)

// readKnobs settles the published variables, and says what is wrong with them.
func (a *app) readKnobs(c *spec.Catalog) (spec.KnobValues, []error) {
	var wrong []error
	all := spec.ReadKnobs(a.env.LookupEnv, c)
	for _, k := range all {
		if k.Wrong == "" {
			continue
		}
		where := ""
		if k.From == spec.KnobFromCatalog {
			where = "the catalog's env of " + spec.InferencePerf + ": "
		}
		wrong = append(wrong, misuse(k.Hint, "%s%s: %s", where, k.Name, k.Wrong))
	}
	for i, k := range all {
		if k.Wrong == "" && slices.Contains(spec.ResourceKnobs(), k.Name) {
			if text, hint := graph.CheckResources(all.Resources(k.Name)); text != "" {
				all[i].Wrong, all[i].Hint = text, hint
				wrong = append(wrong, misuse(hint, "%s: %s", k.Name, text))
			}
		}
	}
	return all, append(wrong, a.misspeltKnobs()...)
}

// misspeltKnobs are the shell's variables that look like published ones and that nothing
// listens to: what they were meant to say would be dropped.
func (a *app) misspeltKnobs() (wrong []error) {
	if a.env.Environ == nil {
		return nil
	}
	var known []string
	for _, k := range spec.Knobs() {
		known = append(known, k.Name)
	}
	for _, pair := range slices.Sorted(slices.Values(a.env.Environ())) {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, spec.KnobPrefix) || slices.Contains(known, name) || value == "" {
			continue
		}
		hint := "'aicr env' lists those that there are"
		if near := nearest(name, known); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		wrong = append(wrong, misuse(hint, "%s: no check listens to it", name))
	}
	return wrong
}

// knobOf are the published variables that say what a flag does.
func knobOf(flag string) []string {
	switch flag {
	case "concurrency-per-gpu":
		return []string{spec.KnobConcurrency}
	case "prompt-input-tokens-mean":
		return []string{spec.KnobInputTokens}
	case "prompt-output-tokens-mean":
		return []string{spec.KnobOutputTokens}
	}
	return nil
}

// shell is what a knob says that the user's shell sets, and catalog what one says that
// the catalog does.
func (p *planner) shell(knob string) offer[int]   { return p.knob(knob, spec.KnobFromEnv) }
func (p *planner) catalog(knob string) offer[int] { return p.knob(knob, spec.KnobFromCatalog) }

func (p *planner) knob(name, by string) (o offer[int]) {
	text, from, ok := p.knobs.Said(name)
	n, err := strconv.Atoi(text)
	if !ok || from != by || err != nil {
		return o
	}
	return offer[int]{&n, from, name}
}

// model is the model that is loaded: what the flag, the recipe, a variable or the
// catalog says. On a cluster it is deployed too, and there is a default.
func (p *planner) model(said string, deployed bool) string {
	if p.flagged("model") {
		return said
	}
	if p.recipe != nil {
		if model, ok := p.recipe.Input(spec.InputModel); ok {
			p.prevails("model", model, p.recipe.inputPlace(spec.InputModel), spec.KnobModel)
			return model
		}
	}
	model, from, ok := p.knobs.Said(spec.KnobModel)
	if (from != spec.KnobFromEnv || p.app.settings.of("model").Source == FromEnv) && p.said("model") { // a file gives way to any variable
		return said
	}
	if ok {
		p.note("model", model, from, spec.KnobModel)
		return model
	}
	if deployed {
		p.note("model", spec.DefaultModel, string(FromDefault), "")
		return spec.DefaultModel
	}
	return said
}

// classicRequests is how many requests of the published gate count.
func (p *planner) classicRequests(inFlight int) int {
	least := p.counted(spec.KnobMinRequests, "requests at least", classicRequests)
	return max(least, p.counted(spec.KnobRequests, "requests per one in flight", classicPerSlot)*inFlight)
}

// classicWave is how many requests of the published gate each user sends before those
// that count.
func (p *planner) classicWave() int {
	return p.counted(spec.KnobWarmup, "wave per one in flight", 1)
}

// counted is a count that no flag and no recipe says.
func (p *planner) counted(knob, input string, usual int) int {
	for _, o := range []offer[int]{p.shell(knob), p.catalog(knob)} {
		if o.value != nil {
			p.note(input, strconv.Itoa(*o.value), o.from, o.place)
			return *o.value
		}
	}
	p.note(input, strconv.Itoa(usual), string(FromDefault), "")
	return usual
}

// answerWithin lays the published variable for it over how long each worker may take
// for its first answer, where the recipe does not say it.
func (p *planner) answerWithin(t *spec.Thresholds) {
	text, from, ok := p.knobs.Said(spec.KnobHealthTimeout)
	if !ok {
		return
	}
	if p.recipe != nil {
		if _, own := p.recipe.Verdict().Thresholds["answerWithinS"]; own {
			p.app.say("%s says %s and gives way to the recipe, which says %v s", spec.KnobHealthTimeout, text, t.AnswerWithinS)
			return
		}
	}
	t.AnswerWithinS = p.knobs.Duration(spec.KnobHealthTimeout).Seconds()
	p.note("first answer within", text, from, spec.KnobHealthTimeout)
}

// noteKnobs keeps what only a run on a cluster has a use for.
func (p *planner) noteKnobs() {
	if p.recipe != nil {
		if mode, ok := p.recipe.Input(spec.InputRouting); ok { // no variable says it
			p.note(spec.InputRouting, mode, fromRecipe, p.recipe.inputPlace(spec.InputRouting))
		}
	}
	for _, k := range p.knobs {
		if !k.Cluster {
			continue
		}
		value, from := k.Value, k.From
		if k.Recipe != "" && p.recipe != nil {
			if said, ok := p.recipe.Input(k.Recipe); ok {
				p.note(k.Name, said, fromRecipe, p.recipe.inputPlace(k.Recipe))
				continue
			}
		}
		if value != "" {
			p.note(k.Name, value, from, "")
		}
	}
}
