package graph

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/kube"
)

// A log that is read again from its beginning is passed over up to where it was left, in
// lines of ours and of others.
func TestALogIsGoneOnWithWhereItWasLeft(t *testing.T) {
	one, two, three := numberedLine(1, LineNote, "one"), numberedLine(2, LineNote, "two"), numberedLine(3, LineDone, "three")
	all := []string{"a", one, "b", "b", two, "c", "c", three, "d"}
	want := []string{"a", "one", "b", "b", "two", "c", "c", "three", "d"}
	for first := range all {
		for second := range all {
			var got []string
			f := &follower{s: testSettings(), hear: func(l LoadLine) { got = append(got, l.Text) }, done: make(chan struct{})}
			for _, part := range [][]string{all[:first], all[:second], all} {
				at := place{}
				for _, line := range part {
					f.line(&at, []byte(line))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("broken after %d and %d lines (-want +got):\n%s", first, second, diff)
			}
		}
	}
}

func TestWhatOthersPrintIsMaskedAndItsEndKept(t *testing.T) {
	s := testSettings()
	s.Engine = EngineAIPerf
	var heard []string
	f := &follower{s: s, hear: func(l LoadLine) { heard = append(heard, l.Text) }, done: make(chan struct{})}
	at := place{}
	f.line(&at, []byte("Authorization: Bearer verysecret"))
	for i := range 2 * mostTail {
		f.line(&at, []byte(digits(i)))
	}
	if strings.Contains(strings.Join(append(heard, f.tail...), "\n"), "verysecret") {
		t.Error("a secret is printed")
	}
	if len(f.tail) != mostTail || f.tail[mostTail-1] != digits(2*mostTail-1) {
		t.Errorf("kept are %d lines, the last %q", len(f.tail), f.tail[len(f.tail)-1])
	}
	long := []byte(strings.Repeat("x", 1<<20))
	for range 20 {
		f.line(&at, long)
	}
	if n := f.text.Len(); n > mostAIPerfLog+2<<20 {
		t.Errorf("%d bytes of AIPerf's log are kept", n)
	}
}

// recorded has a fake load give its record.
func (f *fakeLoad) recorded(t *testing.T) *fakeLoad {
	whole := recordOf(t, testRun)
	f.exec = func(_ []string, stdout io.Writer) error {
		_, err := stdout.Write(whole)
		return err
	}
	return f
}

// deaf is an API some of whose logs do not end with the context: who reads one has to close
// it.
type deaf struct{ *fakeLoad }

func (d deaf) Logs(ctx context.Context, namespace, pod, container string, o kube.LogOptions) (io.ReadCloser, error) {
	if d.hangs == 0 {
		return d.fakeLoad.Logs(ctx, namespace, pod, container, o)
	}
	d.hangs--
	r, _ := io.Pipe() // on which nothing ever comes
	return r, nil
}

func TestAConnectionIsLeftWhenItIsDeadAndNotBefore(t *testing.T) {
	for name, c := range map[string]struct {
		hangs  int
		deaf   bool
		opened int // how often the log was
	}{
		"it lives":               {0, false, 1},
		"it dies":                {2, false, 3},
		"it dies, unknown to us": {2, true, 1}, // besides those on which nothing came
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad().recorded(t)
				f.hangs = c.hangs
				var api API = f
				if c.deaf {
					api = deaf{f}
				}
				lines := []string{}
				for i := range 20 {
					lines = append(lines, numberedLine(i+1, LineAlive, ""))
				}
				go f.print(10*time.Second, append(lines, numberedLine(21, LineDone, "done"))...)
				began := time.Now()
				out, err := FollowLoad(t.Context(), api, testSettings(), Told{}, &memorySpool{}, nil)
				if err != nil || out.By != ByRecord || f.logsOut != c.opened {
					t.Errorf("%+v, %v, the log was opened %d times", out, err, f.logsOut)
				}
				if took := time.Since(began); took > 4*time.Minute {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestALineLongerThanAnyIsHeardInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad().recorded(t)
		f.log = []string{strings.Repeat("x", mostLogLine*3/2), numberedLine(1, LineDone, "done")}
		heard := 0
		out, err := FollowLoad(t.Context(), f, testSettings(), Told{}, &memorySpool{}, func(l LoadLine) { heard += strings.Count(l.Text, "x") })
		if err != nil || out.By != ByRecord || heard != mostLogLine*3/2 || f.logsOut != 1 {
			t.Errorf("%+v, %v, heard %d, the log was opened %d times", out, err, heard, f.logsOut)
		}
	})
}

// unfollowed is an API whose log can be read once all is over, and whose calls end with
// their context, as those of a server do.
type unfollowed struct {
	*fakeLoad
	text string
	copy error // of reading the result's copy
}

func (u unfollowed) Logs(ctx context.Context, _, _, _ string, o kube.LogOptions) (io.ReadCloser, error) {
	if o.Follow || ctx.Err() != nil {
		return nil, errors.New("no log")
	}
	return io.NopCloser(strings.NewReader(u.text)), nil
}

func (u unfollowed) Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case r.Name == "configmaps" && u.copy != nil:
		return nil, u.copy
	}
	return u.fakeLoad.Read(ctx, r, namespace, name)
}

func TestTheLastWordsOfALoadAreRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no"))
	done := message(LoadMessage{Stage: "done", Verdict: "FAIL", Reason: "worker 5 stalled"})
	copyOf := func(owner, run string) kube.Object {
		o := sent(t, ResultCopy(testSettings(), []ResultFile{{"verdict.json", []byte(`{"verdict":"FAIL"}`)}}))
		o["metadata"].(map[string]any)["labels"] = map[string]any{LabelOwner: owner, LabelRun: run}
		return o
	}
	for name, c := range map[string]struct {
		pod, copied kube.Object
		text        string
		copy        error
		by, reason  string
		fails       bool
	}{
		"a crash, without a line's end": {ended(2, "Error", ""), nil, "one\npanic: no more", nil, "", "Panic", false},
		"a copy":                        {ended(1, "Error", done), copyOf(OwnerValue, testRun), "", nil, ByConfigMap, "", false},
		"a copy of another run":         {ended(1, "Error", done), copyOf(OwnerValue, "another"), "", nil, ByMessage, "", false},
		"a copy of somebody else":       {ended(1, "Error", done), copyOf("somebody", testRun), "", nil, ByMessage, "", false},
		"a copy that may not be read":   {ended(1, "Error", done), nil, "", forbidden, ByMessage, "", false},
		"a copy that cannot be read":    {ended(1, "Error", done), nil, "", &kube.AwayError{}, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.pod, f.copied = c.pod, c.copied
				out, err := FollowLoad(t.Context(), unfollowed{f, c.text, c.copy}, testSettings(), Told{}, &memorySpool{}, nil)
				if (err != nil) != c.fails || out.By != c.by || out.Reason != c.reason {
					t.Errorf("%+v, %v", out, err)
				}
				if c.text != "" && !slices.Contains(out.Tail, "one") {
					t.Errorf("its last lines are %q", out.Tail)
				}
			})
		})
	}
}
