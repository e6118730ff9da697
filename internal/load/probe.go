package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"aicr/internal/load/http1"
	"aicr/internal/load/workload"
)

// Probe is what a few single requests found out about the server before any
// load: whether it answers at all, which fields it takes, how it counts, and
// its habits on the wire. What is not found out here would be found in the
// figures.
type Probe struct {
	Model       string
	Fields      workload.Fields // those of the asked ones that the server takes
	Refused     []Refusal
	Calibration workload.Calibration
	Calibrated  bool // the server counted the prompts
	Usage       bool // it counts tokens in streams
	Workers     bool // it names the worker that served
	Nagle       Nagle
	Closes      bool          // it closes each connection after the answer, without having said so
	Asked, Got  int           // output tokens of the last probe
	FirstAnswer time.Duration // what the very first token took: cold, perhaps
	Requests    int
}

// Refusal is a field of the request that the server does not take.
type Refusal struct{ Field, Message string }

// Nagle tells whether the server leaves Nagle's algorithm on.
type Nagle uint8

// The answers. NagleOn makes a small first token on a connection in use wait
// for the client's acknowledgement, which an ordinary client delays by 40 ms.
const (
	NagleUnknown Nagle = iota
	NagleOff
	NagleOn
)

func (n Nagle) String() string { return [...]string{"unknown", "off", "on"}[n] }

// Failure says why the server could not be probed: the class of the failure,
// and what the server said.
type Failure struct {
	Class   Class
	Status  int
	Message string
	Models  []string // what it does serve, when it was asked for another model
	Err     error    // the cause, where there is one

	Unlisted bool // no model was named, and the server did not list its own
	TooLong  bool // the request does not fit in the model's context; Err is a *TooLong where the server lists it
}

func (f *Failure) Error() string { return f.Message }
func (f *Failure) Unwrap() error { return f.Err }

// probeTokens is the output that a probe asks for: enough to see the gaps.
const probeTokens = 8

// probeWords is the length of the first probe's prompt.
const probeWords = 16

// Examine probes the server with requests of the spec's kind. It waits for a
// slow first answer as long as timeout: a cold server must not be asked again
// before it has answered.
func Examine(ctx context.Context, t *Target, spec workload.Spec, timeout time.Duration) (*Probe, error) {
	x := &examiner{target: t, spec: spec, timeout: timeout, wanted: spec.OutputTokens.Mean}
	x.spec.Entries, x.spec.Count = 0, 0
	x.spec.OutputTokens = workload.Length{Mean: probeTokens}
	x.probe.Model = spec.Model
	defer x.hangUp()
	if err := t.Lookup(ctx); err != nil {
		return nil, lookupFailure(err)
	}
	if spec.Model == "" {
		if err := x.chooseModel(ctx); err != nil {
			return nil, err
		}
	}
	if err := x.agree(ctx); err != nil {
		return nil, err
	}
	if spec.Model != "" {
		// Asked once it answers: one that is silent is not waited for twice. Some list nothing.
		if models, err := t.Models(ctx); err == nil {
			if err := x.fits(models); err != nil {
				return nil, err
			}
		}
	}
	if err := x.calibrate(ctx); err != nil {
		return nil, err
	}
	x.probe.Requests = int(x.asked)
	return &x.probe, nil
}

// Knock sends a few requests of a workload as they are, for one that brings its
// own bodies and so cannot be fitted to the server.
func Knock(ctx context.Context, t *Target, w *workload.Workload, timeout time.Duration) (*Probe, error) {
	x := &examiner{target: t, timeout: timeout}
	defer x.hangUp()
	if err := t.Lookup(ctx); err != nil {
		return nil, lookupFailure(err)
	}
	next := func(habit ackHabit) (Record, error) {
		x.habit = habit
		index := workload.Probe(x.asked)
		_, asked := w.Asked(index)
		r, err := x.send(ctx, w.Body(nil, index), asked)
		if err == nil {
			x.learn(r)
			x.probe.Asked = asked
		}
		return r, err
	}
	first, err := next(ackAtOnce)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	x.probe.FirstAnswer = time.Duration(first.FirstContent - first.Sent)
	if err := x.findNagle(next); err != nil {
		return nil, x.explain(ctx, err)
	}
	x.probe.Requests = int(x.asked)
	return &x.probe, nil
}

