package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicr/internal/spec"
	"aicr/recipes"
)

// repository is where this one lies.
const repository = "../.."

// house makes a repository of the files that the guard needs, and no others.
func house(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	pins := versions(t)
	for _, name := range append([]string{recipes.VersionsFile}, locksOf(pins)...) {
		copyFile(t, filepath.Join(repository, name), filepath.Join(root, name))
	}
	return root
}

func versions(t *testing.T) *spec.Versions {
	t.Helper()
	v, err := recipes.Versions()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func locksOf(pins *spec.Versions) []string {
	var all []string
	for _, tool := range pins.Tools {
		all = append(all, tool.Locked...)
	}
	return all
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	put(t, to, string(data))
}

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestThisRepositoryNamesNoVersionButInVersionsYAML is the guard itself, for those who
// run the tests and not make lint.
func TestThisRepositoryNamesNoVersionButInVersionsYAML(t *testing.T) {
	all, files, err := check(repository, exceptions)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		t.Errorf("%s:%d: %s", f.file, f.line, f.text)
	}
	if files < 500 {
		t.Errorf("only %d files were looked at", files)
	}
}

func TestALiteralIsCaughtWhereverItIsPlanted(t *testing.T) {
	chart, _ := versions(t).Chart(recipes.DynamoChart)
	for name, test := range map[string]struct {
		planted, at string
		line        int
		words       string
	}{
		"an image in Go":                          {"image.go", "internal/kube/image.go", 3, "the image nvcr.io/"},
		"an image by its digest":                  {"digest.go", "internal/kube/digest.go", 3, "the image ghcr.io/org/tool@sha256"},
		"an image that is not pinned at all":      {"foreign.go", "internal/kube/foreign.go", 3, "the image quay.io/"},
		"an image in a test":                      {"image.go", "internal/kube/image_test.go", 3, "the image nvcr.io/"},
		"latest in a script":                      {"latest.sh", "hack/latest.sh", 1, "the image ghcr.io/"},
		"an image behind its scheme":              {"oci.sh", "hack/oci.sh", 1, "the image ghcr.io/org/charts/tool"},
		"a constant":                              {"constant.go", "internal/kube/constant.go", 3, "dynamoChartVersion"},
		"a tag in a variable":                     {"tag.go", "internal/kube/tag.go", 3, "runtimeTag"},
		"an image without its registry":           {"short.txt", "docs/short.txt", 1, "the image vllm-runtime:"},
		"a chart of a recipe":                     {"recipe.yaml", "recipes/overlays/recipe.yaml", 10, `version: "1.0.2"`},
		"a chart of a recipe elsewhere":           {"recipe.yaml", "docs/recipe.yaml", 10, `version: "1.0.2"`},
		"a chart of a recipe that nothing pins":   {"unpinned_recipe.yaml", "recipes/overlays/unpinned.yaml", 8, "version: v3.1.0"},
		"a tag of Helm values":                    {"values.yaml", "sandbox/values.yaml", 4, "tag: 1.0.2"},
		"a sentence":                              {"prose.md", "docs/prose.md", 3, "Dynamo 1"},
		"a row of a table":                        {"table.md", "docs/table.md", 3, "GPU Operator |"},
		"the pinned version, away from its name":  {"pinned.md", "docs/pinned.md", 1, "and the version that it is pinned to"},
		"a command of a page":                     {"fenced.md", "docs/fenced.md", 2, "dynamo-platform"},
		"a tool in a test":                        {"planted_test.go", "internal/kube/planted_test.go", 3, "aiperf=="},
		"a variable of make":                      {"Makefile.planted", "Makefile", 1, "CHART_VERSION"},
		"a tool that a script installs":           {"script.sh", "test/interop/install.sh", 1, "ai-dynamo=="},
		"a dot folder that is committed":          {"script.sh", ".ci/install", 1, "ai-dynamo=="},
		"an option of a page's command":           {"flag.md", "docs/flag.md", 3, "a version that is installed: --version"},
		"an option of a script's command":         {"flag.sh", "hack/flag.sh", 1, "a version that is installed: --version"},
		"an option in YAML":                       {"flag.yaml", "sandbox/flag.yaml", 2, "a version that is installed: --version"},
		"an option in Go":                         {"flag.go", "internal/kube/flag.go", 3, "a version that is installed: --version"},
		"an image of Docker Hub to build from":    {"Dockerfile", "Dockerfile", 2, "the image golang:1.26"},
		"an image of Docker Hub in YAML":          {"hub.yaml", "sandbox/hub.yaml", 3, "the image golang:1.26"},
		"an image of Docker Hub in JSON":          {"hub_org.json", "sandbox/hub.json", 1, "the image library/alpine:3"},
		"an image of Docker Hub in Go":            {"hub.go", "internal/kube/hub.go", 3, "the image golang:1.26-alpine"},
		"an image that a page runs":               {"run.md", "docs/run.md", 1, "the image alpine:3.20"},
		"an image that a script pulls":            {"pull.sh", "hack/pull.sh", 1, "the image postgres:16"},
		"an image that a script copies":           {"crane.sh", "hack/crane.sh", 1, "the image busybox:latest"},
		"an image that a script loads":            {"kind.sh", "hack/kind.sh", 1, "the image redis:7"},
		"an image that an option names":           {"kind_image.sh", "hack/kind_image.sh", 1, "the image kindest/node:"},
		"a name that only looks like a fixture's": {"image.go", "internal/mytestdata/image.go", 3, "the image nvcr.io/"},
	} {
		t.Run(name, func(t *testing.T) {
			root := house(t)
			data, err := os.ReadFile(filepath.Join("testdata/planted", test.planted))
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(root, test.at), strings.ReplaceAll(string(data), "{pinned}", chart.Version))
			all, _, err := check(root, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != 1 || all[0].file != test.at || all[0].line != test.line || !strings.Contains(all[0].text, test.words) || all[0].hint == "" {
				t.Errorf("got %+v, want %s:%d with %q", all, test.at, test.line, test.words)
			}
		})
	}
}

