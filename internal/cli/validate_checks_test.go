package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicr/internal/checks/graph"
	"aicr/internal/spec"
)

// severalRecipe declares a check of each phase, as a RecipeResult that names no layers.
const severalRecipe = `
kind: RecipeResult
apiVersion: aicr.run/v1beta1
componentRefs:
  - {name: gpu-operator, type: Helm}
  - {name: dynamo-platform, type: Helm}
validation:
  deployment:
    checks: [operator-health]
  conformance:
    checks: [gang-scheduling]
  performance:
    checks: [inference-perf]
    constraints:
      - {name: inference-throughput, value: ">= 10", unit: tokens/s/GPU}
`

// trainingRecipe declares every check but inference-perf that needs no figure, 15 of them.
const trainingRecipe = `
kind: RecipeResult
apiVersion: aicr.run/v1beta1
componentRefs:
  - {name: gpu-operator, type: Helm}
  - {name: kai-scheduler, type: Helm}
  - {name: nvidia-dra-driver-gpu, type: Helm}
validation:
  deployment:
    checks: [operator-health, expected-resources, gpu-operator-version, check-nvidia-smi]
    constraints: [{name: Deployment.gpu-operator.version, value: ">= v25.3.0"}]
  conformance:
    checks: [dra-support, gang-scheduling, accelerator-metrics, ai-service-metrics, pod-autoscaling, cluster-autoscaling,
      robust-controller, secure-accelerator-access, gpu-operator-health, platform-health]
  performance:
    checks: [nccl-all-reduce-bw]
    constraints:
      - {name: nccl-all-reduce-bw, value: ">= 300", unit: GB/s}
`

