package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxDocument is the largest document that is read, in bytes. A snapshot names every
// node of a cluster, and may be larger.
const (
	MaxDocument = 1 << 20
	MaxSnapshot = 32 << 20
)

// Documents come from the network too. An alias makes a large document of a
// small one, so what counts is what it stands for, not what was sent.
const (
	maxValues   = 1 << 16
	mostFacts   = 1 << 22 // values of a snapshot
	maxDepth    = 32
	maxMistakes = 1000
)

// document is a document while it is decoded and checked: where its values were
// written, and what is wrong with them. Nothing stops at the first mistake; a
// check that needs other values asks first whether they are sound.
type document struct {
	root     *yaml.Node
	written  map[string]position
	broken   map[string]bool
	misnamed map[string]bool // not written, but something close to it was
	mistakes Mistakes
	unused   []Unused
	setAside bool // what is decoded is a part of a field that is not used
	values   int
	most     int  // values that are read
	full     bool // a limit was passed: the rest is not looked at
}

// Unused is a field that a document has and this program knows, and does nothing with.
type Unused struct {
	Path string `json:"path"`
	Line int    `json:"line"`
}

type position struct{ line, column int }

func positionOf(n *yaml.Node) position { return position{max(n.Line, 1), max(n.Column, 1)} }

// documentValue is a value that documents write in a way of its own.
type documentValue interface {
	fromDocument(d *document, n *yaml.Node, path string)
}

// variant is a struct of which not every field has a meaning in every value.
// They are asked for after the struct was decoded.
type variant interface {
	fieldNames() []string
}

// parse reads one document of YAML, which JSON is too.
func parse(data []byte) (*yaml.Node, error) { return parseWithin(data, MaxDocument) }

func parseWithin(data []byte, most int) (*yaml.Node, error) {
	if len(data) > most {
		return nil, whole(1, fmt.Sprintf("the document is larger than %d MiB", most>>20), "")
	}
	if bad := invalidUTF8(data); bad >= 0 {
		return nil, whole(1+bytes.Count(data[:bad], []byte{'\n'}), "the document is not UTF-8 text", "")
	}
	lines := &lineReader{rest: data}
	in := yaml.NewDecoder(lines)
	root, err := next(in)
	if errors.Is(err, io.EOF) || err == nil && isNull(root) {
		return nil, whole(1, "the document is empty", "")
	}
	if err != nil {
		return nil, syntaxMistake(data, lines.read, err)
	}
	switch second, err := next(in); {
	case err == nil:
		return nil, whole(min(positionOf(second).line, lines.read), "a second document in the same file", "write one document, without another ---")
	case !errors.Is(err, io.EOF):
		return nil, syntaxMistake(data, lines.read, err)
	}
	return root, nil
}

func whole(line int, text, hint string) Mistakes {
	return Mistakes{{Line: line, Column: 1, Text: text, Hint: hint}}
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// next is the next document's value. The library panics where it meets what it
// believes impossible; a reader of untrusted input cannot let that through.
func next(in *yaml.Decoder) (root *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("yaml: %v", p)
		}
	}()
	var doc yaml.Node
	if err := in.Decode(&doc); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

// lineReader gives one line a read and counts them: how far the parser came is
// where the mistake is when it does not say.
type lineReader struct {
	rest []byte
	read int
}

func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	part := l.rest[:min(len(l.rest), len(p))] // a line may be the whole document
	if end := bytes.IndexByte(part, '\n'); end >= 0 {
		part = part[:end+1]
	}
	n := copy(p, part)
	l.rest = l.rest[n:]
	if n > 0 && (p[n-1] == '\n' || len(l.rest) == 0) {
		l.read++
	}
	return n, nil
}

