//go:build linux

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// ruled is a cluster on which a run makes everything that it can make, and whose API server
// writes down who asked for what.
const ruled = `
nodes:
  - {name: gpu-0, gpus: 2}
  - {name: gpu-1, gpus: 2}
  - {name: cpu-0, gpus: 0, cpu: "32"}
gateway: true
kai: true
audit: true
aicr: PROGRAM
`

const securityPage = "../../docs/security.md"

// The whole check under the roles that the program prints and nothing else, given and taken
// back by the commands of docs/security.md. Then every verb of them is taken away for
// itself. The API server's own log says what was used.
func TestRights(t *testing.T) {
	t.Parallel()
	c := startCluster(t, ruled)
	empty := c.asItIs(t)
	give, takeBack := fenced(t, "aicr validate --rbac"), fenced(t, "kubectl delete clusterrolebinding")

	alice, bob := c.user(t, "alice"), c.user(t, "bob")
	t.Run("nobody has any", func(t *testing.T) { c.allAtOnce(t, alice) })
	c.shell(t, strings.ReplaceAll(give, "USER", "alice"))
	c.everywhere(t, "bob", "mine")
	c.inForce(t, alice, 0)
	given := c.asItIs(t)

	t.Run("side by side", func(t *testing.T) {
		t.Run("the whole check", func(t *testing.T) {
			t.Parallel()
			c.wholeCheck(t, alice)
		})
		t.Run("a start that fails, in a namespace of its own", func(t *testing.T) {
			t.Parallel()
			c.failingCheck(t, bob)
		})
	})
	c.settled(t, given)

	t.Run("each verb taken away", func(t *testing.T) { c.eachVerb(t) })
	t.Run("no namespace, no Role", func(t *testing.T) {
		o := finished(t, c.command(alice, nil, append([]string{"validate", "--recipe", routedRecipe, "--namespace", "theirs"}, short...)...))
		if errs := errorLines(o); o.code != 3 || len(errs) != 1 || !strings.Contains(errs[0], "there is no namespace theirs") {
			t.Error(o)
		}
	})
	c.shell(t, strings.ReplaceAll(takeBack, "USER", "alice"))
	c.inForce(t, alice, verbsOf(t))
	t.Run("taken back", func(t *testing.T) { c.allAtOnce(t, alice) })
	c.nowhere(t, "bob")
	c.settled(t, empty)

	t.Run("the server's own log", func(t *testing.T) { c.heldAgainstLog(t) })
}

const routedRecipe = "testdata/gateway-recipe.yaml"

// allAtOnce is a user without any right: one line for each, and an end.
func (c *cluster) allAtOnce(t *testing.T, kubeconfig string) {
	t.Helper()
	o := finished(t, c.command(kubeconfig, []string{spec.KnobToken + "=" + canary}, append([]string{"validate", "--recipe", routedRecipe}, short...)...))
	if errs, verbs := errorLines(o), verbsOf(t); o.code != 3 || len(errs) != verbs {
		t.Errorf("%d verbs are in the roles, and %d errors were told: %s", verbs, len(errs), o)
	}
}

// verbsOf counts the verbs of the roles.
func verbsOf(t *testing.T) (n int) {
	t.Helper()
	for _, o := range userRoles(t, graph.UserRoles("aicr-validation")) {
		for _, r := range o.List("rules") {
			n += len(r.Texts("verbs"))
		}
	}
	return n
}

// inForce waits until a user lacks so many rights: the server hears of roles after they
// were written.
func (c *cluster) inForce(t *testing.T, kubeconfig string, lacking int) {
	t.Helper()
	var o *outcome
	err := eventually(t.Context(), func() (bool, error) {
		o = finished(t, c.command(kubeconfig, []string{spec.KnobToken + "=" + canary}, append([]string{"validate", "--recipe", routedRecipe, "--dry-run"}, short...)...))
		return len(errorLines(o)) == lacking && (o.code == 0) == (lacking == 0), nil
	})
	if err != nil {
		t.Fatalf("%d rights are to be lacking: %v\n%s", lacking, err, o)
	}
}

