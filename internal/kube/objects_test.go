package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is sent is what was meant: the method, the way, the conditions.
func TestWhatIsSent(t *testing.T) {
	job := Object{"apiVersion": "batch/v1", "kind": "Job", "metadata": Object{"name": "b", "namespace": "a"}}
	jobs, nodes := Resource{"batch", "v1", "jobs"}, Resource{"", "v1", "nodes"}
	del := func(o DeleteOptions) func(*Cluster) error {
		return func(c *Cluster) error { return c.Delete(t.Context(), configMaps, "a", "b", o) }
	}
	for _, tt := range []struct {
		name string
		call func(*Cluster) error
		want string
	}{
		{"create", func(c *Cluster) error { _, err := c.Create(t.Context(), jobs, job); return err },
			`POST /apis/batch/v1/namespaces/a/jobs?fieldManager=aicr application/json {"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"b","namespace":"a"}}`},
		{"create without a namespace", func(c *Cluster) error {
			_, err := c.Create(t.Context(), nodes, Object{"metadata": Object{"name": "b"}})
			return err
		},
			`POST /api/v1/nodes?fieldManager=aicr application/json {"metadata":{"name":"b"}}`},
		{"apply", func(c *Cluster) error { _, err := c.Apply(t.Context(), jobs, job); return err },
			`PATCH /apis/batch/v1/namespaces/a/jobs/b?fieldManager=aicr&force=true application/apply-patch+yaml {"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"b","namespace":"a"}}`},
		{"patch", func(c *Cluster) error {
			_, err := c.Patch(t.Context(), nodes, "", "b", Object{"metadata": Object{"annotations": Object{"x": nil}}})
			return err
		},
			`PATCH /api/v1/nodes/b?fieldManager=aicr application/merge-patch+json {"metadata":{"annotations":{"x":null}}}`},
		{"read", func(c *Cluster) error { _, err := c.Read(t.Context(), configMaps, "a", "b"); return err }, "GET /api/v1/namespaces/a/configmaps/b  "},
		{"list", func(c *Cluster) error { _, err := c.List(t.Context(), configMaps, "", "x=y,z"); return err }, "GET /api/v1/configmaps?labelSelector=x%3Dy%2Cz&limit=500  "},
		{"delete", del(DeleteOptions{}), `DELETE /api/v1/namespaces/a/configmaps/b application/json {"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`},
		{"delete that one", del(DeleteOptions{UID: "u", ResourceVersion: "7", Foreground: true}),
			`DELETE /api/v1/namespaces/a/configmaps/b application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"7","uid":"u"},"propagationPolicy":"Foreground"}`},
		{"delete at once", del(DeleteOptions{Grace: -1}), `DELETE /api/v1/namespaces/a/configmaps/b application/json {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","propagationPolicy":"Background"}`},
		{"delete in a second and a half", del(DeleteOptions{Grace: 1500 * time.Millisecond}), `DELETE /api/v1/namespaces/a/configmaps/b application/json {"apiVersion":"v1","gracePeriodSeconds":2,"kind":"DeleteOptions","propagationPolicy":"Background"}`},

		// Without a name it would be all of them.
		{"delete without a name", func(c *Cluster) error { return c.Delete(t.Context(), configMaps, "a", "", DeleteOptions{}) }, "deleting configmaps in a: it has no name, or its kind has none"},
		{"read without a name", func(c *Cluster) error { _, err := c.Read(t.Context(), configMaps, "a", ""); return err }, "reading configmaps in a: it has no name, or its kind has none"},
		{"create without a name", func(c *Cluster) error { _, err := c.Create(t.Context(), configMaps, Object{}); return err }, "creating configmaps: it has no name, or its kind has none"},
		{"a name that is a way", func(c *Cluster) error { return c.Delete(t.Context(), configMaps, "a", "../secrets/b", DeleteOptions{}) }, `deleting configmaps a/../secrets/b: "../secrets/b" is no name: it may not contain '/'`},
		{"a namespace that is a way", func(c *Cluster) error { return c.Delete(t.Context(), configMaps, "..", "b", DeleteOptions{}) }, `deleting configmaps ../b: ".." is no name: it may not be '..'`},
		{"no kind", func(c *Cluster) error { _, err := c.List(t.Context(), Resource{}, "", ""); return err }, "listing : it has no name, or its kind has none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent := ""
			c := asking(t, func(r *http.Request) (*http.Response, error) {
				var body []byte
				if r.Body != nil {
					body, _ = io.ReadAll(r.Body)
				}
				sent = fmt.Sprintf("%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body)
				return answers(200, Object{"items": []any{}}), nil
			})
			if err := tt.call(c); err != nil {
				if sent != "" {
					t.Errorf("%s was sent", sent)
				}
				sent = err.Error()
			}
			if sent != tt.want {
				t.Errorf("got  %s\nwant %s", sent, tt.want)
			}
		})
	}
}

