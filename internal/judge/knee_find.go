package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// Knee is where more load stops paying, as far as levels show it.
type Knee struct {
	Found    bool     `json:"found"`
	Reason   string   `json:"reason"`              // what the answer rests on, or why there is none
	InFlight float64  `json:"in_flight,omitempty"` // where the last doubling had the least elasticity that pays
	Low      *float64 `json:"low,omitempty"`       // by the jackknife over the levels, 95 %; absent: not known
	High     *float64 `json:"high,omitempty"`

	Elasticity float64       `json:"elasticity"`        // that defines it
	Below      float64       `json:"below,omitempty"`   // the load at which a doubling still has it with a margin
	Scatter    float64       `json:"scatter,omitempty"` // ln-sd of the levels around the curve
	Opinions   []KneeOpinion `json:"opinions"`

	// Vague says that the levels tell no more than the interval.
	Vague bool `json:"vague,omitempty"`

	// Ahead is where the knee would be if the curve went on as it does: no knee
	// that was seen, but how far to look.
	Ahead float64 `json:"-"`

	// ClientLimited says that levels above the highest that counts were the
	// client's limit, not the server's.
	ClientLimited bool `json:"client_limited,omitempty"`
}

// KneeOpinion is what another definition of a knee says of the same levels.
type KneeOpinion struct {
	By       string   `json:"by"`
	InFlight *float64 `json:"in_flight,omitempty"` // absent: it sees none
	Agrees   bool     `json:"agrees"`
	Text     string   `json:"text"`
}

// The rules of a knee.
const (
	kneeSeen      = 1.15 // times the knee, to where levels must reach that it was seen and not guessed
	kneeVague     = 0.35 // half of an interval, relative, beyond which there is no answer
	kneeTold      = 0.20 // and up to which one number is the answer, rather than the interval
	kneeAgrees    = 0.20 // by which another fit of the same law may differ
	kneeBeyond    = 1.25 // times the knee, up to which a bend is this bend
	kneeNoFurther = 4    // times what was measured, to where a curve is followed to tell a far knee
)

// FindKnee finds the knee of levels in any order. Their elasticities are filled in.
func FindKnee(levels []KneeLevel, t *spec.Thresholds) *Knee {
	used := usableLevels(levels)
	fillElasticity(levels)
	k := &Knee{Elasticity: t.Elasticity, Opinions: []KneeOpinion{}, ClientLimited: clientLimited(levels)}
	curve, ok := fitKnee(used)
	if !ok {
		k.Reason = fmt.Sprintf("%d levels count, and a curve needs %d that differ", len(used), leastKneePoints)
		return k
	}
	top := slices.MaxFunc(used, func(a, b kneePoint) int { return cmp.Compare(a.n, b.n) }).n
	at, bends := curve.knee(t.Elasticity, kneeNoFurther*top)
	k.Ahead = at
	if !bends || at*kneeSeen > top {
		k.Reason = fmt.Sprintf("at %.0f in flight a doubling still brings 2^%.2f times the throughput", top, curve.elasticity(top))
		return k
	}
	k.Found, k.InFlight = true, at
	k.Reason = fmt.Sprintf("from %.0f to %.0f in flight throughput rises by 2^%.2f: the last doubling that pays", at/2, at, t.Elasticity)
	k.Low, k.High = kneeInterval(used, at, t.Elasticity)
	k.Scatter = curve.scatter(used)
	k.Below, _ = curve.knee(t.Elasticity+kneeMargin, at)
	k.Opinions = []KneeOpinion{kneedleOpinion(used, at), uslOpinion(used, at, top, t.Elasticity)}
	return k
}

// usableLevels are the levels that have a part in it.
func usableLevels(levels []KneeLevel) []kneePoint {
	var all []kneePoint
	for i := range levels {
		l := &levels[i]
		if l.NotUsed == "" && l.Held != nil && *l.Held > 0 && l.Throughput.Value != nil && *l.Throughput.Value > 0 {
			all = append(all, kneePoint{*l.Held, *l.Throughput.Value})
		}
	}
	return all
}

// clientLimited says whether the highest level was the client's limit.
func clientLimited(levels []KneeLevel) bool {
	highest, limited := 0, false
	for i := range levels {
		l := &levels[i]
		if l.InFlight > highest || l.InFlight == highest && !l.Client { // what was held once can be held
			highest, limited = l.InFlight, l.Client
		}
	}
	return limited
}

// kneeLever is how much lower a level must be for an elasticity from there.
const kneeLever = 0.6

func fillElasticity(levels []KneeLevel) {
	for i := range levels {
		to := &levels[i]
		to.Elasticity = nil
		var from kneePoint
		for _, p := range usableLevels(levels) {
			if to.Held != nil && p.n <= kneeLever**to.Held && p.n > from.n {
				from = p
			}
		}
		if from.n > 0 && to.NotUsed == "" && to.Throughput.Value != nil {
			to.Elasticity = number(math.Log(*to.Throughput.Value/from.x) / math.Log(*to.Held/from.n))
		}
	}
}

