package report

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func TestThePolicyNamesTheScriptThatIsThere(t *testing.T) {
	page := htmlOf(t, htmlFail())
	var scripts []string
	policy := ""
	for _, e := range elements(t, page) {
		if e.Name == "script" {
			if kind, typed := e.get("type"); !typed {
				scripts = append(scripts, e.Text)
			} else if kind != "application/json" {
				t.Errorf("a script of type %q", kind)
			}
		}
		if _, is := e.get("http-equiv"); is {
			policy, _ = e.get("content")
		}
	}
	if len(scripts) != 1 {
		t.Fatalf("%d scripts run, want 1", len(scripts))
	}
	sum := sha256.Sum256([]byte(scripts[0]))
	policy = strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(policy)
	want := "default-src 'none'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
	if policy != want {
		t.Errorf("the policy is\n%s\nwant\n%s", policy, want)
	}
	if strings.Contains(scripts[0], "\r") {
		t.Error("a browser reads a carriage return as a line's end: the hash would be another one")
	}
	for _, needed := range []string{"uPlot", "aicrPlots", "Permission is hereby granted"} {
		if !strings.Contains(scripts[0], needed) {
			t.Errorf("the script has no %q", needed)
		}
	}
}

func TestAPageAsksNobodyForAnything(t *testing.T) {
	for name, report := range htmlPages() {
		for _, e := range elements(t, htmlOf(t, report())) {
			for _, a := range e.Attrs {
				switch {
				case strings.HasPrefix(a[0], "on"), a[0] == "src", a[0] == "srcset", a[0] == "action", a[0] == "style":
					t.Errorf("%s: <%s %s=%q", name, e.Name, a[0], a[1])
				case a[0] == "href" && !strings.HasPrefix(a[1], "#") && !strings.HasPrefix(a[1], "data:image/svg"):
					t.Errorf("%s: <%s leads to %q", name, e.Name, a[1])
				}
			}
			if e.Name == "style" && strings.Contains(e.Text, "url(") || e.Name == "style" && strings.Contains(e.Text, "@import") {
				t.Errorf("%s: the style sheet fetches something", name)
			}
		}
	}
}

// hostile is what texts of other people's may be.
func hostileTexts() []string {
	return []string{
		`</script><img src=x onerror=alert(1)>`,
		`"><script>alert(1)</script>`,
		`' onmouseover='alert(1)`,
		`<!--<script>`, `]]></style><b>`, `javascript:alert(1)`, "`${alert(1)}`", `{{.}}`, `\u003c/script>`,
		"\u202eدخيل\u202c 工人五号 \u2066x\u2069", "عامل\u200f", "\x1b[31mred\x07\x00", "\xff\xfe broken \xc3", "\u2028\u2029", "a\r\nb",
		strings.Repeat("long <b>line</b> ", 700_000),
	}
}

// fill sets every text and every number of a value, and makes what may be absent. Lists
// and maps that are empty get one element.
func fill(v reflect.Value, text string, number float64, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Float64:
		v.SetFloat(number)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint64:
		v.SetUint(3)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		if depth > 12 || v.Type() == reflect.TypeFor[*spec.Scenario]() {
			return
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem(), text, number, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Against" && f.Name != "Comparison" {
				fill(v.Field(i), text, number, depth+1)
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			fill(v.Index(i), text, number, depth+1)
		}
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, text, number, depth+1)
		key := reflect.New(v.Type().Key()).Elem()
		fill(key, text, number, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, e)
	case reflect.Interface:
		v.Set(reflect.ValueOf(text))
	default: // functions are not shown
	}
}

// filled is a report in which every text and every number is the given one.
func filled(text string, number float64, of func() *spec.Report, bench bool) *spec.Report {
	r := of()
	if bench {
		r.Bench = &spec.Bench{}
	}
	fill(reflect.ValueOf(r).Elem(), text, number, 0)
	if !bench {
		r.Bench = nil
	}
	if r.Against != nil {
		fill(reflect.ValueOf(r.Against).Elem(), text, number, 0)
		fill(reflect.ValueOf(r.Comparison).Elem(), text, number, 0)
		r.Against.Bench = nil
	}
	return r
}

