package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/checks"
	"aicr/internal/judge"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

type playOptions struct {
	seeds     int
	firstSeed uint64
	episodes  int
	sentinel  float64
	profile   string
	dir       string
	format    string
}

func newSimPlay(a *app) *cobra.Command {
	var o playOptions
	cmd := &cobra.Command{
		Use:   "play FILE|NAME...",
		Short: "Play scenarios in virtual time",
		Long: `Plays each scenario with each seed, as 'aicr validate --sim' does: the fleet is
started, every worker answers once, and it is loaded for as many episodes as the
verdict takes. A line for each says what came of it, and whether that is what the
scenario expects. The same scenario and seed give the same bytes.

Exit codes: 0 played, and every expectation was met; 1 one was not; 2 bad usage or a
bad scenario file; 3 the record could not be written; 130 interrupted.`,
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
		f.IntVar(&o.episodes, "episodes", 0, "load the fleet `N` times, and judge it as a run that ends there; 0 is until it is decided")
		f.Float64Var(&o.sentinel, "sentinel-rate", 0, "send `R` requests a second of the load on a fixed schedule; 0: none (default: a hundredth of what is in flight, at least 0.5 and at most 10, and no more than keeps about a tenth of the load in flight)")
		f.StringVar(&o.profile, "profile", spec.ProfileStandard, "`NAME` of the profile that it is judged by: smoke, quick, standard, certify, or classic, the published gate")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVar(&o.dir, "run", "", "keep each run in a folder of its own below `DIR`")
		outputFlag(f, &o.format)
	})
	completes(cmd, "profile", spec.Profiles()...)
	return cmd
}

