package spec

import (
	"io/fs"
	"iter"
	"path"
	"runtime"
	"slices"
)

// Summary reads episode.json of one of Numbers, and nothing else.
func (r *RecordedRun) Summary(number int) (*Episode, error) {
	if !slices.Contains(r.numbers, number) {
		return nil, badFile(episodeDir(number), "is missing", "")
	}
	var e Episode
	if err := r.readSummary(number, &e); err != nil {
		return nil, err
	}
	return &e, nil
}

// Requests gives the requests of one of Numbers in the order of their lines, however
// many they are. Each is good until the next one is asked for. An error comes last and
// alone, and what came before it is not to be believed: it is what Episode says of the
// same files.
func (r *RecordedRun) Requests(number int) iter.Seq2[*Request, error] {
	return streamed(r, number, func(*Episode) (*lineFile[Request], sums[Request]) {
		return requestsFile(r.files, number), &requestSums{}
	})
}

// Samples gives the samples of one of Numbers, as Requests gives its requests.
func (r *RecordedRun) Samples(number int) iter.Seq2[*Sample, error] {
	return streamed(r, number, func(e *Episode) (*lineFile[Sample], sums[Sample]) {
		return seriesFile(r.files, number, len(e.Samples) == 0), sampleSums{}
	})
}

// sums is what an episode says that the values of a file add up to.
type sums[T any] interface {
	add(v *T)
	agree(d *document, e *Episode)
}

// streamed gives the values of an episode's file, and then where the episode sums them
// up otherwise.
func streamed[T any](r *RecordedRun, number int, of func(*Episode) (*lineFile[T], sums[T])) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		e, err := r.Summary(number)
		if err != nil {
			yield(nil, err)
			return
		}
		if e.SummaryOf != "" {
			return
		}
		file, found := of(e)
		for v, err := range file.all() {
			if err == nil {
				found.add(v)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
		if err := disagreement(number, func(d *document) { found.agree(d, e) }); err != nil {
			yield(nil, err)
		}
	}
}

// lineFile is a file of which every line is a value.
type lineFile[T any] struct {
	files      fs.FS
	name       string
	mayBeEmpty bool
	emptyHint  string // why it may not
	keep       bool   // a value is good for ever, not only until the next one is asked for

	// newParse gives a function that reads a line into a value, and says what is wrong
	// with it. Each is used by one goroutine alone.
	newParse func() func(line []byte, number int, v *T, to *pointees) Mistakes
}

// batch is some lines on their way from the file to whoever wants their values.
type batch[T any] struct {
	text   []byte
	ends   []int    // of the lines in it
	first  int      // the number of the first line
	unread Mistakes // why there is no line after them
	values []T      // up to the first line with which something is wrong
	wrong  Mistakes
	parsed chan struct{}
	to     pointees
}

const (
	batchLines = 1024
	batchBytes = 256 << 10
)

// all gives the values in their order. To unzip lines takes about as long as to read
// them, so that one goroutine does the one and others do the other.
func (f *lineFile[T]) all() iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		name := f.name
		in, err := openEither(f.files, &name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer in.close()
		parsers := min(4, runtime.GOMAXPROCS(0))
		ahead := 2 * parsers
		work, order, done := make(chan *batch[T], ahead), make(chan *batch[T], ahead), make(chan *batch[T], ahead)
		stop := make(chan struct{})
		for range parsers {
			go f.parse(work)
		}
		go f.read(in, work, order, done, stop)
		defer func() {
			close(stop)
			for range order { // until the reader has ended: then the file may be closed
			}
		}()

		t := &lineTeller{file: name}
		n := 0
		for b := range order {
			<-b.parsed
			n += len(b.ends)
			for i := range b.values {
				if len(t.mistakes) > 0 {
					break
				}
				if !yield(&b.values[i], nil) {
					return
				}
			}
			if t.mistakes = append(append(t.mistakes, b.wrong...), b.unread...); !t.more() {
				break
			}
			if !f.keep {
				select {
				case done <- b:
				default:
				}
			}
		}
		switch err := t.err(); {
		case err != nil:
			yield(nil, err)
		case n == 0 && !f.mayBeEmpty:
			yield(nil, badFile(name, "is empty", f.emptyHint))
		}
	}
}