// shape is what a browser makes of a page, without its words.
func shape(t testing.TB, page string) []string {
	var all []string
	for _, e := range elements(t, page) {
		line := e.Name
		for _, a := range e.Attrs {
			line += " " + a[0]
		}
		all = append(all, line)
	}
	return all
}

func TestHostileTextAddsNothingToThePage(t *testing.T) {
	for _, bench := range []bool{false, true} {
		for name, of := range map[string]func() *spec.Report{"run": htmlFail, "comparison": htmlTwo} {
			plain, typed := shape(t, htmlOf(t, filled("harmless", 1, of, bench))), shape(t, htmlOf(t, filled("`harmless`", 1, of, bench)))
			for _, text := range hostileTexts() {
				want := plain
				if strings.Count(text, "`") > 1 { // in an advice it is to be typed, and that is all
					want = typed
				}
				r := filled(text, 1, of, bench)
				if len(text) > mostText { // no part of a name goes into a command
					r.Judge, r.Page = "short", "short"
					if r.Against != nil {
						r.Against.Judge, r.Against.Page = "short", "short"
					}
				}
				page := htmlOf(t, r)
				if diff := cmp.Diff(want, shape(t, page)); diff != "" {
					t.Fatalf("%s with %.60q has other elements (-harmless +hostile):\n%.2000s", name, text, diff)
				}
				if len(page) > 1<<20 {
					t.Errorf("%s with %.60q has %d bytes", name, text, len(page))
				}
				for _, r := range page {
					if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfffd) {
						t.Fatalf("%s with %.60q shows %U", name, text, r)
					}
				}
				block(t, page)
			}
		}
	}
}

