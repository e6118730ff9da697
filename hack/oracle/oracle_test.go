package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/judge"
	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

const publishedGolden = "testdata/published.golden.md"

func TestThePublishedRunsAreJudgedByTheirFigures(t *testing.T) {
	var b bytes.Buffer
	if err := published(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(publishedGolden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(publishedGolden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the table is another one (-want +got; write it anew with -update):\n%s", diff)
	}
}

func TestOneRunThatWasPublishedDecidesNothing(t *testing.T) {
	all, err := publishedRuns()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 48 {
		t.Errorf("%d runs", len(all))
	}
	for i := range all {
		r := &all[i]
		want := spec.Inconclusive
		switch r.was {
		case "discovery panic, version skew":
			want = spec.Fail
		case "starved client", "DRA plugin stale", "no tokens served":
			want = spec.Invalid
		}
		if v := r.judged(); v.Verdict != want {
			t.Errorf("%s (%s): %s, wanted %s: %s", r.name, r.was, v.Verdict, want, v.Reason)
		}
	}
}

// However often good figures are told, and however little is asked: nobody has seen
// the workers, nor the client.
func TestNothingPassesByFiguresAlone(t *testing.T) {
	r := publishedRun{gpus: 1, concurrency: 256}
	for _, profile := range []string{spec.ProfileSmoke, spec.ProfileQuick, spec.ProfileStandard, spec.ProfileCertify} {
		for _, stability := range []string{spec.StabilityGate, spec.StabilityReport} {
			for _, reference := range []*spec.ReferenceFigure{nil, {Throughput: 20000}} {
				p := r.plan()
				p.Profile, p.Stability, p.Reference = profile, stability, reference
				p.Thresholds, _ = spec.DefaultThresholds(profile)
				c := judge.NewCase(p)
				for n := range p.Thresholds.MaxEpisodes + 1 {
					c.AddFigures(judge.Figures{Throughput: 20000 + float64(n), TTFT99: 100, InFlight: 256})
					if v, _ := c.Verdict(); v.Verdict != spec.Inconclusive {
						t.Errorf("%s, %s, after %d: %s: %s", profile, stability, n+1, v.Verdict, v.Reason)
					}
				}
			}
		}
	}
}

func TestTheOldGatesSayNothingOfWhatWasNotTold(t *testing.T) {
	all, err := publishedRuns()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][3]string{}
	for i := range all {
		r := &all[i]
		got[r.name] = [3]string{r.gate(50000, 1000), r.gate(45000, 1100), r.gate(45000, 2200)}
	}
	for name, want := range map[string][3]string{
		"r2":      {"FAIL", "?", "?"}, // only its TTFT was told
		"r3":      {"FAIL", "FAIL", "PASS"},
		"t3":      {"FAIL", "PASS", "PASS"},
		"t1":      {"FAIL", "FAIL", "FAIL"},
		"t7":      {"FAIL", "FAIL", "FAIL"}, // never served
		"641-eks": {"–", "–", "–"},
		"stall1":  {"PASS", "PASS", "PASS"},
	} {
		if got[name] != want {
			t.Errorf("%s: %v, wanted %v", name, got[name], want)
		}
	}
}

func TestTheSpecificationIsWhatIsPlayed(t *testing.T) {
	for _, name := range names() {
		e, ok := scenarios.Find(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		s, err := spec.DecodeScenario(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		if s.Expect == nil {
			t.Errorf("%s expects nothing", name)
		}
	}
	if n := len(names()); n != 19 {
		t.Errorf("%d scenarios", n)
	}
}

// runs of a scenario of which so many had the right verdict, the right cause, and
// were passed.
func runs(expect spec.Expectation, n, right, met, passed int) scenario {
	s := scenario{name: "x", spec: &spec.Scenario{Expect: &expect, Fleet: spec.Fleet{Workers: 8}}}
	for i := range n {
		l := line{Verdict: spec.Inconclusive, Met: new(bool)}
		switch {
		case i < right:
			l.Verdict = expect.Verdict[0]
		case i < right+passed:
			l.Verdict = spec.Pass
		}
		*l.Met = i < met
		s.standard = append(s.standard, l)
	}
	s.classic = s.standard
	return s
}

func TestTheBar(t *testing.T) {
	fails := spec.Expectation{Verdict: []spec.State{spec.Fail}, Finding: "worker/stall"}
	passes := spec.Expectation{Verdict: []spec.State{spec.Pass}}
	for _, c := range []struct {
		name   string
		all    []scenario
		missed string
	}{
		{"all right", []scenario{runs(fails, 100, 100, 100, 0)}, ""},
		{"just enough", []scenario{runs(fails, 100, 95, 90, 2)}, ""},
		{"too few right verdicts", []scenario{runs(fails, 100, 94, 94, 0)}, "right verdicts: 94 of 100"},
		{"too few right causes", []scenario{runs(fails, 100, 100, 89, 0)}, "right causes: 89 of 100"},
		{"too many wrong passes", []scenario{runs(fails, 100, 97, 97, 3)}, "where that is wrong: 3 of 100"},
		{"a cause is asked only where one is wanted", []scenario{runs(fails, 100, 100, 90, 0), runs(passes, 100, 100, 100, 0)}, ""},
		{"a PASS is wrong only where it is", []scenario{runs(fails, 100, 100, 100, 0), runs(passes, 10, 10, 10, 0)}, ""},
		{"nothing was played", nil, "right verdicts: 0 of 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if met := write(&b, c.all, 100); met != (c.missed == "") {
				t.Errorf("met %v", met)
			}
			if !strings.Contains(b.String(), c.missed) || c.missed == "" && strings.Contains(b.String(), "MISSED") {
				t.Errorf("wanted %q in\n%s", c.missed, &b)
			}
		})
	}
}

func TestWhatARunCosts(t *testing.T) {
	s := scenario{spec: &spec.Scenario{Fleet: spec.Fleet{Workers: 8}, Load: spec.Load{Episode: spec.Duration(50e9)}}}
	for _, c := range []struct {
		name string
		line line
		want float64
	}{
		{"nothing was deployed", line{Verdict: spec.Skip}, 0},
		{"never served", line{Verdict: spec.Fail}, 48},
		{"five episodes", line{Verdict: spec.Pass, Requests: 1, Episodes: 5, LoadedS: 250}, 8 * (6 + (25+275)/60.0)},
		{"a cold start", line{Verdict: spec.Pass, Requests: 1, Episodes: 5, LoadedS: 250, FirstS: 42}, 8 * (6 + (25+275+42)/60.0)},
		{"no episode counted, of three", line{Verdict: spec.Invalid, Requests: 1}, 8 * (6 + (25+3*55)/60.0)},
	} {
		if got := s.gpuMinutes(c.line); fmt.Sprintf("%.6f", got) != fmt.Sprintf("%.6f", c.want) {
			t.Errorf("%s: %v, wanted %v", c.name, got, c.want)
		}
	}
}

// One scenario with two seeds goes all the way through the program.
func TestAScenarioIsPlayedByBothGates(t *testing.T) {
	all, err := playBoth(t.Context(), io.Discard, []string{"s11"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := all[0].tally(); got.verdict != 2 || got.cause != 2 || got.classic[spec.Fail] != 2 {
		t.Errorf("%+v", got)
	}
	if _, err := playBoth(t.Context(), io.Discard, []string{"s99"}, 1); err == nil {
		t.Error("s99 is played")
	}
}

// What docs/verdict.md shows is what the tests keep.
func TestTheDocumentShowsTheTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/verdict.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{publishedGolden, "../../internal/judge/testdata/characteristic.md", "../../internal/judge/testdata/characteristic_fleets.md", "../../internal/judge/testdata/classic.md"} {
		table, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(page, bytes.TrimSpace(table)) {
			t.Errorf("docs/verdict.md does not have %s as it is", path)
		}
	}
}
