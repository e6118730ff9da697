package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/kube"
)

// Where is where a right is needed.
type Where string

// The places. A run's own namespace has a new name each time, so that a right in it can
// only be given in all of them.
const (
	InCluster    Where = "cluster"
	InRun        Where = "run namespaces"
	InValidation Where = "validation namespace"

	// Of a namespaced run alone.
	InNamespace Where = "the namespace"
	InReading   Where = "cluster, may be missing"
)

// Right is one that the user of a run needs, and what for.
type Right struct {
	Group    string // of the API; "" is the core
	Resource string // with what is below it: pods/exec
	Verbs    []string
	Where    Where
	For      string
	Need     Need
}

// Need is what a run must have for a right to be of use.
type Need struct {
	Words string // "": every run
	of    func(*Settings) bool
}

// The needs.
var (
	always      = Need{}
	withCache   = Need{"with the model cache", func(s *Settings) bool { return s.Cache != nil }}
	withToken   = Need{"with HF_TOKEN", func(s *Settings) bool { return s.Token }}
	withDRA     = Need{"where resource.k8s.io is served", func(s *Settings) bool { return s.DRA != "" }}
	withClaims  = Need{"where GPUs are claimed through DRA", func(s *Settings) bool { return s.GPUs == ByClaim || s.GPUs == "" && s.DRA != "" }}
	withKAI     = Need{"where KAI schedules", func(s *Settings) bool { return s.Queue }}
	withGrove   = Need{"where Grove is served", func(s *Settings) bool { return s.Grove }}
	withGateway = Need{"with gateway-epp", func(s *Settings) bool { return s.Gateway }}
	forSnapshot = Need{"for a live snapshot", func(s *Settings) bool { return s.Live }}
	withOwnLoad = Need{"unless AIPerf loads", func(s *Settings) bool { return s.Engine != EngineAIPerf }}
	unprepared  = Need{"where `--rbac` was not applied", func(s *Settings) bool { return !s.Prepared && !s.Namespaced }}
	unpreparedL = Need{"where `--rbac` was not applied, unless AIPerf loads", func(s *Settings) bool { return unprepared.of(s) && withOwnLoad.of(s) }}
)

func (n Need) met(s *Settings) bool { return n.of == nil || n.of(s) }

