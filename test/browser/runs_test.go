package browser

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// made is a page that the program wrote.
type made struct {
	name    string
	file    string
	workers int     // that have to have a lane
	verdict verdict // that the page has to tell
}

// verdict is what the tests read of verdict.json.
type verdict struct {
	Verdict string
	Reason  string
	Ledgers []struct{ Name, State, Reason string }

	Expectations []struct{ Name, State string }
	Findings     []struct {
		ID, Summary      string
		Evidence, Advice []string
	}
}

// pageSet is a page of every sort.
type pageSet struct {
	healthy, stall, small, blind, untold, skip, many, hostile, bench, compare made
}

func (s pageSet) all() []made {
	return []made{s.healthy, s.stall, s.small, s.blind, s.untold, s.skip, s.many, s.hostile, s.bench, s.compare}
}

// The names of the hostile run. What lies in wait in a model's name is markup, in a
// worker's a script that runs from right to left, or one as wide as a page.
const (
	hostileModel = `</script><img src=x onerror=alert(1)>`
	hostileText  = `<svg onload=alert(2)>'"&amp;]]>{{.}}`
)

func hostileWorkers() []string {
	return []string{
		"推理节点-甲", "推理节点-乙", "عامل-الاستدلال-الأول", "عامل-الاستدلال-الثاني",
		"<b onclick=alert(3)>w</b>", `"><script>alert(4)</script>`, strings.Repeat("wide", 60), "e\u0301\u0301 \u202egnp.exe",
	}
}

// manyWorkers is a fleet as large as they come, with little to do: it is the page
// that has to carry it.
const manyWorkers = `
apiVersion: aicr.run/v1alpha1
kind: Scenario
metadata: {name: many-workers}
fleet: {workers: 128}
load: {concurrencyPerGPU: 2, episode: 20s, outputTokens: 64}
faults:
  - {kind: worker-stall, workers: [77], at: 8s, lasts: 4s, episodes: [2, 3]}
`

// noTelemetry is a fleet that is observed, and of which not one sample arrives.
const noTelemetry = `
apiVersion: aicr.run/v1alpha1
kind: Scenario
metadata: {name: no-telemetry}
faults:
  - {kind: telemetry-gap, source: workers, share: 1}
  - {kind: telemetry-gap, source: gpus, share: 1}
  - {kind: telemetry-gap, source: node, share: 1}
`

// makePages has the program make each page in dir. The runs are simulated, in
// virtual time, and thrown away.
func makePages(dir string) (s pageSet, err error) {
	runs, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(runs)
	m := maker{runs: runs, pages: dir}

	m.write("many.yaml", manyWorkers)
	m.write("blind.yaml", noTelemetry)
	m.validate(map[string][]string{
		"healthy": {"healthy"},
		"stall":   {"stalls-on-one-worker"},
		"blind":   {"blind.yaml", "--profile", "quick"},
		"skip":    {"no-free-gpus"},
		"many":    {"many.yaml"},
		"small":   {"small-stall"},
	})
	m.copy("stall", "hostile", poisoned)
	m.copy("stall", "untold", mute)

	s.healthy = m.report(8, "healthy")
	s.stall = m.report(8, "stall")
	s.blind = m.report(8, "blind")
	s.untold = m.report(8, "untold")
	s.small = m.report(2, "small")
	s.skip = m.report(0, "skip")
	s.many = m.report(128, "many")
	s.hostile = m.report(8, "hostile")
	s.compare = m.report(8, "healthy", "stall")
	s.compare.verdict.Ledgers, s.compare.verdict.Expectations = nil, nil // those are on a run's own page
	s.bench = m.bench("bench")
	return s, m.err
}

// maker makes one thing after another, until one of them fails.
type maker struct {
	runs, pages string
	err         error
}

func (m *maker) write(name, text string) {
	if m.err == nil {
		m.err = os.WriteFile(filepath.Join(m.runs, name), []byte(text), 0o644)
	}
}

// aicr runs the program, unless something has failed before.
func (m *maker) aicr(codes string, args ...string) {
	if m.err == nil {
		m.err = m.run(codes, args...)
	}
}

