package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const recorded = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestQuick"}
{"Action":"output","Package":"p","Test":"TestQuick","Output":"--- PASS: TestQuick (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestQuick","Elapsed":0}
{"Action":"attr","Package":"p","Test":"TestLong","Key":"machine-busy","Value":"stamps late by 3 ms"}
{"Action":"attr","Package":"p","Test":"TestLong","Key":"owner","Value":"somebody"}
{"Action":"pass","Package":"p","Test":"TestLong","Elapsed":12.34}
{"Action":"output","Package":"p","Test":"TestBad/case","Output":"    x_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestBad/case","Elapsed":0.1}
{"Action":"skip","Package":"p","Test":"TestLater","Elapsed":0}
building the image
{"not":"an event"}
{"Action":"output","Package":"p","Test":"TestCrash","Output":"=== RUN   TestCrash\n"}
{"Action":"output","Package":"p","Test":"TestCrash","Output":"fatal error\n"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p","Elapsed":13}
`

func filtered(text string) (*filter, string) {
	var out strings.Builder
	f := newFilter(&out)
	for line := range strings.Lines(text) {
		f.line([]byte(line))
	}
	return f, out.String()
}

func TestOutputOfGoTestIsPrintedForPeopleAndCounted(t *testing.T) {
	f, got := filtered(recorded)
	want := `  pass  TestLong (12.3 s)
  fail  TestBad/case (0.1 s)
    x_test.go:1: wrong
  skip  TestLater (0.0 s)
building the image
{"not":"an event"}
FAIL
  died  TestCrash
=== RUN   TestCrash
fatal error
fail  p (13.0 s)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f.passed != 2 || f.failed != 2 || f.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped", f.passed, f.failed, f.skipped)
	}
	if diff := cmp.Diff([]busyTest{{"p.TestLong", []string{"stamps late by 3 ms"}, "pass"}}, f.busy); diff != "" {
		t.Errorf("busy (-want +got):\n%s", diff)
	}
}

func TestAPartThatProvedNothingHasNotPassed(t *testing.T) {
	exit := func(code string) error { return exec.Command("sh", "-c", "exit "+code).Run() }
	for name, c := range map[string]struct {
		output string
		err    error
		want   string
	}{
		"its tests pass":                 {`{"Action":"pass","Package":"p","Test":"T"}`, nil, resultPass},
		"a test fails":                   {`{"Action":"fail","Package":"p","Test":"T"}`, exit("1"), resultFail},
		"a test fails, and a pipe hides": {`{"Action":"fail","Package":"p","Test":"T"}`, nil, resultFail},
		"no test ran":                    {`{"Action":"pass","Package":"p"}`, nil, resultFail},
		"every test was skipped":         {`{"Action":"skip","Package":"p","Test":"T"}`, nil, resultFail},
		"no tests, but a command":        {"fuzz: elapsed 4s", nil, resultPass},
		"the command fails":              {"", exit("2"), resultFail},
		"it cannot run on this machine":  {"no Python", exit("77"), resultNotRun},
		"it could not be started":        {"", errors.New("no such file"), resultFail},
	} {
		f, _ := filtered(c.output + "\n")
		var r row
		if r.take(f, c.err); r.Result != c.want || r.passed() != (c.want == resultPass) {
			t.Errorf("%s: %s, want %s", name, r.Result, c.want)
		}
	}
}

func TestTheTableHasEveryPartAndEverySpoiltReading(t *testing.T) {
	dir := t.TempDir()
	for _, r := range []row{
		{Part: "proof", Result: resultPass, Seconds: 61.4, Tests: 20, Busy: []busyTest{{"p.TestLong", []string{"late"}, "pass"}}},
		{Part: "fuzz", Result: resultPass, Seconds: 70},
	} {
		if err := r.write(dir); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := readRows(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := writeTable(&out, inOrder(rows, []string{"proof", "fuzz", "e2e"})); err != nil {
		t.Fatal(err)
	}
	want := `part   result  seconds  tests  skipped  too busy  tries
proof  pass    61       20     -        1         2
fuzz   pass    70       -      -        0         1
e2e    FAIL    0        -      -        0         1
all            131      20     -        1         2

the machine was too busy for 1 of 2 readings of p.TestLong, which ended with pass
  late
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.WriteFile(dir+"/x.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRows(dir); err == nil {
		t.Error("a row that cannot be read is passed over")
	}
}