// Rights are all that it takes to run, to attach to and to clean up after a run. This is
// the one table of them: the roles, the guard and docs/security.md are made of it.
func Rights() []Right {
	verbs := func(all ...string) []string { return all }
	return append([]Right{
		{"", "nodes", verbs("get", "list"), InCluster, "chooses the node, and keeps its conditions when something fails", always},
		{"", "pods", verbs("list"), InCluster, "counts who holds GPUs; finds the exporters on the node; looks at its own", always},
		{"resource.k8s.io", "resourceslices", verbs("list"), InCluster, "which GPUs DRA offers", withDRA},
		{"resource.k8s.io", "resourceclaims", verbs("list"), InCluster, "who has claimed them; whether its own are given back", withDRA},
		{"apps", "deployments", verbs("list"), InCluster, "whether the operators that make the graph are ready, before anything is made", always},
		{"coordination.k8s.io", "leases", verbs("list"), InCluster, "which nodes other runs have reserved", always},
		{"storage.k8s.io", "storageclasses", verbs("get", "list"), InCluster, "whether the cache can be had, before anything is made", withCache},
		{"", "namespaces", verbs("create", "get", "list", "delete"), InCluster, "makes and deletes the run's own", always},
		{"", "namespaces", verbs("patch"), InCluster, "marks that of the validations, which it made itself", unprepared},
		{"scheduling.run.ai", "queues", verbs("create", "get", "list", "delete"), InCluster, "a queue of its own", withKAI},
		{"rbac.authorization.k8s.io", "clusterroles", verbs("create", "get", "list", "delete"), InCluster, "what the load may read of its node", unprepared},
		{"rbac.authorization.k8s.io", "clusterrolebindings", verbs("create", "get", "list", "delete"), InCluster, "gives that to the load", unprepared},
		{"", "nodes/stats", verbs("get"), InCluster, "is handed on to the load: a right can only be given by who has it", unpreparedL},

		{"", "serviceaccounts", verbs("get"), InRun, "whether the new namespace is complete", always},
		{"", "secrets", verbs("create"), InRun, "the token; it is never read", withToken},
		{"", "persistentvolumeclaims", verbs("create", "get"), InRun, "the model cache, which goes with its namespace", withCache},
		{"batch", "jobs", verbs("create", "get", "list", "delete"), InRun, "what fetches the model; AIPerf", always},
		{"resource.k8s.io", "resourceclaimtemplates", verbs("create", "get"), InRun, "a GPU each; it goes with its namespace", withClaims},
		{"nvidia.com", "dynamographdeployments", verbs("create", "get", "list", "delete"), InRun, "the graph", always},
		{"nvidia.com", "dynamocomponentdeployments", verbs("list"), InRun, "why the operator cannot make the graph", always},
		{"grove.io", "podcliquesets", verbs("list"), InRun, "why Grove cannot make its cliques", withGrove},
		{"grove.io", "podcliques", verbs("list"), InRun, "why Grove cannot make its pods", withGrove},
		{"gateway.networking.k8s.io", "httproutes", verbs("create", "get", "list", "delete"), InRun, "the gateway's way to it", withGateway},
		{"", "pods/log", verbs("get"), InRun, "why a start has failed", always},
		{"", "events", verbs("list"), InRun, "why a pod does not start", always},

		{"", "configmaps", verbs("create", "get", "list", "patch", "delete"), InValidation, "the run as it is kept, and its result", always},
		{"coordination.k8s.io", "leases", verbs("create", "get", "list", "patch", "delete"), InValidation, "the reservation of the node", always},
		{"batch", "jobs", verbs("create", "get", "list", "delete"), InValidation, "the load", always},
		{"", "serviceaccounts", verbs("get"), InValidation, "whether an account is prepared for the load", always},
		{"", "serviceaccounts", verbs("create", "list", "delete"), InValidation, "who the load is", unprepared},
		{"rbac.authorization.k8s.io", "roles", verbs("create", "get", "list", "delete"), InValidation, "lets the load write its result", unprepared},
		{"rbac.authorization.k8s.io", "rolebindings", verbs("create", "get", "list", "delete"), InValidation, "gives that to the load", unprepared},
		{"", "pods", verbs("list"), InValidation, "what became of the load", always},
		{"", "pods/log", verbs("get"), InValidation, "follows the load", withOwnLoad},
		{"", "pods/exec", verbs("get", "create"), InValidation, "fetches the load's record, by websocket or without", withOwnLoad},
		{"", "events", verbs("list"), InValidation, "why the load's pod does not start", withOwnLoad},
		{"", "resourcequotas", verbs("list"), InValidation, "whether the load fits, before anything is made", withOwnLoad},
		{"", "limitranges", verbs("list"), InValidation, "whether it may be as large as it is, likewise", withOwnLoad},
	}, snapshotRights()...)
}

// snapshotRights are those that the snapshot takes which a run begins with. What it could
// not read would be unknown, and a recipe held against the unknown; who has no such right
// gives a snapshot that somebody else has taken. Discovery is everybody's.
func snapshotRights() (all []Right) {
	for _, rule := range kube.Rules() {
		for _, resource := range rule.Resources {
			all = append(all, Right{rule.Group, resource, rule.Verbs, InCluster, rule.For, forSnapshot})
		}
	}
	return all
}

// NeverAsked are the rights that a run does without, for people who wonder.
func NeverAsked() []string {
	return []string{"cluster-admin, escalate, bind or impersonate", "nodes/proxy", "pods/exec outside the validation namespace", "reading a Secret, anywhere", "changing or deleting what does not carry the label " + LabelOwner + "=" + OwnerValue}
}

