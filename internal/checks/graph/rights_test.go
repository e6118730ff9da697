package graph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// notedCluster is a cluster where everything works at once, and which notes what it is
// asked for.
type notedCluster struct {
	objects map[string]kube.Object
	asked   map[kube.Right]bool
	made    int
}

func newNotedCluster(node string) *notedCluster {
	c := &notedCluster{objects: map[string]kube.Object{}, asked: map[kube.Right]bool{}}
	c.put(kube.Resource{Version: "v1", Name: "nodes"}, kube.Object{"metadata": fields{"name": node}})
	return c
}

func keyOf(r kube.Resource, namespace, name string) string {
	return r.Group + "/" + r.Name + "/" + namespace + "/" + name
}

func (c *notedCluster) note(verb string, r kube.Resource, below, namespace string) {
	c.asked[kube.Right{Verb: verb, Group: r.Group, Resource: r.Name, Subresource: below, Namespace: namespace}] = true
}

func (c *notedCluster) put(r kube.Resource, o kube.Object) kube.Object {
	c.made++
	o = maps.Clone(o)
	meta := maps.Clone(o.Map("metadata"))
	meta["uid"], meta["resourceVersion"] = fmt.Sprint("uid-", c.made), fmt.Sprint(c.made)
	o["metadata"] = map[string]any(meta)
	c.objects[keyOf(r, o.Namespace(), o.Name())] = o
	return o
}

func (c *notedCluster) pod(namespace, name string, labels fields, container string) {
	c.put(resPods, kube.Object{"kind": "Pod", "metadata": fields{"namespace": namespace, "name": name, "labels": labels},
		"spec": fields{"containers": []any{fields{"name": container}}},
		"status": fields{"phase": "Running", "podIP": "10.0.0.1", "conditions": []any{fields{"type": "Ready", "status": "True"}, fields{"type": "PodReadyToStartContainers", "status": "True"}},
			"containerStatuses": []any{fields{"name": container, "ready": true, "restartCount": int64(1), "state": fields{"running": fields{}}}}}})
}

func (c *notedCluster) Create(_ context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	c.note("create", r, "", o.Namespace())
	o = c.put(r, o)
	switch r.Name {
	case "namespaces":
		c.put(resAccounts, kube.Object{"metadata": fields{"namespace": o.Name(), "name": "default"}})
	case "jobs":
		o["status"] = fields{"succeeded": int64(1), "conditions": []any{fields{"type": "Complete", "status": "True"}}}
		if strings.HasPrefix(o.Name(), "aicr-load") {
			o["status"] = fields{"active": int64(1)}
			container := o.Map("spec", "template", "spec").List("containers")[0].Text("name")
			c.pod(o.Namespace(), o.Name()+"-x", fields{"batch.kubernetes.io/job-name": o.Name(), LabelOwner: OwnerValue, LabelRun: o.Labels()[LabelRun]}, container)
		}
	case "dynamographdeployments":
		status := fields{}
		for _, one := range o.List("spec", "components") {
			n, _ := one.Int("replicas")
			status[one.Text("name")] = fields{"readyReplicas": n}
			for i := range n {
				c.pod(o.Namespace(), fmt.Sprintf("%s-%s-%d", o.Name(), strings.ToLower(one.Text("name")), i), fields{graphLabel: o.Name(), "nvidia.com/dynamo-component-type": one.Text("type")}, "main")
			}
		}
		for name := range o.Map("spec", "services") {
			one := o.Map("spec", "services", name)
			n, _ := one.Int("replicas")
			status[name] = fields{"readyReplicas": n}
			c.pod(o.Namespace(), strings.ToLower(name), fields{"nvidia.com/dynamo-component-type": one.Text("componentType")}, "main")
		}
		o["status"] = fields{"state": "successful", "components": status, "services": status}
	}
	return o, nil
}

func (c *notedCluster) find(r kube.Resource, namespace, name string) (kube.Object, error) {
	if o, ok := c.objects[keyOf(r, namespace, name)]; ok {
		return o, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: r.Group, Resource: r.Name}, name)
}

func (c *notedCluster) Read(_ context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	c.note("get", r, "", namespace)
	return c.find(r, namespace, name)
}

