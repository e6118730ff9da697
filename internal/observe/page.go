package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxLine is how long a line of a metrics page may be.
const maxLine = 64 << 10

// page is what is wanted of a metrics page in Prometheus' text format, by the
// name that stands at the start of the line.
type page map[string][]series

type series struct {
	labels map[string]string
	value  float64
}

var (
	errNoMetrics = errors.New("not a metrics page")
	errCutShort  = errors.New("the page ends in the middle of a line")
)

// parser reads the pages of one source, one after the other. What stands before
// the value of a line hardly ever changes from page to page, so it is parsed once
// and known by its bytes from then on: a fleet's pages are read every second.
type parser struct {
	text  *expfmt.TextParser
	known map[string]head
	bytes int // of the keys of known
}

// head is what a line says before its value.
type head struct {
	name   string
	labels map[string]string
}

// What is remembered of them at most, in number and in bytes. A page whose labels change
// each time must not fill the memory.
const (
	mostHeads     = 16 << 10
	mostHeadBytes = 4 << 20
)

// lookEvery is after how many lines it is asked whether anybody still wants the page.
const lookEvery = 512

// parse reads the lines whose names are wanted, until ctx ends. The others, which are most
// of a page, are only looked at.
func (r *parser) parse(ctx context.Context, text []byte, wanted names) (page, error) {
	p := page{}
	if len(bytes.TrimSpace(text)) == 0 {
		return p, nil // an exporter that has nothing to tell yet
	}
	if text[len(text)-1] != '\n' {
		return nil, errCutShort
	}
	if len(r.known) > mostHeads || r.bytes > mostHeadBytes {
		r.known, r.bytes = nil, 0
	}
	var last []byte // the name of the line before: a histogram has dozens of the same
	wants, lines, taken := false, 0, 0
	for rest := text; len(rest) > 0; {
		if lines++; lines%lookEvery == 0 {
			if err := ctx.Err(); err != nil {
				return nil, unread(err)
			}
		}
		end := bytes.IndexByte(rest, '\n') + 1
		line := rest[:end]
		rest = rest[end:]
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line is longer than %d KiB", maxLine>>10)
		}
		if n := len(last); n == 0 || !bytes.HasPrefix(line, last) || line[n] != '{' {
			name, ok := lineName(line)
			if !ok {
				continue
			}
			if !model.LegacyValidation.IsValidMetricName(string(name)) {
				return nil, errNoMetrics
			}
			last, wants = name, wanted.has(name)
		}
		if !wants {
			continue
		}
		if taken++; taken > limits[LimitSeries].most {
			return nil, &LimitError{LimitSeries}
		}
		before, after := halves(line)
		h, known := r.known[string(before)]
		value, plain := plainValue(after)
		if !known || !plain {
			var err error
			if h, value, err = r.line(line); err != nil {
				return nil, err
			}
			r.remember(before, h)
		}
		p[h.name] = append(p[h.name], series{h.labels, value})
	}
	return p, nil
}

// unread says why a page was not read to its end.
func unread(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &LimitError{LimitTime} // who answered in time is not silent
	}
	return err
}

func (r *parser) remember(before []byte, h head) {
	if r.known == nil {
		r.known = map[string]head{}
	}
	if _, there := r.known[string(before)]; !there {
		r.bytes += len(before)
	}
	r.known[string(before)] = h
}

// line parses one that is not known yet.
func (r *parser) line(line []byte) (head, float64, error) {
	if r.text == nil {
		text := expfmt.NewTextParser(model.LegacyValidation)
		r.text = &text
	}
	families, err := r.text.TextToMetricFamilies(bytes.NewReader(line))
	if err != nil {
		return head{}, 0, fmt.Errorf("not a metrics page: %s", oneLine(err.Error()))
	}
	for name, family := range families {
		if len(family.GetMetric()) != 1 {
			continue
		}
		m := family.GetMetric()[0]
		labels := make(map[string]string, len(m.GetLabel()))
		for _, l := range m.GetLabel() {
			if err := LimitLabel.within(len(l.GetValue())); err != nil {
				return head{}, 0, err
			}
			labels[l.GetName()] = cleaned([]byte(l.GetValue())) // it will be on somebody's terminal
		}
		return head{name, labels}, m.GetUntyped().GetValue(), nil // a line by itself has no type
	}
	return head{}, 0, fmt.Errorf("not a metrics page: %w", errNoMetrics)
}

// halves cuts a line before its value. What follows the labels is numbers, so that
// the last brace is the one that ends them.
func halves(line []byte) (before, after []byte) {
	end := bytes.LastIndexByte(line, '}') + 1
	if end == 0 {
		end = max(0, bytes.IndexAny(line, " \t"))
	}
	return line[:end], line[end:]
}

// plainValue reads a number that stands alone and is written as every exporter
// does; anything else is left to the parser.
func plainValue(text []byte) (v float64, ok bool) {
	text = bytes.Trim(text, " \t\n")
	if len(text) == 0 || bytes.ContainsAny(text, " \t\rpPxX_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(text), 64)
	return v, err == nil
}

// lineName is the name that a line begins with; a comment and an empty line have
// none.
func lineName(line []byte) ([]byte, bool) {
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 || line[0] == '#' || line[0] == '\n' || line[0] == '\r' {
		return nil, false
	}
	if end := bytes.IndexAny(line, "{ \t\r\n"); end >= 0 {
		line = line[:end]
	}
	return line, true
}

// matching is the series of a name that have these labels.
func (p page) matching(name string, labels map[string]string) []series {
	var found []series
	for _, s := range p[name] {
		if s.has(labels) {
			found = append(found, s)
		}
	}
	return found
}

func (s series) has(labels map[string]string) bool {
	for name, value := range labels {
		if s.labels[name] != value {
			return false
		}
	}
	return true
}

// firstLabel is the value of the first of these labels that a series has.
func (s series) firstLabel(names ...string) string {
	for _, name := range names {
		if v := s.labels[name]; v != "" {
			return v
		}
	}
	return ""
}

// sum adds up the values of several series of what is counted; nothing when there are
// none, or when one of them is no number or below 0.
func sum(all []series) *float64 {
	if len(all) == 0 {
		return nil
	}
	total := 0.0
	for _, s := range all {
		if s.value < 0 {
			return nil
		}
		total += s.value
	}
	return number(total)
}

// greatest is the largest value of several series.
func greatest(all []series) *float64 {
	if len(all) == 0 {
		return nil
	}
	return number(slices.MaxFunc(all, func(a, b series) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	}).value)
}

// mostValue is beyond what a counter of 64 bits can hold, and little enough that sums,
// differences and rates of such values are numbers that JSON can carry.
const mostValue = 1e21

// number is a value that was measured. NaN, infinity, and what no server can have counted
// stand for nothing.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.Abs(v) > mostValue {
		return nil
	}
	return &v
}

// total adds to a value that is known.
func total(v, more *float64) *float64 {
	if v == nil || more == nil {
		return v
	}
	return number(*v + *more)
}

// scaled is a value in another unit; nothing stays nothing.
func scaled(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	return number(*v * by)
}

// wordy joins names as a sentence does.
func wordy(names []string, and string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " " + and + " " + names[len(names)-1]
}
