package judge

import (
	"cmp"
	"math"
	"slices"
)

// kneePoint is a level as the curve sees it.
type kneePoint struct{ n, x float64 }

// kneeCurve is throughput by what is in flight. While the engine takes in all that
// comes, a request's stay grows with those that it is batched with, as a line; once
// it is full, at Top, more of them only wait.
type kneeCurve struct {
	base, slope float64 // of n/throughput
	top         float64 // +Inf: no level was full
}

func (c kneeCurve) at(n float64) float64 { return min(n/(c.base+float64(c.slope*n)), c.top) }

// elasticity of the last doubling: 1 when it doubled throughput, 0 when it bought
// nothing. It is what a validation asks at its operating point, and it has, unlike
// the greatest curvature, the same answer whatever range was swept.
func (c kneeCurve) elasticity(n float64) float64 { return math.Log2(c.at(n) / c.at(n/2)) }

// knee is where the last doubling had an elasticity of e, as far as to most.
func (c kneeCurve) knee(e, most float64) (float64, bool) {
	if !(c.elasticity(most) < e) {
		return 0, false
	}
	low, high := 0.0, most
	for range 60 {
		if mid := (low + high) / 2; c.elasticity(mid) < e {
			high = mid
		} else {
			low = mid
		}
	}
	return high, true
}

// sameLevel is within what ratio two levels are one: what a client may hold too much.
const sameLevel = 1.05

// leastKneePoints is how many different levels a curve needs: one more than it has
// parameters at most.
const leastKneePoints = 4

// fitKnee fits the curve by relative error. Each way to part the levels into those
// below the top and those at it is tried; a top has to earn its two parameters (it,
// and where it begins) by the Bayesian information criterion.
func fitKnee(points []kneePoint) (kneeCurve, bool) {
	points = slices.SortedFunc(slices.Values(points), func(a, b kneePoint) int { return cmp.Compare(a.n, b.n) })
	if distinctLevels(points) < leastKneePoints {
		return kneeCurve{}, false
	}
	var best kneeCurve
	score, found := math.Inf(1), false
	for k := len(points); distinctLevels(points[:k]) >= 2; k-- {
		c, ok := fitLine(points[:k])
		parameters := 2.0
		if ok && k < len(points) {
			parameters = 4
			c.top = geometricMean(points[k:])
		}
		if !ok {
			continue
		}
		if s := curveCriterion(c, points, parameters); s < score {
			best, score, found = c, s, true
		}
	}
	return best, found
}

// fitLine is the least squares of the relative error of n/x = base + slope·n.
func fitLine(points []kneePoint) (kneeCurve, bool) {
	var s, sn, snn, r, rn float64 // of the weighted design and of what it is to give
	for _, p := range points {
		u := p.x / p.n
		v := u * p.n
		s, sn, snn = s+float64(u*u), sn+float64(u*v), snn+float64(v*v)
		r, rn = r+u, rn+v
	}
	det := float64(s*snn) - float64(sn*sn)
	if !(det > 1e-12*s*snn) {
		return kneeCurve{}, false
	}
	c := kneeCurve{base: (float64(r*snn) - float64(rn*sn)) / det, slope: (float64(s*rn) - float64(sn*r)) / det, top: math.Inf(1)}
	if c.slope < 0 { // throughput that grows faster than the load: a line through the origin
		c.base, c.slope = r/s, 0
	}
	return c, c.base > 0
}

// curveCriterion is the Bayesian information criterion of ln(throughput). A scatter below
// a thousandth is not told from none: it must not buy parameters.
func curveCriterion(c kneeCurve, points []kneePoint, parameters float64) float64 {
	n, s := float64(len(points)), c.scatter(points)
	return float64(n*math.Log(max(float64(s*s), 1e-6))) + float64(parameters*math.Log(n))
}

// scatter is the root mean square of ln(throughput) around the curve.
func (c kneeCurve) scatter(points []kneePoint) float64 {
	var sum float64
	for _, p := range points {
		d := math.Log(p.x / c.at(p.n))
		sum += float64(d * d)
	}
	return math.Sqrt(sum / float64(len(points)))
}

func distinctLevels(points []kneePoint) int {
	n := 0
	for i, p := range points {
		if i == 0 || p.n > points[i-1].n*sameLevel {
			n++
		}
	}
	return n
}

func geometricMean(points []kneePoint) float64 {
	var sum float64
	for _, p := range points {
		sum += math.Log(p.x)
	}
	return math.Exp(sum / float64(len(points)))
}
