package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// decodeJSON reads one JSON document that begins at a line of its file into v, and
// notes what is wrong with it: no JSON, a field that is unknown, written twice,
// not there, or of another kind.
func decodeJSON(data []byte, line int, v any) *document {
	d := emptyDocument()
	d.root.Line = line
	w := &jsonWalk{d: d, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: line}
	w.dec.UseNumber() // whether it fits is told by what it must fit
	err := json.Unmarshal(data, v)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		d.note("", w.position(int(syntax.Offset)), "not JSON: "+syntax.Error(), "")
		d.full = true
		return d
	}
	w.value(reflect.TypeOf(v).Elem(), "")
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at := (&jsonWalk{data: data, line: line}).position(int(kind.Offset))
		d.note(kind.Field, at, "want "+kindName(kind.Type)+", got "+got(kind.Value), "")
	} else if err != nil {
		d.wrong("", err.Error(), "")
	}
	d.complete("", reflect.TypeOf(v).Elem())
	return d
}

// got says what was there instead, given what encoding/json calls it.
func got(value string) string {
	switch kind, text, _ := strings.Cut(value, " "); {
	case text != "":
		return shorten(text)
	case kind == "string":
		return "text"
	case kind == "bool":
		return "true or false"
	case kind == "object":
		return "a map"
	case kind == "array":
		return "a list"
	default:
		return "a " + kind
	}
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct, reflect.Map:
		return "a map of fields"
	case reflect.Slice:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

// jsonWalk goes through a document that is JSON, and notes where its values are
// and which of them do not belong there.
type jsonWalk struct {
	d    *document
	data []byte
	dec  *json.Decoder

	line       int // of upto
	upto, from int // from: where its line begins
}

// position is the place of an offset. Offsets are asked for in their order.
func (w *jsonWalk) position(offset int) position {
	offset = min(offset, len(w.data))
	for ; w.upto < offset; w.upto++ {
		if w.data[w.upto] == '\n' {
			w.line, w.from = w.line+1, w.upto+1
		}
	}
	return position{w.line, offset - w.from + 1}
}

// next is where the next token begins.
func (w *jsonWalk) next() position {
	at := int(w.dec.InputOffset())
	for at < len(w.data) && strings.IndexByte(" \t\r\n,:", w.data[at]) >= 0 {
		at++
	}
	return w.position(at)
}

func (w *jsonWalk) value(t reflect.Type, path string) {
	if w.d.full {
		return
	}
	if path != "" {
		w.d.written[path] = w.next()
	}
	token, err := w.dec.Token()
	if err != nil {
		w.d.wrong(path, err.Error(), "")
		w.d.full = true
		return
	}
	optional := t.Kind() == reflect.Pointer
	if optional {
		t = t.Elem()
	}
	switch {
	case token == json.Delim('{'):
		w.members(t, path)
	case token == json.Delim('['):
		inside := reflect.TypeFor[any]()
		if t.Kind() == reflect.Slice {
			inside = t.Elem()
		}
		for i := 0; w.dec.More() && !w.d.full; i++ {
			w.value(inside, element(path, i))
		}
		_, _ = w.dec.Token() // the bracket; that it is there was seen before
	case token == nil && !optional && t.Kind() != reflect.Slice && t.Kind() != reflect.Map && t.Kind() != reflect.Interface:
		w.d.wrong(path, "no value", "")
	}
}

func (w *jsonWalk) members(t reflect.Type, path string) {
	known := fieldNames{}
	if t.Kind() == reflect.Struct {
		known = jsonNames(t)
	}
	seen := map[string]bool{}
	for w.dec.More() && !w.d.full {
		at := w.next()
		key, err := w.dec.Token()
		name, ok := key.(string)
		if err != nil || !ok {
			break
		}
		inside := reflect.TypeFor[any]()
		switch i, is := known.index[name]; {
		case is:
			inside = t.Field(i).Type
		case t.Kind() == reflect.Map:
			inside = t.Elem()
		case t.Kind() == reflect.Struct:
			if near, ok := Nearest(name, known.all); ok {
				w.d.misnamed[join(path, near)] = true
			}
			w.d.note(join(path, plain(name)), at, "unknown field", meant(name, known.all, "the fields here are"))
		}
		if seen[name] {
			w.d.note(join(path, plain(name)), at, "written twice", "")
		}
		seen[name] = true
		w.value(inside, join(path, plain(name)))
	}
	_, _ = w.dec.Token() // the bracket
}