func writtenRecipe(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recipe.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// statesOf lists the checks of a verdict with their states and, of those not run, why.
func statesOf(v *spec.Verdict) (all []string) {
	for _, c := range v.Checks {
		line := c.Name + " " + string(c.Verdict)
		if c.Verdict == spec.NotRun {
			line += " " + c.Reason.Code
		}
		all = append(all, line)
	}
	return all
}

func verdictIn(t *testing.T, dir string) (*spec.Verdict, []byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	if err != nil {
		t.Fatal(err)
	}
	v := &spec.Verdict{}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
	return v, data
}

// A PASS of inference-perf is no PASS of a recipe that declares more, unless the user chose
// what is run. The record says the same later.
func TestEveryDeclaredCheckHasAResult(t *testing.T) {
	recipe := writtenRecipe(t, severalRecipe)
	for name, c := range map[string]struct {
		flags []string
		code  Code
		want  []string
	}{
		"all of it":    {nil, Unmeasured, []string{"operator-health NOT RUN not-built", "gang-scheduling NOT RUN not-built", "inference-perf PASS"}},
		"--phase":      {[]string{"--phase", "performance"}, Passed, []string{"operator-health NOT RUN not-asked", "gang-scheduling NOT RUN not-asked", "inference-perf PASS"}},
		"--check":      {[]string{"--check", "inference-perf"}, Passed, []string{"operator-health NOT RUN not-asked", "gang-scheduling NOT RUN not-asked", "inference-perf PASS"}},
		"--skip-check": {[]string{"--skip-check", "gang-scheduling"}, Unmeasured, []string{"operator-health NOT RUN not-built", "gang-scheduling NOT RUN not-asked", "inference-perf PASS"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, code, said := validated(t, append([]string{"--sim", "small", "--profile", "smoke", "--recipe", recipe}, c.flags...)...)
			v, written := verdictIn(t, dir)
			if code != int(c.code) || (v.Verdict == spec.Pass) != (c.code == Passed) {
				t.Errorf("code %d, %s: %s\n%s", code, v.Verdict, v.Reason, said)
			}
			if got := statesOf(v); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if len(v.Checks) == 0 {
				t.Fatalf("no check has a result: %s", written)
			}
			last := v.Checks[len(v.Checks)-1]
			if last.Detail == nil || last.Detail.Verdict != spec.Pass || last.Detail.Episodes != v.Episodes || last.Seconds <= 0 {
				t.Errorf("inference-perf has no verdict of its own: %+v", last)
			}
			if again, code := rejudged(t, dir); string(again) != string(written) || code != int(c.code) {
				t.Errorf("aicr judge: code %d\n%s\nwant\n%s", code, again, written)
			}
			for _, format := range []string{"text", "html", "ctrf", "junit", "json", "markdown", "github", "openmetrics", "csv"} {
				out, code := runs(t, "report", dir, "-q", "--report", format+"=-")
				if code != Passed {
					t.Errorf("%s: code %d: %s", format, code, out)
				}
				if format == "html" && c.code != Passed && !strings.Contains(out, "Choose what is run with") {
					t.Error("the page does not say what to do")
				}
				for _, check := range []string{"operator-health", "gang-scheduling", "inference-perf", string(spec.NotRun)} {
					if !strings.Contains(strings.ReplaceAll(out, `\_`, "_"), check) {
						t.Errorf("%s has no %q:\n%s", format, check, out)
					}
				}
			}
		})
	}
}

// A verdict that was made better by hand is not reported as the run's own.
func TestAVerdictThatHidesACheckIsNotTold(t *testing.T) {
	dir, _, _ := validated(t, "--sim", "small", "--profile", "smoke", "--recipe", writtenRecipe(t, severalRecipe), "-q")
	whole, written := verdictIn(t, dir)
	for name, c := range map[string]struct {
		forge func(*spec.Verdict)
		want  string
	}{
		"another verdict": {func(v *spec.Verdict) { v.Verdict = spec.Pass }, "the worst of its checks is INCONCLUSIVE"},
		"checks taken out": {func(v *spec.Verdict) {
			v.Checks = v.Checks[2:]
			v.Verdict, v.Reason = spec.Pass, v.Checks[0].Reason.Text
		}, "has no result of operator-health, which the plan declares"},
		"all of them taken out": {func(v *spec.Verdict) {
			v.Verdict, v.Reason, v.Checks = spec.Pass, v.Inference().Reason, nil
		}, "has no result of gang-scheduling, which the plan declares"},
		"called left out": {func(v *spec.Verdict) {
			v.Checks[0].Reason.Code, v.Checks[1].Reason.Code, v.Verdict = spec.NotAsked, spec.NotAsked, spec.Pass
		}, "says that operator-health is NOT RUN (not-asked), and the plan NOT RUN (not-built)"},
	} {
		t.Run(name, func(t *testing.T) {
			forged := *whole
			forged.Checks = slices.Clone(whole.Checks)
			c.forge(&forged)
			data, err := json.Marshal(&forged)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, verdictFile), data, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, code := runs(t, "report", dir); code != Unmeasured || !strings.Contains(out, c.want) {
				t.Errorf("code %d, no %q in: %s", code, c.want, out)
			}
		})
	}
	if err := os.WriteFile(filepath.Join(dir, verdictFile), written, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := runs(t, "report", dir); code != Passed {
		t.Errorf("the run's own: code %d: %s", code, out)
	}
}

// preparedCluster serves what a run needs, and lacks what would not go with it.
func preparedCluster(t *testing.T) *clusterWorld {
	w := startCluster(t, "h100-eks")
	w.Serve("resource.k8s.io/v1/ResourceClaim")
	w.Answer("/api/v1/namespaces/aicr-validation/resourcequotas", http.StatusOK, `{"kind":"ResourceQuotaList","apiVersion":"v1","items":[]}`)
	w.Answer("/api/v1/namespaces/aicr-validation/limitranges", http.StatusOK, `{"kind":"LimitRangeList","apiVersion":"v1","items":[]}`)
	w.allowed("true")
	w.Empty("/apis/nvidia.com/v1alpha1/dynamographdeployments") // of the old runtime
	w.Empty("/apis/apps/v1/deployments")                        // and the old operator
	return w
}

const upstreamSnapshot = "../spec/testdata/snapshot/upstream-eks.yaml"

const operatorSnapshot = `
kind: Snapshot
apiVersion: aicr.run/v1alpha2
measurements:
  - type: K8s
    subtypes:
      - {subtype: gpu-operator, data: {installed: true, version: v25.10.0}}
      - {subtype: dynamo-crds, data: {dynamographdeployments: v1beta1}}
  - type: GPU
    subtypes:
      - {subtype: hardware, data: {gpu-count: 8}}
`

// A recipe of which nothing can be run is INCONCLUSIVE, with a result and a test of each
// check, and asks for no right to deploy.
func TestATrainingRecipeHasAResultOfEachCheck(t *testing.T) {
	w := preparedCluster(t)
	w.allowed("false") // nothing is made
	ctrf := filepath.Join(w.dir, "ctrf.json")
	dir := filepath.Join(w.dir, "run")
	stdout, stderr, code := w.aicr("validate", "--recipe", writtenRecipe(t, trainingRecipe), "--snapshot", upstreamSnapshot, "-o", "json", "--report", "ctrf="+ctrf, "--run", dir)
	if again, code := rejudged(t, dir); string(again) != stdout || code != int(Unmeasured) {
		t.Errorf("aicr judge: code %d\n%s\nwant\n%s", code, again, stdout)
	}
	if out, code := runs(t, "report", dir); code != Passed || !strings.HasPrefix(out, "INCONCLUSIVE  15 of 15 declared checks NOT RUN") {
		t.Errorf("aicr report: code %d: %s", code, out)
	}
	var v spec.Verdict
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != int(Unmeasured) || v.Verdict != spec.Inconclusive || len(v.Checks) != 15 {
		t.Fatalf("code %d, %v, %d checks: %s%s", code, err, len(v.Checks), stdout, stderr)
	}
	for _, c := range v.Checks {
		if c.Verdict != spec.NotRun || c.Reason.Code != spec.NotBuilt {
			t.Errorf("%s is %s: %s", c.Name, c.Verdict, c.Reason.Text)
		}
	}
	var written struct {
		Results struct {
			Summary struct{ Tests, Passed, Skipped, Other int }
			Tests   []struct{ Name, Status string }
		}
	}
	if data, err := os.ReadFile(ctrf); err != nil || json.Unmarshal(data, &written) != nil || written.Results.Summary.Tests != 15 || written.Results.Summary.Other != 15 {
		t.Errorf("%v, %+v", err, written)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
	if stdout, stderr, code := w.aicr("validate", "--recipe", writtenRecipe(t, trainingRecipe), "--snapshot", upstreamSnapshot, "--check", "gang-scheduling", "-q"); code != int(Unmeasured) || !strings.HasPrefix(stdout, "INCONCLUSIVE") {
		t.Errorf("a check that was asked for by name and cannot be run: code %d, %s%s", code, stdout, stderr)
	}
}

// What the cluster was asked prevails over a snapshot that is silent on it, or says
// otherwise. What neither says is INCONCLUSIVE.
func TestTheClusterPrevailsOverTheSnapshot(t *testing.T) {
	recipe := writtenRecipe(t, severalRecipe)
	args := []string{"validate", "--recipe", recipe, "--snapshot", upstreamSnapshot, "--profile", "smoke"}
	w := preparedCluster(t)
	stdout, stderr, code := w.aicr(append(args, "--dry-run")...)
	if flat := strings.Join(strings.Fields(stdout), " "); code != int(Passed) || !strings.Contains(flat, "performance inference-perf runs the recipe asks for it") || !strings.Contains(flat, "DynamoGraphDeployment") {
		t.Errorf("the cluster serves the CRD: code %d, %s%s", code, stdout, stderr)
	}
	if flat := strings.Join(strings.Fields(stdout), " "); !strings.Contains(flat, "deployment operator-health NOT RUN this version of aicr cannot run it on a cluster") ||
		!strings.Contains(flat, "a run of this plan is INCONCLUSIVE at best") {
		t.Errorf("what a run of it can come to is not told:\n%s", stdout)
	}
	_, undeclared, _ := strings.Cut(stdout, "the recipe does not ask for")
	if words := strings.Fields(undeclared); slices.Contains(words, "operator-health,") || slices.Contains(words, "gang-scheduling,") {
		t.Errorf("a declared check is said not to be:\n%s", stdout)
	}
	w.Answer("/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims", http.StatusOK, `{"apiVersion":"v1","kind":"List","items":[]}`)
	for _, kind := range []string{"resourcequotas", "limitranges", "pods"} {
		w.Answer("/api/v1/namespaces/team-a/"+kind, http.StatusOK, `{"apiVersion":"v1","kind":"List","items":[]}`)
	}
	w.Answer("/api/v1/namespaces/team-a/serviceaccounts/"+graph.LoadAccount, http.StatusOK, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"aicr-load","namespace":"team-a"}}`)
	stdout, stderr, code = w.aicr(append(args, "--dry-run", "--namespaced", "team-a")...)
	if flat := strings.Join(strings.Fields(stdout), " "); code != int(Passed) || !strings.Contains(flat, "performance inference-perf runs the recipe asks for it") {
		t.Errorf("in one namespace: code %d, %s%s", code, stdout, stderr)
	}
	w.Remove("/apis/nvidia.com/v1alpha1/dynamographdeployments")
	if stdout, stderr, code := w.aicr(args...); code != int(Failed) || !strings.HasPrefix(stdout, "FAIL  inference-perf: ") {
		t.Errorf("the cluster does not serve it: code %d, %s%s", code, stdout, stderr)
	}
}

// A deployment phase that failed is FAIL, and with --fail-fast nothing comes after it: on
// the cluster as on paper.
func TestFailFastAfterAFailedPhaseIsAFailure(t *testing.T) {
	recipe := writtenRecipe(t, strings.Replace(severalRecipe, "checks: [operator-health]",
		"checks: [operator-health, gpu-operator-version]\n    constraints: [{name: Deployment.gpu-operator.version, value: \">= v99.1.0\"}]", 1))
	snapshot := filepath.Join(t.TempDir(), "snapshot.yaml")
	if err := os.WriteFile(snapshot, []byte(operatorSnapshot), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"validate", "--recipe", recipe, "--snapshot", snapshot, "--fail-fast"}
	w := preparedCluster(t)
	if stdout, stderr, code := w.aicr(append(args, "--no-cluster", "-q")...); code != int(Failed) {
		t.Errorf("on paper: code %d, %s%s", code, stdout, stderr)
	}
	stdout, stderr, code := w.aicr(append(args, "-o", "json")...)
	var v spec.Verdict
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != int(Failed) || v.Verdict != spec.Fail || !strings.HasPrefix(v.Reason, "gpu-operator-version: ") {
		t.Fatalf("on the cluster: code %d, %v, %s%s", code, err, stdout, stderr)
	}
	want := []string{"operator-health NOT RUN not-built", "gpu-operator-version FAIL", "gang-scheduling NOT RUN fail-fast", "inference-perf NOT RUN fail-fast"}
	if got := statesOf(&v); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if evidence := v.Checks[1].Evidence; len(evidence) != 1 || !strings.Contains(evidence[0].Value, ">= v99.1.0") {
		t.Errorf("the failure has the evidence %v", evidence)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}

// Every name of --check is looked up, in the catalog and in the recipe.
func TestAWrongNameOfACheckIsToldWithTheRightOne(t *testing.T) {
	recipe := writtenRecipe(t, severalRecipe)
	paper := []string{"--no-cluster", "--recipe", recipe, "--snapshot", upstreamSnapshot}
	endpoint := []string{"--sim", "small", "--recipe", recipe, "--dry-run"}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"misspelt":               {append(paper, "--check", "operator-helth"), []string{`--check: there is no check "operator-helth"`, "did you mean operator-health?"}},
		"not declared":           {append(paper, "--check", "platform-health"), []string{"--check: the recipe does not declare platform-health", "the recipe declares operator-health, gang-scheduling, inference-perf"}},
		"also left out":          {append(paper, "--check", "operator-health", "--skip-check", "operator-health"), []string{"--check and --skip-check both name operator-health"}},
		"of another phase":       {append(paper, "--check", "operator-health", "--phase", "performance"), []string{"which --phase leaves out", "add --phase deployment"}},
		"all that is wrong":      {append(paper, "--check", "a-b", "--check", "c-d"), []string{`no check "a-b"`, `no check "c-d"`}},
		"of an endpoint":         {append(endpoint, "--check", "operator-health"), []string{"--check: inference-perf is what the target is loaded for"}},
		"misspelt, an endpoint":  {append(endpoint, "--check", "inference-pref"), []string{"did you mean inference-perf?"}},
		"without any recipe":     {[]string{"--sim", "small", "--dry-run", "--check", "operator-health"}, []string{"the recipe does not declare operator-health"}},
		"when a run goes on":     {[]string{"--attach", someRun, "--check", "inference-perf"}, []string{"--attach goes on with a run as it was begun, and --check is given"}},
		"phases when it goes on": {[]string{"--attach", someRun, "--phase", "performance"}, []string{"--attach goes on with a run as it was begun, and --phase is given"}},
	} {
		t.Run(name, func(t *testing.T) {
			said, code := runs(t, append([]string{"validate"}, c.args...)...)
			if code != Misused {
				t.Errorf("code %d", code)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("there is no %q in:\n%s", want, said)
				}
			}
		})
	}
	if said, code := runs(t, "validate", "--sim", "small", "--dry-run", "--check", "inference-perf"); code != Passed {
		t.Errorf("what an endpoint is loaded for: code %d, %s", code, said)
	}
}
