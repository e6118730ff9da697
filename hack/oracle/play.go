package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"aicr/internal/cli"
	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
)

// names are the scenarios of the specification.
func names() []string {
	var all []string
	for i := range 19 {
		all = append(all, "s"+strconv.Itoa(i+1))
	}
	return all
}

// line is what aicr sim play says of a scenario and a seed.
type line struct {
	Scenario string
	Seed     uint64
	Verdict  spec.State
	Episodes int
	LoadedS  float64 `json:"loadedSeconds"`
	Met      *bool
	Reason   string
	Requests int
	FirstS   float64 `json:"firstAnswerSeconds"`
}

// scenario is one of them and what came of it.
type scenario struct {
	name     string
	entry    scenarios.Entry
	spec     *spec.Scenario
	standard []line
	classic  []line
}

func playBoth(ctx context.Context, progress io.Writer, names []string, seeds int) ([]scenario, error) {
	var all []scenario
	for _, name := range names {
		e, ok := scenarios.Find(name)
		if !ok {
			return nil, fmt.Errorf("there is no scenario %s", name)
		}
		s, err := spec.DecodeScenario(e.Data)
		if err != nil {
			return nil, err
		}
		all = append(all, scenario{name: name, entry: e, spec: s})
	}
	for i := range all {
		s := &all[i]
		began := time.Now()
		var err error
		if s.standard, err = play(ctx, s.name, spec.ProfileStandard, seeds); err != nil {
			return nil, err
		}
		if s.classic, err = play(ctx, s.name, spec.ProfileClassic, seeds); err != nil {
			return nil, err
		}
		t := s.tally()
		fmt.Fprintf(progress, "%d of %d: %s, %d of %d right, %s\n", i+1, len(all), s.entry.Title, t.verdict, seeds, time.Since(began).Round(time.Second))
	}
	return all, nil
}

// play is aicr sim play, in this process.
func play(ctx context.Context, name, profile string, seeds int) ([]line, error) {
	var out, said bytes.Buffer
	code := cli.Run(ctx, cli.Env{Args: []string{"sim", "play", name, "--seeds", strconv.Itoa(seeds), "--profile", profile, "-o", "json", "--quiet"},
		Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &said, LookupEnv: func(string) (string, bool) { return "", false }, Now: time.Now})
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if code > 1 { // 1 is that something was not as expected
		return nil, fmt.Errorf("aicr sim play %s: exit %d: %s", name, code, &said)
	}
	var all []line
	for d := json.NewDecoder(&out); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("what aicr sim play said of %s: %w", name, err)
		}
		all = append(all, l)
	}
	if len(all) != seeds {
		return nil, fmt.Errorf("aicr sim play %s: %d of %d lines", name, len(all), seeds)
	}
	return all, nil
}
