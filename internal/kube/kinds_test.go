package kube

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube/kubetest"
)

// All kinds in namespaces are found, each once and in the version that the server prefers; a
// part of the API that does not answer is told, and not waited for.
func TestNamespacedKindsAreThoseThatCanBeListed(t *testing.T) {
	s := kubetest.Start(t, "")
	list := func(version, resources string) string {
		return `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"` + version + `","resources":[` + resources + `]}`
	}
	one := func(name, kind, verbs string, namespaced string) string {
		return `{"name":"` + name + `","kind":"` + kind + `","namespaced":` + namespaced + `,"verbs":[` + verbs + `]}`
	}
	s.Answer("/apis", http.StatusOK, `{"kind":"APIGroupList","apiVersion":"v1","groups":[
		{"name":"example.com","versions":[{"groupVersion":"example.com/v2","version":"v2"},{"groupVersion":"example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}},
		{"name":"metrics.k8s.io","versions":[{"groupVersion":"metrics.k8s.io/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"metrics.k8s.io/v1beta1","version":"v1beta1"}}]}`)
	s.Answer("/api/v1", http.StatusOK, list("v1", one("secrets", "Secret", `"get","list"`, "true")+","+one("secrets/status", "Secret", `"get","list"`, "true")+","+
		one("nodes", "Node", `"list"`, "false")+","+one("bindings", "Binding", `"create"`, "true")))
	s.Answer("/apis/example.com/v1", http.StatusOK, list("example.com/v1", one("widgets", "Widget", `"list"`, "true")))
	s.Answer("/apis/example.com/v2", http.StatusOK, list("example.com/v2", one("widgets", "Widget", `"list"`, "true")+","+one("gadgets", "Gadget", `"list"`, "true")))
	s.Answer("/apis/metrics.k8s.io/v1beta1", http.StatusServiceUnavailable, "")
	c := connect(t, s)
	kinds, unread, err := c.NamespacedKinds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Kind{{Resource{"", "v1", "secrets"}, "Secret"}, {Resource{"example.com", "v1", "widgets"}, "Widget"}, {Resource{"example.com", "v2", "gadgets"}, "Gadget"}}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	if len(unread) != 1 || !strings.Contains(unread[0].Error(), "asking which kinds metrics.k8s.io/v1beta1 has: ") {
		t.Error(unread)
	}
	s.Answer("/api/v1", http.StatusNotFound, "")
	if _, unread, err := c.NamespacedKinds(t.Context()); err != nil || len(unread) != 2 {
		t.Errorf("a server without its own kinds: %v, %v", unread, err)
	}
	s.Answer("/apis", http.StatusForbidden, "")
	if _, _, err := c.NamespacedKinds(t.Context()); !IsForbidden(err) {
		t.Error(err)
	}
}

// A list of metadata asks for nothing else, and gives nothing else, whatever the server sends.
func TestAListOfMetadataHasNoContent(t *testing.T) {
	s := kubetest.Start(t, "")
	s.Answer("/api/v1/namespaces/mine/secrets", http.StatusOK,
		`{"kind":"SecretList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"mine","uid":"u"},"data":{"token":"c2VjcmV0"}}]}`)
	all, err := connect(t, s).ListMetadata(t.Context(), Kind{Resource{"", "v1", "secrets"}, "Secret"}, "mine")
	if err != nil || len(all) != 1 || all[0].Has("data") || all[0].Name() != "a" || all[0].Text("kind") != "Secret" {
		t.Errorf("%v %v", all, err)
	}
	if asked := s.Accepted("/api/v1/namespaces/mine/secrets"); !strings.Contains(asked, "as=PartialObjectMetadataList") {
		t.Errorf("asked for %q", asked)
	}
}
