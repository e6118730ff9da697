package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// Wish is what is wanted of the node that a run goes to.
type Wish struct {
	Node        string            // this one and no other; "": the one with the most free GPUs
	Nodes       int               // how many, each a run of its own; 0 is one, AllNodes every one
	Selector    Selector          // of labels
	Tolerations []kube.Toleration // nil: those that the node's own taints ask for
	Policy      string            // how the recipe has GPUs handed out; a word of spec
	KAI         bool              // it schedules what serves
}

// AllNodes asks for every node that can be used.
const AllNodes = -1

// Choice is what became of a Wish: the nodes in the order in which they are taken, and why
// each of the others is not.
type Choice struct {
	Nodes    []Chosen
	Rejected []Rejected
}

// Chosen is a node that a run goes to.
type Chosen struct {
	Node        string
	Host        string // by which pods are pinned to it, where it is another name
	Product     string // what GPUs it has; "": not known
	Workers     int    // a free GPU each
	GPUs        int    // free or not
	By          string
	Tolerations []kube.Toleration
	Held        []kube.Holder // by whom the others are held
}

// Rejected is a node that no run goes to.
type Rejected struct {
	Node   string
	Reason string
	Full   bool // it could be used, if anything of it were free
	Runs   bool // runs of this program have it, or hold GPUs of it: it may be free when they end
	Unsaid bool // it is not one of those that were asked for
	GPUs   int
	Held   []kube.Holder

	reserved *kube.Reservation // nil: it is not
	remedy   string            // what to do about it; "": look
}

// Full lists the nodes that could be used, if anything of them were free.
func (c *Choice) Full() (all []Rejected) {
	for _, r := range c.Rejected {
		if r.Full {
			all = append(all, r)
		}
	}
	return all
}

// OfRuns lists the nodes that could be used, if runs of this program had ended.
func (c *Choice) OfRuns() (all []Rejected) {
	for _, r := range c.Rejected {
		if r.Full && r.Runs {
			all = append(all, r)
		}
	}
	return all
}

// Taken is that a node which was chosen is with other runs by now.
func (r *Rejected) Taken() *TakenError {
	if r.reserved != nil {
		return &TakenError{Node: r.Node, Run: r.reserved.Run, Since: r.reserved.Since}
	}
	return &TakenError{Node: r.Node, Holders: r.Held}
}

// ByRuns says how runs of this program have a node.
func (r *Rejected) ByRuns() string {
	if r.reserved != nil {
		return fmt.Sprintf("node %s is reserved by run %s%s", r.Node, r.reserved.Run, sinceText(r.reserved.Since))
	}
	return fmt.Sprintf("all GPUs of node %s are held, by a run of this program too: %s", r.Node, HeldBy(r.Held))
}

// ChoiceError says that no node can be had as it was wished, for another reason than that
// all GPUs are held.
type ChoiceError struct {
	Text, Hint string
	Runs       bool // there would be enough, if other runs of this program had ended
}

func (e *ChoiceError) Error() string { return e.Text }

// Choose chooses. The error is a *ChoiceError; that nothing is free is none, and shows in
// a Choice without nodes.
func Choose(nodes []kube.GPUNode, w Wish) (*Choice, error) {
	all := withGPUs(nodes)
	if w.Node != "" {
		named := slices.IndexFunc(all, func(n kube.GPUNode) bool { return n.Name == w.Node })
		if named < 0 {
			return nil, noSuchNode(all, w.Node)
		}
		all = all[named : named+1]
	}
	c := &Choice{}
	for i := range all {
		chosen, rejected := weigh(&all[i], &w)
		if rejected != nil {
			c.Rejected = append(c.Rejected, *rejected)
			continue
		}
		c.Nodes = append(c.Nodes, *chosen)
	}
	slices.SortFunc(c.Nodes, func(a, b Chosen) int {
		return cmp.Or(cmp.Compare(b.Workers, a.Workers), -byClaimFirst(a, b), cmp.Compare(a.Node, b.Node))
	})
	slices.SortFunc(c.Rejected, func(a, b Rejected) int { return cmp.Compare(a.Node, b.Node) })
	switch {
	case len(all) == 0:
		return nil, &ChoiceError{Text: "no node of this cluster has GPUs", Hint: lookAtNodes}
	case len(c.Nodes) == 0 && len(c.Full()) == 0:
		return nil, unusable(c.Rejected, w.Node)
	case len(c.Nodes) == 0: // however many are asked for: who holds the GPUs is told
		return c, nil
	case w.Nodes > len(c.Nodes) && w.Nodes > 1:
		return nil, tooFew(c, w.Nodes)
	}
	if most := max(1, w.Nodes); w.Nodes != AllNodes && len(c.Nodes) > most {
		c.Nodes = c.Nodes[:most]
	}
	return c, nil
}

