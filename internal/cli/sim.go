package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
)

func newSim(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate a serving stack and what can go wrong with it",
		Long: `A fleet that does not exist: a frontend with its router, workers that batch as
vLLM does, their GPUs, and faults that are switched on on purpose. It is played
in virtual time, hundreds of times faster than it would happen, or served over
HTTP to any OpenAI client. A scenario is a file, or the name of one that is built
in.`,
		Example: `  aicr sim list
  aicr sim play healthy one-worker-stall --seeds 5
  aicr sim serve small`,
	}
	cmd.AddCommand(newSimPlay(a), newSimServe(a), newSimList(a), newSimShow(a))
	return cmd
}

// named is a scenario as the user asked for it.
type named struct {
	*spec.Scenario
	asked string // a name or a file
	line  string // what is said of one that is built in

	// reference is what its throughput is held against at an operating point, found
	// out once.
	reference func(context.Context, spec.OperatingPoint) (*spec.ReferenceFigure, error)
}

func newNamed(s *spec.Scenario, asked, line string) named {
	var mu sync.Mutex
	known := map[spec.OperatingPoint]*spec.ReferenceFigure{}
	return named{s, asked, line, func(ctx context.Context, p spec.OperatingPoint) (*spec.ReferenceFigure, error) {
		mu.Lock()
		defer mu.Unlock()
		if known[p] == nil {
			r, err := referenceOf(ctx, s, p)
			if err != nil {
				return nil, err
			}
			known[p] = r
		}
		return known[p], nil
	}}
}

// scenarios reads those that the user named, and finds all that is wrong with
// all of them.
func (a *app) scenarios(args []string) ([]named, error) {
	var all []named
	var wrong []error
	for _, arg := range args {
		s, err := readScenario(a.ended, arg)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		all = append(all, s)
	}
	return all, errors.Join(wrong...)
}

func readScenario(ended <-chan struct{}, arg string) (named, error) {
	if e, ok := scenarios.Find(arg); ok {
		s, err := spec.DecodeScenario(e.Data)
		if err != nil {
			return named{}, mistakes(e.Name, err)
		}
		return newNamed(s, arg, e.Line), nil
	}
	data, err := readWithin(ended, arg, spec.MaxDocument)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(arg, `/\.`) {
		return named{}, unknownScenario(arg)
	}
	if err != nil {
		return named{}, misuse("", "reading a scenario: %w", err)
	}
	s, err := spec.DecodeScenario(data)
	if err != nil {
		return named{}, mistakes(arg, err)
	}
	return newNamed(s, arg, ""), nil
}

func unknownScenario(name string) error {
	hint := "see 'aicr sim list'"
	if near := scenarios.Near(name); near != "" {
		hint = fmt.Sprintf("did you mean %s? see 'aicr sim list'", near)
	}
	return misuse(hint, "%q is neither a scenario that is built in nor a file", name)
}

// mistakes makes a Problem of everything that is wrong with a file.
func mistakes(file string, err error) error {
	all, ok := errors.AsType[spec.Mistakes](err)
	if !ok {
		return misuse("", "%s: %w", file, err)
	}
	var wrong []error
	for _, m := range all {
		path := ""
		if m.Path != "" {
			path = m.Path + ": "
		}
		wrong = append(wrong, misuse(m.Hint, "%s:%d: %s%s", file, m.Line, path, m.Text))
	}
	return errors.Join(wrong...)
}

// scenarioNames completes the names of what is built in.
func scenarioNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, e := range scenarios.All() {
		all = append(all, cobra.CompletionWithDesc(e.Name, e.Line), cobra.CompletionWithDesc(e.Title, e.Line))
	}
	return all, cobra.ShellCompDirectiveDefault
}
