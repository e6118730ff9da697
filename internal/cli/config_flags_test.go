package cli

import (
	"os"
	"testing"

	"github.com/spf13/cobra"

	"aicr/internal/spec"
)

// TestAConfigSpeaksOfFlagsThatThereAre holds a document with every field against the
// commands that it is for.
func TestAConfigSpeaksOfFlagsThatThereAre(t *testing.T) {
	text, err := os.ReadFile("../spec/testdata/config/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config, err := spec.DecodeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []func(*app) *cobra.Command{newValidate, newRecipe, newSnapshot} {
		cmd := command(newApp(Env{}))
		flags := config.Flags(cmd.Name())
		if len(flags) < 4 {
			t.Errorf("of %s only %v", cmd.Name(), flags)
		}
		for name, values := range flags {
			f := cmd.Flags().Lookup(name)
			if f == nil {
				t.Errorf("aicr %s has no --%s", cmd.Name(), name)
				continue
			}
			for _, v := range values {
				if err := f.Value.Set(v); err != nil {
					t.Errorf("aicr %s --%s %s: %v", cmd.Name(), name, v, err)
				}
			}
		}
	}
}
