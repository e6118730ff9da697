package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// assets are what the page is made from. It takes nothing from anywhere else, so that
// it opens from an e-mail, offline.
//
//go:embed assets
var assets embed.FS

// HTML writes one page for a person: the answer, which machine, why one may believe
// it, and what to do now. Everything but the plots over time is there without
// JavaScript, and no request leaves it.
func HTML(w io.Writer, r *spec.Report) error {
	p, err := newHTMLPage(r)
	if err != nil {
		return err
	}
	t, err := template.New("page.tmpl").Funcs(htmlWords()).ParseFS(assets, "assets/*.tmpl")
	if err != nil {
		return err
	}
	// The template writes in thousands of little pieces.
	var whole bytes.Buffer
	if err := t.Execute(&whole, p); err != nil {
		return err
	}
	_, err = whole.WriteTo(w)
	return err
}

// htmlPage is what page.tmpl is given.
type htmlPage struct {
	Title      string
	Icon       template.URL
	Policy     string
	Style      template.CSS
	Script     template.JS
	Data       htmlData
	Contents   []htmlLink
	Run        *htmlRun
	Against    *htmlRun // the first of two runs
	Comparison *htmlComparison
}

// htmlLink leads to a part of the page.
type htmlLink struct{ ID, Text, Shape string }

func newHTMLPage(r *spec.Report) (*htmlPage, error) {
	p := &htmlPage{}
	style, err := joined("", "", "uPlot.min.css", "page.css")
	if err != nil {
		return nil, err
	}
	licence, err := joined("/*\n", "*/\n", "uPlot.LICENSE")
	if err != nil {
		return nil, err
	}
	script, err := joined("", "", "uPlot.iife.min.js", "charts.js")
	if err != nil {
		return nil, err
	}
	script = "\n" + licence + script
	p.Style, p.Script = template.CSS(style), template.JS(script)
	p.Policy = policy(script)

	p.Run = newHTMLRun(r, "")
	state, name := r.Verdict.Verdict, p.Run.Name
	p.Title = stateWord(state) + " · " + name
	if r.Comparison != nil && r.Against != nil {
		p.Against = newHTMLRun(r.Against, "first-")
		p.Comparison = newHTMLComparison(r.Comparison)
		p.Comparison.Commands = retold(r, "Compare the same records again")
		p.Run.Which, p.Against.Which = "second", "first"
		p.Title = p.Comparison.Word + " · " + name + " against " + p.Against.Name
		state = p.Comparison.State
	}
	p.Data = newHTMLData(p.Run, p.Against)
	p.Icon = icon(state)
	p.Contents = p.contents()
	return p, nil
}

// joined are some of the assets, one after another.
func joined(before, after string, names ...string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return "", err
		}
		b.WriteString(before)
		b.Write(text)
		b.WriteString(after)
		b.WriteString("\n")
	}
	return b.String(), nil
}

// policy lets the browser run this script and no other, and fetch nothing. Whatever
// comes from elsewhere is escaped; this holds where that would fail.
func policy(script string) string {
	sum := sha256.Sum256([]byte(script))
	return fmt.Sprintf("default-src 'none'; script-src 'sha256-%s'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
		base64.StdEncoding.EncodeToString(sum[:]))
}

// icon is the state's shape, for the browser's tab. Without one, the browser asks the
// server for it.
func icon(s spec.State) template.URL {
	colour, mark := "%238f5a00", "M8 4v5M8 11.5v.5"
	switch s {
	case spec.Pass:
		colour, mark = "%231f7a4d", "M4.5 8.2l2.4 2.4 4.6-5"
	case spec.Fail:
		colour, mark = "%23b3261e", "M5 5l6 6M11 5l-6 6"
	case spec.Skip:
		colour, mark = "%235b626b", "M4.5 8h7"
	case spec.Inconclusive, spec.Invalid, spec.NotJudged, spec.NotRun:
	}
	body := `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><circle cx='8' cy='8' r='8' fill='COLOUR'/><path d='` + mark + `' fill='none' stroke='white' stroke-width='2'/></svg>`
	return template.URL("data:image/svg+xml," + strings.ReplaceAll(url.PathEscape(body), "COLOUR", colour))
}