func TestHostileTextIsStillToBeRead(t *testing.T) {
	page := htmlOf(t, filled("<b>工人 عامل", 1, htmlFail, false))
	for _, want := range []string{"<bdi>&lt;b&gt;工人 عامل</bdi>", `data-worker="&lt;b&gt;工人 عامل"`, `"worker":"\u003cb\u003e工人 عامل"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// block is the data that the plots are drawn from.
func block(t testing.TB, page string) map[string]any {
	t.Helper()
	for _, e := range elements(t, page) {
		if id, _ := e.get("id"); id == "report-data" {
			var data map[string]any
			if err := json.Unmarshal([]byte(e.Text), &data); err != nil {
				t.Fatalf("the data is no JSON: %v\n%.300s", err, e.Text)
			}
			return data
		}
	}
	t.Fatal("the page has no data")
	return nil
}

func TestNoNumberIsTakenForOneThatIsNone(t *testing.T) {
	for _, number := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e308, -1e308, 5e-324, 0} {
		for _, bench := range []bool{false, true} {
			for name, of := range map[string]func() *spec.Report{"run": htmlFail, "comparison": htmlTwo} {
				page := htmlOf(t, filled("x", number, of, bench))
				data := block(t, page)
				if lane, ok := data["lanes"].([]any)[0].(map[string]any); !ok || !known(number) && lane["running"].([]any)[0] != nil {
					t.Errorf("%s of %v: the lane is %v", name, number, lane)
				}
				for _, e := range elements(t, page) {
					if e.Name == "script" || e.Name == "style" {
						continue
					}
					said := e.Text
					for _, a := range e.Attrs {
						said += " " + a[1]
					}
					for _, wrong := range []string{"NaN", "Inf", "nil", "%!", "2562047h"} {
						if strings.Contains(said, wrong) {
							t.Errorf("%s of %v: <%s says %.200q", name, number, e.Name, said)
						}
					}
				}
			}
		}
	}
}

func TestWhatWasNotMeasuredIsNotZero(t *testing.T) {
	r := htmlSkip()
	r.Lanes = []spec.Lane{{Worker: "0", By: "telemetry", T: spec.Values{1, 2}, Running: spec.Values{math.NaN(), math.NaN()}}}
	page := htmlOf(t, r)
	for _, want := range []string{
		`<td class="drawn"><span class="none">not measured</span></td>`,
		`part not known`,
		`aria-label="worker 0: an unknown number running on average, stalls: not looked for"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, value := range []*float64{nil, new(math.NaN())} {
		r.Verdict.Expectations[0].State, r.Verdict.Expectations[0].Value = spec.Pass, value
		if strings.Contains(htmlOf(t, r), "</svg>PASS</span>") {
			t.Error("what was not measured has passed")
		}
	}
	if strings.Contains(page, "<svg class=\"interval\"") {
		t.Error("an interval that nobody measured is drawn")
	}
}

func TestAnEpisodeOfWhichNobodyHasSaidThatItCountsIsNotToldToCountForNothing(t *testing.T) {
	for what, parts := range map[string][]spec.Part{"–": nil, "nothing": {{Episode: 1}}} {
		r := htmlPass()
		r.Episodes, r.Verdict.Parts = []spec.ReportEpisode{htmlEpisode(1, 0, 50, false)}, parts
		if want := `<td class="num">50.0</td><td>` + what + `</td>`; !strings.Contains(htmlOf(t, r), want) {
			t.Errorf("with the parts %v the page has no %s", parts, want)
		}
	}
}

func TestAPageIsWellFormed(t *testing.T) {
	heading := regexp.MustCompile(`^h[1-6]$`)
	for name, report := range htmlPages() {
		t.Run(name, func(t *testing.T) {
			all := elements(t, htmlOf(t, report()))
			ids, labels, level, ones := map[string]bool{}, map[string]bool{}, 0, 0
			var open []string
			for _, e := range all {
				if id, ok := e.get("id"); ok {
					if ids[id] {
						t.Errorf("two elements have the id %s", id)
					}
					ids[id] = true
				}
				if heading.MatchString(e.Name) {
					n := int(e.Name[1] - '0')
					if n > level+1 {
						t.Errorf("%s comes after h%d", e.Name, level)
					}
					if level = n; n == 1 {
						ones++
					}
				}
				if by, is := e.get("aria-labelledby"); is && e.Name == "section" {
					if labels[by] {
						t.Errorf("two sections have the name of %s", by)
					}
					labels[by] = true
				}
				if role, _ := e.get("role"); role == "region" {
					t.Error("a box that scrolls is no landmark: the section around it is one")
				}
				if _, scoped := e.get("scope"); e.Name == "th" && !scoped {
					t.Error("a th has no scope")
				}
				if plot, is := e.get("data-plot"); is {
					if label, _ := e.get("aria-label"); label == "" {
						t.Errorf("the plot %s has no words", plot)
					}
				}
				if class, _ := e.get("class"); e.Name == "svg" && (class == "interval" || class == "walk") {
					if label, _ := e.get("aria-label"); label == "" {
						t.Errorf("a picture has no words")
					}
				}
				switch closed, closes := strings.CutPrefix(e.Name, "/"); {
				case slices.Contains([]string{"!doctype", "meta", "link", "path", "rect", "circle", "use", "#"}, e.Name):
				case !closes:
					open = append(open, e.Name)
				case len(open) == 0 || open[len(open)-1] != closed:
					t.Fatalf("</%s> closes %v", closed, open)
				default:
					open = open[:len(open)-1]
				}
			}
			if ones != 1 {
				t.Errorf("%d first headings", ones)
			}
			tables, captions := 0, 0
			for _, e := range all {
				switch e.Name {
				case "table":
					tables++
				case "caption":
					captions++
				}
				for _, a := range e.Attrs {
					to, isLink := strings.CutPrefix(a[1], "#")
					switch {
					case a[0] == "href" && isLink, a[0] == "aria-labelledby":
						if a[0] == "aria-labelledby" {
							to = a[1]
						}
						if !ids[to] {
							t.Errorf("%s leads to %q, which is not there", a[0], to)
						}
					}
				}
			}
			if tables != captions {
				t.Errorf("%d tables, %d captions", tables, captions)
			}
		})
	}
}

func TestTheAnswerComesFirst(t *testing.T) {
	page := htmlOf(t, htmlFail())
	last := 0
	for _, part := range []string{`</span>FAIL</h1>`, "worker 1 stalled 3 times", "Which machine", "worker <bdi>1</bdi>", "GPU-1", "What to do now", "py-spy dump --pid PID", "Why one may believe it",
		`id="ledgers"`, `id="expectations"`, `id="fleet"`, `id="timeline"`, `id="distributions"`, `id="tests"`, `id="findings"`, `id="stalls"`, `id="figures"`, `id="client"`, `id="episodes"`, `id="environment"`, `id="plan"`, `id="notes"`, `id="history"`, `id="command"`,
		"aicr validate --url http://frontend:8000 --run monday", "aicr judge monday", "aicr report monday --report html=report.html"} {
		i := strings.Index(page[last:], part)
		if i < 0 {
			t.Fatalf("%q is not there, or too early", part)
		}
		last += i
	}
}

func has(t *testing.T, page string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("the page has no %s", text)
		}
	}
}

