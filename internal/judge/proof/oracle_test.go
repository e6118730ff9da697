package proof

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aicr/internal/cli"
	"aicr/internal/sim/scenarios"
)

// The library is the specification: what every scenario says that a judge must say
// of it is said, seed by seed, by the program as it is used. ORACLE_SEEDS is how many
// seeds, ORACLE_ONLY names the scenarios.
func TestEveryScenarioIsJudgedAsItSays(t *testing.T) {
	seeds := 3
	if v := os.Getenv("ORACLE_SEEDS"); v != "" {
		var err error
		if seeds, err = strconv.Atoi(v); err != nil {
			t.Fatalf("ORACLE_SEEDS: %v", err)
		}
	}
	names := scenarios.Names()
	if v := os.Getenv("ORACLE_ONLY"); v != "" {
		names = strings.Split(v, ",")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := play(t, name, seeds)
			if len(lines) != seeds {
				t.Fatalf("%d lines of %d seeds", len(lines), seeds)
			}
			for i, line := range lines {
				var said struct {
					Scenario string
					Seed     uint64
					Met      *bool
				}
				if err := json.Unmarshal(line, &said); err != nil {
					t.Fatal(err)
				}
				if said.Seed != uint64(i+1) {
					t.Errorf("line %d is of seed %d", i+1, said.Seed)
				}
				if said.Met == nil || !*said.Met {
					t.Errorf("not as it says (look closer: aicr validate --sim %s --seed %d):\n%s", name, said.Seed, line)
				}
			}
		})
	}
}

// play is aicr sim play in this process; it gives the lines that it prints.
func play(t *testing.T, name string, seeds int) [][]byte {
	t.Helper()
	var out, said bytes.Buffer
	code := cli.Run(t.Context(), cli.Env{Args: []string{"sim", "play", name, "--seeds", strconv.Itoa(seeds), "-o", "json", "--quiet"},
		Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &said, LookupEnv: func(string) (string, bool) { return "", false }, Now: time.Now})
	if code > 1 {
		t.Fatalf("exit %d: %s", code, &said)
	}
	return slices.Collect(bytes.Lines(out.Bytes()))
}
