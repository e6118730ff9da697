package main

import (
	"os"
	"testing"
)

// The first part waits for a file that only the part beside it makes.
const besideMakefile = `
row = mkdir -p .cache/prove; echo '{"part":"$@","result":"$(1)"}' >.cache/prove/$@.json
first:
	@for n in $$(seq 3000); do [ ! -f made ] || break; sleep 0.01; done; [ -f made ]; $(call row,pass)
beside:
	@touch made; $(call row,pass)
fails:
	@touch made; $(call row,FAIL); exit 1
`

func TestAPartBesideAnotherRunsAtTheSameTimeAndCounts(t *testing.T) {
	for groups, passes := range map[string]bool{
		"first+beside": true,
		"first+fails":  false,
		"beside":       true,
	} {
		t.Run(groups, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("Makefile", []byte(besideMakefile), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := runAll(t.Context(), []string{groups}); (err == nil) != passes {
				t.Errorf("prove all %s: %v, want passed = %v", groups, err, passes)
			}
		})
	}
}