func TestWhatMayNameAVersionIsLeftAlone(t *testing.T) {
	for name, test := range map[string]struct{ planted, at string }{
		"a fixture in Go":            {"image.go", "internal/kube/testdata/image.go"},
		"a fixture further down":     {"recipe.yaml", "internal/spec/testdata/recipe/recipe.yaml"},
		"an example of a document":   {"recipe.yaml", "docs/documents/recipe.md"},
		"numbers that are no pins":   {"clean.go", "internal/kube/clean.go"},
		"a fixture of Docker Hub":    {"hub.yaml", "internal/kube/testdata/hub.yaml"},
		"sentences that are no pins": {"clean.md", "docs/clean.md"},
	} {
		t.Run(name, func(t *testing.T) {
			root := house(t)
			copyFile(t, filepath.Join("testdata/planted", test.planted), filepath.Join(root, test.at))
			all, _, err := check(root, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != 0 {
				t.Errorf("got %+v", all)
			}
		})
	}
}

func TestALockFileThatLeftIsCaught(t *testing.T) {
	pins := versions(t)
	for _, tool := range pins.Tools {
		for _, lock := range tool.Locked {
			t.Run(tool.Name+" in "+lock, func(t *testing.T) {
				root := house(t)
				file := filepath.Join(root, lock)
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				read := lockReader(lock)
				if got := read(data, tool.Name); got != tool.Version {
					t.Fatalf("read %q, want %q", got, tool.Version)
				}
				lines := strings.Split(string(data), "\n")
				for i, line := range lines {
					if strings.Contains(line, tool.Version) {
						lines[i] = strings.Replace(line, tool.Version, "0.0.1", 1)
						if read([]byte(strings.Join(lines, "\n")), tool.Name) == "0.0.1" {
							break
						}
						lines[i] = line
					}
				}
				put(t, file, strings.Join(lines, "\n"))
				all, _, err := check(root, nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(all) != 1 || all[0].file != lock || !strings.Contains(all[0].text, "is locked to 0.0.1") {
					t.Errorf("got %+v", all)
				}
			})
		}
	}
}

func TestALockFileThatIsGoneIsCaught(t *testing.T) {
	root := house(t)
	if err := os.Remove(filepath.Join(root, "test/interop/requirements.txt")); err != nil {
		t.Fatal(err)
	}
	all, _, err := check(root, nil)
	if err != nil || len(all) == 0 || all[0].file != recipes.VersionsFile || !strings.Contains(all[0].text, "the lock file of") {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestAMistakeInVersionsYAMLHasItsPlace(t *testing.T) {
	root := house(t)
	file := filepath.Join(root, recipes.VersionsFile)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, strings.Replace(string(data), "follows:", "folows:", 1))
	all, _, err := check(root, nil)
	if err != nil || len(all) != 1 || all[0].line == 0 || all[0].hint != "did you mean follows?" {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestAnExceptionIsNarrowAndNeverStale(t *testing.T) {
	excuse := []exception{{file: "docs/prose.md", text: "Dynamo 1.0", reason: "a test"}}
	root := house(t)
	copyFile(t, "testdata/planted/prose.md", filepath.Join(root, "docs/prose.md"))
	if all, _, err := check(root, excuse); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
	copyFile(t, "testdata/planted/prose.md", filepath.Join(root, "docs/other.md"))
	if all, _, err := check(root, excuse); err != nil || len(all) != 1 || all[0].file != "docs/other.md" {
		t.Errorf("another file was excused: %+v, %v", all, err)
	}
	excuse[0].mirrors = recipes.DynamoChart
	if all, _, err := check(root, excuse); err != nil || len(all) != 2 {
		t.Errorf("what mirrors a pin and is another version was excused: %+v, %v", all, err)
	}
	excuse[0].file = "docs/gone.md"
	all, _, err := check(house(t), excuse)
	if err != nil || len(all) != 1 || !strings.Contains(all[0].text, "excuses nothing") {
		t.Errorf("got %+v, %v", all, err)
	}
	for _, x := range exceptions {
		if x.reason == "" {
			t.Errorf("the exception for %s gives no reason", x.file)
		}
	}
}