func withGPUs(nodes []kube.GPUNode) (all []kube.GPUNode) {
	for _, n := range nodes {
		if n.Plugin > 0 || len(n.Devices) > 0 || n.Odd != "" || n.MIG > 0 || n.Declared > 0 {
			all = append(all, n)
		}
	}
	return all
}

func byClaimFirst(a, b Chosen) int {
	switch {
	case a.By == b.By:
		return 0
	case a.By == ByClaim:
		return 1
	}
	return -1
}

// weigh says whether a node can be used, and how, or why not.
func weigh(n *kube.GPUNode, w *Wish) (*Chosen, *Rejected) {
	by, gpus, odd := handedOut(n, w)
	held := slices.Concat(n.PluginHeld, n.ClaimHeld)
	slices.SortStableFunc(held, func(a, b kube.Holder) int {
		return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	tolerations, taint := tolerated(n.Taints, w.Tolerations)
	no := func(remedy, format string, args ...any) (*Chosen, *Rejected) {
		return nil, &Rejected{Node: n.Name, Reason: fmt.Sprintf(format, args...), GPUs: gpus, Held: held, remedy: remedy}
	}
	switch {
	case !w.Selector.Matches(n.Labels):
		_, r := no("'kubectl get nodes --show-labels' shows what there is", "its labels are not those of --node-selector %s", w.Selector)
		r.Unsaid = true
		return nil, r
	case !n.Ready:
		return no("'kubectl describe node NODE' says why", "it is not ready")
	case !n.Schedulable:
		return no("'kubectl uncordon NODE' lets pods on to it again", "it is cordoned")
	case by == ByDevicePlugin && n.Shares > 1:
		return no("", "its device plugin hands each GPU out %d times, so that no worker would have one of its own", n.Shares)
	case taint != nil:
		return no("tolerate it with --toleration KEY=VALUE:EFFECT, or name another node", "its taint %s is not tolerated", taintText(*taint))
	case n.Plugin == 0 && len(n.Devices) == 0 && n.Odd == "":
		return no("", "%s", offersNone(n))
	case odd != "":
		return no("", "%s", odd)
	case n.Reserved != nil:
		_, r := no("", "%s", describeReservation(n.Reserved))
		r.Full, r.Runs, r.reserved = true, true, n.Reserved
		return nil, r
	}
	free := gpus - heldOf(n.PluginHeld) - heldOf(n.ClaimHeld)
	if free < 1 {
		_, r := no("", "all of its %d GPUs are held", gpus)
		r.Full = true
		r.Runs = slices.ContainsFunc(held, func(h kube.Holder) bool { return namespaceOfRun(h.Namespace) })
		return nil, r
	}
	return &Chosen{Node: n.Name, Product: n.Product(), Host: n.Labels["kubernetes.io/hostname"], Workers: free, GPUs: gpus, By: by, Tolerations: tolerations, Held: held}, nil
}

// offersNone is why a node that has GPUs has none that a worker could ask for.
func offersNone(n *kube.GPUNode) string {
	if n.MIG > 0 {
		return "its GPUs are offered in parts (MIG), and a worker takes a whole one"
	}
	return fmt.Sprintf("it is said to have %d GPUs, by its labels or its capacity, and neither the device plugin nor DRA offers any", n.Declared)
}

// handedOut says how the GPUs of a node are asked for and how many there are, or why they
// cannot be. Both stacks may offer the same GPUs: then both ledgers count.
func handedOut(n *kube.GPUNode, w *Wish) (by string, gpus int, odd string) {
	policy, claims := w.Policy, len(n.Devices)
	scalar := heldOf(n.PluginHeld)
	full := scalar+heldOf(n.ClaimHeld) >= claims // which is told before that the two ledgers are mixed
	gpus = max(n.Plugin, claims)
	switch {
	case policy == spec.PolicyDRAExtended:
		return "", gpus, "the recipe has GPUs handed out by " + policy + ", which this program does not do"
	case policy == spec.PolicyDevicePlugin && n.Plugin == 0:
		return "", gpus, "the recipe has GPUs handed out by the device plugin, and it offers none here"
	case policy == spec.PolicyDRAClaim && n.Odd != "":
		return "", gpus, "its GPUs cannot be claimed: " + n.Odd
	case policy == spec.PolicyDRAClaim && claims == 0:
		return "", gpus, "the recipe has GPUs claimed through DRA, and it offers none here"
	case n.Odd != "": // KAI refuses pods that ask the device plugin there
		return "", gpus, "DRA offers GPUs that cannot be used: " + n.Odd
	case policy == spec.PolicyDevicePlugin && claims > 0 && w.KAI:
		return "", gpus, "the recipe has GPUs handed out by the device plugin, and KAI sends nobody who asks it to a node whose GPUs DRA offers too"
	case policy == spec.PolicyDevicePlugin:
		return ByDevicePlugin, n.Plugin, ""
	case claims > 0 && scalar > 0 && !full:
		return "", gpus, fmt.Sprintf("its GPUs are claimed through DRA, and %s got some by the device plugin: the two do not see each other", holderText(n.PluginHeld[0]))
	case claims > 0:
		return ByClaim, claims, ""
	}
	return ByDevicePlugin, n.Plugin, ""
}

func heldOf(all []kube.Holder) (n int) {
	for _, h := range all {
		n += h.GPUs
	}
	return n
}

// Where Kubernetes itself taints a node: whoever tolerates such a taint sends pods to a
// node that is broken, full or going away.
const systemTaints = "node.kubernetes.io/"

// tolerated gives what a pod must tolerate to get to a node, or the taint that keeps it
// away.
func tolerated(taints []kube.Taint, given []kube.Toleration) ([]kube.Toleration, *kube.Taint) {
	own := []kube.Toleration{}
	for i, t := range taints {
		keeps := t.Effect == "NoSchedule" || t.Effect == "NoExecute"
		switch {
		case given != nil && keeps && !slices.ContainsFunc(given, func(g kube.Toleration) bool { return tolerates(g, t) }):
			return nil, &taints[i]
		case given != nil:
		case !strings.HasPrefix(t.Key, systemTaints):
			own = append(own, tolerationOf(t))
		case keeps:
			return nil, &taints[i]
		}
	}
	if given != nil {
		return given, nil
	}
	return own, nil
}

func tolerationOf(t kube.Taint) kube.Toleration {
	if t.Value == "" {
		return kube.Toleration{Key: t.Key, Operator: "Exists", Effect: t.Effect}
	}
	return kube.Toleration{Key: t.Key, Operator: "Equal", Value: t.Value, Effect: t.Effect}
}

// tolerates is Kubernetes' own rule.
func tolerates(g kube.Toleration, t kube.Taint) bool {
	switch {
	case g.Effect != "" && g.Effect != t.Effect:
		return false
	case g.Key != "" && g.Key != t.Key:
		return false
	case g.Operator == "Exists":
		return true
	}
	return g.Value == t.Value
}

func taintText(t kube.Taint) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return text + ":" + t.Effect
}

// HeldBy says who holds GPUs, the greatest first.
func HeldBy(all []kube.Holder) string {
	var names []string
	for _, h := range all {
		names = append(names, holderText(h))
	}
	const most = 6
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(names, ", ")
}

func holderText(h kube.Holder) string {
	kind := strings.ToLower(h.Kind)
	if h.Kind == "ResourceClaim" {
		kind = "claim"
	}
	return fmt.Sprintf("%s %s/%s (%d)", kind, h.Namespace, h.Name, h.GPUs)
}

func noSuchNode(all []kube.GPUNode, name string) error {
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	hint := "no node has any"
	if len(names) > 0 {
		hint = "those that have are " + inWords(names)
	}
	if near, ok := spec.Nearest(name, names); ok {
		hint = fmt.Sprintf("did you mean --node %s? %s", near, hint)
	}
	return &ChoiceError{Text: fmt.Sprintf("--node: the cluster has no node %q with GPUs", name), Hint: hint}
}

// unusable words why not one node can be used.
func unusable(all []Rejected, named string) error {
	text := "none of the nodes with GPUs can be used: " + reasons(all)
	if named != "" {
		text = fmt.Sprintf("--node: %s cannot be used: %s", named, all[0].Reason)
	}
	return &ChoiceError{Text: text, Hint: cmp.Or(all[0].remedy, lookAtNodes)}
}

const lookAtNodes = "'aicr snapshot -o table' shows what the nodes say of themselves"

func tooFew(c *Choice, want int) error {
	text := fmt.Sprintf("--nodes: %d nodes are asked for, and %d can be used", want, len(c.Nodes))
	if len(c.Rejected) > 0 {
		text += "; " + reasons(c.Rejected)
	}
	return &ChoiceError{Text: text, Hint: "ask for fewer, or for all", Runs: len(c.Nodes)+len(c.OfRuns()) >= want}
}

// reasons says why each node is not taken, those together that have the same one.
func reasons(all []Rejected) string {
	var order []string
	by := map[string][]string{}
	for _, r := range all {
		if by[r.Reason] == nil {
			order = append(order, r.Reason)
		}
		by[r.Reason] = append(by[r.Reason], r.Node)
	}
	var parts []string
	for _, reason := range order {
		parts = append(parts, inWords(by[reason])+": "+reason)
	}
	return strings.Join(parts, "; ")
}

// inWords is a list of names that stays short.
func inWords(names []string) string {
	const most = 8
	if n := len(names); n > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	return strings.Join(names, ", ")
}
