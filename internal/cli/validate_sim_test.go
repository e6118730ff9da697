package cli

import (
	"testing"

	"aicr/internal/spec"
)

// A longer wave leaves more of the recycled prompts in the caches.
func TestALongerWaveIsSentToASimulatedFleetToo(t *testing.T) {
	cached := func(each int) (tokens int64) {
		s, err := readScenario(nil, "small")
		if err != nil {
			t.Fatal(err)
		}
		point := spec.OperatingPoint{Workers: s.Fleet.Workers, Concurrency: s.Fleet.Workers, InputTokens: 64, OutputTokens: 4, Prompts: "100", Requests: 40, Wave: true, WavePerUser: each}
		e, err := (&virtualFleet{scenario: s.Scenario, seed: 1}).Load(t.Context(), 1, point)
		if err != nil {
			t.Fatal(err)
		}
		if e.Episode.Point.WavePerUser != each || len(e.Requests) != 40 {
			t.Errorf("%d requests of %+v", len(e.Requests), e.Episode.Point)
		}
		for _, r := range e.Requests {
			if r.Cached != nil {
				tokens += int64(*r.Cached)
			}
		}
		return tokens
	}
	if short, long := cached(1), cached(50); long <= short {
		t.Errorf("%d tokens were in the caches after a wave of 50 for each user, %d after one", long, short)
	}
}
