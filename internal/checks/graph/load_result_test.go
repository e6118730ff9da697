package graph

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
)

// sent is an object as it comes back from a server.
func sent(t *testing.T, o kube.Object) kube.Object {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	back := kube.Object{}
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func TestACopyOfAResultFitsAndSaysWhatIsNotInIt(t *testing.T) {
	const run = "20261116-015518-0123456789abcdef"
	line := []byte(`{"t":1,"kind":"log","text":"` + strings.Repeat("e", 100) + `"}` + "\n")
	verdict, small := []byte(`{"verdict":"PASS"}`), []byte("small")
	for name, c := range map[string]struct {
		files []ResultFile
		want  []string // kept
		left  []string
	}{
		"all of it": {
			[]ResultFile{{"verdict.json", verdict}, {"events.jsonl", line}, {"episodes/001/episode.json", small}, {"episodes/1000/episode.json", small}},
			[]string{"episodes/001/episode.json", "episodes/1000/episode.json", "events.jsonl", "verdict.json"}, nil,
		},
		"the last ones go first": {
			[]ResultFile{{"verdict.json", verdict}, {"ctrf.json", bytes.Repeat([]byte("c"), 500<<10)}, {"episodes/000/episode.json", bytes.Repeat([]byte("e"), 600<<10)}, {"episodes/001/episode.json", small}},
			[]string{"ctrf.json", "episodes/001/episode.json", "verdict.json"}, []string{"episodes/000/episode.json"},
		},
		"of the events the last": {
			[]ResultFile{{"verdict.json", verdict}, {"events.jsonl", bytes.Repeat(line, 20_000)}},
			[]string{"events.jsonl", "verdict.json"}, []string{"events.jsonl: all but its last 500 lines"},
		},
		"no room at all": {
			[]ResultFile{{"verdict.json", bytes.Repeat([]byte("v"), 2<<20)}, {"run.json", small}},
			[]string{"run.json"}, []string{"verdict.json"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := ResultCopy(&Settings{Run: run, Namespace: "aicr-validation"}, c.files)
			data, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > kube.MaxConfigMap {
				t.Errorf("%d bytes, and a ConfigMap takes %d", len(data), kube.MaxConfigMap)
			}
			if name := o.Name(); name != "aicr-ctrf-"+run+"-performance" {
				t.Errorf("it is called %s", name)
			}
			files, left := ReadResultCopy(sent(t, o))
			var kept []string
			for name, data := range files {
				kept = append(kept, name)
				if name == "events.jsonl" && !bytes.HasPrefix(data, []byte("{")) {
					t.Error("the events begin in the middle of a line")
				}
			}
			if diff := cmp.Diff(sortedStrings(c.want), sortedStrings(kept)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.left, left); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatWasLeftOutIsToldHoweverItIsWritten(t *testing.T) {
	_, left := ReadResultCopy(kube.Object{"data": map[string]any{leftOutKey: "some of it"}})
	if diff := cmp.Diff([]string{"some of it"}, left); diff != "" {
		t.Error(diff)
	}
}

func TestALineThatIsNotTheLoadsOwnIsANote(t *testing.T) {
	for text, want := range map[string]LoadLine{
		`{"n":3,"kind":"done","text":"x"}`:         {N: 3, Kind: LineDone, Text: "x"},
		`{"kind":"done","text":"x"}`:               {Kind: LineNote},
		`{"n":-3,"kind":"done"}`:                   {Kind: LineNote},
		`{"n":3,"text":"x"}`:                       {Kind: LineNote},
		`{"n":3,"kind":"done","t":"not a number"}`: {Kind: LineNote},
		`{"n":3,"kind":"done"} and more`:           {Kind: LineNote},
		`panic: x`:                                 {Kind: LineNote},
	} {
		if want.Kind == LineNote {
			want.Text = text
		}
		if diff := cmp.Diff(want, ParseLoadLine([]byte(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestATerminationMessageAlwaysFits(t *testing.T) {
	long := LoadMessage{Schema: LoadMessageSchema, Run: "20261116-015518-0123456789abcdef", Stage: "done", Verdict: "FAIL",
		Reason: strings.Repeat("wörter \"mit\" <zeichen> ", 2000), Error: strings.Repeat("\n", 9000), Record: strings.Repeat("/results", 900), Copy: "aicr-validation/aicr-ctrf-x"}
	for range 500 {
		long.Findings = append(long.Findings, "worker/black-hole")
	}
	for name, m := range map[string]LoadMessage{"short": {Schema: LoadMessageSchema, Run: "r", Stage: "started"}, "long": long} {
		was := m
		data := m.Encode()
		if diff := cmp.Diff(was, m); diff != "" {
			t.Errorf("%s: to write it has changed it:\n%s", name, diff)
		}
		if len(data) > 4096 {
			t.Errorf("%s: %d bytes", name, len(data))
		}
		back, err := ParseLoadMessage(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if back.Run != m.Run || back.Stage != m.Stage || back.Verdict != m.Verdict || back.Copy != m.Copy {
			t.Errorf("%s: it reads %+v", name, back)
		}
	}
	for _, text := range []string{"", "{}", "panic: runtime error", `{"schema":"aicr.run/load/v9"}`, `{"verdict":"PASS"}`} {
		if m, err := ParseLoadMessage([]byte(text)); err == nil {
			t.Errorf("%q is taken for a message: %+v", text, m)
		}
	}
}

func FuzzLoadMessage(f *testing.F) {
	f.Add("r", "stage", "reason", "error", 3)
	f.Fuzz(func(t *testing.T, run, stage, reason, wrong string, findings int) {
		m := LoadMessage{Schema: LoadMessageSchema, Run: run[:min(len(run), 100)], Stage: stage[:min(len(stage), 100)], Reason: reason, Error: wrong}
		for range min(max(findings, 0), 1000) {
			m.Findings = append(m.Findings, "worker/stall")
		}
		if data := m.Encode(); len(data) > longestMessage {
			t.Errorf("%d bytes", len(data))
		}
	})
}
