package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// gpus is every node with its GPUs, who holds them, and which run has reserved it.
func (j *validateJob) gpus(ctx context.Context) ([]kube.GPUNode, error) {
	nodes, err := j.cluster.GPUs(ctx)
	if err == nil {
		var held []kube.Reservation
		held, err = graph.Reservations(ctx, j.cluster, j.options.on.namespace, j.app.env.Now())
		graph.MarkReserved(nodes, held)
	}
	if err != nil {
		return nil, j.options.on.cluster.unasked(j.cluster, fmt.Errorf("asking who holds which GPUs: %w", err))
	}
	return nodes, nil
}

// planAgain looks again what is free, chooses, and plans for the first node that was chosen.
// Without one there is a choice, and no plan for it. A node that was lost is not chosen,
// whatever is seen of its reservation.
func (j *validateJob) planAgain(ctx context.Context, wish graph.Wish, lost ...*graph.TakenError) (*validateJob, error) {
	one := *j
	var err error
	if one.nodes, err = j.gpus(ctx); err != nil {
		return nil, err
	}
	var held []kube.Reservation
	for _, l := range lost {
		held = append(held, kube.Reservation{Node: l.Node, Run: l.Run, Since: l.Since})
	}
	graph.MarkReserved(one.nodes, held)
	wish.Policy, wish.KAI = j.papers.recipe.GPUPolicy, j.offers.KAI
	if one.choice, err = graph.Choose(one.nodes, wish); err != nil {
		return nil, worded(err)
	}
	if len(one.choice.Nodes) == 0 {
		return &one, nil
	}
	return &one, one.planFor(ctx, one.choice.Nodes[0])
}

// planFor plans for a node, which may have other room than the one before. What is asked for
// stays the same: nodes that are compared are asked for the same words.
func (j *validateJob) planFor(ctx context.Context, node graph.Chosen) error {
	j.fleet, j.fleetOf = node.Workers, "node "+node.Node
	seed, planned := j.options.seed, j.plan.Seed
	if err := j.makePlan(ctx, j.papers.recipe); err != nil {
		return err
	}
	j.options.seed, j.plan.Seed = seed, planned
	s, err := j.settings(dryRunID, node)
	if err != nil {
		return err
	}
	j.planObjects(s)
	refused, err := j.guard(ctx, s)
	return errors.Join(err, refusals(refused))
}

// planNodes plans the turn of every node of a fleet, and says what is wrong with any.
func (j *validateJob) planNodes(ctx context.Context) error {
	j.plan.Nodes = nil
	var wrong []error
	told := map[string]bool{}
	for i, node := range j.choice.Nodes {
		one := *j
		if i > 0 { // the plan is the first one's
			for _, p := range problems(one.planFor(ctx, node), Unmeasured, "") {
				if !told[p.Error()] {
					wrong = append(wrong, p)
				}
				told[p.Error()] = true
			}
		}
		j.plan.Nodes = append(j.plan.Nodes, spec.PlannedNode{Node: node.Node, Workers: node.Workers, By: node.By, Cost: one.plan.Cost})
	}
	return errors.Join(wrong...)
}

// reserve reserves a node for a new run. That another run has it is no error, and taken says
// which.
func (j *validateJob) reserve(ctx context.Context, node graph.Chosen) (s *graph.Settings, taken *graph.TakenError, err error) {
	a := j.app
	if s, err = j.settings(a.newRunID(), node); err != nil {
		return nil, nil, err
	}
	last := ""
	told := graph.Told{Say: func(text string) { a.say("%s", text) }, Waiting: func(text string) {
		if text != "" && text != last {
			a.say("waiting for %s", text)
		}
		last = text
	}}
	err = graph.Reserve(ctx, j.cluster, s, a.env.Now, told)
	taken, isTaken := errors.AsType[*graph.TakenError](err)
	foreign, isForeign := errors.AsType[*graph.ForeignError](err)
	switch {
	case err == nil:
		return s, nil, nil
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case isTaken:
		return nil, taken, nil
	case isForeign:
		return nil, nil, unmeasured("rename or remove it: nothing of "+foreign.Name+" was touched", "%w", err)
	}
	return nil, nil, j.options.on.cluster.unasked(j.cluster, err)
}

