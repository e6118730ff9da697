package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A check gives what is wrong with an open page, in words; nothing where all is well.

// quiet: nothing left the page, nothing was refused, thrown, complained of or asked.
func quiet(t *testing.T, p *tab) []string {
	t.Helper()
	// Two frames and a turn of the loop: what was begun has been told by then.
	refused := ask[[]string](t, p, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(browserSeen.violations)))))`)
	time.Sleep(50 * time.Millisecond) // what the browser has sent is taken down beside this
	wrong := p.heard()
	for _, r := range refused {
		wrong = append(wrong, "policy: "+r)
	}
	return wrong
}

// laneAWorker: every worker has one lane, and it is drawn.
func laneAWorker(t *testing.T, p *tab, workers int) (wrong []string) {
	t.Helper()
	got := ask[struct{ Workers, Drawn, Blank []string }](t, p, `browserLook.lanes()`)
	if len(got.Workers) != workers {
		wrong = append(wrong, fmt.Sprintf("%d lanes of %d workers", len(got.Workers), workers))
	}
	if len(got.Drawn) != workers {
		wrong = append(wrong, fmt.Sprintf("%d drawn lanes of %d workers", len(got.Drawn), workers))
	}
	slices.Sort(got.Workers)
	if once := len(slices.Compact(slices.Clone(got.Workers))); once != len(got.Workers) {
		wrong = append(wrong, fmt.Sprintf("%d lanes are of %d workers", len(got.Workers), once))
	}
	for _, name := range got.Blank {
		wrong = append(wrong, name+" is not drawn")
	}
	return wrong
}

// cursor is where a plot of the run's time has it.
type cursor struct {
	Name    string
	At      *float64 // on the run's clock; nil: it has none
	Line    string
	Span    float64
	Readout string
}

func cursors(t *testing.T, p *tab) []cursor {
	t.Helper()
	return ask[[]cursor](t, p, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(browserLook.cursors()))))`)
}

// linked: the pointer over one plot moves the cursor of all that share its time, and
// their legends say the values there.
func linked(t *testing.T, p *tab, over string) (wrong []string) {
	t.Helper()
	ask[[]string](t, p, `browserLook.drawAll()`)
	var looks [][]cursor
	for _, share := range []float64{0.3, 0.7} {
		at := ask[*struct{ X, Y float64 }](t, p, `browserLook.over(%s, %s)`, over, share)
		if at == nil {
			return []string{over + " has nothing to point at"}
		}
		p.point(t, at.X-3, at.Y)
		p.point(t, at.X, at.Y)
		looks = append(looks, cursors(t, p))
	}
	first, second := looks[0], looks[1]
	if len(first) < 3 || len(first) != len(second) {
		return []string{fmt.Sprintf("%d plots have a cursor, and then %d", len(first), len(second))}
	}
	wrong = append(wrong, apart(first)...)
	wrong = append(wrong, apart(second)...)
	for i, was := range first {
		is := second[i]
		switch {
		case was.At == nil || is.At == nil: // told already
		case *is.At-*was.At < 0.2*is.Span, is.Line == was.Line:
			wrong = append(wrong, "the cursor of "+is.Name+" does not move")
		case is.Readout == was.Readout:
			wrong = append(wrong, "the legend of "+is.Name+" says the same at another time: "+is.Readout)
		case !strings.ContainsAny(is.Readout, "0123456789"):
			wrong = append(wrong, "the legend of "+is.Name+" has no values: "+is.Readout)
		}
	}
	return wrong
}

// apart tells the plots that have no cursor, or one at another time than the first.
func apart(all []cursor) (wrong []string) {
	lead := slices.IndexFunc(all, func(c cursor) bool { return c.At != nil })
	if lead < 0 {
		return []string{"no plot has a cursor"}
	}
	for _, c := range all {
		switch {
		case c.At == nil:
			wrong = append(wrong, c.Name+" has no cursor")
		case math.Abs(*c.At-*all[lead].At) > 0.02*c.Span:
			wrong = append(wrong, fmt.Sprintf("the cursor of %s is at %.1f s, that of %s at %.1f s", c.Name, *c.At, all[lead].Name, *all[lead].At))
		}
	}
	return wrong
}

// focused is what has the focus.
type focused struct {
	Tag, Plot, Link    string
	Ring, Seen, Inside bool
}

