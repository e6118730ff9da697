package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/redact"
	"aicr/internal/spec"
)

// Whoever reads verdict.json reads this too.
func TestJSONIsTheVerdictByteForByte(t *testing.T) {
	for _, c := range toldReports() {
		if c.report.Comparison != nil || c.report.Bench != nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.report.Trend = nil
			if diff := cmp.Diff(string(redact.JSON([]byte(asFile(t, c.report.Verdict)))), jsonOf(t, c.report)); diff != "" {
				t.Errorf("json is not verdict.json (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONIsSetInTwoSpacesAndLeavesMarkupAlone(t *testing.T) {
	r := &spec.Report{Verdict: &spec.Verdict{Schema: "s", Verdict: spec.Pass, Reason: "<= 1 & > 0"}}
	want := `{
  "schema": "s",
  "verdict": "PASS",
  "reason": "<= 1 & > 0",
  "profile": "",
  "ledgers": null,
  "expectations": null,
  "findings": null,
  "episodes": 0,
  "loadedSeconds": 0
}
`
	if diff := cmp.Diff(want, jsonOf(t, r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONHasTheHistoryBesideTheVerdict(t *testing.T) {
	r := toldFail()
	got := map[string]any{}
	if err := json.Unmarshal([]byte(jsonOf(t, r)), &got); err != nil {
		t.Fatal(err)
	}
	history, _ := got["history"].(map[string]any)
	if history["runs"] != 6.0 || got["verdict"] != "FAIL" {
		t.Errorf("the history is %v beside %v", history, got["verdict"])
	}
}

func TestJSONOfABenchAndOfAComparisonIsTheirOwnDocument(t *testing.T) {
	bench, comparison := toldBench(), toldComparison()
	if diff := cmp.Diff(asFile(t, bench.Bench), jsonOf(t, bench)); diff != "" {
		t.Errorf("bench (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(asFile(t, comparison.Comparison), jsonOf(t, comparison)); diff != "" {
		t.Errorf("comparison (-want +got):\n%s", diff)
	}
}

// asFile is a document as the files of a run have it.
func asFile(t *testing.T, doc any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func jsonOf(t *testing.T, r *spec.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
