package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

const someRun = "20261116-015518-0123456789abcdef"

// someSettings are those of a run with everything in it, changed a little.
func someSettings(change ...func(*Settings)) *Settings {
	forever := int64(60)
	s := &Settings{
		Run: someRun, Namespace: "aicr-validation", Node: "gpu-0", Workers: 2, GPUs: ByClaim, DRA: "v1", Graph: GraphBeta, Router: "least-loaded",
		Token: true, Model: "Qwen/Qwen3-8B",
		Images: Images{Runtime: "registry.example/runtime:1.2.3", EndpointPicker: "registry.example/picker:1.2.3", Load: "registry.example/aicr:1.2.3", AIPerf: "registry.example/aiperf:1.2.3"},
		Cache:  &Cache{Size: "100Gi", Populate: Duration(13 * time.Minute)}, Engine: EngineOwn,
		Tolerations: []kube.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists", Effect: "NoSchedule"}, {Key: "dedicated", Operator: "Equal", Value: "gpu", Effect: "NoExecute", Seconds: &forever}},
		ReadyWithin: Duration(10 * time.Minute), AnswerWithin: Duration(5 * time.Minute), PodWithin: Duration(5 * time.Minute), LoadWithin: Duration(15 * time.Minute), KeepFor: Duration(10 * time.Minute),
		Version: "1.2.3",
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func variants() map[string]*Settings {
	return map[string]*Settings{
		"all": someSettings(func(s *Settings) {
			s.Queue, s.Grove, s.Parent, s.Cache.Class, s.LoadOff, s.Images.PullSecret = true, true, "default-parent-queue", "fast", []string{"cpu-small", "cpu-busy"}, "pull"
		}),
		"plain": someSettings(func(s *Settings) {
			s.Token, s.Cache, s.GPUs, s.Tolerations, s.Router = false, nil, ByDevicePlugin, nil, "kv"
		}),
		"v1alpha1":        someSettings(func(s *Settings) { s.Graph, s.DRA = GraphAlpha, "v1beta1" }),
		"v1alpha1-plugin": someSettings(func(s *Settings) { s.Graph, s.GPUs = GraphAlpha, ByDevicePlugin }),
		"dra-v1beta2":     someSettings(func(s *Settings) { s.DRA = "v1beta2" }),
		"digest": someSettings(func(s *Settings) {
			s.Images.Runtime, s.Images.Release = "registry.example/runtime@sha256:"+strings.Repeat("0", 64), "1.2.3"
		}),
		"prepared":   someSettings(func(s *Settings) { s.Prepared = true }),
		"namespaced": someSettings(namespacedRun, func(s *Settings) { s.Grove = true }),
		"namespaced-gateway-plugin": someSettings(namespacedRun, func(s *Settings) {
			s.Gateway, s.GPUs = true, ByDevicePlugin
		}),
		"namespaced-aiperf": someSettings(namespacedRun, func(s *Settings) {
			s.Engine, s.AIPerf = EngineAIPerf, &AIPerfLoad{Concurrency: 8, Requests: 1000, Warmup: 8, InputTokens: 64, OutputTokens: 32}
		}),
		"gateway":   someSettings(func(s *Settings) { s.Gateway = true }),
		"resources": someSettings(func(s *Settings) { s.Resources = someResources() }),
		"resources-v1alpha1": someSettings(func(s *Settings) {
			s.Graph, s.GPUs, s.Resources = GraphAlpha, ByDevicePlugin, someResources()
		}),
		"resources-gateway": someSettings(func(s *Settings) {
			s.Gateway, s.GPUs, s.Resources = true, ByDevicePlugin, someResources()
		}),
		"aiperf": someSettings(func(s *Settings) {
			s.Engine, s.AIPerf = EngineAIPerf, &AIPerfLoad{Concurrency: 512, Requests: 4096, Warmup: 512, InputTokens: 128, OutputTokens: 128}
		}),
		"aiperf-gateway": someSettings(func(s *Settings) {
			s.Engine, s.Gateway, s.AIPerf = EngineAIPerf, true, &AIPerfLoad{Concurrency: 8, Requests: 1000, Warmup: 8, InputTokens: 64, OutputTokens: 32}
		}),
	}
}

// namespacedRun makes settings those of a run in one namespace.
func namespacedRun(s *Settings) {
	s.Namespace, s.Namespaced, s.Prepared, s.KeptUID = "team-a", true, true, "uid-kept"
}

// someResources are asked for of every kind of pod, in each way to ask.
func someResources() PodResources {
	of := func(text string) spec.Resources {
		r, wrong, _ := spec.ParseResources(text)
		if wrong != "" {
			panic(wrong)
		}
		return r
	}
	return PodResources{Worker: of("cpu=8,memory=64Gi,ephemeral-storage=10Gi"), Frontend: of("requests.cpu=2,limits.cpu=4,memory=8Gi"),
		Jobs: of("limits.cpu=500m,memory=1Gi"), Load: of("limits.cpu=8,limits.memory=8Gi")}
}

func TestWhatARunMakes(t *testing.T) {
	for name, s := range variants() {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			for _, step := range Objects(s) {
				text, err := yaml.Marshal(step.Object)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "---\n# %s %s/%s: %s\n%s", step.Part, step.Resource.Version, step.Resource.Name, step.Why, text)
			}
			golden(t, "objects/"+name+".yaml", b.Bytes())
		})
	}
}