func lookupFailure(err error) error {
	return &Failure{Class: Connect, Message: err.Error(), Err: err}
}

// examiner sends single requests over one connection.
type examiner struct {
	target  *Target
	spec    workload.Spec
	timeout time.Duration
	wanted  int // output tokens of the load's requests
	probe   Probe
	habit   ackHabit
	run     *run
	line    line
	close   func()
	asked   int64

	first       int32 // prompt tokens of the first answer, of probeWords words; 0: not counted
	kept, ended int   // connections that could carry another request, and that could not
}

func (x *examiner) hangUp() {
	if x.close != nil {
		x.close()
	}
}

// connect prepares the line that carries the probes.
func (x *examiner) connect() {
	x.run = &run{plan: &Plan{Target: x.target}, clock: clock{time.Now()}, live: &Live{}, log: &Log{}}
	if x.target.options.HTTP2 {
		w := newHTTP2Wire(x.run)
		x.line, x.close = w.crew.newLine(), w.close
		return
	}
	l := &connLine{wire: &connWire{sender: x.run.sender()}, buf: make([]byte, 64<<10)}
	x.line, x.close = l, l.hangUp
}

// send sends one body, which asks for so many tokens, and returns its record, or why it
// was not served.
func (x *examiner) send(ctx context.Context, body []byte, asked int) (Record, error) {
	if x.line == nil {
		x.connect()
	}
	limited, cancel := context.WithTimeoutCause(ctx, x.timeout, errTimeout)
	defer cancel()
	rec := Record{Asked: clamp(int64(asked))}
	str := stream{mask: x.target.mask}
	str.begin(&rec)
	x.asked++
	was := x.target.quickAck
	x.target.quickAck = bool(x.habit)
	l, ok := x.line.(*connLine)
	used := ok && l.conn != nil
	if used {
		l.conn.acknowledge(x.habit)
	}
	err := endedBy(limited, x.line.exchange(limited, body, &str))
	x.target.quickAck = was
	message := str.finish(x.run.clock.now(), err)
	if ctx.Err() != nil {
		return rec, ctx.Err()
	}
	switch {
	case !used:
	case rec.Has(Reused) && !rec.Has(Resent):
		x.kept++
	default:
		x.ended++
	}
	x.probe.Closes = x.kept == 0 && x.ended >= 2
	if rec.Class == OK {
		return rec, nil
	}
	cause := err
	if cause == nil {
		cause = str.broken
	}
	if x.wantsHTTP2(&rec, cause) {
		x.hangUp()
		x.line = nil
		x.target.HTTP2()
		return x.send(ctx, body, asked)
	}
	return rec, &Failure{Class: rec.Class, Status: int(rec.Status), Message: message, Err: err,
		TooLong: overContext(int(rec.Status), str.body)}
}

// wantsHTTP2 recognises a server that speaks nothing else: it breaks off the
// handshake for want of a common protocol, or answers HTTP/1.1 with an HTTP/2
// frame or a 426 or 505.
func (x *examiner) wantsHTTP2(r *Record, err error) bool {
	if x.target.options.HTTP2 {
		return false
	}
	var syntax *http1.SyntaxError
	switch {
	case r.Class == TLSFailed:
		return strings.Contains(err.Error(), "no application protocol")
	case r.Class == BadStream:
		return errors.As(err, &syntax) && strings.Contains(syntax.What, `"\x00\x00`)
	}
	return r.Status == http.StatusUpgradeRequired || r.Status == http.StatusHTTPVersionNotSupported
}

// optional are the fields that a server may refuse, the rarest first.
func optional(f *workload.Fields) []struct {
	name string
	on   *bool
} {
	return []struct {
		name string
		on   *bool
	}{
		{"nvext", &f.WorkerID},
		{"ignore_eos", &f.IgnoreEOS},
		{"min_tokens", &f.MinTokens},
		{"stream_options", &f.IncludeUsage},
		{"temperature", &f.Temperature0},
	}
}

