package serve

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/sim"
	"aicr/internal/spec"
	"aicr/test/memnet"
)

// puppet is a fleet that does what a test says. With a step it takes its time,
// which has to be virtual; without one it answers inside Submit.
type puppet struct {
	step    time.Duration // between what it tells
	outcome sim.Outcome   // of every stream; Unended: Served
	status  int           // when it is Refused
	tokens  int           // before an outcome that is not Served
	last    bool          // the workers are gone once it has a request
	workers []sim.WorkerState

	mu        sync.Mutex
	began     time.Time
	streams   []*sim.Stream
	abandoned []*sim.Stream
	quit      map[*sim.Stream]chan struct{}
	ended     int
	faults    []spec.Fault
	snapshots int // that were taken
}

// The ids are above 2^53 and odd: a client that takes them for floats is wrong.
// They are not in order, as real ones are not.
func newPuppet() *puppet {
	return &puppet{began: time.Now(), quit: map[*sim.Stream]chan struct{}{},
		workers: []sim.WorkerState{{ID: 15440633145584257461, Present: true}, {ID: 13508364658517883845, Present: true}}}
}

func (p *puppet) now() time.Duration { return time.Since(p.began) }

func (p *puppet) Submit(s *sim.Stream, c sim.Client) {
	quit := make(chan struct{})
	p.mu.Lock()
	s.Arrived = p.now()
	s.Worker = len(p.streams) % len(p.workers)
	p.streams = append(p.streams, s)
	p.quit[s] = quit
	if p.last {
		nobody(p)
	}
	p.mu.Unlock()
	if p.step == 0 {
		p.play(s, c, quit)
		return
	}
	go p.play(s, c, quit)
}

func (p *puppet) play(s *sim.Stream, c sim.Client, quit chan struct{}) {
	end := func(o sim.Outcome) {
		p.mu.Lock()
		p.ended++
		p.mu.Unlock()
		s.Outcome = o
		c.Ended(p.now(), s)
	}
	wait := func() bool {
		if p.step == 0 {
			return true
		}
		select {
		case <-quit:
			end(sim.Abandoned)
			return false
		case <-time.After(p.step):
			return true
		}
	}
	outcome, tokens := p.outcome, p.tokens
	if outcome == sim.Unended {
		outcome, tokens = sim.Served, s.Output
	}
	if !wait() {
		return
	}
	if outcome == sim.Refused {
		s.Status = p.status
		end(outcome)
		return
	}
	c.Routed(p.now(), s)
	for s.Given < tokens {
		if !wait() {
			return
		}
		s.Given++
		c.Token(p.now(), s)
	}
	end(outcome)
}

func (p *puppet) Abandon(s *sim.Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned = append(p.abandoned, s)
	close(p.quit[s])
}

// Snapshot is of the workers as they are, unless they have no pods.
func (p *puppet) Snapshot() sim.Snapshot {
	_, why := p.Serving()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snapshots++
	return p.snapshot(why)
}

func (p *puppet) snapshot(why spec.FaultKind) sim.Snapshot {
	workers := slices.Clone(p.workers)
	for i := range workers {
		workers[i].Present = workers[i].Present && why != spec.DRAStale
	}
	return sim.Snapshot{At: p.now(), Workers: workers, GPUs: make([]sim.GPUState, len(workers))}
}

func (p *puppet) Present() []int {
	_, why := p.Serving()
	p.mu.Lock()
	defer p.mu.Unlock()
	var there []int
	for i, w := range p.snapshot(why).Workers {
		if w.Present {
			there = append(there, i)
		}
	}
	return there
}

// Observe forgets who observes: a puppet's workers see nothing.
func (p *puppet) Observe(sim.Observer) {}

// Serving is by the faults that are set, all of which are always on.
func (p *puppet) Serving() (bool, spec.FaultKind) {
	for _, f := range p.Faults() {
		if f.Kind == spec.DiscoveryPanic || f.Kind == spec.DRAStale {
			return false, f.Kind
		}
	}
	return true, ""
}

func (p *puppet) Faults() []spec.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

func (p *puppet) SetFaults(faults []spec.Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
}

// scenario says five words where nothing else is asked for, and has room for 64
// tokens in all.
func scenario(t testing.TB) *spec.Scenario {
	t.Helper()
	s, ok := spec.NewScenario("puppet", "small")
	if !ok {
		t.Fatal("there is no profile small")
	}
	s.Fleet.Workers, s.Fleet.KVBlocks = 2, 4
	s.Load.OutputTokens = 5
	return s
}

const (
	testModel = "tiny"
	testToken = "open-sesame"
)

func serverOf(t testing.TB, f fleet) *Server {
	t.Helper()
	return newServer(f, scenario(t), Options{Model: testModel, Token: testToken, Node: "node-0"})
}

// simAddress is where the server of inVirtualTime listens.
const simAddress = "sim.test:80"

// inVirtualTime runs f beside a server of the handler.
func inVirtualTime(t *testing.T, handler func(t *testing.T) http.Handler, f func(t *testing.T, network *memnet.Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := &memnet.Net{}
		srv, listener := &http.Server{Handler: handler(t)}, network.Listen(simAddress)
		go func() { _ = srv.Serve(listener) }() // it ends by Close
		f(t, network)
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
}

// exchange sends a request as it is and returns the answer as it is.
func exchange(t *testing.T, network *memnet.Net, request string) string {
	t.Helper()
	conn, err := network.Dial(t.Context(), "tcp", simAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // what fails is missed by the server
	var raw bytes.Buffer
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, &raw)), &http.Request{Method: method})
	if err != nil {
		return fmt.Sprintf("%s(the connection broke: %v)\n", raw.String(), err)
	}
	if _, err := io.ReadAll(res.Body); err != nil {
		return fmt.Sprintf("%s\n(the connection broke: %v)\n", raw.String(), err)
	}
	return raw.String()
}

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: sim.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func getting(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: sim.test\r\n\r\n" }

const (
	chatPath  = "/v1/chat/completions"
	plainPath = "/v1/completions"
)