// Both are the plots of the fleet's time in which two runs are drawn.
func (p *htmlPage) Both() []htmlTrack {
	if len(p.Run.Tracks) == 0 || len(p.Against.Tracks) == 0 {
		return slices.Concat(p.Run.Tracks, p.Against.Tracks)
	}
	both := slices.Clone(p.Run.Tracks)
	for i := range both {
		both[i].Label = "first run: " + p.Against.Tracks[i].Label + "; second run: " + both[i].Label
	}
	return both
}

// BothSpreads are the distributions in which two runs are drawn.
func (p *htmlPage) BothSpreads() []htmlSpread {
	both := slices.Clone(p.Run.Spreads)
	for i := range both {
		theirs := "not measured"
		// The same one as charts.js takes.
		if n := slices.IndexFunc(p.Against.Spreads, func(s htmlSpread) bool { return s.Name == both[i].Name }); n >= 0 {
			theirs = p.Against.Spreads[n].Label
		}
		both[i].Label = "first run: " + theirs + "; second run: " + both[i].Label
	}
	return both
}

// contents are the sections, in the order of the page.
func (p *htmlPage) contents() []htmlLink {
	if p.Comparison != nil {
		return []htmlLink{{ID: "verdict", Text: "Answer"}, {ID: "differences", Text: "Differences"}, {ID: "timeline", Text: "Over time"}, {ID: "distributions", Text: "Distributions"},
			{ID: "fleet", Text: "Fleet"}, {ID: "findings", Text: "Findings"}, {ID: "environment", Text: "Environment"}, {ID: "notes", Text: "Notes"}, {ID: "command", Text: "Run it again"}}
	}
	links := []htmlLink{{ID: "verdict", Text: "Verdict"}}
	add := func(id, text string, is bool) {
		if is {
			links = append(links, htmlLink{ID: id, Text: text})
		}
	}
	run := p.Run
	add("checks", "Checks", len(run.Checks()) > 0)
	add("ledgers", "Ledgers", run.Judged())
	add("expectations", "Expectations", run.Judged())
	add("measured", "Measured", run.Bench != nil)
	add("fleet", "Fleet", true)
	add("timeline", "Over time", true)
	add("distributions", "Distributions", true)
	add("tests", "Sequential tests", run.Tested())
	add("findings", "Findings", run.Diagnosed())
	add("stalls", "Stalls", len(run.Stalls) > 0)
	add("figures", "Figures", len(run.Verdict.Figures) > 0 && run.Bench == nil)
	add("definitions", "Definitions", run.Bench != nil && len(run.Bench.Rosetta) > 0)
	add("client", "Client audit", true)
	add("episodes", "Episodes", len(run.Episodes) > 0)
	add("environment", "Environment", true)
	add("plan", "Plan", run.Plan != nil)
	add("notes", "Notes", len(run.AllNotes) > 0)
	add("history", "History", run.Trend != nil && len(run.Trend.Lines) > 0)
	add("command", "Run it again", true)
	return links
}

// The most bytes of somebody else's text that the page shows.
const (
	mostName = 200
	mostText = 2000
)

// said is a text of somebody else's, fit to be shown.
func said(text string) string { return layout.Shown(text, mostText) }

// named is a name of somebody else's, fit to be shown.
func named(name string) string { return layout.Shown(name, mostName) }

// someNames is a list of names that does not fill the page.
func someNames(names []string) string { return said(layout.Some(names, shownNames)) }

func htmlWords() template.FuncMap {
	return template.FuncMap{
		"said":         said,
		"named":        named,
		"listed":       someNames,
		"number":       func(v float64) string { return figureOr(v, "–") },
		"count":        count[int],
		"withFailures": failedToo,
		"count64":      count[int64],
		"figure":       func(v *float64) string { return numberOr(v, "–") },
		"optional":     optional,
		"interval":     interval,
		"signed":       signed,
		"loaded":       layout.Loaded,
		"plural":       layout.Plural,
		"point":        layout.Point,
		"shape":        shapeOf,
		"word":         stateWord,
		"pieces":       func(advice string) []piece { return pieces(said(advice)) },
		"px":           pixels,
		"dash":         dash,
		"joined":       func(all []string) string { return said(strings.Join(all, ", ")) },
		"severity":     severityShape,
		"page":         diagnosisPage,
		"stop":         stop,
		"measured":     measured,
		"ratio":        ratioText,
		"ratios":       ratioInterval,
		"places":       func(v float64) string { return fixed(v, 1) },
		"share":        func(v float64) string { return fixed(v, 2) },
	}
}
