package programs

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// fitScenario makes a scenario one of a graph: with as many workers, and routed as the
// graph is. What it expects is a judge's, and not for the fleet; a fault of a worker that
// the graph has not is a mistake.
func fitScenario(text []byte, workers int, router string, panics bool) ([]byte, error) {
	var s map[string]any
	if err := yaml.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s == nil {
		return nil, fmt.Errorf("it is empty")
	}
	fleet, ok := s["fleet"].(map[string]any)
	if !ok {
		fleet = map[string]any{}
		s["fleet"] = fleet
	}
	fleet["workers"] = workers
	if router != "" {
		fleet["router"] = router
	}
	delete(s, "expect")
	if panics {
		s["faults"] = []any{map[string]any{"kind": "discovery-panic"}}
	}
	return yaml.Marshal(s)
}
