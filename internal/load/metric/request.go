package metric

import (
	"math"

	"aicr/internal/load"
)

// Value is one figure of one request, in the unit of the report.
type Value struct {
	Tag, Unit string
	Number    float64
	Whole     bool // a count, hence without a fraction
}

// PerRequest returns a function that appends the figures of a served request to
// values; a request that was not served has none.
func PerRequest(opt Options) func(r *load.Record, values []Value) []Value {
	defs, judge := definitions(), newJudge(opt)
	return func(r *load.Record, values []Value) []Value {
		if !r.OK() {
			return values
		}
		for _, d := range defs {
			if v := d.value(r, &opt); !math.IsNaN(v) {
				values = append(values, Value{d.tag, d.unit, v * d.scale, d.whole})
			}
		}
		if good, ok := judge(r); ok {
			v := Value{Tag: "good_request_count", Unit: "requests", Whole: true}
			if good {
				v.Number = 1
			}
			values = append(values, v)
		}
		return values
	}
}