// needed are the rights of one run, each verb for itself, as a server is asked about them.
func needed(s *Settings) []neededRight {
	var all []neededRight
	for _, r := range rightsOf(s) {
		if !r.Need.met(s) || r.Where == InReading { // which is done without, and told where it is missed
			continue
		}
		for _, verb := range r.Verbs {
			one := neededRight{right: kube.Right{Verb: verb, Group: r.Group}, what: r.For, need: r.Need.Words}
			one.right.Resource, one.right.Subresource, _ = strings.Cut(r.Resource, "/")
			switch r.Where {
			case InRun:
				one.right.Namespace = s.Names().Namespace
				one.unlike = " in " + one.right.Namespace
			case InValidation, InNamespace:
				one.right.Namespace = s.Namespace
			case InCluster, InReading: // in all
			}
			if r.Resource == "nodes/stats" {
				one.right.Name = s.Node
			}
			one.ofNode = r.Resource == "nodes/stats" || r.Need.Words == withClaims.Words
			if !slices.ContainsFunc(all, func(n neededRight) bool { return n.right == one.right }) {
				all = append(all, one)
			}
		}
	}
	return all
}

type neededRight struct {
	right  kube.Right
	what   string
	need   string // in words
	unlike string // where, in words that nobody could give it by
	ofNode bool   // it hangs on which node is chosen
}

// ofRights says that a run needs it to make rights, which an administrator can prepare.
func (n neededRight) ofRights() bool {
	return n.need == unprepared.Words || n.need == unpreparedL.Words
}

// String is the right as an administrator gives it. A run's own namespace is a new one
// each time.
func (n neededRight) String() string {
	text := n.right.String()
	if n.unlike != "" {
		text = strings.TrimSuffix(text, n.unlike) + " in all namespaces"
	}
	return fmt.Sprintf("%s (%s)", text, n.what)
}

// LoadRule is a right of the load.
type LoadRule struct {
	Group    string
	Resource string
	Verbs    []string
	Name     string // of the one object; "": any
	For      string
}

// LoadRules are all rights of the load: in the namespace of the validations, and in the
// cluster.
func LoadRules(s *Settings) (inNamespace, inCluster []LoadRule) {
	results, node, pressure := s.Names().Results, s.Node, "the pressure on its one node, from the kubelet"
	if s.Prepared { // once, for all runs
		results, node, pressure = "", "", "the pressure on its node, from the kubelet"
	}
	return []LoadRule{
			{Resource: "configmaps", Verbs: []string{"create"}, For: "the compact copy of its result; who creates cannot be held to a name"},
			{Resource: "configmaps", Verbs: []string{"get"}, Name: results, For: "whether that was made, where the server's answer was lost"},
		}, []LoadRule{
			{Resource: "nodes/stats", Verbs: []string{"get"}, Name: node, For: pressure},
		}
}

// UserRole is what the roles of a user are called.
const UserRole = "aicr-validate"

// UserRoles are Rights for an administrator to give: a ClusterRole, and a Role in the
// namespace of the validations with that namespace and the account of its loads. Nothing of
// it carries a label of ours, so that no run deletes it. No verb is in them twice: without any
// of them, something cannot be done.
func UserRoles(namespace string) []byte {
	var b strings.Builder
	prepared(&b, namespace, "restricted")
	given := map[[3]string]bool{}
	writeRole(&b, "ClusterRole", UserRole, "", given, Rights(), InCluster, InRun)
	writeRole(&b, "Role", UserRole, namespace, given, Rights(), InValidation) // the rest: the ClusterRole is of all namespaces
	return []byte(b.String())
}

// The ClusterRoles of who runs in one namespace alone, which may be left out.
const (
	ReadRole    = UserRole + "-nodes"   // which nodes there are, and what they offer
	HoldersRole = UserRole + "-holders" // who holds GPUs, in all namespaces
)

// NamespacedRoles are NamespacedRights for an administrator to give: the namespace, the account
// of its loads, a Role in it, and two ClusterRoles that read, which may be left out.
func NamespacedRoles(namespace string) []byte {
	var b strings.Builder
	prepared(&b, namespace, "baseline")
	given, rights := map[[3]string]bool{}, NamespacedRights()
	writeRole(&b, "Role", UserRole, namespace, given, rights, InNamespace)
	holders := func(r Right) bool { return r.Resource == "pods" || r.Resource == "resourceclaims" }
	reading := func(wanted bool) []Right {
		return slices.DeleteFunc(slices.Clone(rights), func(r Right) bool { return holders(r) != wanted })
	}
	writeRole(&b, "ClusterRole", ReadRole, "", map[[3]string]bool{}, reading(false), InReading)
	writeRole(&b, "ClusterRole", HoldersRole, "", map[[3]string]bool{}, reading(true), InReading)
	return []byte(b.String())
}

