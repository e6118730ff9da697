package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// ValueError says that a value of a document is none that JSON can carry. It says nothing of
// the disk that the document was to be written to.
type ValueError struct {
	Path  string // of the value, by the names of the document; "": not found
	Value float64
}

func (e *ValueError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("a value of %v cannot be written as JSON", e.Value)
	}
	return fmt.Sprintf("%s is %v, which cannot be written as JSON", e.Path, e.Value)
}

// notJSON names the value that a document could not be encoded for.
func notJSON(document any, err error) error {
	if _, ok := errors.AsType[*json.UnsupportedValueError](err); !ok {
		return err
	}
	if path, value, found := notFinite(reflect.ValueOf(document), 0); found {
		return &ValueError{strings.TrimPrefix(path, "."), value}
	}
	return &ValueError{Value: math.NaN()}
}

// deepest is how far a document is looked into.
const deepest = 32

// notFinite finds the first number of a document that is none.
func notFinite(v reflect.Value, depth int) (path string, value float64, found bool) {
	if depth > deepest {
		return "", 0, false
	}
	switch v.Kind() { //nolint:exhaustive // no other kind holds a float
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		return "", f, math.IsNaN(f) || math.IsInf(f, 0)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return notFinite(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if path, value, found = notFinite(v.Index(i), depth+1); found {
				return fmt.Sprintf("[%d]%s", i, path), value, true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if path, value, found = notFinite(v.MapIndex(key), depth+1); found {
				return fmt.Sprintf(".%v%s", key, path), value, true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if path, value, found = notFinite(v.Field(i), depth+1); found {
				return "." + nameOf(v.Type().Field(i)) + path, value, true
			}
		}
	}
	return "", 0, false
}

// nameOf is what a document calls a field.
func nameOf(f reflect.StructField) string {
	if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
		return name
	}
	return f.Name
}

// unwrittenHint is what to do about a record that could not be written.
func unwrittenHint(err error, flag string) string {
	if _, ok := errors.AsType[*ValueError](err); ok {
		return "report this as a defect of aicr, with the page that the value is from"
	}
	if flag == "" {
		return "free some space, or name another place"
	}
	return "free some space, or name another place with " + flag
}
