package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// GenerateSchema makes the schema of a kind from the type that its documents are
// decoded into, so that the two cannot disagree about a field. What a field may hold
// beyond its type is in schemaRules, by the same lists that the decoder asks.
func GenerateSchema(k DocumentKind) ([]byte, error) {
	root, ok := schemaRoots()[k.Kind]
	if !ok {
		return nil, fmt.Errorf("%s has no type in schemaRoots", k.Kind)
	}
	comments, err := schemaComments(".")
	if err != nil {
		return nil, err
	}
	t := reflect.TypeOf(root.document)
	g := &schemaMaker{comments: comments, complete: root.complete, rules: schemaRules(), defs: map[string]*jsonSchema{}}
	s := g.structure(t, t.Name(), false)
	s.Schema, s.ID, s.Title = "https://json-schema.org/draft/2020-12/schema", "https://aicr.run/schemas/"+k.Name+".json", k.Kind
	s.Description = strings.ToUpper(k.About[:1]) + k.About[1:] + "."
	for name, words := range root.head {
		p := s.property(name)
		if p == nil {
			return nil, fmt.Errorf("%s has no field %s", k.Kind, name)
		}
		oneOfWords(words...)(p)
		p.Description = map[string]string{"kind": "What the document is.", "apiVersion": "The version of its shape.", "schema": "The version of its shape."}[name]
	}
	for _, name := range slices.Sorted(maps.Keys(g.defs)) {
		s.Defs = append(s.Defs, schemaProperty{name, g.defs[name]})
	}
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	err = out.Encode(s)
	return b.Bytes(), err
}

// schemaRoot is what the documents of a kind are decoded into, and what their head says.
type schemaRoot struct {
	document any
	head     map[string][]string
	complete bool // see document.complete
}

// schemaRule adds to the schema of a field, or of a type, what its Go type does not tell.
type schemaRule func(*jsonSchema)

func oneOfWords(words ...string) schemaRule {
	return func(s *jsonSchema) {
		if len(words) == 1 {
			s.Const = words[0]
			return
		}
		s.Enum = words
	}
}

func eachOneOf(words ...string) schemaRule {
	return func(s *jsonSchema) { s.Items.Enum = words }
}

func matching(shape *regexp.Regexp) schemaRule {
	return func(s *jsonSchema) { s.Pattern = shape.String() }
}

func from(least float64) schemaRule { return func(s *jsonSchema) { s.Minimum = &least } }

func fromTo(least, most float64) schemaRule {
	return func(s *jsonSchema) { s.Minimum, s.Maximum = &least, &most }
}

// some wants a list with something in it.
func some(s *jsonSchema) { s.Type, s.MinItems = schemaTypes{"array"}, 1 }

func above0(s *jsonSchema) { s.ExclusiveMinimum = new(float64) }

func together(rules ...schemaRule) schemaRule {
	return func(s *jsonSchema) {
		for _, rule := range rules {
			rule(s)
		}
	}
}

var (
	goDuration        = regexp.MustCompile(`^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`)
	goDurationOrEmpty = regexp.MustCompile(strings.Replace(goDuration.String(), "^", "^$|^", 1))
)

// jsonSchema is as much of a JSON Schema as is written here, in the order in which a
// person reads it.
type jsonSchema struct {
	Schema               string              `json:"$schema,omitempty"`
	ID                   string              `json:"$id,omitempty"`
	Title                string              `json:"title,omitempty"`
	Description          string              `json:"description,omitempty"`
	Ref                  string              `json:"$ref,omitempty"`
	Type                 schemaTypes         `json:"type,omitempty"`
	Const                string              `json:"const,omitempty"`
	Enum                 []string            `json:"enum,omitempty"`
	Pattern              string              `json:"pattern,omitempty"`
	Minimum              *float64            `json:"minimum,omitempty"`
	ExclusiveMinimum     *float64            `json:"exclusiveMinimum,omitempty"`
	Maximum              *float64            `json:"maximum,omitempty"`
	Properties           schemaProperties    `json:"properties,omitempty"`
	Required             []string            `json:"required,omitempty"`
	DependentRequired    map[string][]string `json:"dependentRequired,omitempty"`
	PropertyNames        *jsonSchema         `json:"propertyNames,omitempty"`
	MinProperties        int                 `json:"minProperties,omitempty"`
	AdditionalProperties any                 `json:"additionalProperties,omitempty"` // a jsonSchema, or false
	Items                *jsonSchema         `json:"items,omitempty"`
	MinItems             int                 `json:"minItems,omitempty"`
	UniqueItems          bool                `json:"uniqueItems,omitempty"`
	AnyOf                []*jsonSchema       `json:"anyOf,omitempty"`
	AllOf                []*jsonSchema       `json:"allOf,omitempty"`
	If                   *jsonSchema         `json:"if,omitempty"`
	Then                 *jsonSchema         `json:"then,omitempty"`
	Not                  *jsonSchema         `json:"not,omitempty"`
	Defs                 schemaProperties    `json:"$defs,omitempty"`
}

func (s *jsonSchema) property(name string) *jsonSchema {
	for _, p := range s.Properties {
		if p.name == name {
			return p.schema
		}
	}
	return nil
}

