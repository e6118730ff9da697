package checks

import "time"

// KneeCost is what a search takes. Where the knee is decides how many levels there
// are, so that what is expected is a guess and what is worst is the budget.
type KneeCost struct {
	Rising             []int   `json:"rising"` // in flight a GPU, until the knee is passed
	ExpectedLevels     int     `json:"expected_levels"`
	ReferenceEpisodes  int     `json:"reference_episodes"`
	KeptS              float64 `json:"kept_s"` // of the budget, for the reference and a look at half of it
	ExpectedS          float64 `json:"expected_s"`
	WorstS             float64 `json:"worst_s"`
	ExpectedGPUMinutes float64 `json:"expected_gpu_minutes"`
	WorstGPUMinutes    float64 `json:"worst_gpu_minutes"`
}

// Cost is what the plan takes once the target can be loaded.
func (p *KneePlan) Cost() KneeCost {
	c := KneeCost{ExpectedLevels: enoughKneeLevels, ReferenceEpisodes: referenceEpisodes}
	for n := p.First; n < p.Most; n *= 2 {
		c.Rising = append(c.Rising, n)
	}
	c.Rising = append(c.Rising, p.Most)
	ramp := seconds(p.Point.RampS)
	kept := referenceLoads * episodeTakes(0, seconds(p.ReferenceS))
	worst := p.Budget + time.Duration(p.Thresholds.MaxRetries)*episodeTakes(0, seconds(p.ReferenceS))
	expected := min(p.Budget, enoughKneeLevels*episodeTakes(ramp, seconds(p.LevelS))+kept)
	c.KeptS = kept.Seconds()
	c.ExpectedS, c.WorstS = expected.Seconds(), worst.Seconds()
	gpus := float64(max(1, p.Point.Workers))
	c.ExpectedGPUMinutes, c.WorstGPUMinutes = expected.Minutes()*gpus, worst.Minutes()*gpus
	return c
}

// KneeAtLeast is the least budget with which a search can end in a knee and a reference:
// as many levels as it asks for before it calls a knee known, and what is kept.
func KneeAtLeast(ramp, level, reference time.Duration) time.Duration {
	return fewestKneeLevels*episodeTakes(ramp, level) + referenceLoads*episodeTakes(0, reference)
}

func episodeTakes(ramp, steady time.Duration) time.Duration {
	return ramp + steady + betweenEpisodes
}
