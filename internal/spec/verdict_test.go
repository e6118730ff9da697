package spec_test

import (
	"math"
	"testing"

	"aicr/internal/spec"
)

func TestWhatWasNotMeasuredDidNotPass(t *testing.T) {
	for _, test := range []struct {
		name  string
		value *float64
		state spec.State
		want  spec.State
	}{
		{"measured", new(1.0), spec.Pass, spec.Pass},
		{"a pass without a value", nil, spec.Pass, spec.NotJudged},
		{"a pass of no number", new(math.NaN()), spec.Pass, spec.NotJudged},
		{"an infinite pass", new(math.Inf(1)), spec.Pass, spec.NotJudged},
		{"a failure without a value", nil, spec.Fail, spec.Fail},
		{"a skip", nil, spec.Skip, spec.Skip},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := (&spec.Expected{Value: test.value, State: test.state}).Judged(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