// read deals the lines into batches until there are no more, or nobody wants them.
func (f *lineFile[T]) read(in *lines, work, order chan<- *batch[T], done <-chan *batch[T], stop <-chan struct{}) {
	defer close(order)
	defer close(work)
	t := &lineTeller{}
	for more := true; more; {
		var b *batch[T]
		select {
		case b = <-done:
		default:
			b = &batch[T]{parsed: make(chan struct{}, 1)}
		}
		b.text, b.ends, b.first, b.values, b.wrong = b.text[:0], b.ends[:0], in.line+1, b.values[:0], nil
		b.to.clear()
		for more && len(b.ends) < batchLines && len(b.text) < batchBytes {
			var line []byte
			if line, more = in.whole(t); more {
				b.text = append(b.text, line...)
				b.ends = append(b.ends, len(b.text))
			}
		}
		b.unread = t.mistakes
		select {
		case order <- b:
			// A parser takes what comes and waits for nobody, since parsed has room for
			// one: there is soon room here, though nobody read order any more.
			work <- b
		case <-stop:
			return
		}
	}
}

// parse reads the values of the batches that come.
func (f *lineFile[T]) parse(work <-chan *batch[T]) {
	parse := f.newParse()
	for b := range work {
		b.values = slices.Grow(b.values, len(b.ends))[:len(b.ends)]
		from, sound := 0, len(b.ends)
		for i, end := range b.ends {
			wrong := parse(b.text[from:end], b.first+i, &b.values[i], &b.to)
			if from = end; len(wrong) > 0 {
				sound = min(sound, i)
				if b.wrong = append(b.wrong, wrong...); len(b.wrong) >= mostToldFile {
					break
				}
			}
		}
		b.values = b.values[:sound]
		b.parsed <- struct{}{}
	}
}

// gathered is all values of a file, of which there are about so many.
func gathered[T any](f *lineFile[T], about int) ([]T, error) {
	f.keep = true
	all := make([]T, 0, max(0, min(about, 1<<20)))
	for v, err := range f.all() {
		if err != nil {
			return nil, err
		}
		all = append(all, *v)
	}
	return all, nil
}

// requestsFile is requests.jsonl of an episode. There are many lines in it, so that one
// is looked at closely only when quicker looks find it wrong.
func requestsFile(files fs.FS, number int) *lineFile[Request] {
	return &lineFile[Request]{files: files, name: path.Join(episodeDir(number), "requests.jsonl"),
		emptyHint: "an episode in which nothing was sent is none",
		newParse: func() func([]byte, int, *Request, *pointees) Mistakes {
			scan, quick := newScanner(), newQuickLook()
			return func(line []byte, number int, q *Request, to *pointees) Mistakes {
				if scan.request(line, q, to) && q.wrong() == "" {
					return nil
				}
				*q = unsaidRequest()
				if quick.read(line, q) && q.wrong() == "" {
					return nil
				}
				*q = Request{}
				return closeLook(line, number, q).sorted()
			}
		}}
}

// seriesFile is series.jsonl of an episode. It may be empty where nobody was observed.
func seriesFile(files fs.FS, number int, mayBeEmpty bool) *lineFile[Sample] {
	return &lineFile[Sample]{files: files, name: path.Join(episodeDir(number), "series.jsonl"),
		mayBeEmpty: mayBeEmpty, emptyHint: "episode.json says that there were samples",
		newParse: func() func([]byte, int, *Sample, *pointees) Mistakes {
			scan, quick := newScanner(), newQuickLook()
			return func(line []byte, number int, s *Sample, to *pointees) Mistakes {
				if scan.sample(line, s, to) && !s.wrong() {
					return nil
				}
				*s = Sample{T: unsaid, Name: unsaidText}
				if quick.read(line, s) && s.Name != unsaidText && s.Client == nil && !s.wrong() {
					return nil
				}
				*s = Sample{}
				d := decodeJSON(line, number, s)
				d.checkSample(s)
				return d.sorted()
			}
		}}
}
