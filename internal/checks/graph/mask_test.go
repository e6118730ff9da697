package graph

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/kube"
	"aicr/internal/redact"
)

// mirrorToken looks like no token that is known by its looks.
const mirrorToken = "mirrorQxZv WkRt\"&/pLm"

func TestAMaskHidesItsTokenHoweverItIsWrittenAndRead(t *testing.T) {
	const text = "DEBUG signed in as " + mirrorToken + "\nmirrorQxZv is no more than its beginning, mirrormirrorQxZv too\n" + mirrorToken + mirrorToken + "\n"
	const want = "DEBUG signed in as ***\nmirrorQxZv is no more than its beginning, mirrormirrorQxZv too\n******\n"
	if redact.Masked(text) != text {
		t.Fatal("the patterns know it: nothing is shown here")
	}
	m := redact.NewMask(mirrorToken + "\n")
	for name, from := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "a byte at a time": iotest.OneByteReader, "halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
	} {
		got, err := io.ReadAll(iotest.OneByteReader(m.File("log.txt", from(strings.NewReader(text)))))
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	quoted, _ := json.Marshal(map[string]string{"a": mirrorToken})
	for _, written := range []string{base64.StdEncoding.EncodeToString([]byte(mirrorToken)), "https://mirror/?t=mirrorQxZv+WkRt%22%26%2FpLm", string(quoted)} {
		if got := m.Text(written); !strings.Contains(got, hidden) || strings.Contains(got, "WkRt") {
			t.Errorf("%s becomes %s", written, got)
		}
	}
	for _, cut := range []string{"signed in as mirrorQxZv Wk", "signed in as mirrorQxZv WkRt\"&/pL"} { // the connection broke there
		broken := io.MultiReader(strings.NewReader(cut), iotest.ErrReader(errors.New("broken")))
		if got, err := io.ReadAll(m.File("log.txt", broken)); string(got) != "signed in as ***" || err == nil {
			t.Errorf("%q becomes %q, %v", cut, got, err)
		}
	}
	for _, none := range []Secret{"", "none", " \n"} {
		if m := redact.NewMask(string(none)); m != nil || m.Text("none") != "none" || m.File("a.gz", nil) != nil {
			t.Errorf("%q is hidden", string(none))
		}
	}
}

// A log is followed: what is there is not held back until more of it comes.
func TestAMaskedLineIsGivenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, w := io.Pipe()
		defer w.Close()
		log := redact.NewMask(mirrorToken).File("log.txt", from)
		go func() { _, _ = w.Write([]byte("a whole line m\n")) }()
		got := make([]byte, 100)
		if n, err := log.Read(got); err != nil || string(got[:n]) != "a whole line m\n" {
			t.Errorf("%q, %v", got[:n], err)
		}
	})
}

