package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tinyFleet is a fleet whose knee a busy machine can show: its two engines run eight
// requests each, and each takes a few tenths of a second.
const tinyFleet = `apiVersion: aicr.run/v1alpha1
kind: Scenario
metadata: {name: tiny}
fleet:
  workers: 2
  profile: small
  maxSequences: 8
  timing: {base: 8ms, host: 1ms, perSequence: 500us}
load: {concurrencyPerGPU: 4, ramp: 200ms, episode: 5s, inputTokens: 16, outputTokens: 16}
`

// searchKnee starts a search of the fleet's knee over HTTP.
func searchKnee(t *testing.T, network Network) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tiny.yaml")
	if err := os.WriteFile(file, []byte(tinyFleet), 0o644); err != nil {
		t.Fatal(err)
	}
	return startProgram(t, network, "knee", "--sim", file, "--real-time", "--first-per-gpu=1", "--max-per-gpu=32",
		"--level-duration=1s", "--reference-duration=1s", "--budget=67.2s", "--sentinel-rate=1")
}

// Over HTTP the knee is that of the model, about 20 in flight.
func TestTheKneeOfAServedFleet(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		search := searchKnee(t, network)
		code := <-search.code
		known := regexp.MustCompile(`^KNEE  about (19|20|21) in flight \(10 a GPU\); propose 8 a GPU: `)
		if code != int(Passed) || !known.MatchString(search.stdout.String()) {
			t.Errorf("exit code %d\n%s\n%s", code, &search.stdout, &search.stderr)
		}
		if !strings.Contains(search.stderr.String(), "level 1: 2 in flight: ") {
			t.Errorf("no word on how it goes:\n%s", &search.stderr)
		}
	})
}

func TestAnInterruptedSearchTellsWhatItHas(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		search := searchKnee(t, network)
		until(t, "a second level", func() bool { return strings.Contains(search.stderr.String(), "level 2: ") })
		search.signals <- os.Interrupt
		if code := <-search.code; code != int(Interrupted) {
			t.Errorf("exit code %d", code)
		}
		out, said := search.stdout.String(), search.stderr.String()
		if !strings.HasPrefix(out, "NO KNEE  interrupted before there was a knee\n") ||
			!strings.Contains(out, "in flight  a GPU") || strings.Contains(said, "error:") {
			t.Errorf("%s\n%s", out, said)
		}
	})
}
