package observe

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync/atomic"

	"aicr/internal/spec"
)

// besideLoad asks a vLLM server's /load too, which tells what its API server has in flight:
// it goes on counting where the engine's own gauges read 0 because the engine stands. It is
// there always, and counts only with --enable-server-load-tracking: one that has never told
// anything but 0 is not believed. Whoever has no such path is not asked again.
func besideLoad(c *Client, address string, page Reader, of *workerPage) Reader {
	u, err := url.Parse(address)
	if err != nil || !strings.HasSuffix(u.Path, "/metrics") {
		return page
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/metrics")+vllm.load, ""
	return &loadReader{page: page, of: of, load: &fetch{client: c, url: u.String(), page: loadPage{}}}
}

type loadReader struct {
	page, load Reader
	of         *workerPage // whose page it is
	none       atomic.Bool // there is no such path
	counts     atomic.Bool // it has told something else than 0
}

func (l *loadReader) Read(ctx context.Context) ([]spec.Sample, error) {
	samples, err := l.page.Read(ctx)
	if err != nil || l.none.Load() || !l.of.hasLoad || len(samples) != 1 || samples[0].Worker.Running == nil || samples[0].Worker.InFlight != nil {
		return samples, err
	}
	told, err := l.load.Read(ctx)
	switch {
	case err != nil:
		l.none.Store(ctx.Err() == nil)
		return samples, nil
	case *told[0].Worker.InFlight > 0:
		l.counts.Store(true)
	}
	w := samples[0].Worker
	switch n := told[0].Worker.InFlight; {
	case !l.counts.Load():
		notMeasured(&samples[0], fieldInFlight, "the server's "+vllm.load+" tells 0, as without --enable-server-load-tracking")
	case *n < *w.Running:
		notMeasured(&samples[0], fieldInFlight, "the server's "+vllm.load+" tells less than its engine runs, as one of several API servers does")
	default:
		delete(samples[0].NotMeasured, fieldInFlight)
		w.InFlight = n
	}
	return samples, nil
}

// loadPage reads what /load answers.
type loadPage struct{}

func (loadPage) read(_ context.Context, text []byte) ([]spec.Sample, error) {
	var told struct {
		Load *float64 `json:"server_load"`
	}
	if err := json.Unmarshal(text, &told); err != nil || told.Load == nil || *told.Load < 0 || number(*told.Load) == nil {
		return nil, reason("not the answer of " + vllm.load)
	}
	return []spec.Sample{{Source: spec.SourceWorker, Worker: &spec.WorkerSample{InFlight: told.Load}}}, nil
}
