package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicr/internal/spec"
)

// DCGM is a DCGM exporter, which tells of the GPUs of a node: of these alone, where they
// are given, by their UUIDs if the page knows any of them, or by the pods that have them if
// it knows all of those. GPUs of others are not ours to judge.
func DCGM(c *Client, url string, only ...string) Source {
	return c.at(spec.SourceGPU, url, "", Labels{}, &dcgmPage{clock: time.Now, only: only})
}

// dcgmPage reads the page of a DCGM exporter.
type dcgmPage struct {
	parser
	clock func() time.Time
	only  []string // UUIDs, or pods; none: all

	last   time.Time // when the page before was read
	counts bool      // the exporter is known to count clock events
	before map[violation]float64
}

// violation is a counter of the time that a GPU was held back for.
type violation struct{ gpu, name string }

// away is how long an exporter may be gone and still be taken for the same one. One
// that was started anew may have other fields.
const away = 10 * time.Second

var dcgmNames = namesOf(gpuUtilization, gpuPower, gpuSMClock, gpuTemperature, gpuXID, gpuDoubleBit, gpuRemapFailure, gpuMemoryUsed,
	gpuClockEvents, gpuClockBits, gpuPowerTime, gpuThermalTime)

const errNoGPUs = reason("no GPU's metrics on the page: nothing that is wanted begins with DCGM_")

func (d *dcgmPage) read(ctx context.Context, text []byte) ([]spec.Sample, error) {
	p, err := d.parse(ctx, text, dcgmNames)
	if err != nil {
		return nil, err
	}
	gpus := gpusOf(p)
	if len(gpus) == 0 {
		return nil, errNoGPUs
	}
	if err := withinLimits(gpus); err != nil {
		return nil, err
	}
	if ours := ofThese(gpus, d.only); len(ours) > 0 {
		gpus = ours
	} else if ours := ofPods(gpus, d.only); len(ours) > 0 {
		gpus, d.only = ours, nil
		for _, g := range ours { // a pod that ends has no line any more, and its GPU is ours still
			d.only = append(d.only, g.name)
		}
	}
	now := d.clock()
	if now.Sub(d.last) > away {
		d.counts, d.before = false, nil
	}
	d.last = now
	// An exporter that counts clock events has no line for one that did not happen.
	d.counts = d.counts || slices.ContainsFunc(p[gpuClockEvents.names[0]], func(s series) bool { return s.labels["clock_event"] != "" })
	before := d.before
	d.before = map[violation]float64{}
	samples := make([]spec.Sample, 0, len(gpus))
	for _, g := range gpus {
		s := g.sample()
		d.throttle(&s, g, before)
		samples = append(samples, s)
	}
	return samples, nil
}

// withinLimits says whether a page tells of no more GPUs than a node has, and of each no
// more than there is to tell.
func withinLimits(gpus []*gpu) error {
	if err := LimitGPUs.within(len(gpus)); err != nil {
		return err
	}
	for _, g := range gpus {
		events, _ := g.clockEvents()
		if err := cmp.Or(LimitPods.within(len(g.pods)), LimitEvents.within(len(events))); err != nil {
			return err
		}
	}
	return nil
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// ofThese are the GPUs of these names, and the instances of these UUIDs.
func ofThese(gpus []*gpu, names []string) (some []*gpu) {
	ours := setOf(names)
	for _, g := range gpus {
		if uuid, _, _ := strings.Cut(g.name, "/"); ours[uuid] || ours[g.name] {
			some = append(some, g)
		}
	}
	return some
}

// ofPods are the GPUs that these pods have, where the page says it of each of them.
func ofPods(gpus []*gpu, pods []string) (some []*gpu) {
	ours, known := setOf(pods), map[string]bool{}
	for _, g := range gpus {
		has := false
		for pod := range g.pods {
			if ours[pod] {
				has, known[pod] = true, true
			}
		}
		if has {
			some = append(some, g)
		}
	}
	for _, pod := range pods {
		if !known[pod] {
			return nil
		}
	}
	return some
}

// gpu is what a page says of one GPU, or of one instance of a divided one.
type gpu struct {
	name, index, model, node string
	pods                     map[string]bool
	values                   map[string][]series
}

// gpusOf sorts a page by GPU. A GPU that several containers share has its lines
// once for each of them, and they say the same.
func gpusOf(p page) []*gpu {
	found := map[string]*gpu{}
	for metric, all := range p {
		for _, s := range all {
			node, index := s.firstLabel("Hostname", "hostname"), s.labels["gpu"]
			name := s.firstLabel("UUID", "uuid")
			if name == "" && index != "" {
				name = strings.TrimPrefix(node+"/"+index, "/")
			}
			if name == "" {
				continue // of a switch or a link
			}
			if instance := s.labels["GPU_I_ID"]; instance != "" {
				name += "/" + instance
			}
			g := found[name]
			if g == nil {
				g = &gpu{name: name, pods: map[string]bool{}, values: map[string][]series{}}
				found[name] = g
			}
			g.index, g.node = cmp.Or(g.index, index), cmp.Or(g.node, node)
			g.model = cmp.Or(g.model, s.labels["modelName"])
			// Where a collector has put its own labels in, pod is the exporter's.
			if pod := s.firstLabel("exported_pod", "pod"); pod != "" {
				g.pods[pod] = true
			}
			g.values[metric] = append(g.values[metric], s)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *gpu) int {
		i, _ := strconv.Atoi(a.index)
		j, _ := strconv.Atoi(b.index)
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(i, j), cmp.Compare(a.name, b.name))
	})
}

