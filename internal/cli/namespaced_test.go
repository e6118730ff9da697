package cli

import (
	"net/http"
	"strings"
	"testing"

	"aicr/internal/checks/graph"
)

// --rbac with --namespaced prints the roles of a run in one namespace, and asks no cluster.
func TestRBACOfOneNamespace(t *testing.T) {
	w := startCluster(t, "")
	stdout, stderr, code := w.aicr("validate", "--rbac", "--namespaced", "team-a")
	if code != 0 || stdout != string(graph.NamespacedRoles("team-a")) {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"--namespaced", "Team"}, {"--namespaced", ""}, {"--namespaced", strings.Repeat("n", graph.MostNamespace+1)}, {"--namespaced", "a", "--namespace", "b"}} {
		if _, stderr, code := w.aicr(append([]string{"validate", "--rbac"}, args...)...); code != int(Misused) || !strings.Contains(stderr, "--namespaced") {
			t.Errorf("%v: code %d, %s", args, code, stderr)
		}
	}
	if all := w.Requests(); len(all) > 0 {
		t.Errorf("it asked %v", all)
	}
}

// A run in one namespace goes without what it may not read of the cluster: it says what that is,
// and what has to be given in its place.
func TestANamespacedRunSaysWhatItCannotSee(t *testing.T) {
	const account = "/api/v1/namespaces/team-a/serviceaccounts/" + graph.LoadAccount
	for name, c := range map[string]struct {
		args   []string
		hidden []string // lists that are forbidden
		none   bool     // no account
		code   Code
		says   []string
	}{
		"nothing is hidden": {nil, nil, false, 0, nil},
		"no account":        {nil, nil, true, Unmeasured, []string{"there is no ServiceAccount aicr-load in namespace team-a", "'aicr validate --rbac --namespaced team-a'"}},
		"holders": {nil, []string{"/api/v1/pods", "/apis/resource.k8s.io/v1/resourceclaims"}, false, Unmeasured,
			[]string{"not seen: who holds GPUs outside of namespace team-a", "how many GPUs are free cannot be seen", "--workers N"}},
		"holders, and how many are said": {[]string{"--workers", "2"}, []string{"/api/v1/pods", "/apis/resource.k8s.io/v1/resourceclaims"}, false, 0, nil},
		"more than there are":            {[]string{"--workers", "999"}, nil, false, Unmeasured, []string{"--workers 999: node ", "--workers 8 is what there is"}},
		"nodes":                          {nil, []string{"/api/v1/nodes"}, false, Unmeasured, []string{"not seen: nodes", "name the node with --node"}},
		"nodes, and one is named":        {[]string{"--node", "gpu-x"}, []string{"/api/v1/nodes", "/api/v1/nodes/gpu-x"}, false, Unmeasured, []string{"how many GPUs are free cannot be seen"}},
		"nodes, and all is said":         {[]string{"--node", "gpu-x", "--workers", "2"}, []string{"/api/v1/nodes", "/api/v1/nodes/gpu-x"}, false, 0, nil},
		"nodes at once":                  {[]string{"--nodes", "all"}, nil, false, Misused, []string{"--namespaced is given"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := startCluster(t, "h100-eks")
			snapshot := w.dir + "/cluster.yaml"
			w.Serve("resource.k8s.io/v1/ResourceClaim")
			w.Empty("/apis/nvidia.com/v1alpha1/dynamographdeployments") // of the old runtime
			w.Empty("/apis/apps/v1/deployments")                        // and the old operator
			w.allowed("true")
			for _, kind := range []string{"resourcequotas", "limitranges", "pods"} {
				w.Answer("/api/v1/namespaces/team-a/"+kind, http.StatusOK, `{"apiVersion":"v1","kind":"List","items":[]}`)
			}
			w.Answer("/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims", http.StatusOK, `{"apiVersion":"v1","kind":"List","items":[]}`)
			if !c.none {
				w.Answer(account, http.StatusOK, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"aicr-load","namespace":"team-a"}}`)
			}
			if _, stderr, code := w.aicr("snapshot", "--write", snapshot); code != 0 {
				t.Fatal(stderr)
			}
			for _, path := range c.hidden {
				w.Answer(path, http.StatusForbidden, "")
			}
			stdout, stderr, code := w.aicr(append([]string{"validate", "--recipe", h100, "--snapshot", snapshot, "--profile", "smoke", "--namespaced", "team-a", "--dry-run"}, c.args...)...)
			if code != int(c.code) {
				t.Errorf("code %d, %s%s", code, stdout, stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in %s", want, stderr)
				}
			}
			if c.code == 0 && (strings.Contains(stdout, "ClusterRole") || strings.Contains(stdout, "  Namespace ") || !strings.Contains(stdout, "aicr-perf-<8 hex>")) {
				t.Errorf("it plans\n%s", stdout)
			}
			if all := w.wrote(); len(all) > 0 {
				t.Errorf("it wrote: %q", all)
			}
		})
	}
}

// A run is attached to as it was begun: what is in one namespace is not looked for in two.
func TestARunIsAttachedToAsItWasBegun(t *testing.T) {
	w := startCluster(t, "")
	s := attachedSettings(t)
	w.keep(t, s, someRun)
	_, stderr, code := w.aicr("validate", "--attach", someRun, "--namespaced", "mine")
	if want := "attach with: aicr validate --attach " + someRun + " --namespace mine"; code != int(Misused) || !strings.Contains(stderr, want) {
		t.Errorf("code %d, no %q in %s", code, want, stderr)
	}
	s.Namespaced, s.Prepared = true, true
	w.keep(t, s, someRun)
	_, stderr, code = w.aicr("validate", "--attach", someRun, "--namespace", "mine")
	if want := "attach with: aicr validate --attach " + someRun + " --namespaced mine"; code != int(Misused) || !strings.Contains(stderr, want) {
		t.Errorf("code %d, no %q in %s", code, want, stderr)
	}
}
