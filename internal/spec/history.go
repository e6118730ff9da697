package spec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// HistorySchema names the shape of HistoryEntry.
const HistorySchema = "aicr.run/history/v1alpha1"

// MaxHistoryLine is the longest line of a history, in bytes, its end included.
const MaxHistoryLine = 64 << 10

// Deployment is what a history is kept of. Target, Model and Workers say which
// one it is. Runtime and GPUs, where they are known, say what it was made of at
// the time: an upgrade or another GPU is what a history is to show, not the
// beginning of another one.
type Deployment struct {
	Target  string   `json:"target"` // host and port of the endpoint; sim: and the scenario; cluster: and its context and node
	Model   string   `json:"model,omitempty"`
	Workers int      `json:"workers"`
	Runtime string   `json:"runtime,omitempty"` // its version
	GPUs    []string `json:"gpus,omitempty"`    // their UUIDs, sorted
}

// NewDeployment names the deployment that a run loads. Of a URL nothing is kept
// but the host and the port: the rest may hold a secret.
func NewDeployment(t Target, workers int) Deployment {
	d := Deployment{Target: hostOf(t.URL), Model: t.Model, Workers: workers}
	switch {
	case t.Scenario != "":
		d.Target = "sim:" + t.Scenario
	case t.URL == "": // a cluster; where nothing was free there is no node
		d.Target = "cluster:" + t.Context + "/" + t.Node
	}
	return d
}

func hostOf(text string) string {
	if text != "" && !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		if port = "80"; u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Digest is the same for the same Target, Model and Workers.
func (d Deployment) Digest() string {
	identity, err := json.Marshal([]any{d.Target, d.Model, d.Workers})
	if err != nil {
		panic(err) // texts and a number
	}
	sum := sha256.Sum256(identity)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// HistoryEntry is a line of a history: what one run came to.
type HistoryEntry struct {
	Schema     string     `json:"schema"`
	Run        string     `json:"run"`
	Start      string     `json:"start"` // RFC 3339
	Digest     string     `json:"digest"`
	Deployment Deployment `json:"deployment"`

	Profile    string         `json:"profile"`
	Verdict    State          `json:"verdict"`
	Capability State          `json:"capability"` // of that ledger
	Point      OperatingPoint `json:"point"`
	Reference  *float64       `json:"reference,omitempty"` // tokens/s
	Episodes   int            `json:"episodes"`
	LoadedMin  float64        `json:"loadedMinutes"` // that the stalls are of

	Figures []Figure       `json:"figures"`
	Stalls  []HistoryStall `json:"stalls"`
}

// HistoryStall is how often one GPU or, where none is known, one worker stood
// still in a run. Without either it is the fleet.
type HistoryStall struct {
	GPU    string `json:"gpu,omitempty"`
	Worker string `json:"worker,omitempty"`
	Count  int    `json:"count"`
}

// Time is when the run began.
func (e *HistoryEntry) Time() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, e.Start) // an entry that was read has one
	return t
}

// Same reports whether two entries are of one run.
func (e *HistoryEntry) Same(other *HistoryEntry) bool {
	return e.Run == other.Run && e.Time().Equal(other.Time())
}

// History is a file of entries, in the order in which they were added.
type History struct {
	Entries []HistoryEntry
	Torn    int // bytes at the end that a crash left of a line; 0: none
}

// Trend is what a history shows beside the verdict of its last run. It is not
// part of that verdict.
type Trend struct {
	Runs    int           `json:"runs"`    // of this deployment at this operating point that could be compared
	Missing int           `json:"missing"` // how many more it takes before anything can be said; 0: none
	Changes []TrendChange `json:"changes"`
	Lines   []string      `json:"lines"` // all of it for people
}

// The kinds of TrendChange.
const (
	TrendStep  = "step"  // from one run to the next
	TrendSlide = "slide" // little by little, over all runs
)

// TrendChange is how a figure of a history is not what it was.
type TrendChange struct {
	Figure string  `json:"figure"`
	Kind   string  `json:"kind"`
	Ratio  float64 `json:"ratio"` // of what it is to what it was
	From   string  `json:"from"`  // the runs on both sides of a step, the first and the last of a slide
	To     string  `json:"to"`
	Before int     `json:"before,omitempty"` // runs on both sides of a step, up to the next one
	Since  int     `json:"since,omitempty"`
	P      float64 `json:"p"`
	Worse  bool    `json:"worse"`
}