// What is sent is JSON. A number or a list of another Go type would be lost on the way
// through a client, or break it.
func TestObjectsAreMadeOfWhatJSONHas(t *testing.T) {
	var check func(t *testing.T, path string, v any)
	check = func(t *testing.T, path string, v any) {
		switch v := v.(type) {
		case string, bool, int64:
		case map[string]any:
			for k, one := range v {
				check(t, path+"."+k, one)
			}
		case []any:
			for i, one := range v {
				check(t, fmt.Sprintf("%s[%d]", path, i), one)
			}
		default:
			t.Errorf("%s is a %T", path, v)
		}
	}
	for name, s := range variants() {
		for _, step := range Objects(s) {
			check(t, name+" "+step.Object.String(), map[string]any(step.Object))
		}
	}
	check(t, "secret", map[string]any(WithToken(secretManifest(someSettings()), "x")))
}

func TestEveryObjectIsKnownAsTheRuns(t *testing.T) {
	for name, s := range variants() {
		for _, step := range Objects(s) {
			o, labels := step.Object, step.Object.Labels()
			if labels[LabelOwner] != OwnerValue || labels[LabelPart] != step.Part {
				t.Errorf("%s: %s has labels %v", name, o, labels)
			}
			if ofAll := o.Name() == s.Namespace && o.Text("kind") == "Namespace"; (labels[LabelRun] == s.Run) == ofAll {
				t.Errorf("%s: %s has run %q", name, o, labels[LabelRun])
			}
			group, version, core := strings.Cut(o.Text("apiVersion"), "/")
			if !core {
				group, version = "", group
			}
			if step.Resource.Group != group || step.Resource.Version != version {
				t.Errorf("%s: %s is sent to %+v", name, o, step.Resource)
			}
			if step.Why == "" {
				t.Errorf("%s: %s says not why", name, o)
			}
		}
	}
}

// No part of any object but the Secret that is sent has the token in it: settings have no
// place for one, and pods name the Secret.
func TestTheTokenIsInItsSecretAlone(t *testing.T) {
	const token = "hf_abcdefghijklmnop"
	s := someSettings()
	plain := secretManifest(s)
	with := WithToken(plain, token)
	if plain.Has("data") {
		t.Error("the Secret of the list has data")
	}
	if got := with.Text("data", "token"); got != "aGZfYWJjZGVmZ2hpamtsbW5vcA==" {
		t.Errorf("data is %q", got)
	}
	pods := 0
	for name, s := range variants() {
		for _, step := range Objects(s) {
			text, err := json.Marshal(step.Object)
			if err != nil {
				t.Fatal(err)
			}
			if !s.Token && strings.Contains(string(text), secretName) {
				t.Errorf("%s: %s names a Secret that is not made", name, step.Object)
			}
			if strings.Contains(string(text), `"HF_TOKEN","value"`) {
				t.Errorf("%s: %s has a token's value", name, step.Object)
			}
			if strings.Contains(string(text), `"secretKeyRef"`) && strings.Contains(string(text), "FallbackToLogsOnError") {
				t.Errorf("%s: %s has the token, and its last words would come into its status", name, step.Object)
			}
			pods += strings.Count(string(text), `"secretKeyRef":{"key":"token","name":"aicr-hf-token","optional":true}`)
		}
	}
	if pods == 0 {
		t.Error("no pod reads the token")
	}
}

