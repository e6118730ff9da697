package report

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// CSV writes one table of the checks that the recipe declares, then of the run's episodes,
// then of its requests, a row each, as RFC 4180 has it. It holds one row at a time, however
// many there are. An empty cell is what was not measured, or what another kind of row has.
func CSV(w io.Writer, r *spec.Report) error {
	out := bufio.NewWriterSize(w, 64<<10)
	row := &csvRow{}
	for _, column := range csvColumns() {
		row.text(column)
	}
	if _, err := out.Write(row.line()); err != nil {
		return err
	}
	for i := range r.Verdict.Checks {
		row.check(&r.Verdict.Checks[i])
		if _, err := out.Write(row.line()); err != nil {
			return err
		}
	}
	starts := map[int]float64{}
	for i := range r.Episodes {
		e := &r.Episodes[i]
		starts[e.Number] = e.At
		row.episode(e, len(r.Verdict.Parts) > 0)
		if _, err := out.Write(row.line()); err != nil {
			return err
		}
	}
	if r.Requests != nil {
		for q, err := range r.Requests {
			if err != nil {
				return err
			}
			start, known := starts[q.Episode]
			if !known {
				start = math.NaN()
			}
			row.request(q, start, r.Verdict.Named(q.Worker))
			if _, err := out.Write(row.line()); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// csvColumns are the columns, in an order that does not change: a new one goes to the
// end. docs/reports/csv.md says what each is.
func csvColumns() []string {
	return []string{
		"record", "episode", "at_s",
		// of an episode
		"until_s", "cut_s", "counted", "loaded_s", "workers", "concurrency", "ramp_s", "duration_s", "input_tokens", "output_tokens", "prompts",
		"sent", "served", "failed", "interrupted", "sentinel_sent", "sentinel_served", "sentinel_failed", "client_valid",
		// of both
		"prompt_tokens", "cached_tokens", "completion_tokens",
		// of a request
		"seq", "lane", "phase", "worker", "class", "status", "finish",
		"intended_s", "sent_s", "first_s", "last_s", "end_s",
		"late_ms", "ttft_ms", "itl_ms", "latency_ms", "gap_ms", "gap_end_s", "detail",
		// of a check
		"check", "check_phase", "check_state", "check_code", "check_reason",
	}
}

// How many columns only the one kind of row has, and how many only the other two.
const (
	ofEpisode = 19
	ofRequest = 19
	ofCheck   = 5
	ofOthers  = 44
)

// check is a row of what a declared check came to.
func (c *csvRow) check(v *spec.CheckVerdict) {
	c.text("check")
	c.none(ofOthers - 1)
	c.text(v.Name)
	c.text(v.Phase)
	c.text(string(v.Verdict))
	c.text(v.Reason.Code)
	c.text(v.Reason.Text)
}

// episode is a row of what an episode came to. Whether it counted is known where the
// verdict tells.
func (c *csvRow) episode(e *spec.ReportEpisode, told bool) {
	c.begin("episode", e.Number)
	c.number(e.At)
	c.number(e.Until)
	if e.Cut != nil {
		c.number(*e.Cut)
	} else {
		c.none(1)
	}
	if told {
		c.truth(e.Counted)
	} else {
		c.none(1)
	}
	c.number(e.LoadedS)
	p := &e.Point
	c.known(p.Workers)
	c.known(p.Concurrency)
	c.number(p.RampS)
	if p.DurationS > 0 {
		c.number(p.DurationS)
	} else {
		c.none(1) // it ends by count
	}
	c.known(p.InputTokens)
	c.known(p.OutputTokens)
	c.text(p.Prompts)
	c.count(int64(e.Requests.Sent))
	c.count(int64(e.Requests.Served))
	c.count(int64(e.Requests.Failed))
	c.count(int64(e.Requests.Interrupted))
	c.count(int64(e.Sentinel.Sent))
	c.count(int64(e.Sentinel.Served))
	c.count(int64(e.Sentinel.Failed))
	c.truth(e.Client.Valid)
	counted := e.Tokens.Prompt != 0 || e.Tokens.Completion != 0 // a bench counts none of an episode
	c.countIf(counted, e.Tokens.Prompt)
	if e.Tokens.Cached != nil {
		c.count(*e.Tokens.Cached)
	} else {
		c.none(1)
	}
	c.countIf(counted, e.Tokens.Completion)
	c.none(ofRequest + ofCheck)
}

// request is a row whose stamps count from the episode's start, which is at start on
// the run's clock.
func (c *csvRow) request(q spec.RequestOf, start float64, worker string) {
	c.begin("request", q.Episode)
	c.number(start + float64(q.Sent)/1e9)
	c.none(ofEpisode)
	c.known(q.Prompt)
	if q.Cached != nil {
		c.count(int64(*q.Cached))
	} else {
		c.none(1)
	}
	c.count(int64(q.Tokens))
	c.count(q.Seq)
	c.text(q.Lane)
	c.text(q.Phase)
	c.text(worker)
	c.text(q.Class)
	c.known(q.Status)
	c.text(q.Finish)
	c.nanos(true, q.Intended, 9)
	c.nanos(true, q.Sent, 9)
	c.nanos(q.First != 0, q.First, 9)
	c.nanos(q.Last != 0, q.Last, 9)
	c.nanos(q.End != 0, q.End, 9)
	c.nanos(true, q.Sent-q.Intended, 6)
	c.nanos(q.First != 0, q.First-q.Sent, 6)
	if q.First != 0 && q.Last != 0 && q.Tokens > 1 {
		c.number(float64(q.Last-q.First) / 1e6 / float64(q.Tokens-1))
	} else {
		c.none(1)
	}
	c.nanos(q.End != 0, q.End-q.Sent, 6)
	c.nanos(q.Gap != 0, q.Gap, 6)
	c.nanos(q.GapEnd != 0, q.GapEnd, 9)
	c.text(q.Detail)
	c.none(ofCheck)
}

// csvRow is a row in the making, with a comma behind each cell. It is one buffer for all
// rows: there may be millions of them.
type csvRow struct{ made []byte }

func (c *csvRow) begin(record string, episode int) {
	c.text(record)
	c.count(int64(episode))
}

// line is the row as it is written, good until the next one begins.
func (c *csvRow) line() []byte {
	line := append(c.made[:len(c.made)-1], '\r', '\n')
	c.made = line[:0]
	return line
}

// end ends a cell.
func (c *csvRow) end() { c.made = append(c.made, ',') }

func (c *csvRow) none(n int) {
	for range n {
		c.end()
	}
}

func (c *csvRow) count(n int64) {
	c.made = strconv.AppendInt(c.made, n, 10)
	c.end()
}

// countIf is a number that may not have been told.
func (c *csvRow) countIf(told bool, n int64) {
	if told {
		c.count(n)
	} else {
		c.none(1)
	}
}

// known is a number that is never zero where it is known.
func (c *csvRow) known(n int) { c.countIf(n != 0, int64(n)) }

func (c *csvRow) number(v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		c.made = strconv.AppendFloat(c.made, v, 'f', -1, 64)
	}
	c.end()
}

// nanos is a time to the nanosecond, with so many places, where it happened.
func (c *csvRow) nanos(happened bool, n int64, places int) {
	if happened {
		c.made = appendDecimal(c.made, n, places)
	}
	c.end()
}

func (c *csvRow) truth(is bool) {
	c.made = strconv.AppendBool(c.made, is)
	c.end()
}

// csvText is how many bytes of somebody else's text are kept.
const csvText = 1_000

// text is somebody else's. A spreadsheet would obey what begins like a formula.
func (c *csvRow) text(text string) {
	if isPlainCell(text) {
		c.made = append(c.made, text...)
		c.end()
		return
	}
	text = layout.Shown(text, csvText)
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(text))
	if strings.ContainsRune("=+-@＝＋－＠", first) {
		text = "'" + text
	}
	if needsQuotes(text) {
		text = `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	}
	c.made = append(c.made, text...)
	c.end()
}

// isPlainCell reports whether a text is written as it is, which nearly all are: it begins
// with a letter or a digit, and all of it is ASCII that can be seen and needs no quotes.
func isPlainCell(text string) bool {
	if len(text) > csvText {
		return false
	}
	for i := range len(text) {
		b := text[i]
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case i == 0, b < ' ', b > '~', b == ',', b == '"':
			return false
		}
	}
	return true
}

// needsQuotes goes by the rules of encoding/csv: a reader may drop a space at the
// beginning, and a lone \. ends the data for PostgreSQL. No clean text has a line's end.
func needsQuotes(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && (text == `\.` || strings.ContainsAny(text, `,"`) || unicode.IsSpace(first))
}

// appendDecimal writes a number of nanoseconds as a decimal with so many places, and no
// zeros at its end.
func appendDecimal(b []byte, n int64, places int) []byte {
	left := uint64(n)
	if n < 0 {
		b, left = append(b, '-'), -left
	}
	unit := uint64(math.Pow10(places))
	b = strconv.AppendUint(b, left/unit, 10)
	if left %= unit; left == 0 {
		return b
	}
	for left%10 == 0 {
		left, places = left/10, places-1
	}
	b = append(b, ".000000000"[:1+places]...)
	for at := len(b) - 1; left > 0; at-- {
		b[at] = byte('0' + left%10)
		left /= 10
	}
	return b
}
