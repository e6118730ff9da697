package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// room is a directory of the house with all that is below it.
type room struct {
	imports   []string // other rooms that its code may import; any where "*"
	libraries []string // modules that its code may import; any where nil
	os        bool     // may use package os and those below it
	cluster   bool     // may reach Kubernetes' libraries, through others or itself
}

// house is the table of docs/architecture.md. Tests may import what they like.
var house = map[string]room{
	"cmd":  {imports: []string{"cli"}, os: true, cluster: true},
	"hack": {imports: []string{"*"}, os: true, cluster: true},
	"test": {imports: []string{"*"}, os: true},

	"cli":     {imports: []string{"*"}, os: true, cluster: true},
	"checks":  {imports: []string{"spec", "load", "observe", "judge", "kube", "redact"}, cluster: true},
	"kube":    {imports: []string{"spec", "redact"}, cluster: true},
	"judge":   {imports: []string{"spec", "stats"}},
	"report":  {imports: []string{"spec", "stats", "redact"}},
	"load":    {imports: []string{"spec", "stats", "redact"}},
	"observe": {imports: []string{"spec", "stats", "redact"}},
	"sim":     {imports: []string{"spec", "stats", "redact"}},
	"spec":    {libraries: []string{"sigs.k8s.io/yaml", "go.yaml.in/yaml", "golang.org/x/mod/semver"}},
	"stats":   {libraries: []string{"gonum.org/v1/gonum", "golang.org/x/perf", "github.com/aclements/go-moremath", "github.com/HdrHistogram/hdrhistogram-go"}},
	"redact":  {libraries: []string{}},
	"recipes": {imports: []string{"spec"}, libraries: []string{"github.com/google/go-containerregistry/pkg/name", "golang.org/x/mod/semver"}},
	"arch":    {libraries: []string{}},
}

const module = "aicr"

// pkg is what go list tells of a package, less its tests.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Standard   bool
}

// roomOf names the room that a package of this module is in.
func roomOf(path string) string {
	path = strings.TrimPrefix(strings.TrimPrefix(path, module+"/"), "internal/")
	name, _, _ := strings.Cut(path, "/")
	return name
}

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// within reports whether a package is the given one or below it.
func within(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

// violations lists every breach of the law in a set of packages and all that
// they need.
func violations(house map[string]room, pkgs map[string]pkg) []string {
	var broken []string
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, path := range slices.Sorted(maps.Keys(pkgs)) {
		if !ours(path) {
			continue
		}
		name := roomOf(path)
		law, known := house[name]
		if !known {
			report("%s is in no room of the house: add %q to the table in internal/arch and to docs/architecture.md", path, name)
			continue
		}
		for _, imported := range pkgs[path].Imports {
			other := roomOf(imported)
			switch {
			case ours(imported):
				if other != name && !slices.Contains(law.imports, other) && !slices.Contains(law.imports, "*") {
					report("%s imports %s: %s may import %v", path, imported, name, law.imports)
				}
			case within(imported, "os"):
				if !law.os {
					report("%s imports %s: what it needs of the system has to be given to it", path, imported)
				}
			case pkgs[imported].Standard:
			case within(imported, "k8s.io/client-go") && name != "kube":
				report("%s imports %s: only kube talks to a cluster", path, imported)
			case law.libraries != nil && !slices.ContainsFunc(law.libraries, func(m string) bool { return within(imported, m) }):
				report("%s imports %s: %s may import %v", path, imported, name, law.libraries)
			}
		}
		if !law.cluster {
			if way := wayTo("k8s.io", path, pkgs, map[string]bool{}); way != nil {
				report("%s reaches Kubernetes: %s", path, strings.Join(way, " -> "))
			}
		}
	}
	return broken
}

// wayTo finds a chain of imports from a package to one below parent.
func wayTo(parent, path string, pkgs map[string]pkg, seen map[string]bool) []string {
	if within(path, parent) {
		return []string{path}
	}
	if seen[path] || pkgs[path].Standard {
		return nil
	}
	seen[path] = true
	for _, imported := range pkgs[path].Imports {
		if way := wayTo(parent, imported, pkgs, seen); way != nil {
			return append([]string{path}, way...)
		}
	}
	return nil
}

// root is where the module lies.
const root = "../.."

func list(t *testing.T, goos string) map[string]pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,Standard", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	pkgs := map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p
	}
	if len(pkgs) < 20 {
		t.Fatalf("go list told of %d packages only", len(pkgs))
	}
	return pkgs
}

func TestEveryRoomKeepsTheImportLaw(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			for _, v := range violations(house, list(t, goos)) {
				t.Error(v)
			}
		})
	}
}

