package spec

import (
	"encoding/json"
	"strconv"
)

// scanner reads a line as our own recorder writes it, many times faster than
// encoding/json does. It understands no more than that: of a line that is written in
// any other way it says so, and encoding/json reads it. Where it reads one, both say
// the same.
type scanner struct {
	line []byte
	at   int
	kept map[string]string // texts that come again and again
}

func newScanner() *scanner { return &scanner{kept: map[string]string{}} }

// mostKept is how many texts are kept, and longestKept how long they may be.
const (
	mostKept    = 4096
	longestKept = 128
)

// pointees is where the values lie that those of a batch point to.
type pointees struct {
	wholes  []int
	floats  []float64
	workers []WorkerSample
	gpus    []GPUSample
}

func (p *pointees) clear() {
	p.wholes, p.floats, p.workers, p.gpus = p.wholes[:0], p.floats[:0], p.workers[:0], p.gpus[:0]
}

// placed is a place for a value.
func placed[T any](all *[]T) *T {
	if len(*all) == cap(*all) { // others point into the full one
		*all = make([]T, 0, batchLines)
	}
	*all = (*all)[:len(*all)+1]
	v := &(*all)[len(*all)-1]
	*v = *new(T)
	return v
}

// request reads a line of requests.jsonl, and reports whether it could.
func (s *scanner) request(line []byte, q *Request, to *pointees) bool {
	s.line, s.at = line, 0
	*q = Request{}
	return s.step("{") &&
		s.whole(`"seq":`, &q.Seq) && s.text(`"lane":`, &q.Lane) && s.text(`"phase":`, &q.Phase) &&
		s.whole(`"intended":`, &q.Intended) && s.whole(`"sent":`, &q.Sent) &&
		s.maybeWhole(`"first":`, &q.First) && s.maybeWhole(`"last":`, &q.Last) && s.whole(`"end":`, &q.End) &&
		s.maybeWhole(`"gap":`, &q.Gap) && s.maybeWhole(`"gap_end":`, &q.GapEnd) &&
		s.count(`"prompt":`, &q.Prompt) && s.maybeCounted(`"cached":`, &q.Cached, to) && s.count(`"tokens":`, &q.Tokens) &&
		s.maybeCounted(`"events":`, &q.Events, to) && s.maybeCounted(`"text_bytes":`, &q.TextBytes, to) &&
		s.maybeText(`"worker":`, &q.Worker) && s.text(`"class":`, &q.Class) &&
		s.maybeCount(`"status":`, &q.Status) && s.maybeText(`"finish":`, &q.Finish) && s.maybeText(`"detail":`, &q.Detail) &&
		s.step("}") && s.at == len(line)
}

// sample reads a line of series.jsonl of a worker or a GPU, which nearly all are, and
// reports whether it could.
func (s *scanner) sample(line []byte, v *Sample, to *pointees) bool {
	s.line, s.at = line, 0
	*v = Sample{}
	return s.step("{") &&
		s.whole(`"t":`, &v.T) && s.text(`"source":`, &v.Source) && s.text(`"name":`, &v.Name) &&
		s.maybeText(`"instance":`, &v.Instance) && s.maybeWhole(`"took":`, &v.Took) && s.maybeText(`"gap":`, &v.Gap) &&
		(!s.member(`"worker":{`) || s.worker(v, to)) && (!s.member(`"gpu":{`) || s.gpu(v, to)) &&
		s.step("}") && s.at == len(line)
}

func (s *scanner) worker(v *Sample, to *pointees) bool {
	w := placed(&to.workers)
	v.Worker = w
	return s.maybeNumber(`"running":`, &w.Running, to) && s.maybeNumber(`"waiting":`, &w.Waiting, to) &&
		s.maybeNumber(`"deferred":`, &w.Deferred, to) && s.maybeNumber(`"in_flight":`, &w.InFlight, to) &&
		s.maybeNumber(`"kv_usage":`, &w.KVUsage, to) && s.maybeNumber(`"asleep":`, &w.Asleep, to) &&
		s.maybeNumber(`"generated_tokens":`, &w.Generated, to) && s.maybeNumber(`"ended_tokens":`, &w.EndedTokens, to) &&
		s.maybeNumber(`"prompt_tokens":`, &w.PromptTokens, to) &&
		s.maybeNumber(`"prefix_queries":`, &w.PrefixQueries, to) && s.maybeNumber(`"prefix_hits":`, &w.PrefixHits, to) &&
		s.maybeNumber(`"preemptions":`, &w.Preemptions, to) && s.maybeNumber(`"rejected":`, &w.Rejected, to) &&
		s.maybeNumber(`"ended":`, &w.Ended, to) && s.maybeNumber(`"failed":`, &w.Failed, to) &&
		s.maybeNumber(`"aborted":`, &w.Aborted, to) && s.maybeNumber(`"tokens_per_s":`, &w.TokensPerS, to) &&
		s.maybeNumber(`"started_s":`, &w.Started, to) &&
		s.maybeText(`"gpu":`, &w.GPU) && (!s.member(`"gpus":[`) || s.texts(&w.GPUs)) &&
		s.maybeText(`"pod":`, &w.Pod) && s.maybeText(`"role":`, (*string)(&w.Role)) &&
		s.step("}")
}

