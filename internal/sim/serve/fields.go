package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// fields are the members of a JSON object of a request.
type fields struct {
	members map[string]json.RawMessage
	*mistakes
}

// mistakes is what is wrong with a request: the first of each sort. Dynamo
// decodes all of it, then looks at the names, then at the values, and says what
// it found first.
type mistakes struct {
	end         string // where the body ends, as serde says it
	undecodable string
	unsupported string
	bad         string
}

// open takes a body apart.
func open(body []byte) (fields, *refusal) {
	f := fields{mistakes: &mistakes{end: position(body, len(bytes.TrimRight(body, " \t\r\n")))}}
	err := json.Unmarshal(body, &f.members)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(body)):
		f.fail("EOF while parsing a value at " + f.end)
	case errors.As(err, &syntax):
		f.fail(err.Error() + " at " + position(body, int(syntax.Offset)))
	case errors.As(err, &kind):
		f.fail("invalid type: " + kind.Value + ", expected a completion request at " + f.end)
	case err != nil:
		f.fail(err.Error())
	case f.members == nil:
		f.fail("invalid type: null, expected a completion request at " + f.end)
	}
	return f, f.verdict()
}

// within are the members of an object inside.
func (f fields) within(members map[string]json.RawMessage) fields {
	return fields{members: members, mistakes: f.mistakes}
}

// need reports whether a field is there, and notes it when it is not.
func (f fields) need(name string) bool {
	_, there := f.members[name]
	if !there {
		f.fail("missing field `" + name + "` at " + f.end)
	}
	return there
}

// read decodes a field into to, and reports whether there was a value.
func read[T any](f fields, name, expected string, to *T) bool {
	raw, said := f.members[name]
	if !said || isNull(raw) {
		return false
	}
	if err := json.Unmarshal(raw, to); err != nil {
		f.mistyped(raw, expected)
		return false
	}
	return true
}

// checkNames notes the fields that the endpoint does not know.
func (f fields) checkNames(e endpoint) {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		if !slices.Contains(parameters, name) && !slices.Contains(ownParameters[e], name) {
			unknown = append(unknown, "`"+cut(name)+"`")
		}
	}
	if len(unknown) > 0 {
		f.unsupported = "Unsupported parameter(s): " + strings.Join(unknown, ", ")
	}
}

// between notes a number that is out of its range.
func (f fields) between(name, says string, low, high float32) {
	var x float32
	if read(f, name, "f32", &x) && (x < low || x > high) {
		f.invalid(fmt.Sprintf("%s must be between %v and %v, got %s", says, low, high, strconv.FormatFloat(float64(x), 'f', -1, 32)))
	}
}

func (f *mistakes) fail(reason string) {
	if f.undecodable == "" {
		f.undecodable = "Failed to deserialize the JSON body into the target type: " + reason
	}
}

func (f *mistakes) mistyped(raw json.RawMessage, expected string) {
	f.fail("invalid type: " + kindOf(raw) + ", expected " + expected + " at " + f.end)
}

func (f *mistakes) invalid(reason string) {
	if f.bad == "" {
		f.bad = reason
	}
}

// verdict is the refusal of a request with faults.
func (f *mistakes) verdict() *refusal {
	switch {
	case f.undecodable != "":
		return &refusal{http.StatusBadRequest, f.undecodable}
	case f.unsupported != "":
		return &refusal{http.StatusBadRequest, "Validation: " + f.unsupported}
	case f.bad != "":
		return &refusal{http.StatusBadRequest, "Validation: " + f.bad}
	default:
		return nil
	}
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// kindOf says what a JSON value is.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "string " + cut(string(raw))
	case '[':
		return "sequence"
	case '{':
		return "map"
	case 't', 'f':
		return "boolean `" + string(raw) + "`"
	case 'n':
		return "null"
	default:
		return "number `" + cut(string(raw)) + "`"
	}
}

// echoed is how many characters of what was written are told to who wrote it.
const echoed = 64

// cut is the beginning of s, for an answer that must not grow with its request.
func cut(s string) string {
	n := 0
	for i := range s {
		if n == echoed {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// position says where the first n bytes of body end.
func position(body []byte, n int) string {
	before := body[:min(n, len(body))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return "line " + strconv.Itoa(line) + " column " + strconv.Itoa(column)
}
