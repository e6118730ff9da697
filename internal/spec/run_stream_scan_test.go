package spec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var requestLines = []string{
	`{"seq":0,"lane":"closed","phase":"ramp","intended":0,"sent":10,"first":20,"last":40,"end":50,"gap":8,"gap_end":35,"prompt":128,"cached":0,"tokens":128,"worker":"1","class":"ok","status":200,"finish":"length"}`,
	`{"seq":3,"lane":"closed","phase":"steady","intended":0,"sent":10,"first":20,"last":40,"end":50,"prompt":128,"tokens":128,"events":128,"text_bytes":640,"worker":"1","class":"ok","status":200,"finish":"length"}`,
	`{"seq":1,"lane":"closed","phase":"steady","intended":5,"sent":15,"end":60,"prompt":0,"tokens":0,"class":"http-status","status":503,"detail":"no \"worker\": at all"}`,
	`{"seq":0,"lane":"sentinel","phase":"drain","intended":30,"sent":30,"end":999999999999999999,"prompt":0,"tokens":0,"class":"interrupted"}`,
	`{"seq":2,"lane":"closed","phase":"steady","intended":5,"sent":15,"end":60,"prompt":0,"tokens":0,"class":"reset","detail":"\u003c工人\u202e\\\\\"\ud83d\ude00 ümläut\u0000"}`,
}

var sampleLines = []string{
	`{"t":1000,"source":"worker","name":"1","worker":{"running":4,"waiting":2,"deferred":1,"in_flight":6,"kv_usage":1,"asleep":0,"generated_tokens":7,"ended_tokens":5,"prompt_tokens":9,"preemptions":3,"rejected":2,"ended":8,"failed":2,"aborted":1}}`,
	`{"t":1000,"source":"worker","name":"1","worker":{"running":64,"waiting":0,"in_flight":1,"kv_usage":0.033926940639269404,"generated_tokens":3021,"prompt_tokens":1e3,"prefix_queries":0,"prefix_hits":0,"preemptions":0,"ended":1,"failed":0,"tokens_per_s":-1.5E-7,"gpu":"GPU-1","pod":"w-0"}}`,
	`{"t":2000,"source":"worker","name":"1","instance":"h:1","took":7,"gap":"connection refused"}`,
	`{"t":1000,"source":"gpu","name":"GPU-1","gpu":{"utilization":0.8,"power_w":509.4521594609358,"sm_clock_mhz":1980,"temperature_c":35.9,"xid":0,"ecc_double_bit":0,"row_remap_failure":0,"throttle":["sw power cap","hw slowdown"],"memory_used_mib":1,"index":"0","model":"H200","node":"n","pod":"p"}}`,
	`{"t":1000,"source":"gpu","name":"GPU-1","gpu":{"throttle":[]}}`,
	`{"t":1000,"source":"worker","name":"1","worker":{}}`,
}

// The quick reader is worth having only where it reads what the recorder writes.
func TestTheScannerReadsWhatTheRecorderWrites(t *testing.T) {
	for _, line := range requestLines {
		var q Request
		if !newScanner().request([]byte(line), &q, &pointees{}) {
			t.Errorf("not read: %s", line)
			continue
		}
		if again := recordedLine(t, q); again != line && !strings.Contains(line, `\u`) {
			t.Errorf("read %s\nand is  %s", line, again)
		}
	}
	for _, line := range sampleLines {
		var s Sample
		if !newScanner().sample([]byte(line), &s, &pointees{}) {
			t.Errorf("not read: %s", line)
		}
	}
}

