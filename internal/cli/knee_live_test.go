package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
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

func liveKnee(t *testing.T) (env Env, stdout, stderr *keptWriter) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tiny.yaml")
	if err := os.WriteFile(file, []byte(tinyFleet), 0o644); err != nil {
		t.Fatal(err)
	}
	env = testEnv(nil, "knee", "--sim", file, "--real-time", "--first-per-gpu=1", "--max-per-gpu=32", "--level-duration=1s", "--reference-duration=1s",
		"--budget=46.2s", "--sentinel-rate=1")
	stdout, stderr = &keptWriter{}, &keptWriter{}
	env.Stdout, env.Stderr = stdout, stderr
	return env, stdout, stderr
}

// Over real HTTP the knee is that of the model, about 20 in flight, or the client's
// audit says why there is no answer. It is never wrong.
func TestTheKneeOfAServedFleet(t *testing.T) {
	t.Parallel()
	env, stdout, stderr := liveKnee(t)
	code := Run(t.Context(), env)
	known := regexp.MustCompile(`^KNEE  about (1[6-9]|2[0-4]) in flight \(\d+ a GPU\); propose [4-9] a GPU: `).MatchString(stdout.String())
	unknown := regexp.MustCompile(`(?s)^(NO )?KNEE  .*the client was the limit`).MatchString(stdout.String())
	if !(code == int(Passed) && known) && !(code == int(Unmeasured) && unknown) {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	if !strings.Contains(stderr.String(), "level 1: 2 in flight: ") {
		t.Errorf("nobody was told how it goes:\n%s", stderr)
	}
}

func TestAnInterruptedSearchTellsWhatItHas(t *testing.T) {
	t.Parallel()
	env, stdout, stderr := liveKnee(t)
	signals := make(chan os.Signal, 1)
	env.Signals = signals
	go func() {
		for !strings.Contains(stderr.String(), "level 2: ") && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		signals <- os.Interrupt
	}()
	if code := Run(t.Context(), env); code != int(Interrupted) {
		t.Errorf("exit code %d", code)
	}
	if out := stdout.String(); !strings.HasPrefix(out, "NO KNEE  interrupted before there was a knee\n") || !strings.Contains(out, "in flight  a GPU") || strings.Contains(stderr.String(), "error:") {
		t.Errorf("%s\n%s", out, stderr)
	}
}