// Half is half of the interval, relative; +Inf when it is not known.
func (k *Knee) Half() float64 {
	if k.Low == nil || k.High == nil {
		return math.Inf(1)
	}
	return max(math.Log(*k.High/k.InFlight), math.Log(k.InFlight / *k.Low))
}

// Settle says, now that there will be no more levels, how well they show the knee. One
// that they do not show well enough is taken back: a point below it would be a guess.
func (k *Knee) Settle() {
	if !k.Found || k.Half() <= kneeTold {
		return
	}
	within := "anywhere"
	if k.Low != nil && k.High != nil {
		within = fmt.Sprintf("within %.0f to %.0f in flight", *k.Low, *k.High)
	}
	k.Reason = fmt.Sprintf("cannot tell %s: levels scatter around the curve by %.1f %%", within, 100*k.Scatter)
	k.Vague, k.Found = true, k.Half() <= kneeVague
}

// MoreLevels is about how many more levels would bring half of the interval down to a
// share, as it shrinks with the root of their number; 0: none, or nobody can say.
func (k *Knee) MoreLevels(levels int, share float64) int {
	half := k.Half()
	if math.IsInf(half, 1) || half <= share {
		return 0
	}
	return int(math.Ceil(float64(levels) * (half*half/(share*share) - 1)))
}

// kneeInterval is how far the knee can be trusted: how it moves when each level is left
// out in turn.
func kneeInterval(used []kneePoint, at, e float64) (low, high *float64) {
	n := float64(len(used))
	pseudo := make([]float64, 0, len(used))
	for i := range used {
		curve, ok := fitKnee(slices.Delete(slices.Clone(used), i, i+1))
		if !ok {
			return nil, nil
		}
		without, ok := curve.knee(e, at*kneeNoFurther)
		if !ok {
			return nil, nil
		}
		pseudo = append(pseudo, float64(n*math.Log(at))-float64((n-1)*math.Log(without)))
	}
	mean, l, h := stats.MeanInterval(pseudo, 0.95)
	return number(at * math.Exp(l-mean)), number(at * math.Exp(h-mean))
}

// kneedleOpinion asks where the curve stands highest above the straight line from its
// first to its last level. That depends on the range, so that it is asked only
// whether it sees the same bend: within the last doubling, or just above.
func kneedleOpinion(used []kneePoint, at float64) KneeOpinion {
	o := KneeOpinion{By: "Kneedle"}
	var x, y []float64
	for _, p := range levelled(used) {
		x, y = append(x, p.n), append(y, p.x)
	}
	bend, ok := stats.Kneedle(x, y, 1)
	if !ok {
		o.Text = "sees no bend in the levels"
		return o
	}
	o.InFlight = &bend
	o.Agrees = bend >= at/2 && bend <= at*kneeBeyond
	o.Text = fmt.Sprintf("the bend is at %.0f in flight", bend)
	if o.Agrees {
		o.Text += ", within that doubling"
	} else {
		o.Text += ", outside that doubling"
	}
	return o
}

// pooled is how far levels may lie apart that Kneedle sees as one: it follows every
// point, and its authors smooth them first.
const pooled = 1.25

// levelled is a mean of neighbouring levels each, in order.
func levelled(used []kneePoint) []kneePoint {
	sorted := slices.SortedFunc(slices.Values(used), func(a, b kneePoint) int { return cmp.Compare(a.n, b.n) })
	var all []kneePoint
	for len(sorted) > 0 {
		end := 1
		for end < len(sorted) && sorted[end].n <= sorted[0].n*pooled {
			end++
		}
		var n float64
		for _, p := range sorted[:end] {
			n += p.n
		}
		all = append(all, kneePoint{n / float64(end), geometricMean(sorted[:end])})
		sorted = sorted[end:]
	}
	return all
}

// uslOpinion fits the universal scalability law, which knows contention and crosstalk and
// no full engine, and asks it the same question.
func uslOpinion(used []kneePoint, at, top, e float64) KneeOpinion {
	o := KneeOpinion{By: "USL"}
	var n, x []float64
	for _, p := range used {
		n, x = append(n, max(1, p.n)), append(x, p.x)
	}
	law, err := stats.FitUSL(n, x)
	if err != nil {
		o.Text = "does not fit: " + err.Error()
		return o
	}
	low, high := 2.0, kneeNoFurther*top
	drop := func(n float64) bool { return math.Log2(law.At(n)/law.At(n/2)) < e }
	if !drop(high) || drop(low) {
		o.Text = "sees no such doubling"
		return o
	}
	for range 60 {
		if mid := (low + high) / 2; drop(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	o.InFlight = &high
	o.Agrees = math.Abs(math.Log(high/at)) <= kneeAgrees
	peak := "no peak"
	if p := law.Peak(); !math.IsInf(p, 0) && !math.IsNaN(p) {
		peak = fmt.Sprintf("a peak at %.0f", p)
	}
	o.Text = fmt.Sprintf("the same doubling ends at %.0f in flight; %s", high, peak)
	return o
}
