package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is how long the program or the browser may take for what is usually
// done in a second.
const patience = 60 * time.Second

// What every test uses, set once before the first of them.
var (
	program   string          // aicr
	artefacts string          // where pages and screenshots are kept
	axe       string          // the source of axe-core
	chromium  context.Context // the browser
	proxy     *dead           // where a request that leaves the browser would go
	pages     pageSet         // the pages, by what they show
)

// TestMain starts the browser and makes the pages. Without axe-core there is
// nothing to run, and run.sh, which installs it, is the way to run these tests.
func TestMain(m *testing.M) {
	if os.Getenv("BROWSER_HOME") == "" {
		fmt.Fprintln(os.Stderr, "*** THE BROWSER TESTS WERE NOT RUN: they need an installation; use `make test-browser` ***")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	home := os.Getenv("BROWSER_HOME")
	program = os.Getenv("BROWSER_PROGRAM")
	artefacts = filepath.Join(home, "artefacts")
	source, err := os.ReadFile(filepath.Join(home, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	axe = string(source)

	if pages, err = makePages(artefacts); err != nil {
		fmt.Fprintln(os.Stderr, "making the pages:", err)
		return 1
	}

	if proxy, err = listenDead(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer proxy.close()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("disable-features", "Translate,OptimizationHints,OptimizationGuideModelDownloading,MediaRouter"),
		chromedp.Flag("gaia-url", "http://127.0.0.1:9"),
		chromedp.ProxyServer("http://"+proxy.addr()),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root with one
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	browser, stop := chromedp.NewContext(allocator)
	defer stop()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "starting chromium:", err)
		return 1
	}
	chromium = browser
	return m.Run()
}