var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?((?s).*)$`)

// syntaxMistake finds the line of a syntax error. What the library calls the
// line is, by the kind of error, that of the mistake, the one before it, or one
// at which something long begins that went wrong later.
func syntaxMistake(data []byte, read int, err error) Mistakes {
	parts := syntaxError.FindStringSubmatch(err.Error())
	if parts == nil {
		return whole(max(read, 1), "not YAML: "+err.Error(), "")
	}
	text, hint := parts[2], ""
	line, unsaid := strconv.Atoi(parts[1])
	if name := unknownAnchor.FindStringSubmatch(text); name != nil {
		if at := lineWith(data, "*"+name[1]); at > 0 {
			return whole(at, "not YAML: "+text, "")
		}
	}
	switch text {
	case "did not find expected comment or line break", "found unexpected end of stream":
		// A quote that is not closed lasts to the next one, lines below.
		if line = read; unsaid == nil {
			line, _ = strconv.Atoi(parts[1])
		}
		if at := openQuote(data); at > 0 && at <= line {
			line, hint = at, "a quote that opens here is not closed"
		} else if strings.HasPrefix(text, "did not find") {
			hint = "put quotes around text that begins with a sign, as \">= 50000\""
		}
	case "did not find expected key", "did not find expected '-' indicator":
		// The parser looks ahead: the first line that it already trips over is the one.
		line, hint = read, "check how far this line is indented"
		for range 3 {
			if line <= 1 || !fails(data, line-1, text) {
				break
			}
			line--
		}
	case "did not find expected ',' or ']'", "did not find expected ',' or '}'":
		if unsaid != nil {
			line = 0
		}
		line, hint = line+1, "a comma is missing, or the bracket that opens here is not closed"
	case "did not find expected node content", "did not find expected <document start>":
		if unsaid != nil {
			line = 0
		}
		line++
	default:
		if unsaid != nil {
			line = read
		}
		if strings.Contains(text, "tab character") {
			line = indentedByTab(data, line, read)
		}
		if strings.Contains(text, "tab character") || text == "found character that cannot start any token" {
			hint = "indent with spaces, and quote text that begins with a sign"
		}
	}
	return whole(max(min(line, read), 1), "not YAML: "+text, hint)
}

var unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)

// lineWith is the first line that has a text outside of a comment, or 0.
func lineWith(data []byte, text string) int {
	at := 0
	for line := range strings.Lines(string(data)) {
		at++
		if strings.Contains(uncommented(line), text) {
			return at
		}
	}
	return 0
}

// openQuote is the first line that opens a double quote and does not close it, or 0.
func openQuote(data []byte) int {
	at := 0
	for line := range strings.Lines(string(data)) {
		at++
		if strings.Count(strings.ReplaceAll(uncommented(line), `\"`, ""), `"`)%2 == 1 {
			return at
		}
	}
	return 0
}

func uncommented(line string) string {
	if strings.HasPrefix(strings.TrimSpace(line), "#") {
		return ""
	}
	before, _, _ := strings.Cut(line, " #")
	return before
}

// indentedByTab is the line that has the tab: it may come after the one that is blamed.
func indentedByTab(data []byte, blamed, read int) int {
	at := 0
	for line := range bytes.Lines(data) {
		if at++; at > read {
			break
		}
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if at >= blamed && bytes.IndexByte(indent, '\t') >= 0 {
			return at
		}
	}
	return blamed
}

// fails reports whether the first lines alone have that error.
func fails(data []byte, lines int, text string) bool {
	end := 0
	for range lines {
		i := bytes.IndexByte(data[end:], '\n')
		if i < 0 {
			break
		}
		end += i + 1
	}
	_, err := next(yaml.NewDecoder(bytes.NewReader(data[:end])))
	return err != nil && strings.HasSuffix(err.Error(), text)
}

// decode lays what the document says over v, which must be a pointer.
func decode(root *yaml.Node, v any) *document { return decodeWithin(root, v, maxValues) }

func decodeWithin(root *yaml.Node, v any, most int) *document {
	d := &document{root: root, written: map[string]position{}, broken: map[string]bool{}, misnamed: map[string]bool{}, most: most}
	d.value(root, "", reflect.ValueOf(v).Elem(), 0)
	return d
}

// err is all that was wrong, in order, or nil.
func (d *document) err() error {
	if len(d.mistakes) == 0 {
		return nil
	}
	d.mistakes.sort()
	return d.mistakes
}

// wrong notes a mistake at the place where the value was written or, when it was
// not, at what it would be a part of.
func (d *document) wrong(path, text, hint string) {
	for at := path; ; at = parent(at) {
		if p, ok := d.written[at]; ok {
			d.note(path, p, text, hint)
			return
		}
		if at == "" {
			d.note(path, positionOf(d.root), text, hint)
			return
		}
	}
}

func (d *document) note(path string, at position, text, hint string) {
	d.broken[path] = true
	switch {
	case d.full:
		return
	case len(d.mistakes) == maxMistakes:
		path, text, hint = "", fmt.Sprintf("more than %d mistakes: the rest is not told", maxMistakes), ""
		d.full = true
	}
	d.mistakes = append(d.mistakes, Mistake{Path: path, Line: at.line, Column: at.column, Text: text, Hint: hint})
}

// stop notes that a limit was passed. What comes after is not looked at.
func (d *document) stop(n *yaml.Node, path, text string) {
	d.note(path, positionOf(n), text, "")
	d.full = true
}

// says reports whether the document has that value, sound or not.
func (d *document) says(path string) bool {
	_, ok := d.written[path]
	return ok
}

// sound reports whether nothing was wrong with these values or with what they
// are part of.
func (d *document) sound(paths ...string) bool {
	for _, path := range paths {
		for ; ; path = parent(path) {
			if d.broken[path] {
				return false
			}
			if path == "" {
				break
			}
		}
	}
	return true
}

func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func (d *document) value(n *yaml.Node, path string, v reflect.Value, depth int) {
	if d.full {
		return
	}
	if d.values++; d.values > d.most {
		d.stop(n, path, fmt.Sprintf("more than %d values", d.most))
		return
	}
	if depth > maxDepth {
		d.stop(n, path, fmt.Sprintf("nested deeper than %d", maxDepth))
		return
	}
	n = target(n)
	own, isOwn := reflect.TypeAssert[documentValue](v.Addr())
	kind := v.Kind()
	if kind == reflect.Pointer {
		if isNull(n) && v.Type().Elem().Kind() == reflect.Struct && !reflect.PointerTo(v.Type().Elem()).Implements(reflect.TypeFor[documentValue]()) {
			return
		}
		fresh := reflect.New(v.Type().Elem())
		d.value(n, path, fresh.Elem(), depth+1)
		v.Set(fresh)
		return
	}
	if isNull(n) {
		// A list whose every line is commented out says nothing. A value that
		// was forgotten is another matter.
		mayBeEmpty := false
		switch own.(type) {
		case *Anything, *Facts, *Texts:
			mayBeEmpty = true
		}
		if isOwn && !mayBeEmpty || kind != reflect.Struct && kind != reflect.Slice && kind != reflect.Map {
			d.wrong(path, "no value", "write a value")
		}
		return
	}
	switch {
	case isOwn:
		own.fromDocument(d, n, path)
	case kind == reflect.Struct:
		d.structure(n, path, v, depth)
	case kind == reflect.Slice:
		d.list(n, path, v, depth)
	case kind == reflect.Map:
		d.table(n, path, v, depth)
	case kind == reflect.String:
		if text, ok := d.text(n, path); ok {
			v.SetString(text)
		}
	case kind == reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || !strings.EqualFold(n.Value, "true") && !strings.EqualFold(n.Value, "false") {
			d.wrong(path, "want true or false, got "+describe(n), meantBool(n))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case v.CanInt():
		if i, ok := d.whole(n, path); ok {
			if v.OverflowInt(i) {
				d.wrong(path, quote(n.Value)+" is out of range", "")
				return
			}
			v.SetInt(i)
		}
	case v.CanFloat():
		if f, ok := d.number(n, path); ok {
			v.SetFloat(f)
		}
	default:
		panic(fmt.Sprintf("a document has no %s", v.Type())) // a type of this package, not of the input
	}
}

// structure decodes a map into the fields of a struct by their JSON names.
func (d *document) structure(n *yaml.Node, path string, v reflect.Value, depth int) {
	if n.Kind != yaml.MappingNode || n.Tag != "!!map" {
		d.wrong(path, "want a map of fields, got "+describe(n), "")
		return
	}
	names := jsonNames(v.Type())
	var unknown []*yaml.Node
	for _, m := range d.members(n, path, depth) {
		if d.full {
			return
		}
		index, ok := names.index[m.name]
		if !ok {
			unknown = append(unknown, m.key)
			continue
		}
		at := join(path, m.name)
		d.written[at] = positionOf(m.key)
		if m.value.Kind == yaml.AliasNode || m.value.Kind == yaml.ScalarNode && !isNull(m.value) {
			d.written[at] = positionOf(m.value)
		}
		within := d.setAside
		switch v.Type().Field(index).Tag.Get("aicr") {
		case "unused":
			if !within {
				d.unused = append(d.unused, Unused{at, d.written[at].line})
				d.setAside = true
			}
		case "version":
			m.value = quotedVersion(m.value)
		}
		d.value(m.value, at, v.Field(index), depth+1)
		d.setAside = within
	}
	if len(unknown) == 0 {
		return
	}
	known := names.all
	if some, ok := reflect.TypeAssert[variant](v.Addr()); ok {
		known = some.fieldNames()
	}
	for _, key := range unknown {
		if d.full {
			return
		}
		name := target(key).Value
		if near, ok := Nearest(name, known); ok {
			d.misnamed[join(path, near)] = true
		}
		d.note(join(path, plain(name)), positionOf(key), "unknown field", meant(name, known, "the fields here are"))
	}
}

// quotedVersion is a version as if it had quotes: 1.20 is one, and no number.
func quotedVersion(n *yaml.Node) *yaml.Node {
	if n = target(n); n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" {
		return n
	}
	text := *n
	text.Tag = "!!str"
	return &text
}

type member struct {
	name       string
	key, value *yaml.Node
}

// members lists what a map holds. What << merges comes after what the map says
// itself, which prevails.
func (d *document) members(n *yaml.Node, path string, depth int) []member {
	var all []member
	var merged []*yaml.Node
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := target(n.Content[i]), n.Content[i+1]
		switch earlier := first[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.note(join(path, "?"), positionOf(n.Content[i]), "want a field's name, got "+describe(key), "")
		case earlier != nil:
			d.note(join(path, plain(key.Value)), positionOf(n.Content[i]), "written twice", fmt.Sprintf("it is at line %d already", earlier.Line))
		case key.Tag == "!!merge":
			first[key.Value] = n.Content[i]
			if merged = []*yaml.Node{value}; value.Kind == yaml.SequenceNode {
				merged = value.Content
			}
		default:
			first[key.Value] = n.Content[i]
			all = append(all, member{key.Value, n.Content[i], value})
		}
	}
	for _, from := range merged {
		if d.values++; d.values > d.most || depth > maxDepth {
			d.stop(from, path, "more is merged than is read")
			break
		}
		if target(from).Kind != yaml.MappingNode {
			d.note(join(path, "<<"), positionOf(from), "want a map to merge, got "+describe(target(from)), "")
			continue
		}
		for _, m := range d.members(target(from), path, depth+1) {
			d.values++
			if first[m.name] == nil {
				first[m.name] = m.key
				all = append(all, m)
			}
		}
	}
	return all
}

func (d *document) list(n *yaml.Node, path string, v reflect.Value, depth int) {
	if n.Kind != yaml.SequenceNode || n.Tag != "!!seq" {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			hint = fmt.Sprintf("write [%s]", plain(n.Value))
		}
		d.wrong(path, "want a list, got "+describe(n), hint)
		return
	}
	all := reflect.MakeSlice(v.Type(), 0, len(n.Content)) // an empty list is not none: in an overlay it clears
	for i, one := range n.Content {
		if d.full {
			break
		}
		at := element(path, i)
		d.written[at] = positionOf(one)
		fresh := reflect.New(v.Type().Elem()).Elem()
		d.value(one, at, fresh, depth+1)
		if isNull(target(one)) && d.sound(at) {
			d.wrong(at, "no value", "write a value, or take the line out")
		}
		all = reflect.Append(all, fresh)
	}
	v.Set(all)
}

// table decodes a map whose keys are the document's own.
func (d *document) table(n *yaml.Node, path string, v reflect.Value, depth int) {
	if n.Kind != yaml.MappingNode || n.Tag != "!!map" {
		d.wrong(path, "want a map, got "+describe(n), "")
		return
	}
	all := reflect.MakeMap(v.Type())
	for _, m := range d.members(n, path, depth) {
		if d.full {
			break
		}
		at := keyed(path, m.name)
		d.written[at] = positionOf(m.key)
		fresh := reflect.New(v.Type().Elem()).Elem()
		d.value(m.value, at, fresh, depth+1)
		all.SetMapIndex(reflect.ValueOf(m.name), fresh)
	}
	v.Set(all)
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// keyed is the path of a value in a map.
func keyed(path, key string) string {
	if identifier.MatchString(key) {
		return join(path, key)
	}
	return fmt.Sprintf("%s[%s]", path, plain(key))
}

func (d *document) text(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return n.Value, true
	}
	hint := ""
	switch {
	case n.Kind != yaml.ScalarNode:
	case strings.HasPrefix(n.Tag, "!!"):
		hint = fmt.Sprintf("write %q, with quotes", plain(n.Value))
	case strings.HasPrefix(n.Tag, "!"): // what begins with a ! is a tag, unless it is in quotes
		hint = fmt.Sprintf("write %q, with quotes", strings.TrimSpace(shorten(n.Tag+" "+n.Value)))
	}
	d.wrong(path, "want text, got "+describe(n), hint)
	return "", false
}

// meantBool is a hint at the truth value that older YAML, or a person, has another
// word for.
func meantBool(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	switch strings.ToLower(n.Value) {
	case "yes", "y", "on", "true", "1":
		return "write true, without quotes"
	case "no", "n", "off", "false", "0":
		return "write false, without quotes"
	}
	return ""
}

var digits = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

func (d *document) whole(n *yaml.Node, path string) (int64, bool) {
	isDigits := n.Kind == yaml.ScalarNode && digits.MatchString(n.Value)
	if !isDigits || n.Tag != "!!int" && n.Tag != "!!float" { // the library calls what exceeds 64 bits a float
		hint := ""
		if isDigits && n.Tag == "!!str" {
			hint = fmt.Sprintf("write %s, without quotes", n.Value)
		} else if n.Tag == "!!int" {
			hint = "write it in decimal digits alone"
		}
		d.wrong(path, "want a whole number, got "+describe(n), hint)
		return 0, false
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		d.wrong(path, quote(n.Value)+" is out of range", "")
		return 0, false
	}
	return i, true
}

func (d *document) number(n *yaml.Node, path string) (float64, bool) {
	f, err := math.NaN(), error(nil)
	if n.Kind == yaml.ScalarNode && !strings.ContainsAny(n.Value, "xXpP_") {
		f, err = strconv.ParseFloat(n.Value, 64)
	}
	isNumber := err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	switch {
	case isNumber && (n.Tag == "!!int" || n.Tag == "!!float"):
		return f, true
	case isNumber && n.Tag == "!!str":
		d.wrong(path, "want a number, got "+describe(n), fmt.Sprintf("write %s, without quotes", n.Value))
	case errors.Is(err, strconv.ErrRange):
		d.wrong(path, quote(n.Value)+" is out of range", "")
	case n.Tag == "!!float":
		d.wrong(path, "want a finite number, got "+quote(n.Value), "")
	default:
		hint := ""
		if n.Tag == "!!int" {
			hint = "write it in decimal digits alone"
		}
		d.wrong(path, "want a number, got "+describe(n), hint)
	}
	return 0, false
}

// target is what an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe says what somebody wrote instead of what was wanted.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && n.Tag == "!!map":
		return "a map"
	case n.Kind == yaml.SequenceNode && n.Tag == "!!seq":
		return "a list"
	case n.Kind != yaml.ScalarNode || !strings.HasPrefix(n.Tag, "!!"):
		return "something tagged " + plain(n.Tag)
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!str":
		return "text " + quote(n.Value)
	case n.Tag == "!!timestamp":
		return "the date " + plain(n.Value)
	default:
		return plain(n.Value)
	}
}

// quote shows a text of the document, or its beginning.
func quote(s string) string { return strconv.Quote(shorten(s)) }

var unremarkable = regexp.MustCompile(`^[\pL\pN_./:+<-]+$`)

// plain shows a text without quotes where nothing in it could mislead.
func plain(s string) string {
	if s = shorten(s); unremarkable.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

func shorten(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

type fieldNames struct {
	all   []string
	index map[string]int
}

// jsonNames are the names by which a struct's fields are written.
func jsonNames(t reflect.Type) fieldNames {
	names := fieldNames{index: map[string]int{}}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names.all = append(names.all, name)
			names.index[name] = i
		}
	}
	return names
}
