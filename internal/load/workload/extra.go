package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Extra are fields for every body, in order. One that has the name of a default
// replaces its value whole: an "nvext" given here carries no worker id unless
// it asks for it.
type Extra []Field

// A Field is a name and its value, as JSON.
type Field struct {
	Key   string
	Value json.RawMessage
}

// ParseExtra reads AIPerf's --extra-inputs: each argument a JSON object, or
// key:value, or several of those between commas. A value is JSON if it can be
// read as such, else a string; and as in AIPerf, True, None and .5 are the
// values that Python's readers expect. A key given again replaces the first.
func ParseExtra(args []string) (Extra, error) {
	var x Extra
	var errs []error
	for _, arg := range args {
		fields, err := parseExtra(strings.TrimSpace(arg))
		if err != nil {
			errs = append(errs, &FieldError{
				Field: "extra inputs", Problem: fmt.Sprintf("%q: %v", clip([]byte(arg)), err),
				Hint: `write key:value, as in temperature:0, or a JSON object`,
			})
			continue
		}
		for _, f := range fields {
			x = x.set(f.Key, f.Value)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return x, nil
}

func parseExtra(arg string) (Extra, error) {
	if strings.HasPrefix(arg, "{") {
		if _, err := syntax([]byte(arg)); err != nil {
			return nil, err
		}
		return object([]byte(arg))
	}
	if f, ok := pair(arg); ok && json.Valid([]byte(strings.TrimSpace(f[1]))) {
		return Extra{{Key: f[0], Value: compact([]byte(f[1]))}}, nil // commas and all: stop:["a","b"]
	}
	var x Extra
	parts := strings.Split(arg, ",")
	if slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(p, ":") }) {
		parts = []string{arg} // the comma is the value's own
	}
	for _, p := range parts {
		f, ok := pair(p)
		if !ok {
			return nil, errors.New("has no key and value")
		}
		x = append(x, Field{Key: f[0], Value: coerce(f[1])})
	}
	return x, nil
}

func pair(s string) ([2]string, bool) {
	k, v, ok := strings.Cut(s, ":")
	k = strings.TrimSpace(k)
	return [2]string{k, strings.TrimSpace(v)}, ok && k != ""
}

func coerce(v string) json.RawMessage {
	switch strings.ToLower(v) {
	case "true", "false", "null":
		return json.RawMessage(strings.ToLower(v))
	case "none":
		return json.RawMessage("null")
	}
	if json.Valid([]byte(v)) {
		return compact([]byte(v))
	}
	if strings.Count(v, ".") == 1 && strings.Trim(v, "-.0123456789") == "" {
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return json.RawMessage(strconv.FormatFloat(f, 'f', -1, 64))
		}
	}
	return quote(v)
}

// set replaces the value of key where it stands, or appends it.
func (x Extra) set(key string, value json.RawMessage) Extra {
	if i, ok := x.find(key); ok {
		x[i].Value = value
		return x
	}
	return append(x, Field{Key: key, Value: value})
}

func (x Extra) without(keys ...string) Extra {
	return slices.DeleteFunc(x, func(f Field) bool { return slices.Contains(keys, f.Key) })
}

// object reads a JSON object with the order of its fields, which a map would
// lose. raw has passed syntax; the values alias it.
func object(raw []byte) (Extra, error) {
	if raw[0] != '{' {
		return nil, errors.New("is not a JSON object")
	}
	var x Extra
	seen := make(map[string]bool)
	for k, v := range members(raw) {
		key := unquote(k)
		if seen[key] {
			return nil, fmt.Errorf("has %q twice", clip([]byte(key)))
		}
		seen[key] = true
		x = append(x, Field{Key: key, Value: v})
	}
	return x, nil
}

// compact drops the space between the tokens of valid JSON and keeps all else,
// numbers and escapes included.
func compact(raw []byte) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}

// quote writes a JSON string without the escapes that are for HTML only.
func quote(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil { // a string always encodes
		return json.RawMessage(`""`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
