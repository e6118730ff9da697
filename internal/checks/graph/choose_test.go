package graph

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// gpuNode is a node that is well, with GPUs of both stacks as they are counted.
func gpuNode(name string, plugin, devices int, change ...func(*kube.GPUNode)) kube.GPUNode {
	n := kube.GPUNode{Name: name, Ready: true, Schedulable: true, Plugin: plugin, Labels: map[string]string{"pool": "a", "kubernetes.io/hostname": name}}
	for range devices {
		n.Devices = append(n.Devices, kube.Device{Pool: name})
	}
	for _, f := range change {
		f(&n)
	}
	return n
}

func heldBy(namespace, name string, gpus int) func(*kube.GPUNode) {
	return func(n *kube.GPUNode) {
		n.PluginHeld = append(n.PluginHeld, kube.Holder{Kind: "Pod", Namespace: namespace, Name: name, GPUs: gpus})
	}
}

func heldByPod(gpus int) func(*kube.GPUNode) { return heldBy("team", "train", gpus) }

func heldByClaim(gpus int) func(*kube.GPUNode) {
	return func(n *kube.GPUNode) {
		n.ClaimHeld = append(n.ClaimHeld, kube.Holder{Kind: "ResourceClaim", Namespace: "team", Name: "serve", GPUs: gpus})
	}
}

func tainted(key, value, effect string) func(*kube.GPUNode) {
	return func(n *kube.GPUNode) { n.Taints = append(n.Taints, kube.Taint{Key: key, Value: value, Effect: effect}) }
}

func oddly(why string) func(*kube.GPUNode) { return func(n *kube.GPUNode) { n.Odd = why } }

// told is a choice in short: who was chosen and how, and who was not and why.
func choiceText(c *Choice) string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, n.Node+" "+digits(n.Workers)+"/"+digits(n.GPUs)+" "+n.By)
	}
	for _, r := range c.Rejected {
		full := ""
		if r.Full {
			full = " (full, " + HeldBy(r.Held) + ")"
		}
		all = append(all, "not "+r.Node+": "+r.Reason+full)
	}
	return strings.Join(all, "\n")
}