func hasNot(t *testing.T, page string, wrong ...string) {
	t.Helper()
	words, _, _ := strings.Cut(page, `<script type="application/json"`)
	for _, text := range wrong {
		if strings.Contains(words, text) {
			t.Errorf("the page has %s", text)
		}
	}
}

func TestWhereNobodyLookedForStallsThereAreNotNone(t *testing.T) {
	r := htmlPass()
	r.Verdict.Tests, r.Verdict.Ledgers[2].State, r.Verdict.Ledgers[2].Reason = nil, spec.NotJudged, "the published gate does not look"
	r.Verdict.Reason = "18,000 tokens/s"
	page := htmlOf(t, r)
	has(t, page, `of an equal part, stalls: not looked for</p>`, `W, stalls: not looked for"`, `; stalls: not looked for"`, `</svg>stalled: not looked for</li>`,
		`<td class="num">–</td><td class="num">–</td><td class="num">–</td><td class="num">0.0</td><td>–</td></tr>`, `<td class="num">74</td><td class="num">–</td></tr>`)
	hasNot(t, page, "never stalled", "0 stalls", "stalled never")

	r.Lanes = slices.Repeat(r.Lanes, 9)
	hasNot(t, htmlOf(t, r), "part, stalls: not looked for")

	for name, look := range map[string]func(){
		"the ledger was judged": func() { r.Verdict.Ledgers[2].State = spec.Inconclusive },
		"it was told, and not judged": func() {
			r.Verdict.Ledgers[2].State, r.Verdict.Tests = spec.NotJudged, []spec.Walk{{Ledger: spec.Stability, Low: -1, High: 1, Values: []float64{0}}}
		},
	} {
		look()
		if page := htmlOf(t, r); !strings.Contains(page, "never stalled") || strings.Contains(page, "not looked for") {
			t.Errorf("%s: and nobody looked", name)
		}
	}
}

func TestAStallOfTheWholeFleetIsOneOfEveryWorker(t *testing.T) {
	r := htmlFail()
	hasNot(t, htmlOf(t, r), "#key-fleet", "stalls with the fleet", "stalled with the fleet")
	r.Fleet.Stalls = []spec.Span{{From: 30, Until: 34}, {From: 119, Until: 124, Open: true}}
	page := htmlOf(t, r)
	has(t, page, `of an equal part, 2 stalls with the fleet</p>`, `of an equal part, 1 stall, 2 stalls with the fleet</p>`, `W, stalled with the fleet twice, 9.0 s in all"`,
		`stalled once, 8.0 s in all, stalled with the fleet twice, 9.0 s in all, unknown once`, `; the whole fleet stalled twice"`, `#key-fleet`,
		`<td class="num">0</td><td class="num">0.0</td><td class="num">2</td>`, `<td class="num">1</td><td class="num">8.0</td><td class="num">2</td>`)
	hasNot(t, page, "never stalled")
}

func TestAStallIsToldOnTheRunsClock(t *testing.T) {
	r := htmlFail()
	r.Verdict.Stalls = append(r.Verdict.Stalls, spec.Stall{Episode: 7, At: 3, Seconds: 1, Worker: "0"})
	has(t, htmlOf(t, r), `<td class="num">0:42</td><td class="num">8.0</td><td>1</td><td class="num">20.0</td>`, `<td class="num">1:59</td><td class="num">5.0</td><td>2</td><td class="num">45.0</td>`,
		`<td class="num">–</td><td class="num">1.0</td><td>7</td>`)
}

