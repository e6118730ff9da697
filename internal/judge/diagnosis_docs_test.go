package judge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

const diagnoses = "../../docs/diagnoses/"

// pageOf is the name of a finding's page.
func pageOf(id string) string { return strings.ReplaceAll(id, "/", "-") + ".md" }

// Whoever is sent to a page by a finding's id finds it, and no page tells of a
// finding that is not there.
func TestEveryFindingHasItsPageAndNoPageIsLeftOver(t *testing.T) {
	want := []string{"README.md"}
	for _, id := range spec.FindingIDs() {
		want = append(want, pageOf(id))
	}
	slices.Sort(want)
	var got []string
	entries, err := os.ReadDir(diagnoses)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages in docs/diagnoses (-want +got):\n%s", diff)
	}
}

// A page is read at night: the same things stand in the same places, and it is short.
func TestEveryDiagnosisIsToldInTheSameOrder(t *testing.T) {
	const longest = 62 // lines
	headings := []string{"Seen", "Means", "Does not mean", "Do next", "How it is found", "How sure"}
	for _, id := range spec.FindingIDs() {
		t.Run(pageOf(id), func(t *testing.T) {
			text := pageText(t, pageOf(id))
			title, _, _ := strings.Cut(text, "\n")
			if words, ok := strings.CutPrefix(title, "# "+id+": "); !ok || words == "" {
				t.Errorf("the title is %q, not \"# %s: \" and plain words", title, id)
			}
			if n := strings.Count(text, "\n"); n > longest {
				t.Errorf("%d lines, more than %d", n, longest)
			}
			var got []string
			for _, s := range sectionsOf(text) {
				got = append(got, s.heading)
				if strings.TrimSpace(s.text) == "" {
					t.Errorf("nothing under %q", s.heading)
				}
			}
			if diff := cmp.Diff(headings, got); diff != "" {
				t.Fatalf("headings (-want +got):\n%s", diff)
			}
			for _, must := range []struct{ heading, part, why string }{
				{"Do next", "```sh\n", "a command to type"},
			} {
				if !strings.Contains(section(text, must.heading), must.part) {
					t.Errorf("%q has no %q: %s", must.heading, must.part, must.why)
				}
			}
			printed := regexp.MustCompile("```text\n(?:fail|invalid|note) +" + id + "(?:, workers? [^(]+)? \\(confidence (?:" + strings.Join(confidences(), "|") + ")\\)\n")
			if !printed.MatchString(section(text, "Seen")) {
				t.Errorf("%q has no example of the finding as it is printed: %s", "Seen", printed)
			}
			if !slices.ContainsFunc(confidences(), func(c string) bool { return strings.Contains(section(text, "How sure"), "**"+c) }) {
				t.Errorf("%q has none of %q in bold", "How sure", confidences())
			}
		})
	}
}

// The index lists every finding once, with its page and its usual verdict, and the
// page itself says how it comes to that verdict.
func TestTheIndexOfDiagnosesAgreesWithTheirPages(t *testing.T) {
	states := []spec.State{spec.Pass, spec.Fail, spec.Inconclusive, spec.Invalid, spec.Skip}
	var got []string
	for line := range strings.SplitSeq(pageText(t, "README.md"), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| [") {
			continue
		}
		if len(cells) != 3 {
			t.Fatalf("%d cells: %s", len(cells), line)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(cells[0], "[`"), "`")
		got = append(got, id)
		if link := "[`" + id + "`](" + pageOf(id) + ")"; cells[0] != link {
			t.Errorf("%s is not %s", cells[0], link)
			continue
		}
		found, named := section(pageText(t, pageOf(id)), "How it is found"), false
		for _, s := range states {
			if !strings.Contains(cells[2], string(s)) {
				continue
			}
			if named = true; !strings.Contains(found, string(s)) {
				t.Errorf("the index has %s for %s; its page does not say how", s, id)
			}
		}
		if !named && cells[2] != "note" {
			t.Errorf("%s: %q names no verdict and is not \"note\"", id, cells[2])
		}
	}
	if diff := cmp.Diff(spec.FindingIDs(), got); diff != "" {
		t.Errorf("the index (-want +got):\n%s", diff)
	}
}

// A threshold is named as `name` (value). The names are those that a recipe takes,
// and the values those of the standard profile.
func TestThePagesNameThresholdsAsTheyAre(t *testing.T) {
	defaults, _ := spec.DefaultThresholds(spec.ProfileStandard)
	b, err := json.Marshal(defaults)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	if err := json.Unmarshal(b, &values); err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z][A-Za-z0-9]*)` \\(([0-9.]+)\\)")
	bare := regexp.MustCompile("`([a-z]+[A-Z][A-Za-z0-9]*)`")
	count := 0
	for _, id := range spec.FindingIDs() {
		found := section(pageText(t, pageOf(id)), "How it is found")
		for _, m := range bare.FindAllStringSubmatch(found, -1) {
			if _, ok := values[m[1]]; !ok {
				t.Errorf("%s: there is no threshold %s", pageOf(id), m[1])
			}
		}
		for _, m := range named.FindAllStringSubmatch(found, -1) {
			count++
			told, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Errorf("%s: %s: %v", pageOf(id), m[0], err)
				continue
			}
			is, ok := values[m[1]]
			if !ok {
				t.Errorf("%s: there is no threshold %s", pageOf(id), m[1])
			} else if diff := told - is; diff < -0.01*is || diff > 0.01*is { // 1/30 is told as 0.0333
				t.Errorf("%s: %s is %v", pageOf(id), m[0], is)
			}
		}
	}
	if count < 20 {
		t.Errorf("only %d thresholds were found: are they looked for in the right way?", count)
	}
}

// Links from a page to another file of the repository lead somewhere.
func TestTheLinksOfDiagnosesLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
	pages := []string{"README.md"}
	for _, id := range spec.FindingIDs() {
		pages = append(pages, pageOf(id))
	}
	count := 0
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(pageText(t, page), -1) {
			count++
			if _, err := os.Stat(filepath.Join(diagnoses, m[1])); err != nil {
				t.Errorf("%s: %s leads nowhere", page, m[1])
			}
		}
	}
	if count < len(pages) {
		t.Errorf("only %d links were found: are they looked for in the right way?", count)
	}
}

func pageText(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(diagnoses, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type docSection struct{ heading, text string }

func sectionsOf(text string) (all []docSection) {
	for i, part := range strings.Split(text, "\n## ") {
		if i > 0 {
			heading, body, _ := strings.Cut(part, "\n")
			all = append(all, docSection{heading, body})
		}
	}
	return all
}

// section is the text under a heading; empty when there is none.
func section(text, heading string) string {
	for _, s := range sectionsOf(text) {
		if s.heading == heading {
			return s.text
		}
	}
	return ""
}

func confidences() []string {
	return []string{spec.ConfidenceVeryHigh, spec.ConfidenceHigh, spec.ConfidenceMedium, spec.ConfidenceLow}
}