func TestANodeIsChosenByWhatIsFreeOfIt(t *testing.T) {
	cordoned := func(n *kube.GPUNode) { n.Schedulable = false }
	broken := func(n *kube.GPUNode) { n.Ready = false }
	const noSchedule = ":NoSchedule"
	for name, c := range map[string]struct {
		nodes []kube.GPUNode
		wish  Wish
		want  string
	}{
		"the most free wins": {[]kube.GPUNode{gpuNode("a", 8, 0, heldByPod(6)), gpuNode("b", 4, 0)}, Wish{}, "b 4/4 device-plugin"},
		"ties: DRA first":    {[]kube.GPUNode{gpuNode("a", 4, 0), gpuNode("b", 0, 4)}, Wish{}, "b 4/4 claim"},
		"then the name":      {[]kube.GPUNode{gpuNode("b", 4, 0), gpuNode("a", 4, 0)}, Wish{}, "a 4/4 device-plugin"},
		"a node without GPUs is none": {[]kube.GPUNode{gpuNode("cpu", 0, 0), gpuNode("a", 1, 0)}, Wish{},
			"a 1/1 device-plugin"},
		"claims are taken off":                    {[]kube.GPUNode{gpuNode("a", 0, 8, heldByClaim(3))}, Wish{}, "a 5/8 claim"},
		"both stacks, claims: they count":         {[]kube.GPUNode{gpuNode("a", 8, 8, heldByClaim(3))}, Wish{}, "a 5/8 claim"},
		"both stacks, the plugin's: claims count": {[]kube.GPUNode{gpuNode("a", 8, 8, heldByClaim(3), heldByPod(1))}, Wish{Policy: spec.PolicyDevicePlugin}, "a 4/8 device-plugin"},
		"cordoned":                               {[]kube.GPUNode{gpuNode("a", 8, 0, cordoned), gpuNode("b", 1, 0)}, Wish{}, "b 1/1 device-plugin\nnot a: it is cordoned"},
		"not ready":                              {[]kube.GPUNode{gpuNode("a", 8, 0, broken), gpuNode("b", 1, 0)}, Wish{}, "b 1/1 device-plugin\nnot a: it is not ready"},
		"full":                                   {[]kube.GPUNode{gpuNode("a", 2, 0, heldByPod(2))}, Wish{}, "not a: all of its 2 GPUs are held (full, pod team/train (2))"},
		"more held than there is: full, not odd": {[]kube.GPUNode{gpuNode("a", 0, 2, heldByClaim(3))}, Wish{}, "not a: all of its 2 GPUs are held (full, claim team/serve (3))"},
		"the greatest holder first":              {[]kube.GPUNode{gpuNode("a", 3, 3, heldByPod(1), heldByClaim(2))}, Wish{Policy: spec.PolicyDevicePlugin}, "not a: all of its 3 GPUs are held (full, claim team/serve (2), pod team/train (1))"},
		"no GPU of one's own":                    {[]kube.GPUNode{gpuNode("a", 8, 0, func(n *kube.GPUNode) { n.Shares = 4 }), gpuNode("b", 1, 0)}, Wish{}, "b 1/1 device-plugin\nnot a: its device plugin hands each GPU out 4 times, so that no worker would have one of its own"},
		"every one":                              {[]kube.GPUNode{gpuNode("a", 1, 0), gpuNode("b", 2, 0), gpuNode("c", 1, 0, heldByPod(1))}, Wish{Nodes: AllNodes}, "b 2/2 device-plugin\na 1/1 device-plugin\nnot c: all of its 1 GPUs are held (full, pod team/train (1))"},
		"two of three":                           {[]kube.GPUNode{gpuNode("a", 1, 0), gpuNode("b", 2, 0), gpuNode("c", 3, 0)}, Wish{Nodes: 2}, "c 3/3 device-plugin\nb 2/2 device-plugin"},
		"by label":                               {[]kube.GPUNode{gpuNode("a", 8, 0), gpuNode("b", 1, 0, func(n *kube.GPUNode) { n.Labels["pool"] = "b" })}, Wish{Selector: Selector{{Key: "pool", Value: "b"}}}, "b 1/1 device-plugin\nnot a: its labels are not those of --node-selector pool=b"},
		"slices that cannot be used":             {[]kube.GPUNode{gpuNode("a", 8, 0, oddly("its pool is shared by nodes")), gpuNode("b", 1, 0)}, Wish{}, "b 1/1 device-plugin\nnot a: DRA offers GPUs that cannot be used: its pool is shared by nodes"},
		"scalar use of a node of claims":         {[]kube.GPUNode{gpuNode("a", 8, 8, heldByPod(1)), gpuNode("b", 1, 0)}, Wish{}, "b 1/1 device-plugin\nnot a: its GPUs are claimed through DRA, and pod team/train (1) got some by the device plugin: the two do not see each other"},
		"all of it used as scalars: full":        {[]kube.GPUNode{gpuNode("a", 4, 4, heldByPod(4))}, Wish{}, "not a: all of its 4 GPUs are held (full, pod team/train (4))"},
		"two are asked for, and all are full":    {[]kube.GPUNode{gpuNode("a", 1, 0, heldByPod(1)), gpuNode("b", 2, 0, heldByPod(2))}, Wish{Nodes: 2}, "not a: all of its 1 GPUs are held (full, pod team/train (1))\nnot b: all of its 2 GPUs are held (full, pod team/train (2))"},
		"in order, however they are listed":      {[]kube.GPUNode{gpuNode("c", 1, 0, cordoned), gpuNode("b", 1, 0, broken), gpuNode("a", 1, 0)}, Wish{}, "a 1/1 device-plugin\nnot b: it is not ready\nnot c: it is cordoned"},
		"one that is asked for, and full":        {[]kube.GPUNode{gpuNode("a", 2, 0, heldByPod(2))}, Wish{Nodes: 1}, "not a: all of its 2 GPUs are held (full, pod team/train (2))"},
		"holders of as many, by name":            {[]kube.GPUNode{gpuNode("a", 3, 0, heldBy("z", "a", 1), heldBy("y", "c", 1), heldBy("y", "b", 1))}, Wish{}, "not a: all of its 3 GPUs are held (full, pod y/b (1), pod y/c (1), pod z/a (1))"},
		"a plugin that shares, and claims":       {[]kube.GPUNode{gpuNode("a", 16, 4, func(n *kube.GPUNode) { n.Shares = 4 })}, Wish{}, "a 4/4 claim"},
		"both stacks, and KAI has claims alone": {[]kube.GPUNode{gpuNode("a", 4, 4), gpuNode("b", 1, 0)}, Wish{Policy: spec.PolicyDevicePlugin, KAI: true},
			"b 1/1 device-plugin\nnot a: the recipe has GPUs handed out by the device plugin, and KAI sends nobody who asks it to a node whose GPUs DRA offers too"},
		"both stacks, claims, and KAI":               {[]kube.GPUNode{gpuNode("a", 4, 4)}, Wish{KAI: true}, "a 4/4 claim"},
		"only what the plugin has":                   {[]kube.GPUNode{gpuNode("a", 4, 8)}, Wish{Policy: spec.PolicyDevicePlugin}, "a 4/4 device-plugin"},
		"only what can be claimed":                   {[]kube.GPUNode{gpuNode("a", 8, 4)}, Wish{}, "a 4/4 claim"},
		"the recipe claims what cannot be":           {[]kube.GPUNode{gpuNode("a", 8, 0, oddly("its pool is shared by nodes")), gpuNode("b", 0, 1)}, Wish{Policy: spec.PolicyDRAClaim}, "b 1/1 claim\nnot a: its GPUs cannot be claimed: its pool is shared by nodes"},
		"nothing but what cannot be used":            {[]kube.GPUNode{gpuNode("a", 0, 0, oddly("its pool is shared by nodes")), gpuNode("b", 1, 0)}, Wish{}, "b 1/1 device-plugin\nnot a: DRA offers GPUs that cannot be used: its pool is shared by nodes"},
		"the recipe claims, and there is nothing to": {[]kube.GPUNode{gpuNode("a", 8, 0), gpuNode("b", 0, 1)}, Wish{Policy: spec.PolicyDRAClaim}, "b 1/1 claim\nnot a: the recipe has GPUs claimed through DRA, and it offers none here"},
		"the recipe has no claims":                   {[]kube.GPUNode{gpuNode("a", 1, 0), gpuNode("b", 0, 8)}, Wish{Policy: spec.PolicyDevicePlugin}, "a 1/1 device-plugin\nnot b: the recipe has GPUs handed out by the device plugin, and it offers none here"},
		"a taint of the node's own is tolerated":     {[]kube.GPUNode{gpuNode("a", 1, 0, tainted("nvidia.com/gpu", "present", "NoSchedule"))}, Wish{}, "a 1/1 device-plugin"},
		"one of Kubernetes' own is not":              {[]kube.GPUNode{gpuNode("a", 8, 0, tainted("node.kubernetes.io/disk-pressure", "", "NoSchedule")), gpuNode("b", 1, 0)}, Wish{}, "b 1/1 device-plugin\nnot a: its taint node.kubernetes.io/disk-pressure" + noSchedule + " is not tolerated"},
		"one that only advises does no harm":         {[]kube.GPUNode{gpuNode("a", 1, 0, tainted("node.kubernetes.io/x", "", "PreferNoSchedule"))}, Wish{}, "a 1/1 device-plugin"},
		"the taint that keeps away is named":         {[]kube.GPUNode{gpuNode("a", 8, 0, tainted("nvidia.com/gpu", "", "NoSchedule"), tainted("node.kubernetes.io/x", "", "NoExecute")), gpuNode("b", 1, 0)}, Wish{}, "b 1/1 device-plugin\nnot a: its taint node.kubernetes.io/x" + ":NoExecute is not tolerated"},
		"the taint that is not tolerated is named":   {[]kube.GPUNode{gpuNode("a", 8, 0, tainted("k", "", "NoSchedule"), tainted("l", "", "NoExecute")), gpuNode("b", 1, 0)}, Wish{Tolerations: []kube.Toleration{{Key: "k", Operator: "Exists"}}}, "b 1/1 device-plugin\nnot a: its taint l:NoExecute is not tolerated"},
		"who tolerates everything, everything":       {[]kube.GPUNode{gpuNode("a", 1, 0, tainted("node.kubernetes.io/x", "", "NoSchedule"))}, Wish{Tolerations: []kube.Toleration{{Operator: "Exists"}}}, "a 1/1 device-plugin"},
		"who says what is tolerated, says all of it": {[]kube.GPUNode{gpuNode("a", 8, 0, tainted("nvidia.com/gpu", "", "NoSchedule")), gpuNode("b", 1, 0)}, Wish{Tolerations: []kube.Toleration{{Key: "other", Operator: "Exists"}}}, "b 1/1 device-plugin\nnot a: its taint nvidia.com/gpu" + noSchedule + " is not tolerated"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Choose(c.nodes, c.wish)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, choiceText(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWishThatCannotBeMetSaysWhy(t *testing.T) {
	cordoned := func(n *kube.GPUNode) { n.Schedulable = false }
	two := []kube.GPUNode{gpuNode("gpu-0", 2, 0), gpuNode("gpu-1", 2, 0, cordoned)}
	for name, c := range map[string]struct {
		nodes      []kube.GPUNode
		wish       Wish
		text, hint string
	}{
		"no GPUs at all":         {[]kube.GPUNode{gpuNode("cpu", 0, 0)}, Wish{}, "no node of this cluster has GPUs", "aicr snapshot"},
		"no such node":           {two, Wish{Node: "gpu-2"}, `the cluster has no node "gpu-2" with GPUs`, "did you mean --node gpu-"},
		"nothing like it":        {two, Wish{Node: "somewhere-else"}, `no node "somewhere-else" with GPUs`, "those that have are gpu-0, gpu-1"},
		"in order of names":      {[]kube.GPUNode{gpuNode("b", 1, 0), gpuNode("a", 1, 0)}, Wish{Node: "somewhere-else"}, `no node "somewhere-else" with GPUs`, "those that have are a, b"},
		"the named one is not":   {two, Wish{Node: "gpu-1"}, "--node: gpu-1 cannot be used: it is cordoned", "kubectl uncordon"},
		"none":                   {two[1:], Wish{}, "none of the nodes with GPUs can be used: gpu-1: it is cordoned", "kubectl uncordon"},
		"those alike, together":  {[]kube.GPUNode{gpuNode("a", 1, 0, cordoned), gpuNode("b", 1, 0, cordoned)}, Wish{}, "can be used: a, b: it is cordoned", ""},
		"not so many":            {two, Wish{Nodes: 2}, "2 nodes are asked for, and 1 can be used; gpu-1: it is cordoned", "ask for fewer"},
		"a label that none has":  {two, Wish{Selector: Selector{{Key: "pool", Value: "z"}}}, "its labels are not those of --node-selector pool=z", "--show-labels"},
		"a label in other words": {two, Wish{Selector: Selector{{Key: "state", Value: "cordoned"}}}, "--node-selector state=cordoned", "--show-labels"},
		"not ready":              {[]kube.GPUNode{gpuNode("a", 1, 0, func(n *kube.GPUNode) { n.Ready = false })}, Wish{}, "a: it is not ready", "kubectl describe node"},
		"slices that are odd":    {[]kube.GPUNode{gpuNode("a", 1, 0, oddly("it is not tolerated"))}, Wish{}, "cannot be used: it is not tolerated", "aicr snapshot"},
		"a taint of the named":   {[]kube.GPUNode{gpuNode("a", 1, 0, tainted("k", "v", "NoExecute"))}, Wish{Node: "a", Tolerations: []kube.Toleration{}}, "its taint k=v:NoExecute is not tolerated", "--toleration"},
		"a way that is not done": {two[:1], Wish{Policy: spec.PolicyDRAExtended}, "which this program does not do", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Choose(c.nodes, c.wish)
			e, ok := errors.AsType[*ChoiceError](err)
			if !ok {
				t.Fatalf("%v, %v", got, err)
			}
			if !strings.HasSuffix(e.Text, c.text) || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("%q, hint %q", e.Text, e.Hint)
			}
		})
	}
}

// What a run is told of its node: how pods are pinned to it, and who holds the rest of it.
func TestWhatIsSaidOfANode(t *testing.T) {
	named := func(n *kube.GPUNode) { n.Labels["kubernetes.io/hostname"] = "ip-10-0-0-1" }
	full := gpuNode("b", 2, 0, heldByPod(2))
	c, err := Choose([]kube.GPUNode{gpuNode("a", 4, 0, named, heldByPod(1)), full}, Wish{})
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Nodes[0]; n.Host != "ip-10-0-0-1" || HeldBy(n.Held) != "pod team/train (1)" {
		t.Errorf("%+v", n)
	}
	if r := c.Full(); len(r) != 1 || r[0].GPUs != 2 || HeldBy(r[0].Held) != "pod team/train (2)" {
		t.Errorf("%+v", r)
	}
}

func TestALongListSaysHowMuchIsLeftOut(t *testing.T) {
	var held []kube.Holder
	var names []string
	for i := range 10 {
		held, names = append(held, kube.Holder{Kind: "Pod", Namespace: "n", Name: digits(i), GPUs: 1}), append(names, digits(i))
	}
	if got := HeldBy(held); !strings.HasSuffix(got, "pod n/5 (1), and 4 more") {
		t.Error(got)
	}
	if got := inWords(names); got != "0, 1, 2, 3, 4, 5, 6, 7 and 2 more" {
		t.Error(got)
	}
}

func TestTolerationsAreTheNodesOwnUnlessTheyAreSaid(t *testing.T) {
	node := gpuNode("a", 1, 0, tainted("nvidia.com/gpu", "present", "NoSchedule"), tainted("dedicated", "", "NoExecute"), tainted("node.kubernetes.io/x", "", "PreferNoSchedule"))
	said := []kube.Toleration{{Operator: "Exists"}}
	for name, c := range map[string]struct {
		given, want []kube.Toleration
	}{
		"its own": {nil, []kube.Toleration{{Key: "nvidia.com/gpu", Operator: "Equal", Value: "present", Effect: "NoSchedule"}, {Key: "dedicated", Operator: "Exists", Effect: "NoExecute"}}},
		"said":    {said, said},
	} {
		got, err := Choose([]kube.GPUNode{node}, Wish{Tolerations: c.given})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got.Nodes[0].Tolerations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestATolerationIsHeldAgainstATaintAsKubernetesDoes(t *testing.T) {
	taint := kube.Taint{Key: "k", Value: "v", Effect: "NoSchedule"}
	for text, want := range map[string]bool{
		"*": true, "k": true, "k:NoSchedule": true, "k=v": true, "k=v:NoSchedule": true,
		"k=w": false, "other": false, "k:NoExecute": false, "k=v:NoExecute": false,
	} {
		toleration, err := ParseToleration(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := tolerates(toleration, taint); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"", "k:Never", "k=v=w", "=v", "a b", ":NoSchedule", "k=" + strings.Repeat("v", 64)} {
		if got, err := ParseToleration(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestASelectorIsReadAsKubectlDoes(t *testing.T) {
	labels := map[string]string{"pool": "a", "nvidia.com/gpu.present": "true", "empty": ""}
	for text, want := range map[string]bool{
		"pool=a": true, "pool==a": true, "pool=b": false, "pool!=b": true, "pool!=a": false, "pool": true, "!pool": false, "!spot": true, "spot": false,
		"spot!=a": true, "pool=a,nvidia.com/gpu.present=true": true, "pool=a, !empty": false, "empty=": true,
	} {
		s, err := ParseSelector(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := s.Matches(labels); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"", "=a", "a=b=c", "pool in (a,b)", "a b=c", "-a", "a=-"} {
		if s, err := ParseSelector(text); err == nil {
			t.Errorf("%q is taken for %v", text, s)
		}
	}
}

// FuzzChooseWords wants that what is taken is written as it was read.
func FuzzChooseWords(f *testing.F) {
	for _, seed := range []string{"pool=a,!spot", "k=v:NoSchedule", "*", "a!=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSelector(text); err == nil {
			again, err := ParseSelector(s.String())
			if err != nil || cmp.Diff(s, again) != "" {
				t.Errorf("%q is %v and then %v, %v", text, s, again, err)
			}
		}
		if toleration, err := ParseToleration(text); err == nil && toleration.Key == "" && text != "*" {
			t.Errorf("%q tolerates everything", text)
		}
	})
}

// A node that a run has reserved is not free, and one that has GPUs which nothing offers is
// told of: a fleet of which it is a part was not looked at as a whole.
func TestANodeThatIsNotLookedAtIsTold(t *testing.T) {
	at := time.Date(2026, 11, 18, 19, 0, 0, 0, time.UTC)
	reserved := func(n *kube.GPUNode) { n.Reserved = &kube.Reservation{Node: n.Name, Run: rivalRun, Since: at} }
	dead := func(n *kube.GPUNode) { n.Declared = 8 }
	parts := func(n *kube.GPUNode) { n.Declared, n.MIG = 8, 14 }
	nodes := []kube.GPUNode{gpuNode("a", 8, 0, reserved), gpuNode("b", 2, 0), gpuNode("c", 0, 0, dead), gpuNode("d", 0, 0, parts), gpuNode("cpu", 0, 0)}
	c, err := Choose(nodes, Wish{Nodes: AllNodes})
	if err != nil {
		t.Fatal(err)
	}
	want := `b 2/2 device-plugin
not a: it is reserved by run ` + rivalRun + ` since 2026-11-18T19:00:00Z (full, )
not c: it is said to have 8 GPUs, by its labels or its capacity, and neither the device plugin nor DRA offers any
not d: its GPUs are offered in parts (MIG), and a worker takes a whole one`
	if diff := cmp.Diff(want, choiceText(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c, err = Choose(nodes, Wish{Node: "a"})
	if err != nil || len(c.Nodes) > 0 || len(c.OfRuns()) != 1 {
		t.Fatal(c, err)
	}
	if said := c.OfRuns()[0].ByRuns(); said != "node a is reserved by run "+rivalRun+" since 2026-11-18T19:00:00Z" {
		t.Error(said)
	}
	held := gpuNode("a", 2, 0, heldBy(NamesOf(rivalRun).Namespace, "w-0", 2))
	if c, err = Choose([]kube.GPUNode{held}, Wish{}); err != nil || len(c.OfRuns()) != 1 || c.OfRuns()[0].Taken().Error() == "" {
		t.Errorf("%v %v", c, err)
	}
	if c, err = Choose([]kube.GPUNode{gpuNode("a", 2, 0, heldBy("aicr-inference-perfect", "w-0", 2))}, Wish{}); err != nil || len(c.OfRuns()) != 0 {
		t.Errorf("a namespace that is called alike: %v %v", c, err)
	}
	_, err = Choose(nodes[:2], Wish{Nodes: 2})
	if e, ok := errors.AsType[*ChoiceError](err); !ok || !e.Runs {
		t.Errorf("%v", err)
	}
	if c, err = Choose(nodes[:2], Wish{Selector: Selector{{Key: "kubernetes.io/hostname", Value: "a", Not: true}}}); err != nil || !c.Rejected[0].Unsaid {
		t.Errorf("%v %v", c, err)
	}
}