// historyStart is how every line begins.
const historyStart = `{"schema":"` + HistorySchema + `"`

// DecodeHistory reads a history. The error, if any, is a Mistakes with
// everything that is wrong with it. What a crash has left of a last line is no
// mistake.
func DecodeHistory(data []byte) (*History, error) {
	h := &History{}
	var all Mistakes
	for number := 1; len(data) > 0; number++ {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		data = rest
		if !ended && isTorn(line) {
			h.Torn = len(line)
			break
		}
		e, err := decodeHistoryEntry(line, number)
		if wrong, ok := errors.AsType[Mistakes](err); ok {
			all = append(all, wrong...)
		}
		if len(all) > maxMistakes {
			all = append(all[:maxMistakes], Mistake{Line: number, Column: 1, Text: fmt.Sprintf("more than %d mistakes: the rest is not told", maxMistakes)})
			break
		}
		if err == nil {
			h.Entries = append(h.Entries, *e)
		}
	}
	if len(all) > 0 {
		return nil, all
	}
	return h, nil
}

// isTorn reports whether a last line is the beginning of one of ours. Anything
// else is somebody's file that is not a history.
func isTorn(line []byte) bool {
	n := min(len(line), len(historyStart))
	return string(line[:n]) == historyStart[:n] && !json.Valid(line)
}

func decodeHistoryEntry(line []byte, number int) (*HistoryEntry, error) {
	if len(line) >= MaxHistoryLine {
		return nil, whole(number, fmt.Sprintf("a line of more than %d KiB", MaxHistoryLine>>10), "")
	}
	e := &HistoryEntry{}
	d := decodeJSON(line, number, e)
	d.checkHistoryEntry(e)
	if err := d.err(); err != nil {
		return nil, err
	}
	*e = e.listed()
	return e, nil
}

// listed is the entry with lists that are written as such when they are empty.
func (e *HistoryEntry) listed() HistoryEntry {
	l := *e
	if l.Figures == nil {
		l.Figures = []Figure{}
	}
	if l.Stalls == nil {
		l.Stalls = []HistoryStall{}
	}
	return l
}

func (d *document) checkHistoryEntry(e *HistoryEntry) {
	d.constant("schema", e.Schema, HistorySchema)
	for path, text := range map[string]string{"run": e.Run, "deployment.target": e.Deployment.Target} {
		if d.says(path) && d.sound(path) && text == "" {
			d.wrong(path, "is empty", "")
		}
	}
	if d.says("start") && d.sound("start") {
		if _, err := time.Parse(time.RFC3339Nano, e.Start); err != nil {
			d.wrong("start", quote(e.Start)+" is no time", "write it as 2026-10-03T08:00:00Z")
		}
	}
	if digest := e.Deployment.Digest(); d.says("digest") && d.sound("digest", "deployment.target", "deployment.model", "deployment.workers") && e.Digest != digest {
		d.wrong("digest", "is not that of the deployment beside it", "write "+digest)
	}
	d.word("profile", e.Profile, Profiles())
	d.word("verdict", string(e.Verdict), []string{string(Pass), string(Fail), string(Inconclusive), string(Invalid), string(Skip)})
	d.word("capability", string(e.Capability), []string{string(Pass), string(Fail), string(Inconclusive), string(NotJudged)})
	d.between("loadedMinutes", e.LoadedMin, 0, mostAnything)
	for i, s := range e.Stalls {
		d.within(element("stalls", i)+".count", s.Count, 1, mostCounted)
	}
	for i, f := range e.Figures {
		if at := element("figures", i); d.sound(at) && f.Name == "" {
			d.wrong(at, "a figure without a name", "")
		}
	}
}

// Line is an entry as it stands in a history, its end included. One that could
// not be read again is an error.
func (e *HistoryEntry) Line() ([]byte, error) {
	line, err := json.Marshal(e.listed())
	if err != nil {
		return nil, err
	}
	if _, err := decodeHistoryEntry(line, 1); err != nil {
		return nil, err
	}
	return append(line, '\n'), nil
}
