package sim

import (
	"testing"
	"time"

	"aicr/internal/spec"
)

// loaded is a published fleet, small enough to be quick.
func loaded(workers int, faults ...spec.Fault) *spec.Scenario {
	s, _ := spec.NewScenario("loaded", "h100-eks")
	s.Fleet.Workers = workers
	s.Load.Ramp, s.Load.Episode = spec.Duration(500*ms), spec.Duration(6*time.Second)
	s.Faults = faults
	return s
}

// gpusOf are the GPUs' samples of one second, in the order of the workers.
func gpusOf(r *Recording, second int) []*spec.GPUSample {
	var all []*spec.GPUSample
	for _, s := range r.Series {
		if s.Source == spec.SourceGPU && s.T == int64(second)*int64(time.Second) {
			all = append(all, s.GPU)
		}
	}
	return all
}

func workersOf(r *Recording, second int) []*spec.WorkerSample {
	var all []*spec.WorkerSample
	for _, s := range r.Series {
		if s.Source == spec.SourceWorker && s.T == int64(second)*int64(time.Second) {
			all = append(all, s.Worker)
		}
	}
	return all
}

func TestAnIdleGPUDrawsSeventyWatts(t *testing.T) {
	f := virtual(bare(1), 1, false)
	f.advance(3 * time.Second)
	g := f.snapshot().GPUs[0]
	if g.Utilization != 0 || g.PowerW != 70 || g.SMClockMHz > 500 || len(g.Throttle) != 0 || g.TemperatureC < 25 || g.TemperatureC > 45 {
		t.Errorf("%+v", g)
	}
	if g.EnergyJ != 210 {
		t.Errorf("three seconds took %v J", g.EnergyJ)
	}
}

func TestALoadedGPUDrawsWhatPublishedOnesDid(t *testing.T) {
	for _, perGPU := range []int{56, 128, 256} {
		s := loaded(2)
		s.Load.ConcurrencyPerGPU = perGPU
		r := play(t, s, 1, 1, Load{})
		before := 0.0
		for second := 2; second <= 5; second++ {
			for _, g := range gpusOf(r, second) {
				if *g.PowerW < 500 || *g.PowerW > 700 || *g.Utilization < 0.6 || *g.Utilization > 1 || *g.SMClockMHz != fullClock {
					t.Errorf("%d sequences, %d s: %v W, %v busy, %v MHz", perGPU, second, *g.PowerW, *g.Utilization, *g.SMClockMHz)
				}
			}
			if at := *gpusOf(r, second)[0].TemperatureC; at <= before || at > 90 {
				t.Errorf("%d sequences, %d s: %v degrees after %v", perGPU, second, at, before)
			} else {
				before = at
			}
		}
	}
}

// One sequence of the bare fleet: 11 of its step's 13 ms are the GPU's.
func TestTheDutyCycleIsTheGPUsShareOfItsSteps(t *testing.T) {
	for name, tt := range map[string]struct {
		fleet func(*spec.Scenario)
		asks  []ask
		want  float64
	}{
		"decoding": {asks: []ask{{prompt: 1, output: 300}}, want: 11. / 13},
		"with a GPU twice as slow": {fleet: func(s *spec.Scenario) {
			s.Faults = []spec.Fault{{Kind: spec.WorkerSlow, Workers: on(0), Factor: new(2.0)}}
		}, asks: []ask{{prompt: 1, output: 300}}, want: 11. / 13},
		"idle for half of the second":    {asks: []ask{{at: 500*ms - 300*us, prompt: 1, output: 1}, {at: 500*ms - 200*us, prompt: 1, output: 300}}, want: 0.5 * 11 / 13},
		"prompts of one token of output": {fleet: func(s *spec.Scenario) { s.Fleet.MaxSequences = 1 }, asks: oneByOne(200), want: 10.11 / 12.11},
		"a prompt in parts, nobody else": {fleet: func(s *spec.Scenario) { s.Fleet.MaxBatchedTokens, s.Fleet.KVBlocks = 100, 2048 }, asks: []ask{{prompt: 20_000, output: 1}}, want: 11. / 13},
	} {
		t.Run(name, func(t *testing.T) {
			s := bare(1)
			if tt.fleet != nil {
				tt.fleet(s)
			}
			f := virtual(s, 1, false)
			c := newTap()
			for _, a := range tt.asks {
				f.submit(a.at, &Stream{Prompt: a.prompt, Output: a.output}, c)
			}
			f.advance(time.Second)
			if got := f.snapshot().GPUs[0].Utilization; got < tt.want-0.006 || got > tt.want+0.006 {
				t.Errorf("busy for %.4f of the second, want %.4f", got, tt.want)
			}
		})
	}
}