// podsOf are the specs of all pods that an object makes, with who they are.
func podsOf(o kube.Object) map[string]kube.Object {
	all := map[string]kube.Object{}
	if pod := o.Map("spec", "template", "spec"); pod != nil {
		all[o.String()] = pod
	}
	for _, c := range o.List("spec", "components") {
		all[c.Text("name")] = c.Map("podTemplate", "spec")
	}
	for name := range o.Map("spec", "services") {
		pod := maps.Clone(o.Map("spec", "services", name, "extraPodSpec"))
		pod["containers"] = []any{map[string]any(pod.Map("mainContainer"))}
		all[name] = pod
	}
	return all
}

func TestEverythingThatServesIsOnTheOneNode(t *testing.T) {
	for name, s := range variants() {
		for _, host := range []string{"", "another-name"} {
			s.Host = host
			want := host
			if host == "" {
				want = s.Node
			}
			n := 0
			for _, step := range Objects(s) {
				if step.Part == PartLoad || step.Part == PartTrial {
					continue
				}
				for who, pod := range podsOf(step.Object) {
					n++
					if got := pod.Text("nodeSelector", "kubernetes.io/hostname"); got != want {
						t.Errorf("%s: %s is on %q, want %q", name, who, got, want)
					}
					if got := len(pod.List("tolerations")); got != len(s.Tolerations) {
						t.Errorf("%s: %s tolerates %d taints", name, who, got)
					}
				}
			}
			if n < 2 {
				t.Errorf("%s: %d pods", name, n)
			}
		}
	}
}

// Our own pods keep to the level restricted, whose rules are these.
func TestOurOwnPodsAreRestricted(t *testing.T) {
	for name, s := range variants() {
		for _, step := range Objects(s) {
			if step.Object.Text("kind") != "Job" {
				continue
			}
			for who, pod := range podsOf(step.Object) {
				if !pod.Bool("securityContext", "runAsNonRoot") || pod.Text("securityContext", "seccompProfile", "type") != "RuntimeDefault" {
					t.Errorf("%s: %s: %v", name, who, pod.Map("securityContext"))
				}
				if uid, ok := pod.Int("securityContext", "runAsUser"); !ok || uid == 0 {
					t.Errorf("%s: %s runs as %d", name, who, uid)
				}
				for _, c := range pod.List("containers") {
					if c.Bool("securityContext", "allowPrivilegeEscalation") || !c.Has("securityContext", "allowPrivilegeEscalation") ||
						!slices.Equal(c.Texts("securityContext", "capabilities", "drop"), []string{"ALL"}) || c.Has("securityContext", "capabilities", "add") {
						t.Errorf("%s: %s: %v", name, who, c.Map("securityContext"))
					}
				}
				for _, v := range pod.List("volumes") {
					if !v.Has("configMap") && !v.Has("emptyDir") && !v.Has("persistentVolumeClaim") {
						t.Errorf("%s: %s has volume %v", name, who, v)
					}
				}
				for _, shared := range []string{"hostNetwork", "hostPID", "hostIPC"} {
					if pod.Has(shared) {
						t.Errorf("%s: %s has %s", name, who, shared)
					}
				}
			}
		}
	}
}

// A name that is too long is refused by the server, in a run that has begun. The longest
// that a run is called is its published form, and no router or model is in a name.
func TestNamesAreNeverTooLong(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	value := regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	for name, s := range variants() {
		s.Router, s.Model, s.Node = "device-aware-weighted", strings.Repeat("m", 200), strings.Repeat("n", 253)
		for _, step := range Objects(s) {
			o := step.Object
			if !label.MatchString(o.Name()) || len(o.Name()) > 63 {
				t.Errorf("%s: %s: %d characters", name, o, len(o.Name()))
			}
			for key, v := range o.Labels() {
				if !value.MatchString(v) || len(v) > 63 {
					t.Errorf("%s: %s: label %s=%q", name, o, key, v)
				}
			}
		}
		n := NamesOf(s.Run)
		if !label.MatchString(n.Results) || len(n.Results) > 63 {
			t.Errorf("%s: %d characters", n.Results, len(n.Results))
		}
		if got := n.Namespace + "-" + n.Graph; len(got) > 63 { // label nvidia.com/dynamo-namespace
			t.Errorf("%s: %d characters", got, len(got))
		}
		for _, c := range components(s) {
			if got := len(n.Graph) + len(c.name); got > 45 { // Grove
				t.Errorf("%s and %s: %d characters", n.Graph, c.name, got)
			}
			if got := n.Graph + "-" + strings.ToLower(c.name); len(got) > 63 { // its Service
				t.Errorf("%s: %d characters", got, len(got))
			}
		}
	}
}

