package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

const (
	mostMarks    = 200
	mostMarkText = 300 // bytes
)

// addMarks marks the events that mean something to a reader. Where there are too many,
// those that mean most stay.
func (b *Builder) addMarks(r *spec.Report) {
	type ranked struct {
		spec.Mark
		rank int
	}
	var all []ranked
	for _, e := range b.events {
		if text, rank := b.means(e); text != "" {
			all = append(all, ranked{spec.Mark{At: e.T, Kind: e.Kind, Text: layout.Clip(text, mostMarkText), Worker: r.Verdict.Named(e.Worker)}, rank})
		}
	}
	if out := len(all) - mostMarks; out > 0 {
		slices.SortStableFunc(all, func(x, y ranked) int { return cmp.Compare(x.rank, y.rank) })
		all = all[:mostMarks]
		r.Notes = append(r.Notes, leftOut(out, "event")...)
	}
	slices.SortStableFunc(all, func(x, y ranked) int { return cmp.Compare(x.At, y.At) })
	for _, m := range all {
		r.Marks = append(r.Marks, m.Mark)
	}
}

// means is what an event says to a reader, "" for nothing, and how little it can be
// spared.
func (b *Builder) means(e spec.Event) (text string, rank int) {
	switch e.Kind {
	case spec.EventInterrupt:
		return told("the run was ended", e.Text), 0
	case spec.EventNotServed:
		return told("the endpoint never served", e.Text), 0
	case spec.EventRemoved:
		return told(e.Source+" was deleted by somebody else", e.Text), 0
	case spec.EventRequests:
		return told("requests failed before the load", e.Reason, e.Text), 1
	case spec.EventNode:
		return told("node "+e.Source, e.Reason, e.Text), 2
	case spec.EventStage:
		if e.Stage == "retry" {
			return told(fmt.Sprintf("episode %d is measured again", e.Episode), e.Text), 1
		}
	case spec.EventSymptom:
		return often(told(e.Reason, e.Text), e.Count), 1
	case spec.EventAnswer:
		return b.answer(e), 2
	case spec.EventPod, spec.EventLog:
		return often(told(e.Source, e.Reason, e.Text), e.Count), 3
	case spec.EventSymptomOver:
		return told("over", e.Reason, e.Text), 4
	}
	return "", 0
}

// answer is about a first answer that was slow, or none.
func (b *Builder) answer(e spec.Event) string {
	usual, _ := spec.DefaultThresholds(spec.ProfileStandard)
	cold := usual.ColdS
	if b.plan != nil {
		cold = b.plan.Thresholds.ColdS
	}
	switch {
	case e.Seconds == nil || e.Tokens != nil && *e.Tokens == 0:
		return told("no first answer", e.Reason, e.Text)
	case *e.Seconds > cold:
		return fmt.Sprintf("the first answer took %s s", layout.Digits(*e.Seconds))
	}
	return ""
}

// told joins what there is.
func told(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

func often(text string, times int) string {
	if times > 1 && text != "" {
		return fmt.Sprintf("%s times: %s", layout.Number(float64(times)), text)
	}
	return text
}

// facts is what is known of the environment.
func (b *Builder) facts() []spec.Fact {
	var all []spec.Fact
	fact := func(name, value string) {
		if value != "" {
			all = append(all, spec.Fact{Name: name, Value: layout.Clip(value, mostMarkText)})
		}
	}
	t := b.run.Target
	fact("model", t.Model)
	fact("URL", t.URL)
	fact("scenario", t.Scenario)
	switch {
	case t.Simulated:
		fact("seed", strconv.FormatUint(t.Seed, 10))
	case b.plan != nil:
		fact("seed", strconv.FormatUint(b.plan.Seed, 10))
	}
	fact("workers", b.workers())
	fact("GPUs", b.hardware())
	fact("runtime", b.versions(func(e spec.Event) string { return e.Runtime }))
	fact("chart", b.versions(func(e spec.Event) string { return e.Chart }))
	if b.plan != nil {
		fact("router", b.plan.Point.Router)
	}
	fact("aicr", b.run.Version)
	return all
}

// workers is how many there are and should be, by the last that told.
func (b *Builder) workers() string {
	for _, e := range slices.Backward(b.events) {
		if e.Kind == spec.EventWorkers && e.Have != nil {
			if e.Want != nil && *e.Want != *e.Have {
				return fmt.Sprintf("%d of %d", *e.Have, *e.Want)
			}
			return strconv.Itoa(*e.Have)
		}
	}
	if b.plan != nil && b.plan.Point.Workers > 0 {
		return fmt.Sprintf("%d, by the plan", b.plan.Point.Workers)
	}
	return ""
}

// hardware is how many GPUs there are of which model, by their exporters or, where none
// tells, by the cluster.
func (b *Builder) hardware() string {
	models := map[string]int{}
	for _, g := range b.gpus {
		models[g.model]++
	}
	var each []string
	for model, n := range models {
		if model == "" {
			each = append(each, fmt.Sprintf("%d of unknown model", n))
			continue
		}
		each = append(each, fmt.Sprintf("%d × %s", n, model))
	}
	slices.SortFunc(each, natural)
	all := strings.Join(each, ", ")
	switch {
	case b.uncarded:
		return "at least " + all
	case all != "":
		return all
	}
	n, told := 0, false
	for _, e := range b.events {
		if e.Kind == spec.EventGPUs && e.Want != nil {
			n, told = n+*e.Want, true
		}
	}
	if !told {
		return ""
	}
	return strconv.Itoa(n)
}

// versions are those that were told, each once.
func (b *Builder) versions(of func(spec.Event) string) string {
	var all []string
	for _, e := range b.events {
		if v := of(e); e.Kind == spec.EventVersions && v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return layout.Listed(all)
}
