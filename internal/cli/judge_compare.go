package cli

import (
	"context"
	"errors"

	"aicr/internal/judge"
	"aicr/internal/spec"
)

// compare says whether the second run is better than the first.
func (a *app) compare(ctx context.Context, first, second string, o *judgeOptions) error {
	change, err := o.check(a)
	if err != nil {
		return err
	}
	var sides []*judge.Side
	for _, dir := range []string{first, second} {
		s, err := a.sideOf(ctx, dir, change)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	c := judge.Compare(sides[0], sides[1])
	return errors.Join(a.printReport(&spec.Report{Comparison: c}, o.format), comparisonCode(c.Says))
}

// comparisonCode is how a command ends that compared two runs.
func comparisonCode(says string) error {
	switch says {
	case spec.IsBetter:
		return nil
	case spec.IsWorse:
		return Failed
	}
	return Unmeasured
}

// sideOf reads what is compared of a run.
func (a *app) sideOf(ctx context.Context, dir string, change func(*spec.Plan) (*spec.Plan, string, error)) (*judge.Side, error) {
	run, err := a.readRun(dir)
	if err != nil {
		return nil, err
	}
	plan, _, err := change(run.Plan)
	if err != nil {
		return nil, err
	}
	s := &judge.Side{Side: spec.Side{Run: dir}, Point: run.Plan.Point, Target: run.Run.Target}
	v, err := rejudge(ctx, dir, run, plan, s.Take)
	if err != nil {
		return nil, err
	}
	s.Verdict, s.LoadedS, s.Stalls = v.Verdict, v.LoadedS, len(v.Stalls)
	return s, nil
}