func TestTheSameIsToldAgainByTheCommandThatToldIt(t *testing.T) {
	r := htmlPass()
	r.Judge, r.Page = "aicr judge monday --profile certify", "aicr judge monday --profile certify --report html=report.html"
	has(t, htmlOf(t, r), `<dt>Judge the same record again</dt><dd><pre tabindex="0" dir="ltr"><code>aicr judge monday --profile certify</code>`, "<code>"+r.Page+"</code>")
	r.Judge, r.Page = "", "aicr report "+strings.Repeat("long", 1000)
	hasNot(t, htmlOf(t, r), "record again", "this page again")

	two := htmlOf(t, htmlTwo())
	has(t, two, "<h3>Both</h3>", "<code>aicr judge monday tuesday</code>", "<code>aicr report monday tuesday --report html=report.html</code>")
	for _, once := range []string{"records again", "this page again"} {
		if n := strings.Count(two, once); n != 1 {
			t.Errorf("%q stands there %d times", once, n)
		}
	}
	hasNot(t, two, "record again")
}

func TestAComparisonSaysOfWhichRunItTells(t *testing.T) {
	has(t, htmlOf(t, htmlTwo()), "Fleet of the second run</h2>", "A lane a worker of the second run,", "Findings of the second run</h2>",
		`aria-label="first run: TTFT of requests (n 3): half are below 31`, `74 ms; second run: TTFT of requests (n 3)`)
	r := htmlTwo()
	r.Against.Distributions = nil
	has(t, htmlOf(t, r), `aria-label="first run: not measured; second run: TTFT of`)
}

func TestTheCardSaysOfWhichRequestsItTells(t *testing.T) {
	card := func(r *spec.Report) string {
		page := htmlOf(t, r)
		return page[strings.Index(page, `id="verdict"`):strings.Index(page, `id="ledgers"`)]
	}
	r := htmlPass()
	r.Episodes[1].Requests.Interrupted, r.Episodes[2].Sentinel.Failed = 3, 2
	has(t, card(r), "<li>52,997 requests in the 2 episodes that counted, the sentinel&#39;s included; 2 failed</li>")
	r.Episodes = r.Episodes[:2]
	has(t, card(r), "<li>26,497 requests in the episode that counted, the sentinel&#39;s included; 0 failed</li>")
	r.Episodes[1].Counted = false
	has(t, card(r), "<li>52,997 requests in 2 episodes, the sentinel&#39;s included; 0 failed</li>")
	r.Episodes[0].Sentinel, r.Episodes[1].Sentinel = spec.RequestCounts{}, spec.RequestCounts{}
	has(t, card(r), "<li>51,997 requests in 2 episodes; 0 failed</li>")
}

func TestWhatSpeaksAgainstAVerdictIsNoReasonToBelieveIt(t *testing.T) {
	parts := func(r *spec.Report) (believe, doubt string) {
		h := newHTMLRun(r, "")
		return strings.Join(h.Believe, "|"), strings.Join(h.Doubt, "|")
	}
	r := htmlPass()
	believe, doubt := parts(r)
	if doubt != "3 of 600 samples of telemetry missing" || !strings.Contains(believe, "|the client passed its audit in all 3 episodes|") {
		t.Errorf("believe %q, doubt %q", believe, doubt)
	}
	has(t, htmlOf(t, r), "What speaks against it</h2>")
	for i := range r.Episodes {
		r.Episodes[i].Samples[1].Missing = 0
	}
	r.Episodes[0].Client.Valid = false
	believe, doubt = parts(r)
	if doubt != "the client passed its audit in 2 of 3 episodes" || !strings.HasSuffix(believe, "|all 600 samples of telemetry came") {
		t.Errorf("believe %q, doubt %q", believe, doubt)
	}
	r.Episodes = r.Episodes[1:2]
	if believe, doubt = parts(r); doubt != "" || !strings.Contains(believe, "|the client passed its audit|") {
		t.Errorf("believe %q, doubt %q", believe, doubt)
	}
	hasNot(t, htmlOf(t, r), "What speaks against it")
}

