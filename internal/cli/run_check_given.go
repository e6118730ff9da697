package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/spec"
)

// givenRun is a run as the command has left it for the Job.
type givenRun struct {
	run      spec.Run
	plan     *spec.Plan
	events   []spec.Event
	settings graph.Settings
	targets  graph.Targets

	begun time.Time // the run's start, on this process's clock
}

// The files that are given beside those of a run.
const (
	settingsFile = "settings.json"
	targetsFile  = "targets.json"
)

// A node may show what was kept of the run before its last change, as one whose API server
// was away does. It is brought up to date within a minute or so.
const (
	stageFile   = "stage"
	givenWithin = 3 * time.Minute
)

// awaitGiven waits until what is given is that of a run that is to be loaded. Whatever is
// wrong with it otherwise is for readGiven to tell.
func awaitGiven(ctx context.Context, dir string) {
	for until := time.Now().Add(givenWithin); time.Now().Before(until); {
		if stage, err := os.ReadFile(filepath.Join(dir, stageFile)); err != nil || string(stage) != graph.StageDeploy {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// readGiven reads all of it, and finds all that is wrong with it.
func readGiven(dir string) (*givenRun, error) {
	g := &givenRun{}
	recorded, err := spec.ReadRun(runFiles(dir))
	wrong := []error{
		err,
		readStrict(filepath.Join(dir, settingsFile), &g.settings),
		readStrict(filepath.Join(dir, targetsFile), &g.targets),
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, unmeasured("the load's Job is made by 'aicr validate', which gives it this folder", "%s: what the Job was given cannot be used: %w", dir, err)
	}
	g.run, g.plan, g.events = recorded.Run, recorded.Plan, recorded.Events
	if err := g.check(); err != nil {
		return nil, unmeasured("", "%s: what the Job was given cannot be used: %w", dir, err)
	}
	g.begun = time.Now().Add(-g.elapsed(time.Now()))
	return g, nil
}

func (g *givenRun) check() error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if g.settings.Run != g.run.ID {
		bad("%s is of the run %q, and %s of %q", settingsFile, g.settings.Run, runFile, g.run.ID)
	}
	if g.settings.Engine != graph.EngineOwn {
		bad("%s: the engine is %q, and this is %q", settingsFile, g.settings.Engine, graph.EngineOwn)
	}
	if g.settings.Namespace == "" {
		bad("%s: no namespace", settingsFile)
	}
	if g.targets.URL == "" {
		bad("%s: no url", targetsFile)
	}
	return errors.Join(wrong...)
}

// elapsed is how long the run has gone on. The clock of the machine that began it may be
// another than this one's: nothing is earlier than what has happened already.
func (g *givenRun) elapsed(now time.Time) time.Duration {
	least := 0.0
	for _, e := range g.events {
		least = max(least, e.T)
	}
	start, err := time.Parse(time.RFC3339Nano, g.run.Start)
	if err != nil {
		start = now
	}
	return max(time.Duration(least*float64(time.Second)), now.Sub(start))
}

// since is the time of the run.
func (g *givenRun) since(now time.Time) time.Duration { return max(0, now.Sub(g.begun)) }

// readStrict reads a JSON document that has no field that it should not have.
func readStrict(path string, into any) error {
	data, err := readWhole(nil, path, spec.MaxSnapshot)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if d.More() {
		return fmt.Errorf("%s: data after the document", filepath.Base(path))
	}
	return nil
}