func TestAPackedFileIsMaskedAndPackedAgain(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, `{"detail":"refused: mirror-token-1"}`)
	_ = w.Close() // it is in memory
	m := redact.NewMask("mirror-token-1")
	unpacked, err := gzip.NewReader(m.File("requests.jsonl.gz", bytes.NewReader(packed.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(unpacked); err != nil || string(got) != `{"detail":"refused: ***"}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, damaged := range [][]byte{packed.Bytes()[:packed.Len()-9], []byte("no archive")} {
		if _, err := io.ReadAll(m.File("requests.jsonl.gz", bytes.NewReader(damaged))); err == nil {
			t.Error("what cannot be read is taken for whole")
		}
	}
}

// talker says the token in every answer.
type talker struct{}

func (talker) says() (kube.Object, error) {
	return kube.Object{"metadata": fields{"name": "a", "annotations": fields{"last": "as " + mirrorToken}}, "status": fields{"conditions": []any{fields{"message": mirrorToken}}, "n": int64(3), "nested": kube.Object{mirrorToken: true}}},
		apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, mirrorToken)
}
func (s talker) Create(context.Context, kube.Resource, kube.Object) (kube.Object, error) {
	return s.says()
}
func (s talker) Read(context.Context, kube.Resource, string, string) (kube.Object, error) {
	return s.says()
}
func (s talker) List(context.Context, kube.Resource, string, string) ([]kube.Object, error) {
	o, err := s.says()
	return []kube.Object{o, o}, err
}
func (s talker) Apply(context.Context, kube.Resource, kube.Object) (kube.Object, error) {
	return s.says()
}
func (s talker) Patch(context.Context, kube.Resource, string, string, kube.Object) (kube.Object, error) {
	return s.says()
}
func (s talker) Delete(context.Context, kube.Resource, string, string, kube.DeleteOptions) error {
	_, err := s.says()
	return err
}
func (s talker) Logs(_ context.Context, _, pod, _ string, _ kube.LogOptions) (io.ReadCloser, error) {
	if pod == "" {
		return nil, errors.New(mirrorToken)
	}
	return io.NopCloser(strings.NewReader(mirrorToken + "\n")), nil
}
func (s talker) Exec(context.Context, string, string, string, []string, io.Writer) error {
	return fmt.Errorf("it said: %s", mirrorToken)
}

// Whatever a cluster answers, the token is not in it, and it is otherwise as it was.
func TestNoAnswerOfAClusterHasTheToken(t *testing.T) {
	api, ctx := masked(talker{}, mirrorToken), t.Context()
	check := func(what string, said any, err error) {
		t.Helper()
		text, unwritten := json.Marshal(said)
		if unwritten != nil || strings.Contains(string(text), "WkRt") || err == nil || strings.Contains(err.Error(), "WkRt") || !strings.Contains(fmt.Sprint(string(text), err), hidden) {
			t.Errorf("%s: %s, %v, %v", what, text, err, unwritten)
		}
	}
	o, err := api.Read(ctx, resPods, "", "")
	check("Read", o, err)
	if n, ok := o.Int("status", "n"); n != 3 || !ok || o.Name() != "a" || !kube.IsNotFound(err) {
		t.Errorf("it is another: %v, %v", o, err)
	}
	o, err = api.Create(ctx, resPods, nil)
	check("Create", o, err)
	o, err = api.Apply(ctx, resPods, nil)
	check("Apply", o, err)
	o, err = api.Patch(ctx, resPods, "", "", nil)
	check("Patch", o, err)
	all, err := api.List(ctx, resPods, "", "")
	check("List", all, err)
	if len(all) != 2 {
		t.Errorf("%d of 2", len(all))
	}
	check("Delete", nil, api.Delete(ctx, resPods, "", "", kube.DeleteOptions{}))
	check("Exec", nil, api.Exec(ctx, "", "", "", nil, nil))
	_, err = api.Logs(ctx, "", "", "", kube.LogOptions{})
	check("Logs", nil, err)
	log, err := api.Logs(ctx, "", "pod", "", kube.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(log); err != nil || string(got) != hidden+"\n" || log.Close() != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, same := masked(talker{}, "").(talker); !same {
		t.Error("without a token something is masked")
	}
}

// wholeBook keeps diagnostics with what is in them.
type wholeBook struct {
	memoryBook
	files map[string]string
}

func (b *wholeBook) Diagnostic(name string, data []byte) error {
	b.files[name] = string(data)
	return nil
}

// A downloader that prints its token, to its log and to its pod's status, does not bring it
// into anything that a run keeps, says or leaves on the cluster.
func TestATokenThatIsPrintedIsKeptNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, k := newMemory(), keptRun()
		s := k.Settings
		s.Token, s.Cache, s.NoCleanup = true, &Cache{Size: "100Gi", Populate: Duration(time.Minute)}, true
		n := NamesOf(s.Run)
		m.put(resNodes, kube.Object{"kind": "Node", "metadata": fields{"name": s.Node}, "status": fields{"conditions": []any{fields{"type": "Ready", "status": "True", "message": "seen " + mirrorToken}}}})
		m.created = func(m *memoryAPI, r kube.Resource, o kube.Object) {
			if o.Name() != n.Populate {
				return
			}
			o["status"] = fields{"conditions": []any{fields{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "as " + mirrorToken}}}
			m.place(r, o)
			m.place(resPods, kube.Object{"kind": "Pod", "metadata": fields{"name": "p-1", "namespace": n.Namespace, "labels": fields{"job-name": n.Populate}, "annotations": fields{"seen": mirrorToken}},
				"status": fields{"phase": "Failed", "containerStatuses": []any{fields{"name": "populate", "state": fields{"terminated": fields{"exitCode": int64(1), "message": "as " + mirrorToken}}}}}})
			m.place(resEvents, kube.Object{"kind": "Event", "metadata": fields{"name": "e", "namespace": n.Namespace}, "involvedObject": fields{"kind": "Pod", "name": "p-1"}, "reason": "Failed", "message": "as " + mirrorToken})
			m.logs["p-1/populate"] = "DEBUG signed in as " + mirrorToken + "\n401 for " + mirrorToken + "\n"
		}
		r, _, h := newTestRun(m, k)
		b := &wholeBook{memoryBook{plan: k.Plan}, map[string]string{}}
		r.Book, r.Secret = b, mirrorToken
		end, err := r.Go(t.Context())
		if err != nil || end.Verdict == nil {
			t.Fatal(end, err)
		}
		var left []kube.Object
		for key, o := range m.objects {
			if !strings.Contains(key, "/secrets/") && o.Labels()[LabelOwner] == OwnerValue && o.Name() != n.Populate {
				left = append(left, o)
			}
		}
		all, err := json.Marshal([]any{b.events, b.files, h.said, h.waiting, end.Verdict, end.Missing, left})
		if err != nil || bytes.Contains(all, []byte("WkRt")) {
			t.Errorf("the token is in it: %v\n%s", err, all)
		}
		for _, file := range []string{"log-p-1-populate.txt", "pod-p-1.yaml", "events.txt", "job-populate.yaml", "node.txt", "index.txt"} {
			if !strings.Contains(b.files[file], hidden) {
				t.Errorf("%s does not have what was printed: %q", file, b.files[file])
			}
		}
		if len(end.Verdict.Findings) != 1 || !strings.Contains(fmt.Sprint(end.Verdict.Findings[0].Evidence), "signed in as ***") {
			t.Errorf("the finding does not quote it: %+v", end.Verdict.Findings)
		}
	})
}
