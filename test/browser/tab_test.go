package browser

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed watch.js
var watchJS string

//go:embed canvas.js
var canvasJS string

//go:embed look.js
var lookJS string

// view is how a page is looked at.
type view struct {
	width     int
	height    int // 900 when not said
	dark      bool
	noScript  bool
	unwatched bool // its canvases are left alone: for what measures time
}

func (v view) String() string {
	theme := "light"
	if v.dark {
		theme = "dark"
	}
	return fmt.Sprintf("%s-%d", theme, v.width)
}

// tab is a page that is open, with what it did that no page of ours may do.
type tab struct {
	ctx context.Context
	url string

	mu    sync.Mutex
	wrong []string
}

func (p *tab) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := fmt.Sprintf(format, args...); !slices.Contains(p.wrong, s) {
		p.wrong = append(p.wrong, s)
	}
}

// open opens a file as a double click does, and waits until it is drawn.
func open(t *testing.T, file string, v view) *tab {
	t.Helper()
	p := newTab(t, file, v)
	p.load(t, v)
	return p
}

func newTab(t *testing.T, file string, v view) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext()) // a window of its own, which is drawn beside others
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	t.Cleanup(stop)
	p := &tab{ctx: ctx, url: "file://" + file}
	p.listen()
	call(t, p, network.Enable, network.EnableParams{})
	call(t, p, log.Enable, cdp.Empty{})
	call(t, p, runtime.Enable, cdp.Empty{})
	call(t, p, fetch.Enable, fetch.EnableParams{})
	call(t, p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.noScript})
	call(t, p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	p.theme(t, v.dark)
	p.resize(t, v.width, v.height)
	scripts := []string{watchJS}
	if !v.unwatched {
		scripts = append(scripts, canvasJS)
	}
	for _, script := range scripts {
		call(t, p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	}
	return p
}

func (p *tab) load(t *testing.T, v view) {
	t.Helper()
	p.do(t, chromedp.Navigate(p.url))
	if v.noScript {
		return
	}
	ask[any](t, p, lookJS)
	if !ask[bool](t, p, `browserLook.isDrawn()`) {
		t.Fatalf("%s never says that it is drawn; it did: %q", filepath.Base(p.url), p.heard())
	}
}

// listen takes down what a quiet page never does.
func (p *tab) listen() {
	hear(p, fetch.RequestPaused, p.answer)
	hear(p, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) { p.asked(e.Request.URL) })
	hear(p, network.WebSocketCreated, func(e network.EventWebSocketCreated) { p.asked(e.URL) })
	hear(p, network.WebTransportCreated, func(e network.EventWebTransportCreated) { p.asked(e.URL) })
	hear(p, log.EntryAdded, func(e log.EventEntryAdded) { p.note("log: %s: %s", e.Entry.Level, e.Entry.Text) })
	hear(p, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description + string(x.Value)
		}
		p.note("exception: %s", text)
	})
	hear(p, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if !slices.Contains([]string{"error", "warning", "assert"}, string(e.Type)) {
			return
		}
		var said []string
		for _, arg := range e.Args {
			said = append(said, string(arg.Value)+arg.Description)
		}
		p.note("console: %s: %s", e.Type, strings.Join(said, " "))
	})
	hear(p, page.JavascriptDialogOpening, func(e page.EventJavascriptDialogOpening) {
		p.note("dialog: %s", e.Message)
		_ = send(p, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
	})
}

// hear takes an event down for as long as the tab is open.
func hear[E any](p *tab, event cdp.Event[E], take func(E)) {
	events := chromedp.Events(p.ctx, event)
	go func() {
		for e, err := range events {
			if err != nil {
				return // the tab was closed
			}
			take(e)
		}
	}()
}

// asked notes a request, but for the page itself and what needs none.
func (p *tab) asked(url string) {
	if url != p.url && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, p.url+"#") {
		p.note("request: %s", url)
	}
}