// A list is whole or an error.
func TestAListIsWhole(t *testing.T) {
	item := func(name string) Object { return Object{"metadata": Object{"name": name}} }
	page := func(next string, items ...Object) *http.Response {
		return answers(200, Object{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": Object{"continue": next}, "items": append([]Object{}, items...)})
	}
	expired := func() *http.Response { return refusal(410, "Expired", "The provided continue parameter is too old") }
	for _, tt := range []struct {
		name string
		page func(call int, from string) (*http.Response, error)
		want string // names, or the error
	}{
		{"none", func(int, string) (*http.Response, error) { return page(""), nil }, ""},
		{"two pages", func(_ int, from string) (*http.Response, error) {
			if from == "" {
				return page("2", item("a"), item("b")), nil
			}
			return page("", item("c")), nil
		}, "ConfigMap a, ConfigMap b, ConfigMap c"},
		{"forgotten half-way", func(call int, from string) (*http.Response, error) {
			switch {
			case call == 2:
				return expired(), nil
			case from == "":
				return page("2", item("a")), nil
			}
			return page("", item("c")), nil
		}, "ConfigMap a, ConfigMap c"},
		{"forgotten for ever", func(_ int, from string) (*http.Response, error) {
			if from == "" {
				return page("2", item("a")), nil
			}
			return expired(), nil
		}, "listing configmaps in a: The provided continue parameter is too old"},
		{"away half-way", func(call int, from string) (*http.Response, error) {
			switch {
			case call == 2:
				return nil, io.EOF
			case from == "":
				return page("2", item("a")), nil
			}
			return page("", item("c")), nil
		}, "ConfigMap a, ConfigMap c"},
		{"refused half-way", func(_ int, from string) (*http.Response, error) {
			if from == "" {
				return page("2", item("a")), nil
			}
			return refusal(403, "Forbidden", "no more"), nil
		}, "listing configmaps in a: no more"},
		{"the same page again", func(int, string) (*http.Response, error) { return page("2", item("a")), nil }, "listing configmaps in a: the server gives the same page again and again"},
		{"no list", func(int, string) (*http.Response, error) { return answers(200, item("a")), nil }, "listing configmaps in a: the answer is no list"},
		{"an item that is none", func(int, string) (*http.Response, error) { return answers(200, `{"items":[null]}`), nil }, "listing configmaps in a: an item is no object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := 0
				c := asking(t, func(r *http.Request) (*http.Response, error) {
					call++
					return tt.page(call, r.URL.Query().Get("continue"))
				})
				all, err := c.List(t.Context(), configMaps, "a", "")
				var names []string
				for _, o := range all {
					names = append(names, o.String())
				}
				got := strings.Join(names, ", ")
				if err != nil {
					got += err.Error()
				}
				if got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// What kind of error it is can be asked, however often it was wrapped.
func TestKindsOfErrors(t *testing.T) {
	type kinds struct{ NotFound, Forbidden, Unauthorized, Conflict, Exists, Gone, TooLarge, Invalid bool }
	for _, tt := range []struct {
		name   string
		answer *http.Response
		want   kinds
	}{
		{"404", refusal(404, "NotFound", ""), kinds{NotFound: true}},
		{"403", refusal(403, "Forbidden", ""), kinds{Forbidden: true}},
		{"401", refusal(401, "Unauthorized", ""), kinds{Unauthorized: true}},
		{"409", refusal(409, "Conflict", ""), kinds{Conflict: true}},
		{"409, there", refusal(409, "AlreadyExists", ""), kinds{Exists: true}},
		{"a namespace that goes", refusal(403, "Forbidden", "", Object{"reason": "NamespaceTerminating"}), kinds{Gone: true}},
		{"413", refusal(413, "RequestEntityTooLarge", ""), kinds{TooLarge: true}},
		{"422, too long", refusal(422, "Invalid", "", Object{"reason": "FieldValueTooLong"}), kinds{TooLarge: true, Invalid: true}},
		{"422", refusal(422, "Invalid", "request is too large", Object{"reason": "FieldValueInvalid"}), kinds{Invalid: true}},
		{"400", refusal(400, "BadRequest", ""), kinds{Invalid: true}},
		{"etcd", refusal(500, "InternalError", "etcdserver: request is too large"), kinds{TooLarge: true}},
		{"gRPC", refusal(500, "InternalError", "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)"), kinds{TooLarge: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := asking(t, func(*http.Request) (*http.Response, error) { return tt.answer, nil })
			_, err := c.Read(t.Context(), configMaps, "a", "b")
			err = fmt.Errorf("once more: %w", err)
			got := kinds{IsNotFound(err), IsForbidden(err), IsUnauthorized(err), IsConflict(err), IsExists(err), IsGone(err), IsTooLarge(err), IsInvalid(err)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if err := errors.New("other"); IsNotFound(err) || IsGone(err) || IsTooLarge(err) || IsAway(err) || IsTooLarge(nil) {
		t.Error("any error is one of them")
	}
}

// Neither what gives access nor what was to be kept secret is in an error.
func TestNothingSecretIsInAnError(t *testing.T) {
	secret := Object{"apiVersion": "v1", "kind": "Secret", "metadata": Object{"name": "b", "namespace": "a"}, "stringData": map[string]string{"token": "hf_hidden"}, "data": Object{"other": "aGlkZGVu"}}
	body, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	c := asking(t, func(r *http.Request) (*http.Response, error) {
		return refusal(422, "Invalid", "not "+r.Header.Get("Authorization")+" and "+string(body)), nil
	})
	for name, call := range map[string]func() error{
		"create": func() error { _, err := c.Create(t.Context(), Resource{"", "v1", "secrets"}, secret); return err },
		"apply":  func() error { _, err := c.Apply(t.Context(), Resource{"", "v1", "secrets"}, secret); return err },
		"patch": func() error {
			_, err := c.Patch(t.Context(), Resource{"", "v1", "secrets"}, "a", "b", secret)
			return err
		},
	} {
		err := call()
		if !IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
		for _, hidden := range []string{"hf_hidden", "aGlkZGVu", "bearer-secret-1"} {
			if strings.Contains(err.Error(), hidden) {
				t.Errorf("%s tells %s: %v", name, hidden, err)
			}
		}
	}
}

// Only what the server itself says is not there is not there.
func TestWhatIsServed(t *testing.T) {
	group := func() *http.Response {
		return answers(200, Object{"kind": "APIGroup", "versions": []Object{{"version": "v1beta1"}, {"version": "v1alpha1"}}})
	}
	list := func(names ...string) *http.Response {
		resources := []Object{}
		for _, n := range names {
			resources = append(resources, Object{"name": n})
		}
		return answers(200, Object{"kind": "APIResourceList", "resources": resources})
	}
	for _, tt := range []struct {
		name    string
		answers map[string]*http.Response
		want    string
	}{
		{"both", map[string]*http.Response{"/apis/nvidia.com": group(), "/apis/nvidia.com/v1beta1": list("things", "things/status"), "/apis/nvidia.com/v1alpha1": list("things")}, "v1beta1, 2"},
		{"the older", map[string]*http.Response{"/apis/nvidia.com": group(), "/apis/nvidia.com/v1beta1": list("others"), "/apis/nvidia.com/v1alpha1": list("things")}, "v1alpha1, 2"},
		{"no group", map[string]*http.Response{"/apis/nvidia.com": refusal(404, "NotFound", "")}, ", 0"},
		{"one has just gone", map[string]*http.Response{"/apis/nvidia.com": group(), "/apis/nvidia.com/v1beta1": refusal(404, "NotFound", ""), "/apis/nvidia.com/v1alpha1": list("things")}, "v1alpha1, 1"},
		{"forbidden", map[string]*http.Response{"/apis/nvidia.com": refusal(403, "Forbidden", "may not")}, "asking what nvidia.com is served in: may not"},
		{"unauthorized", map[string]*http.Response{"/apis/nvidia.com": refusal(401, "Unauthorized", "who")}, "asking what nvidia.com is served in: who"},
		{"half forbidden", map[string]*http.Response{"/apis/nvidia.com": group(), "/apis/nvidia.com/v1beta1": list("things"), "/apis/nvidia.com/v1alpha1": refusal(403, "Forbidden", "may not")}, "asking what nvidia.com/v1alpha1 has: may not"},
		{"no versions", map[string]*http.Response{"/apis/nvidia.com": answers(200, Object{})}, "asking what nvidia.com is served in: the answer has no version"},
		{"no list", map[string]*http.Response{"/apis/nvidia.com": group(), "/apis/nvidia.com/v1beta1": answers(200, Object{})}, "asking what nvidia.com/v1beta1 has: the answer is no list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := asking(t, func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/api/v1" {
					return list("pods", "pods/log"), nil
				}
				return tt.answers[r.URL.Path], nil
			})
			s, err := c.Served(t.Context(), "", "nvidia.com")
			got := fmt.Sprintf("%s, %d", s.Version("nvidia.com", "things", "v1beta1", "v1alpha1"), len(s)-1)
			if err != nil {
				got = err.Error()
			} else if s.Version("", "pods", "v1") != "v1" {
				t.Error("no pods")
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := asking(t, func(*http.Request) (*http.Response, error) { return refusal(503, "ServiceUnavailable", "down"), nil })
		if _, err := c.Served(t.Context(), "nvidia.com"); !IsAway(err) {
			t.Errorf("a server that is down serves nothing: %v", err)
		}
	})
}

// All rights that are missing are told at once; a server that does not say is an error.
func TestRightsThatAreMissing(t *testing.T) {
	rights := []Right{
		{Verb: "list", Resource: "nodes"},
		{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: "aicr-validation"},
		{Verb: "create", Group: "nvidia.com", Resource: "dynamographdeployments", Namespace: "n"},
		{Verb: "get", Resource: "nodes", Subresource: "stats", Name: "gpu-0"},
	}
	for len(rights) < 12 {
		rights = append(rights, Right{Verb: "watch", Resource: fmt.Sprint("r", len(rights))})
	}
	var say func(Object) *http.Response
	c := asking(t, func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPost || r.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
			return nil, fmt.Errorf("%s %s", r.Method, r.URL.Path)
		}
		var review Object
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return nil, err
		}
		return say(review.Map("spec", "resourceAttributes")), nil
	})
	said := func(yes bool) *http.Response { return answers(201, Object{"status": Object{"allowed": yes}}) }

	say = func(o Object) *http.Response {
		return said(o.Text("verb") != "create" && o.Text("subresource") == "" || o.Text("subresource") == "stats" && o.Text("name") == "gpu-0" && o.Text("group") == "")
	}
	missing, err := c.Allowed(t.Context(), rights)
	if diff := cmp.Diff(rights[1:3], missing); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	var words []string
	for _, r := range rights[:4] {
		words = append(words, r.String())
	}
	if got, want := strings.Join(words, "; "), "list nodes; create pods/exec in aicr-validation; create dynamographdeployments.nvidia.com in n; get nodes/stats gpu-0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	say = func(Object) *http.Response { return said(true) }
	if missing, err := c.Allowed(t.Context(), rights); err != nil || missing != nil {
		t.Error(missing, err)
	}
	for name, answer := range map[string]func() *http.Response{
		"no status":     func() *http.Response { return answers(201, Object{}) },
		"not served":    func() *http.Response { return refusal(404, "NotFound", "none") },
		"may not ask":   func() *http.Response { return refusal(403, "Forbidden", "none") },
		"no such thing": func() *http.Response { return answers(200, "true") },
	} {
		say = func(o Object) *http.Response {
			if o.Text("subresource") == "exec" {
				return answer()
			}
			return said(true)
		}
		if missing, err := c.Allowed(t.Context(), rights); err == nil || !strings.HasPrefix(err.Error(), "asking whether one may create pods/exec in aicr-validation: ") || missing != nil {
			t.Errorf("%s: %v %v", name, missing, err)
		}
	}
}