func oneByOne(n int) []ask {
	var all []ask
	for range n {
		all = append(all, ask{prompt: 1, output: 1})
	}
	return all
}

func TestAStalledGPUIsIdleAmongBusyPeers(t *testing.T) {
	r := play(t, loaded(3, during(stall(40, 1), 1500*ms, 4*time.Second)), 1, 1, Load{})
	for second := 3; second <= 5; second++ {
		g, w := gpusOf(r, second), workersOf(r, second)
		if *g[1].Utilization > 0.1 || *g[1].PowerW > 0.4*min(*g[0].PowerW, *g[2].PowerW) {
			t.Errorf("%d s: %v busy, %v W beside %v W and %v W", second, *g[1].Utilization, *g[1].PowerW, *g[0].PowerW, *g[2].PowerW)
		}
		if len(*g[1].Throttle) != 0 || *g[1].SMClockMHz != fullClock {
			t.Errorf("%d s: throttled by %v at %v MHz", second, *g[1].Throttle, *g[1].SMClockMHz)
		}
		if *w[1].Running == 0 {
			t.Errorf("%d s: nothing runs on the stalled worker", second)
		}
	}
}

func TestAWedgedGPUIsBusyAndDrawsLittle(t *testing.T) {
	for running, zero := range map[string]bool{"real": false, "zero": true} {
		r := play(t, loaded(3, during(wedge(running, 1), 1500*ms, 4*time.Second)), 1, 1, Load{})
		for second := 3; second <= 5; second++ {
			g, w := gpusOf(r, second), workersOf(r, second)
			if *g[1].Utilization != 1 || *g[1].PowerW > 0.4*min(*g[0].PowerW, *g[2].PowerW) || *g[1].PowerW < 70 {
				t.Errorf("%d s: %v busy, %v W beside %v W", second, *g[1].Utilization, *g[1].PowerW, *g[0].PowerW)
			}
			if (*w[1].Running == 0) != zero || *w[0].Running == 0 {
				t.Errorf("running %s, %d s: the gauge reads %v, that of a peer %v", running, second, *w[1].Running, *w[0].Running)
			}
			if before := workersOf(r, 2)[1]; *w[1].Generated != *before.Generated {
				t.Errorf("%d s: the wedged worker generates", second)
			}
		}
	}
}

func TestTheHungKernelStaysWhenItsClientsLeave(t *testing.T) {
	s := bare(1)
	s.Faults = []spec.Fault{during(wedge("real", 0), 100*ms, time.Hour)}
	f := virtual(s, 1, false)
	a := &Stream{Prompt: 1, Output: 100}
	f.submit(0, a, newTap())
	f.advance(500 * ms)
	f.abandon(a)
	f.advance(2 * time.Second)
	if g := f.snapshot(); g.GPUs[0].Utilization != 1 || g.Workers[0].Held != 1 {
		t.Errorf("%+v of %+v", g.GPUs[0], g.Workers[0])
	}
}

