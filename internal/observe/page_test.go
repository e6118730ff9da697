package observe

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is known of the page before changes nothing but the time that it takes.
func TestAPageIsReadAlikeWhateverCameBefore(t *testing.T) {
	for _, file := range []string{"worker_during_load.txt", "frontend_during_load_kv.txt", "dcgm_default.txt", "node_exporter_2.txt", "cadvisor.txt"} {
		text := recorded(t, file)
		wanted := everyName(text)
		want, err := (&parser{}).parse(t.Context(), text, wanted)
		if err != nil || len(want) == 0 {
			t.Fatalf("%s: %v", file, err)
		}
		seasoned := &parser{}
		for _, before := range [][]byte{bytes.ReplaceAll(text, []byte("} "), []byte("} 1")), text} {
			if _, err := seasoned.parse(t.Context(), before, wanted); err != nil {
				t.Fatal(err)
			}
		}
		got, err := seasoned.parse(t.Context(), text, wanted)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(series{})); diff != "" {
			t.Errorf("%s (-fresh +seasoned):\n%s", file, diff)
		}
	}
}

func TestALineThatIsKnownIsStillChecked(t *testing.T) {
	const head = `vllm:num_requests_running{engine="0",model_name="a } b"}`
	wanted := names{"vllm:num_requests_running": true}
	r := &parser{}
	for _, tc := range []struct {
		after string
		want  string
	}{
		{" 7\n", "7"},
		{" 8\n", "8"},
		{"\t9\n", "9"},
		{" 1e3\n", "1000"},
		{" 7 1700000000000\n", "7"},
		{" many\n", "error"},
		{" 0x10p1\n", "error"},
		{" 1_000\n", "error"},
		{" 7 8 9\n", "error"},
		{"\n", "error"},
		{" 10\n", "10"},
	} {
		got := "error"
		if p, err := r.parse(t.Context(), []byte(head+tc.after), wanted); err == nil {
			got = fmt.Sprint(p["vllm:num_requests_running"][0].value)
			if l := p["vllm:num_requests_running"][0].labels["model_name"]; l != "a } b" {
				t.Errorf("%q: model %q", tc.after, l)
			}
		}
		if got != tc.want {
			t.Errorf("%q is read as %s, want %s", tc.after, got, tc.want)
		}
	}
}

func TestLabelsThatChangeEachTimeAreForgotten(t *testing.T) {
	r := &parser{}
	for i := range 8 {
		var page strings.Builder
		for j := range limits[LimitSeries].most {
			fmt.Fprintf(&page, "vllm:num_requests_running{at=\"%d-%d\"} 1\n", i, j)
		}
		if _, err := r.parse(t.Context(), []byte(page.String()), names{"vllm:num_requests_running": true}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.known); n > 2*mostHeads {
		t.Errorf("%d heads are remembered", n)
	}
}

func TestALabelCannotSpeakToATerminal(t *testing.T) {
	p, err := (&parser{}).parse(t.Context(), []byte("vllm:num_requests_running{pod=\"\x1b[2J\x1b[31mevil\a\"} 1\n"), names{"vllm:num_requests_running": true})
	if err != nil {
		t.Fatal(err)
	}
	if got := p["vllm:num_requests_running"][0].labels["pod"]; got != "evil□" {
		t.Errorf("%q", got)
	}
}
