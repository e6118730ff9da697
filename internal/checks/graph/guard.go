package graph

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// GuardAPI is what the guards ask of a cluster. They write nothing.
type GuardAPI interface {
	Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error)
	List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error)
	Served(ctx context.Context, groups ...string) (kube.Served, error)
	Allowed(ctx context.Context, rights []kube.Right) (missing []kube.Right, err error)
}

// GuardInput is what is known before anything is written. Offers is what Look found, and
// Settings are made of it.
type GuardInput struct {
	Recipe   *spec.Recipe
	Settings *Settings
	Offers   Offers
	Node     kube.GPUNode // the chosen one
	Unseen   bool         // which may not be read
	Skew     string       // why the versions do not go together; "": they do
	Routers  []string     // the modes that the runtime's release has; none: it is not known
	Asked    bool         // AskRights has been
}

// Refusal is one reason why a run does not begin: Skip where the recipe does not want it,
// Fail where the cluster is not what the recipe says it is, Inconclusive where the run
// cannot be done and nothing is known of the deployment.
type Refusal struct {
	State spec.State
	Text  string
	Hint  string
}

// guards is the one list of them. Each finds all of its own.
func guards() []func(context.Context, GuardAPI, *GuardInput) ([]Refusal, error) {
	paper := func(guard func(*GuardInput) []Refusal) func(context.Context, GuardAPI, *GuardInput) ([]Refusal, error) {
		return func(_ context.Context, _ GuardAPI, in *GuardInput) ([]Refusal, error) { return guard(in), nil }
	}
	return []func(context.Context, GuardAPI, *GuardInput) ([]Refusal, error){
		paper(guardFigures), paper(guardDeclared), paper(guardGraph), paper(guardSkew), paper(guardRelease), paper(guardRouter),
		paper(guardGPUs), paper(guardQueue), paper(guardGateway), guardOperator, guardStorage, guardQuota, guardLimits, guardRights,
	}
}