func (p *tab) press(t *testing.T, key string) focused {
	t.Helper()
	p.do(t, chromedp.KeyEvent(key))
	return ask[focused](t, p, `browserLook.focus()`)
}

// keyboard: without a mouse one can skip the contents, reach every plot, read along
// it, and leave it again.
func keyboard(t *testing.T, p *tab) (wrong []string) {
	t.Helper()
	if f := p.press(t, kb.Tab); f.Tag != "a" || !strings.HasPrefix(f.Link, "#") || f.Inside {
		wrong = append(wrong, fmt.Sprintf("the first thing that Tab reaches is no skip link: %+v", f))
	} else {
		if !f.Seen {
			wrong = append(wrong, "the skip link is out of sight when it has the focus")
		}
		p.press(t, kb.Enter)
		p.press(t, kb.Tab)
		if !ask[bool](t, p, `browserLook.follows(%s)`, f.Link) {
			wrong = append(wrong, "the skip link does not lead to "+f.Link)
		}
	}

	want := ask[[]string](t, p, `browserLook.plots()`)
	ask[bool](t, p, `(document.activeElement.blur(), getSelection().removeAllRanges(), scrollTo(0, 0), true)`)
	reached := map[string]bool{}
	const most = 600 // of one page's places for the focus
	for presses, away := 0, 0; presses < most && away < 2; presses++ {
		f := p.press(t, kb.Tab)
		if f.Tag == "body" {
			away++ // at the end, and around
		}
		if f.Plot != "" && !reached[f.Plot] {
			reached[f.Plot] = true
			if !f.Ring {
				wrong = append(wrong, f.Plot+" does not show that it has the focus")
			}
		}
	}
	for _, name := range want {
		if !reached[name] {
			wrong = append(wrong, "Tab does not reach "+name)
		}
	}

	for _, selector := range []string{`.plot[data-plot="rate"]`, `.plot[data-plot="lane"]`} {
		wrong = append(wrong, arrows(t, p, selector)...)
	}
	return wrong
}

// arrows: on a plot with the focus the arrow keys move all cursors, and Escape takes
// them away.
func arrows(t *testing.T, p *tab, selector string) (wrong []string) {
	t.Helper()
	p.point(t, 1, 1) // off the plots
	if !ask[bool](t, p, `(() => { const e = document.querySelector(%s); e?.scrollIntoView({block: "center"}); e?.focus(); return e === document.activeElement; })()`, selector) {
		return []string{selector + " takes no focus"}
	}
	p.press(t, kb.ArrowRight)
	for range 3 {
		p.press(t, kb.ArrowRight)
	}
	before := cursors(t, p)
	p.press(t, kb.ArrowRight)
	right := cursors(t, p)
	p.press(t, kb.ArrowLeft)
	left := cursors(t, p)
	wrong = append(wrong, apart(right)...)
	for i := range before { // a plot that was drawn meanwhile comes after those
		if before[i].At == nil || right[i].At == nil || left[i].At == nil {
			continue // told already
		}
		if *right[i].At <= *before[i].At {
			wrong = append(wrong, "the right arrow on "+selector+" does not move the cursor of "+right[i].Name)
		}
		if *left[i].At >= *right[i].At {
			wrong = append(wrong, "the left arrow on "+selector+" does not move the cursor of "+right[i].Name)
		}
	}
	p.press(t, kb.Escape)
	for _, c := range cursors(t, p) {
		if c.At != nil {
			wrong = append(wrong, "Escape on "+selector+" leaves a cursor on "+c.Name)
		}
	}
	if f := p.press(t, kb.Tab); f.Plot != "" && ask[bool](t, p, `document.activeElement === document.querySelector(%s)`, selector) {
		wrong = append(wrong, "Tab does not leave "+selector)
	}
	return wrong
}

// layout: no scrolling sideways, nothing cut off, no text on another; with what can
// be unfolded as it comes and open. Canvases are looked into.
func layout(t *testing.T, p *tab) (wrong []string) {
	t.Helper()
	ask[[]string](t, p, `browserLook.drawAll()`)
	wrong = ask[[]string](t, p, `browserLook.layout()`)
	ask[any](t, p, `browserLook.unfold()`)
	defer ask[any](t, p, `browserLook.fold()`)
	for _, s := range ask[[]string](t, p, `browserLook.layout()`) {
		if !slices.Contains(wrong, s) {
			wrong = append(wrong, "unfolded: "+s)
		}
	}
	return wrong
}

