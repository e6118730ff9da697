package proof

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// TestAKillLeavesARunThatCanBeJudged kills the program at random moments: what is
// there is whole, what was whole is there, and what is judged follows from it.
func TestAKillLeavesARunThatCanBeJudged(t *testing.T) {
	const kills = 50
	args := []string{"validate", "--run", "run", "--sim", "small", "--profile", "quick", "-q"}
	begun := time.Now()
	whole := start(t, args...)
	if err := whole.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &whole.said)
	}
	took := time.Since(begun)
	complete := filepath.Join(whole.Dir, "run")
	record, err := spec.ReadRun(os.DirFS(complete))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2)) // the moments are as random as the machine is
	found := map[string]int{}
	for range kills {
		killed := start(t, args...)
		time.Sleep(time.Duration(rng.Float64() * float64(took)))
		_ = killed.Process.Kill() // it may be over already
		_ = killed.Wait()         // it was killed
		found[checkKilled(t, filepath.Join(killed.Dir, "run"), complete, len(record.Numbers()))]++
		if t.Failed() {
			break
		}
	}
	t.Logf("killed at %v", found)
	if found["some episodes"] == 0 {
		t.Errorf("no kill was in the middle of a run: %v", found)
	}
}

// checkKilled checks the folder of a run that was killed, and says how far it had
// come.
func checkKilled(t *testing.T, dir, complete string, all int) string {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "nothing"
	}
	record, err := spec.ReadRun(os.DirFS(dir))
	if err != nil {
		t.Fatalf("a killed run cannot be read: %v", err)
	}
	there := map[int]bool{}
	for _, n := range record.Numbers() {
		there[n] = true
		for _, name := range []string{"episode.json", "requests.jsonl.gz", "series.jsonl.gz"} {
			part := filepath.Join("episodes", fmt.Sprintf("%03d", n), name)
			if !bytes.Equal(read(t, dir, part), read(t, complete, part)) {
				t.Errorf("%s is not what it was", part)
			}
		}
	}
	for _, e := range record.Events {
		if e.Kind == spec.EventStage && e.Stage == "episode" && e.Episode > 0 && !there[e.Episode-1] {
			t.Errorf("episode %d was whole, since the next had begun, and is lost", e.Episode-1)
		}
	}
	verdict, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	product, said, code := aicr(t, "judge", dir, "-o", "json")
	switch {
	case product == "":
		t.Fatalf("aicr judge: exit code %d\n%s", code, said)
	case err == nil && string(verdict) != product:
		t.Errorf("verdict.json does not follow from the record:\n%s", cmp.Diff(string(verdict), product))
	case string(read(t, dir, "verdict.json")) != product:
		t.Errorf("what was judged was not written")
	}
	if len(there) < all && code == 0 {
		t.Errorf("%d of %d episodes pass:\n%s", len(there), all, product)
	}
	switch {
	case err == nil:
		return "all and the verdict"
	case len(there) == all:
		return "all but the verdict"
	case len(there) > 0:
		return "some episodes"
	}
	return "a start"
}
