package spec

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARequestIsServedFailedOrInterrupted(t *testing.T) {
	const second = int64(1e9)
	for name, c := range map[string]struct {
		q                              Request
		served, failed, refused, broke bool
	}{
		"served":                        {q: Request{Class: ClassOK, First: 1, Tokens: 1, End: 2}, served: true},
		"answered without a token":      {q: Request{Class: ClassOK, First: 1, End: 2 * second}, failed: true},
		"without a first token's stamp": {q: Request{Class: ClassOK, Tokens: 1, End: 2 * second}, failed: true},
		"failed while it streamed":      {q: Request{Class: "bad-stream", First: 1, Tokens: 5, End: 2}, failed: true},
		"failed late":                   {q: Request{Class: "timeout", Sent: 5, End: second + 5}, failed: true},
		"refused":                       {q: Request{Class: "http-status", Sent: 5, End: second + 4}, failed: true, refused: true},
		"interrupted":                   {q: Request{Class: ClassInterrupted, First: 1, Tokens: 1, End: 2}, broke: true},
		"interrupted at once":           {q: Request{Class: ClassInterrupted, End: 2}, broke: true},
	} {
		if s, f, r := c.q.Served(), c.q.Failed(), c.q.RefusedAtOnce(); s != c.served || f != c.failed || r != c.refused {
			t.Errorf("%s: served %t, failed %t, refused at once %t", name, s, f, r)
		}
		one := map[bool]int{true: 1}
		want := RequestCounts{Sent: 1, Served: one[c.served], Failed: one[c.failed], Interrupted: one[c.broke], Classes: map[string]int{c.q.Class: 1}}
		var got RequestCounts
		got.Add(&c.q)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTokensLieEvenlyOnBothSidesOfALongWait(t *testing.T) {
	const s = int64(1e9)
	type stretch struct {
		from, until int64
		rate        float64
	}
	for name, c := range map[string]struct {
		q    Request
		want []stretch
	}{
		"none":                     {Request{First: s, Last: 2 * s}, nil},
		"no stamp":                 {Request{Tokens: 5}, nil},
		"one":                      {Request{Tokens: 1, First: s, Last: s}, []stretch{{s, s + 1, 1}}},
		"no wait that is long":     {Request{Tokens: 20, First: s, Last: 3 * s, Gap: s/2 - 1, GapEnd: 2 * s}, []stretch{{s, 3 * s, 1e-8}}},
		"a wait":                   {Request{Tokens: 40, First: s, Last: 9 * s, Gap: 4 * s, GapEnd: 7 * s}, []stretch{{s, 3 * s, 1e-8}, {7 * s, 9 * s, 1e-8}}},
		"up to the last":           {Request{Tokens: 20, First: s, Last: 5 * s, Gap: 2 * s, GapEnd: 5 * s}, []stretch{{s, 3 * s, 1e-8}, {5 * s, 5*s + 1, 1e-8}}},
		"that began before it did": {Request{Tokens: 20, First: 2 * s, Last: 4 * s, Gap: 2 * s, GapEnd: 3 * s}, []stretch{{2 * s, 4 * s, 1e-8}}},
		"that ended after it did":  {Request{Tokens: 20, First: 2 * s, Last: 4 * s, Gap: s, GapEnd: 5 * s}, []stretch{{2 * s, 4 * s, 1e-8}}},
	} {
		var got []stretch
		c.q.TokensOver(func(from, until int64, rate float64) { got = append(got, stretch{from, until, rate}) })
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(stretch{}), cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-15 })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
