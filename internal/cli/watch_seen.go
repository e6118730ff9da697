package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"aicr/internal/judge"
	"aicr/internal/observe"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// sightings is what was seen so far. The observer tells it from one goroutine,
// the screen is drawn from another.
type sightings struct {
	clock   observe.Clock
	secrets *secrets

	out    sync.Mutex
	record *watchRecord
	told   bool    // that the record cannot be written
	stream *stream // of the samples, or nil

	mu    sync.Mutex
	live  *judge.Live
	tally *judge.Tally
	off   map[string]*sighting // what is off now, by what it is
	past  []*sighting          // everything that ever was, in the order that it began

	logged []*logSighting // what logs said, by its kind, in the order that it began
	fresh  []string       // of that, what nobody was told yet
}

// logSighting is what the log of one source said again and again.
type logSighting struct {
	source, reason, text string
	count                int
	first, last          time.Duration
}

// sighting is a symptom from its beginning to its end.
type sighting struct {
	judge.Symptom
	plain      string // its words, for people
	from, last time.Duration
	over       bool
	missed     int // looks in a row that did not see it
}

// Sample takes a sample.
func (s *sightings) Sample(sample spec.Sample) {
	if mask := s.secrets.known(); mask != nil {
		sample = sample.WithTexts(mask.Text)
	}
	s.mu.Lock()
	s.live.Add(sample)
	s.tally.Add(sample)
	s.mu.Unlock()
	s.keep("series.jsonl", sample)
}

// Event takes what a log said.
func (s *sightings) Event(e spec.Event) {
	e.Text = s.secrets.known().Text(e.Text)
	s.keep("events.jsonl", e)
	at := time.Duration(e.T * float64(time.Second))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logged {
		if l.source == e.Source && l.reason == e.Reason {
			l.text, l.last = e.Text, at
			l.count += max(1, e.Count)
			return
		}
	}
	s.logged = append(s.logged, &logSighting{e.Source, e.Reason, e.Text, max(1, e.Count), at, at})
	s.fresh = append(s.fresh, fmt.Sprintf("log %s: %s: %s", e.Source, e.Reason, e.Text))
}

// logLines are what logs said, the newest first.
func (s *sightings) logLines() []logSighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []logSighting
	for _, l := range s.logged {
		if l.reason != logEnded {
			all = append(all, *l)
		}
	}
	slices.SortStableFunc(all, func(x, y logSighting) int { return cmp.Compare(y.last, x.last) })
	return all
}

// logEnded is the reason of the event that a log has ended.
const logEnded = "ended"

func (s *sightings) keep(file string, v any) {
	s.out.Lock()
	defer s.out.Unlock()
	s.record.append(file, v)
	s.stream.line(v)
}

// flush writes out what the record has, and tells once that it cannot.
func (s *sightings) flush() error {
	s.out.Lock()
	defer s.out.Unlock()
	s.record.flush()
	if s.record.lost == nil || s.told {
		return nil
	}
	s.told = true
	return s.record.lost
}

// look is the picture at a time.
func (s *sightings) look(now time.Duration) judge.Picture {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live.Picture(int64(now))
}

// settle is how many looks in a row must miss a symptom for it to be over: one
// that comes and goes with every sample is one.
const settle = 3

// news compares a picture with what was off before, and tells what changed.
func (s *sightings) news(p judge.Picture, now time.Duration) []string {
	s.mu.Lock()
	lines := s.fresh
	s.fresh = nil
	s.mu.Unlock()
	seen, plain := map[string]bool{}, plainWords(p)
	for _, symptom := range p.Symptoms {
		key := fmt.Sprint(symptom.Finding, symptom.Workers, symptom.GPUs, symptom.Nodes, symptom.Frontends)
		seen[key] = true
		at := s.off[key]
		if at == nil {
			at = &sighting{from: max(0, now-time.Duration(symptom.SinceS*float64(time.Second)))}
			s.off[key] = at
			if s.past = append(s.past, at); len(s.past) > mostPast {
				s.past = s.past[1:]
			}
			lines = append(lines, symptom.Finding+": "+plain(symptom.Words))
			s.keepEvent(spec.EventSymptom, symptom, now, nil)
		}
		at.Symptom, at.last, at.missed = symptom, now, 0
		at.plain = plain(symptom.Words)
	}
	for _, key := range slices.Sorted(maps.Keys(s.off)) {
		at := s.off[key]
		if seen[key] {
			continue
		}
		if at.missed++; at.missed >= settle {
			at.over = true
			delete(s.off, key)
			lasted := (at.last - at.from).Seconds()
			who := plain(strings.Join(slices.Concat(at.Workers, at.GPUs, at.Nodes, at.Frontends), ", "))
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: over after %s  %s", at.Finding, shortTime(at.last-at.from), who)))
			s.keepEvent(spec.EventSymptomOver, at.Symptom, now, &lasted)
		}
	}
	return lines
}

// mostPast is how many symptoms are remembered for the summary: days of one that
// comes and goes must not fill the memory. The record has them all.
const mostPast = 1000

// end closes what is still off.
func (s *sightings) end(now time.Duration) {
	for _, at := range s.off {
		if at.missed == 0 {
			at.last = now
		}
	}
}

func (s *sightings) keepEvent(kind string, symptom judge.Symptom, now time.Duration, lasted *float64) {
	s.keep("events.jsonl", spec.Event{T: now.Seconds(), Kind: kind, Reason: symptom.Finding, Text: symptom.Words, Seconds: lasted,
		Worker: strings.Join(symptom.Workers, ","), Source: strings.Join(slices.Concat(symptom.GPUs, symptom.Nodes, symptom.Frontends), ",")})
}

// plainWords puts where a worker is in place of a number of twenty digits, and shows no
// name as anything else than text.
func plainWords(p judge.Picture) func(words string) string {
	var pairs []string
	for _, w := range slices.Backward(slices.SortedFunc(slices.Values(p.Workers), byNameLength)) {
		if shown := workerLabel(w.Name, w.Instance); shown != w.Name {
			pairs = append(pairs, w.Name, shown)
		}
	}
	if pairs == nil {
		return redact.Clean
	}
	labels := strings.NewReplacer(pairs...) // once for all words: a fleet has as many of both
	return func(words string) string { return redact.Clean(labels.Replace(words)) }
}

// byNameLength puts the name that another begins with before that.
func byNameLength(a, b judge.WorkerPicture) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

func (s *sightings) answered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.logged)
	for _, r := range s.tally.Rows() {
		n += r.Samples
	}
	return n
}