// Guard finds all that is wrong at once, before anything is written. A recipe that does
// not want the check has one refusal alone, a skip: what else is wrong does not matter to
// it. An error is that something could not be asked; forbidden is a missing right and no
// error.
func Guard(ctx context.Context, api GuardAPI, in GuardInput) ([]Refusal, error) {
	var all []Refusal
	for _, guard := range guards() {
		found, err := guard(ctx, api, &in)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r.State == spec.Skip {
				return []Refusal{r}, nil
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

// guardFigures is guard A of the published check: there must be something to hold the
// figures against.
func guardFigures(in *GuardInput) []Refusal {
	if len(in.Recipe.Figures(1)) > 0 || in.Recipe.Verdict().Reference != nil {
		return nil
	}
	return []Refusal{{spec.Skip, fmt.Sprintf("the recipe wants neither %s nor %s, and has no reference", spec.ConstraintThroughput, spec.ConstraintTTFT), ""}}
}

// dynamoPlatform is the component without which there is no inference to measure.
const dynamoPlatform = "dynamo-platform"

// guardDeclared is guard B.
func guardDeclared(in *GuardInput) []Refusal {
	if in.Recipe.HasComponent(dynamoPlatform) {
		return nil
	}
	return []Refusal{{spec.Skip, dynamoPlatform + " is not among the recipe's components", ""}}
}

// guardGraph is guard C: what the recipe declares and the cluster has not is a failure.
func guardGraph(in *GuardInput) []Refusal {
	if in.Offers.Graph != "" {
		return nil
	}
	return []Refusal{{spec.Fail, "the cluster serves no dynamographdeployments.nvidia.com in a version that is known here, and the recipe declares " + dynamoPlatform,
		"install Dynamo's operator with its CRDs; 'aicr versions' says which release goes with this program"}}
}

func guardSkew(in *GuardInput) []Refusal {
	if in.Skew == "" {
		return nil
	}
	return []Refusal{{spec.Fail, in.Skew, "'aicr snapshot --write FILE', then 'aicr versions --snapshot FILE' shows each version and what it goes with"}}
}

// guardRelease wants a version in the image's tag. A reference that is none was refused
// before, with the papers.
func guardRelease(in *GuardInput) []Refusal {
	s := in.Settings
	if s.Graph != GraphBeta || releaseOf(s.Images.Runtime) != "" || spec.TagRelease(s.Images.Release) != "" {
		return nil
	}
	return []Refusal{{spec.Inconclusive, fmt.Sprintf("the tag of image %s says no version, and Dynamo's operator takes none without", s.Images.Runtime),
		"use a tag that begins with the release of Dynamo, all three numbers of it"}}
}

func guardRouter(in *GuardInput) []Refusal {
	s := in.Settings
	if s.Gateway || len(in.Routers) == 0 || slices.Contains(in.Routers, s.Router) {
		return nil
	}
	return []Refusal{{spec.Inconclusive, fmt.Sprintf("image %s has no router mode %s", s.Images.Runtime, s.Router), "it has " + strings.Join(in.Routers, ", ") + ": set " + spec.KnobRouter}}
}

// guardGPUs holds how the recipe has GPUs handed out against what the node offers.
func guardGPUs(in *GuardInput) (all []Refusal) {
	s, node := in.Settings, in.Node
	if in.Unseen {
		return nil
	}
	refuse := func(format string, args ...any) {
		all = append(all, Refusal{spec.Fail, fmt.Sprintf(format, args...), "'aicr snapshot -o table' shows what each node offers"})
	}
	switch in.Recipe.GPUPolicy {
	case spec.PolicyDRAClaim:
		if len(node.Devices) == 0 || node.Odd != "" {
			refuse("the recipe has GPUs claimed through DRA, and node %s offers none that can be: %s", node.Name, orNoSlice(node.Odd))
		}
	case spec.PolicyDevicePlugin:
		if node.Plugin == 0 {
			refuse("the recipe has GPUs handed out by the device plugin, which offers none on node %s", node.Name)
		}
	case spec.PolicyDRAExtended:
		all = append(all, Refusal{spec.Inconclusive, "the recipe has GPUs handed out by " + spec.PolicyDRAExtended + ", which this program does not do", "use " + spec.PolicyDRAClaim + " or " + spec.PolicyDevicePlugin})
	}
	if s.GPUs == ByClaim && in.Offers.DRA == "" {
		refuse("workers claim their GPUs, and the cluster serves resource.k8s.io in no version that is known here")
	}
	return all
}

func orNoSlice(odd string) string {
	if odd == "" {
		return "there is no slice of its driver"
	}
	return odd
}

// guardQueue wants a queue that the run's own can be below.
func guardQueue(in *GuardInput) []Refusal {
	if !in.Settings.Queue || in.Settings.Parent != "" {
		return nil
	}
	return []Refusal{{spec.Fail, "KAI schedules here and has no queue at the top that another could be below", "make one: KAI's own is called " + parentQueue}}
}

// guardGateway wants what a gateway's route needs.
func guardGateway(in *GuardInput) (all []Refusal) {
	if !in.Settings.Gateway {
		return nil
	}
	if !in.Offers.Gateway {
		all = append(all, Refusal{spec.Fail, "the recipe routes by gateway-epp, and the cluster serves no HTTPRoute (gateway.networking.k8s.io/v1) or no InferencePool (inference.networking.k8s.io/v1)", "install the gateway's CRDs, or leave " + spec.InputRouting + " out of the recipe"})
	}
	if in.Offers.Graph == GraphAlpha {
		all = append(all, Refusal{spec.Fail, "the recipe routes by gateway-epp, which takes " + GraphBeta + " of DynamoGraphDeployment, and the cluster serves " + GraphAlpha + " alone", "it is in Dynamo from its release 1.2 on"})
	}
	return all
}

// AskRights asks about everything that a run will do, before anything else is asked: what
// may not be read would show as many other things. No node is chosen yet, and what hangs on
// it is told with the others, and is for guardRights alone.
func AskRights(ctx context.Context, api GuardAPI, recipe *spec.Recipe, s *Settings) ([]Refusal, error) {
	in := &GuardInput{Recipe: recipe, Settings: s}
	if len(guardFigures(in)) > 0 || len(guardDeclared(in)) > 0 { // nothing will be done
		return nil, nil
	}
	missing, err := missingOf(ctx, api, needed(s))
	if err != nil || !slices.ContainsFunc(missing, func(n neededRight) bool { return !n.ofNode }) {
		return nil, err
	}
	return refusedRights(ctx, api, s, missing)
}

// guardRights asks about what the run will do and was not asked about already, so that it
// does not stop half way. All that is missing is told, a line each.
func guardRights(ctx context.Context, api GuardAPI, in *GuardInput) ([]Refusal, error) {
	wanted := needed(in.Settings)
	if in.Asked {
		wanted = slices.DeleteFunc(wanted, func(n neededRight) bool { return !n.ofNode })
	}
	missing, err := missingOf(ctx, api, wanted)
	if err != nil {
		return nil, err
	}
	return refusedRights(ctx, api, in.Settings, missing)
}

func missingOf(ctx context.Context, api GuardAPI, wanted []neededRight) ([]neededRight, error) {
	ask := make([]kube.Right, len(wanted))
	for i, n := range wanted {
		ask[i] = n.right
	}
	not, err := api.Allowed(ctx, ask)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(wanted, func(n neededRight) bool { return !slices.Contains(not, n.right) }), nil
}

// refusedRights words what is missing. Where the namespace of the validations is not there,
// neither is the Role in it: that is one thing, and not thirty.
func refusedRights(ctx context.Context, api GuardAPI, s *Settings, missing []neededRight) ([]Refusal, error) {
	roles := "'aicr validate --rbac'"
	if s.Namespaced {
		roles = "'aicr validate --rbac --namespaced " + s.Namespace + "'"
	}
	hint := roles + " prints the roles, for an administrator to apply and to bind to you"
	within := func(n neededRight) bool { return n.right.Namespace == s.Namespace }
	var all []Refusal
	if slices.ContainsFunc(missing, within) {
		_, err := api.Read(ctx, resNamespaces, "", s.Namespace)
		if err != nil && !kube.IsNotFound(err) && !kube.IsForbidden(err) {
			return nil, err
		}
		if kube.IsNotFound(err) {
			missing = slices.DeleteFunc(missing, func(n neededRight) bool { return within(n) || n.ofRights() })
			why := fmt.Sprintf("there is no namespace %s, and none of your roles is for all namespaces: in one that you make you could do nothing", s.Namespace)
			if s.Namespaced {
				why = fmt.Sprintf("there is no namespace %s", s.Namespace)
			}
			all = append(all, Refusal{spec.Inconclusive, why, roles + " prints it with its roles, for an administrator to apply and to bind to you"})
		}
	}
	if at := slices.IndexFunc(missing, neededRight.ofRights); at >= 0 {
		first, n := missing[at], len(missing)
		missing = slices.DeleteFunc(missing, neededRight.ofRights)
		text := fmt.Sprintf("no account %s is prepared for the load in namespace %s, and you may not make one with its rights: you may not %s", LoadAccount, s.Namespace, first)
		if more := n - len(missing) - 1; more > 0 {
			text += fmt.Sprintf(", and %d more", more)
		}
		all = append(all, Refusal{spec.Inconclusive, text, roles + " prints it, for an administrator to apply"})
	}
	told := map[kube.Right]bool{}
	for _, n := range missing {
		// One that is missing in all namespaces is missing in each: the wider ones come first.
		anywhere := n.right
		anywhere.Namespace = ""
		if told[anywhere] {
			continue
		}
		told[anywhere] = true
		advice := hint
		if n.need == forSnapshot.Words {
			advice += "; --snapshot FILE does without a snapshot of your own"
		}
		all = append(all, Refusal{spec.Inconclusive, fmt.Sprintf("you may not %s", n), advice})
	}
	return all, nil
}