func TestMoreLoadIsAdvisedWhereTheReasonAsksForIt(t *testing.T) {
	r := htmlKilled()
	has(t, htmlOf(t, r), "What to do now</h2>", "more load would decide it</bdi>.</p>")
	r.Verdict.Reason = "how many workers there should be is not known: say so with --workers"
	hasNot(t, htmlOf(t, r), "What to do now")
	r.Verdict.Verdict, r.Verdict.Reason = spec.Invalid, "one more episode"
	hasNot(t, htmlOf(t, r), "What to do now")
}

func TestASentenceEndsOnce(t *testing.T) {
	for advice, want := range map[string]string{"is it throttled?": "throttled?</bdi> <a", "look at it.": "at it.</bdi> <a", "look at it": "at it</bdi>. <a"} {
		r := htmlFail()
		r.Verdict.Findings[1].Advice = []string{advice}
		has(t, htmlOf(t, r), want)
	}
}

func TestAnExpectationThatCannotBeDrawnWasMeasured(t *testing.T) {
	r := htmlPass()
	r.Verdict.Expectations[0].Value, r.Verdict.Expectations[0].Low = new(1.0), new(-1e308)
	r.Verdict.Expectations[0].High = new(1e308)
	r.Verdict.Expectations[1].Value = nil
	has(t, htmlOf(t, r), `<span class="none">not drawn</span>`, `<span class="none">not measured</span>`)
}

func TestTheKeyHasAFlagWhereALaneHasOne(t *testing.T) {
	r := htmlPass()
	hasNot(t, htmlOf(t, r), "event: point at it")
	r.Marks = append(r.Marks, spec.Mark{At: 30, Kind: spec.EventLog, Text: "slow", Worker: "1"})
	has(t, htmlOf(t, r), `#key-flag"/></svg>event: point at it</li>`)
}

func TestABenchTellsItsFiguresAndNotesOnce(t *testing.T) {
	page := htmlOf(t, htmlBench())
	hasNot(t, page, `id="figures"`, `#figures`, "half load")
	if n := strings.Count(page, "the server does not name its workers"); n != 1 {
		t.Errorf("the note stands there %d times", n)
	}
	has(t, page, `<td class="num">98</td><td class="num">2</td><td class="num">–</td>`) // its tokens, of which nobody has said how many
}

func TestLanesThatAFindingNamesComeFirst(t *testing.T) {
	r := htmlFail()
	r.Lanes = append(r.Lanes, spec.Lane{Worker: "2"})
	order := []string{}
	for _, e := range elements(t, htmlOf(t, r)) {
		if worker, is := e.get("data-worker"); is {
			lane, _ := e.get("data-lane")
			order = append(order, lane+"="+worker)
		}
	}
	if diff := cmp.Diff([]string{"1=1", "0=0", "2=2"}, order); diff != "" {
		t.Errorf("the lanes (-want +got):\n%s", diff)
	}
}

func TestLanesAreLowWhereThereAreMany(t *testing.T) {
	for n, want := range map[int]bool{16: false, 17: true} {
		r := htmlPass()
		r.Lanes = make([]spec.Lane, n)
		if got := strings.Contains(htmlOf(t, r), `class="lanes panel compact"`); got != want {
			t.Errorf("%d lanes are low: %v, want %v", n, got, want)
		}
	}
}

// The most that the builder puts into a report must fit into an e-mail.
func TestAPageOfTheLargestReportIsBelowThreeMegabytes(t *testing.T) {
	r := htmlFail()
	r.Lanes = nil
	for w := range 128 {
		l := spec.Lane{Worker: fmt.Sprintf("worker-%03d", w), GPU: fmt.Sprintf("GPU-040792f6-e2c2-471d-82f7-5b1fd97b1%03d", w), By: "telemetry", Known: true}
		for i := range 32_000 / 128 {
			at := 12*float64(i) + 0.123
			l.T, l.Running, l.Waiting = append(l.T, at), append(l.Running, 117+float64(i%11)), append(l.Waiting, float64(i%7))
			l.Rate, l.PowerT, l.Power = append(l.Rate, 8712.3+float64(i)), append(l.PowerT, at+0.4), append(l.Power, 571.6+float64(i%9))
		}
		r.Lanes = append(r.Lanes, l)
	}
	for i := range 4000 {
		at := 0.75 * float64(i)
		f := &r.Fleet
		f.T, f.Rate, f.InFlight, f.Failed = append(f.T, at), append(f.Rate, 912345.6-float64(i)), append(f.InFlight, 16384), append(f.Failed, 0)
		f.TTFT50, f.TTFT99 = append(f.TTFT50, 31.234+float64(i%5)), append(f.TTFT99, 77.234+float64(i%9))
	}
	if n := len(htmlOf(t, r)); n >= 3_000_000 || n < 1_000_000 {
		t.Errorf("the page has %d bytes", n)
	}
}