func (o *playOptions) check() error {
	var wrong []error
	if o.seeds < 1 {
		wrong = append(wrong, misuse("", "--seeds: %d is not at least 1", o.seeds))
	}
	if o.episodes < 0 || o.episodes > mostEpisodes {
		wrong = append(wrong, misuse("", "--episodes: %d is not between 0 and %d", o.episodes, mostEpisodes))
	}
	if !(o.sentinel >= 0 && o.sentinel <= 1000) {
		wrong = append(wrong, misuse("", "--sentinel-rate: %v is not between 0 and 1000", o.sentinel))
	}
	if err := chosen("profile", o.profile, spec.Profiles()); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// mostEpisodes is how many episodes a run can have: their folders have three digits.
const mostEpisodes = 999

func (a *app) simPlay(ctx context.Context, args []string, o *playOptions) error {
	all, err := a.scenarios(args)
	err = errors.Join(o.check(), err)
	if err == nil && o.dir != "" {
		err = sameTwice(all)
	}
	if err != nil {
		return err
	}
	began := a.env.Now()
	todo := len(all) * o.seeds
	done, missed := 0, 0
	status := a.watch()
	defer status.Done()
	table := &playTable{paint: a.stdoutPalette()}
	err = inOrder(ctx, todo, func(ctx context.Context, i int) (*played, error) {
		return a.playOne(ctx, all[i/o.seeds], o.firstSeed+uint64(i%o.seeds), o)
	}, func(p *played) error {
		done++
		status.Update(oneLine(fmt.Sprintf("played %d of %d: %s, seed %d", done, todo, p.Scenario, p.Seed)))
		if p.Met != nil && !*p.Met {
			missed++
		}
		if o.format == outputJSON {
			return json.NewEncoder(a.env.Stdout).Encode(p)
		}
		table.rows = append(table.rows, p)
		return nil
	})
	status.Done()
	if len(table.rows) > 0 { // what was played is told, whatever went wrong then
		if _, lost := a.env.Stdout.Write(table.text(todo, a.env.Now().Sub(began))); err == nil {
			err = lost
		}
	}
	if err == nil && missed > 0 {
		return Failed
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

// played is a line of the product: what a scenario and a seed came to.
type played struct {
	Scenario string        `json:"scenario"`
	Seed     uint64        `json:"seed"`
	Verdict  spec.State    `json:"verdict"`
	Ledger   *string       `json:"ledger"` // that decided; none of a PASS or a SKIP
	Findings []playedCause `json:"findings"`
	Episodes int           `json:"episodes"`
	LoadedS  float64       `json:"loadedSeconds"`
	Met      *bool         `json:"met"` // null where the scenario expects nothing

	Reason     string   `json:"reason"`
	NotLoaded  string   `json:"notLoaded,omitempty"` // why there was no load
	Throughput *float64 `json:"throughput,omitempty"`
	Reference  float64  `json:"reference,omitempty"`
	Ratio      *float64 `json:"ratio,omitempty"`     // of the reference, by the judge
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

type playedCause struct {
	ID      string   `json:"id"`
	Workers []string `json:"workers"`
}

// playOne plays one scenario with one seed from its start to its end.
func (a *app) playOne(ctx context.Context, s named, seed uint64, o *playOptions) (*played, error) {
	plan, err := a.playPlan(ctx, s, seed, o)
	if err != nil {
		return nil, err
	}
	id, dir := fmt.Sprintf("%s-%d", s.Metadata.Name, seed), ""
	if o.dir != "" {
		dir = filepath.Join(o.dir, id)
	}
	record, err := openRun(dir, spec.Run{Schema: spec.RunSchema, ID: id, Version: a.env.Build.Version,
		Command: a.commandLine("sim play " + layout.Quoted(s.asked)), Target: spec.Target{Scenario: s.Metadata.Name, Seed: seed, Simulated: true},
		Start: simulatedEpoch().Format(time.RFC3339Nano)}, plan)
	if err != nil {
		return nil, err
	}
	fleet := &virtualFleet{scenario: s.Scenario, seed: seed}
	t := &tallied{recorder: record, played: played{Scenario: s.Metadata.Name, Seed: seed, Run: dir}}
	var v *spec.Verdict
	if o.episodes > 0 {
		v, err = playFixed(ctx, plan, fleet, t, o.episodes)
	} else {
		v, err = checks.Run(ctx, plan, fleet, t, nobody{})
	}
	if err != nil { // it was interrupted, or could not be kept: a line is of a whole run
		return nil, err
	}
	if plan.Reference != nil {
		t.played.Reference = plan.Reference.Throughput
	}
	t.played.judged(v, s.Expect)
	return &t.played, record.close(v, simulatedEpoch().Add(fleet.Now()))
}

// playPlan plans a run of the scenario at its own operating point.
func (a *app) playPlan(ctx context.Context, s named, seed uint64, o *playOptions) (*spec.Plan, error) {
	p := a.newPlanner(nil, &s)
	for _, flag := range []string{"profile", "seeds", "first-seed", "episodes"} {
		if set := a.settings.of(flag); !p.said(flag) {
			p.note(flag, set.Value, string(set.Source), "")
		}
	}
	p.note("scenario", s.asked, fromArgument, "")
	p.note("seed", strconv.FormatUint(seed, 10), "first-seed and on", "")
	plan, err := p.plan(o.profile, defaultStability(o.profile), p.point(o.profile, pointFlags{sentinel: o.sentinel}), seed)
	if err != nil {
		return nil, err
	}
	if o.episodes > 0 {
		plan.Thresholds.MaxEpisodes, plan.Thresholds.MinEpisodes = o.episodes, min(plan.Thresholds.MinEpisodes, o.episodes)
		plan.Cost = costOf(plan)
	}
	return plan, p.refer(ctx, plan)
}

// playFixed loads the fleet so many times, whatever the judge would say in between.
func playFixed(ctx context.Context, plan *spec.Plan, fleet *virtualFleet, keep *tallied, episodes int) (*spec.Verdict, error) {
	judged := judge.NewCase(plan)
	tell := func(e spec.Event) error {
		e.T = max(e.T, fleet.Now().Seconds())
		judged.Hear(e)
		return keep.Event(e)
	}
	ready, err := fleet.Start(ctx, tell)
	for number := 0; ready && err == nil && number <= episodes; number++ {
		point := plan.Point
		if number == 0 {
			if plan.Half == nil {
				continue
			}
			point.Concurrency, point.DurationS = plan.Half.Concurrency, plan.Half.DurationS
		}
		err = tell(spec.Event{Kind: spec.EventStage, Stage: stageEpisode, Episode: number})
		var e *spec.EpisodeRecord
		if err == nil {
			e, err = fleet.Load(ctx, number, point)
		}
		if err == nil {
			err = keep.Episode(e)
		}
		if err == nil {
			judged.Add(e)
		}
	}
	if err == nil {
		err = tell(spec.Event{Kind: spec.EventStage, Stage: "end"})
	}
	v, _ := judged.Verdict()
	return v, err
}

// nobody follows a run.
type nobody struct{}

func (nobody) Stage(string, int)                      {}
func (nobody) Episode(*spec.Episode)                  {}
func (nobody) Judged(int, *spec.Verdict, *judge.Next) {}

// tallied keeps a run and what its line tells beside the verdict.
type tallied struct {
	*recorder
	played played
}

// Event keeps what happened.
func (t *tallied) Event(e spec.Event) error {
	p := &t.played
	if e.Kind == spec.EventNotServed {
		p.NotLoaded = e.Text
	}
	if e.Kind == spec.EventGPUs && e.Have != nil && *e.Have == 0 {
		p.NotLoaded = "no free GPU"
	}
	if e.Seconds != nil && (p.FirstAfter == nil || *e.Seconds > *p.FirstAfter) {
		p.FirstAfter = e.Seconds
	}
	return t.recorder.Event(e)
}

// Episode keeps a whole episode. The look at half the load is none of the load.
func (t *tallied) Episode(r *spec.EpisodeRecord) error {
	if err := t.recorder.Episode(r); err != nil || r.Episode.Number == 0 {
		return err
	}
	p, e := &t.played, &r.Episode
	p.Requests += e.Requests.Sent
	p.Failed += e.Requests.Failed
	p.Unanswered += e.Requests.Interrupted
	for _, f := range e.Figures {
		switch {
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
	return nil
}

// ratioExpected is what the judge calls the throughput against the reference.
const ratioExpected = "throughput-of-reference"

// judged takes what the judge says, and holds it against what was expected.
func (p *played) judged(v *spec.Verdict, want *spec.Expectation) {
	p.Verdict, p.Reason, p.Episodes, p.LoadedS = v.Verdict, v.Reason, v.Episodes, v.LoadedS
	if ledger := judge.LedgerOf(v); ledger != "" {
		p.Ledger = &ledger
	}
	p.Findings = []playedCause{}
	for _, f := range v.Findings {
		p.Findings = append(p.Findings, playedCause{f.ID, append([]string{}, f.Workers...)})
	}
	for _, e := range v.Expectations {
		if e.Name == ratioExpected {
			p.Ratio = e.Value
		}
	}
	for _, f := range v.Figures {
		if f.Name == judge.Throughput {
			p.Throughput = f.Value
		}
	}
	if want == nil {
		return
	}
	met := slices.Contains(want.Verdict, v.Verdict) && (want.Ledger == "" || p.Ledger != nil && *p.Ledger == want.Ledger)
	if want.Finding != "" {
		met = met && slices.ContainsFunc(p.Findings, func(c playedCause) bool {
			return c.ID == want.Finding && (want.Workers == nil || sameWorkers(c.Workers, want.Workers))
		})
	}
	p.Met = &met
}

// sameWorkers says whether exactly these workers are named, in whatever order.
func sameWorkers(named []string, want []int) bool {
	var wanted []string
	for _, w := range want {
		wanted = append(wanted, strconv.Itoa(w))
	}
	return slices.Equal(slices.Sorted(slices.Values(named)), slices.Sorted(slices.Values(wanted)))
}

// playTable is the product for a person.
type playTable struct {
	rows  []*played
	paint layout.Palette
}

func (t *playTable) text(todo int, took time.Duration) []byte {
	var b bytes.Buffer
	var loaded float64
	met, expected := 0, 0
	width, judged := len("scenario"), len("verdict")
	for _, p := range t.rows {
		loaded += p.LoadedS
		width, judged = max(width, len(p.Scenario)), max(judged, len(p.judgement()))
		if p.Met != nil {
			expected++
			if *p.Met {
				met++
			}
		}
	}
	of := ""
	if len(t.rows) < todo {
		of = fmt.Sprintf("%d of %d runs, ", len(t.rows), todo)
	}
	fmt.Fprintf(&b, "%s  %s%s of load in %s; %d of %d as expected\n\n", t.paint.Bold("PLAYED"), of,
		time.Duration(loaded*float64(time.Second)).Round(time.Second), layout.Short(took), met, expected)
	fmt.Fprintf(&b, "  %-*s  %5s  %-*s  %-3s  %8s  %8s  %9s  %8s  %8s  %6s\n", width, "scenario", "seed", judged, "verdict", "met",
		"episodes", "tokens/s", "reference", "ttft p99", "gap max", "lost")
	for _, p := range t.rows {
		fmt.Fprintf(&b, "  %-*s  %5d  %s%*s  %s", width, p.Scenario, p.Seed,
			t.paint.State(p.Verdict)(p.judgement()), judged-len(p.judgement()), "", t.met(p))
		t.figures(&b, p)
		if len(p.Findings) > 0 {
			fmt.Fprintf(&b, "  %-*s  %5s  %s\n", width, "", "", causes(p.Findings))
		}
		if p.Run != "" {
			fmt.Fprintf(&b, "  %-*s  %5s  %s\n", width, "", "", p.Run)
		}
	}
	return b.Bytes()
}

// judgement is the verdict and the ledger that decided it.
func (p *played) judgement() string {
	if p.Ledger == nil {
		return string(p.Verdict)
	}
	return fmt.Sprintf("%s (%s)", p.Verdict, *p.Ledger)
}

func (t *playTable) met(p *played) string {
	switch {
	case p.Met == nil:
		return "–  "
	case *p.Met:
		return t.paint.Green("yes")
	}
	return t.paint.Red("no ")
}

// figures ends a row.
func (t *playTable) figures(b *bytes.Buffer, p *played) {
	if p.NotLoaded != "" {
		fmt.Fprintf(b, "  %s\n", t.paint.Yellow("not loaded: "+p.NotLoaded))
		return
	}
	lost := fmt.Sprintf("%6s", layout.Number(float64(p.Failed+p.Unanswered)))
	if p.Failed+p.Unanswered > 0 {
		lost = t.paint.Red(lost)
	}
	rate, share := "–", "–"
	if p.Throughput != nil {
		rate = layout.Number(*p.Throughput)
	}
	if p.Ratio != nil {
		share = fmt.Sprintf("%.0f %%", 100**p.Ratio)
	}
	fmt.Fprintf(b, "  %8d  %8s  %9s  %8s  %8s  %s", p.Episodes, rate, share, layout.Millis(p.TTFT99), layout.Millis(p.Gap), lost)
	if p.FirstAfter != nil && *p.FirstAfter > coldAfter.Seconds() {
		fmt.Fprintf(b, "  first answer after %.1f s", *p.FirstAfter)
	}
	if len(p.Client) > 0 {
		fmt.Fprintf(b, "  %s", t.paint.Yellow("client "+strings.Join(p.Client, ", ")))
	}
	b.WriteByte('\n')
}

func causes(all []playedCause) string {
	var words []string
	for _, c := range all {
		text := c.ID
		if len(c.Workers) > 0 {
			text += " (" + strings.Join(c.Workers, ", ") + ")"
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// coldAfter is how long a first answer may take before the table tells.
const coldAfter = 5 * time.Second
