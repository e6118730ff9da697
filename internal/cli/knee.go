package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aicr/internal/checks"
	"aicr/internal/judge"
	"aicr/internal/redact"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

func newKnee(a *app) *cobra.Command {
	var o kneeOptions
	cmd := &cobra.Command{
		Use:   "knee --url URL | --sim FILE|NAME",
		Short: "Find where more load stops paying, and propose what to validate at",
		Long: `Loads a deployment at one level after the other, from a few requests in flight a
GPU to beyond the bend of its throughput, and then closer around it. The knee is
where the last doubling of the load brought throughput times 2^0.55. Kneedle and a
fit of the universal scalability law are asked too, and whether they agree is said.

Below the knee it proposes an operating point, measures it several times, and
proposes the reference, floor and guardrail that 'aicr validate' holds a deployment
of this kind against. --write keeps them as a recipe.

A level at which the client itself was the limit never counts.

It loads the deployment beyond its knee for minutes: --dry-run says what that costs.

Exit codes: 0 the knee was found and the point below it measured; 2 bad usage or
target; 3 no knee was found, or the client was the limit; 130 interrupted. What was
measured is printed in any case.`,
		Example: `  aicr knee --url http://localhost:8000 --workers 8 --dry-run
  aicr knee --url http://localhost:8000 --workers 8 --write h100.yaml
  aicr knee --sim healthy
  aicr validate --url http://localhost:8000 --workers 8 --recipe h100.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.knee(cmd.Context(), &o) },
	}
	o.define(cmd)
	return cmd
}

// knee is the command from its options to its exit code.
func (a *app) knee(ctx context.Context, o *kneeOptions) error {
	j, err := o.check(a)
	if err != nil {
		return err
	}
	if o.dryRun {
		return a.printKneeCost(j, o.format)
	}
	view := a.showKnee(j.plan)
	defer view.close()
	target, err := j.reach(ctx, &view.load)
	if err != nil {
		return err
	}
	defer target.close()
	found, err := checks.FindKnee(ctx, j.plan, target, view)
	view.close()
	if err != nil && ctx.Err() == nil {
		return unmeasured("", "looking for the knee: %w", err)
	}
	doc := j.document(found, err != nil)
	var lost error
	if err == nil && o.write != "" && doc.Proposal != nil && doc.Proposal.Reference != nil {
		if lost = j.write(doc, target.begun); lost == nil {
			doc.Written = o.write
		}
	}
	var code error
	if !doc.Known {
		code = Unmeasured
	}
	return errors.Join(a.printKnee(doc, o.format), lost, code)
}

// kneeSchema names the shape of the product.
const kneeSchema = "aicr.run/knee/v1alpha1"

// kneeDoc is the product.
type kneeDoc struct {
	Schema  string      `json:"schema"`
	Known   bool        `json:"known"` // the knee, and what there is below it
	Reason  string      `json:"reason"`
	Version string      `json:"version"`
	Command string      `json:"command"`
	Target  spec.Target `json:"target"`

	GPUs         int     `json:"gpus,omitempty"` // absent: nobody told
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Prompts      string  `json:"prompts"`
	TookS        float64 `json:"took_s"`
	GPUMinutes   float64 `json:"gpu_minutes"`

	Knee      *judge.Knee         `json:"knee,omitempty"`
	Proposal  *judge.KneeProposal `json:"proposal,omitempty"`
	Levels    []judge.KneeLevel   `json:"levels"` // in the order in which they were measured
	Ended     string              `json:"ended,omitempty"`
	Budget    checks.KneeSpent    `json:"budget"`
	More      *checks.KneeMore    `json:"more,omitempty"` // what more budget would buy
	Looks     []judge.KneeLevel   `json:"looks"`          // at half of the proposed load
	Reference []judge.KneeLevel   `json:"reference"`
	Written   string              `json:"written,omitempty"`

	episodeS float64 // of the reference, where answers take so long that it had to be longer than asked for

	again string // the flags that name the target
}

// kneeJob is what the options come to.
type kneeJob struct {
	*validateJob
	knee *kneeOptions
	plan *checks.KneePlan
}

func (j *kneeJob) document(f *checks.KneeFound, interrupted bool) *kneeDoc {
	d := &kneeDoc{Schema: kneeSchema, Version: j.app.env.Build.Version, Command: j.app.commandLine("knee"), Target: j.origin,
		GPUs: f.GPUs, InputTokens: j.plan.Point.InputTokens, OutputTokens: j.plan.Point.OutputTokens, Prompts: j.plan.Point.Prompts,
		TookS: f.Took.Seconds(), GPUMinutes: f.Took.Minutes() * float64(max(1, f.GPUs)),
		Knee: f.Knee, Proposal: f.Proposal, Levels: f.Levels, Ended: f.Ended, Budget: f.Spent, Looks: f.Looks, Reference: f.Reference}
	if f.EpisodeS > j.plan.ReferenceS {
		d.episodeS = math.Ceil(f.EpisodeS)
	}
	if f.More.Levels > 0 {
		d.More = &f.More
	}
	d.again = j.again(f.GPUs)
	switch {
	case f.NotReady != "":
		d.Reason = "it could not be loaded: " + f.NotReady
	case interrupted && (f.Knee == nil || !f.Knee.Found):
		d.Reason = "interrupted before there was a knee"
	case interrupted:
		d.Reason = "interrupted before all of it was measured"
	case !f.Knee.Found:
		d.Reason = f.Knee.Reason
		if f.Ended != "" {
			d.Reason = f.Ended + "; " + d.Reason
		}
	case f.Proposal == nil:
		d.Reason = "there is a knee, and no load below it to propose"
		if !slices.ContainsFunc(f.Levels, func(l judge.KneeLevel) bool { return !l.Full(f.Levels) }) {
			d.Reason += ": requests wait in the engines' queues at every level"
		}
	case f.Denied != "":
		d.Reason = "no load below the knee was confirmed: " + f.Denied
	case f.Proposal.Reference == nil:
		d.Reason = "the point below the knee could not be measured"
		if n := len(f.Reference); n > 0 && f.Reference[n-1].NotUsed != "" {
			d.Reason += ": " + f.Reference[n-1].NotUsed
		}
	default:
		d.Known, d.Reason = true, f.Knee.Reason
	}
	return d
}

// again are the flags that name the target.
func (j *kneeJob) again(gpus int) string {
	if j.named != nil {
		return "--sim " + layout.Quoted(j.named.asked)
	}
	flags := []string{"--url", layout.Quoted(j.options.url)}
	if gpus > 0 {
		flags = append(flags, "--workers", strconv.Itoa(gpus))
	}
	for _, page := range j.options.pages.workers {
		flags = append(flags, "--worker-metrics", layout.Quoted(redact.URL(page)))
	}
	return strings.Join(flags, " ")
}

// kneeWas is where the knee was.
func kneeWas(k *judge.Knee) string {
	if k.Vague && k.Low != nil && k.High != nil {
		return fmt.Sprintf("was within %.0f to %.0f in flight", *k.Low, *k.High)
	}
	return fmt.Sprintf("was at about %.0f in flight", k.InFlight)
}

// write keeps what is proposed as a recipe.
func (j *kneeJob) write(d *kneeDoc, begun time.Time) error {
	p := d.Proposal
	zero := 0.0
	recycled, _ := strconv.Atoi(d.Prompts) // "unique" is none
	name := "measured"
	if j.named != nil {
		name = j.named.Metadata.Name
	}
	r := &spec.Recipe{
		Comment: fmt.Sprintf("Proposed by aicr knee %s: the knee %s.\nfloor: %s\nguardrail: %s\n", d.Version, kneeWas(d.Knee), p.FloorWhy, p.GuardrailWhy),
		Name:    name,
		Phases: spec.RecipePhases{Performance: &spec.RecipePhase{Constraints: []spec.RecipeConstraint{
			{Name: spec.ConstraintThroughput, Value: spec.Wanted(fmt.Sprintf(">= %.0f", p.Floor/float64(d.GPUs))), Unit: spec.UnitTokensPerGPU, Tolerance: &zero},
			{Name: spec.ConstraintTTFT, Value: spec.Wanted(fmt.Sprintf("<= %.0f", p.GuardrailMS)), Unit: spec.UnitMS, Tolerance: &zero},
		}, Verdict: spec.RecipeVerdict{
			Reference: &spec.RecipeReference{Throughput: p.Reference.Throughput, GPUs: d.GPUs, ConcurrencyPerGPU: p.PerGPU,
				InputTokens: d.InputTokens, OutputTokens: d.OutputTokens, Prompts: recycled, Dispersion: p.Reference.Dispersion, N: p.Reference.N},
			Thresholds: spec.ThresholdValues{"ttftGuardrailMs": p.GuardrailMS},
		}}},
	}
	if d.episodeS > 0 { // shorter ones would not settle, and read less than they should
		r.Verdict().Thresholds["episodeS"] = d.episodeS
	}
	if begun.After(simulatedEpoch()) { // virtual time has no date
		r.Verdict().Reference.Measured = begun.UTC().Format(time.RFC3339)
	}
	text, err := spec.EncodeRecipe(r)
	if err == nil {
		err = writeFile(j.knee.write, func(w io.Writer) error { _, err := w.Write(text); return err })
	}
	if err != nil {
		return unmeasured("", "writing the recipe: %w", err)
	}
	return nil
}

// filePlace says why the file of --write cannot be written there.
func filePlace(path string, force bool) error {
	there, err := os.Stat(path)
	switch {
	case err == nil && there.IsDir():
		return misuse("name a file", "--write: %s is a folder", path)
	case err == nil && !force:
		return misuse("name another file, or overwrite it with --force", "--write: %s is there already", path)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return misuse("", "--write: %w", err)
	}
	if folder, err := os.Stat(filepath.Dir(path)); err != nil || !folder.IsDir() {
		return misuse("make it first, or name another place", "--write: there is no folder %s", filepath.Dir(path))
	}
	return nil
}
