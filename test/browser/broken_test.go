package browser

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A break is a defect that a page of ours does not have, put into a copy of one.
type breaking func(html string) string

// also does one thing after another.
func also(all ...breaking) breaking {
	return func(html string) string {
		for _, b := range all {
			html = b(html)
		}
		return html
	}
}

// add puts markup at the end of the page.
func add(markup string) breaking {
	return func(html string) string {
		at := strings.LastIndex(html, "</body>")
		if at < 0 {
			at = len(html)
		}
		return html[:at] + markup + html[at:]
	}
}

// first puts markup at the start of the page, before any script.
func first(markup string) breaking {
	return func(html string) string {
		head := regexp.MustCompile(`<head[^>]*>`).FindStringIndex(html)
		if head == nil {
			return html
		}
		return html[:head[1]] + markup + html[head[1]:]
	}
}

// unguarded takes the page's policy away, which would refuse a script that is not its own.
func unguarded(html string) string {
	return regexp.MustCompile(`(?i)<meta[^>]*content-security-policy[^>]*>`).ReplaceAllString(html, "")
}

// script runs when the page is drawn.
func script(js string) breaking {
	return also(unguarded, add(`<script>{
		const act = () => { `+js+` };
		const wait = () => document.documentElement.dataset.drawn === "yes" ? act() : requestAnimationFrame(wait);
		wait();
	}</script>`))
}

// early runs before the page's own scripts.
func early(js string) breaking { return also(unguarded, first(`<script>`+js+`</script>`)) }

// without takes away what a pattern finds.
func without(pattern string) breaking {
	return func(html string) string { return regexp.MustCompile(pattern).ReplaceAllString(html, "") }
}

type check func(t *testing.T, p *tab) []string