func errorLines(o *outcome) (all []string) {
	for line := range strings.Lines(o.stderr) {
		if strings.HasPrefix(line, "error: ") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// wholeCheck passes, with claims, cache, token, queue and gateway in it.
func (c *cluster) wholeCheck(t *testing.T, kubeconfig string) {
	eyes := c.watchSecrets(t)
	dir := filepath.Join(t.TempDir(), "run")
	o := finished(t, c.command(kubeconfig, []string{spec.KnobToken + "=" + canary},
		append([]string{"validate", "--recipe", routedRecipe, "--run", dir, "--node", "gpu-0"}, short...)...))
	pods := eyes()
	if o.verdict = verdictIn(t, dir); o.code != 0 || o.verdict == nil || o.verdict.Verdict != spec.Pass {
		t.Errorf("not PASS: %s", o)
	}
	noCanary(t, dir, o)
	load := false
	for name, pod := range pods {
		mine := strings.HasPrefix(name, "aicr-validation/") && !strings.Contains(name, "-trial-")
		load = load || mine
		if mounts := tokenIn(pod); mounts != (mine || strings.Contains(name, "/aicr-inference-perf-") && !strings.Contains(name, "populate")) {
			t.Errorf("%s: the token of a ServiceAccount is mounted: %v", name, mounts)
		}
	}
	if !load {
		t.Errorf("the load's pod was not seen among %v", slices.Collect(maps.Keys(pods)))
	}
	// The load has asked the kubelet, which asks the API server whether it may.
	if said := seriesOf(t, dir, ":10250/stats/summary"); len(said) == 0 || slices.ContainsFunc(said, refused.MatchString) {
		t.Errorf("the load was not let into the kubelet: %v", said)
	}
	cleaned := finished(t, c.command(kubeconfig, nil, "clean", "--dry-run"))
	if cleaned.code != 0 {
		t.Errorf("who may validate may not clean: %s", cleaned)
	}
	// The namespace takes no pod that is not restricted.
	_, err := c.api.Create(t.Context(), kube.Resource{Version: "v1", Name: "pods"}, kube.Object{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "loose", "namespace": "aicr-validation"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a"}}}})
	if !kube.IsForbidden(err) || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("a pod that is not restricted: %v", err)
	}
}

// refused is what a source of the series says that was not let in.
var refused = regexp.MustCompile(`"gap":"[^"]*(403|401|orbidden|nauthorized)`)

// failingCheck makes the namespace of the validations itself, fails, and leaves all; then it
// is cleaned away.
func (c *cluster) failingCheck(t *testing.T, kubeconfig string) {
	c.annotate(t, "gpu-1", map[string]string{faultsAnnotation: "crash-loop"})
	dir := filepath.Join(t.TempDir(), "run")
	env := []string{spec.KnobToken + "=" + canary, spec.KnobCacheClass + "=" + c.storageClass(t)}
	o := finished(t, c.command(kubeconfig, env,
		append([]string{"validate", "--recipe", recipe, "--run", dir, "--node", "gpu-1", "--namespace", "mine", "--no-cleanup"}, short...)...))
	if o.verdict = verdictIn(t, dir); o.code != 1 || o.verdict == nil || !slices.Equal(ids(o.verdict), []string{"cluster/pods-failed"}) {
		t.Errorf("not a failed start: %s", o)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "diagnostics", "log-*-previous.txt")); len(kept) == 0 {
		t.Errorf("the diagnostics have no log of what crashed: %s", o)
	}
	noCanary(t, dir, o)
	_, command, ok := strings.Cut(o.stderr, "to remove it: aicr ")
	command, _, _ = strings.Cut(command, "\n")
	if !ok || !strings.Contains(command, "--namespace mine") {
		t.Fatalf("no command that removes it: %s", o)
	}
	cleaned := finished(t, c.command(kubeconfig, nil, strings.Fields(command)...))
	again := finished(t, c.command(kubeconfig, nil, "clean", "--namespace", "mine"))
	if cleaned.code != 0 || again.code != 0 {
		t.Errorf("it is not cleaned away: %s%s", cleaned, again)
	}
}

// storageClass is the name of one that there is.
func (c *cluster) storageClass(t *testing.T) string {
	t.Helper()
	all, err := c.api.List(t.Context(), kube.Resource{Group: "storage.k8s.io", Version: "v1", Name: "storageclasses"}, "", "")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	return all[0].Name()
}

// eachVerb takes each verb of the roles away from a user of its own. The run stops before
// anything is written, says which it is, and nothing else.
func (c *cluster) eachVerb(t *testing.T) {
	type taken struct{ user, verb, what string }
	var all []taken
	objects := userRoles(t, graph.UserRoles("aicr-validation"))
	// Who has all of them is the last: when that role holds, the others do.
	for d, o := range objects {
		for r, rule := range o.List("rules") {
			for v, verb := range rule.Texts("verbs") {
				what := rule.Texts("resources")[0]
				if group := rule.Texts("apiGroups")[0]; group != "" {
					what += "." + group
				}
				one := taken{user: fmt.Sprintf("without-%d-%d-%d", d, r, v), verb: verb, what: what}
				c.giveWithout(t, one.user, objects, d, r, v)
				all = append(all, one)
			}
		}
	}
	c.giveWithout(t, "with-all", objects, -1, -1, -1)
	t.Cleanup(func() {
		for _, one := range all {
			c.nowhere(t, one.user)
		}
		c.nowhere(t, "with-all")
	})
	env := []string{spec.KnobToken + "=" + canary}
	c.inForce(t, c.user(t, "with-all"), 0)
	before := c.asItIs(t)
	var group sync.WaitGroup
	free := make(chan struct{}, 3)
	for _, one := range all {
		kubeconfig := c.user(t, one.user)
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			dir := filepath.Join(t.TempDir(), "run")
			cmd := c.command(kubeconfig, env, append([]string{"validate", "--recipe", routedRecipe, "--run", dir}, short...)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			_ = cmd.Run() // its code is looked at
			o := &outcome{code: cmd.ProcessState.ExitCode(), stderr: stderr.String()}
			errs := errorLines(o)
			if o.code != 3 || len(errs) != 1 || !strings.HasPrefix(errs[0], "error: you may not "+one.verb+" "+one.what+" ") {
				t.Errorf("without %s %s: %s", one.verb, one.what, o)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("without %s %s: the run has a folder", one.verb, one.what)
			}
		})
	}
	group.Wait()
	c.settled(t, before)
	t.Logf("%d verbs, each taken away for itself", len(all))
}

// Kinds that tests make.
var (
	clusterRoles = kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "clusterroles"}
	clusterBinds = kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "clusterrolebindings"}
	roles        = kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "roles"}
	roleBinds    = kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "rolebindings"}
)

