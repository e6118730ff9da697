package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"aicr/test/busy"
)

// filter turns the lines of a part into what a person reads, and counts.
type filter struct {
	w                       io.Writer
	json                    bool // a line of go test -json came
	passed, failed, skipped int
	busy                    []busyTest
	output                  map[string][]string // of tests that have not ended, by package and test
}

// busyTest is a test one of whose readings was spoilt.
type busyTest struct {
	Test  string   `json:"test"`
	Why   []string `json:"why"`   // a reading each
	Ended string   `json:"ended"` // pass or fail
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Key, Value                    string
	Elapsed                       float64
}

// worthALine is how many seconds a test takes that is printed when it passes.
const worthALine = 2

func newFilter(w io.Writer) *filter { return &filter{w: w, output: map[string][]string{}} }

func (f *filter) line(line []byte) {
	var e event
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil || e.Action == "" {
		_, _ = f.w.Write(line)
		return
	}
	f.json = true
	id := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		f.output[id] = append(f.output[id], e.Output)
	case "build-output":
		fmt.Fprint(f.w, e.Output)
	case "attr":
		if e.Key == busy.Attr {
			f.spoilt(e)
		}
	case "pass", "fail", "skip":
		f.ended(e)
		delete(f.output, id)
	}
}

func (f *filter) spoilt(e event) {
	name := e.Package + "." + e.Test
	for i := range f.busy {
		if f.busy[i].Test == name {
			f.busy[i].Why = append(f.busy[i].Why, e.Value)
			return
		}
	}
	f.busy = append(f.busy, busyTest{Test: name, Why: []string{e.Value}})
}

func (f *filter) ended(e event) {
	said := f.output[e.Package+" "+e.Test]
	if e.Test == "" {
		f.endedPackage(e, said)
		return
	}
	for i := range f.busy {
		if f.busy[i].Test == e.Package+"."+e.Test {
			f.busy[i].Ended = e.Action
		}
	}
	switch e.Action {
	case "pass":
		f.passed++
	case "fail":
		f.failed++
	case "skip":
		f.skipped++
	}
	top := !strings.Contains(e.Test, "/")
	if e.Action != "pass" || top && e.Elapsed >= worthALine {
		fmt.Fprintf(f.w, "  %s  %s (%.1f s)\n", e.Action, e.Test, e.Elapsed)
	}
	if e.Action != "pass" {
		fmt.Fprint(f.w, strings.Join(said, ""))
	}
}

func (f *filter) endedPackage(e event, said []string) {
	if e.Action == "fail" {
		fmt.Fprint(f.w, strings.Join(said, "")) // a panic, or what the build said
		for _, id := range slices.Sorted(maps.Keys(f.output)) {
			if test, ok := strings.CutPrefix(id, e.Package+" "); ok && test != "" { // the process died in it
				fmt.Fprintf(f.w, "  died  %s\n%s", test, strings.Join(f.output[id], ""))
				f.failed++
				delete(f.output, id)
			}
		}
	}
	fmt.Fprintf(f.w, "%s  %s (%.1f s)\n", e.Action, e.Package, e.Elapsed)
}
