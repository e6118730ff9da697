package browser

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// tell fails a test with all that a check has found.
func tell(t *testing.T, wrong []string) {
	t.Helper()
	for _, s := range wrong {
		t.Error(s)
	}
}

// each looks at some pages, beside each other.
func each(t *testing.T, all []made, look func(t *testing.T, m made)) {
	t.Helper()
	t.Run("pages", func(t *testing.T) {
		for _, m := range all {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				look(t, m)
			})
		}
	})
}

// housekeeping are the hosts that Chromium asks of its own accord, some minutes after
// its start and whatever flags it is given, for updates of itself. A page that asked
// one of them would be told of by the browser's protocol, which knows no exception.
var housekeeping = regexp.MustCompile(`(?:^CONNECT |://)[a-z0-9.-]+\.(?:googleapis|google|gvt1)\.com[:/]`)

// TestQuiet: no request leaves a page, and the browser has nothing to complain of.
// The way out of the browser is watched from outside as well.
func TestQuiet(t *testing.T) {
	before := len(proxy.requests())
	each(t, pages.all(), func(t *testing.T, m made) {
		p := open(t, m.file, view{width: 1280})
		ask[[]string](t, p, `browserLook.drawAll()`)
		ask[any](t, p, `browserLook.unfold()`)
		tell(t, quiet(t, p))
	})
	for _, line := range proxy.requests()[before:] {
		if housekeeping.MatchString(line) {
			continue
		}
		t.Errorf("the browser asked the network: %s", line)
	}
}

// TestLaneAWorker: the fleet picture has a lane for each worker, and draws it.
func TestLaneAWorker(t *testing.T) {
	each(t, []made{pages.healthy, pages.stall, pages.blind, pages.untold, pages.many, pages.hostile, pages.skip}, func(t *testing.T, m made) {
		tell(t, laneAWorker(t, open(t, m.file, view{width: 1280}), m.workers))
	})
}

// TestHover: the pointer over one plot moves the cursor on all. The view is so high
// that all are in it: a legend that nobody sees need not say anything.
func TestHover(t *testing.T) {
	each(t, []made{pages.stall, pages.compare}, func(t *testing.T, m made) {
		p := open(t, m.file, view{width: 1280, height: 9000})
		for _, over := range []string{"rate", "ttft", "inflight", "lane"} {
			t.Run(over, func(t *testing.T) { tell(t, linked(t, p, `.plot[data-plot="`+over+`"]`)) })
		}
	})
}

// TestKeyboard: everything that a mouse can do here, keys can.
func TestKeyboard(t *testing.T) {
	tell(t, keyboard(t, open(t, pages.stall.file, view{width: 1280})))
}

// TestLayout: at each width, in each theme, everything has a place of its own.
// The pictures are kept.
func TestLayout(t *testing.T) {
	each(t, []made{pages.stall, pages.many, pages.compare, pages.bench, pages.skip}, func(t *testing.T, m made) {
		for _, width := range []int{400, 1280, 2000} { // a telephone, a laptop, a large screen
			p := open(t, m.file, view{width: width})
			for _, dark := range []bool{false, true} {
				looksWell(t, p, m, view{width: width, dark: dark})
			}
		}
	})
}

// TestLayoutOfOddRuns: what is missing or too long in a run needs its place too.
func TestLayoutOfOddRuns(t *testing.T) {
	each(t, []made{pages.hostile, pages.blind, pages.untold}, func(t *testing.T, m made) {
		for _, v := range []view{{width: 400}, {width: 1280, dark: true}} {
			looksWell(t, open(t, m.file, v), m, v)
		}
	})
}

func looksWell(t *testing.T, p *tab, m made, v view) {
	t.Run(v.String(), func(t *testing.T) {
		p.theme(t, v.dark)
		wrong := layout(t, p)
		p.shoot(t, m.name+"-"+v.String())
		tell(t, wrong)
	})
}

// TestResize: a page that is made narrow while it is open is as one that was opened so.
func TestResize(t *testing.T) {
	p := open(t, pages.stall.file, view{width: 2000})
	ask[[]string](t, p, `browserLook.drawAll()`)
	p.resize(t, 400, 0)
	ask[bool](t, p, `new Promise((done) => setTimeout(() => requestAnimationFrame(() => done(true)), 300))`)
	tell(t, layout(t, p))
}

// TestTheme: the plots are drawn anew when the theme changes.
func TestTheme(t *testing.T) {
	each(t, []made{pages.stall, pages.compare}, func(t *testing.T, m made) {
		tell(t, themed(t, open(t, m.file, view{width: 1280})))
	})
}

// TestAccessible: axe-core finds nothing, in both themes, wide and narrow.
func TestAccessible(t *testing.T) {
	each(t, []made{pages.stall, pages.skip, pages.bench, pages.compare}, func(t *testing.T, m made) {
		p := open(t, m.file, view{width: 1280})
		for _, v := range []view{{width: 1280}, {width: 1280, dark: true}, {width: 400, dark: true}, {width: 400}} {
			t.Run(v.String(), func(t *testing.T) {
				p.theme(t, v.dark)
				p.resize(t, v.width, v.height)
				tell(t, accessible(t, p))
			})
		}
	})
}

// TestPrint: the page can be handed round on paper.
func TestPrint(t *testing.T) {
	each(t, []made{pages.stall, pages.many, pages.skip}, func(t *testing.T, m made) {
		tell(t, printed(t, open(t, m.file, view{width: 1280, dark: true}), m.workers, filepath.Join(artefacts, m.name+".pdf")))
	})
}

// TestOpensInTime: with 128 workers the page is there in two seconds.
func TestOpensInTime(t *testing.T) {
	info, err := os.Stat(pages.many.file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s has %d KB", filepath.Base(pages.many.file), info.Size()/1024)
	tell(t, opensInTime(t, pages.many.file, 3))
}

// TestHostile: what came from outside is shown, and not obeyed.
func TestHostile(t *testing.T) {
	p := open(t, pages.hostile.file, view{width: 1280})
	ask[[]string](t, p, `browserLook.drawAll()`)
	ask[any](t, p, `browserLook.unfold()`)
	tell(t, inert(t, p, hostileModel, hostileWorkers()))
}

// TestWithoutScript: what one acts on is there without JavaScript.
func TestWithoutScript(t *testing.T) {
	each(t, []made{pages.stall, pages.skip, pages.hostile, pages.compare}, func(t *testing.T, m made) {
		p := open(t, m.file, view{width: 1280, noScript: true})
		p.shoot(t, m.name+"-without-script")
		tell(t, readable(t, p, m.verdict))
	})
}