func (c *notedCluster) List(_ context.Context, r kube.Resource, namespace, selector string) (all []kube.Object, err error) {
	c.note("list", r, "", namespace)
	for _, key := range slices.Sorted(maps.Keys(c.objects)) {
		o := c.objects[key]
		fits := strings.HasPrefix(key, r.Group+"/"+r.Name+"/"+namespace)
		for one := range strings.SplitSeq(selector, ",") {
			name, value, ok := strings.Cut(one, "=")
			fits = fits && (one == "" || ok && o.Labels()[name] == value)
		}
		if fits {
			all = append(all, o)
		}
	}
	return all, nil
}

func (c *notedCluster) Apply(_ context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	c.note("patch", r, "", o.Namespace())
	return c.put(r, o), nil
}

func (c *notedCluster) Patch(_ context.Context, r kube.Resource, namespace, name string, _ kube.Object) (kube.Object, error) {
	c.note("patch", r, "", namespace)
	return c.find(r, namespace, name)
}

func (c *notedCluster) Delete(_ context.Context, r kube.Resource, namespace, name string, _ kube.DeleteOptions) error {
	c.note("delete", r, "", namespace)
	if _, err := c.find(r, namespace, name); err != nil {
		return err
	}
	uid := c.objects[keyOf(r, namespace, name)].UID()
	delete(c.objects, keyOf(r, namespace, name))
	for key, o := range c.objects {
		with := r.Name == "namespaces" && o.Namespace() == name ||
			r.Name == "dynamographdeployments" && strings.HasPrefix(key, "/pods/"+namespace+"/") && o.Labels()["nvidia.com/dynamo-component-type"] != "" ||
			slices.ContainsFunc(o.List("metadata", "ownerReferences"), func(owner kube.Object) bool { return owner.Text("uid") == uid }) ||
			r.Name == "jobs" && o.Labels()["batch.kubernetes.io/job-name"] == name
		if with {
			delete(c.objects, key)
		}
	}
	return nil
}

func (c *notedCluster) Logs(_ context.Context, namespace, _, _ string, _ kube.LogOptions) (io.ReadCloser, error) {
	c.note("get", resPods, "log", namespace)
	return io.NopCloser(strings.NewReader("a line\n")), nil
}

func (c *notedCluster) Exec(_ context.Context, namespace, _, _ string, _ []string, _ io.Writer) error {
	c.note("create", resPods, "exec", namespace)
	c.note("get", resPods, "exec", namespace)
	return errors.New("nothing is run here")
}

func (c *notedCluster) Served(context.Context, ...string) (kube.Served, error) {
	return kube.Served{resQueues: true}, nil
}

func (c *notedCluster) Allowed(context.Context, []kube.Right) ([]kube.Right, error) { return nil, nil }

// GPUs notes what kube.Cluster's of this name reads.
func (c *notedCluster) GPUs(s *Settings) {
	for _, r := range []kube.Resource{{Name: "nodes"}, {Name: "pods"}, {Group: groupDRA, Name: "resourceslices"}, {Group: groupDRA, Name: "resourceclaims"}} {
		if r.Group == "" || s.DRA != "" {
			c.note("list", r, "", "")
		}
	}
}

func somePlan(s *Settings) *spec.Plan {
	usual, _ := spec.DefaultThresholds(spec.ProfileClassic)
	return &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileClassic, Stability: spec.StabilityReport, Constraints: []spec.Constraint{}, Thresholds: usual, Inputs: map[string]spec.Input{},
		Point: spec.OperatingPoint{Workers: s.Workers, Concurrency: 8, DurationS: 50, InputTokens: 128, OutputTokens: 128, Prompts: "unique"}}
}

