package judge

import (
	"cmp"
	"math"
	"slices"

	"aicr/internal/spec"
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
	hottest            float64
}

// hardware takes what the GPUs' exporter says, in the whole episode.
func (d *digest) hardware(t *timeline, r *spec.EpisodeRecord, clean []bool) {
	by := map[string]*gpuDigest{}
	power, use := map[string][]float64{}, map[string][]float64{}
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
		}
	}
	pods := map[string]int{} // a pod with several GPUs does not say which is the worker's
	for _, g := range d.gpus {
		pods[g.pod]++
	}
	for _, g := range d.gpus {
		g.power, g.utilization = median(power[g.name]), median(use[g.name])
		for _, w := range d.workers {
			if w.gpu == g.name || w.gpu == "" && w.pod != "" && w.pod == g.pod && pods[g.pod] == 1 {
				w.gpu, g.worker, w.power = g.name, w.name, g.power
			}
		}
	}
	for i := range d.stalls {
		d.stalls[i].beside(d, r)
	}
}

// beside adds what the GPU of a stalled worker did meanwhile: power beside tokens
// tells a GPU that is starved from one that hangs.
func (s *standstill) beside(d *digest, r *spec.EpisodeRecord) {
	s.power, s.peers, s.duty = math.NaN(), math.NaN(), math.NaN()
	w := d.worker(s.worker)
	if w == nil || w.gpu == "" {
		return
	}
	s.gpu = w.gpu
	var own, others, duty []float64
	for i := range r.Series {
		of := &r.Series[i]
		if k := of.T / second; of.GPU == nil || of.GPU.PowerW == nil || k <= int64(s.from) || k >= int64(s.until) {
			continue
		}
		if of.Name != w.gpu {
			others = append(others, *of.GPU.PowerW)
			continue
		}
		own = append(own, *of.GPU.PowerW)
		if of.GPU.Utilization != nil {
			duty = append(duty, *of.GPU.Utilization)
		}
		s.throttled = s.throttled || of.GPU.Throttle != nil && harmful(*of.GPU.Throttle) != ""
	}
	s.power, s.peers, s.duty = median(own), median(others), median(duty)
}
