package observe

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
)

func TestAPageThatIsOff(t *testing.T) {
	client, url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"code":501,"type":"not_supported_error"}}`, http.StatusNotImplemented)
	})
	if _, err := Worker(client, url, Labels{}).Reader.Read(t.Context()); !errors.Is(err, errPageOff) {
		t.Errorf("%v, want %v", err, errPageOff)
	}
}

// What a vLLM server has in flight is read of its /load, where that counts.
func TestLoadBesideAPage(t *testing.T) {
	const untracked = "the server's /load tells 0, as without --enable-server-load-tracking"
	type step struct {
		running, load string // load is the whole answer; "": there is no such path
		want          *float64
		why           string
	}
	for _, tc := range []struct {
		rule  string
		page  string
		steps []step
		asked int
	}{
		{"0 alone is not believed, and is once it has counted", "vllm:num_requests_running %s\n", []step{
			{"0", `{"server_load":0}`, nil, untracked},
			{"4", `{"server_load":6}`, f(6), ""},
			{"0", `{"server_load":6}`, f(6), ""}, // its engine stands, and its gauge reads 0
			{"0", `{"server_load":0}`, f(0), ""},
		}, 4},
		{"one that counts less than runs counts for one of several API servers", "vllm:num_requests_running %s\n", []step{
			{"4", `{"server_load":3}`, nil, "the server's /load tells less than its engine runs, as one of several API servers does"},
		}, 1},
		{"who has no such path is asked once", "vllm:num_requests_running %s\n", []step{
			{"1", "", nil, "vLLM does not tell it"},
			{"1", "", nil, "vLLM does not tell it"},
		}, 1},
		{"an answer of another kind is none", "vllm:num_requests_running %s\n", []step{{"1", `{"load":3}`, nil, "vLLM does not tell it"}, {"1", `{"server_load":3}`, nil, "vLLM does not tell it"}}, 1},
		{"another server is not asked", "sglang:num_running_reqs %s\n", []step{{"1", `{"server_load":3}`, nil, "SGLang does not tell it"}}, 0},
		{"a runtime that counts it itself is believed", "vllm:num_requests_running %s\ndynamo_component_inflight_requests{dynamo_endpoint=\"generate\"} 2\n", []step{{"1", `{"server_load":3}`, f(2), ""}}, 0},
		{"engines that are counted together have it together", "vllm:num_requests_running{engine=\"0\"} %s\nvllm:num_requests_running{engine=\"1\"} 1\n", []step{{"1", `{"server_load":3}`, nil, "vLLM does not tell it"}}, 0},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var now step
			i, asked := 0, 0
			client, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/sub/metrics":
					fmt.Fprintf(w, tc.page, now.running)
				case r.URL.Path == "/sub/load" && now.load != "":
					asked++
					io.WriteString(w, now.load)
				case r.URL.Path == "/sub/load":
					asked++
					http.NotFound(w, r)
				default:
					t.Errorf("it asked for %s", r.URL.Path)
				}
			})
			source := Worker(client, url+"/sub/metrics", Labels{})
			for i, now = range tc.steps {
				samples, err := source.Reader.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got, why := samples[0].Worker.InFlight, samples[0].NotMeasured["in_flight"]
				if (got == nil) != (now.want == nil) || got != nil && *got != *now.want || why != now.why {
					t.Errorf("step %d: in flight %v (%q), want %v (%q)", i, got, why, now.want, now.why)
				}
			}
			if asked != tc.asked {
				t.Errorf("/load was asked %d times, want %d", asked, tc.asked)
			}
		})
	}
}