// walk does with a cluster all that a run, and what follows it, does.
func walk(t *testing.T, s *Settings) *notedCluster {
	t.Helper()
	c := newNotedCluster(s.Node)
	if s.Prepared { // by an administrator, with its namespace
		c.put(resNamespaces, kube.Object{"kind": "Namespace", "metadata": fields{"name": s.Namespace}})
		c.put(resAccounts, kube.Object{"kind": "ServiceAccount", "metadata": fields{"name": LoadAccount, "namespace": s.Namespace}})
	}
	spool, err := os.Create(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		told := Told{Say: func(string) {}, Waiting: func(string) {}, Event: func(spec.Event) error { return nil }}
		must := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		c.GPUs(s)
		if s.Queue {
			_, err := Look(ctx, c)
			must("looking", err)
		}
		_, err := IsPrepared(ctx, c, s.Namespace)
		must("looking for the account", err)
		c.note("get", resNamespaces, "", "") // of a run that fails
		for _, class := range []string{"", "fast"} {
			again := *s
			if s.Cache != nil {
				again.Cache = &Cache{Class: class}
			}
			_, err := Guard(ctx, c, GuardInput{Recipe: wantsAll(), Settings: &again, Offers: Offers{Graph: s.Graph, DRA: s.DRA, Gateway: true}})
			must("guarding", err)
		}
		_, err = Reservations(ctx, c, s.Namespace, time.Now())
		must("looking for reservations", err)
		must("reserving", Reserve(ctx, c, s, time.Now, told))
		must("renewing", renew(ctx, c, s, time.Minute, time.Now()))
		kept := &Kept{Run: spec.Run{ID: s.Run}, Plan: somePlan(s), Settings: s}
		must("beginning", kept.begin(ctx, c, time.Now(), told))
		ready, err := Deploy(ctx, c, s, "secret", told)
		must("deploying", err)
		if !ready {
			t.Fatal("what serves is not ready")
		}
		_, err = FindTargets(ctx, c, s)
		must("finding", err)
		must("keeping", kept.save(ctx, c, time.Now()))
		started, err := StartLoad(ctx, c, s, kept.Plan, told)
		must("loading", err)
		if !started {
			t.Fatal("the load has not started")
		}
		if s.Engine == EngineOwn {
			_ = FetchLoad(ctx, c, s, Told{}, "pod", spool, true)
			c.note("list", resEvents, "", s.Namespace) // of a load that does not start
			_, _ = c.Read(ctx, resConfigMaps, s.Namespace, NamesOf(s.Run).Results)
		}
		if _, err := c.Logs(ctx, LoadNamespace(s), "pod", "container", kube.LogOptions{}); err != nil {
			t.Fatal(err)
		}
		Diagnose(ctx, c, s, "", func(string, []byte) error { return nil })
		if left := Teardown(ctx, c, s, told); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	strict, told := &strictCluster{c, rightsOf(s), s}, Told{Say: func(string) {}, Waiting: func(string) {}}
	if s.Namespaced {
		_, _, err = CleanIn(t.Context(), strict, s.Namespace, "", false, told)
	} else {
		_, _, err = Clean(t.Context(), strict, "aicr-validation", "", false, told)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(c.objects)) {
		if o := c.objects[key]; o.Labels()[LabelOwner] != "" && !sharedSpace(o) {
			t.Errorf("%s is left", key)
		}
	}
	return c
}

// strictCluster is one whose user has the rights of a table and no others.
type strictCluster struct {
	*notedCluster
	rights []Right
	s      *Settings
}

func (c *strictCluster) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	asked := kube.Right{Verb: "list", Group: r.Group, Resource: r.Name, Namespace: namespace}
	if !slices.ContainsFunc(c.rights, func(r Right) bool { return granted(r, asked, c.s) }) {
		return nil, forbidden(r.Name)
	}
	return c.notedCluster.List(ctx, r, namespace, selector)
}