// giveWithout gives a user the roles, but for one verb of one rule of one of them.
func (c *cluster) giveWithout(t *testing.T, user string, objects []kube.Object, without ...int) {
	t.Helper()
	for d, o := range objects {
		kind := o.Text("kind")
		if kind != "Role" && kind != "ClusterRole" {
			continue
		}
		var kept []any
		for r, rule := range o.List("rules") {
			verbs := rule.Texts("verbs")
			if d == without[0] && r == without[1] {
				verbs = slices.Delete(verbs, without[2], without[2]+1)
			}
			if len(verbs) > 0 {
				kept = append(kept, map[string]any{"apiGroups": rule["apiGroups"], "resources": rule["resources"], "verbs": verbs})
			}
		}
		c.bind(t, user, kind, o.Namespace(), kept)
	}
}

// bind gives a user rules: in a namespace, or in all of them.
func (c *cluster) bind(t *testing.T, user, kind, namespace string, rules []any) {
	t.Helper()
	meta := map[string]any{"name": user}
	role, binding := clusterRoles, clusterBinds
	if kind == "Role" {
		role, binding, meta["namespace"] = roles, roleBinds, namespace
	}
	const version = "rbac.authorization.k8s.io/v1"
	_, err := c.api.Create(t.Context(), role, kube.Object{"apiVersion": version, "kind": kind, "metadata": meta, "rules": rules})
	if err == nil {
		_, err = c.api.Create(t.Context(), binding, kube.Object{"apiVersion": version, "kind": kind + "Binding", "metadata": meta,
			"roleRef":  map[string]any{"apiGroup": role.Group, "kind": kind, "name": user},
			"subjects": []any{map[string]any{"apiGroup": role.Group, "kind": "User", "name": user}}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// everywhere gives a user the rules of the roles for a namespace in all of them: what it
// takes to make that namespace.
func (c *cluster) everywhere(t *testing.T, user, namespace string) {
	t.Helper()
	var all []any
	for _, rule := range rules(t, graph.UserRoles(namespace)) {
		all = append(all, map[string]any(rule))
	}
	for _, r := range graph.Rights() { // of who runs where nothing is prepared
		if strings.Contains(r.Need.Words, "was not applied") {
			all = append(all, map[string]any{"apiGroups": []any{r.Group}, "resources": []any{r.Resource}, "verbs": r.Verbs})
		}
	}
	c.bind(t, user, "ClusterRole", "", all)
}

// userRoles are the roles in a stream that are bound to people, and not to the load.
func userRoles(t *testing.T, text []byte) []kube.Object {
	t.Helper()
	return slices.DeleteFunc(documents(t, text), func(o kube.Object) bool { return o.Name() != graph.UserRole })
}

// prepare places what an administrator prepares for loads.
func (c *cluster) prepare(t *testing.T, text []byte) {
	t.Helper()
	resources := map[string]kube.Resource{"Namespace": namespaces, "ServiceAccount": {Version: "v1", Name: "serviceaccounts"},
		"Role": roles, "RoleBinding": roleBinds, "ClusterRole": clusterRoles, "ClusterRoleBinding": clusterBinds}
	for _, o := range documents(t, text) {
		if o.Name() == graph.UserRole {
			continue
		}
		if _, err := c.api.Create(t.Context(), resources[o.Text("kind")], o); err != nil && !kube.IsExists(err) {
			t.Fatal(err)
		}
	}
}

// nowhere takes from a user what bind gave.
func (c *cluster) nowhere(t *testing.T, user string) {
	t.Helper()
	for r, namespace := range map[kube.Resource]string{clusterRoles: "", clusterBinds: "", roles: "aicr-validation", roleBinds: "aicr-validation"} {
		if err := c.api.Delete(context.WithoutCancel(t.Context()), r, namespace, user, kube.DeleteOptions{}); err != nil && !kube.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// documents are the objects of a YAML stream.
func documents(t *testing.T, text []byte) (all []kube.Object) {
	t.Helper()
	for one := range strings.SplitSeq(string(text), "---\n") {
		var o kube.Object
		if err := yaml.Unmarshal([]byte(one), &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// rules are all of the roles in a stream.
func rules(t *testing.T, text []byte) (all []kube.Object) {
	t.Helper()
	for _, o := range documents(t, text) {
		all = append(all, o.List("rules")...)
	}
	return all
}

// used is a right that somebody has used.
type used struct{ verb, group, resource, where string }

func (u used) String() string {
	return strings.TrimSpace(u.verb + " " + strings.TrimSuffix(u.resource+"."+u.group, ".") + " " + u.where)
}

var runSpace = regexp.MustCompile(`^aicr-inference-perf-[0-9a-f]{8}$`)

// log reads what the API server has written down of users whose name fits.
func (c *cluster) log(t *testing.T, who func(name string) bool) map[used]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "state", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // others go on, and a line may be half written
	all := map[used]bool{}
	for line := range bytes.Lines(text) {
		var e struct {
			Verb   string
			User   struct{ Username string }
			Object *struct{ Resource, Namespace, APIGroup, Subresource string } `json:"objectRef"`
			Status struct{ Code int }                                           `json:"responseStatus"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		o := e.Object
		if !who(e.User.Username) || o == nil || e.Status.Code == 403 || o.Resource == "selfsubjectaccessreviews" {
			continue // discovery is everybody's, and so is the question
		}
		u := used{verb: e.Verb, group: o.APIGroup, resource: strings.TrimSuffix(o.Resource+"/"+o.Subresource, "/")}
		switch {
		case o.Namespace == "" || o.Resource == "namespaces":
		case runSpace.MatchString(o.Namespace):
			u.where = string(graph.InRun)
		case slices.Contains([]string{"aicr-validation", "mine", "theirs"}, o.Namespace):
			u.where = string(graph.InValidation)
		default:
			u.where = o.Namespace
		}
		all[u] = true
	}
	if len(all) == 0 {
		t.Fatal("the API server has written down nothing")
	}
	return all
}

// unseen are rights of the table that the server does not write down, and why;
// unseenOfLoad are those of the load's.
var (
	unseen = map[string]string{
		"get nodes/stats":  "handed on to the load, which asks the kubelet",
		"create pods/exec": "the server asks for it beside get when a websocket is opened, and instead of it without one",
	}
	unseenOfLoad = map[string]string{
		"get nodes/stats": "the kubelet is asked",
		"get configmaps":  "asked where the server's answer to create was lost",
	}
)

// heldAgainstLog compares what was used with the table: nothing else was, and nothing in it
// was not.
func (c *cluster) heldAgainstLog(t *testing.T) {
	hit := map[used]bool{}
	var table []used
	given := c.given(t)
	for _, r := range graph.Rights() {
		for _, verb := range r.Verbs {
			u := used{verb, r.Group, r.Resource, string(r.Where)}
			if r.Where == graph.InCluster {
				u.where = ""
			}
			table = append(table, u)
		}
	}
	for _, user := range []string{"alice", "bob"} {
		for u := range c.log(t, func(name string) bool { return name == user }) {
			found := false
			for _, right := range table {
				if u.verb != right.verb || u.group != right.group || u.resource != right.resource {
					continue
				}
				hit[right] = hit[right] || u == right
				// What is given in all namespaces may be done in each and in all: that of the
				// cluster, and that of the runs' namespaces, which have no name yet. Bob has
				// all of it so.
				found = found || u == right || right.where == "" || u.where == "" && (right.where == string(graph.InRun) || user == "bob")
			}
			if !found {
				t.Errorf("%s has used %s, and the table does not have it", user, u)
			}
		}
	}
	for _, right := range table {
		if !given[right.verb+" "+right.group+" "+right.resource] {
			continue // used only where --rbac was not applied
		}
		if _, known := unseen[right.verb+" "+right.resource]; hit[right] == known {
			t.Errorf("%s is in the table, and nobody has used it; or it is not to be seen, and somebody has: %v", right, hit[right])
		}
	}
	c.loadAgainstLog(t)
	for u := range c.log(t, func(name string) bool { return strings.HasPrefix(name, "without-") || name == "with-all" }) {
		if u.verb != "get" && u.verb != "list" {
			t.Errorf("whoever lacked a right has used %s", u)
		}
	}
}

// given are the verbs that the printed roles give, each with its group and resource.
func (c *cluster) given(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, o := range userRoles(t, graph.UserRoles("aicr-validation")) {
		for _, rule := range o.List("rules") {
			for _, verb := range rule.Texts("verbs") {
				all[verb+" "+rule.Texts("apiGroups")[0]+" "+rule.Texts("resources")[0]] = true
			}
		}
	}
	return all
}

// loadAgainstLog compares what the load has used with its own table, both ways.
func (c *cluster) loadAgainstLog(t *testing.T) {
	t.Helper()
	seen := c.log(t, func(name string) bool {
		return strings.HasPrefix(name, "system:serviceaccount:aicr-validation:aicr-load")
	})
	given := map[used]bool{}
	take := func(where string, rules []graph.LoadRule) {
		for _, r := range rules {
			for _, verb := range r.Verbs {
				given[used{verb, r.Group, r.Resource, where}] = true
			}
		}
	}
	inNamespace, inCluster := graph.LoadRules(&graph.Settings{Node: "NODE"})
	take(string(graph.InValidation), inNamespace)
	take("", inCluster)
	for u := range seen {
		if !given[u] {
			t.Errorf("the load has used %s, and its table does not have it", u)
		}
	}
	for u := range given {
		if _, known := unseenOfLoad[u.verb+" "+u.resource]; !seen[u] && !known {
			t.Errorf("the load is given %s, and has not used it", u)
		}
	}
}

// user makes a person: a client certificate of the cluster's own authority, and nothing
// else. It gives the kubeconfig.
func (c *cluster) user(t *testing.T, name string) string {
	t.Helper()
	pki := filepath.Join(c.dir, "state", "pki")
	authority, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := x509.ParseCertificate(authority.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		issuer, key.Public(), authority.PrivateKey.(crypto.Signer))
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	config["users"].([]any)[0].(map[string]any)["user"] = map[string]any{
		"client-certificate-data": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"client-key-data":         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
	text, err = json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.dir, name+".kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

var fence = regexp.MustCompile("(?s)```\n(.*?)```")

// fenced is the block of commands on the page that begins so.
func fenced(t *testing.T, begin string) string {
	t.Helper()
	page, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range fence.FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], begin) {
			return block[1]
		}
	}
	t.Fatalf("%s has no commands that begin with %q", securityPage, begin)
	return ""
}

// shell runs commands of the page, as an administrator.
func (c *cluster) shell(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-e", "-c", `aicr() { "$AICR" "$@"; }
kubectl() { "$SANDBOX" kubectl "$@"; }
`+script)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "AICR="+program, "SANDBOX="+sandbox)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
}

// watchSecrets looks for the canary where it must not be while a run goes on: in command
// lines, in objects other than its Secret, and in events. What it gives ends it,
// and is every pod that was seen.
func (c *cluster) watchSecrets(t *testing.T) func() map[string]kube.Object {
	ctx, end := context.WithCancel(t.Context())
	pods := map[string]kube.Object{}
	var group sync.WaitGroup
	kinds := []kube.Resource{{Version: "v1", Name: "pods"}, {Version: "v1", Name: "configmaps"}, {Version: "v1", Name: "events"}, {Group: "batch", Version: "v1", Name: "jobs"},
		{Group: "nvidia.com", Version: "v1beta1", Name: "dynamographdeployments"}, {Group: "apps", Version: "v1", Name: "deployments"}}
	group.Go(func() {
		for ctx.Err() == nil {
			for _, r := range kinds {
				all, err := c.api.List(ctx, r, "", "")
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				for _, o := range all {
					if r.Name == "pods" && (runSpace.MatchString(o.Namespace()) || o.Namespace() == "aicr-validation") {
						pods[o.Namespace()+"/"+o.Name()] = o
					}
					if data, err := json.Marshal(o); err != nil || bytes.Contains(data, []byte(canary)) {
						t.Errorf("the token is in %s %s/%s: %v", r.Name, o.Namespace(), o.Name(), err)
					}
				}
			}
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, file := range lines {
				if said, err := os.ReadFile(file); err == nil && bytes.Contains(said, []byte(canary)) {
					t.Errorf("the token is in a command line: %q", said)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return func() map[string]kube.Object {
		end()
		group.Wait()
		return pods
	}
}

// tokenIn says whether a pod has the token of a ServiceAccount.
func tokenIn(pod kube.Object) bool {
	for _, volume := range pod.List("spec", "volumes") {
		for _, source := range volume.List("projected", "sources") {
			if source.Has("serviceAccountToken") {
				return true
			}
		}
	}
	return false
}

// noCanary looks for the token in all that a run has said and kept.
func noCanary(t *testing.T, dir string, o *outcome) {
	t.Helper()
	if strings.Contains(o.stdout+o.stderr, canary) {
		t.Error("the token is in what was printed")
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := contents(path)
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("the token is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// contents are those of a file, unpacked.
func contents(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if !strings.HasSuffix(path, ".gz") {
		return io.ReadAll(file)
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}

// seriesOf are the lines of a run's series that have a word in them.
func seriesOf(t *testing.T, dir, word string) (all []string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "episodes", "*", "series.jsonl.gz"))
	for _, file := range files {
		data, err := contents(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, word) {
				all = append(all, line)
			}
		}
	}
	return all
}