// prepared writes a namespace and the account of its loads, with the rights of that.
func prepared(b *strings.Builder, namespace, level string) {
	fmt.Fprintf(b, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels:\n    %s: %s\n", namespace, podSecurity, level)
	fmt.Fprintf(b, "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: %s\n  namespace: %s\n", LoadAccount, namespace)
	inNamespace, inCluster := LoadRules(&Settings{Prepared: true, Namespace: namespace})
	write := func(kind, name, in string, rules []LoadRule) {
		meta := ""
		if in != "" {
			meta = "  namespace: " + in + "\n"
		}
		role := LoadAccount
		fmt.Fprintf(b, "---\napiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n%srules:\n", rbacVersion, kind, role, meta)
		for _, r := range rules {
			fmt.Fprintf(b, "# the load: %s\n- apiGroups: [%q]\n  resources: [%q]\n  verbs: [%s]\n", r.For, r.Group, r.Resource, quoted(r.Verbs))
		}
		fmt.Fprintf(b, "---\napiVersion: %s\nkind: %sBinding\nmetadata:\n  name: %s\n%sroleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}\nsubjects:\n- {kind: ServiceAccount, name: %s, namespace: %s}\n",
			rbacVersion, kind, name, meta, kind, role, LoadAccount, namespace)
	}
	write("Role", LoadAccount, namespace, inNamespace)
	write("ClusterRole", LoadAccount+"-"+namespace, "", inCluster)
}

// writeRole writes a role of these rights, as far as they are in these places and were not
// given before. Of what runs need where nothing is prepared it gives nothing.
func writeRole(b *strings.Builder, kind, name, namespace string, given map[[3]string]bool, rights []Right, in ...Where) {
	meta := ""
	if namespace != "" {
		meta = "  namespace: " + namespace + "\n"
	}
	fmt.Fprintf(b, "---\napiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n%srules:\n", rbacVersion, kind, name, meta)
	for _, r := range rights {
		if r.Need.Words == unprepared.Words || r.Need.Words == unpreparedL.Words {
			continue
		}
		var verbs []string
		for _, verb := range r.Verbs {
			if one := [3]string{r.Group, r.Resource, verb}; slices.Contains(in, r.Where) && !given[one] {
				given[one] = true
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) == 0 {
			continue
		}
		note := r.For
		if r.Need.Words != "" {
			note += " (" + r.Need.Words + ")"
		}
		fmt.Fprintf(b, "# %s: %s\n- apiGroups: [%q]\n  resources: [%q]\n  verbs: [%s]\n", r.Where, note, r.Group, r.Resource, quoted(verbs))
	}
}

func quoted(all []string) string {
	var b []string
	for _, w := range all {
		b = append(b, fmt.Sprintf("%q", w))
	}
	return strings.Join(b, ", ")
}

// RightsTable is a table of rights as docs/security.md has it.
func RightsTable(rights []Right) string {
	var b strings.Builder
	b.WriteString("| where | API group | resource | verbs | what for | when |\n|---|---|---|---|---|---|\n")
	for _, r := range rights {
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s | %s |\n", r.Where, cmp.Or(r.Group, "core"), r.Resource, strings.Join(r.Verbs, ", "), r.For, cmp.Or(r.Need.Words, "always"))
	}
	return b.String()
}

// LoadTable is LoadRules of some run as docs/security.md has them, with an account that is
// prepared or one of its own.
func LoadTable(prepared bool) string {
	var b strings.Builder
	b.WriteString("| where | resource | verbs | only the one called | what for |\n|---|---|---|---|---|\n")
	inNamespace, inCluster := LoadRules(&Settings{Node: "NODE", Prepared: prepared})
	write := func(where Where, rules []LoadRule) {
		for _, r := range rules {
			name := "any"
			if r.Name != "" {
				name = "`" + r.Name + "`"
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", where, r.Resource, strings.Join(r.Verbs, ", "), name, r.For)
		}
	}
	write(InValidation, inNamespace)
	write(InCluster, inCluster)
	return b.String()
}