func TestTheReasonSaysHowFarAGPUThrottles(t *testing.T) {
	for reason, clock := range map[string]float64{
		"hw_thermal": fullClock * hardThrottle, "hw_slowdown": fullClock * hardThrottle, "hw_power_brake": fullClock * hardThrottle,
		"sw_thermal": fullClock * softThrottle, "power_cap": fullClock * softThrottle,
	} {
		throttle := spec.Fault{Kind: spec.GPUThrottle, Workers: on(1), Reason: reason, Share: new(1.0)}
		s := bare(2)
		s.Faults = []spec.Fault{throttle}
		s.Load.Episode = spec.Duration(30 * time.Second)
		r := play(t, s, 1, 1, Load{})
		plain, hot := gpusOf(r, 29)[0], gpusOf(r, 29)[1]
		if *hot.SMClockMHz != clock || len(*hot.Throttle) != 1 || (*hot.Throttle)[0] != reason {
			t.Errorf("%s: %v MHz, %v", reason, *hot.SMClockMHz, *hot.Throttle)
		}
		if *plain.SMClockMHz != fullClock || len(*plain.Throttle) != 0 {
			t.Errorf("%s: the other GPU runs at %v MHz, throttled by %v", reason, *plain.SMClockMHz, *plain.Throttle)
		}
		if thermal := reason == "hw_thermal" || reason == "sw_thermal"; (*hot.TemperatureC > *plain.TemperatureC+5) != thermal {
			t.Errorf("%s: %v degrees beside %v", reason, *hot.TemperatureC, *plain.TemperatureC)
		}
	}
}

func TestAFullGPUReachesItsPowerCap(t *testing.T) {
	s := loaded(1)
	s.Fleet.Timing.Host = 0
	s.Load.ConcurrencyPerGPU = 300
	g := gpusOf(play(t, s, 1, 1, Load{}), 5)[0]
	if *g.PowerW < capPower || len(*g.Throttle) != 1 || (*g.Throttle)[0] != "power_cap" {
		t.Errorf("%v W, throttled by %v", *g.PowerW, *g.Throttle)
	}
}

// A GPU breaks in the first episode, which sees it happen; later ones find it
// broken, and no more so than before.
func TestABrokenGPUIsSeenToBreakOnce(t *testing.T) {
	s := bare(2)
	s.Faults = []spec.Fault{{Kind: spec.GPUError, Workers: on(1), XID: new(48), DoubleBit: new(2), RemapFailure: new(true)}}
	for name, load := range map[string]Load{"plain": {}, "after a wave": {Wave: true}} {
		if load.Wave {
			// A wave that takes longer than a GPU needs to break.
			s.Load.OutputTokens = 200
		}
		for episode := 1; episode <= 3; episode++ {
			r := play(t, s, 1, episode, load)
			gpus := map[string][]*spec.GPUSample{}
			for _, sample := range series(r, spec.SourceGPU, "") {
				gpus[sample.Name] = append(gpus[sample.Name], sample.GPU)
			}
			seen := gpus[gpuUUID(1, 1)]
			if first := *seen[0].DoubleBit; (first == 0) != (episode == 1) {
				t.Errorf("%s, episode %d begins with %v errors", name, episode, first)
			}
			last := seen[len(seen)-1]
			if *last.DoubleBit != 2 || *last.XID != 48 || *last.RemapFailure != 1 {
				t.Errorf("%s, episode %d ends with XID %v, %v errors, remap %v", name, episode, *last.XID, *last.DoubleBit, *last.RemapFailure)
			}
			for _, g := range gpus[gpuUUID(1, 0)] {
				if *g.DoubleBit != 0 || *g.XID != 0 || *g.RemapFailure != 0 {
					t.Fatalf("%s, episode %d: the other GPU has it too", name, episode)
				}
			}
		}
	}
}

