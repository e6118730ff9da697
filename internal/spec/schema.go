package spec

import (
	"embed"
	"slices"
	"strings"
)

// DocumentKind is a kind of document that this program reads.
type DocumentKind struct {
	Name  string // short, for the command line
	Kind  string // as a document writes it
	About string // in a line
}

// DocumentKinds lists them. Each has a schema and a page of its own.
func DocumentKinds() []DocumentKind {
	return []DocumentKind{
		{"recipe", RecipeKind, "an overlay: one layer of what a deployment should be"},
		{"recipe-result", RecipeResultKind, "a whole recipe, with every layer laid over the one before"},
		{"mixin", RecipeMixinKind, "a part that several overlays share"},
		{"validation-input", ValidationInputKind, "a whole recipe as a check of upstream's is given it"},
		{"snapshot", SnapshotKind, "what was found on a cluster"},
		{"catalog", CatalogKind, "the checks that there are"},
		{"config", ConfigKind, "what flags would say, in a file"},
		{"versions", VersionsKind, "what is pinned: charts, images and tools"},
		{"scenario", ScenarioKind, "a simulated fleet and what goes wrong with it"},
		{"plan", "Plan", "what a run measures, and how it is judged"},
	}
}

// DocumentKindNamed finds a kind by either of its names, in whichever case.
func DocumentKindNamed(name string) (DocumentKind, bool) {
	all := DocumentKinds()
	i := slices.IndexFunc(all, func(k DocumentKind) bool { return strings.EqualFold(name, k.Name) || strings.EqualFold(name, k.Kind) })
	if i < 0 {
		return DocumentKind{}, false
	}
	return all[i], true
}

// The schemas are made from the types that the documents are decoded into: see
// schema_generate_test.go.
//
//go:embed schemas/*.schema.json
var schemaFiles embed.FS

// Schema is the kind's JSON Schema, of draft 2020-12.
func (k DocumentKind) Schema() ([]byte, error) { return schemaFiles.ReadFile(k.schemaFile()) }

func (k DocumentKind) schemaFile() string { return "schemas/" + k.Name + ".schema.json" }