// onNode runs on the node that was chosen, or on another where a run was faster to reserve
// that one.
func (j *validateJob) onNode(ctx context.Context, dir string) error {
	var lost []*graph.TakenError
	for one := j; ; {
		node := one.choice.Nodes[0]
		s, taken, err := one.reserve(ctx, node)
		switch {
		case err != nil:
			return err
		case taken == nil:
			_, err := one.runOn(ctx, dir, s, node, true)
			return err
		case j.options.on.wish.Node != "":
			_, err := one.taken(true, taken.Error())
			return err
		}
		j.app.say("%v; choosing again", taken)
		lost = append(lost, taken)
		next, err := one.planAgain(ctx, j.options.on.wish, lost...)
		if err != nil {
			return err
		}
		if len(next.choice.Nodes) == 0 {
			_, err := next.taken(true, append([]string{taken.Error()}, besidesNode(next.choice.OfRuns(), taken.Node)...)...)
			return err
		}
		one = next
	}
}

// besidesNode are words on the nodes that runs of this program have, but for one.
func besidesNode(all []graph.Rejected, node string) (texts []string) {
	for _, r := range all {
		if r.Node != node {
			texts = append(texts, r.ByRuns())
		}
	}
	return texts
}

// taken tells that what is wanted is with other runs of this program. That is no fault of the
// deployment, and over when they end.
func (j *validateJob) taken(alone bool, why ...string) (*spec.Verdict, error) {
	if !alone {
		return &spec.Verdict{Verdict: spec.Inconclusive, Reason: strings.Join(why, "; ")}, nil
	}
	for i := range j.plan.Checks {
		if c := &j.plan.Checks[i]; c.Name == spec.InferencePerf {
			c.Decide(spec.Inconclusive, spec.Because(spec.TakenByRuns, why...))
		}
	}
	err := j.notBegun()
	j.app.say("validate again when that run has ended, or on another node with --node; 'aicr clean --dry-run%s' lists the runs that are on the cluster",
		foundBy(j.options.on.namespace, j.options.on.cluster.kubeconfig, j.cluster.Context))
	return nil, err
}

// passedBy are the nodes that a fleet's run does not go to, and which of them were left out
// on purpose: those that the selector leaves out, and all where a number of nodes was asked
// for.
func (j *validateJob) passedBy() (all []spec.PassedBy) {
	for _, r := range j.choice.Rejected {
		all = append(all, spec.PassedBy{Node: r.Node, Reason: r.Reason, Held: graph.HeldBy(r.Held), LeftOut: r.Unsaid || j.options.on.wish.Nodes != graph.AllNodes})
	}
	return all
}

// missing says before any load that a fleet cannot PASS, since nodes of it are not validated;
// "": it can.
func (j *validateJob) missing() string {
	var names []string
	for _, p := range j.passedBy() {
		if !p.LeftOut {
			names = append(names, fmt.Sprintf("%s (%s)", p.Node, p.Reason))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "not validated, so that the fleet cannot PASS: " + strings.Join(names, ", ") + "; --node-selector leaves nodes out on purpose"
}

// inPlace chooses a node in place of one that was taken meanwhile, among those that are not
// in the queue; nil: there is none, or every node has its turn anyhow.
func (j *validateJob) inPlace(ctx context.Context, queue []graph.Chosen) *graph.Chosen {
	if j.options.on.wish.Nodes == graph.AllNodes {
		return nil
	}
	nodes, err := j.gpus(ctx)
	if err != nil {
		return nil // the node that was taken is told
	}
	wish := j.options.on.wish
	wish.Nodes, wish.Policy, wish.KAI = 1, j.papers.recipe.GPUPolicy, j.offers.KAI
	choice, err := graph.Choose(slices.DeleteFunc(nodes, func(n kube.GPUNode) bool {
		return slices.ContainsFunc(queue, func(c graph.Chosen) bool { return c.Node == n.Name })
	}), wish)
	if err != nil || len(choice.Nodes) == 0 {
		return nil
	}
	return &choice.Nodes[0]
}