func TestTheLawCatchesEachBreach(t *testing.T) {
	std := func(path string, imports ...string) pkg {
		return pkg{ImportPath: path, Imports: imports, Standard: true}
	}
	with := func(path string, imports ...string) pkg { return pkg{ImportPath: path, Imports: imports} }
	for name, c := range map[string]struct {
		pkgs []pkg
		want string // part of the one violation, or "" for none
	}{
		"what the table allows": {[]pkg{
			with("aicr/cmd/aicr", "aicr/internal/cli", "os"), with("aicr/internal/cli", "aicr/internal/kube", "aicr/internal/load", "os/signal"),
			with("aicr/internal/kube", "aicr/internal/spec", "k8s.io/client-go/kubernetes"), with("aicr/internal/checks", "aicr/internal/kube"),
			with("aicr/internal/load", "aicr/internal/load/sse", "aicr/internal/stats"), with("aicr/internal/load/sse", "github.com/any/thing"),
			with("aicr/internal/spec", "sigs.k8s.io/yaml"),
		}, ""},
		"a leaf imports a room":             {[]pkg{with("aicr/internal/stats", "aicr/internal/spec")}, "aicr/internal/stats imports aicr/internal/spec"},
		"load imports sim":                  {[]pkg{with("aicr/internal/load", "aicr/internal/sim/truth")}, "aicr/internal/load imports aicr/internal/sim/truth"},
		"below sim imports load":            {[]pkg{with("aicr/internal/sim/truth", "aicr/internal/load/sse")}, "aicr/internal/sim/truth imports aicr/internal/load/sse"},
		"observe imports load":              {[]pkg{with("aicr/internal/observe", "aicr/internal/load")}, "aicr/internal/observe imports aicr/internal/load"},
		"judge imports load":                {[]pkg{with("aicr/internal/judge", "aicr/internal/load")}, "aicr/internal/judge imports"},
		"report imports judge":              {[]pkg{with("aicr/internal/report", "aicr/internal/judge")}, "aicr/internal/report imports"},
		"kube imports stats":                {[]pkg{with("aicr/internal/kube", "aicr/internal/stats")}, "aicr/internal/kube imports"},
		"checks imports sim":                {[]pkg{with("aicr/internal/checks", "aicr/internal/sim")}, "aicr/internal/checks imports"},
		"a room imports cli":                {[]pkg{with("aicr/internal/load", "aicr/internal/cli")}, "aicr/internal/load imports"},
		"main imports more than cli":        {[]pkg{with("aicr/cmd/aicr", "aicr/internal/load")}, "aicr/cmd/aicr imports"},
		"a room with no place in the table": {[]pkg{with("aicr/internal/utils")}, "aicr/internal/utils is in no room"},
		"a package at the root":             {[]pkg{with("aicr")}, "aicr is in no room"},
		"os in a room":                      {[]pkg{with("aicr/internal/load", "os")}, "aicr/internal/load imports os"},
		"below os in a room":                {[]pkg{with("aicr/internal/load", "os/exec")}, "aicr/internal/load imports os/exec"},
		"client-go in cli":                  {[]pkg{with("aicr/internal/cli", "k8s.io/client-go/rest")}, "only kube talks to a cluster"},
		"a library in a leaf":               {[]pkg{with("aicr/internal/spec", "github.com/any/thing")}, "aicr/internal/spec imports github.com/any/thing"},
		"the standard library in a leaf":    {[]pkg{with("aicr/internal/spec", "fmt"), std("fmt", "os")}, ""},
		"Kubernetes by way of a library": {[]pkg{with("aicr/internal/load", "x.org/y"), with("x.org/y", "x.org/z"), with("x.org/z", "k8s.io/api/core/v1")},
			"aicr/internal/load reaches Kubernetes: aicr/internal/load -> x.org/y -> x.org/z -> k8s.io/api/core/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			pkgs := map[string]pkg{}
			for _, p := range c.pkgs {
				pkgs[p.ImportPath] = p
			}
			got := violations(house, pkgs)
			if c.want == "" {
				if len(got) > 0 {
					t.Errorf("broken by %q, want the law kept", got)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("broken by %q, want just %q", got, c.want)
			}
		})
	}
}

func TestEveryPackageIntroducesItself(t *testing.T) {
	for path, p := range list(t, "linux") {
		if !ours(path) || len(p.GoFiles) == 0 { // tests alone need no introduction
			continue
		}
		var comments []string
		for _, name := range p.GoFiles {
			source, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			comment, err := introduction(source)
			if err != nil {
				t.Fatal(err)
			}
			if comment != "" {
				comments = append(comments, comment)
			}
		}
		if why := unintroduced(comments); why != "" {
			t.Errorf("%s: %s; say what it is and what to read first", path, why)
		}
	}
}

func introduction(source []byte) (string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		return "", err
	}
	return f.Doc.Text(), nil
}

// unintroduced says what is wrong with the package comments of a package, or
// "". They must be one, and two lines' worth.
func unintroduced(comments []string) string {
	switch {
	case len(comments) == 0:
		return "no package comment"
	case len(comments) > 1:
		return "a package comment in more than one file"
	case strings.Count(strings.TrimSpace(comments[0]), "\n") < 1:
		return "a package comment of one line"
	}
	return ""
}

func TestAnIntroductionIsOneCommentOfTwoLines(t *testing.T) {
	for source, want := range map[string]string{
		"package x":                                              "no package comment",
		"// Package x is.\n\npackage x":                          "no package comment",
		"// Package x is.\npackage x":                            "a package comment of one line",
		"// Package x is\n// what it is.\npackage x":             "",
		"//go:build linux\n\n// Package x is\n// it.\npackage x": "",
	} {
		comment, err := introduction([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		var comments []string
		if comment != "" {
			comments = append(comments, comment)
		}
		if got := unintroduced(comments); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
	if unintroduced([]string{"a\nb\n", "c\nd\n"}) == "" {
		t.Error("two introductions pass")
	}
}
