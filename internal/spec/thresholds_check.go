package spec

import (
	"fmt"
	"reflect"
)

// bound is what a threshold can be at all. Within it a judge gives an answer;
// whether it is a wise one is for whoever sets it.
type bound struct {
	least, most float64
	beyond      bool // the least itself is too little
	hint        string
}

// thresholdBounds has the bound of every threshold, by its name.
func thresholdBounds() map[string]bound {
	const day = 86400.0
	share := bound{least: 0, most: 1, hint: "a share is from 0 to 1"}
	part := bound{least: 0, most: 1, beyond: true, hint: "a share above 0, up to 1"}
	risk := bound{least: 0, most: 0.5, beyond: true, hint: "the chance of a wrong answer: 0.01 is one in a hundred"}
	ratio := bound{least: 0, most: 2, beyond: true, hint: "of the reference; 1 is as fast"}
	rate := bound{least: 0, most: mostPerMinute, beyond: true, hint: "stalls in a loaded minute"}
	count := bound{least: 1, most: mostEpisodes}
	time := bound{least: 0, most: day, beyond: true, hint: "in seconds"}
	pause := bound{least: 0, most: day, hint: "in seconds"}
	wait := bound{least: 0, most: day * 1000, beyond: true, hint: "in milliseconds"}
	return map[string]bound{
		"minEpisodes": count, "maxEpisodes": count, "episodeS": {least: 1, most: day, hint: "in seconds"},
		"maxRetries": {least: 0, most: mostEpisodes}, "minSteadyS": time, "batchS": time, "lag1": share,
		"warmupCut": share, "cleanShare": share, "beforeStallS": pause, "afterStallS": pause,

		"ratioGood": ratio, "ratioBad": ratio, "sigma": {least: 0, most: 1, beyond: true, hint: "ln-sd of an episode; 0.05 is 5 %"},
		"alphaCapability": risk, "betaCapability": risk,

		"ttftGuardrailMs": wait, "ttftBadShare": part, "ttftPassShare": share,
		"bootstrapDraws": {least: 100, most: 1e6, hint: "fewer give no interval, more take long"}, "bootstrapBlockS": time,
		"goodTtftMs": wait, "goodGapMs": wait,

		"peerShare": part, "peerPerRequest": part, "peerEpisodes": part, "starvedShare": share, "prefixHit": share,

		"rateOk": rate, "rateBad": rate, "rateWorkers": {least: 0, most: mostWorkers, hint: "workers; 0: the rates are of a fleet of any size"}, "alphaStability": risk, "betaStability": risk, "minStalls": count, "sameWorker": count,
		"stallShare": part, "freezeShare": part, "stallS": time, "recoveredRate": part, "recoveredS": pause,
		"gapFactor": {least: 1, most: mostFactor, beyond: true, hint: "times the usual gap"}, "gapStreams": share, "wedgedS": time,

		"heldLow": share, "heldHigh": {least: 1, most: 10, hint: "of what was to be in flight; 1 is all of it"}, "clientLagMs": wait,
		"elasticity": share, "lengthOff": share, "promptOff": {least: 0, most: 100, hint: "of the declared length"}, "cachedOff": share,
		"telemetryLost": share, "witnessesOff": share,

		"errorShare": share, "noTokens": share, "throttleShare": share, "hostRatio": part,
		"answerWithinS": time, "coldS": pause, "noServeS": time,
	}
}