// ink is what a plot is written and drawn in.
type ink struct {
	Name           string
	Written, Drawn []string
}

// themed: a plot that is drawn follows the theme, to and fro, in its own colours.
func themed(t *testing.T, p *tab) (wrong []string) {
	t.Helper()
	var looks [][]ink
	for _, dark := range []bool{false, true, false} {
		p.theme(t, dark)
		ask[[]string](t, p, `browserLook.drawAll()`)
		ask[bool](t, p, `new Promise((done) => setTimeout(() => requestAnimationFrame(() => done(true)), 50))`)
		looks = append(looks, ask[[]ink](t, p, `browserLook.inks()`))
	}
	light, dark, again := looks[0], looks[1], looks[2]
	if len(light) == 0 || len(light) != len(dark) || len(light) != len(again) {
		return []string{fmt.Sprintf("%d plots in light, %d in dark, %d in light again", len(light), len(dark), len(again))}
	}
	for i := range light {
		if slices.Equal(light[i].Drawn, dark[i].Drawn) {
			wrong = append(wrong, light[i].Name+" is drawn in the same colours in dark as in light")
		}
		if !slices.Equal(light[i].Drawn, again[i].Drawn) {
			wrong = append(wrong, light[i].Name+" does not come back from dark")
		}
		for _, c := range light[i].Written {
			if ask[float64](t, p, `browserLook.brightness(%s)`, c) > 0.6 {
				wrong = append(wrong, light[i].Name+" is written in "+c+" on a light page")
			}
		}
		for _, c := range dark[i].Written {
			if ask[float64](t, p, `browserLook.brightness(%s)`, c) < 0.3 {
				wrong = append(wrong, light[i].Name+" is written in "+c+" on a dark page")
			}
		}
	}
	return wrong
}

// accessible: axe-core has nothing against the page, with everything unfolded.
func accessible(t *testing.T, p *tab) (wrong []string) {
	t.Helper()
	ask[[]string](t, p, `browserLook.drawAll()`)
	ask[any](t, p, `browserLook.unfold()`)
	if !ask[bool](t, p, `"axe" in window`) {
		ask[chromedp.Void](t, p, axe)
	}
	got := ask[struct {
		Passes     int
		Violations []struct {
			ID, Help string
			Nodes    []string
		}
	}](t, p, `axe.run(document, {
		runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
		resultTypes: ["violations", "passes"],
	}).then((r) => ({
		passes: r.passes.length,
		violations: r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 4).map((n) => n.target.join(" ") + ": " + n.failureSummary.replace(/\s+/g, " "))})),
	}))`)
	if got.Passes < 10 {
		wrong = append(wrong, fmt.Sprintf("axe found only %d rules that apply", got.Passes))
	}
	for _, v := range got.Violations {
		wrong = append(wrong, fmt.Sprintf("axe %s: %s\n\t\t%s", v.ID, v.Help, strings.Join(v.Nodes, "\n\t\t")))
	}
	return wrong
}

// printed: the whole page comes out, every lane drawn and none cut in two, and in no
// ink of the dark theme. The page is kept as file.
func printed(t *testing.T, p *tab, workers int, file string) (wrong []string) {
	t.Helper()
	inks := func() (all []string) {
		ask[[]string](t, p, `browserLook.drawAll()`)
		for _, plot := range ask[[]ink](t, p, `browserLook.inks()`) {
			all = append(all, plot.Written...)
		}
		return all
	}
	yes := true
	pdf := call(t, p, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: &yes, PreferCSSPageSize: &yes, GenerateTaggedPDF: &yes}).Data
	if file != "" {
		if err := os.WriteFile(file, pdf, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sheets := len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(pdf, -1))
	if !bytes.HasPrefix(pdf, []byte("%PDF-")) || sheets == 0 {
		wrong = append(wrong, fmt.Sprintf("the printed page is empty: %d bytes, %d sheets", len(pdf), sheets))
	}
	// What a picture tells in words is kept beside it, on paper too.
	if lanes := bytes.Count(pdf, []byte("/Alt (worker ")); lanes != workers {
		wrong = append(wrong, fmt.Sprintf("%d lanes of %d are on paper", lanes, workers))
	}
	drawn := ask[*struct {
		Inks  []string
		Lanes int
	}](t, p, `browserSeen.onPaper`)
	if drawn == nil {
		return append(wrong, "the page was not told that it was printed")
	}
	if drawn.Lanes != workers {
		wrong = append(wrong, fmt.Sprintf("%d lanes of %d were drawn for printing", drawn.Lanes, workers))
	}
	p.theme(t, true)
	dark := inks()
	p.theme(t, false)
	light := inks()
	slices.Sort(drawn.Inks)
	for _, c := range slices.Compact(drawn.Inks) {
		if slices.Contains(dark, c) && !slices.Contains(light, c) {
			wrong = append(wrong, "the plots were printed in "+c+", which is an ink of the dark theme")
		}
	}
	p.media(t, "print", true)
	paper := ask[struct {
		Torn   int
		Bright float64
	}](t, p, `({
		torn: [...document.querySelectorAll(".lane")].filter((e) => !/avoid/.test(getComputedStyle(e).breakInside)).length,
		bright: browserLook.brightness(getComputedStyle(document.documentElement).getPropertyValue("--paper")),
	})`)
	if paper.Torn > 0 {
		wrong = append(wrong, fmt.Sprintf("%d lanes may be cut in two by the end of a sheet", paper.Torn))
	}
	if paper.Bright < 0.9 {
		wrong = append(wrong, "the paper is printed dark in a dark theme")
	}
	return wrong
}