// Who has the rights to run has those to clean up after a run that was killed, wherever it
// was.
func TestCleaningUpTakesNoMoreThanTheTable(t *testing.T) {
	for _, namespace := range []string{"aicr-validation", "mine"} {
		s := variants()["all"]
		s.Namespace = namespace
		c := &strictCluster{newNotedCluster(s.Node), Rights(), s}
		for _, step := range Objects(s) {
			c.put(step.Resource, step.Object)
		}
		synctest.Test(t, func(t *testing.T) {
			if _, left, err := Clean(t.Context(), c, "aicr-validation", "", false, Told{Say: func(string) {}, Waiting: func(string) {}}); err != nil || len(left) > 0 {
				t.Errorf("%s: %v %v", namespace, err, left)
			}
		})
		for key, o := range c.objects {
			if o.Labels()[LabelOwner] != "" && !sharedSpace(o) {
				t.Errorf("%s is left", key)
			}
		}
	}
	// What was kept of a run that got no further says nowhere which namespace it is in.
	s := variants()["all"]
	s.Namespace = "mine"
	c := &strictCluster{newNotedCluster(s.Node), Rights(), s}
	for _, step := range Objects(s) {
		if step.Object.Name() == NamesOf(s.Run).Kept {
			c.put(step.Resource, step.Object)
		}
	}
	before := len(c.objects)
	synctest.Test(t, func(t *testing.T) {
		if removed, _, err := Clean(t.Context(), c, "mine", "", false, Told{}); err != nil || len(removed) != 1 || len(c.objects) != before-1 {
			t.Errorf("%v %v", removed, err)
		}
	})
	nobody := &strictCluster{newNotedCluster("gpu-0"), nil, someSettings()}
	if _, _, err := Clean(t.Context(), nobody, "aicr-validation", "", false, Told{}); !kube.IsForbidden(err) {
		t.Errorf("who may see nothing has cleaned up: %v", err)
	}
}

// granted says whether a right of the table is one that was asked for.
func granted(r Right, asked kube.Right, s *Settings) bool {
	resource, below, _ := strings.Cut(r.Resource, "/")
	if r.Group != asked.Group || resource != asked.Resource || below != asked.Subresource || !slices.Contains(r.Verbs, asked.Verb) || !r.Need.met(s) {
		return false
	}
	switch r.Where {
	case InRun:
		return asked.Namespace == NamesOf(s.Run).Namespace
	case InValidation:
		return asked.Namespace == s.Namespace
	case InNamespace:
		return asked.Namespace == s.Namespace || asked.Resource == "namespaces" && asked.Namespace == ""
	case InCluster, InReading:
	}
	return true
}

// teardownLooks are at what a run has not made, and may be forbidden: nothing of it is left
// then either.
var teardownLooks = []string{"list httproutes", "get queues", "get resourceclaimtemplates"}

func TestEveryCallIsInTheTableAndTheTableHasNoMore(t *testing.T) {
	used, looked := map[string]bool{}, map[string]bool{} // used begins with the table
	for name, s := range variants() {
		t.Run(name, func(t *testing.T) {
			c := walk(t, s)
			for asked := range c.asked {
				found := false
				for i, r := range rightsOf(s) {
					if granted(r, asked, s) {
						found, used[fmt.Sprint(s.Namespaced, i, asked.Verb)] = true, true
					}
				}
				look := asked.Verb + " " + asked.Resource
				if !found && !slices.Contains(teardownLooks, look) {
					t.Errorf("%s is asked for, and no right of the table has it", asked)
				}
				looked[look] = looked[look] || !found
			}
		})
	}
	for _, look := range teardownLooks {
		if !looked[look] {
			t.Errorf("%s is excused, and nobody asks for it", look)
		}
	}
	handed := []string{"nodes/stats get"} // to the load
	for namespaced, table := range map[bool][]Right{false: Rights(), true: NamespacedRights()} {
		for i, r := range table {
			if r.Need.Words == forSnapshot.Words { // which kube's own test holds against the collector
				continue
			}
			for _, verb := range r.Verbs {
				if used[fmt.Sprint(namespaced, i, verb)] == slices.Contains(handed, r.Resource+" "+verb) {
					t.Errorf("%s of %s in %s is in the table, and nothing asks for it; or it is handed on, and somebody does", verb, r.Resource, r.Where)
				}
			}
		}
	}
}

// Nobody can give what they do not have: the server would refuse the load's roles.
func TestTheUserHasWhatTheLoadIsGiven(t *testing.T) {
	s := someSettings()
	inNamespace, inCluster := LoadRules(s)
	check := func(rules []LoadRule, namespace string) {
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				asked := kube.Right{Verb: verb, Group: rule.Group, Namespace: namespace}
				asked.Resource, asked.Subresource, _ = strings.Cut(rule.Resource, "/")
				if !slices.ContainsFunc(Rights(), func(r Right) bool { return granted(r, asked, s) }) {
					t.Errorf("the load may %s, and who makes it may not", asked)
				}
			}
		}
	}
	check(inNamespace, s.Namespace)
	check(inCluster, "")
}

