package observe

import (
	"context"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicr/internal/redact"
	"aicr/internal/spec"
)

// Log is the log of a worker or a frontend. A Close of what open gives must end a
// Read of it.
func Log(open func(context.Context) (io.ReadCloser, error), instance string, l Labels) Source {
	return Source{Kind: spec.SourceWorker, Instance: instance, Labels: l, Follower: &serverLog{open: open, instance: instance}}
}

// LogOfPage is the log of a worker whose metrics page tells how it is: of its lines only
// those count that say that something is wrong, or one worker would be two.
func LogOfPage(open func(context.Context) (io.ReadCloser, error), instance string, l Labels) Source {
	return Source{Kind: spec.SourceWorker, Instance: instance, Labels: l, Follower: &serverLog{open: open, instance: instance, paged: true}}
}

// serverLog follows one.
type serverLog struct {
	open     func(context.Context) (io.ReadCloser, error)
	instance string
	paged    bool // a page tells how its worker is
}

const errLogEnded = reason("the log ended")

func (l *serverLog) Follow(ctx context.Context, tell Tell) error {
	from, err := l.open(ctx)
	if err != nil {
		return reason("the log: " + oneLine(err.Error()))
	}
	ctx, cancel := context.WithCancel(ctx)
	// Lines are read beside, so that what waits to be told does not wait for the
	// next of them.
	said, ended := make(chan string), make(chan error, 1)
	go func() { ended <- readLog(ctx, from, said) }()
	defer func() {
		cancel()
		from.Close()
		<-ended
	}()

	events := flood{tell: tell.Event, source: l.instance, classes: map[string]*waiting{}}
	defer events.flush(time.Time{})
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			events.flush(now.Add(-eventEvery))
		case err := <-ended:
			ended <- err
			return err
		case line := <-said:
			if s, class := meaning(line, l.instance); s != nil {
				if !l.paged {
					tell.Sample(*s)
				}
			} else if class != "" {
				events.add(class, line, time.Now())
			}
		}
	}
}

