package cli

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"aicr/internal/sim"
	"aicr/internal/spec"
)

// recorder keeps a run in a folder, in the layout that every run has. One
// without a folder keeps nothing.
type recorder struct {
	dir string
	run spec.Run
}

// openRun begins the record of a scenario and a seed in a folder of its own.
func (a *app) openRun(dir string, s named, seed uint64) (*recorder, error) {
	if dir == "" {
		return &recorder{}, nil
	}
	id := fmt.Sprintf("%s-%d", s.Metadata.Name, seed)
	r := &recorder{dir: filepath.Join(dir, id), run: spec.Run{Schema: spec.RunSchema, ID: id, Version: a.env.Build.Version,
		Command: a.commandLine("sim play " + shellQuoted(s.asked)), Target: spec.Target{Scenario: s.Metadata.Name, Seed: seed, Simulated: true},
		Start: simulatedEpoch().Format(time.RFC3339Nano)}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, unwritten(err)
	}
	err := os.Mkdir(r.dir, 0o755)
	if errors.Is(err, os.ErrExist) {
		return nil, misuse("name another folder with --run, or remove this one", "%s is there already", r.dir)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(r.dir, "episodes"), 0o755)
	}
	if err != nil {
		return nil, unwritten(err)
	}
	type input struct {
		Value string `json:"value"`
		From  Source `json:"from"` // flag, env, file, default, or what is said
		Place string `json:"place,omitempty"`
	}
	plan := struct {
		Scenario *spec.Scenario   `json:"scenario"`
		Inputs   map[string]input `json:"inputs"`
	}{s.Scenario, map[string]input{}}
	for _, flag := range []string{"seeds", "first-seed", "episodes", "sentinel-rate"} {
		set := a.settings.of(flag)
		plan.Inputs[flag] = input{set.Value, set.Source, set.Place}
	}
	plan.Inputs["scenario"] = input{Value: s.asked, From: "argument"}
	plan.Inputs["seed"] = input{Value: strconv.FormatUint(seed, 10), From: "first-seed and on"}
	text, err := yaml.Marshal(plan)
	if err != nil {
		return nil, err
	}
	err = writeWhole(filepath.Join(r.dir, "plan.yaml"), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err == nil {
		err = r.writeJSON("run.json", r.run)
	}
	if err != nil {
		return nil, unwritten(err)
	}
	return r, nil
}

func unwritten(err error) error { return unmeasured("", "writing the record of a run: %w", err) }

func (r *recorder) writeJSON(name string, doc any) error {
	return writeWhole(filepath.Join(r.dir, name), func(w io.Writer) error { return writeIndented(w, doc) })
}

func writeIndented(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// events appends what happened.
func (r *recorder) events(all ...spec.Event) error {
	if r.dir == "" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(r.dir, "events.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return unwritten(err)
	}
	err = writeLines(f, all)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return unwritten(err)
	}
	return nil
}

// episode writes a whole episode beside its place and renames it there.
func (r *recorder) episode(at time.Duration, e *spec.Episode, rec *sim.Recording) error {
	if r.dir == "" {
		return nil
	}
	if err := r.events(spec.Event{T: at.Seconds(), Kind: spec.EventStage, Stage: "episode", Episode: e.Number}); err != nil {
		return err
	}
	name := fmt.Sprintf("%03d", e.Number)
	part, err := os.MkdirTemp(r.dir, ".episode-*")
	if err != nil {
		return unwritten(err)
	}
	defer func() { _ = os.RemoveAll(part) }() // it is gone when it was renamed
	err = writeWhole(filepath.Join(part, "episode.json"), func(w io.Writer) error { return writeIndented(w, e) })
	if err == nil {
		err = writeWhole(filepath.Join(part, "requests.jsonl.gz"), func(w io.Writer) error { return writeZipped(w, rec.Requests) })
	}
	if err == nil {
		err = writeWhole(filepath.Join(part, "series.jsonl.gz"), func(w io.Writer) error { return writeZipped(w, rec.Series) })
	}
	if err == nil {
		err = os.Chmod(part, 0o755)
	}
	if err == nil {
		err = os.Rename(part, filepath.Join(r.dir, "episodes", name))
	}
	if err != nil {
		return unwritten(err)
	}
	return nil
}

// close says that the run is over.
func (r *recorder) close(at time.Duration) error {
	if r.dir == "" {
		return nil
	}
	if err := r.events(spec.Event{T: at.Seconds(), Kind: spec.EventStage, Stage: "end"}); err != nil {
		return err
	}
	r.run.End = simulatedEpoch().Add(at).Format(time.RFC3339Nano)
	if err := r.writeJSON("run.json", r.run); err != nil {
		return unwritten(err)
	}
	return nil
}

func writeZipped[T any](w io.Writer, lines []T) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := writeLines(z, lines); err != nil {
		return err
	}
	return z.Close()
}

// writeLines writes one JSON object a line.
func writeLines[T any](w io.Writer, lines []T) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	for i := range lines {
		if err := e.Encode(&lines[i]); err != nil {
			return err
		}
	}
	return b.Flush()
}
