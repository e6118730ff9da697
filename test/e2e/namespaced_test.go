//go:build linux

package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// oneNamespace is a cluster whose API server writes down who asked for what.
const oneNamespace = `
nodes:
  - {name: gpu-0, gpus: 2}
  - {name: gpu-1, gpus: 2}
  - {name: cpu-0, gpus: 0, cpu: "32"}
audit: true
aicr: PROGRAM
`

// A whole check by the roles of one namespace alone, as docs/security.md has them given: by who
// may read nodes and who holds GPUs, and by who may read nothing of the cluster. Nothing is
// left, and by the server's own log nothing was written outside of the namespace.
func TestNamespaced(t *testing.T) {
	t.Parallel()
	c := startCluster(t, oneNamespace)
	carol, dave := c.user(t, "carol"), c.user(t, "dave")
	c.shell(t, strings.ReplaceAll(fenced(t, "aicr validate --rbac --namespaced"), "USER", "carol"))
	c.shell(t, "kubectl create rolebinding dave --namespace team-a --role aicr-validate --user dave\n")
	secrets := kube.Resource{Version: "v1", Name: "secrets"}
	c.place(t, secrets, kube.Object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "theirs", "namespace": "team-a"}})
	for _, o := range []kube.Object{ // Dynamo's operator leaves them in each namespace that has had a graph
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "planner-serviceaccount", "namespace": "team-a"}},
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "planner-serviceaccount-binding", "namespace": "team-a"},
			"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "planner"}},
	} {
		c.place(t, map[string]kube.Resource{"ServiceAccount": {Version: "v1", Name: "serviceaccounts"}, "RoleBinding": roleBinds}[o.Text("kind")], o)
	}
	before := c.asItIs(t)
	args := append([]string{"validate", "--recipe", recipe, "--namespaced", "team-a", "--snapshot", "cm://team-a/aicr-snapshot"}, short...)
	env := []string{spec.KnobToken + "=" + canary}

	for _, one := range []struct {
		name, kubeconfig string
		more             []string
	}{
		{"with the roles that read", carol, []string{"--node", "gpu-0"}},
		{"with rights in the namespace alone", dave, []string{"--node", "gpu-1", "--workers", "2"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			var o *outcome
			err := eventually(t.Context(), func() (bool, error) { // the server hears of roles after they were written
				o = finished(t, c.command(one.kubeconfig, nil, "clean", "--namespaced", "team-a"))
				return o.code == 0, nil
			})
			if err != nil {
				t.Fatalf("%v\n%s", err, o)
			}
			o = finished(t, c.command(one.kubeconfig, env, append(append([]string{}, args...), append(one.more, "--run", dir)...)...))
			if o.verdict = verdictIn(t, dir); o.code != 0 || o.verdict == nil || o.verdict.Verdict != spec.Pass {
				t.Errorf("not PASS: %s", o)
			}
			noCanary(t, dir, o)
			if cleaned := finished(t, c.command(one.kubeconfig, nil, "clean", "--namespaced", "team-a")); cleaned.code != 0 || !strings.Contains(cleaned.stdout, "nothing of any run") {
				t.Errorf("clean: %s", cleaned)
			}
		})
	}
	c.settled(t, before)
	for _, user := range []string{"carol", "dave"} {
		for u := range c.log(t, func(name string) bool { return name == user }) {
			reads := u.verb == "get" || u.verb == "list"
			if u.where != "team-a" && (!reads || user == "dave" && u.resource != "namespaces" && u.resource != "nodes") {
				t.Errorf("%s has used %s", user, u)
			}
		}
	}
}