// schemaTypes is one type, or any of several.
type schemaTypes []string

func (t schemaTypes) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

type schemaProperty struct {
	name   string
	schema *jsonSchema
}

// schemaProperties keeps the order of a type's fields.
type schemaProperties []schemaProperty

func (all schemaProperties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		var value bytes.Buffer
		out := json.NewEncoder(&value)
		out.SetEscapeHTML(false)
		if err := out.Encode(p.schema); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", p.name, &value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

type schemaMaker struct {
	comments map[string]string
	complete bool // every field is there, but those that are left out when they are empty
	rules    map[string]schemaRule
	defs     map[string]*jsonSchema
}

// structure is the schema of a struct. Its fields are those that the decoder finds by
// their JSON names.
func (g *schemaMaker) structure(t reflect.Type, key string, loose bool) *jsonSchema {
	s := &jsonSchema{Description: g.comments[key], Type: schemaTypes{"object"}, AdditionalProperties: false}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		required := !loose && (slices.Contains(schemaRequired()[key], name) || g.complete && options == "" && !schemaDefaulted()[key])
		if required {
			s.Required = append(s.Required, name)
		}
		one := g.field(f.Type, key+"."+f.Name, required)
		one.Description = g.describe(key+"."+f.Name, f)
		if f.Tag.Get("aicr") == "version" {
			one.Type = append(schemaTypes{"string", "number"}, one.Type[1:]...)
		}
		if rule, ok := g.rules[key+"."+name]; ok {
			rule(one)
		}
		s.Properties = append(s.Properties, schemaProperty{name, one})
	}
	if rule, ok := g.rules[key]; ok {
		rule(s)
	}
	return s
}

func (g *schemaMaker) describe(key string, f reflect.StructField) string {
	text := g.comments[key]
	if f.Tag.Get("aicr") != "unused" {
		return text
	}
	return strings.TrimSpace(text + " Known, and not used by this program.")
}

// field is the schema of a value. Where the decoder takes nothing for nothing said, so
// does the schema.
func (g *schemaMaker) field(t reflect.Type, key string, required bool) *jsonSchema {
	if t.Kind() == reflect.Pointer {
		return g.field(t.Elem(), key, required)
	}
	if own, ok := g.own(t, required); ok {
		return own
	}
	nullable := func(types ...string) schemaTypes {
		if !required {
			types = append(types, "null")
		}
		return types
	}
	switch t.Kind() {
	case reflect.Struct:
		return g.reference(t, key, required)
	case reflect.Slice:
		return &jsonSchema{Type: schemaTypes{"array", "null"}, Items: g.field(t.Elem(), key, true)}
	case reflect.Map:
		return &jsonSchema{Type: nullable("object"), AdditionalProperties: g.field(t.Elem(), key, true)}
	case reflect.String:
		return &jsonSchema{Type: schemaTypes{"string"}}
	case reflect.Bool:
		return &jsonSchema{Type: schemaTypes{"boolean"}}
	case reflect.Float64:
		return &jsonSchema{Type: schemaTypes{"number"}}
	case reflect.Int:
		return &jsonSchema{Type: schemaTypes{"integer"}}
	default:
		panic(fmt.Sprintf("a schema has no %s (%s)", t, key))
	}
}

// reference is a struct that is written once, in $defs.
func (g *schemaMaker) reference(t reflect.Type, key string, required bool) *jsonSchema {
	if t.Name() == "" {
		s := g.structure(t, key, false)
		if len(s.Required) == 0 || !required {
			s.Type = append(s.Type, "null")
		}
		return s
	}
	ref := g.define(t)
	if required && len(g.defs[strings.TrimPrefix(ref.Ref, schemaDefs)].Required) > 0 {
		return ref
	}
	return &jsonSchema{AnyOf: []*jsonSchema{ref, {Type: schemaTypes{"null"}}}}
}

const schemaDefs = "#/$defs/"

// define writes a struct into $defs, and refers to it.
func (g *schemaMaker) define(t reflect.Type) *jsonSchema {
	name := strings.TrimSuffix(t.Name(), "Document")
	name = string(unicode.ToUpper(rune(name[0]))) + name[1:]
	if g.defs[name] == nil {
		g.defs[name] = &jsonSchema{} // a type may hold itself
		g.defs[name] = g.structure(t, t.Name(), false)
	}
	return &jsonSchema{Ref: schemaDefs + name}
}

