package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
)

type serveOptions struct {
	listen     string
	workerPort int
	gpuPort    int
	nodePort   int
	model      string
	seed       uint64
	speed      float64
	faults     string
	format     string
}

func newSimServe(a *app) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve FILE|NAME",
		Short: "Serve a scenario over HTTP in real time",
		Long: `Serves the fleet as an OpenAI-compatible endpoint with the wire format of Dynamo's
frontend. Behind it, on ports of their own, are the workers' metrics with vLLM's
names, a DCGM exporter and a node exporter. What goes wrong in the scenario goes
wrong here; its windows count from the first request, and recur with every stretch
of the episode's length.

Faults are switched while it runs by a POST to /faults, with the token that is
printed at the start, or by writing them into the file of --faults-file. Either
takes the scenario's faults: list, replaces what was set before, and counts
windows from then on.

It runs until it is interrupted.`,
		Example: `  aicr sim serve small
  aicr sim serve one-worker-stall --listen 127.0.0.1:9000
  aicr sim serve small --faults-file faults.yaml --speed 2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse("see 'aicr sim list' for those that are built in", "one scenario is served at a time, %d were named", len(args))
			}
			return nil
		},
		ValidArgsFunction: scenarioNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.simServe(cmd.Context(), args[0], &o) },
	}
	section(cmd, "Addresses", func(f *pflag.FlagSet) {
		f.StringVar(&o.listen, "listen", "127.0.0.1:8000", "serve the frontend at `ADDRESS`; port 0 is any that is free, for the other ports too")
		f.IntVar(&o.workerPort, "worker-port", 9200, "serve the first worker's metrics at port `P`, the others' at those that follow; 0 is any")
		f.IntVar(&o.gpuPort, "gpu-port", 9400, "serve the DCGM exporter at port `P`; 0 is any")
		f.IntVar(&o.nodePort, "node-port", 9100, "serve the node exporter at port `P`; 0 is any")
	})
	section(cmd, "Behaviour", func(f *pflag.FlagSet) {
		f.StringVar(&o.model, "model", serve.DefaultModel, "serve the model under this `NAME`")
		f.Uint64Var(&o.seed, "seed", 1, "`SEED` of all that is left to chance")
		f.Float64Var(&o.speed, "speed", 1, "let the fleet go `X` times as fast as real time")
		f.StringVar(&o.faults, "faults-file", "", "switch faults as `FILE` says, whenever it changes")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) { outputFlag(f, &o.format) })
	return cmd
}

func (o *serveOptions) check(changed func(string) bool) (host string, port int, err error) {
	var wrong []error
	host, text, err := net.SplitHostPort(o.listen)
	if err != nil {
		wrong = append(wrong, misuse("write it as 127.0.0.1:8000", "--listen: %q is not an address and a port", o.listen))
	} else if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		wrong = append(wrong, misuse("write it as 127.0.0.1:8000", "--listen: %q is not a port", text))
	}
	for _, p := range []struct {
		name string
		port *int
	}{{"worker-port", &o.workerPort}, {"gpu-port", &o.gpuPort}, {"node-port", &o.nodePort}} {
		if *p.port < 0 || *p.port > 65535 {
			wrong = append(wrong, misuse("", "--%s: %d is not a port", p.name, *p.port))
		}
		if port == 0 && !changed(p.name) {
			*p.port = 0
		}
	}
	if !(o.speed > 0 && o.speed <= 1000) {
		wrong = append(wrong, misuse("", "--speed: %v is not above 0 and at most 1000", o.speed))
	}
	return host, port, errors.Join(wrong...)
}

func (a *app) simServe(ctx context.Context, arg string, o *serveOptions) error {
	host, port, err := o.check(func(flag string) bool { return a.settings.of(flag).Source != FromDefault })
	s, readErr := readScenario(arg)
	if err := errors.Join(err, readErr); err != nil {
		return err
	}
	token := rand.Text()
	fleet := sim.NewLive(s.Scenario, o.seed, o.speed)
	server := serve.New(fleet, s.Scenario, serve.Options{Model: o.model, Token: token, Node: sim.NodeName,
		Log: func(line string) { a.say("frontend: %s", line) }})

	house := &listeners{}
	defer house.close()
	frontend, err := house.serve(host, port, server.Frontend())
	if err != nil {
		return err
	}
	doc := serving{Scenario: s.Metadata.Name, Model: o.model, Router: s.Fleet.Router, Speed: o.speed, URL: "http://" + frontend, FaultsToken: token}
	doc.FrontendMetrics, doc.Faults = doc.URL+"/metrics", doc.URL+"/faults"
	for i, w := range fleet.Snapshot().Workers {
		at, err := house.serve(host, offset(o.workerPort, i), server.Worker(i))
		if err != nil {
			return err
		}
		doc.Workers = append(doc.Workers, servingWorker{strconv.Itoa(i), strconv.FormatUint(w.ID, 10), "http://" + at + "/metrics"})
	}
	for _, page := range []struct {
		port int
		h    http.Handler
		url  *string
	}{{o.gpuPort, server.GPUs(), &doc.GPUMetrics}, {o.nodePort, server.Node(), &doc.NodeMetrics}} {
		at, err := house.serve(host, page.port, page.h)
		if err != nil {
			return err
		}
		*page.url = "http://" + at + "/metrics"
	}
	var wg sync.WaitGroup
	wg.Go(func() { fleet.Run(ctx) })
	wg.Go(func() { a.watchLateness(ctx, fleet) })
	if o.faults != "" {
		wg.Go(func() { a.followFaults(ctx, o.faults, s.Scenario, fleet) })
	}
	if !loopback(host) {
		a.say("warning: %s can be reached from other machines; what is served has no password but /faults", o.listen)
	}
	if err := a.printServing(&doc, s.Scenario, o.format); err != nil {
		return err
	}
	<-ctx.Done()
	house.close()
	wg.Wait()
	return nil
}

func offset(port, i int) int {
	if port == 0 {
		return 0
	}
	return port + i
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// listeners are the servers of one fleet.
type listeners struct{ all []*http.Server }

func (l *listeners) serve(host string, port int, h http.Handler) (address string, err error) {
	at, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return "", misuse("name other ports with --listen, --worker-port, --gpu-port and --node-port; 0 is any that is free", "listening: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	l.all = append(l.all, srv)
	go func() { _ = srv.Serve(at) }() // it ends by Close
	return at.Addr().String(), nil
}

func (l *listeners) close() {
	for _, srv := range l.all {
		_ = srv.Close() // there is nobody left to tell
	}
}

// serving is the product: where everything is.
type serving struct {
	Scenario        string          `json:"scenario"`
	Model           string          `json:"model"`
	Router          string          `json:"router"`
	Speed           float64         `json:"speed"`
	URL             string          `json:"url"`
	FrontendMetrics string          `json:"frontendMetrics"`
	Workers         []servingWorker `json:"workers"`
	GPUMetrics      string          `json:"gpuMetrics"`
	NodeMetrics     string          `json:"nodeMetrics"`
	Faults          string          `json:"faults"`
	FaultsToken     string          `json:"faultsToken"`
}

type servingWorker struct {
	Name    string `json:"name"`
	ID      string `json:"id"` // a u64: as text, since it does not fit a float
	Metrics string `json:"metrics"`
}

func (a *app) printServing(d *serving, s *spec.Scenario, format string) error {
	if format == outputJSON {
		return a.printJSON(d)
	}
	var b bytes.Buffer
	paint := a.stdoutPalette()
	fmt.Fprintf(&b, "%s  %s: %d workers, %s, model %s\n\n", paint.green("SERVING"), d.Scenario, s.Fleet.Workers, d.Router, d.Model)
	line := func(name, text string) { fmt.Fprintf(&b, "  %-11s %s\n", name, text) }
	line("endpoint", paint.bold(d.URL+"/v1"))
	line("frontend", d.FrontendMetrics)
	for _, w := range d.Workers {
		line("worker "+w.Name, fmt.Sprintf("%s  id %s", w.Metrics, w.ID))
	}
	line("gpus", d.GPUMetrics)
	line("node", d.NodeMetrics)
	line("load it", fmt.Sprintf("aicr bench --url %s --model %s --concurrency %d --ramp %s --benchmark-duration %.0f --isl %d --osl %d", d.URL, d.Model,
		s.Load.ConcurrencyPerGPU*s.Fleet.Workers, s.Load.Ramp, s.Load.Episode.D().Seconds(), s.Load.InputTokens, s.Load.OutputTokens))
	line("break it", fmt.Sprintf("curl -H 'Authorization: Bearer %s' %s -d '[{kind: worker-slow, workers: [0], factor: 4}]'", d.FaultsToken, d.Faults))
	line("mend it", fmt.Sprintf("curl -H 'Authorization: Bearer %s' %s -d '[]'", d.FaultsToken, d.Faults))
	_, err := a.env.Stdout.Write(b.Bytes())
	return err
}

// How often a fleet is asked whether it keeps up, and how late is too late: a
// step of a worker takes some 10 ms.
const (
	latenessEvery = 5 * time.Second
	tooLate       = 50 * time.Millisecond
)

// watchLateness says so when this machine cannot keep up with the fleet.
func (a *app) watchLateness(ctx context.Context, fleet *sim.Live) {
	every := time.NewTicker(latenessEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if late := fleet.Late(); late > tooLate {
				a.say("warning: this machine cannot keep up: the fleet was up to %s late; what is measured of it now is not the fleet's", short(late))
			}
		}
	}
}

// faultsEvery is how often the file of faults is looked at.
const faultsEvery = 200 * time.Millisecond

// followFaults sets the faults that a file tells, whenever it tells others. A
// file that is not there tells nothing; one that is wrong changes nothing.
func (a *app) followFaults(ctx context.Context, path string, s *spec.Scenario, fleet *sim.Live) {
	var last []byte
	there := false
	every := time.NewTicker(faultsEvery)
	defer every.Stop()
	for {
		data, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			if there {
				there, last = false, nil
				fleet.SetFaults(nil)
				a.say("%s is gone: no faults", path)
			}
		case err != nil:
			a.say("reading faults: %v", err)
		case !there || !bytes.Equal(data, last):
			there, last = true, data
			a.setFaults(path, data, s, fleet)
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (a *app) setFaults(path string, data []byte, s *spec.Scenario, fleet *sim.Live) {
	faults, err := spec.DecodeFaults(data, s)
	if err != nil {
		tell(a.env.Stderr, a.stderrPalette(), problems(mistakes(path, err), Misused, ""))
		a.say("the faults are left as they were")
		return
	}
	fleet.SetFaults(faults)
	a.say("%s: %d faults are set", path, len(faults))
}
