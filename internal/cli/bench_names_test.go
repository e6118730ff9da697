package cli

import (
	"fmt"
	"strings"
	"testing"
)

// A list of models without an end makes no hint without one.
func TestAHintNamesSoManyModels(t *testing.T) {
	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprintf("model-%d", i))
	}
	for want, names := range map[string][]string{
		"":            nil,
		"a, b":        {"a", "b"},
		"a b, \u2192": {"a\nb", "\u2192"},
		"model-0, model-1, model-2, model-3, model-4, model-5, model-6, model-7, model-8, model-9 and 19990 more": many,
	} {
		if got := someNames(names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := someNames([]string{strings.Repeat("x", 1000)}); len(got) > 110 {
		t.Errorf("a name of %d bytes", len(got))
	}
}
