package operator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// graphsOf are the graphs that aicr writes, and those of testdata, by their files.
func graphsOf(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, pattern := range []string{"../../internal/checks/graph/testdata/objects/*.yaml", "testdata/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range documents(t, text) {
				if u := (&unstructured.Unstructured{Object: o}); u.GetKind() == "DynamoGraphDeployment" {
					all[filepath.Base(file)] = u
				}
			}
		}
	}
	return all
}

func converted(t *testing.T, u *unstructured.Unstructured, to string) *unstructured.Unstructured {
	t.Helper()
	next := u.DeepCopy()
	if err := convert(next, "nvidia.com/"+to); err != nil {
		t.Fatal(err)
	}
	return next
}

// A graph that is stored in the older version is the one that was written: its definition takes
// it whole, its pods are the same, and it is read as it was written.
func TestConversionLosesNothing(t *testing.T) {
	all := takers(t)
	for file, written := range graphsOf(t) {
		t.Run(file, func(t *testing.T) {
			other := map[string]string{"nvidia.com/" + alpha: beta, "nvidia.com/" + beta: alpha}[written.GetAPIVersion()]
			there := converted(t, written, other)
			if there.GetAPIVersion() != "nvidia.com/"+other {
				t.Fatalf("it is of %s", there.GetAPIVersion())
			}
			back := converted(t, there, strings.TrimPrefix(written.GetAPIVersion(), "nvidia.com/"))
			if diff := cmp.Diff(written.Object["spec"], back.Object["spec"]); diff != "" {
				t.Errorf("there and back it is another (- written, + read):\n%s", diff)
			}
			if !cmp.Equal(written.GetAnnotations(), back.GetAnnotations()) && len(written.GetAnnotations())+len(back.GetAnnotations()) > 0 {
				t.Errorf("annotations %v, were %v", back.GetAnnotations(), written.GetAnnotations())
			}
			if !slices.Equal(podsOf(t, written), podsOf(t, there)) {
				t.Errorf("its pods are\n%s\nwere\n%s", podsOf(t, there), podsOf(t, written))
			}
			if dropped, refused := all["nvidia.com/"+other+" DynamoGraphDeployment"].take(t.Context(), there.Object); len(dropped)+len(refused) > 0 {
				t.Errorf("dropped %q, refused %q", dropped, refused)
			}
		})
	}
}

// podsOf are the pod templates of a graph, as text.
func podsOf(t *testing.T, u *unstructured.Unstructured) (all []string) {
	t.Helper()
	g, err := readGraph(u)
	if err != nil {
		t.Fatal(err)
	}
	made, _ := deployments(t, g, false)
	for _, d := range made {
		text, err := json.Marshal(d.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	slices.Sort(all)
	return all
}

// What was changed in one version since is seen in the other.
func TestAChangeIsConverted(t *testing.T) {
	for file, u := range graphsOf(t) {
		if u.GetAPIVersion() != "nvidia.com/"+beta {
			continue
		}
		stored := converted(t, u, alpha)
		services := stored.Object["spec"].(map[string]any)["services"].(map[string]any)
		for _, s := range services {
			s.(map[string]any)["replicas"] = int64(7)
		}
		read := converted(t, stored, beta)
		for _, c := range read.Object["spec"].(map[string]any)["components"].([]any) {
			if got := c.(map[string]any)["replicas"]; got != int64(7) {
				t.Errorf("%s: %v replicas", file, got)
			}
		}
	}
}

func TestAStatusIsConverted(t *testing.T) {
	part := func(more string) string {
		return `{"w":{"componentKind":"Deployment","componentNames":["a","b"],"readyReplicas":1` + more + `}}`
	}
	newer := `{"state":"pending","components":` + part("") + `}`
	older := `{"state":"pending","services":` + part(`,"componentName":"b"`) + `}`
	for to, c := range map[string][2]string{alpha: {newer, older}, beta: {older, newer}} {
		var status, want map[string]any
		if err := json.Unmarshal([]byte(c[0]), &status); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c[1]), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, convertStatus(status, "nvidia.com/"+to)); diff != "" {
			t.Errorf("to %s:\n%s", to, diff)
		}
	}
}

// The answer to an API server is one that it takes: each object, by its UID and in its order; or
// why not.
func TestAReviewIsAnswered(t *testing.T) {
	ask := func(objects ...string) *apiextensions.ConversionResponse {
		review := apiextensions.ConversionReview{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"},
			Request: &apiextensions.ConversionRequest{UID: "asked", DesiredAPIVersion: "nvidia.com/" + beta}}
		for _, o := range objects {
			review.Request.Objects = append(review.Request.Objects, runtime.RawExtension{Raw: []byte(o)})
		}
		body, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		convertReview(w, httptest.NewRequest(http.MethodPost, "/convert", bytes.NewReader(body)))
		var answer apiextensions.ConversionReview
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Kind != "ConversionReview" || answer.Response == nil || answer.Response.UID != "asked" {
			t.Fatalf("%s: %v", w.Body, err)
		}
		return answer.Response
	}
	graph := func(name, service string) string {
		return `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"` + name + `"},"spec":{"services":{"W":` + service + `}}}`
	}
	const well = `{"componentType":"worker","extraPodSpec":{"mainContainer":{"image":"r"}}}`
	r := ask(graph("a", well), graph("b", well), `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoComponentDeployment","metadata":{"name":"c"},"spec":{"any":1}}`)
	var names []string
	for _, o := range r.ConvertedObjects {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(o.Raw); err != nil || u.GetAPIVersion() != "nvidia.com/"+beta {
			t.Errorf("%s: %v", o.Raw, err)
		}
		names = append(names, u.GetName())
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) || r.Result.Status != metav1.StatusSuccess {
		t.Errorf("%q: %+v", names, r.Result)
	}
	if r := ask(graph("a", well), graph("b", `{}`)); r.Result.Status != metav1.StatusFailure || !strings.Contains(r.Result.Message, "graph /b: service W: it has no main container") {
		t.Errorf("%+v", r)
	}
	w := httptest.NewRecorder()
	convertReview(w, httptest.NewRequest(http.MethodPost, "/convert", strings.NewReader("{}")))
	if w.Code != http.StatusBadRequest {
		t.Errorf("an empty review: %d", w.Code)
	}
}

// Where both versions are served the older one is stored, and the other had by the webhook; one
// that is alone is stored and needs none.
func TestTheStoredVersion(t *testing.T) {
	for want, served := range map[string][]string{"v1alpha1 Webhook": {beta, alpha}, "v1alpha1 None": {alpha}, "v1beta1 None": {beta}} {
		o := &Options{GraphAPIs: served, Authority: authority(t)}
		hook, err := o.certify()
		if err != nil {
			t.Fatal(err)
		}
		all, err := o.definitions(hook)
		if err != nil {
			t.Fatal(err)
		}
		d := all[slices.IndexFunc(all, func(d *apiextensions.CustomResourceDefinition) bool {
			return d.Spec.Names.Plural == "dynamographdeployments"
		})]
		got := ""
		for _, v := range d.Spec.Versions {
			if v.Storage {
				got += v.Name
			}
		}
		got += " " + string(d.Spec.Conversion.Strategy)
		if got != want {
			t.Errorf("%q: %s, want %s", served, got, want)
		}
	}
}
