package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// The labels by which what a run made is known again. Nothing without the owner's is
// ever adopted, changed or deleted.
const (
	LabelOwner = "aicr.run/owner" // OwnerValue
	LabelRun   = "aicr.run/run"   // the run's id
	LabelPart  = "aicr.run/part"  // graph, load, trial, model, kept

	OwnerValue = "aicr"
)

// Names are those of what a run makes. All but the id's are the published ones.
type Names struct {
	Short string // 8 hex of the run's id

	Namespace string // of the graph: aicr-inference-perf-<8 hex>
	Graph     string // aicr-inference-perf
	Secret    string // aicr-hf-token
	Volume    string // aicr-model-cache
	Populate  string // aicr-model-cache-populate-<8 hex>
	Claim     string // aicr-inference-gpu-claim
	Queue     string // aicr-inference-perf-<8 hex>, cluster-wide
	Route     string // aicr-inference-perf

	Load    string // aicr-load-<8 hex>: Job, ServiceAccount, Role, RoleBinding; ClusterRole and its binding
	Trial   string // aicr-load-<8 hex>-trial: the Job that tries the load's image
	Kept    string // aicr-run-<8 hex>: the ConfigMap that the run is kept in
	Results string // aicr-ctrf-<run>-performance: the ConfigMap with the compact copy of what came out
}

const (
	graphName  = "aicr-inference-perf"
	secretName = "aicr-hf-token"
	volumeName = "aicr-model-cache"
	claimName  = "aicr-inference-gpu-claim"
)

var runShape = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]{16}$`)

// ValidRun says that a run may have such an id: 20261116-015518-0123456789abcdef.
func ValidRun(id string) bool { return runShape.MatchString(id) }

// isLabel says that a word is a name as Kubernetes has it in DNS: that of a namespace.
func isLabel(word string) bool {
	return len(word) > 0 && len(word) <= 63 && word[0] != '-' && word[len(word)-1] != '-' &&
		!strings.ContainsFunc(word, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
}

// isObjectName says that a word is one that any object may be called.
func isObjectName(word string) bool {
	return len(word) <= 253 && !slices.ContainsFunc(strings.Split(word, "."), func(part string) bool { return !isLabel(part) })
}

// NamesOf are the names of a run. They keep to the 63 characters of a label and to the
// 45 that Grove has for graph and component together, whatever the run is called: nothing
// but the 8 hex of its id and, where that is a name, the id itself is in them. One
// that has no id yet has names with a gap in them, as a plan shows them.
func NamesOf(run string) Names {
	sum := sha256.Sum256([]byte(run))
	short := hex.EncodeToString(sum[:4])
	switch {
	case run == "":
		run, short = "<run>", "<8 hex>"
	case !isLabel(resultsOf(run)): // it comes from a label or a file, and could be part of a path
		run = short
	}
	return Names{
		Short: short, Namespace: graphName + "-" + short, Graph: graphName, Secret: secretName, Volume: volumeName,
		Populate: volumeName + "-populate-" + short, Claim: claimName, Queue: graphName + "-" + short, Route: graphName,
		Load: "aicr-load-" + short, Trial: "aicr-load-" + short + "-trial", Kept: "aicr-run-" + short, Results: resultsOf(run),
	}
}

func resultsOf(run string) string { return "aicr-ctrf-" + run + "-performance" }

// LoadAccount is the ServiceAccount that an administrator prepares for loads in a namespace.
const LoadAccount = "aicr-load"

// namespacedGraph is how the graph of a run is called in a namespace that it shares. Dynamo's
// operator makes a label of the namespace's name and the graph's, which has 63 characters.
const namespacedGraph = "aicr-perf"

// MostNamespace is how long the name of a namespace may be that a whole run is in.
const MostNamespace = 63 - len(namespacedGraph) - len("--00000000")

// Names are those of what a run makes. In a namespace that it shares with others all of them
// have the id's 8 hex.
func (s *Settings) Names() Names {
	n := NamesOf(s.Run)
	if s.Namespaced {
		n.Namespace = s.Namespace
		n.Graph = namespacedGraph + "-" + n.Short
		n.Route = n.Graph
		n.Secret, n.Volume, n.Claim = secretName+"-"+n.Short, volumeName+"-"+n.Short, claimName+"-"+n.Short
	}
	return n
}

// namespaceOfRun says whether a namespace is called as that of a run's graph.
func namespaceOfRun(name string) bool {
	short, ok := strings.CutPrefix(name, graphName+"-")
	_, err := hex.DecodeString(short)
	return ok && len(short) == 8 && err == nil
}

// Labels are those of everything that a run makes.
func Labels(run, part string) map[string]string {
	return map[string]string{LabelOwner: OwnerValue, LabelRun: run, LabelPart: part,
		"app.kubernetes.io/name": OwnerValue, "app.kubernetes.io/managed-by": OwnerValue, "app.kubernetes.io/component": part}
}
