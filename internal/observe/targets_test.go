package observe

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// A worker's role and its GPUs are what no page of plain vLLM tells.
func TestATargetsLabelsTellItsShape(t *testing.T) {
	const page = "http://10.0.0.1:9090/metrics"
	for text, want := range map[string]Labels{
		page + " role=prefill":        {Role: spec.RolePrefill},
		page + " role=Decode gpu=a,b": {Role: spec.RoleDecode, GPU: "a,b"},
		"- targets: [10.0.0.1:9090]\n  labels: {dynamo_component: prefill}": {Role: spec.RolePrefill},
		"- targets: [10.0.0.1:9090]\n  labels: {dynamo_component: backend}": {},
	} {
		got, err := ReadTargets([]byte(text))
		if err != nil || len(got) != 1 || got[0].Labels != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	if _, err := ReadTargets([]byte(page + " role=both")); err == nil {
		t.Error("role=both is taken")
	}
}

func TestTargetsAreReadInBothForms(t *testing.T) {
	want := []Target{
		{"http://10.0.0.1:9090/metrics", Labels{Pod: "decode-0", GPU: "GPU-0"}},
		{"http://10.0.0.2:9090/metrics", Labels{Pod: "decode-1"}},
	}
	for _, tc := range []struct {
		name, text string
		want       []Target
	}{
		{"lines", "# the fleet\n\nhttp://10.0.0.1:9090/metrics pod=decode-0 gpu=GPU-0\n  http://10.0.0.2:9090  pod=decode-1\n", want},
		{"Prometheus' JSON", `[{"targets":["10.0.0.1:9090"],"labels":{"pod":"decode-0","gpu":"GPU-0","job":"x"}},{"targets":["10.0.0.2:9090"],"labels":{"pod":"decode-1"}}]`, want},
		{"Prometheus' YAML", "- targets: ['10.0.0.1:9090']\n  labels: {pod: decode-0, gpu_uuid: GPU-0}\n- targets: ['10.0.0.2:9090']\n  labels: {__meta_kubernetes_pod_name: decode-1}\n", want},
		{"a scheme and a path of its own", "- targets: ['a:1']\n  labels: {__scheme__: https, __metrics_path__: /m}\n", []Target{{URL: "https://a:1/m"}}},
		{"a name", "http://a:1/metrics name=left\n", []Target{{"http://a:1/metrics", Labels{Name: "left"}}}},
		{"nothing yet", "# to come\n", nil},
		{"no list yet", "[]", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ReadTargets([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEveryMistakeInAListIsTold(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"lines", "10.0.0.1:9090\nhttp://ok:1\nhttp://ok:2 job=x\nhttp://\n", []string{
			"line 1: not a URL", "line 3: \"job\" is not one of", "line 4: a URL without a host",
		}},
		{"a group with a word of its own", "- target: ['a:1']\n", []string{"not a list of targets"}},
		{"a group's bad target", "- targets: ['']\n- targets: ['a b:1']\n", []string{"group 1: ", "group 2: "}},
		{"too many", strings.Repeat("http://a:1\n", maxTargets+1), []string{fmt.Sprint(maxTargets+1, " targets")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ReadTargets([]byte(tc.text))
			if err == nil {
				t.Fatalf("read as %v", got)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in %q", w, err)
				}
			}
		})
	}
}

func TestAURLWithASecretIsNotRepeated(t *testing.T) {
	for _, text := range []string{"ftp://me:sesame@host/", "http://me:sesame@", "http://me:sesame@ho st/"} {
		if _, err := ParseTarget(text); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAListsMistakesRepeatNoSecret(t *testing.T) {
	for _, text := range []string{
		`[{"targets":["me:sesame@host:1"]}]`, `[{"targets":["ho st:1?token=sesame"]}]`, "http://ok:1 token=sesame\n", "http://me:sesame@host:1\n",
	} {
		if _, err := ReadTargets([]byte(text)); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzTargets(f *testing.F) {
	f.Add([]byte("http://10.0.0.1:9090/metrics pod=decode-0\n"))
	f.Add([]byte("- targets: ['10.0.0.1:9090']\n  labels: {pod: decode-0}\n"))
	f.Add([]byte(`[{"targets":["a:1"],"labels":{}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		targets, err := ReadTargets(text)
		if err != nil && targets != nil {
			t.Error("targets beside an error")
		}
		for _, target := range targets {
			if again, err := ParseTarget(target.URL); err != nil || again.URL != target.URL {
				t.Errorf("%q is read as %q the second time: %v", target.URL, again.URL, err)
			}
		}
	})
}

// What a list says of a page is shown, and is somebody else's: a name does nothing but be read,
// and a key in an address is in no name of a page.
func TestNamesOfAListAreShownAsText(t *testing.T) {
	for name, text := range map[string]string{
		"lines":      "http://h:9/k/0a1b2c3d4e5f6a7b8c9d0e/%1b%5b31m?token=sesame name=e\x1b[31m pod=::error::x gpu=g\u202e\n",
		"Prometheus": `[{"targets":["h:9"],"labels":{"name":"e\u001b[31m","pod":"::error::x","gpu":"g\u202e","__metrics_path__":"/k/0a1b2c3d4e5f6a7b8c9d0e/\u001b[31m?token=sesame"}}]`,
	} {
		targets, err := ReadTargets([]byte(text))
		if err != nil || len(targets) != 1 {
			t.Fatalf("%s: %v %v", name, targets, err)
		}
		if want := (Labels{Name: "e□[31m", Pod: ": :error::x", GPU: "g□"}); targets[0].Labels != want {
			t.Errorf("%s: %+q, want %+q", name, targets[0].Labels, want)
		}
		if !strings.HasSuffix(targets[0].URL, "?token=sesame") {
			t.Errorf("%s: %s is asked", name, targets[0].URL)
		}
		if got := Worker(NewClient(&http.Transport{}), targets[0].URL, Labels{}).Instance; got != "h:9/k/***/%1B%5B31m" && got != "h:9/k/***/%1b%5b31m" {
			t.Errorf("%s: the page is called %q", name, got)
		}
	}
}
