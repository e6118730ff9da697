package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// How far the means may be from the reference's; a difference that its own noise
// explains is no difference.
const (
	within      = 0.03
	seedsOfTest = 8
	standards   = 3
	leastP      = 0.001
)

// explained are the differences that are meant; docs/simulator.md says why.
func explained() map[string]bool { return map[string]bool{"eks-1024-ramp-2s": true} }

func TestTheSimulatorIsFaithfulToTheReference(t *testing.T) {
	all, err := compareAll(t.Context(), seedsOfTest)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if off := math.Abs(c.diffX); off > within+standards*c.seX {
			t.Errorf("%s: throughput is off by %+.1f ± %.1f %%", c.name, 100*c.diffX, 100*c.seX)
		}
		if c.ksX < leastP {
			t.Errorf("%s: throughput is distributed otherwise (p %.5f)", c.name, c.ksX)
		}
		tail := math.Abs(c.diff99) > within+standards*c.se99 || c.ks99 < leastP
		if tail != explained()[c.name] {
			t.Errorf("%s: TTFT p99 is off by %+.1f ± %.1f %% (p %.5f); meant: %v", c.name, 100*c.diff99, 100*c.se99, c.ks99, explained()[c.name])
		}
	}
}

// The standard errors must not be so large that anything would pass.
func TestTheComparisonCanFail(t *testing.T) {
	ref, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	// A tenth more for each token of a prompt, and for each sequence.
	p := recorded()[0].play
	p.scenario.Fleet.Timing.PerSequence = p.scenario.Fleet.Timing.PerSequence * 11 / 10
	c, err := compare(t.Context(), recorded()[0].name, p, ref[recorded()[0].name][:seedsOfTest])
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(c.diffX) <= within+standards*c.seX {
		t.Errorf("a fleet whose sequences take a tenth longer passes: %+.1f ± %.1f %%", 100*c.diffX, 100*c.seX)
	}
}

func TestThePublishedRowsAreThere(t *testing.T) {
	var b bytes.Buffer
	if err := published(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| r1/r8 TTFT (stall 15 s) | 9.0–9.2 s | 9.2 s | 9.2 s |",
		"| t1 (freeze 29.9 s at the start) | 48.9k / 30.7 s | 44.5k / 30.8 s | 44.5k / 30.8 s |",
		"| t9 (freeze 11.3 s at the start) | 77.5k / 12.3 s | 73.5k / 12.2 s | 73.5k / 12.2 s |",
		"| k1 (kv, one prefix) | 303↔1, 13.9 s | 303↔0, 0.83 s | 303↔0, 0.83 s |",
		"| AKS defect (host × 3.5) | 46.7–54.1k, 4.5–6.0 s | 48.1k, 4.3 s | 48.1k / 4.3 s |",
	} {
		if !strings.Contains(b.String(), row) {
			t.Errorf("no row %s in\n%s", row, &b)
		}
	}
}