func (s *scanner) gpu(v *Sample, to *pointees) bool {
	g := placed(&to.gpus)
	v.GPU = g
	if !(s.maybeNumber(`"utilization":`, &g.Utilization, to) && s.maybeNumber(`"power_w":`, &g.PowerW, to) &&
		s.maybeNumber(`"sm_clock_mhz":`, &g.SMClockMHz, to) && s.maybeNumber(`"temperature_c":`, &g.TemperatureC, to) &&
		s.maybeNumber(`"xid":`, &g.XID, to) && s.maybeNumber(`"ecc_double_bit":`, &g.DoubleBit, to) &&
		s.maybeNumber(`"row_remap_failure":`, &g.RemapFailure, to)) {
		return false
	}
	if s.member(`"throttle":[`) {
		g.Throttle = new([]string)
		if !s.texts(g.Throttle) {
			return false
		}
	}
	return s.maybeNumber(`"memory_used_mib":`, &g.MemoryUsed, to) && s.maybeText(`"index":`, &g.Index) &&
		s.maybeText(`"model":`, &g.Model) && s.maybeText(`"node":`, &g.Node) && s.maybeText(`"pod":`, &g.Pod) &&
		s.step("}")
}

// texts reads a list from its first element on.
func (s *scanner) texts(v *[]string) bool {
	*v = []string{}
	for !s.step("]") {
		var text string
		if len(*v) > 0 && !s.step(",") || !s.string(&text) {
			return false
		}
		*v = append(*v, text)
	}
	return true
}

// step steps over what must come next.
func (s *scanner) step(next string) bool {
	end := s.at + len(next)
	if end > len(s.line) || string(s.line[s.at:end]) != next {
		return false
	}
	s.at = end
	return true
}

// member steps over the beginning of a member, where it is that.
func (s *scanner) member(begin string) bool {
	was := s.at
	if (s.line[was-1] == '{' || s.step(",")) && s.step(begin) {
		return true
	}
	s.at = was
	return false
}

func (s *scanner) whole(begin string, v *int64) bool { return s.member(begin) && s.digits(v) }

func (s *scanner) maybeWhole(begin string, v *int64) bool { return !s.member(begin) || s.digits(v) }

func (s *scanner) count(begin string, v *int) bool { return s.member(begin) && s.small(v) }

func (s *scanner) maybeCount(begin string, v *int) bool { return !s.member(begin) || s.small(v) }

func (s *scanner) maybeCounted(begin string, v **int, to *pointees) bool {
	if !s.member(begin) {
		return true
	}
	*v = placed(&to.wholes)
	return s.small(*v)
}

func (s *scanner) text(begin string, v *string) bool { return s.member(begin) && s.string(v) }

func (s *scanner) maybeText(begin string, v *string) bool { return !s.member(begin) || s.string(v) }

func (s *scanner) maybeNumber(begin string, v **float64, to *pointees) bool {
	if !s.member(begin) {
		return true
	}
	*v = placed(&to.floats)
	return s.number(*v)
}

func (s *scanner) small(v *int) bool {
	var n int64
	ok := s.digits(&n)
	*v = int(n)
	return ok && int64(*v) == n
}

// digits reads a whole number that is not negative. What follows it is no part of it
// only where whoever comes next finds there what must come next.
func (s *scanner) digits(v *int64) bool {
	from, n := s.at, int64(0)
	for ; s.at < len(s.line); s.at++ {
		c := s.line[s.at] - '0'
		if c > 9 {
			break
		}
		n = 10*n + int64(c)
	}
	*v = n
	length := s.at - from
	return length == 1 || length > 1 && length <= 18 && s.line[from] != '0'
}

// number reads any number of JSON.
func (s *scanner) number(v *float64) bool {
	from := s.at
	var whole int64
	if s.digits(&whole) && s.at-from <= 15 && s.at < len(s.line) && (s.line[s.at] == ',' || s.line[s.at] == '}') {
		*v = float64(whole)
		return true
	}
	s.at = from
	s.step("-")
	lead := s.at
	if n := s.skipDigits(); n == 0 || n > 1 && s.line[lead] == '0' {
		return false
	}
	if s.step(".") && s.skipDigits() == 0 {
		return false
	}
	if s.step("e") || s.step("E") {
		if !s.step("-") {
			s.step("+")
		}
		if s.skipDigits() == 0 {
			return false
		}
	}
	var err error
	*v, err = strconv.ParseFloat(string(s.line[from:s.at]), 64)
	return err == nil
}

// skipDigits steps over digits and counts them.
func (s *scanner) skipDigits() int {
	from := s.at
	for s.at < len(s.line) && s.line[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at - from
}

// string reads a text.
func (s *scanner) string(v *string) bool {
	if !s.step(`"`) {
		return false
	}
	from := s.at
	for ; s.at < len(s.line); s.at++ {
		switch c := s.line[s.at]; {
		case c == '"':
			*v = s.keep(s.line[from:s.at])
			s.at++
			return true
		case c == '\\' || c < ' ' || c > '~':
			return s.escaped(from-1, v)
		}
	}
	return false
}

// escaped reads a text that does not stand there as it is.
func (s *scanner) escaped(from int, v *string) bool {
	for ; s.at < len(s.line); s.at++ {
		switch s.line[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return json.Unmarshal(s.line[from:s.at], v) == nil
		}
	}
	return false
}

// keep gives a text that outlives its line.
func (s *scanner) keep(text []byte) string {
	if known, ok := s.kept[string(text)]; ok {
		return known
	}
	own := string(text)
	if len(s.kept) < mostKept && len(own) <= longestKept {
		s.kept[own] = own
	}
	return own
}
