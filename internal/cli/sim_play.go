package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/judge"
	"aicr/internal/sim"
	"aicr/internal/spec"
)

type playOptions struct {
	seeds     int
	firstSeed uint64
	episodes  int
	sentinel  float64
	dir       string
	format    string
}

func newSimPlay(a *app) *cobra.Command {
	var o playOptions
	cmd := &cobra.Command{
		Use:   "play FILE|NAME...",
		Short: "Play scenarios in virtual time",
		Long: `Plays each scenario with each seed: the fleet is started, every worker answers
once, and it is loaded for as many episodes as it takes. A line for each says what
came of it. The same scenario and seed give the same bytes.

Nothing is judged yet: verdict, ledger, findings and met are null in the JSON, and
the scenario's expectation is not held against anything.

Exit codes: 0 played; 2 bad usage or a bad scenario file; 3 the record could not
be written; 130 interrupted.`,
		Example: `  aicr sim play healthy
  aicr sim play s5 s6 s7 --seeds 20 -o json
  aicr sim play my-fleet.yaml --run runs`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse("see 'aicr sim list' for those that are built in", "no scenario was named")
			}
			return nil
		},
		ValidArgsFunction: scenarioNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.simPlay(cmd.Context(), args, &o) },
	}
	section(cmd, "What is played", func(f *pflag.FlagSet) {
		f.IntVar(&o.seeds, "seeds", 1, "play each scenario with `N` seeds")
		f.Uint64Var(&o.firstSeed, "first-seed", 1, "`K`, the first of the seeds")
		f.IntVar(&o.episodes, "episodes", 0, "load the fleet `N` times; 0 is once, or until the last episode that a fault names")
		f.Float64Var(&o.sentinel, "sentinel-rate", 0, "send `R` requests a second on a fixed schedule beside the load")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVar(&o.dir, "run", "", "keep each run in a folder of its own below `DIR`")
		outputFlag(f, &o.format)
	})
	return cmd
}

func (o *playOptions) check() error {
	switch {
	case o.seeds < 1:
		return misuse("", "--seeds: %d is not at least 1", o.seeds)
	case o.episodes < 0:
		return misuse("", "--episodes: %d is negative", o.episodes)
	case !(o.sentinel >= 0 && o.sentinel <= 1000):
		return misuse("", "--sentinel-rate: %v is not between 0 and 1000", o.sentinel)
	}
	return nil
}

func (a *app) simPlay(ctx context.Context, args []string, o *playOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	all, err := a.scenarios(args)
	if err == nil && o.dir != "" {
		err = sameTwice(all)
	}
	if err != nil {
		return err
	}
	began := a.env.Now()
	todo := len(all) * o.seeds
	done := 0
	status := a.watch()
	defer status.Done()
	table := &playTable{paint: a.stdoutPalette()}
	err = inOrder(ctx, todo, func(ctx context.Context, i int) (*played, error) {
		return a.playOne(ctx, all[i/o.seeds], o.firstSeed+uint64(i%o.seeds), o)
	}, func(p *played) error {
		done++
		status.Update(oneLine(fmt.Sprintf("played %d of %d: %s, seed %d", done, todo, p.Scenario, p.Seed)))
		if o.format == outputJSON {
			return json.NewEncoder(a.env.Stdout).Encode(p)
		}
		table.rows = append(table.rows, p)
		return nil
	})
	status.Done()
	if o.format == outputJSON {
		if err == nil {
			a.say("nothing was judged: there is no judge yet")
		}
		return err
	}
	if len(table.rows) > 0 { // what was played is told, whatever went wrong then
		if _, lost := a.env.Stdout.Write(table.text(todo, a.env.Now().Sub(began))); err == nil {
			err = lost
		}
	}
	return err
}

// sameTwice finds scenarios whose records would be the same folder.
func sameTwice(all []named) error {
	seen := map[string]bool{}
	var wrong []error
	for _, s := range all {
		if seen[s.Metadata.Name] {
			wrong = append(wrong, misuse("name it once, or leave --run out", "scenario %s is named twice, and its runs have one folder", s.Metadata.Name))
		}
		seen[s.Metadata.Name] = true
	}
	return errors.Join(wrong...)
}

// oneLine is a status that says one thing.
type oneLine string

// Block is the line on a terminal.
func (l oneLine) Block(int) []string { return []string{string(l)} }

// Line is the line in a log.
func (l oneLine) Line() string { return string(l) }