// What broke in an episode is broken in those that follow.
func TestAGPUBreaksInTheFirstOfItsEpisodes(t *testing.T) {
	s := bare(1)
	s.Faults = []spec.Fault{{Kind: spec.GPUError, Workers: on(0), DoubleBit: new(1), Episodes: []int{3, 2}}}
	for episode, want := range [][2]float64{1: {0, 0}, 2: {0, 1}, 3: {1, 1}, 4: {1, 1}} {
		if episode == 0 {
			continue
		}
		gpu := series(play(t, s, 1, episode, Load{}), spec.SourceGPU, "")
		if got := [2]float64{*gpu[0].GPU.DoubleBit, *gpu[len(gpu)-1].GPU.DoubleBit}; got != want {
			t.Errorf("episode %d begins and ends with %v errors, want %v", episode, got, want)
		}
	}
}

// An error with a window comes again in each of its episodes, and none is forgotten.
func TestAGPUsErrorsAddUp(t *testing.T) {
	s := bare(1)
	s.Faults = []spec.Fault{{Kind: spec.GPUError, Workers: on(0), DoubleBit: new(2), At: new(spec.Duration(2500 * time.Millisecond)), Lasts: new(spec.Duration(time.Second))}}
	for episode := 1; episode <= 3; episode++ {
		gpu := series(play(t, s, 1, episode, Load{}), spec.SourceGPU, "")
		if first, last := *gpu[0].GPU.DoubleBit, *gpu[len(gpu)-1].GPU.DoubleBit; first != float64(2*episode-2) || last != float64(2*episode) {
			t.Errorf("episode %d begins with %v errors and ends with %v", episode, first, last)
		}
	}
}

// A worker that comes back is a new process.
func TestAWorkerThatComesBackCountsAnew(t *testing.T) {
	s := bare(2)
	s.Load.Episode = spec.Duration(10 * time.Second)
	s.Faults = []spec.Fault{{Kind: spec.WorkerMissing, Workers: on(1), At: new(spec.Duration(3500 * time.Millisecond)), Lasts: new(spec.Duration(2 * time.Second))}}
	var counted []float64
	for _, sample := range series(play(t, s, 1, 1, Load{}), spec.SourceWorker, "1") {
		if sample.Worker == nil {
			counted = append(counted, -1)
			continue
		}
		counted = append(counted, *sample.Worker.Generated)
	}
	if counted[3] != -1 || counted[4] != -1 || counted[5] < 0 || counted[5] >= counted[2] {
		t.Errorf("tokens by the second: %v", counted)
	}
}

func TestANodeIsNotUnderPressure(t *testing.T) {
	for _, s := range series(play(t, loaded(1), 1, 1, Load{}), spec.SourceNode, NodeName) {
		if n := s.Node; *n.CPUPressure > 0.01 || *n.MemoryPressure != 0 || *n.IOPressure != 0 {
			t.Errorf("at %v: %v, %v, %v", time.Duration(s.T), *n.CPUPressure, *n.MemoryPressure, *n.IOPressure)
		}
	}
}

// Names are the deployment's: all episodes have the same, another seed has
// others; a worker's is odd and too long for a float.
func TestNamesAreTheDeployments(t *testing.T) {
	all := map[any]bool{}
	for seed := range uint64(3) {
		for worker := range 4 {
			id, uuid := workerID(seed, worker), gpuUUID(seed, worker)
			all[id], all[uuid] = true, true
			if id%2 == 0 || id < 1<<53 || len(uuid) != len("GPU-00000000-0000-4000-8000-000000000000") {
				t.Errorf("%d, %s", id, uuid)
			}
			if uint64(float64(id)) == id {
				t.Errorf("%d survives being a float", id)
			}
			f := newFleet(bare(4), settings{seed: seed, episode: worker + 1})
			if s := f.snapshot(); s.Workers[worker].ID != id || s.GPUs[worker].UUID != uuid {
				t.Errorf("worker %d of another episode is another one", worker)
			}
		}
	}
	for seed := range uint64(5000) {
		if id := workerID(seed, 0); id < 1<<53 {
			t.Errorf("seed %d has a worker %d", seed, id)
		}
	}
	if len(all) != 24 {
		t.Errorf("%d names of 12 workers and their GPUs", len(all))
	}
}