// A server is asked about each right once, and where it will be used.
func TestRightsAreAskedAboutWhereTheyAreUsed(t *testing.T) {
	s := someSettings(func(s *Settings) { s.Queue, s.Gateway, s.Live, s.Grove = true, true, true, true })
	asked := map[kube.Right]bool{}
	for _, n := range needed(s) {
		if asked[n.right] {
			t.Errorf("%s is asked about twice", n.right)
		}
		asked[n.right] = true
	}
	for _, want := range []kube.Right{
		{Verb: "list", Resource: "nodes"},
		{Verb: "get", Resource: "nodes", Subresource: "stats", Name: s.Node},
		{Verb: "create", Resource: "secrets", Namespace: NamesOf(s.Run).Namespace},
		{Verb: "get", Resource: "pods", Subresource: "log", Namespace: NamesOf(s.Run).Namespace},
		{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: s.Namespace},
	} {
		if !asked[want] {
			t.Errorf("%s is not asked about", want)
		}
	}
}

func TestARunIsAskedForNoRightItHasNoUseOf(t *testing.T) {
	for resource, changes := range map[string][]func(*Settings){ // each takes the use of it away
		"storageclasses":         {func(s *Settings) { s.Cache = nil }},
		"secrets":                {func(s *Settings) { s.Token = false }},
		"resourceslices":         {func(s *Settings) { s.DRA = "" }},
		"resourceclaimtemplates": {func(s *Settings) { s.GPUs = ByDevicePlugin }, func(s *Settings) { s.GPUs, s.DRA = "", "" }},
		"queues":                 {func(s *Settings) { s.Queue = false }},
		"httproutes":             {func(s *Settings) { s.Gateway = false }},
		"daemonsets":             {func(s *Settings) { s.Live = false }},
		"pods/exec":              {func(s *Settings) { s.Engine = EngineAIPerf }},
	} {
		asked := func(change ...func(*Settings)) bool {
			s := someSettings(append([]func(*Settings){func(s *Settings) { s.Queue, s.Gateway, s.Live = true, true, resource == "daemonsets" }}, change...)...)
			return slices.ContainsFunc(needed(s), func(n neededRight) bool {
				return strings.TrimSuffix(n.right.Resource+"/"+n.right.Subresource, "/") == resource
			})
		}
		if !asked() || !asked(func(s *Settings) { s.GPUs = "" }) { // no node is chosen yet
			t.Errorf("%s is not asked about", resource)
		}
		for i, change := range changes {
			if asked(change) {
				t.Errorf("%s is asked about for nothing (%d)", resource, i)
			}
		}
	}
}

func TestWhatIsNeverAskedFor(t *testing.T) {
	for _, r := range Rights() {
		if slices.Contains(r.Verbs, "*") || r.Resource == "*" || r.Resource == "nodes/proxy" || r.Resource == "secrets" && !slices.Equal(r.Verbs, []string{"create"}) ||
			r.Resource == "pods/exec" && r.Where != InValidation || slices.ContainsFunc(r.Verbs, func(v string) bool {
			return v == "escalate" || v == "bind" || v == "impersonate" || v == "deletecollection"
		}) {
			t.Errorf("%+v", r)
		}
	}
}

// ruled is one verb of one rule, as the roles give it.
type ruled struct {
	name, kind, group, resource, verb string
}

func rulesIn(t *testing.T, text []byte) (all []ruled) {
	t.Helper()
	for one := range strings.SplitSeq(string(text), "---\n") {
		var o kube.Object
		if err := yaml.Unmarshal([]byte(one), &o); err != nil {
			t.Fatal(err)
		}
		if o.Labels()[LabelOwner] != "" {
			t.Errorf("%s would be deleted by a run", o)
		}
		for _, r := range o.List("rules") {
			for _, verb := range r.Texts("verbs") {
				all = append(all, ruled{o.Name(), o.Text("kind"), r.Texts("apiGroups")[0], r.Texts("resources")[0], verb})
			}
		}
	}
	return all
}