// run runs the program. A verdict may be any; usage that is wrong, or a record that
// cannot be kept, is not.
func (m *maker) run(codes string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir = m.runs
	out, err := cmd.CombinedOutput()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) && strings.Contains(codes, fmt.Sprint(e.ExitCode())) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("aicr %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// validate plays runs by their names, side by side; each is given its scenario and flags.
func (m *maker) validate(runs map[string][]string) {
	if m.err != nil {
		return
	}
	ended := make(chan error)
	for name, args := range runs {
		go func() {
			ended <- m.run("013", append([]string{"validate", "--quiet", "--run", name, "--sim"}, args...)...)
		}()
	}
	for range runs {
		m.err = errors.Join(m.err, <-ended)
	}
}

// report makes the page of one run, or of two. It has to tell the last one's verdict.
func (m *maker) report(workers int, runs ...string) made {
	p := m.page(strings.Join(runs, "-and-"), workers)
	m.aicr("0", append([]string{"report", "--quiet", "--report", "html=" + p.file}, runs...)...)
	m.read(filepath.Join(runs[len(runs)-1], "verdict.json"), &p.verdict)
	return p
}

// bench makes the page of a load run, against the endpoint inside the program.
func (m *maker) bench(name string) made {
	p := m.page(name, 0)
	m.aicr("03", "bench", "--quiet", "--demo", "--concurrency", "16", "--request-count", "160", "--osl", "32", "--report", "html="+p.file)
	return p
}

func (m *maker) page(name string, workers int) made {
	return made{name: name, file: filepath.Join(m.pages, name+".html"), workers: workers}
}

func (m *maker) read(name string, into any) {
	if m.err != nil {
		return
	}
	b, err := os.ReadFile(filepath.Join(m.runs, name))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	m.err = err
}

// copy copies a run with its files changed. The verdict is made anew, by the program,
// of the copy.
func (m *maker) copy(from, to string, change func(path string, b []byte) ([]byte, error)) {
	if m.err != nil {
		return
	}
	source := os.DirFS(filepath.Join(m.runs, from))
	m.err = fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "verdict.json" {
			return err
		}
		b, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		if b, err = changed(path, b, change); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		target := filepath.Join(m.runs, to, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o644)
	})
	m.aicr("013", "judge", "--quiet", to)
}

// changed is a file with another content, compressed as it was.
func changed(path string, b []byte, change func(path string, b []byte) ([]byte, error)) ([]byte, error) {
	name, zipped := strings.CutSuffix(path, ".gz")
	if !zipped {
		return change(path, b)
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if b, err = io.ReadAll(r); err != nil {
		return nil, err
	}
	if b, err = change(name, b); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// mute leaves nobody but the client to tell: nothing else was ever observed.
func mute(path string, b []byte) ([]byte, error) {
	client := func(v any) bool { return v.(map[string]any)["source"] == "client" }
	switch filepath.Base(path) {
	case "series.jsonl":
		return lines(b, func(v any) any {
			if client(v) {
				return v
			}
			return nil
		})
	case "episode.json":
		v, err := decoded(b)
		if err != nil {
			return nil, err
		}
		e := v.(map[string]any)
		e["samples"] = slices.DeleteFunc(e["samples"].([]any), func(v any) bool { return !client(v) })
		return json.MarshalIndent(v, "", " ")
	}
	return b, nil
}

// poisoned gives the model, the workers and the log hostile names.
func poisoned(path string, b []byte) ([]byte, error) {
	switch filepath.Ext(path) {
	case ".jsonl":
		b, err := lines(b, renamed)
		if err != nil || path != "events.jsonl" {
			return b, err
		}
		long, err := json.Marshal(map[string]any{"t": 30, "kind": "log", "source": hostileText, "text": hostileText + strings.Repeat("long ", 200_000)})
		return append(append(b, long...), '\n'), err
	case ".json":
		v, err := decoded(b)
		if err != nil {
			return nil, err
		}
		return json.MarshalIndent(renamed(v), "", " ")
	}
	return b, nil
}

// decoded is a JSON value with its numbers as they are written.
func decoded(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return v, d.Decode(&v)
}

// lines changes each line of JSON; one that becomes nil is left out.
func lines(b []byte, change func(any) any) ([]byte, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(b) {
		v, err := decoded(line)
		if err != nil {
			return nil, err
		}
		if v = change(v); v == nil {
			continue
		}
		if line, err = json.Marshal(v); err != nil {
			return nil, err
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes(), nil
}

// renamed calls the workers and the model otherwise.
func renamed(v any) any {
	worker := func(v any) any {
		for i, name := range hostileWorkers() {
			if v == fmt.Sprint(i) {
				return name
			}
		}
		return v
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			renamed(x)
		}
	case map[string]any:
		for key, x := range v {
			if key == "worker" || key == "name" && v["source"] == "worker" {
				v[key] = worker(x)
			}
			if key == "target" {
				if target, ok := x.(map[string]any); ok {
					target["model"] = hostileModel
				}
			}
			renamed(x)
		}
	}
	return v
}
