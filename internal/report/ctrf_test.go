package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// ctrfSchema is the official one, formats and all.
func ctrfSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	path := filepath.Join("testdata", "schema", "ctrf-schema-0.0.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("ctrf.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("ctrf.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func ctrfOf(r *spec.Report) ([]byte, error) {
	var b bytes.Buffer
	err := CTRF(&b, r)
	return b.Bytes(), err
}

// ctrfFaults says what is wrong with a CTRF document that there should be of a report.
func ctrfFaults(schema *jsonschema.Schema, text []byte, r *spec.Report) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := schema.Validate(doc); err != nil {
		return err
	}
	var got ctrfReport
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	counts, duration := map[string]int{}, int64(0)
	for _, test := range got.Results.Tests {
		counts[test.Status]++
		duration += test.Duration
		if n := len(test.Message); n > 4096 {
			return fmt.Errorf("%s: the message has %d bytes", test.Name, n)
		}
		if n := len(test.Stdout); n > 1000 {
			return fmt.Errorf("%s: the output has %d lines", test.Name, n)
		}
		for _, line := range test.Stdout {
			if n := utf8.RuneCountInString(line); n > 512 {
				return fmt.Errorf("%s: a line of the output has %d characters", test.Name, n)
			}
		}
	}
	s := got.Results.Summary
	want := ctrfSummary{
		Tests:  1 + len(r.Verdict.Ledgers) + len(r.Verdict.Expectations),
		Passed: counts["passed"], Failed: counts["failed"], Skipped: counts["skipped"], Other: counts["other"],
		Start: s.Start, Stop: s.Stop, Duration: duration,
	}
	if diff := cmp.Diff(want, s); diff != "" {
		return fmt.Errorf("the summary (-want +got):\n%s", diff)
	}
	if s.Passed+s.Failed+s.Skipped+s.Other != s.Tests || s.Stop-s.Start != s.Duration || s.Duration < 0 {
		return fmt.Errorf("the summary does not add up: %+v", s)
	}
	if (got.Results.Tests[0].Status == "passed") != (r.Verdict.Verdict == spec.Pass) {
		return fmt.Errorf("%s is told as %s", r.Verdict.Verdict, got.Results.Tests[0].Status)
	}
	return nil
}

func TestCTRFOfEveryVerdict(t *testing.T) {
	schema := ctrfSchema(t)
	for name, r := range checkedReports() {
		t.Run(name, func(t *testing.T) {
			text, err := ctrfOf(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := ctrfFaults(schema, text, r); err != nil {
				t.Error(err)
			}
			golden(t, "ctrf/"+name+".json", text)
		})
	}
}

func TestAnyReportIsValidCTRF(t *testing.T) {
	schema := ctrfSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		r := anyCheckedReport().Draw(t, "report")
		text, err := ctrfOf(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := ctrfFaults(schema, text, r); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if again, _ := ctrfOf(r); !bytes.Equal(text, again) {
			t.Fatal("the same report, told twice, is not the same")
		}
	})
}

func TestTheSchemaIsHeld(t *testing.T) {
	schema := ctrfSchema(t)
	r := checkedReport()
	text, err := ctrfOf(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]func(doc map[string]any){
		"a suite that is no list":   func(doc map[string]any) { ctrfFirstTest(doc)["suite"] = "performance" },
		"a status that there isn't": func(doc map[string]any) { ctrfFirstTest(doc)["status"] = "inconclusive" },
		"a field that there isn't":  func(doc map[string]any) { ctrfFirstTest(doc)["value"] = 1 },
		"a time that is none":       func(doc map[string]any) { doc["timestamp"] = "yesterday" },
		"extra that is no object":   func(doc map[string]any) { ctrfFirstTest(doc)["extra"] = "71,053" },
	} {
		t.Run(name, func(t *testing.T) {
			var doc map[string]any
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Fatal(err)
			}
			broken(doc)
			other, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			if ctrfFaults(schema, other, r) == nil {
				t.Error("it passes")
			}
		})
	}
}

func ctrfFirstTest(doc map[string]any) map[string]any {
	return doc["results"].(map[string]any)["tests"].([]any)[0].(map[string]any)
}

func TestOnlyAPassIsPassed(t *testing.T) {
	for state, want := range map[spec.State]string{
		spec.Pass: "passed", spec.Fail: "failed", spec.Skip: "skipped",
		spec.Inconclusive: "other", spec.Invalid: "other", spec.NotJudged: "other", "": "other", "pass": "other",
	} {
		r := checkedNothing(state, "because")
		text, err := ctrfOf(r)
		if err != nil {
			t.Fatal(err)
		}
		var got ctrfReport
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		whole := got.Results.Tests[0]
		if whole.Status != want || whole.RawStatus != string(state) || !strings.HasPrefix(whole.Message, "because") {
			t.Errorf("%q is told as %s (%s: %s), want %s", state, whole.Status, whole.RawStatus, whole.Message, want)
		}
		healthy := got.Results.Environment.Healthy
		if known := state == spec.Pass || state == spec.Fail; (healthy != nil) != known || known && *healthy != (state == spec.Pass) {
			t.Errorf("%q: healthy is %v", state, healthy)
		}
	}
}

func TestNoSecretOfAURLIsInCTRF(t *testing.T) {
	text, err := ctrfOf(checkedReport())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("secret")) {
		t.Errorf("the secret of the target's URL is in\n%s", text)
	}
}

func TestTheOutputOfATestHasAnEnd(t *testing.T) {
	r := checkedFail(spec.Stability)
	r.Verdict.Findings[0].Evidence = make([]string, 3000)
	text := checkText(r)
	if len(text) != 1000 {
		t.Errorf("%d lines", len(text))
	}
	if last := text[len(text)-1]; !strings.HasPrefix(last, "and 2014 lines more") {
		t.Errorf("it ends with %q", last)
	}
}

func TestALongLineDoesNotMakeALongReport(t *testing.T) {
	r := checkedFail(spec.Stability)
	long := strings.Repeat("<工>", 2<<20)
	r.Verdict.Reason, r.Verdict.Findings[0].Summary = long, long
	r.Verdict.Findings[0].Evidence = []string{long}
	r.Verdict.Expectations[0].Note, r.Facts[0].Value = long, long
	for name, write := range map[string]func() ([]byte, error){
		"ctrf":  func() ([]byte, error) { return ctrfOf(r) },
		"junit": func() ([]byte, error) { return junitOf(r) },
	} {
		text, err := write()
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 100_000 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		if !bytes.Contains(text, []byte("cut here")) {
			t.Errorf("%s does not say that it was cut", name)
		}
	}
}