// inOrder does n things on every core and hands their results on in the order of
// their numbers.
func inOrder[T any](ctx context.Context, n int, do func(context.Context, int) (T, error), take func(T) error) error {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make([]chan result, n)
	for i := range results {
		results[i] = make(chan result, 1)
	}
	// So many may be ahead of the one that is handed on: what is done waits in
	// memory.
	room := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	next := make(chan int)
	wg.Go(func() {
		defer close(next)
		for i := range n {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				v, err := do(ctx, i)
				results[i] <- result{v, err}
			}
		})
	}
	for i := range n {
		select {
		case r := <-results[i]:
			<-room
			if r.err != nil {
				return r.err
			}
			if err := take(r.value); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// played is a line of the product: what a scenario and a seed came to. What the
// judge will say is null until there is one.
type played struct {
	Scenario string  `json:"scenario"`
	Seed     uint64  `json:"seed"`
	Verdict  *string `json:"verdict"`
	Ledger   *string `json:"ledger"`
	Findings []any   `json:"findings"`
	Episodes int     `json:"episodes"`
	LoadedS  float64 `json:"loadedSeconds"`
	Met      *bool   `json:"met"`

	NotLoaded  string   `json:"notLoaded,omitempty"` // why there was no load
	Throughput *float64 `json:"throughput,omitempty"`
	Reference  float64  `json:"reference,omitempty"`
	TTFT50     *float64 `json:"ttftP50Ms,omitempty"` // of the episode with the worst p99
	TTFT99     *float64 `json:"ttftP99Ms,omitempty"`
	Gap        *float64 `json:"longestGapMs,omitempty"`
	Requests   int      `json:"requests"`
	Failed     int      `json:"failed"`
	Unanswered int      `json:"unanswered"`
	Client     []string `json:"client,omitempty"` // what is wrong with the client
	FirstAfter *float64 `json:"firstAnswerSeconds,omitempty"`
	Run        string   `json:"run,omitempty"`
}

// playOne plays one scenario with one seed from its start to its end.
func (a *app) playOne(ctx context.Context, s named, seed uint64, o *playOptions) (*played, error) {
	p := &played{Scenario: s.Metadata.Name, Seed: seed}
	rec, err := a.openRun(o.dir, s, seed)
	if err != nil {
		return nil, err
	}
	events, ready := sim.Start(s.Scenario, seed)
	clock := time.Duration(0)
	for _, e := range events {
		clock = max(clock, time.Duration(e.T*float64(time.Second)))
		if e.Kind == spec.EventNotServed {
			p.NotLoaded = e.Text
		}
		if e.Kind == spec.EventGPUs && *e.Have == 0 {
			p.NotLoaded = "no free GPU"
		}
		if e.Seconds != nil && (p.FirstAfter == nil || *e.Seconds > *p.FirstAfter) {
			p.FirstAfter = e.Seconds
		}
	}
	if err := rec.events(events...); err != nil {
		return nil, err
	}
	if ready {
		if clock, err = a.playEpisodes(ctx, s, seed, o, p, rec, clock); err != nil {
			return nil, err
		}
	}
	p.Run = rec.dir
	return p, rec.close(clock)
}

// playEpisodes plays the load from a time of the run to that at which it is over.
func (a *app) playEpisodes(ctx context.Context, s named, seed uint64, o *playOptions, p *played, rec *recorder, clock time.Duration) (time.Duration, error) {
	reference, err := s.reference(ctx)
	if err != nil {
		return 0, err
	}
	p.Reference = reference
	var tokens, length float64
	for number := 1; number <= episodesOf(s.Scenario, o); number++ {
		r, err := sim.Play(ctx, s.Scenario, seed, number, sim.Load{Sentinel: o.sentinel})
		if err != nil {
			return 0, err
		}
		start := simulatedEpoch().Add(clock)
		e := judge.Summarize(&judge.Record{Number: number, Start: start.Format(time.RFC3339Nano), Point: r.Point,
			Requests: r.Requests, Series: r.Series, Lags: r.Lags, LagBy: "the model"})
		if err := rec.episode(clock, e, r); err != nil {
			return 0, err
		}
		clock += r.Took
		p.Episodes++
		p.LoadedS += e.LoadedS
		p.Requests += e.Requests.Sent
		p.Failed += e.Requests.Failed
		p.Unanswered += e.Requests.Interrupted
		for _, f := range e.Figures {
			switch {
			case f.Name == judge.Throughput && f.Mean != nil:
				tokens += float64(e.Tokens.Completion)
				length += float64(e.Tokens.Completion) / *f.Mean
			case f.Name == judge.FirstToken && f.P99 != nil && (p.TTFT99 == nil || *f.P99 > *p.TTFT99):
				p.TTFT50, p.TTFT99 = f.P50, f.P99
			case f.Name == judge.LongestGap && f.Max != nil && (p.Gap == nil || *f.Max > *p.Gap):
				p.Gap = f.Max
			}
		}
		for _, why := range e.Client.Reasons {
			if !slices.Contains(p.Client, why.Text) {
				p.Client = append(p.Client, why.Text)
			}
		}
	}
	if length > 0 {
		p.Throughput = pointer(tokens / length)
	}
	return clock, nil
}

// episodesOf is how many episodes are played: until the last that a fault names.
func episodesOf(s *spec.Scenario, o *playOptions) int {
	if o.episodes > 0 {
		return o.episodes
	}
	n := 1
	for _, f := range s.Faults {
		for _, e := range f.Episodes {
			n = max(n, e)
		}
	}
	return n
}

// referenceOf is the throughput of the same fleet without faults, without jitter
// and with a client that is not the limit.
func referenceOf(ctx context.Context, s *spec.Scenario) (float64, error) {
	if s.Reference.Throughput > 0 {
		return s.Reference.Throughput, nil
	}
	r, err := sim.Play(ctx, sim.Healthy(s), 1, 1, sim.Load{})
	if err != nil {
		return 0, err
	}
	for _, f := range judge.Summarize(&judge.Record{Point: r.Point, Requests: r.Requests}).Figures {
		if f.Name == judge.Throughput && f.Mean != nil {
			return *f.Mean, nil
		}
	}
	return 0, unmeasured("", "%s: the fleet serves nothing even without faults", s.Metadata.Name)
}

// simulatedEpoch is when every simulated run begins: a record that held the time
// of day would differ each time.
func simulatedEpoch() time.Time { return time.Unix(0, 0).UTC() }

// playTable is the product for a person.
type playTable struct {
	rows  []*played
	paint palette
}

func (t *playTable) text(todo int, took time.Duration) []byte {
	var b bytes.Buffer
	var loaded float64
	width := len("scenario")
	for _, p := range t.rows {
		loaded += p.LoadedS
		width = max(width, len(p.Scenario))
	}
	of := ""
	if len(t.rows) < todo {
		of = fmt.Sprintf("%d of %d runs, ", len(t.rows), todo)
	}
	fmt.Fprintf(&b, "%s  %s%s of load in %s; not judged\n\n", t.paint.bold("PLAYED"), of,
		time.Duration(loaded*float64(time.Second)).Round(time.Second), short(took))
	fmt.Fprintf(&b, "  %-*s  %6s  %8s  %9s  %9s  %9s  %9s  %9s  %7s\n", width, "scenario", "seed", "episodes", "tokens/s", "reference", "ttft p50", "ttft p99", "gap max", "lost")
	for _, p := range t.rows {
		if p.NotLoaded != "" {
			fmt.Fprintf(&b, "  %-*s  %6d  %s\n", width, p.Scenario, p.Seed, t.paint.yellow("not loaded: "+p.NotLoaded))
			continue
		}
		lost := fmt.Sprintf("%7s", number(float64(p.Failed+p.Unanswered)))
		if p.Failed+p.Unanswered > 0 {
			lost = t.paint.red(lost)
		}
		rate, share := "–", "–"
		if p.Throughput != nil {
			rate = number(*p.Throughput)
			share = fmt.Sprintf("%.0f %%", 100**p.Throughput/p.Reference)
		}
		fmt.Fprintf(&b, "  %-*s  %6d  %8d  %9s  %9s  %9s  %9s  %9s  %s", width, p.Scenario, p.Seed, p.Episodes,
			rate, share, ms(p.TTFT50), ms(p.TTFT99), ms(p.Gap), lost)
		if p.FirstAfter != nil && *p.FirstAfter > coldAfter.Seconds() {
			fmt.Fprintf(&b, "  first answer after %.1f s", *p.FirstAfter)
		}
		if len(p.Client) > 0 {
			fmt.Fprintf(&b, "  %s", t.paint.yellow("client "+strings.Join(p.Client, ", ")))
		}
		b.WriteByte('\n')
		if p.Run != "" {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, "", p.Run)
		}
	}
	return b.Bytes()
}

// coldAfter is how long a first answer may take before the table tells.
const coldAfter = 5 * time.Second
