package kube

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// What is there is found, whether it was written here or came from the server; what is
// missing or of another shape is none, and breaks nothing.
func TestWhatIsInAnObject(t *testing.T) {
	written := Object{
		"kind":     "Pod",
		"metadata": Object{"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": map[string]string{"l": "1"}, "annotations": Object{"a": "2"}, "finalizers": []string{"f"}},
		"spec":     map[string]any{"replicas": 3, "on": true, "list": []Object{{"x": "1"}, {"x": "2"}}, "words": []any{"p", "q"}},
	}
	data, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	var read, plain Object
	if err := kjson.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &plain); err != nil { // whole numbers are floats here
		t.Fatal(err)
	}
	for name, o := range map[string]Object{"written": written, "read": read, "plain": plain} {
		t.Run(name, func(t *testing.T) {
			replicas, ok := o.Int("spec", "replicas")
			got := map[string]any{
				"name": o.Name(), "namespace": o.Namespace(), "uid": o.UID(), "version": o.ResourceVersion(), "labels": o.Labels(), "annotations": o.Annotations(),
				"finalizers": o.Finalizers(), "deleting": o.Deleting(), "replicas": replicas, "ok": ok, "on": o.Bool("spec", "on"),
				"x": o.List("spec", "list")[1].Text("x"), "words": o.Texts("spec", "words"), "spec": o.Map("spec").Bool("on"), "text": o.String(), "label": o.Text("metadata", "labels", "l"),
			}
			want := map[string]any{
				"name": "a", "namespace": "n", "uid": "u", "version": "7", "labels": map[string]string{"l": "1"}, "annotations": map[string]string{"a": "2"},
				"finalizers": []string{"f"}, "deleting": false, "replicas": int64(3), "ok": true, "on": true,
				"x": "2", "words": []string{"p", "q"}, "spec": true, "text": "Pod n/a", "label": "1",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !o.Has("spec", "list") || o.Has("spec", "none") || o.Has("none") {
				t.Error("what is there is not, or what is not is")
			}
			o.List("spec", "list")[1] = nil
			if o.List("spec", "list")[1].Text("x") != "2" {
				t.Error("a list is not a copy")
			}
			o.Labels()["l"] = "changed"
			if o.Labels()["l"] != "1" {
				t.Error("labels are not a copy")
			}
		})
	}
	if o := (Object{"metadata": Object{"name": "a", "deletionTimestamp": "2026-11-16T02:00:00Z"}}); !o.Deleting() {
		t.Error("one that is deleted is not told")
	}
}

func TestWhatIsOfAnotherShapeIsNotInAList(t *testing.T) {
	var o Object
	if err := json.Unmarshal([]byte(`{"metadata":{"labels":{"a":"1","b":2,"c":null}},"list":[null,{"x":"1"},"p",7,[],"q"],"word":"w"}`), &o); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{"labels": o.Labels(), "objects": o.List("list"), "words": o.Texts("list"), "below a word": o.Text("word", "a", "b"), "below nothing": o.Has("none", "a", "b"), "no list": o.List("word")}
	want := map[string]any{"labels": map[string]string{"a": "1"}, "objects": []Object{{"x": "1"}}, "words": []string{"p", "q"}, "below a word": "", "below nothing": false, "no list": []Object(nil)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWholeNumbers(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  int64
		ok    bool
	}{
		{int64(5), 5, true}, {5, 5, true}, {int32(5), 5, true}, {5.0, 5, true}, {json.Number("5"), 5, true}, {-5.0, -5, true},
		{5.5, 0, false}, {"5", 0, false}, {nil, 0, false}, {true, 0, false}, {1e19, 0, false}, {-1e19, 0, false}, {9223372036854775808.0, 0, false}, {json.Number("5.5"), 0, false}, {Object{}, 0, false},
	} {
		if got, ok := (Object{"a": tt.value}).Int("a"); got != tt.want || ok != tt.ok {
			t.Errorf("%T %v is %d %v, want %d %v", tt.value, tt.value, got, ok, tt.want, tt.ok)
		}
	}
	if _, ok := (Object{}).Int("a"); ok {
		t.Error("a number is where nothing is")
	}
}

// FuzzObject asks for everything at every path of what may be any JSON at all.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"metadata":1}`, `{"metadata":{"labels":[1],"name":{}}}`, `{"metadata":{"labels":{"a":1}},"a":[null,{"b":[[]]},1]}`, `{"a":1e400}`, `{"a":{"b":null}}`, `[]`, `null`} {
		f.Add(seed, "a", "b")
	}
	f.Fuzz(func(t *testing.T, text, first, second string) {
		var o Object
		if kjson.Unmarshal([]byte(text), &o) != nil {
			return
		}
		_, _, _, _, _, _, _ = o.Name(), o.Namespace(), o.UID(), o.Labels(), o.Annotations(), o.Finalizers(), o.Deleting()
		_ = o.String()
		for _, path := range [][]string{nil, {}, {first}, {first, second}, {"metadata", first}, {first, second, first}} {
			n, ok := o.Int(path...)
			if !ok && n != 0 {
				t.Errorf("%d is no number, and not 0", n)
			}
			if o.Text(path...) != "" && !o.Has(path...) {
				t.Error("words where nothing is")
			}
			_, _, _ = o.Bool(path...), o.Texts(path...), o.Map(path...).Name()
			for _, one := range o.List(path...) {
				if one == nil {
					t.Error("nothing in a list of objects")
				}
				_ = one.Name()
			}
		}
	})
}