// own is the schema of a type that documents write in a way of its own.
func (g *schemaMaker) own(t reflect.Type, required bool) (*jsonSchema, bool) {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[documentValue]()) {
		return nil, false
	}
	switch t {
	case reflect.TypeFor[Anything]():
		return &jsonSchema{}, true
	case reflect.TypeFor[Wanted](), reflect.TypeFor[BareText]():
		return &jsonSchema{Type: schemaTypes{"string", "number", "boolean"}}, true
	case reflect.TypeFor[EnvVar]():
		return g.reference(reflect.TypeFor[envVarDocument](), "", required), true
	case reflect.TypeFor[Duration]():
		return &jsonSchema{Type: schemaTypes{"string", "integer"}, Pattern: goDuration.String(), Minimum: new(float64), Maximum: new(float64)}, true // 0 alone needs no unit
	case reflect.TypeFor[Prompts]():
		return &jsonSchema{AnyOf: []*jsonSchema{{Const: "unique"}, {Type: schemaTypes{"integer"}, Minimum: new(1.0)}}}, true
	case reflect.TypeFor[Workers]():
		return &jsonSchema{AnyOf: []*jsonSchema{{Enum: []string{"any", "all"}}, {Type: schemaTypes{"array"}, Items: &jsonSchema{Type: schemaTypes{"integer"}, Minimum: new(float64)}, MinItems: 1, UniqueItems: true}}}, true
	case reflect.TypeFor[seedValue]():
		return &jsonSchema{Type: schemaTypes{"integer"}, Minimum: new(float64)}, true
	case reflect.TypeFor[inputValues]():
		return &jsonSchema{Type: schemaTypes{"object"}, AdditionalProperties: g.reference(reflect.TypeFor[Input](), "", true)}, true
	case reflect.TypeFor[scenarioValue]():
		return g.reference(reflect.TypeFor[Scenario](), "", true), true
	case reflect.TypeFor[Facts]():
		return &jsonSchema{Type: schemaTypes{"object", "null"}, AdditionalProperties: &jsonSchema{Type: schemaTypes{"string", "number", "boolean"}}}, true
	case reflect.TypeFor[Texts]():
		return &jsonSchema{Type: schemaTypes{"object", "null"}, AdditionalProperties: &jsonSchema{Type: schemaTypes{"string", "number", "boolean", "null"}}}, true
	case reflect.TypeFor[ExcludedOverlay]():
		return &jsonSchema{AnyOf: []*jsonSchema{{Type: schemaTypes{"string"}}, g.define(t)}}, true
	case reflect.TypeFor[ThresholdValues]():
		if g.defs["ThresholdValues"] == nil {
			s := g.structure(reflect.TypeFor[Thresholds](), "Thresholds", true)
			s.Description = g.comments["ThresholdValues"]
			g.defs["ThresholdValues"] = s
		}
		return &jsonSchema{Ref: schemaDefs + "ThresholdValues"}, true
	}
	panic(fmt.Sprintf("%s is written in a way of its own: say which in schema_generate_test.go", t))
}

// schemaComments are the comments of a package's struct types and their fields, by
// Type and Type.Field.
func schemaComments(folder string) (map[string]string, error) {
	comments := map[string]string{}
	names, err := fs.Glob(os.DirFS(folder), "*.go")
	if err != nil {
		return nil, err
	}
	var walk func(key string, t ast.Expr)
	walk = func(key string, t ast.Expr) {
		structure, ok := t.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range structure.Fields.List {
			for _, name := range f.Names {
				text := f.Doc.Text()
				if text == "" {
					text = f.Comment.Text()
				}
				comments[key+"."+name.Name] = sentence(text)
				inner := f.Type
				if pointer, ok := inner.(*ast.StarExpr); ok {
					inner = pointer.X
				}
				walk(key+"."+name.Name, inner)
			}
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, one := range general.Specs {
				if t, ok := one.(*ast.TypeSpec); ok {
					text := t.Doc.Text()
					if text == "" {
						text = general.Doc.Text()
					}
					comments[t.Name.Name] = sentence(withoutName(text, t.Name.Name))
					walk(t.Name.Name, t.Type)
				}
			}
		}
	}
	for key, text := range maps.Clone(comments) {
		if field, ok := strings.CutPrefix(key, "Plan."); ok {
			comments["planDocument."+field] = text
		}
	}
	return comments, nil
}

// withoutName says of a thing what it is, where Go says it of a name.
func withoutName(comment, name string) string {
	rest, ok := strings.CutPrefix(comment, name+" ")
	if !ok {
		return comment
	}
	for _, verb := range []string{"is ", "are "} {
		rest = strings.TrimPrefix(rest, verb)
	}
	return rest
}

// sentence makes a comment one line, with a capital and a full stop.
func sentence(comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// SchemaRulesOfNothing are the rules and required fields that no type has a field for:
// what was renamed in the types and not here.
func SchemaRulesOfNothing() []string {
	known := map[string]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || known[t.Name()] && t.Name() != "" {
			return
		}
		known[t.Name()] = true
		for f := range t.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				known[t.Name()+"."+name] = true
				walk(f.Type)
			}
		}
	}
	for _, root := range schemaRoots() {
		walk(reflect.TypeOf(root.document))
	}
	for _, t := range []reflect.Type{reflect.TypeFor[envVarDocument](), reflect.TypeFor[Scenario]()} {
		walk(t)
	}
	var lost []string
	for key := range schemaRules() {
		if !known[key] {
			lost = append(lost, key)
		}
	}
	for name, fields := range schemaRequired() {
		for _, field := range fields {
			if !known[name+"."+field] {
				lost = append(lost, name+"."+field)
			}
		}
	}
	for name := range schemaDefaulted() {
		if !known[name] {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	return lost
}
