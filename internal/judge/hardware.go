package judge

import (
	"cmp"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// gpuDigest is what an exporter said of one GPU in an episode.
type gpuDigest struct {
	name, worker, pod  string
	node, index        string
	xids               []int // of brokenXIDs, in the order in which they came
	firstDBE, lastDBE  float64
	remap              bool
	samples            int // that tell of throttling
	harm               [len(harmfulReasons)]int
	power, utilization float64 // medians over the clean part
	clock              float64 // MHz, likewise
	hottest            float64
}

// hardware takes what the GPUs' exporter says, in the whole episode.
func (d *digest) hardware(t *timeline, r *spec.EpisodeRecord, clean []bool, th *spec.Thresholds) {
	by := map[string]*gpuDigest{}
	power, use, clock := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for i := range r.Series {
		s := &r.Series[i]
		g := s.GPU
		if s.Source != spec.SourceGPU || g == nil {
			continue
		}
		of := by[s.Name]
		if of == nil {
			of = &gpuDigest{name: s.Name, firstDBE: math.NaN(), lastDBE: math.NaN()}
			by[s.Name] = of
			d.gpus = append(d.gpus, of)
		}
		of.pod, of.node, of.index = g.Pod, cmp.Or(g.Node, of.node), cmp.Or(g.Index, of.index)
		if x := int(orZero(valueOf(g.XID))); brokenXIDs[x] != "" && !slices.Contains(of.xids, x) {
			of.xids = append(of.xids, x)
		}
		if v := valueOf(g.DoubleBit); !math.IsNaN(v) {
			if math.IsNaN(of.firstDBE) {
				of.firstDBE = v
			}
			of.lastDBE = v
		}
		of.remap = of.remap || orZero(valueOf(g.RemapFailure)) > 0
		of.hottest = max(of.hottest, orZero(valueOf(g.TemperatureC)))
		if g.Throttle != nil {
			of.samples++
			bits := harmBits(*g.Throttle)
			for reason := range of.harm {
				of.harm[reason] += int(bits >> reason & 1)
			}
		}
		if k := int(s.T / second); s.T >= 0 && k < t.seconds && clean[k] {
			if g.PowerW != nil {
				power[s.Name] = append(power[s.Name], *g.PowerW)
			}
			if g.Utilization != nil {
				use[s.Name] = append(use[s.Name], *g.Utilization)
			}
			if g.SMClockMHz != nil {
				clock[s.Name] = append(clock[s.Name], *g.SMClockMHz)
			}
		}
	}
	holders := map[string][]*workerDigest{}
	for _, w := range d.workers {
		for _, name := range w.gpus {
			holders[name] = append(holders[name], w)
		}
	}
	each := map[*workerDigest][]float64{}
	for _, g := range d.gpus {
		g.power, g.utilization, g.clock = median(power[g.name]), median(use[g.name]), median(clock[g.name])
		for _, w := range holders[g.name] {
			g.worker, each[w] = w.name, appendKnown(each[w], g.power)
		}
	}
	for w, powers := range each {
		w.power = stats.Mean(powers)
		w.odd = oddAmong(d.gpusOf(w), th)
	}
	for i := range d.stalls {
		d.stalls[i].beside(d, r, th)
	}
}

// gpusOf are a worker's GPUs, as far as there is telemetry of them.
func (d *digest) gpusOf(w *workerDigest) []*gpuDigest {
	var all []*gpuDigest
	for _, g := range d.gpus {
		if slices.Contains(w.gpus, g.name) {
			all = append(all, g)
		}
	}
	return all
}

// beside adds what the GPUs of a stalled worker did meanwhile: power beside tokens
// tells a GPU that is starved from one that hangs.
func (s *standstill) beside(d *digest, r *spec.EpisodeRecord, th *spec.Thresholds) {
	s.power, s.peers, s.duty = math.NaN(), math.NaN(), math.NaN()
	w := d.worker(s.worker)
	if w == nil || len(w.gpus) == 0 {
		return
	}
	strange := map[string]bool{} // GPUs of workers that are no peers
	for _, g := range d.gpus {
		o := d.worker(g.worker)
		strange[g.name] = o != nil && o.group != w.group
	}
	s.gpus = len(w.gpus)
	each := map[string][]float64{} // duty cycles, by GPU
	var own, others, duty []float64
	for i := range r.Series {
		of := &r.Series[i]
		if k := of.T / second; of.GPU == nil || of.GPU.PowerW == nil || k <= int64(s.from) || k >= int64(s.until) {
			continue
		}
		if !slices.Contains(w.gpus, of.Name) {
			if !strange[of.Name] {
				others = append(others, *of.GPU.PowerW)
			}
			continue
		}
		own = append(own, *of.GPU.PowerW)
		if of.GPU.Utilization != nil {
			duty = append(duty, *of.GPU.Utilization)
			each[of.Name] = append(each[of.Name], *of.GPU.Utilization)
		}
		s.throttled = s.throttled || of.GPU.Throttle != nil && harmful(*of.GPU.Throttle) != ""
	}
	s.power, s.peers, s.duty = median(own), median(others), median(duty)
	var meanwhile []*gpuDigest // a clock says nothing of who does not work
	for _, g := range d.gpusOf(w) {
		meanwhile = append(meanwhile, &gpuDigest{name: g.name, utilization: median(each[g.name]), clock: math.NaN(), samples: g.samples, harm: g.harm})
	}
	s.odd = oddAmong(meanwhile, th)
}