// TestTheChecksSee: each check finds what is wrong with a page that is broken for it.
// A check that could not fail would say nothing of a page that passes it.
func TestTheChecksSee(t *testing.T) {
	lanes := func(m made) check {
		return func(t *testing.T, p *tab) []string { return laneAWorker(t, p, m.workers) }
	}
	paper := func(m made) check {
		return func(t *testing.T, p *tab) []string { return printed(t, p, m.workers, "") }
	}
	hover := func(t *testing.T, p *tab) []string { return linked(t, p, `.plot[data-plot="rate"]`) }
	names := func(t *testing.T, p *tab) []string { return inert(t, p, hostileModel, hostileWorkers()) }
	told := func(t *testing.T, p *tab) []string { return readable(t, p, pages.small.verdict) }
	themes := check(themed)

	small, many, hostile := pages.small, pages.many, pages.hostile
	wide := view{width: 1280}
	high := view{width: 1280, height: 9000}
	narrow := view{width: 400}
	scriptless := view{width: 1280, noScript: true}
	for _, c := range []struct {
		name  string
		page  made
		view  view
		spoil breaking
		check check
		want  string
	}{
		{"a remote image that the policy refuses", small, wide, add(`<img alt="" src="https://example.invalid/x.png">`), quiet, "policy: img-src"},
		{"a remote image", small, wide, also(unguarded, add(`<img alt="" src="https://example.invalid/x.png">`)), quiet, "request: https://example.invalid/x.png"},
		{"a remote font", small, wide, also(unguarded, add(`<style>@font-face{font-family:x;src:url(https://example.invalid/x.woff)}main,body{font-family:x}</style>`)), quiet, "request: https://example.invalid/x.woff"},
		{"a beacon", small, wide, script(`navigator.sendBeacon("https://example.invalid/b")`), quiet, "request: https://example.invalid/b"},
		{"a socket", small, wide, script(`new WebSocket("wss://example.invalid/s")`), quiet, "request: wss://example.invalid/s"},
		{"another file", small, wide, also(unguarded, add(`<script src="other.js"></script>`)), quiet, "request: file://"},
		{"a script that the policy refuses", small, wide, add(`<script>1</script>`), quiet, "policy: script-src"},
		{"a handler that the policy refuses", small, wide, add(`<svg onload="1"></svg>`), quiet, "policy: script-src"},
		{"console.error", small, wide, script(`console.error("oh")`), quiet, `console: error: "oh"`},
		{"an exception", small, wide, script(`setTimeout(() => { throw new Error("oh") })`), quiet, "exception: Uncaught Error: oh"},
		{"a promise that nobody keeps", small, wide, script(`Promise.reject(new Error("oh"))`), quiet, "exception: Uncaught (in promise) Error: oh"},
		{"a dialog", small, wide, script(`alert("oh")`), quiet, "dialog: oh"},

		{"a lane too few", small, wide, script(`[...document.querySelectorAll(".lane")].at(-1).remove()`), lanes(small), "1 lanes of 2 workers"},
		{"a lane too many", small, wide, script(`const l = document.querySelector(".lane"); l.after(l.cloneNode(true))`), lanes(small), "3 lanes of 2 workers"},
		{"a worker twice", small, wide, script(`const [a, b] = document.querySelectorAll(".lane"); a.dataset.worker = b.dataset.worker`), lanes(small), "2 lanes are of 1 workers"},
		{"a lane that is never drawn", many, wide, also(unguarded, first(`<style>.lane:last-child .plot{display:none}</style>`), script(`const l = [...document.querySelectorAll(".lane")].at(-1); l.querySelector(".plot").remove()`)), lanes(many), "127 drawn lanes of 128 workers"},
		{"an empty canvas", small, wide, early(`CanvasRenderingContext2D.prototype.stroke = CanvasRenderingContext2D.prototype.fill = CanvasRenderingContext2D.prototype.fillText = CanvasRenderingContext2D.prototype.fillRect = CanvasRenderingContext2D.prototype.strokeRect = () => {}`), lanes(small), "is not drawn"},

		{"a plot that does not follow", small, high, script(`const {plot} = aicrPlots.find((p) => p.kind === "ttft"); uPlot.sync(plot.cursor.sync.key).unsub(plot)`), hover, "ttft has no cursor"},
		{"a cursor at another time", small, high, script(`const {plot} = aicrPlots.find((p) => p.kind === "ttft"); plot.posToVal = () => 0`), hover, "the cursor of ttft is at"},
		{"a legend that says nothing", small, high, script(`setInterval(() => document.querySelectorAll('[data-plot="ttft"] .plot-legend').forEach((e) => { e.textContent = "p50" }), 1)`), hover, "the legend of ttft says the same"},

		{"no skip link", small, wide, script(`document.querySelector("body a").remove()`), keyboard, "no skip link"},
		{"a skip link to nowhere", small, wide, script(`document.querySelector("a").href = "#nowhere"`), keyboard, "does not lead to #nowhere"},
		{"a plot that Tab passes", small, wide, script(`document.querySelector('[data-plot="ttft"]').tabIndex = -1`), keyboard, "Tab does not reach ttft"},
		{"a focus that is not seen", small, wide, add(`<style>*:focus{outline:none!important;box-shadow:none!important}</style>`), keyboard, "does not show that it has the focus"},
		{"arrows that do nothing", small, wide, early(`addEventListener("keydown", (e) => { if (e.key.startsWith("Arrow")) e.stopImmediatePropagation() }, true)`), keyboard, "no plot has a cursor"},
		{"no way out", small, wide, early(`addEventListener("keydown", (e) => { if (e.key === "Escape") e.stopImmediatePropagation() }, true)`), keyboard, "leaves a cursor on"},

		{"text on text", small, narrow, add(`<p style="position:absolute;top:0;left:0;margin:0;font-size:40px;line-height:1;width:100%;height:400px;overflow:hidden;word-break:break-all">` + strings.Repeat("over", 200) + `</p>`), layout, "overlap by"},
		{"text on a plot", small, narrow, script(`document.querySelectorAll(".lane").forEach((l) => { l.style.position = "relative"; const p = l.querySelector(".plot"); l.insertAdjacentHTML("beforeend", '<p style="position:absolute;margin:0;left:' + (p.offsetLeft + 40) + 'px;top:' + (p.offsetTop + 50) + 'px">over it</p>') })`), layout, `"a canvas" and "over it" overlap`},
		{"a page too wide", small, narrow, add(`<div style="width:1000px">wide</div>`), layout, "the document is 1000 px wide in a view of 400"},
		{"text that is cut off", small, narrow, add(`<div style="width:60px;overflow:hidden;white-space:nowrap">a sentence that does not fit</div>`), layout, `"a sentence that does not fit" is cut off by a box around it`},
		{"text beyond the edge", small, narrow, add(`<div style="overflow:visible;position:fixed;left:380px;top:0;white-space:nowrap">beyond the edge of it</div>`), layout, `"beyond the edge of it" is cut off by the page's edge`},
		{"text on text in a folded part", small, narrow, add(`<details><summary>more</summary><div style="position:relative;height:60px"><p style="position:absolute;margin:0">one text</p><p style="position:absolute;margin:0">two text</p></div></details>`), layout, `unfolded: "one text" and "two text" overlap`},
		{"text on text in a canvas", small, narrow, script(`setInterval(() => { const c = document.querySelector('[data-plot="rate"] canvas').getContext("2d"); c.fillText("12345", 50, 50); c.fillText("54321", 55, 52) }, 10)`), layout, "on the canvas of rate:"},
		{"text cut off by a canvas", small, narrow, script(`setInterval(() => { const k = document.querySelector('[data-plot="rate"] canvas'), c = k.getContext("2d"); c.textAlign = "left"; c.fillText("12345678", k.width - 5, 50) }, 10)`), layout, `on the canvas of rate: "12345678" is cut off`},

		{"plots that do not follow the theme", small, wide, early(`const real = matchMedia; window.matchMedia = (q) => ({matches: false, media: q, addEventListener() {}, removeEventListener() {}, addListener() {}, removeListener() {}})`), themes, "in the same colours in dark"},

		{"a picture without words", small, wide, add(`<main><img src="data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="></main>`), accessible, "axe image-alt"},
		{"pale text", small, view{width: 400, dark: true}, add(`<p style="color:#777;background:#666">pale</p>`), accessible, "axe color-contrast"},

		{"lanes that are not drawn for paper", many, wide, early(`addEventListener("beforeprint", (e) => e.stopImmediatePropagation(), true); const real = matchMedia; window.matchMedia = (q) => q.includes("print") ? {matches: false, addEventListener() {}, addListener() {}} : real(q)`), paper(many), "lanes of 128 were drawn for printing"},
		{"lanes that may be torn", small, wide, add(`<style>.lane{break-inside:auto!important;page-break-inside:auto!important}</style>`), paper(small), "2 lanes may be cut in two"},
		{"dark paper", small, view{width: 1280, dark: true}, add(`<style>:root{--paper:#111!important}</style>`), paper(small), "the paper is printed dark"},
		{"the dark theme's ink on paper", small, view{width: 1280, height: 3000, dark: true}, early(`addEventListener("beforeprint", (e) => e.stopImmediatePropagation(), true); const real = matchMedia; window.matchMedia = (q) => q.includes("print") ? {matches: false, addEventListener() {}} : real.call(window, q)`), paper(small), "which is an ink of the dark theme"},
		{"nothing to print", small, wide, add(`<style>@media print{body>*{display:none!important}}</style>`), paper(small), "0 lanes of 2 are on paper"},

		{"an element from a name", hostile, wide, also(unguarded, add(hostileModel[len("</script>"):])), names, "an element that nobody asked for: <img"},
		{"a name that is obeyed", hostile, wide, also(unguarded, add(hostileModel[len("</script>"):])), names, "dialog: 1"},
		{"a name that is lost", hostile, wide, script(`const w = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); for (let n; n = w.nextNode();) n.data = n.data.replace("<" + "/script>", "")`), names, "the model's name cannot be read"},
		{"a worker without its name", hostile, wide, script(`document.querySelectorAll(".lane").forEach((e) => { const w = document.createTreeWalker(e, NodeFilter.SHOW_TEXT); for (let n; n = w.nextNode();) n.data = n.data.replace("推", "?") })`), names, `no lane says the name "推理节点-甲"`},
		{"text that runs backwards", hostile, wide, add("<p>a \u202eb</p>"), names, "turns the writing round"},

		{"no word of what is missing", small, scriptless, without(`(?s)<noscript>.*?</noscript>`), told, "nothing says that the plots need JavaScript"},
		{"a verdict that a script writes", small, scriptless, without(regexp.QuoteMeta(small.verdict.Reason)), told, "its reason cannot be read"},
		{"ledgers that are hidden", small, scriptless, add(`<style>#ledgers,.ledgers,[class*=ledger]{display:none!important}</style>`), told, "a ledger"},
		{"expectations that are hidden", small, scriptless, add(`<style>#expectations{display:none!important}</style>`), told, "an expectation"},
		{"findings that are hidden", small, scriptless, add(`<style>#findings{display:none!important}</style>`), told, "what a finding says cannot be read"},

		{"a page that is slow", small, wide, also(unguarded, add(`<script>for (let i = 0; i < 60; i++) `+work+`</script>`)), func(t *testing.T, p *tab) []string { return opensInTime(t, strings.TrimPrefix(p.url, "file://"), 1) }, "pieces of work to open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			whole, err := os.ReadFile(c.page.file)
			if err != nil {
				t.Fatal(err)
			}
			broken := c.spoil(string(whole))
			if broken == string(whole) {
				t.Fatal("the page was not broken")
			}
			file := filepath.Join(t.TempDir(), "broken.html")
			if err := os.WriteFile(file, []byte(broken), 0o644); err != nil {
				t.Fatal(err)
			}
			wrong := c.check(t, open(t, file, c.view))
			if !strings.Contains(strings.Join(wrong, "\n"), c.want) {
				t.Errorf("the check does not see it; it says %q, wanted %q", wrong, c.want)
			}
		})
	}
}

// TestTheWayOutIsWatched: what the browser's own protocol does not tell, such as a
// connection that is opened ahead of time, is seen by the proxy.
func TestTheWayOutIsWatched(t *testing.T) {
	before := len(proxy.requests())
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(`<!doctype html><html data-drawn="yes"><title>x</title><link rel="preconnect" href="http://example.invalid/"><p>x`), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newTab(t, file, view{width: 400})
	p.leave(t) // requests are no longer stopped
	p.load(t, view{width: 400})
	ask[bool](t, p, `fetch("http://example.invalid/x").then(() => true, () => true)`)
	if len(proxy.requests()) == before {
		t.Error("the proxy was not asked for a page of another host")
	}
}