func TestARunWithNothingToDrawSaysSo(t *testing.T) {
	for name, want := range map[string][]string{
		"skip":         {"Nothing was loaded, so there is nothing to show of the workers.", "No episode was recorded, so there is nothing to draw over time.", "neither test has begun", "no client to audit"},
		"killed":       {"This run did not end. It was judged by its 1 whole episode."},
		"no-telemetry": {"No telemetry came from the workers", "no telemetry: by the client&#39;s own record alone"},
		"bench":        {"∞"},
	} {
		page := htmlOf(t, htmlPages()[name]())
		for _, sentence := range want {
			if !strings.Contains(page, sentence) {
				t.Errorf("%s does not say %q", name, sentence)
			}
		}
	}
}

func TestALongListIsCutAndSaysSo(t *testing.T) {
	r := htmlFail()
	r.Verdict.Stalls = slices.Repeat(r.Verdict.Stalls[:1], 1060)
	f := &r.Verdict.Findings[1]
	f.Evidence, f.Workers = slices.Repeat(f.Evidence, 2000), nil
	for i := range 30 {
		f.Workers = append(f.Workers, strconv.Itoa(i))
	}
	f.GPUs = nil
	page := htmlOf(t, r)
	for _, want := range []string{"and 1,010 more: verdict.json has them all.", "and 1980 more", `<li class="more">and 22 more</li>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := len(page); n > 300_000 {
		t.Errorf("the page has %d bytes", n)
	}
}

func TestEveryDiagnosisHasThePageThatAFindingPointsTo(t *testing.T) {
	for _, id := range spec.FindingIDs() {
		if _, err := os.Stat("../../" + diagnosisPage(id)); err != nil {
			t.Error(err)
		}
	}
	if got := diagnosisPage("../secret"); got != "" {
		t.Errorf("an unknown finding points to %s", got)
	}
}

// The words must be read by those who see little, in both themes and on paper.
func TestWordsStandOutFromTheirGround(t *testing.T) {
	css, err := assets.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	roots := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(string(css), -1)
	if len(roots) != 3 {
		t.Fatalf("%d themes, want light, dark and paper", len(roots))
	}
	needed := strings.Fields("ink muted grid paper panel run wait rate power stall silent pass fail warn note first second")
	for i, root := range roots {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--(\w+): (#[0-9a-f]{6});`).FindAllStringSubmatch(root[1], -1) {
			colours[m[1]] = m[2]
		}
		for _, name := range needed {
			if colours[name] == "" {
				t.Errorf("theme %d has no --%s", i, name)
			}
		}
		for _, ground := range []string{"paper", "panel", "code"} {
			for _, word := range []string{"ink", "muted", "pass", "fail", "warn", "note", "link"} {
				if c := contrast(t, colours[word], colours[ground]); c < 4.5 && (ground != "code" || word == "ink") {
					t.Errorf("theme %d: --%s on --%s has a contrast of %.2f", i, word, ground, c)
				}
			}
		}
		for _, line := range []string{"run", "wait", "rate", "power", "stall", "first", "second"} {
			if c := contrast(t, colours[line], colours["panel"]); c < 3 {
				t.Errorf("theme %d: a line in --%s has a contrast of %.2f", i, line, c)
			}
		}
	}
}

// contrast is that of WCAG 2: of relative luminances.
func contrast(t *testing.T, a, b string) float64 {
	light := func(colour string) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				sum += weight * c / 12.92
			} else {
				sum += weight * math.Pow((c+0.055)/1.055, 2.4)
			}
		}
		return sum
	}
	x, y := light(a), light(b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}