// first is the first of a value's names that the GPU has a number of.
func (g *gpu) first(v value) (number *float64, name string) {
	for _, name := range v.names {
		finite := slices.DeleteFunc(slices.Clone(g.values[name]), func(s series) bool { return math.IsNaN(s.value) || math.IsInf(s.value, 0) })
		if found := greatest(finite); found != nil {
			return found, name
		}
	}
	return nil, ""
}

func (g *gpu) sample() spec.Sample {
	u := &spec.GPUSample{Index: g.index, Model: g.model, Node: g.node, Pod: strings.Join(slices.Sorted(maps.Keys(g.pods)), ",")}
	s := spec.Sample{Source: spec.SourceGPU, Name: g.name, GPU: u}
	for _, f := range []struct {
		value value
		into  **float64
	}{
		{gpuUtilization, &u.Utilization},
		{gpuPower, &u.PowerW},
		{gpuSMClock, &u.SMClockMHz},
		{gpuTemperature, &u.TemperatureC},
		{gpuXID, &u.XID},
		{gpuDoubleBit, &u.DoubleBit},
		{gpuRemapFailure, &u.RemapFailure},
		{gpuMemoryUsed, &u.MemoryUsed},
	} {
		var name string
		*f.into, name = g.first(f.value)
		switch name {
		case "":
			notMeasured(&s, f.value.field, f.value.absent("the DCGM exporter"))
		case "DCGM_FI_DEV_GPU_UTIL":
			*f.into = scaled(*f.into, 1e-2)
		case "DCGM_FI_PROF_GR_ENGINE_ACTIVE":
			derived(&s, f.value.field, name+", the share of the time in which an engine was busy")
		case "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL":
			derived(&s, f.value.field, name+", which counts over the GPU's life")
		}
	}
	return s
}

// throttle says why the GPU's clocks are low, from the best that the exporter has:
// the bits of now, the events that it counts over minutes, or the growth of the time for which
// the GPU was held back.
func (d *dcgmPage) throttle(s *spec.Sample, g *gpu, before map[violation]float64) {
	field := gpuClockEvents.field
	events, counted := g.clockEvents()
	bits, bitsName := g.first(gpuClockBits)
	power, powerIs := d.growth(g, gpuPowerTime, before)
	thermal, thermalIs := d.growth(g, gpuThermalTime, before)
	switch {
	case bits != nil && *bits >= 0 && *bits < 1<<53:
		s.GPU.Throttle = reasonsOf(uint64(*bits))
	case bits != nil:
		notMeasured(s, field, fmt.Sprintf("%s is %g, which is no set of bits", bitsName, *bits))
	case counted != "":
		s.GPU.Throttle = &events
		derived(s, field, counted)
	case d.counts && !g.unread():
		s.GPU.Throttle = &[]string{}
		derived(s, field, "the DCGM exporter counts clock events, and has none of this GPU")
	case powerIs == absentCounter && thermalIs == absentCounter && g.unread():
		notMeasured(s, field, "the DCGM exporter has not read this GPU's clock events")
	case powerIs == absentCounter && thermalIs == absentCounter:
		notMeasured(s, field, "the DCGM exporter has no throttle field")
	default:
		reasons := []string{}
		if power > 0 {
			reasons = append(reasons, "power_cap")
		}
		if thermal > 0 {
			reasons = append(reasons, "thermal") // the driver's or the board's, it does not say
		}
		// That one of two did not grow says nothing of the other.
		if why := cmp.Or(powerIs, thermalIs); len(reasons) == 0 && why != "" {
			notMeasured(s, field, why)
			return
		}
		s.GPU.Throttle = &reasons
		derived(s, field, "the growth of "+gpuPowerTime.names[0]+" and "+gpuThermalTime.names[0])
	}
}

// clockEvents lists the events that the exporter counted, and says over what time.
func (g *gpu) clockEvents() (events []string, counted string) {
	happened := map[string]bool{}
	for _, s := range g.values[gpuClockEvents.names[0]] {
		event := s.labels["clock_event"]
		if event == "" {
			continue
		}
		counted = "clock events, counted by the exporter"
		if ms, err := strconv.ParseUint(s.labels["window_size_in_ms"], 10, 32); err == nil {
			counted += " over " + (time.Duration(ms) * time.Millisecond).String()
		}
		if s.value > 0 {
			happened[event] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(happened))...), counted
}

// unread reports that the exporter has a line without an event: it writes a zero
// so where it got no reading at all of the GPU.
func (g *gpu) unread() bool { return len(g.values[gpuClockEvents.names[0]]) > 0 }

const absentCounter = "the DCGM exporter has only one of DCGM_FI_DEV_POWER_VIOLATION and DCGM_FI_DEV_THERMAL_VIOLATION"

// growth is how much a counter grew since the page before, or why that is not
// known.
func (d *dcgmPage) growth(g *gpu, v value, before map[violation]float64) (grew float64, why string) {
	now, name := g.first(v)
	if now == nil {
		return 0, absentCounter
	}
	key := violation{g.name, name}
	d.before[key] = *now
	was, known := before[key]
	switch {
	case !known:
		return 0, firstPage
	case *now < was:
		return 0, begunAnew
	}
	return *now - was, ""
}
