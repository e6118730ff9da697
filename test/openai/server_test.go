package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// patience is how long the program may take for what should be done at once.
const patience = 20 * time.Second

// build makes the program from the tree around this module.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "aicr")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/aicr")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	return program
}

// server is the program at work. The fields with names of the outside are what
// it printed.
type server struct {
	URL         string
	Model       string
	Faults      string
	FaultsToken string
	Workers     []struct{ ID, Metrics string }

	cmd       *exec.Cmd
	after     bytes.Buffer // what it printed after it was ready
	stderr    bytes.Buffer
	printed   chan struct{} // closed when it prints no more
	interrupt func()
}

// start serves the scenario "small", as a user would, and interrupts it when
// the test ends.
func start(t *testing.T, program string) *server {
	t.Helper()
	s := &server{printed: make(chan struct{})}
	s.cmd = exec.Command(program, "sim", "serve", "small", "--listen", "127.0.0.1:0", "-o", "json")
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan error, 1)
	go func() {
		defer close(s.printed)
		d := json.NewDecoder(stdout)
		ready <- d.Decode(s)
		_, _ = io.Copy(&s.after, io.MultiReader(d.Buffered(), stdout)) // it ends with the program
	}()
	slow := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	err = <-ready
	if slow.Stop(); err != nil {
		_ = s.cmd.Process.Kill()
		<-s.printed
		_ = s.cmd.Wait()
		t.Fatalf("the program did not say where it serves: %v\n%s", err, &s.stderr)
	}
	s.interrupt = sync.OnceFunc(func() { s.end(t) })
	t.Cleanup(s.interrupt)
	return s
}

// end interrupts the program, which has to leave in good order.
func (s *server) end(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("interrupting: %v", err)
	}
	slow := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer slow.Stop()
	<-s.printed
	_ = s.cmd.Wait() // the exit code says it all
	if code := s.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("interrupted, the program exits with %d (%s), want 130", code, s.cmd.ProcessState)
	}
	told := slices.DeleteFunc(slices.Collect(strings.Lines(s.stderr.String())), func(line string) bool {
		return strings.HasPrefix(line, "warning: this machine cannot keep up: ") || // true of a busy machine
			strings.HasPrefix(line, "frontend: faults: ") || // what the tests set
			line == "stopping; interrupt again to exit at once\n" // unless it has stopped by then
	})
	if len(told) > 0 {
		t.Errorf("standard error: %q", told)
	}
	if rest := strings.TrimSpace(s.after.String()); rest != "" {
		t.Errorf("standard output has more than where it serves: %q", rest)
	}
}

// client is the official client, set up as its users set it up, but for a limit
// that makes an answer that never comes an error.
func (s *server) client(more ...option.RequestOption) *openai.Client {
	c := openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(s.URL + "/v1"), option.WithAPIKey("none"), option.WithRequestTimeout(patience),
	}, more...)...)
	return &c
}

// breaks sets the faults of the fleet; mends takes them away.
func (s *server) breaks(t *testing.T, faults string) {
	t.Helper()
	if err := s.setFaults(http.MethodPost, faults); err != nil {
		t.Fatal(err)
	}
}

func (s *server) mends(t *testing.T) {
	t.Helper()
	if err := s.setFaults(http.MethodDelete, ""); err != nil {
		t.Error(err) // and not Fatal: it is called by the client too, in whatever goroutine
	}
}

func (s *server) setFaults(method, faults string) error {
	req, err := http.NewRequest(method, s.Faults, strings.NewReader(faults))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.FaultsToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		return fmt.Errorf("setting faults %q: %s: %s", faults, res.Status, body)
	}
	return nil
}

// running is how many requests the workers say that they work at.
func (s *server) running(t *testing.T) (sum int) {
	t.Helper()
	for _, w := range s.Workers {
		res, err := http.Get(w.Metrics)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			rest, is := strings.CutPrefix(lines.Text(), "vllm:num_requests_running{")
			if !is {
				continue
			}
			n, err := strconv.Atoi(rest[strings.LastIndexByte(rest, ' ')+1:])
			if err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			sum += n
		}
		_ = res.Body.Close()
	}
	return sum
}

// awaitRunning waits until the workers work at n requests.
func (s *server) awaitRunning(t *testing.T, n int) {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got := s.running(t)
		if got == n {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%d requests run after %s, want %d", got, patience, n)
		}
	}
}