// readLog hands on the lines that say something, until the log ends.
func readLog(ctx context.Context, from io.Reader, said chan<- string) error {
	all := linesOf(from)
	for {
		line, _, err := all.next()
		if errors.Is(err, io.EOF) {
			return errLogEnded
		}
		if err != nil {
			return reason("the log: " + oneLine(err.Error()))
		}
		select {
		case said <- cleaned(line):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// meaning is what a line says: how an engine is, or what went wrong, or nothing.
func meaning(line, instance string) (s *spec.Sample, class string) {
	if isPrompt(line) {
		return nil, ""
	}
	if stats, ok := engineStats(line, instance); ok {
		return &stats, ""
	}
	return nil, classOf(line)
}

// isPrompt reports that a line quotes a request. What a user wrote says nothing of
// the server, and must not leave it.
func isPrompt(line string) bool { return hasOne(line, promptSigns) }

var promptSigns = []string{"Received request ", "prompt: '", `prompt: "`, `"prompt":`, `"messages":`}

// What vLLM's line about an engine tells, every ten seconds while there is work.
// Which parts there are, and their order, differ between versions. Units are part
// of the patterns, so that a number that was cut short is none.
var (
	statsEngine  = regexp.MustCompile(`\bEngine (\d{1,6}): `)
	statsTokens  = regexp.MustCompile(`\bAvg generation throughput: (\d+(?:\.\d+)?) tokens/s`)
	statsRunning = regexp.MustCompile(`\bRunning: (\d+) reqs`)
	statsWaiting = regexp.MustCompile(`\b(?:Waiting|Pending): (\d+) reqs`)
	statsKVUsage = regexp.MustCompile(`\b\w+ KV cache usage: (\d+(?:\.\d+)?)%`) // GPU, CPU, XPU: the device's name
	statsGPUKV   = regexp.MustCompile(`\bGPU KV cache usage: (\d+(?:\.\d+)?)%`)
)

// kvUsageOf is the pattern of a line's KV use. A line of vLLM 0.5 tells that of the swap
// space in CPU memory beside the GPU's, which is the cache.
func kvUsageOf(line string) *regexp.Regexp {
	if strings.Contains(line, "GPU KV cache usage: ") {
		return statsGPUKV
	}
	return statsKVUsage
}

// engineStats reads such a line.
func engineStats(line, instance string) (spec.Sample, bool) {
	if !strings.Contains(line, "Running: ") {
		return spec.Sample{}, false
	}
	w := &spec.WorkerSample{}
	s := spec.Sample{Source: spec.SourceWorker, Worker: w}
	if m := statsEngine.FindStringSubmatch(line); m != nil {
		if engine := strings.TrimLeft(m[1], "0"); engine != "" {
			s.Name = instance + "/" + engine // one of several: the first goes by the worker's name
		}
	}
	told := 0
	for _, f := range []struct {
		field   string
		into    **float64
		pattern *regexp.Regexp
		scale   float64
	}{
		{fieldRunning, &w.Running, statsRunning, 1},
		{fieldWaiting, &w.Waiting, statsWaiting, 1},
		{fieldKVUsage, &w.KVUsage, kvUsageOf(line), 1e-2},
		{"tokens_per_s", &w.TokensPerS, statsTokens, 1},
	} {
		if m := f.pattern.FindStringSubmatch(line); m != nil {
			if v, err := strconv.ParseFloat(m[1], 64); err == nil {
				*f.into = scaled(&v, f.scale)
			}
		}
		if *f.into != nil {
			told++
		} else {
			notMeasured(&s, f.field, "the log's line does not tell it")
		}
	}
	if w.Running == nil || told < 2 {
		return spec.Sample{}, false // some other line with that word
	}
	if w.TokensPerS != nil {
		derived(&s, "tokens_per_s", "the log's own mean since its line before")
	}
	for _, field := range []string{fieldGenerated, fieldPrompt, fieldPrefixQueries, fieldPrefixHits, fieldPreemptions, fieldInFlight, fieldEnded, fieldFailed} {
		notMeasured(&s, field, "the log has no counters")
	}
	return s, true
}

// logClass is a kind of line that says that something is wrong.
type logClass struct {
	name    string
	signs   []string // one of which the line has; quicker to look for than the pattern
	pattern *regexp.Regexp
}

// logClasses are looked for in this order; a line is of the first that it matches.
var logClasses = []logClass{
	// Dynamo: the frontend never finds a worker again (dynamo#7328).
	{"unfold-panic", []string{"Unfold must"}, regexp.MustCompile(`Unfold must not be polled after it returned`)},
	{"panic", []string{"panicked at"}, regexp.MustCompile(`thread '[^']*' (?:\(\d+\) )?panicked at`)},
	// Dynamo: normal for a moment at the start.
	{"discovery-bucket-missing", []string{"bucket missing"}, regexp.MustCompile(`bucket missing for query=`)},
	{"discovery-empty", []string{"returning 0 "}, regexp.MustCompile(`\blist returning 0 instances\b`)},
	// Dynamo: the frontend is ready and serves 404 for ever (dynamo#11178).
	{"model-not-added", []string{"Error adding"}, regexp.MustCompile(`Error adding model from discovery`)},
	// Dynamo: a worker that was frozen is struck off and does not register anew.
	{"keep-alive-failed", []string{"keep_alive"}, regexp.MustCompile(`\bkeep_alive failed\b`)},
	{
		"engine-dead",
		[]string{"EngineDeadError", "EngineCore encountered", " died"},
		regexp.MustCompile(`\bEngineDeadError\b|EngineCore encountered a fatal error|Engine ?[Cc]ore\b.*\bdied\b|\bEngineCore\w* .*\bdied\b`),
	},
	{
		"cuda-out-of-memory",
		[]string{"CUDA", "cudaError"},
		regexp.MustCompile(`CUDA out of memory|CUDA error: out of memory|cudaErrorMemoryAllocation`),
	},
	{
		"nccl-error",
		[]string{"NCCL", "nccl", "Watchdog", "DistBackend"},
		regexp.MustCompile(`\bNCCL (?:error|failure|WARN)\b|\bnccl\w*Error\b|Watchdog caught collective operation timeout|\bDistBackendError\b`),
	},
	{"xid", []string{"Xid"}, regexp.MustCompile(`\bNVRM: Xid\b|\bXid \(PCI:`)},
	{
		"cuda-error",
		[]string{"CUDA", "cudaError", "CUBLAS"},
		regexp.MustCompile(`\bCUDA error\b|\bcudaError[A-Z]\w*|CUDA driver error|CUBLAS_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED|EXECUTION_FAILED|INTERNAL_ERROR)`),
	},
}

// Grave reports whether an event of a log, by its reason, is one that someone
// should act on. A frontend that finds nobody yet is only starting.
func Grave(reason string) bool {
	return !strings.HasPrefix(reason, "discovery-") && slices.ContainsFunc(logClasses, func(c logClass) bool { return c.name == reason })
}

func classOf(line string) string {
	for _, c := range logClasses {
		if hasOne(line, c.signs) && c.pattern.MatchString(line) {
			return c.name
		}
	}
	return ""
}

func hasOne(line string, signs []string) bool {
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(line, sign) })
}

// eventEvery is how often lines of one class are told of. A server in trouble may
// write thousands a second.
const eventEvery = time.Second

// flood tells of the first line of a class at once, and of those that follow within
// a second together.
type flood struct {
	tell    func(spec.Event)
	source  string
	classes map[string]*waiting
}

type waiting struct {
	told  time.Time
	lines int
	text  string // of the last of them
}

func (f *flood) add(class, line string, now time.Time) {
	w := f.classes[class]
	if w == nil {
		w = &waiting{}
		f.classes[class] = w
	}
	w.lines++
	w.text = line
	if now.Sub(w.told) >= eventEvery {
		f.emit(class, w, now)
	}
}

// flush tells of what has waited since before then; of everything, if then is zero.
func (f *flood) flush(then time.Time) {
	for _, class := range slices.Sorted(maps.Keys(f.classes)) {
		if w := f.classes[class]; w.lines > 0 && (then.IsZero() || !w.told.After(then)) {
			f.emit(class, w, then.Add(eventEvery))
		}
	}
}

func (f *flood) emit(class string, w *waiting, now time.Time) {
	e := spec.Event{Kind: spec.EventLog, Source: f.source, Reason: class, Text: excerpt(w.text)}
	if w.lines > 1 {
		e.Count = w.lines
	}
	w.told, w.lines, w.text = now, 0, ""
	f.tell(e)
}

// cleaned is a line without escapes, control characters and broken characters.
func cleaned(line []byte) string { return redact.Plain(string(line)) }

// excerpt is what is kept of a line.
func excerpt(line string) string { return redact.Excerpt(line, 300) }