func TestTwoRunsShareNoNameOfTheirOwn(t *testing.T) {
	one, two := NamesOf(someRun), NamesOf("20261116-015518-0123456789abcdee")
	for what, same := range map[string]bool{"namespace": one.Namespace == two.Namespace, "queue": one.Queue == two.Queue, "load": one.Load == two.Load, "kept": one.Kept == two.Kept, "results": one.Results == two.Results} {
		if same {
			t.Errorf("two runs have the same %s", what)
		}
	}
}

// The operator refuses a graph whose image says no release, so that its rule is kept to the
// letter: what looks like a version to people is not always one to it.
func TestWhichTagsTellTheRelease(t *testing.T) {
	for image, want := range map[string]string{
		"registry.example/runtime:1.2.3": "1.2.3", "registry.example/runtime:1.2.3-cuda13": "1.2.3", "registry.example:5000/a/runtime:v1.2.3": "1.2.3",
		"registry.example/runtime:1.2.3@sha256:0000": "1.2.3", "registry.example/runtime:1.2.3-rc.1": "1.2.3", "registry.example/runtime:V1.2.3": "1.2.3",
		"registry.example/runtime:my-tag": "", "registry.example/runtime": "", "registry.example:5000/runtime": "", "registry.example/runtime:latest": "",
		"registry.example/runtime@sha256:0000": "", "registry.example:5000/runtime@sha256:0000": "",
		"registry.example/runtime:1.2": "", "registry.example/runtime:1.2.3.post1": "", "registry.example/runtime:1.2.3rc1": "", "registry.example/runtime:01.2.3": "",
	} {
		if got := releaseOf(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// An image whose tag says no release is told apart, in the one form that is taken.
func TestAReleaseThatNoTagSaysIsToldBesideIt(t *testing.T) {
	for name, c := range map[string]struct{ image, release, want string }{
		"the tag says it":                   {"registry.example/runtime:1.2.3", "9.9.9", ""},
		"a digest behind a tag":             {"registry.example/runtime:1.2.3@sha256:0000", "9.9.9", ""},
		"a digest alone":                    {"registry.example/runtime@sha256:0000", "9.9.9", "9.9.9"},
		"two numbers are none to it":        {"registry.example/runtime:1.2", "9.9.9", "9.9.9"},
		"how it was built is no part of it": {"registry.example/runtime:my-tag", "v9.9.9-cuda13", "9.9.9"},
		"nobody knows it":                   {"registry.example/runtime:my-tag", "nightly", ""},
	} {
		s := variants()["plain"]
		s.Images.Runtime, s.Images.Release = c.image, c.release
		for _, component := range graphManifest(s).List("spec", "components") {
			if got := component.Text("runtimeVersionOverride"); got != c.want {
				t.Errorf("%s: %s has %q, want %q", name, component.Text("name"), got, c.want)
			}
		}
	}
}

// Dynamo's operator wants an endpoint picker told how to decide up to a release, and
// refuses the graph that tells a newer one.
func TestAPickerIsToldHowToDecideAsLongAsItIsToBe(t *testing.T) {
	for image, want := range map[string]bool{
		"registry.example/picker:1.2.3": true, "registry.example/picker:1.4.9": true, "registry.example/picker:1.5.0": false,
		"registry.example/picker:1.5.0-rc.2": false, "registry.example/picker:9.9.9": false, "registry.example/picker:my-tag": true, // as the release that is pinned
	} {
		s := variants()["gateway"]
		s.Images.EndpointPicker, s.Images.Release = image, "1.2.3"
		for _, component := range graphManifest(s).List("spec", "components") {
			if got := component.Has("eppConfig"); got != (want && component.Text("type") == "epp") {
				t.Errorf("%s: %s is told: %t", image, component.Text("name"), got)
			}
		}
	}
}

func TestAPlanListsWhatIsMade(t *testing.T) {
	for name, s := range variants() {
		made, planned := Objects(s), Planned(s)
		pools := slices.DeleteFunc(slices.Clone(planned), func(o spec.PlannedObject) bool { return o.Kind != "InferencePool" })
		if want := len(made); len(planned)-len(pools) != want || (len(pools) == 1) != s.Gateway {
			t.Errorf("%s: %d planned and %d pools, %d made", name, len(planned), len(pools), want)
		}
	}
	for _, o := range Planned(&Settings{Namespace: "aicr-validation", GPUs: ByClaim, DRA: "v1"}) {
		if strings.Contains(o.Name+o.Namespace, NamesOf("x").Short) || o.Kind == "DynamoGraphDeployment" && o.Namespace != "aicr-inference-perf-<8 hex>" {
			t.Errorf("%+v", o)
		}
	}
}