// The roles give what a run with everything in it needs, and nothing that could be left
// out: each verb that is taken away is missed.
func TestTheRolesGiveTheWholeTableAndNothingTwice(t *testing.T) {
	golden(t, "roles.yaml", UserRoles("aicr-validation"))
	golden(t, "roles-namespaced.yaml", NamespacedRoles("team-a"))
	wholeTable(t, UserRoles("aicr-validation"), someSettings(func(s *Settings) { s.Queue, s.Gateway, s.Live, s.Grove, s.Prepared = true, true, true, true, true }))
	wholeTable(t, NamespacedRoles("team-a"), someSettings(namespacedRun, func(s *Settings) { s.Gateway, s.Grove = true, true }))
}

func wholeTable(t *testing.T, text []byte, s *Settings) {
	t.Helper()
	rules := slices.DeleteFunc(rulesIn(t, text), func(r ruled) bool { return r.name != UserRole })
	missed := func(without int) (n int) {
		for _, need := range needed(s) {
			resource := need.right.Resource
			if need.right.Subresource != "" {
				resource += "/" + need.right.Subresource
			}
			given := false
			for i, r := range rules {
				given = given || i != without && r.group == need.right.Group && r.resource == resource && r.verb == need.right.Verb && (r.kind == "ClusterRole" || need.right.Namespace == s.Namespace)
			}
			if !given {
				n++
			}
		}
		return n
	}
	if n := missed(-1); n > 0 {
		t.Errorf("%d rights are missing", n)
	}
	for i, r := range rules {
		if missed(i) == 0 {
			t.Errorf("nobody misses %+v", r)
		}
	}
}

// The page has the tables between marks; -update writes them.
func TestThePageHasTheTables(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "security.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]string{"rights": RightsTable(Rights()), "namespaced": RightsTable(NamespacedRights()),
		"load": LoadTable(false), "prepared": LoadTable(true), "never": neverList()} {
		begin, end := []byte("<!-- begin "+name+" -->\n"), []byte("<!-- end "+name+" -->")
		i, j := bytes.Index(text, begin), bytes.Index(text, end)
		if i < 0 || j < i {
			t.Fatalf("docs/security.md has no marks for %s", name)
		}
		i += len(begin)
		if *update {
			text = slices.Concat(text[:i], []byte(table), text[j:])
		} else if got := string(text[i:j]); got != table {
			t.Errorf("docs/security.md is not what the code says (-update writes it): %s\n%s\nwant\n%s", name, got, table)
		}
	}
	if *update {
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What a holder of the roles can do is told of each kind that is in them.
func TestThePageSaysWhatAHolderCanDo(t *testing.T) {
	words := map[string]string{
		"nodes": "nodes", "pods": "pod's spec", "pods/log": "log", "pods/exec": "run commands in", "events": "event",
		"deployments": "Deployment", "daemonsets": "DaemonSet", "jobs": "make Jobs", "namespaces": "namespace",
		"secrets": "make Secrets", "configmaps": "ConfigMap", "serviceaccounts": "ServiceAccounts by name",
		"persistentvolumeclaims": "volume claims", "storageclasses": "storage classes", "leases": "Lease",
		"resourcequotas": "quotas", "limitranges": "limit ranges", "queues": "queues of KAI",
		"resourceclaimtemplates": "claim templates", "resourceclaims": "who claims which GPU",
		"resourceslices": "who claims which GPU", "deviceclasses": "who claims which GPU",
		"dynamographdeployments": "make graphs", "dynamocomponentdeployments": "DynamoComponentDeployments",
		"podcliquesets": "PodCliqueSets", "podcliques": "PodCliques", "httproutes": "make HTTPRoutes", "clusterpolicies": "the GPU operator's policies",
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	const title = "### What a holder can do with them\n"
	sections := strings.Split(string(text), title)
	if len(sections) != 3 {
		t.Fatalf("the page has the title %d times", len(sections)-1)
	}
	for i, roles := range [][]byte{UserRoles("aicr-validation"), NamespacedRoles("team-a")} {
		section, _, _ := strings.Cut(sections[i+1], "\n## ")
		for _, r := range rulesIn(t, roles) {
			if strings.HasPrefix(r.name, LoadAccount) {
				continue // of the load
			}
			if word, known := words[r.resource]; !known || !strings.Contains(section, word) {
				t.Errorf("mode %d: %s %s is given, and the page does not say %q", i, r.verb, r.resource, word)
			}
		}
	}
}

func neverList() string {
	var b strings.Builder
	for _, line := range NeverAsked() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}
