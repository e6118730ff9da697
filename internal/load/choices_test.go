package load_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/load"
)

// An event with a choice and no text, as half a character is, is one that other tools
// count; the usage event has no choice.
func TestEventsWithoutTextAreChoices(t *testing.T) {
	const gap = 20 * ms
	deltas := []string{`{"role":"assistant","content":""}`, `{"content":"a"}`, `{"content":""}`, `{"content":"\u00e9"}`}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range deltas {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", d)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(gap)
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"length\"}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(gap)
		fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	})
	for _, asked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			target := serveInBubble(t, &http.Server{Handler: h}, load.TargetOptions{URL: "http://truth.test"})
			p := planTo(t, target, load.Schedule{Users: 1, Count: 3}, 3)
			p.Choices = asked
			res := mustRun(t, p)
			for r := range res.Log.All() {
				all := res.Log.Choices(r)
				if !r.OK() || r.Chunks != 2 || len(all) != 5 || time.Duration(r.LastChoice-r.FirstChoice) != 4*gap || r.End-r.LastChoice != int64(gap) {
					t.Fatalf("%d events with a choice: %+v", len(all), r)
				}
				for i := 1; i < len(all); i++ {
					if all[i]-all[i-1] != int64(gap) {
						t.Errorf("%v", all)
					}
				}
			}
			switch {
			case !asked && res.Choices != nil:
				t.Error("pooled, and not asked for")
			case asked && (res.Choices.Count != 3*4 || res.Choices.Mean() != float64(gap) || res.Gaps.Count != 3 || res.Gaps.Mean() != float64(2*gap)):
				t.Errorf("%+v, %+v", res.Choices, res.Gaps)
			}
		})
	}
}
