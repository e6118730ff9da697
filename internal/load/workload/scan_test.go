package workload

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzMembers holds the walk against encoding/json.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, ` { "a" : 1 , "b":[1,{"c":"]}"}],"d":"\\\"" , "\u0065":null} `, `[1,-2.5e3 ,"x",[[]],{"a":{}} ]`, `["\\"]`, `[[1,2],"a\\\\\"b"]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := syntax(text); err != nil {
			return
		}
		raw := compact(text)
		for _, raw := range [][]byte{raw, text[space(text, 0):]} {
			switch raw[0] {
			case '{':
				var want map[string]json.RawMessage
				if err := json.Unmarshal(raw, &want); err != nil {
					t.Skip(err) // beyond encoding/json's depth
				}
				got := map[string]json.RawMessage{}
				for k, v := range members(raw) {
					got[unquote(k)] = v
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%q (-want +got):\n%s", raw, diff)
				}
			case '[':
				want := []json.RawMessage{}
				if err := json.Unmarshal(raw, &want); err != nil {
					t.Skip(err)
				}
				got := []json.RawMessage{}
				for _, v := range members(raw) {
					got = append(got, v)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%q (-want +got):\n%s", raw, diff)
				}
			}
		}
	})
}