// agree finds the fields that the server takes. A refusal that names a field
// costs that field; one that does not costs the next of the list, and when the
// server is content at last, those that went for nothing come back.
func (x *examiner) agree(ctx context.Context) error {
	x.habit = ackAtOnce
	fields := x.spec.Fields
	var guessed []string
	for {
		r, err := x.ask(ctx, fields, probeWords)
		if err == nil {
			x.probe.FirstAnswer = time.Duration(r.FirstContent - r.Sent)
			x.learn(r)
			x.first = r.PromptTokens
			break
		}
		f, refused := refusal(err)
		if !refused {
			return x.explain(ctx, err)
		}
		name, on := "", (*bool)(nil)
		for _, o := range optional(&fields) {
			if *o.on && (name == "" || strings.Contains(f.Message, o.name)) {
				name, on = o.name, o.on
			}
		}
		if name == "" {
			return x.explain(ctx, err)
		}
		*on = false
		if !strings.Contains(f.Message, name) {
			guessed = append(guessed, name)
		}
		x.probe.Refused = append(x.probe.Refused, Refusal{name, f.Message})
	}
	for _, name := range guessed[:max(0, len(guessed)-1)] { // the last one made the difference
		tried := fields
		for _, o := range optional(&tried) {
			*o.on = *o.on || o.name == name
		}
		_, err := x.ask(ctx, tried, probeWords)
		if _, refused := refusal(err); refused {
			continue
		}
		if err != nil {
			return x.explain(ctx, err)
		}
		fields = tried
		x.probe.Refused = slices.DeleteFunc(x.probe.Refused, func(r Refusal) bool { return r.Field == name })
	}
	x.probe.Fields = fields
	return nil
}

// refusal recognises an answer that says that the request is not understood.
func refusal(err error) (*Failure, bool) {
	f, ok := errors.AsType[*Failure](err)
	return f, ok && f.Class == HTTPStatus && !f.TooLong && (f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity)
}

// ask sends a probe of so many words.
func (x *examiner) ask(ctx context.Context, fields workload.Fields, words int) (Record, error) {
	spec := x.spec
	spec.Model, spec.Fields = x.probe.Model, fields
	spec.InputTokens, spec.Calibration = workload.Length{Mean: words}, workload.Calibration{}
	w, err := workload.Synthetic(spec)
	if err != nil {
		return Record{}, err
	}
	return x.send(ctx, w.Body(nil, workload.Probe(x.asked)), probeTokens)
}

func (x *examiner) learn(r Record) {
	p := &x.probe
	p.Usage = r.Has(HasUsage)
	p.Workers = p.Workers || r.Has(HasWorker)
	p.Asked, p.Got = probeTokens, int(r.Tokens())
}

// Tokens that a word of a prompt can cost: no tokenizer takes four words for one token,
// and one of bytes takes some seven tokens a word. A server that counts otherwise is not
// believed: prompts would be made as long, or as short, as it likes.
const (
	leastPerWord = 0.25
	mostPerWord  = 16
)

// calibrate learns what a word costs from prompts of two lengths. A word can cost several
// tokens: the longer prompt is as long as those of the load by what two short ones cost, a
// little less, so that it fits wherever they do.
func (x *examiner) calibrate(ctx context.Context) error {
	const short, within = 4 * probeWords, 0.95
	words := short
	counts := map[int]int32{probeWords: x.first}
	probe := func(n int, habit ackHabit) (Record, error) {
		x.habit = habit
		r, err := x.ask(ctx, x.probe.Fields, n)
		if err != nil {
			return r, x.explain(ctx, err)
		}
		x.learn(r)
		if r.Has(HasUsage) {
			counts[n] = r.PromptTokens
		}
		return r, nil
	}
	if x.spec.InputTokens.Mean > short {
		if _, err := probe(short, ackAtOnce); err != nil {
			return err
		}
		if c, ok := costOf(counts[probeWords], counts[short], short); ok {
			words = max(short, int(within*(float64(x.spec.InputTokens.Mean)-c.Overhead)/c.PerWord))
		}
	}
	if err := x.findNagle(func(habit ackHabit) (Record, error) { return probe(words, habit) }); err != nil {
		return err
	}
	x.probe.Calibration, x.probe.Calibrated = costOf(counts[probeWords], counts[words], words)
	return nil
}

