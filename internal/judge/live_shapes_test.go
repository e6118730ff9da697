package judge

import (
	"slices"
	"testing"
	"time"

	"aicr/internal/sim"
	"aicr/internal/spec"
)

// Who watches holds a worker against workers that do the same, on as many GPUs.
func TestAWatcherHoldsAWorkerAgainstItsLike(t *testing.T) {
	tensor := func(f *spec.Fleet) { f.Workers, f.GPUsPerWorker = 4, 4 }
	split := func(f *spec.Fleet) { f.Workers, f.PrefillWorkers = 6, 2 }
	on := func(kind spec.FaultKind, w int, factor float64) []spec.Fault {
		return []spec.Fault{{Kind: kind, Workers: &spec.Workers{List: []int{w}}, Factor: &factor, At: new(spec.Duration(12 * time.Second)), Lasts: new(spec.Duration(time.Minute))}}
	}
	for name, c := range map[string]struct {
		shape  func(*spec.Fleet)
		faults []spec.Fault
		want   string // the finding that fails, and its worker; "": none
		gpus   int
	}{
		"four GPUs a worker":                 {shape: tensor},
		"prefill and decode":                 {shape: split},
		"one of each":                        {shape: func(f *spec.Fleet) { f.Workers, f.PrefillWorkers = 2, 1 }},
		"a worker of four GPUs stands still": {tensor, on(spec.WorkerStall, 3, 400), "worker/stall 3", 4},
		"a worker of four GPUs is slow":      {tensor, on(spec.WorkerSlow, 1, 2.5), "worker/slow 1", 4},
		"a prefill worker stands still":      {split, on(spec.WorkerStall, 0, 400), "worker/stall 0", 1},
		"a decode worker stands still":       {split, on(spec.WorkerStall, 3, 400), "worker/stall 3", 1},
		"a decode worker is slow":            {split, on(spec.WorkerSlow, 5, 2.5), "worker/slow 5", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := spec.NewScenario("shape", "h100-eks")
			c.shape(&s.Fleet)
			s.Load.ConcurrencyPerGPU, s.Load.Episode, s.Faults = 48, spec.Duration(40*time.Second), c.faults
			r, err := sim.Play(t.Context(), s, 1, 1, sim.Load{Grace: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			gpus := 0
			for _, m := range watched(r.Series) {
				for _, y := range m.picture.Symptoms {
					if y.Severity == Fail && m.s < 40 {
						for _, w := range append(y.Workers, "")[:max(1, len(y.Workers))] {
							if one := y.Finding + " " + w; !slices.Contains(got, one) {
								got = append(got, one)
							}
						}
						gpus = max(gpus, len(y.GPUs))
					}
				}
			}
			if c.want == "" && len(got) > 0 || c.want != "" && (!slices.Equal(got, []string{c.want}) || gpus != c.gpus) {
				t.Errorf("%q of %d GPUs, want %q of %d", got, gpus, c.want, c.gpus)
			}
		})
	}
}
