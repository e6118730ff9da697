package spec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
)

// badDocuments holds what is told of each bad document of a folder against its golden
// file.
func badDocuments[T any](t *testing.T, folder string, decode func([]byte) (*T, error)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "bad", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no bad files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			v, err := decode(mustRead(t, file))
			if err == nil || v != nil {
				t.Fatalf("decoded to %+v, %v", v, err)
			}
			got := told(t, err)
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(mustRead(t, golden)), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func mustCatalog(t testing.TB, text string) *spec.Catalog {
	t.Helper()
	c, err := spec.DecodeCatalog([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func TestEveryMistakeOfACatalogIsToldAtOnceWithItsLine(t *testing.T) {
	badDocuments(t, "catalog", spec.DecodeCatalog)
}

func TestACatalogOfUpstreamIsReadWithoutLoss(t *testing.T) {
	got := mustCatalog(t, string(mustRead(t, "testdata/catalog/good.yaml")))
	want := &spec.Catalog{
		APIVersion: "validator.nvidia.com/v1alpha1", Kind: "ValidatorCatalog", Metadata: &spec.CatalogMetadata{Name: "example-validators", Version: "1.0"},
		Validators: []spec.CatalogEntry{
			{Name: "operator-health", Phase: "deployment", Description: "The operator's pods run", Image: "registry.example/validators/deployment:latest",
				Timeout: "2m", Args: []string{"operator-health"}, Env: []spec.EnvVar{}},
			{Name: "inference-perf", Phase: "performance", Description: "Throughput and time to the first token under load",
				Image:   "registry.example:5000/performance@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
				Timeout: "1h5m", Args: []string{"inference-perf"},
				Env: []spec.EnvVar{{Name: "AICR_INFERENCE_PERF_CONCURRENCY_PER_GPU", Value: "256"}, {Name: "AICR_INFERENCE_PERF_MODEL", Value: "Qwen/Qwen3-8B"},
					{Name: "A_SWITCH", Value: "true"}, {Name: "EMPTY"}},
				Resources: &spec.CheckResources{CPU: "2", Memory: "512Mi"}},
			{Name: "ai-service-metrics", Phase: "conformance", DependencyAffinity: []spec.DependencyAffinity{
				{ComponentRef: "kube-prometheus-stack", PodLabelSelector: map[string]string{"app.kubernetes.io/name": "prometheus"}, Requirement: "preferred"}}},
		},
		Unused: []spec.Unused{{Path: "validators[2].dependencyAffinity", Line: 34}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := spec.EncodeCatalog(got)
	if err != nil {
		t.Fatal(err)
	}
	again := mustCatalog(t, string(text))
	again.Unused = got.Unused // its lines are others
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("written and read again (-want +got):\n%s", diff)
	}
}

func TestACheckThatSaysNoTimeHasFiveMinutes(t *testing.T) {
	for timeout, want := range map[string]time.Duration{"": 5 * time.Minute, "90s": 90 * time.Second, "1h5m": 65 * time.Minute} {
		if got := (spec.CatalogEntry{Timeout: timeout}).Deadline(); got != want {
			t.Errorf("%q is %s, want %s", timeout, got, want)
		}
	}
}

func TestACatalogNeedsNoHeadButNoWrongOne(t *testing.T) {
	mustCatalog(t, "validators: []")
	for _, head := range append(spec.CatalogVersions(), "") {
		if head != "" {
			mustCatalog(t, "apiVersion: "+head+"\nvalidators: []")
		}
	}
	for _, head := range []string{"apiVersion: v1", "kind: RecipeMetadata"} {
		if c, err := spec.DecodeCatalog([]byte(head + "\nvalidators: []")); err == nil {
			t.Errorf("%s is read as %+v", head, c)
		}
	}
}

func TestACatalogLaidOverAnotherPrevailsByName(t *testing.T) {
	mine := mustCatalog(t, "validators: [{name: a, phase: deployment, timeout: 1m, args: [x]}, {name: b, phase: deployment}]")
	theirs := mustCatalog(t, "validators: [{name: a, phase: conformance}, {name: c, phase: performance}]")
	got := mine.Merge(theirs)
	want := mustCatalog(t, "validators: [{name: a, phase: conformance}, {name: b, phase: deployment}, {name: c, phase: performance}]")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e, ok := mine.Named("a"); !ok || e.Timeout != "1m" {
		t.Errorf("the one below was changed: %+v", e)
	}
	if e, ok := got.Named("d"); ok {
		t.Errorf("there is no d, got %+v", e)
	}
}

func TestAnImageOfACatalogIsCheckedByItsShape(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, good := range map[string]bool{
		"busybox": true, "a/b:c": true, "localhost:5001/a/b-c_d.e": true, "registry.example/a" + digest: true, "registry.example/a:v1" + digest: true,
		"": false, "A/b C": false, "registry.example/": false, "registry.example/a:": false, "registry.example/a@sha256:12": false,
		"https://registry.example/a": false, "registry.example/UPPER": false, "a:b:c": false,
	} {
		_, err := spec.DecodeCatalog([]byte("validators: [{name: a, phase: deployment, image: \"" + image + "\"}]"))
		if (err == nil) != good {
			t.Errorf("%q: %v", image, err)
		}
	}
}

func TestAQuantityIsWrittenAsKubernetesDoes(t *testing.T) {
	for cpu, good := range map[string]bool{
		"1": true, "0.5": true, "500m": true, "2.": true, ".5": true, "1e3": true, "1Gi": true, "100n": true, "+1": true, "3E": true,
		"": false, "0": false, "0m": false, "0.0": false, "0e3": false, "-1": false, "1 Gi": false, "1GB": false, "one": false, "1Kib": false,
	} {
		_, err := spec.DecodeCatalog([]byte("validators: [{name: a, phase: deployment, resources: {memory: 1Gi, cpu: \"" + cpu + "\"}}]"))
		if (err == nil) != good {
			t.Errorf("%q: %v", cpu, err)
		}
	}
}

func TestACatalogThatCannotBeReadIsNotWritten(t *testing.T) {
	if data, err := spec.EncodeCatalog(&spec.Catalog{Validators: []spec.CatalogEntry{{Name: "a"}}}); err == nil {
		t.Errorf("written\n%s", data)
	}
}

// fuzzDocument reads anything: what is not read has mistakes with lines.
func fuzzDocument[T any](t *testing.T, data []byte, decode func([]byte) (*T, error)) *T {
	t.Helper()
	v, err := decode(data)
	if err == nil {
		return v
	}
	var all spec.Mistakes
	if !errors.As(err, &all) || len(all) == 0 || all[0].Line < 1 || all[0].Text == "" {
		t.Fatalf("%v is no list of mistakes", err)
	}
	return nil
}

func FuzzCatalog(f *testing.F) {
	for _, pattern := range []string{"testdata/catalog/*.yaml", "testdata/catalog/bad/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			f.Add(mustRead(f, file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := fuzzDocument(t, data, spec.DecodeCatalog)
		if c == nil {
			return
		}
		text, err := spec.EncodeCatalog(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := spec.DecodeCatalog(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(again.Validators) != len(c.Validators) {
			t.Fatalf("%d checks, then %d", len(c.Validators), len(again.Validators))
		}
		for i, e := range c.Validators {
			if e.Deadline() <= 0 || again.Validators[i].Name != e.Name {
				t.Fatalf("%+v, then %+v", e, again.Validators[i])
			}
		}
	})
}
