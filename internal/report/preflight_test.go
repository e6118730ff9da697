package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/report"
	"aicr/internal/spec"
)

func somePreflight() *spec.Preflight {
	return &spec.Preflight{Schema: spec.PreflightSchema, Verdict: spec.Fail, Reason: "b: gone", Recipe: "r.yaml", Snapshot: "s.yaml", Readiness: []spec.Held{},
		Phases: []spec.PhaseResult{
			{Name: "deployment", State: spec.Fail, Reason: "b: gone", Checks: []spec.CheckResult{
				{Name: "a", Declared: true, State: spec.Pass, Reason: "it is", Held: []spec.Held{{Name: "x", Want: ">= 1", Value: "2", State: spec.HeldMet}}},
				{Name: "b", Declared: true, State: spec.Fail, Reason: "gone\x1b[31m <&]]>"},
				{Name: "c", State: spec.Skip, Reason: "not asked for"}}},
			{Name: "performance", State: spec.Inconclusive, Reason: "d: forbidden", Checks: []spec.CheckResult{{Name: "d", Declared: true, State: spec.Inconclusive, Reason: "forbidden"}}},
		}}
}

func preflightAs(t *testing.T, format string) []byte {
	t.Helper()
	for _, f := range report.PreflightFormats() {
		if f.Name == format {
			var b bytes.Buffer
			if err := f.Write(&b, somePreflight(), "v1"); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
	}
	t.Fatalf("no format %s", format)
	return nil
}

func TestAPreflightAsCTRFCountsWhatIsNotKnownAsOther(t *testing.T) {
	var got struct {
		Results struct {
			Summary map[string]int
			Tests   []struct {
				Name, Status, Message string
				Suite                 []string
			}
		}
	}
	text := preflightAs(t, "ctrf")
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"tests": 4, "passed": 1, "failed": 1, "skipped": 1, "pending": 0, "other": 1, "start": 0, "stop": 0, "duration": 0}
	if diff := cmp.Diff(want, got.Results.Summary); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var lines []string
	for _, c := range got.Results.Tests {
		lines = append(lines, strings.Join(append(c.Suite, c.Name, c.Status), " "))
	}
	if diff := cmp.Diff([]string{"deployment a passed", "deployment b failed", "deployment c skipped", "performance d other"}, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(string(text), "\\u001b") {
		t.Error("the escape of somebody else's text is in it")
	}
}

func TestAPreflightAsJUnitHasASuiteAPhase(t *testing.T) {
	var got struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Errors   int    `xml:"errors,attr"`
			Skipped  int    `xml:"skipped,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(preflightAs(t, "junit"), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Suites) != 2 {
		t.Fatalf("%+v", got)
	}
	if s := got.Suites[0]; s.Name != "deployment" || s.Tests != 3 || s.Failures != 1 || s.Skipped != 1 || s.Errors != 0 {
		t.Errorf("%+v", s)
	}
	if s := got.Suites[1]; s.Name != "performance" || s.Tests != 1 || s.Errors != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAPreflightAsJSONIsTheWholeOfIt(t *testing.T) {
	var got spec.Preflight
	if err := json.Unmarshal(preflightAs(t, "json"), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(somePreflight(), &got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A report of a cluster that is not ready says so: one of an earlier run that passed must
// not be taken for it.
func TestAPreflightThatIsNotReadyIsReported(t *testing.T) {
	p := somePreflight()
	p.Notes = []string{"another\x1b[31m cluster"}
	p.Readiness = []spec.Held{{Name: "K8s.server.version", Want: ">= 1.34", Value: "v1.33.0", State: spec.HeldNotMet, Remediation: "upgrade it"},
		{Name: "OS.release.ID", Want: "ubuntu", State: spec.HeldError, Reason: "forbidden"}, {Name: "K8s.server.version", Want: "< 2", Value: "v1.33.0", State: spec.HeldMet}}
	text := map[string]string{}
	for _, f := range report.PreflightFormats() {
		var b bytes.Buffer
		if err := f.Write(&b, p, "v1"); err != nil {
			t.Fatal(err)
		}
		text[f.Name] = b.String()
	}
	for format, parts := range map[string][]string{
		"junit": {`<testsuite name="readiness" package="preflight" id="0"`, `tests="3" failures="1" errors="1" skipped="0"`, `name="K8s.server.version (2)"`,
			`FAIL: it is v1.33.0, wanted &gt;= 1.34; advice: upgrade it`, `INCONCLUSIVE: wanted ubuntu, cannot be held: forbidden`, `<property name="note" value="another□[31m cluster">`},
		"ctrf": {`"suite": [`, `"readiness"`, `"failed": 2`, `"other": 2`, `"passed": 2`, `"another□[31m cluster"`},
		"json": {`"notes": [`},
	} {
		for _, part := range parts {
			if !strings.Contains(text[format], part) {
				t.Errorf("%s lacks %s\n%s", format, part, text[format])
			}
		}
	}
}
