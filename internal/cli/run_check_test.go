package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/sim"
	"aicr/internal/sim/scenarios"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
)

// crashingProgram is this program, but that the process that loads crashes as a load
// engine would: in a goroutine that nobody waits for.
func crashingProgram() {
	if slices.Contains(os.Args, "--inner") {
		fmt.Fprintln(os.Stdout, `{"kind":"stage","stage":"episode","number":1,"text":"episode 1 of at most 2"}`)
		go func() { panic("index out of range [7] with length 5") }()
		select {}
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(Run(context.Background(), System(Build{Version: "v1.2.3"}, signals)))
}

// deafProgram is this program, but that the process that loads hears no signal, as one
// that has only just begun.
func deafProgram() {
	if slices.Contains(os.Args, "--inner") {
		time.Sleep(time.Hour)
	}
	crashingProgram()
}

const checkedRun = "20261116-015518-0123456789abcdef"

// jobServers are those that a load's Job reaches beside the fleet. They speak TLS over
// sockets, also where the fleet is in virtual time, which stands still meanwhile.
type jobServers struct {
	kubelet, api *httptest.Server

	mu   sync.Mutex
	kept kube.Object // the ConfigMap
}

func startJobServers(t *testing.T) *jobServers {
	t.Helper()
	s := &jobServers{}
	// A kubelet that has signed its certificate itself, as most do.
	s.kubelet = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the kubelet was asked, with %q", r.Header.Get("Authorization"))
	}))
	s.kubelet.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.kubelet.Close)
	// The one call that the Job makes of the API server. A connection that stays open would
	// keep virtual time from passing.
	s.api = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/aicr-validation/configmaps" {
			t.Errorf("the Job asks %s %s, for which it has no right", r.Method, r.URL.Path)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := json.NewDecoder(r.Body).Decode(&s.kept); err != nil {
			t.Error(err)
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(s.kept)
	}))
	s.api.Config.SetKeepAlivesEnabled(false)
	t.Cleanup(s.api.Close)
	return s
}

// copied is the compact copy of the result, or nil.
func (s *jobServers) copied() kube.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// jobWorld is what a load's Job finds around itself.
type jobWorld struct {
	*jobServers
	t       *testing.T
	network Network
	dir     string
	plan    *spec.Plan

	out, said keptWriter
}

// inJobWorld runs f in virtual time, in a world whose fleet is in memory.
func inJobWorld(t *testing.T, change func(*spec.Plan), f func(t *testing.T, w *jobWorld)) {
	t.Helper()
	servers := startJobServers(t)
	inVirtualTime(t, func(t *testing.T, network Network) { f(t, newJobWorld(t, network, servers, change)) })
}

// newJobWorld serves a healthy fleet, and gives a run that is as far as the load.
func newJobWorld(t *testing.T, network Network, servers *jobServers, change func(*spec.Plan)) *jobWorld {
	t.Helper()
	w := &jobWorld{jobServers: servers, t: t, network: network, dir: t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s\nstandard error:\n%s", &w.out, &w.said)
		}
	})
	found, _ := scenarios.Find("small")
	s, err := spec.DecodeScenario(found.Data)
	if err != nil {
		t.Fatal(err)
	}
	speed := 1.0
	if network.Listen == nil {
		speed = 10 // no test in real time reads the figures
	}
	fleet := sim.NewLive(s, 1, speed)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { fleet.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	server := serve.New(fleet, s, serve.Options{Model: "simulated", Node: sim.NodeName})
	frontend := network.serve(t, server.Frontend())
	targets := graph.Targets{URL: frontend, Frontend: frontend + "/metrics", Node: sim.NodeName,
		GPUs:    []string{network.serve(t, server.GPUs()) + "/metrics"},
		Nodes:   []string{network.serve(t, server.Node()) + "/metrics"},
		Kubelet: servers.kubelet.URL + "/stats/summary", Missing: []string{"a page that nobody has"}}
	seen := fleet.Snapshot()
	for i := range seen.Workers {
		name := fmt.Sprintf("worker-%d", i)
		page := network.serve(t, server.Worker(i)) + "/metrics"
		worker := graph.WorkerTarget{Name: name, Pod: name, URL: page, GPU: seen.GPUs[i].UUID}
		targets.Workers = append(targets.Workers, worker)
	}

	limits, _ := spec.DefaultThresholds(spec.ProfileClassic)
	limits.AnswerWithinS = 30
	w.plan = &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileClassic, Thresholds: limits, Stability: spec.StabilityGate, Seed: 1, Inputs: map[string]spec.Input{},
		Point:       spec.OperatingPoint{Workers: len(seen.Workers), Concurrency: 4 * len(seen.Workers), InputTokens: 32, OutputTokens: 16, Prompts: "100", Requests: 200},
		Constraints: []spec.Constraint{{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: 1, Unit: "tokens/s", Tolerance: 0.1, From: "the test"}}}
	if change != nil {
		change(w.plan)
	}
	w.give(targets)
	return w
}