// costOf is what a word costs where probeWords of them took few tokens and words took many.
func costOf(few, many int32, words int) (c workload.Calibration, ok bool) {
	if few <= 0 || many <= few {
		return workload.Calibration{}, false
	}
	c.PerWord = float64(many-few) / float64(words-probeWords)
	if c.PerWord < leastPerWord || c.PerWord > mostPerWord {
		return workload.Calibration{}, false
	}
	c.Overhead = max(0, float64(few)-c.PerWord*probeWords)
	return c, true
}

// delayedAck is how long the kernel delays an acknowledgement that it hopes to
// send along with data, and quick is a wait that cannot have been one for it.
const (
	delayedAck = 40 * time.Millisecond
	quick      = 30 * time.Millisecond
)

// findNagle compares answers on a connection in use: one while the kernel delays
// its acknowledgements, one while it does not. A busy machine can look like
// Nagle's algorithm once, so a sign of it must come twice.
func (x *examiner) findNagle(probe func(ackHabit) (Record, error)) error {
	for range 2 {
		later, err := probe(ackLater)
		if err != nil {
			return err
		}
		once, err := probe(ackAtOnce)
		if err != nil {
			return err
		}
		x.probe.Nagle = nagleBetween(&later, &once)
		if x.probe.Nagle != NagleOn || x.target.options.HTTP2 {
			break
		}
	}
	// Where it is off, acknowledging each read would only cost time.
	x.target.quickAck = x.probe.Nagle != NagleOff
	return nil
}

// nagleBetween looks at the two waits that the algorithm lengthens: that of the
// first token behind the head, and those between tokens. One that is long even
// when acknowledged at once says nothing.
func nagleBetween(later, once *Record) Nagle {
	if !later.Has(Reused) || !once.Has(Reused) || later.Has(Resent) || once.Has(Resent) {
		return NagleUnknown
	}
	found := NagleUnknown
	for _, wait := range []func(*Record) time.Duration{
		func(r *Record) time.Duration { return time.Duration(r.FirstContent - r.FirstByte) },
		func(r *Record) time.Duration { return time.Duration(r.MaxGap) },
	} {
		if wait(once) >= quick || once.Chunks < 2 {
			continue
		}
		if wait(later) >= delayedAck-5*time.Millisecond {
			return NagleOn
		}
		found = NagleOff
	}
	return found
}

// chooseModel takes the only model that the server has.
func (x *examiner) chooseModel(ctx context.Context) error {
	models, err := x.target.Models(ctx)
	if err != nil {
		return unlisted(err)
	}
	if len(models) != 1 {
		return &Failure{Class: BadStream, Message: fmt.Sprintf("no model was named, and the server has %d", len(models)), Models: Names(models)}
	}
	x.probe.Model = models[0].ID
	return x.fits(models)
}

// fits refuses requests that are longer than what the server lists for the model.
func (x *examiner) fits(models []Model) error {
	for _, m := range models {
		if m.ID != x.probe.Model {
			continue
		}
		if long := m.Limits.Refuse(x.spec.InputTokens.Mean, x.wanted); long != nil {
			return &Failure{Class: HTTPStatus, Message: long.Error(), TooLong: true, Err: long}
		}
	}
	return nil
}

// explain adds to a 404 which models there are.
func (x *examiner) explain(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*Failure](err); ok && f.Status == http.StatusNotFound {
		if models, err := x.target.Models(ctx); err == nil {
			f.Models = Names(models)
		}
	}
	return err
}

// ask reads a page of the server.
func (t *Target) ask(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	transport := t.transport()
	defer transport.CloseIdleConnections()
	if !t.options.HTTP2 {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		transport.Protocols, transport.TLSClientConfig = protocols, t.tlsConfig("http/1.1")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base.String()+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header = t.headers()
	req.Header.Set("Accept", "application/json")
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, unwrapDial(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if res.StatusCode == http.StatusOK {
		return body, err
	}
	said := stream{mask: t.mask, body: body[:min(len(body), maxBody)], isHTML: http1.Head{}.WithType(res.Header.Get("Content-Type")).HTML}
	return nil, &PageError{res.StatusCode, said.bodyMessage()}
}