// thresholdOrders are the pairs of which the first must be less than the second,
// or at most as much, for the judge's rules to make sense together.
func thresholdOrders() []thresholdOrder {
	return []thresholdOrder{
		{"minEpisodes", "maxEpisodes", true, "no run could end before its budget does"},
		{"batchS", "episodeS", true, "an episode has a batch at least"},
		{"minSteadyS", "episodeS", true, "no episode could be judged"},
		{"bootstrapBlockS", "episodeS", true, "an episode has a block at least"},
		{"ratioBad", "ratioGood", false, "between them is where nothing is decided"},
		{"rateOk", "rateBad", false, "between them is where nothing is decided"},
		{"ttftPassShare", "ttftBadShare", false, "an episode share would pass and fail at once"},
		{"starvedShare", "peerShare", true, "a starved worker is slower than a slow one"},
		{"stallShare", "recoveredRate", false, "a stall would be over while it lasts"},
		{"freezeShare", "recoveredRate", false, "a freeze would be over while it lasts"},
		{"heldLow", "heldHigh", false, "no client could pass"},
		{"coldS", "answerWithinS", true, "a cold start would be given up before it is one"},
	}
}

type thresholdOrder struct {
	less, more string
	equal      bool // they may be equal
	why        string
}

// wrongField is something wrong with a field, or with two of them together.
type wrongField struct {
	field, other string
	text, hint   string
}

// wrongFields is everything that cannot be.
func (t *Thresholds) wrongFields() []wrongField {
	var all []wrongField
	values, bounds := t.byName(), thresholdBounds()
	for _, name := range ThresholdNames() {
		b, v := bounds[name], values[name]
		if v >= b.least && v <= b.most && (!b.beyond || v > b.least) { // a NaN is not
			continue
		}
		want := fmt.Sprintf("%s to %s", decimals(b.least), decimals(b.most))
		if b.beyond {
			want = fmt.Sprintf("more than %s and at most %s", decimals(b.least), decimals(b.most))
		}
		all = append(all, wrongField{field: name, text: fmt.Sprintf("want %s, got %s", want, decimals(v)), hint: b.hint})
	}
	for _, o := range thresholdOrders() {
		less, more := values[o.less], values[o.more]
		if less < more || o.equal && less == more {
			continue
		}
		want := "less than"
		if o.equal {
			want = "at most"
		}
		all = append(all, wrongField{o.less, o.more, fmt.Sprintf("want %s %s, which is %s, got %s", want, o.more, decimals(more), decimals(less)), o.why})
	}
	return all
}

// Check says everything that cannot be: a value out of its range, or two that
// make no sense together. The error, if any, is a Mistakes.
func (t *Thresholds) Check() error {
	d := emptyDocument()
	for _, w := range t.wrongFields() {
		d.wrong(w.field, w.text, w.hint)
	}
	return d.err()
}

// checkThresholds notes what cannot be. Two values that make no sense together
// are told of where one of them was written.
func (d *document) checkThresholds(path string, t *Thresholds) {
	for _, w := range t.wrongFields() {
		at := join(path, w.field)
		if w.other == "" {
			if d.sound(at) {
				d.wrong(at, w.text, w.hint)
			}
			continue
		}
		switch other := join(path, w.other); {
		case !d.sound(at, other):
		case d.says(at):
			d.wrong(at, w.text, w.hint)
		case d.says(other):
			d.wrong(other, w.field+": "+w.text, w.hint)
		}
	}
}

// ThresholdNames lists the thresholds by the names that documents have for them.
func ThresholdNames() []string { return jsonNames(reflect.TypeFor[Thresholds]()).all }

// byName gives every threshold by its name.
func (t *Thresholds) byName() map[string]float64 {
	v := reflect.ValueOf(t).Elem()
	all := map[string]float64{}
	for name, i := range jsonNames(v.Type()).index {
		if f := v.Field(i); f.CanInt() {
			all[name] = float64(f.Int())
		} else {
			all[name] = f.Float()
		}
	}
	return all
}

// set gives the threshold of that name a value.
func (t *Thresholds) set(name string, value float64) {
	v := reflect.ValueOf(t).Elem()
	i, ok := jsonNames(v.Type()).index[name]
	if !ok {
		return
	}
	if f := v.Field(i); f.CanInt() {
		f.SetInt(int64(value))
	} else {
		f.SetFloat(value)
	}
}