func (w *jobWorld) path(name string) string { return filepath.Join(w.dir, name) }

func (w *jobWorld) put(name string, data []byte, err error) {
	w.t.Helper()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(w.path(name)), 0o755)
	}
	if err == nil {
		err = os.WriteFile(w.path(name), data, 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *jobWorld) give(targets graph.Targets) {
	w.t.Helper()
	doc := func(name string, v any) {
		data, err := json.Marshal(v)
		w.put(name, data, err)
	}
	begun := time.Now().Add(-90 * time.Second)
	doc("given/run.json", spec.Run{Schema: spec.RunSchema, ID: checkedRun, Version: "v1.2.3", Command: "aicr validate", Start: begun.UTC().Format(time.RFC3339Nano)})
	plan, err := spec.EncodePlan(w.plan)
	w.put("given/plan.yaml", plan, err)
	w.put("given/events.jsonl", []byte(`{"t":0,"kind":"stage","stage":"start"}`+"\n"+`{"t":12.5,"kind":"versions","runtime":"9.9.9","chart":"9.9.9"}`+"\n"), nil)
	doc("given/settings.json", graph.Settings{Run: checkedRun, Namespace: "aicr-validation", Node: sim.NodeName, Workers: w.plan.Point.Workers, Engine: graph.EngineOwn,
		Model: "simulated", Router: "least-loaded", KeepFor: graph.Duration(20 * time.Second), Version: "v1.2.3"})
	doc("given/targets.json", targets)
	w.put("results/.keep", nil, nil)
	w.put("account/token", []byte("secret-account-token"), nil)
	w.put("account/ca.crt", otherAuthority(w.t), nil)
	w.put("api.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.api.Certificate().Raw}), nil)
	w.put("kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q, certificate-authority: api.crt}}]
users: [{name: load, user: {token: secret-account-token}}]
contexts: [{name: test, context: {cluster: test, user: load}}]
`, w.api.URL), nil)
}

// otherAuthority is the certificate of somebody who has signed none that is served here.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	data, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data})
}

func TestATokenIsSentToNobodyWhomTheClusterHasNotSigned(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer srv.Close()
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	gone.Close()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	for name, c := range map[string]struct {
		page string
		ca   []byte
		want string
	}{
		"signed":        {srv.URL + "/stats/summary", own, ""},
		"not signed":    {srv.URL + "/stats/summary", otherAuthority(t), "not one that the cluster has signed"},
		"not encrypted": {strings.Replace(srv.URL, "https", "http", 1), own, "not one that is encrypted"},
		"gone":          {gone.URL, own, "cannot be reached"},
		"nobody signs":  {srv.URL, []byte("no certificate"), "has no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, data := range map[string][]byte{"token": []byte("t"), "ca.crt": c.ca} {
				if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			trust, _, err := accountOf(dir)
			if err == nil {
				err = trusted(t.Context(), c.page, trust)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// call is how the Job is called.
func (w *jobWorld) call() []string {
	return []string{"run", "inference-perf", "--given", w.path("given"), "--results", w.path("results"),
		"--termination-log", w.path("message"), "--service-account", w.path("account")}
}

// start starts the Job's process.
func (w *jobWorld) start(program string, args ...string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), program, append(args, w.call()...)...)
	cmd.Env = append(programEnv(), "KUBECONFIG="+w.path("kubeconfig"))
	cmd.Stdout, cmd.Stderr = &w.out, &w.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // or all of its processes would be this one as well
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return cmd
}

// startHere starts the Job in this process, and with it the program that loads. Its end is
// an exit code.
func (w *jobWorld) startHere() (ended <-chan int) {
	env := testEnv(map[string]string{"KUBECONFIG": w.path("kubeconfig")}, w.call()...)
	env.Stdout, env.Stderr, env.Network = &w.out, &w.said, w.network
	env.self = func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		signals := make(chan os.Signal, 1)
		stop := context.AfterFunc(ctx, func() { signals <- syscall.SIGTERM })
		defer stop()
		inner := env
		inner.Args, inner.Stdout, inner.Stderr, inner.Signals = args, stdout, stderr, signals
		if code := Run(context.WithoutCancel(ctx), inner); code != 0 {
			return Code(code)
		}
		return nil
	}
	code := make(chan int, 1)
	go func() { code <- Run(context.WithoutCancel(w.t.Context()), env) }()
	return code
}

func (w *jobWorld) has(name string) bool {
	_, err := os.Stat(w.path(name))
	return err == nil
}

// loads says that an episode has begun, by the termination message; one that is being
// written says nothing.
func (w *jobWorld) loads() bool {
	data, err := os.ReadFile(w.path("message"))
	if err != nil {
		return false
	}
	m, err := graph.ParseLoadMessage(data)
	return err == nil && strings.HasPrefix(m.Stage, "episode")
}

func (w *jobWorld) message() *graph.LoadMessage {
	w.t.Helper()
	data, err := os.ReadFile(w.path("message"))
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := graph.ParseLoadMessage(data)
	if err != nil {
		w.t.Fatalf("%v: %s", err, data)
	}
	return m
}

// fetch fetches the record as the command does.
func (w *jobWorld) fetch(how ...string) map[string][]byte {
	w.t.Helper()
	data, said, code := w.runFetch(how...)
	if code != 0 {
		w.t.Fatalf("exit code %d: %s", code, said)
	}
	files := map[string][]byte{}
	if err := graph.ReadArchive(strings.NewReader(data), func(name string, r io.Reader) (err error) {
		files[name], err = io.ReadAll(r)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return files
}

func (w *jobWorld) runFetch(how ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	env := testEnv(nil, append([]string{"run", "fetch", "--results", w.path("results")}, how...)...)
	var out, said bytes.Buffer
	env.Stdout, env.Stderr = &out, &said
	code = Run(w.t.Context(), env)
	return out.String(), said.String(), code
}

func (w *jobWorld) received() {
	w.t.Helper()
	if _, said, code := w.runFetch("--received"); code != 0 {
		w.t.Fatalf("exit code %d: %s", code, said)
	}
}

// finished waits until there is a result.
func (w *jobWorld) finished() {
	w.t.Helper()
	until(w.t, "a result", func() bool { return w.has("results/finished") })
}

// lines are those of its log, numbered without a gap.
func (w *jobWorld) lines() []graph.LoadLine {
	w.t.Helper()
	var all []graph.LoadLine
	for line := range strings.Lines(w.out.String()) {
		l := graph.ParseLoadLine([]byte(strings.TrimSpace(line)))
		if l.N != len(all)+1 {
			w.t.Errorf("line %d has the number %d: %s", len(all)+1, l.N, line)
		}
		all = append(all, l)
	}
	return all
}

func jobExit(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	_ = cmd.Wait() // the code says it
	return cmd.ProcessState.ExitCode()
}

func TestALoadsJobGoesOnWithTheRunAndLeavesItsResultEverywhere(t *testing.T) {
	inJobWorld(t, nil, goesOnWithTheRun)
}

func goesOnWithTheRun(t *testing.T, w *jobWorld) {
	ended := w.startHere()
	until(t, "a message", func() bool { return w.has("message") })
	if _, said, code := w.runFetch(); code == 0 || !strings.Contains(said, "the run is not finished") {
		t.Errorf("a run that is not finished is fetched: exit code %d, %s", code, said)
	}
	w.finished()
	files := w.fetch()
	time.Sleep(10 * time.Second)
	select {
	case code := <-ended:
		t.Fatalf("it ended with %d before it was told that the record had arrived", code)
	default:
	}
	w.received()
	told := time.Now()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(told); took > lookForMarks {
		t.Errorf("it ended %s after it was told that the record had arrived", took)
	}

	// The record goes on where the run was, and gives the same verdict again.
	dir := t.TempDir()
	for name, data := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	again, _ := rejudged(t, dir)
	if !bytes.Equal(again, files["verdict.json"]) {
		t.Errorf("aicr judge says\n%s\nand the Job\n%s", again, files["verdict.json"])
	}
	events := strings.Split(strings.TrimSpace(string(files["events.jsonl"])), "\n")
	if !strings.Contains(events[1], `"versions"`) {
		t.Errorf("what happened before is not told first: %s", events[:2])
	}
	last := 0.0
	for _, line := range events {
		var e spec.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.T < last {
			t.Errorf("time goes back at %s", line)
		}
		last = e.T
	}
	if last < 90 {
		t.Errorf("the last event is at %g s, and the run began 90 s before the Job", last)
	}

	if m := w.message(); m.Verdict != "PASS" || m.Run != checkedRun || m.Stage != "done" || m.Copy != "aicr-validation/aicr-ctrf-"+checkedRun+"-performance" {
		t.Errorf("the termination message is %+v", m)
	}
	kept, left := graph.ReadResultCopy(w.copied())
	if want := []string{"ctrf.json", "episodes/001/episode.json", "events.jsonl", "plan.yaml", "run.json", "verdict.json"}; !slices.Equal(slices.Sorted(maps.Keys(kept)), want) || left != nil {
		t.Errorf("the copy has %v, without %v", slices.Sorted(maps.Keys(kept)), left)
	}
	if !bytes.Equal(kept["verdict.json"], files["verdict.json"]) {
		t.Error("the copy has another verdict than the record")
	}

	var kinds []string
	for _, l := range w.lines() {
		kinds = append(kinds, l.Kind)
	}
	for _, kind := range []string{graph.LineStage, graph.LineEpisode, graph.LineJudged, graph.LineNote, graph.LineDone} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no line of kind %s among %v", kind, kinds)
		}
	}
	text := w.out.String()
	for _, want := range []string{"not measured: a page that nobody has", "not measured: the kubelet of the node: its certificate is not one that the cluster has signed"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log", want)
		}
	}
	everything := text + w.said.String() + fmt.Sprint(w.copied())
	for _, data := range files {
		everything += string(data)
	}
	if strings.Contains(everything, "secret-account-token") {
		t.Error("the account's token is told")
	}
}

// A kubelet tells the first process of a container to end. Others tell all of them.
func TestALoadThatIsToldToEndKeepsAndTellsWhatItHas(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]int{"its first process": 1, "all of its processes": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			toldToEnd(t, who)
		})
	}
}

// endless has the load go on for longer than a test waits.
func endless(p *spec.Plan) { p.Point.Requests, p.Point.DurationS = 0, 3600 }

func toldToEnd(t *testing.T, who int) {
	w := newJobWorld(t, Network{}, startJobServers(t), endless)
	cmd := w.start(processName)
	until(w.t, "load", w.loads)
	if err := syscall.Kill(who*cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.finished()
	files := w.fetch()
	w.received()
	if code := jobExit(t, cmd); code != 3 {
		t.Errorf("exit code %d", code)
	}
	var v spec.Verdict
	if err := json.Unmarshal(files["verdict.json"], &v); err != nil || v.Verdict != spec.Inconclusive {
		t.Errorf("the verdict is %s: %s (%v)", v.Verdict, v.Reason, err)
	}
	if !strings.Contains(string(files["events.jsonl"]), `"interrupt"`) {
		t.Errorf("the record does not tell of it: %s", files["events.jsonl"])
	}
	if m := w.message(); m.Verdict != string(spec.Inconclusive) || w.copied() == nil {
		t.Errorf("the message is %+v, the copy %v", m, w.copied())
	}
	if !strings.Contains(w.out.String(), "told to end: the record can be fetched for 10s more") {
		t.Errorf("it does not say for how long it is there\n%s", w.out.String())
	}
}

// Who wants the record of a load that is under way gets that of the episodes that are
// whole. The Job keeps it, as any other, until it has arrived.
func TestALoadThatIsStoppedGivesItsRecordSoFar(t *testing.T) {
	certify := func(p *spec.Plan) {
		p.Profile = spec.ProfileCertify
		p.Thresholds, _ = spec.DefaultThresholds(p.Profile)
		p.Thresholds.AnswerWithinS, p.Point.Requests, p.Point.DurationS = 30, 0, 3
	}
	inJobWorld(t, certify, func(t *testing.T, w *jobWorld) {
		ended := w.startHere()
		until(t, "an episode", func() bool { return w.has("results/run/episodes/001") })
		files := w.fetch("--stop")
		w.received()
		if code := <-ended; code != 3 {
			t.Errorf("exit code %d", code)
		}
		if strings.Contains(w.out.String(), "told to end") {
			t.Error("it did not keep its record for as long as any other")
		}
		var v spec.Verdict
		if err := json.Unmarshal(files["verdict.json"], &v); err != nil || v.Verdict != spec.Inconclusive ||
			!strings.HasPrefix(v.Reason, "interrupted after 1 ") {
			t.Errorf("the verdict is %s: %s (%v)", v.Verdict, v.Reason, err)
		}
		if files["episodes/001/episode.json"] == nil || files["episodes/002/episode.json"] != nil ||
			!strings.Contains(string(files["events.jsonl"]), `"interrupt"`) {
			t.Errorf("the record has %v, and tells\n%s", slices.Sorted(maps.Keys(files)), files["events.jsonl"])
		}
		if m := w.message(); m.Verdict != string(spec.Inconclusive) || w.copied() == nil {
			t.Errorf("the message is %+v, the copy %v", m, w.copied())
		}
	})
}

// A process that is told to end before it listens was ended by somebody, and has not
// crashed.
func TestALoadThatIsStoppedAtOnceHasNotCrashed(t *testing.T) {
	t.Parallel()
	w := newJobWorld(t, Network{}, startJobServers(t), nil)
	w.put("results/stop", nil, nil)
	cmd := w.start("aicr-deaf")
	w.finished()
	files := w.fetch("--stop")
	w.received()
	jobExit(t, cmd)
	var v spec.Verdict
	if err := json.Unmarshal(files["verdict.json"], &v); err != nil || v.Verdict != spec.Inconclusive || !strings.Contains(string(files["events.jsonl"]), `"interrupt"`) {
		t.Errorf("the verdict is %s: %s (%v)\n%s", v.Verdict, v.Reason, err, files["events.jsonl"])
	}
}

func TestACrashIsToldInWordsAndIsNoSkip(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string
		during  func(w *jobWorld)
		words   string
	}{
		"a panic": {"aicr-crashes", func(*jobWorld) {}, "the program itself has crashed: panic: index out of range [7] with length 5"},
		"killed by the kernel": {processName, func(w *jobWorld) {
			until(w.t, "load", w.loads)
			w.killInner()
		}, "the process that loads was killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newJobWorld(t, Network{}, startJobServers(t), endless)
			cmd := w.start(c.program)
			c.during(w)
			w.finished()
			files := w.fetch()
			w.received()
			if code := jobExit(t, cmd); code != 3 {
				t.Errorf("exit code %d", code)
			}
			var v spec.Verdict
			if err := json.Unmarshal(files["verdict.json"], &v); err != nil || v.Verdict != spec.Invalid || !strings.Contains(v.Reason, c.words) {
				t.Errorf("the verdict is %s: %s (%v)", v.Verdict, v.Reason, err)
			}
			if m := w.message(); m.Verdict != string(spec.Invalid) || !strings.Contains(m.Reason, c.words) {
				t.Errorf("the message is %+v", m)
			}
			if kept, _ := graph.ReadResultCopy(w.copied()); !bytes.Equal(kept["verdict.json"], files["verdict.json"]) {
				t.Error("the copy has another verdict")
			}
			lines := w.lines()
			if !slices.ContainsFunc(lines, func(l graph.LoadLine) bool { return l.Kind == graph.LineError && strings.Contains(l.Text, c.words) }) {
				t.Errorf("the log does not say it: %s", w.out.String())
			}
		})
	}
}

func TestAFullDiskIsToldAndIsNoPass(t *testing.T) {
	t.Parallel()
	w := newJobWorld(t, Network{}, startJobServers(t), func(p *spec.Plan) { p.Point.Concurrency = 64 })
	settings := must(os.ReadFile(w.path("given/settings.json")))
	w.put("given/settings.json", bytes.Replace(settings, []byte(`"keepFor":"20s"`), []byte(`"keepFor":"1ms"`), 1), nil)
	// A file system of five pages: three hold what is written before the load, and an
	// episode takes four at least, however much the machine batches what it stamps.
	script := fmt.Sprintf("mount -t tmpfs -o size=20k tmpfs %s && exec \"$@\"", w.path("results"))
	cmd := w.start("unshare", "-Urm", "sh", "-c", script, "sh", processName)
	if code := jobExit(t, cmd); code != 3 {
		t.Fatalf("exit code %d", code)
	}
	if m := w.message(); m.Verdict != string(spec.Invalid) || !strings.Contains(m.Reason, "no space left on device") {
		t.Errorf("the message is %+v", m)
	}
	kept, _ := graph.ReadResultCopy(w.copied())
	if !bytes.Contains(kept["verdict.json"], []byte("no space left on device")) {
		t.Errorf("the copy has the verdict %s", kept["verdict.json"])
	}
}

func TestASummaryOfSomebodyElseIsARecordThatIsJudgedAgain(t *testing.T) {
	limits, _ := spec.DefaultThresholds(spec.ProfileClassic)
	plan := &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileClassic, Thresholds: limits, Stability: spec.StabilityGate, Inputs: map[string]spec.Input{},
		Point:       spec.OperatingPoint{Workers: 2, Concurrency: 16, InputTokens: 128, OutputTokens: 128, Prompts: "100", Requests: 128},
		Constraints: []spec.Constraint{{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: 2000, Unit: "tokens/s", Tolerance: 0.1, From: "the test"}}}
	result := &graph.AIPerfResult{Throughput: 2283.9, TTFT: map[string]float64{"p50": 54, "p90": 71, "p99": 91}, Served: 128}
	dir := filepath.Join(t.TempDir(), "run")
	r, err := openRun(dir, spec.Run{Schema: spec.RunSchema, ID: "run", Version: "v1.2.3", Command: "aicr validate", Start: "2026-11-16T01:55:18Z"}, plan)
	if err != nil {
		t.Fatal(err)
	}
	events := []spec.Event{{Kind: spec.EventStage, Stage: "episode", Episode: 1}, {T: 9, Kind: spec.EventStage, Stage: "end"}}
	e := result.Episode(plan.Point, time.Unix(0, 0))
	v := judge.Judge(plan, events, e)
	if err := errors.Join(r.Event(events[0]), r.Episode(e), r.Event(events[1]), r.close(v, time.Unix(9, 0))); err != nil {
		t.Fatal(err)
	}
	again, code := rejudged(t, dir)
	kept, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	if err != nil || !bytes.Equal(again, kept) || code != 0 || v.Verdict != spec.Pass {
		t.Errorf("%s, then exit code %d: %v\n%s", v.Verdict, code, err, again)
	}
	for _, args := range [][]string{{"report", dir}, {"report", dir, "--report", "html=" + dir + ".html"}} {
		env, said := testEnv(nil, args...), &bytes.Buffer{}
		env.Stderr = said
		if code := Run(t.Context(), env); code != 0 {
			t.Errorf("aicr %v: exit code %d: %s", args, code, said)
		}
	}
}

// killInner kills the process that loads, as the kernel does when memory is used up.
func (w *jobWorld) killInner() {
	w.t.Helper()
	for _, file := range must(filepath.Glob("/proc/[0-9]*/cmdline")) {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("--inner")) || !bytes.Contains(line, []byte(w.path("results"))) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				w.t.Fatal(err)
			}
			return
		}
	}
	w.t.Fatal("nobody loads")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestWhatAJobCannotUseIsToldAllAtOnce(t *testing.T) {
	w := newJobWorld(t, Network{}, startJobServers(t), nil)
	w.put("given/targets.json", []byte(`{"urls":"http://x"}`), nil)
	w.put("given/settings.json", []byte(`{}{}`), nil)
	w.put("given/plan.yaml", []byte("profile: [\n"), nil)
	cmd := w.start(processName)
	if code := jobExit(t, cmd); code != 3 {
		t.Errorf("exit code %d", code)
	}
	m := w.message()
	for _, want := range []string{"targets.json", "settings.json", "plan.yaml"} {
		if !strings.Contains(m.Error, want) || !strings.Contains(w.out.String(), want) || !strings.Contains(w.said.String(), want) {
			t.Errorf("%s is not told in the message, the log and the error: %+v\n%s\n%s", want, m, w.out.String(), w.said.String())
		}
	}
	if m.Verdict != "" || m.Stage != "failed" {
		t.Errorf("the message is %+v", m)
	}
}

func TestTheClockOfARunGoesOnWhateverThisMachinesSays(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339Nano) }
	for name, c := range map[string]struct {
		start  string
		events []spec.Event
		want   time.Duration
	}{
		"alike":         {at(-time.Minute), []spec.Event{{T: 40}}, time.Minute},
		"slow":          {at(time.Hour), []spec.Event{{T: 40}, {T: 12}}, 40 * time.Second},
		"slow and new":  {at(time.Hour), nil, 0},
		"not told when": {"", []spec.Event{{T: 7}}, 7 * time.Second},
	} {
		g := givenRun{run: spec.Run{Start: c.start}, events: c.events}
		if got := g.elapsed(now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestHowAProcessEndedIsSaidInWords(t *testing.T) {
	run := func(script string) error { return exec.Command("sh", "-c", script).Run() }
	for name, c := range map[string]struct {
		err    error
		said   string
		told   *graph.LoadLine
		reason string
		words  string
	}{
		"a panic":            {run("exit 2"), "warming up\npanic: boom\n\ngoroutine 7 [running]:\n", nil, "Panic", "panic: boom"},
		"maps at once":       {run("exit 2"), "fatal error: concurrent map writes\n", nil, "Panic", "concurrent map writes"},
		"killed":             {run("kill -9 $$"), "", nil, "Killed", "memory"},
		"ended":              {run("kill -15 $$"), "", nil, "Killed", "terminated"},
		"no space":           {run("exit 3"), "", &graph.LoadLine{Reason: "NoSpace", Text: "no space left on device"}, "NoSpace", "no space left"},
		"a code":             {run("exit 2"), "", nil, "Exit", "code 2"},
		"well, and no words": {nil, "", nil, "NoResult", "without a verdict"},
	} {
		if got := endOfLoad(c.err, c.said, c.told); got.reason != c.reason || !strings.Contains(got.text, c.words) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.reason, c.words)
		}
	}
}
