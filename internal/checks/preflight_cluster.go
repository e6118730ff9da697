package checks

import (
	"slices"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/spec"
)

// What is waited for beside what the knobs say.
const (
	namespaceWait = 5 * time.Minute // for one that is being deleted
	loadPodWait   = 5 * time.Minute

	routeGateway  = "gateway-epp"
	loadNamespace = "aicr-validation"
)

// Wait is a part of a run on a cluster, and how long it may take at worst.
type Wait struct {
	What string
	Most time.Duration
	GPUs bool // the GPUs are held meanwhile
}

// Images are the references that a run on a cluster pulls.
type Images = graph.Images

// ClusterCreates lists what a run of inference-perf would make on the cluster of a
// snapshot, in the order in which it would. The run has no id yet, so that its names have
// gaps.
func ClusterCreates(r *spec.Recipe, s *spec.Snapshot, knobs spec.KnobValues, images Images) []spec.PlannedObject {
	on := graph.Settings{Namespace: loadNamespace, Workers: NodeGPUs(s), GPUs: graph.ByDevicePlugin, DRA: "v1", Graph: graph.GraphBeta, Images: images, Engine: graph.EngineOwn}
	if byClaim(s) {
		on.GPUs = graph.ByClaim
	}
	if kai, err := shown(s, []string{InstalledFact("kai-scheduler")}); err == nil {
		on.Queue = kai
	}
	if mode, _ := r.Input(spec.InputRouting); mode == routeGateway {
		on.Gateway = true
	}
	_, _, on.Token = knobs.Said(spec.KnobToken)
	if size := knobs.CacheSize(); size != "" {
		on.Cache = &graph.Cache{Size: size}
		if name, ok := r.Input(spec.InputStorageClass); ok {
			on.Cache.Class = name
		} else if name, _, ok := knobs.Said(spec.KnobCacheClass); ok {
			on.Cache.Class = name
		}
	}
	return graph.Planned(&on)
}

// ClusterWaits lists how long each part before the load may take.
func ClusterWaits(knobs spec.KnobValues) []Wait {
	var all []Wait
	if knobs.CacheSize() != "" {
		all = append(all, Wait{What: "the model cache", Most: knobs.Duration(spec.KnobPopulateTimeout)})
	}
	return append(all,
		Wait{What: "an old namespace", Most: namespaceWait},
		Wait{What: "ready", Most: knobs.Duration(spec.KnobReadyTimeout), GPUs: true},
		Wait{What: "the first answers", Most: knobs.Duration(spec.KnobHealthTimeout), GPUs: true},
		Wait{What: "the load's pod", Most: loadPodWait, GPUs: true})
}

// NodeGPUs is how many GPUs the node has that a run would choose: the one with the
// most, of those that are ready and take pods. 0: the snapshot does not tell.
func NodeGPUs(s *spec.Snapshot) int {
	most := 0
	if s == nil {
		return 0
	}
	nodes := s.Subtype(spec.TypeNodeTopology, "nodes")
	if nodes == nil {
		return 0
	}
	for _, node := range nodes.Items {
		n, isNumber := node.Data["gpu-allocatable"].Int()
		ready, _ := node.Data["ready"].Bool()
		schedulable, _ := node.Data["schedulable"].Bool()
		if isNumber && ready && schedulable {
			most = max(most, int(n))
		}
	}
	return most
}

// byClaim says whether GPUs are claimed through resource.k8s.io: slices of the GPU
// driver are there.
func byClaim(s *spec.Snapshot) bool {
	found, err := shown(s, []string{"K8s.dra.slices"})
	return err == nil && found
}

// PlannedChecks says of each check what a run on a cluster does with it: whether it runs
// or, of one that the recipe declares, what it comes to without.
func PlannedChecks(r *spec.Recipe, s *spec.Snapshot, c *spec.Catalog, o PreflightOptions) []spec.PlannedCheck {
	_, stopped := preflightPhases(r, s, c, o)
	return plannedChecks(r, c, func(check *spec.PlannedCheck) {
		by := o.leftOut(check.Phase, check.Name)
		switch {
		case by != "":
			check.Decide(spec.NotRun, spec.Because(spec.NotAsked, by))
			return
		case stopped[check.Phase].Code != "":
			check.Decide(spec.NotRun, stopped[check.Phase])
			return
		}
		d := onPaper(check.Name, r, seen{s, o.Live}, o.Skew)
		check.Evidence = heldEvidence(d.Held)
		switch built := check.Name == spec.InferencePerf; {
		case d.State == spec.Fail, d.State == spec.Skip && !d.Runs, d.State == spec.Inconclusive && built:
			check.Decide(d.State, d.Why)
		case built:
			check.Run(spec.Because(spec.CheckDeclared))
		default: // what a snapshot says in its favour does not run it
			check.Decide(spec.NotRun, spec.Because(spec.NotBuilt, spec.TargetCluster))
		}
	})
}

// heldEvidence is what a check was decided by, of a snapshot.
func heldEvidence(held []spec.Held) (all []spec.CheckEvidence) {
	for _, h := range held {
		value := h.Value + ", wanted " + h.Want
		if h.State == spec.HeldError {
			value = "unknown, wanted " + h.Want + ": " + h.Reason
		}
		all = append(all, spec.CheckEvidence{What: h.Name, Value: value})
	}
	return all
}

// EndpointChecks says the same of a run that loads an endpoint which is there already.
func EndpointChecks(r *spec.Recipe, c *spec.Catalog, o PreflightOptions) []spec.PlannedCheck {
	all := plannedChecks(r, c, func(check *spec.PlannedCheck) {
		if by := o.leftOut(check.Phase, check.Name); by != "" {
			check.Decide(spec.NotRun, spec.Because(spec.NotAsked, by))
			return
		}
		check.Decide(spec.NotRun, spec.Because(spec.NotBuilt, spec.TargetEndpoint))
	})
	for i := range all {
		if all[i].Name == spec.InferencePerf { // whether or not the recipe asks for it
			all[i].Run(spec.Because(spec.CheckOfTarget))
		}
	}
	return all
}

// plannedChecks lists the checks of the catalog by phase, and has those decided that the
// recipe declares.
func plannedChecks(r *spec.Recipe, c *spec.Catalog, decide func(*spec.PlannedCheck)) (all []spec.PlannedCheck) {
	undeclared := spec.Because(spec.CheckUndeclared)
	for _, phase := range spec.Phases() {
		for _, e := range c.Validators {
			if e.Phase != phase {
				continue
			}
			check := spec.PlannedCheck{Name: e.Name, Phase: phase, Reason: undeclared, Why: undeclared.Text(), TimeoutS: e.Deadline().Seconds()}
			if slices.Contains(declaredIn(r, phase), e.Name) {
				check.Declared, check.From = true, saidBy(r, phase, e.Name)
				decide(&check)
			}
			all = append(all, check)
		}
		for _, name := range declaredIn(r, phase) { // Names tells it before; it is not lost either
			if e, ok := c.Named(name); !ok || e.Phase != phase {
				check := spec.PlannedCheck{Name: name, Phase: phase, Declared: true, From: saidBy(r, phase, name)}
				check.Decide(spec.Fail, spec.Because(spec.CheckMisnamed))
				all = append(all, check)
			}
		}
	}
	return all
}

func saidBy(r *spec.Recipe, phase, name string) string {
	if o, ok := r.OriginOf(phase, name); ok {
		return o.String()
	}
	return r.Name
}
