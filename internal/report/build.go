package report

import "aicr/internal/spec"

// Builder makes a Report of a run as its record is read, an episode at a time.
type Builder struct {
	report spec.Report
}

// NewBuilder begins a report of a run.
func NewBuilder(run spec.Run, plan *spec.Plan, events []spec.Event) *Builder {
	return &Builder{report: spec.Report{Run: run, Plan: plan}}
}

// Begin begins an episode: the requests and samples that follow are its.
func (b *Builder) Begin(e *spec.Episode) {}

// Request takes a request in. It may be used again when Request returns.
func (b *Builder) Request(q *spec.Request) {}

// Sample takes a sample in.
func (b *Builder) Sample(s *spec.Sample) {}

// Report is what it came to.
func (b *Builder) Report(v *spec.Verdict) *spec.Report {
	b.report.Verdict = v
	return &b.report
}
