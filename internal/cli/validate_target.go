package cli

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"aicr/internal/checks"
	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/observe"
	"aicr/internal/report/layout"
	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
)

// reach makes the target: a fleet in virtual time, one that is served here, or an
// endpoint that exists.
func (j *validateJob) reach(ctx context.Context, view *runView) (*reached, error) {
	if j.named != nil && !j.options.realTime {
		fleet := &virtualFleet{scenario: j.named.Scenario, seed: j.plan.Seed}
		return &reached{Target: fleet, begun: simulatedEpoch(), close: func() {},
			end: func() time.Time { return simulatedEpoch().Add(fleet.Now()) }}, nil
	}
	o := checks.EndpointOptions{Target: j.options.target, NoReuse: j.options.access.reuse == neverReuse, Model: j.options.model, Workers: j.plan.Point.Workers, Point: j.plan.Point, Seed: j.plan.Seed,
		AnswerWithin: time.Duration(j.plan.Thresholds.AnswerWithinS * float64(time.Second)), Host: hostFiles(), Mask: j.app.secrets.known(), Progress: view.Progress,
		Note: func(text string) { j.app.say("%s", text) }}
	var end func()
	if j.named != nil {
		var err error
		if end, err = j.serve(ctx, &o); err != nil {
			return nil, err
		}
	} else {
		o.Runtime, o.Chart = j.papers.versionsBehind()
		j.watched.settleURL(ctx, j.plan.Point.Workers)
		o.Sources, end = j.watched.sources(), j.watched.client.Close
	}
	endpoint, err := checks.NewEndpoint(o)
	if err == nil {
		err = endpoint.Check(ctx)
	}
	if err != nil {
		end()
		return nil, wrongTarget(err)
	}
	return &reached{Target: endpoint, begun: endpoint.Begun(), end: j.app.env.Now, close: end}, nil
}

// wrongTarget words what is wrong with a target.
func wrongTarget(err error) error {
	if w, ok := errors.AsType[*checks.WrongTarget](err); ok {
		return misuse(w.Hint, "%s", w.Text)
	}
	if limit, ok := errors.AsType[*load.DescriptorLimit](err); ok {
		return misuse(limit.Hint(), "%w", limit)
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		return err
	}
	return misuse("", "%w", err)
}

// servedModel is what the served fleet calls its model.
const servedModel = "simulated"

// muchTooLate is a lateness of the fleet that could be taken for the fleet's own
// doing. What falls behind for good comes to it soon; a stall is four times as long.
const muchTooLate = 500 * time.Millisecond

// serve serves the scenario on loopback, and has the endpoint look at all of it.
func (j *validateJob) serve(ctx context.Context, o *checks.EndpointOptions) (end func(), err error) {
	s := loaded(j.named.Scenario, j.plan.Point)
	fleet := sim.NewLive(s, j.plan.Seed, 1)
	server := serve.New(fleet, s, serve.Options{Model: servedModel, Node: sim.NodeName,
		Log: func(line string) { j.app.detail("frontend: %s", line) }})
	client := observe.NewClient(j.app.env.Network.transport())
	house := &listeners{network: j.app.env.Network}
	// An interrupt ends the load in good order, for which the fleet is still needed.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	end = func() {
		house.close()
		cancel()
		running.Wait()
		client.Close()
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	const host = "127.0.0.1"
	at, err := house.serve(host, 0, server.Frontend())
	if err != nil {
		return nil, err
	}
	o.Target = load.TargetOptions{URL: "http://" + at, Endpoint: workload.Chat, UserAgent: "aicr/" + j.app.env.Build.Version}
	o.Target.Dial = j.app.env.Network.dialer(o.Target)
	o.Model, o.Names = servedModel, map[string]string{}
	o.Sources = append(o.Sources, observe.Frontend(client, "http://"+at+"/metrics"))
	seen := fleet.Snapshot()
	for i, w := range seen.Workers {
		at, err := house.serve(host, 0, server.Worker(i))
		if err != nil {
			return nil, err
		}
		name := strconv.Itoa(i)
		o.Names[strconv.FormatUint(w.ID, 10)], o.Names[at] = name, name
		o.Sources = append(o.Sources, observe.Worker(client, "http://"+at+"/metrics", observe.Labels{GPU: strings.Join(w.GPUs, ",")}))
	}
	for _, page := range []struct {
		h      http.Handler
		source func(url string) observe.Source
	}{
		{server.GPUs(), func(url string) observe.Source { return observe.DCGM(client, url) }},
		{server.Node(), func(url string) observe.Source { return observe.NodeExporter(client, url, "") }},
	} {
		at, err := house.serve(host, 0, page.h)
		if err != nil {
			return nil, err
		}
		o.Sources = append(o.Sources, page.source("http://"+at+"/metrics"))
	}
	// A fleet that is late is this machine's fault, as a client is that is late.
	o.Audit = func() []spec.BenchReason {
		late := fleet.Late()
		if late <= muchTooLate {
			return nil
		}
		return []spec.BenchReason{{ID: "client/late", Text: "the simulated fleet itself was up to " + layout.Short(late) + " late", Hint: "give this machine less else to do, or leave --real-time out"}}
	}
	running.Go(func() { fleet.Run(ctx) })
	return end, nil
}