// answer lets the page itself through, and nothing else.
func (p *tab) answer(e fetch.EventRequestPaused) {
	p.asked(e.Request.URL)
	if e.Request.URL == p.url || strings.HasPrefix(e.Request.URL, "data:") {
		_ = send(p, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID})
		return
	}
	_ = send(p, fetch.FailRequest, fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: network.ErrorReasonBlockedByClient})
}

// heard is what was noted so far.
func (p *tab) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.wrong)
}

// send gives the browser a command of which nothing is wanted back.
func send[P, R any](p *tab, command cdp.Command[P, R], params P) error {
	return chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	}))
}

// call gives the browser a command.
func call[P, R any](t *testing.T, p *tab, command cdp.Command[P, R], params P) R {
	t.Helper()
	result, err := chromedp.Run(p.ctx, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	})
	if err != nil {
		t.Fatalf("%s: %s: %v; it did: %q", filepath.Base(p.url), command.Method, err, p.heard())
	}
	return result
}

func (p *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		t.Fatalf("%s: %v; it did: %q", filepath.Base(p.url), err, p.heard())
	}
}

// ask evaluates an expression in the page, and waits for it where it is a promise.
func ask[T any](t *testing.T, p *tab, expression string, args ...any) T {
	t.Helper()
	if len(args) > 0 {
		quoted := make([]any, len(args))
		for i, arg := range args {
			b, err := json.Marshal(arg)
			if err != nil {
				t.Fatal(err)
			}
			quoted[i] = string(b)
		}
		expression = fmt.Sprintf(expression, quoted...)
	}
	answer, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %.80s: %v; it did: %q", filepath.Base(p.url), expression, err, p.heard())
	}
	return answer
}

func (p *tab) theme(t *testing.T, dark bool) {
	t.Helper()
	p.media(t, "", dark)
}

// media sets what the page is looked at with, such as print.
func (p *tab) media(t *testing.T, name string, dark bool) {
	t.Helper()
	theme := "light"
	if dark {
		theme = "dark"
	}
	call(t, p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: name, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
}

func (p *tab) resize(t *testing.T, width, height int) {
	t.Helper()
	call(t, p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: int64(width), Height: int64(cmp.Or(height, 900)), DeviceScaleFactor: 1,
	})
}

// point moves the real pointer.
func (p *tab) point(t *testing.T, x, y float64) {
	t.Helper()
	call(t, p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y})
}

// leave goes to an empty page.
func (p *tab) leave(t *testing.T) {
	t.Helper()
	call(t, p, fetch.Disable, cdp.Empty{})
	p.do(t, chromedp.Navigate("about:blank"))
}

// shoot keeps a picture of the whole page.
func (p *tab) shoot(t *testing.T, name string) {
	t.Helper()
	const most = 8_000 // px: what comes after is tables
	size := ask[struct{ W, H float64 }](t, p, `({W: innerWidth, H: document.documentElement.scrollHeight})`)
	beyond := true
	picture := call(t, p, page.CaptureScreenshot, page.CaptureScreenshotParams{
		CaptureBeyondViewport: &beyond,
		Clip:                  &page.Viewport{Width: size.W, Height: min(size.H, most), Scale: 1},
	})
	if err := os.WriteFile(filepath.Join(artefacts, name+".png"), picture.Data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// dead is a proxy that answers nothing: the browser's way out, which is watched.
type dead struct {
	listener net.Listener

	mu    sync.Mutex
	asked []string
}

func listenDead() (*dead, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &dead{listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			go d.hear(c)
		}
	}()
	return d, nil
}

func (d *dead) hear(c net.Conn) {
	defer c.Close()
	line, _ := bufio.NewReader(c).ReadString('\n')
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, strings.TrimSpace(line))
}

func (d *dead) addr() string { return d.listener.Addr().String() }

func (d *dead) close() { _ = d.listener.Close() }

// requests are the first lines of what came.
func (d *dead) requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked)
}