// recordedLine is a value as the recorder writes it.
func recordedLine(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// A field that is added to a record must be added to the scanner, or every line that
// has it is read slowly.
func TestTheScannerKnowsEveryField(t *testing.T) {
	q := Request{Cached: new(0)}
	fill(reflect.ValueOf(&q).Elem())
	if line := recordedLine(t, q); !newScanner().request([]byte(line), &Request{}, &pointees{}) {
		t.Errorf("not read: %s", line)
	}
	for _, s := range []Sample{{Worker: &WorkerSample{GPUs: []string{"x", "y"}}}, {GPU: &GPUSample{Throttle: &[]string{"x"}}}} {
		for _, v := range []any{s.Worker, s.GPU} {
			if v := reflect.ValueOf(v); !v.IsNil() {
				fill(v.Elem())
			}
		}
		s.Instance, s.Took = "x", 1
		if line := recordedLine(t, s); !newScanner().sample([]byte(line), &Sample{}, &pointees{}) {
			t.Errorf("not read: %s", line)
		}
	}
}

// fill gives every number and text of a struct a value.
func fill(v reflect.Value) {
	for _, f := range v.Fields() {
		if f.Kind() == reflect.Pointer && f.Type().Elem().Kind() != reflect.Slice {
			f.Set(reflect.New(f.Type().Elem()))
			f = f.Elem()
		}
		switch {
		case f.CanInt():
			f.SetInt(7)
		case f.CanFloat():
			f.SetFloat(0.5)
		case f.Kind() == reflect.String:
			f.SetString("x")
		}
	}
}

func TestTheScannerLeavesTheRestToOthers(t *testing.T) {
	base := requestLines[0]
	for name, line := range map[string]string{
		"nothing":             ``,
		"a space":             strings.Replace(base, `,"lane"`, `, "lane"`, 1),
		"another order":       strings.Replace(base, `"intended":0,"sent":10`, `"sent":10,"intended":0`, 1),
		"a field twice":       strings.Replace(base, `"sent":10`, `"sent":10,"sent":10`, 1),
		"an unknown field":    strings.Replace(base, `"sent":10`, `"sent":10,"sentt":1`, 1),
		"a field is missing":  strings.Replace(base, `"seq":0,`, ``, 1),
		"a capital":           strings.Replace(base, `"seq"`, `"Seq"`, 1),
		"a null":              strings.Replace(base, `"sent":10`, `"sent":null`, 1),
		"a fraction":          strings.Replace(base, `"sent":10`, `"sent":10.0`, 1),
		"an exponent":         strings.Replace(base, `"sent":10`, `"sent":1e1`, 1),
		"a leading zero":      strings.Replace(base, `"sent":10`, `"sent":010`, 1),
		"a sign":              strings.Replace(base, `"sent":10`, `"sent":-10`, 1),
		"no digit":            strings.Replace(base, `"sent":10`, `"sent":`, 1),
		"more than fits":      strings.Replace(base, `"sent":10`, `"sent":18446744073709551626`, 1),
		"a text for a number": strings.Replace(base, `"sent":10`, `"sent":"10"`, 1),
		"a number for a text": strings.Replace(base, `"lane":"closed"`, `"lane":1`, 1),
		"a control character": strings.Replace(base, `closed`, "clo\x01sed", 1),
		"a bad escape":        strings.Replace(base, `closed`, `clo\xsed`, 1),
		"something after it":  base + ` `,
		"two of them":         base + base,
		"its end is missing":  base[:len(base)-1],
	} {
		var q Request
		if newScanner().request([]byte(line), &q, &pointees{}) {
			t.Errorf("%s: read %+v", name, q)
		}
	}
}

// Whatever the scanner reads, encoding/json reads, and as the same.
func FuzzLine(f *testing.F) {
	for _, line := range append(requestLines, sampleLines...) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"seq":01,"lane":"","phase":"` + "\xff\x7f" + `"`))
	f.Fuzz(func(t *testing.T, line []byte) {
		scan := newScanner()
		var q, wantQ Request
		if scan.request(line, &q, &pointees{}) {
			compareLine(t, line, &q, &wantQ)
		}
		var s, wantS Sample
		if scan.sample(line, &s, &pointees{}) {
			compareLine(t, line, &s, &wantS)
		}
	})
}

func compareLine(t *testing.T, line []byte, got, want any) {
	t.Helper()
	if !newQuickLook().read(line, want) {
		t.Fatalf("read %q, which is none", line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", line, diff)
	}
	if !utf8.Valid([]byte(recordedLine(t, got))) {
		t.Fatalf("%q is no text", line)
	}
}