// inert: nothing that came from outside is obeyed, and all of it can be read.
func inert(t *testing.T, p *tab, model string, workers []string) (wrong []string) {
	t.Helper()
	wrong = quiet(t, p)
	got := ask[struct {
		Images, Handlers, Scripts []string
		Text, Data                string
		Lanes                     []string
	}](t, p, `({
		images: [...document.images].map((e) => e.outerHTML.slice(0, 80)),
		handlers: [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))).map((e) => e.outerHTML.slice(0, 80)),
		scripts: [...document.querySelectorAll("script:not([type='application/json'])")].slice(1).map((e) => e.outerHTML.slice(0, 80)),
		text: document.body.innerText,
		data: document.getElementById("report-data")?.textContent ?? "",
		lanes: [...document.querySelectorAll(".lane")].map((e) => e.innerText),
	})`)
	for _, e := range slices.Concat(got.Images, got.Handlers, got.Scripts) {
		wrong = append(wrong, "an element that nobody asked for: "+e)
	}
	if !strings.Contains(got.Text, model) {
		wrong = append(wrong, "the model's name cannot be read")
	}
	if !json.Valid([]byte(got.Data)) {
		wrong = append(wrong, "the data is not JSON")
	}
	for _, name := range workers {
		// A long name may be clipped, and what turns the writing round is not shown.
		start := name
		if r := []rune(name); len(r) > 12 {
			start = string(r[:12])
		}
		start, _, _ = strings.Cut(start, "\u202e")
		if !slices.ContainsFunc(got.Lanes, func(s string) bool { return strings.Contains(s, start) }) {
			wrong = append(wrong, fmt.Sprintf("no lane says the name %q", name))
		}
	}
	if strings.Contains(got.Text, "\u202e") {
		wrong = append(wrong, "the page has a character that turns the writing round")
	}
	return wrong
}

// readable: what a person acts on is there without a script, and the page says what
// is missing.
func readable(t *testing.T, p *tab, v verdict) (wrong []string) {
	t.Helper()
	flat := func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, "`", "")), " ") }
	text := flat(ask[string](t, p, `document.body.innerText`))
	must := func(what, word string) {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(flat(word))) {
			wrong = append(wrong, fmt.Sprintf("%s cannot be read: %q", what, word))
		}
	}
	must("the verdict", v.Verdict)
	must("its reason", v.Reason)
	for _, l := range v.Ledgers {
		must("a ledger", l.Name)
		must("a ledger's state", l.State)
		must("a ledger's reason", l.Reason)
	}
	for _, e := range v.Expectations {
		must("an expectation", e.Name)
		must("an expectation's state", e.State)
	}
	for _, f := range v.Findings {
		must("a finding", f.Summary)
		for _, line := range slices.Concat(f.Evidence, f.Advice) {
			must("what a finding says", line)
		}
	}
	if drawn := ask[int](t, p, `document.querySelectorAll(".plot").length`); drawn > 0 && !regexp.MustCompile(`(?i)[^.]*\bplots?\b[^.]*\bJavaScript\b|[^.]*\bJavaScript\b[^.]*\bplots?\b`).MatchString(text) {
		wrong = append(wrong, "nothing says that the plots need JavaScript")
	}
	return wrong
}
