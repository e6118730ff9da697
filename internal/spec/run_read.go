package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a record can be at most. A file that says otherwise is not one of ours.
const (
	maxLine      = 1 << 20 // bytes
	maxLines     = 20_000_000
	maxJSON      = 64 << 20 // bytes of a file that is one document
	latestStamp  = int64(1) << 62
	mostToldFile = 20 // mistakes of a file of lines
)

// BadFile is a file of a run that cannot be believed, with what is wrong with it.
// A Mistake of line 0 is about the file as a whole.
type BadFile struct {
	File     string // within the run's folder
	Mistakes Mistakes
}

func (e *BadFile) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		if lines[i] = e.File + ": " + m.Error(); m.Line == 0 {
			lines[i] = e.File + ": " + m.Text
		}
	}
	return strings.Join(lines, "\n")
}

func (e *BadFile) Unwrap() error { return e.Mistakes }

func badFile(file, text, hint string) error {
	return &BadFile{file, Mistakes{{Text: text, Hint: hint}}}
}

// RecordedRun is a run as it was kept. Its episodes are read one at a time, since
// a long run does not fit the memory.
type RecordedRun struct {
	Run    Run
	Plan   *Plan
	Events []Event
	Notes  []string // what is not as it should be, and does no harm

	files   fs.FS
	numbers []int
}

// ReadRun reads a run's folder, all but its episodes. A run that was killed is
// read as far as it got. Nothing else that is amiss is let through: the error, if
// any, joins a BadFile for each file that is wrong.
func ReadRun(files fs.FS) (*RecordedRun, error) {
	r := &RecordedRun{files: files}
	numbers, listed := episodeNumbers(files)
	r.numbers = numbers
	wrong := []error{r.readRun(), r.readPlan(), listed, r.readEvents()}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	if r.Plan.Half != nil && len(numbers) > 0 && numbers[0] != 0 {
		return nil, badFile("episodes/000", "is missing", "the plan has a look at half the load, which comes before the first episode")
	}
	return r, r.allThere()
}

// allThere finds an episode that was told of, of a run that came to its end, and is
// not there: who takes one away chooses among them.
func (r *RecordedRun) allThere() error {
	ended := slices.ContainsFunc(r.Events, func(e Event) bool { return e.Kind == EventStage && e.Stage == "end" })
	for _, e := range r.Events {
		if ended && e.Kind == EventStage && e.Stage == "episode" && !slices.Contains(r.numbers, e.Episode) {
			return badFile(fmt.Sprintf("episodes/%03d", e.Episode), "is missing", "events.jsonl tells of it, and of the run's end after it")
		}
	}
	return nil
}

// Numbers lists the whole episodes, from the first. 0 is the look at half the load.
func (r *RecordedRun) Numbers() []int { return slices.Clone(r.numbers) }

func (r *RecordedRun) readRun() error {
	const name = "run.json"
	data, err := readWhole(r.files, name, "is this the folder of a run? a run that was killed at once has recorded nothing")
	if err != nil {
		return err
	}
	d := decodeJSON(data, 1, &r.Run)
	d.constant("schema", r.Run.Schema, RunSchema)
	d.moment("start", r.Run.Start)
	d.moment("end", r.Run.End)
	return d.in(name)
}

func (r *RecordedRun) readPlan() error {
	const name = "plan.yaml"
	data, err := readWhole(r.files, name, "a run is judged by its plan; the record of 'aicr watch' has none")
	if err != nil {
		return err
	}
	plan, err := DecodePlan(data)
	if err != nil {
		all, _ := errors.AsType[Mistakes](err)
		return &BadFile{name, all}
	}
	r.Plan = plan
	return nil
}

func (r *RecordedRun) readEvents() error {
	const name = "events.jsonl"
	in, err := openLines(r.files, name)
	if errors.Is(err, fs.ErrNotExist) && len(r.numbers) == 0 {
		r.Notes = append(r.Notes, name+" is not there: the run ended before anything happened")
		return nil
	}
	if err != nil {
		return notRead(name, err, "an episode is told of there before it begins")
	}
	defer in.close()
	t := &lineTeller{file: name}
	for t.more() {
		line, whole, ok := in.next(t)
		if !ok {
			break
		}
		var e Event
		d := decodeJSON(line, in.line, &e)
		if !whole && !json.Valid(line) {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: line %d was cut off and is not counted: the run ended while it was written", name, in.line))
			break
		}
		d.checkEvent(&e)
		t.take(d)
		r.Events = append(r.Events, e)
	}
	if in.line == 0 && len(t.mistakes) == 0 {
		if len(r.numbers) > 0 {
			return badFile(name, "is empty", "an episode is told of there before it begins")
		}
		r.Notes = append(r.Notes, name+" is empty: the run ended before anything happened")
	}
	return t.err()
}

func (d *document) checkEvent(e *Event) {
	d.word("kind", e.Kind, eventKinds())
	d.between("t", e.T, 0, mostAnything)
	d.within("episode", e.Episode, 0, mostEpisodes)
	d.within("count", e.Count, 0, mostCounted)
	if e.Seconds != nil {
		d.between("seconds", *e.Seconds, 0, mostAnything)
	}
	for field, v := range map[string]*int{"tokens": e.Tokens, "want": e.Want, "have": e.Have} {
		if v != nil {
			d.within(field, *v, 0, mostCounted)
		}
	}
}

func eventKinds() []string {
	return []string{EventStage, EventVersions, EventGPUs, EventWorkers, EventPlaced, EventAnswer, EventLog, EventPod, EventNotServed,
		EventCannotPass, EventInterrupt, EventRequests, EventNode, EventRemoved, EventSymptom, EventSymptomOver}
}

var episodeName = regexp.MustCompile(`^([0-9]{3}|[1-9][0-9]{3})$`)

// episodeNumbers lists the episodes that are whole, which is those that are in
// their place. One that is missing between two others was taken away: every
// episode counts, so that the rest is no run.
func episodeNumbers(files fs.FS) ([]int, error) {
	entries, err := fs.ReadDir(files, "episodes")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, badFile("episodes", plainError(err), "")
	}
	var numbers []int
	var wrong []error
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp"): // left over by a kill
		case !episodeName.MatchString(name):
			wrong = append(wrong, badFile(path.Join("episodes", name), "is no episode's name", "episodes are 001, 002 and so on; take other things away"))
		case !e.IsDir():
			wrong = append(wrong, badFile(path.Join("episodes", name), "is no folder", ""))
		default:
			n, _ := strconv.Atoi(name)
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for want, at := 1, 0; at < len(numbers) && len(wrong) < mostToldFile; at++ {
		for ; want < numbers[at] && len(wrong) < mostToldFile; want++ {
			wrong = append(wrong, badFile(fmt.Sprintf("episodes/%03d", want), "is missing", "every episode counts: bring it back, or measure again"))
		}
		want = numbers[at] + 1
	}
	return numbers, errors.Join(wrong...)
}

// Episode reads one of Numbers, whole. The error, if any, joins a BadFile for each
// file that is wrong.
func (r *RecordedRun) Episode(number int) (*EpisodeRecord, error) {
	if !slices.Contains(r.numbers, number) {
		return nil, badFile(episodeDir(number), "is missing", "")
	}
	var e EpisodeRecord
	var requests, series error
	summary := r.readSummary(number, &e.Episode)
	if summary == nil && e.Episode.SummaryOf != "" {
		return &e, nil
	}
	e.Requests, requests = gathered(requestsFile(r.files, number), e.Episode.Requests.Sent+e.Episode.Sentinel.Sent)
	e.Series, series = gathered(seriesFile(r.files, number, summary == nil && len(e.Episode.Samples) == 0), 0)
	if err := errors.Join(summary, requests, series); err != nil {
		return nil, err
	}
	var sent requestSums
	for i := range e.Requests {
		sent.add(&e.Requests[i])
	}
	told := sampleSums{}
	for i := range e.Series {
		told.add(&e.Series[i])
	}
	err := disagreement(number, func(d *document) {
		sent.agree(d, &e.Episode)
		told.agree(d, &e.Episode)
	})
	if err != nil {
		return nil, err
	}
	return &e, nil
}

func episodeDir(number int) string { return fmt.Sprintf("episodes/%03d", number) }

func summaryFile(number int) string { return path.Join(episodeDir(number), "episode.json") }

func (r *RecordedRun) readSummary(number int, e *Episode) error {
	name := summaryFile(number)
	data, err := readWhole(r.files, name, "an episode is whole or not there: take its folder away, or bring the file back")
	if err != nil {
		return err
	}
	d := decodeJSON(data, 1, e)
	d.constant("schema", e.Schema, EpisodeSchema)
	if d.says("number") && d.sound("number") && e.Number != number {
		d.wrong("number", fmt.Sprintf("%d is not the number of its folder, %03d", e.Number, number), "")
	}
	d.moment("start", e.Start)
	if e.SummaryOf != "" {
		d.word("summary_of", e.SummaryOf, []string{SummaryAIPerf})
	}
	d.checkPoint("point", e.Point)
	d.between("loaded_s", e.LoadedS, 0, mostAnything)
	for field, c := range map[string]RequestCounts{"requests": e.Requests, "sentinel": e.Sentinel} {
		d.within(join(field, "sent"), c.Sent, 0, maxLines)
		d.within(join(field, "served"), c.Served, 0, maxLines)
		d.within(join(field, "failed"), c.Failed, 0, maxLines)
		d.within(join(field, "interrupted"), c.Interrupted, 0, maxLines)
	}
	if d.sound("client") && e.Client.Valid != (len(e.Client.Reasons) == 0) {
		d.wrong("client.valid", "does not go with its reasons", "a client is valid when it has none")
	}
	for i, s := range e.Samples {
		d.word(join(element("samples", i), "source"), s.Source, sources())
	}
	return d.in(name)
}

// disagreement is where an episode does not sum up what it should.
func disagreement(number int, agree func(*document)) error {
	d := emptyDocument()
	agree(d)
	for i := range d.mistakes {
		d.mistakes[i].Line = 0
		d.mistakes[i].Text = d.mistakes[i].Path + ": " + d.mistakes[i].Text
	}
	return d.in(summaryFile(number))
}

// requestSums is what an episode sums its requests up to.
type requestSums struct{ closed, sentinel RequestCounts }

func (c *requestSums) add(q *Request) {
	if q.Lane == LaneSentinel {
		c.sentinel.Add(q)
	} else {
		c.closed.Add(q)
	}
}

func (c *requestSums) agree(d *document, e *Episode) {
	d.counts("requests", e.Requests, c.closed)
	d.counts("sentinel", e.Sentinel, c.sentinel)
}

// sampleSums is what an episode sums its samples up to, by their source.
type sampleSums map[string]SampleCount

func (found sampleSums) add(s *Sample) {
	c := found[s.Source]
	c.Source, c.Expected = s.Source, c.Expected+1
	if s.Gap != "" {
		c.Missing++
	}
	found[s.Source] = c
}

func (found sampleSums) agree(d *document, e *Episode) {
	said := map[string]SampleCount{}
	for _, c := range e.Samples {
		said[c.Source] = c
	}
	for _, source := range sources() {
		if said[source] != found[source] {
			d.wrong("samples", fmt.Sprintf("says %d samples of the %s, %d of them missing; series.jsonl has %d and %d",
				said[source].Expected, source, said[source].Missing, found[source].Expected, found[source].Missing), "")
		}
	}
}

func (d *document) counts(path string, said, found RequestCounts) {
	for _, n := range []struct {
		field       string
		said, found int
	}{{"sent", said.Sent, found.Sent}, {"served", said.Served, found.Served}, {"failed", said.Failed, found.Failed}, {"interrupted", said.Interrupted, found.Interrupted}} {
		if n.said != n.found {
			d.wrong(join(path, n.field), fmt.Sprintf("says %d, requests.jsonl has %d", n.said, n.found), "a line is missing, or one too many")
		}
	}
	if !maps.Equal(said.Classes, found.Classes) {
		d.wrong(join(path, "classes"), fmt.Sprintf("says %v, requests.jsonl has %v", said.Classes, found.Classes), "")
	}
}

func sources() []string {
	return []string{SourceWorker, SourceGPU, SourceNode, SourceFrontend, SourceClient}
}

// What no line says. What still has it after decoding was not there, and cannot be.
const (
	unsaid     = math.MinInt
	unsaidText = "\x00"
)

func unsaidRequest() Request {
	return Request{Seq: unsaid, Intended: unsaid, Sent: unsaid, End: unsaid, Prompt: unsaid, Tokens: unsaid}
}

// wrong is the name of the first field that cannot be, or "".
func (q *Request) wrong() string {
	switch {
	case q.Seq < 0:
		return "seq"
	case q.Lane != LaneClosed && q.Lane != LaneSentinel:
		return "lane"
	case !slices.Contains(phases(), q.Phase):
		return "phase"
	case q.Intended < 0 || q.Intended > latestStamp:
		return "intended"
	case q.Sent < 0 || q.Sent > latestStamp:
		return "sent"
	case q.End < q.Sent || q.End > latestStamp:
		return "end"
	case q.First != 0 && (q.First < q.Sent || q.First > q.End):
		return "first"
	case q.Last != 0 && (q.First == 0 || q.Last < q.First || q.Last > q.End):
		return "last"
	case q.Gap < 0 || q.Gap > q.End:
		return "gap"
	case q.GapEnd < 0 || q.GapEnd > q.End:
		return "gap_end"
	case q.Prompt < 0:
		return "prompt"
	case q.Cached != nil && *q.Cached < 0:
		return "cached"
	case q.Tokens < 0:
		return "tokens"
	case q.Events != nil && *q.Events < 0:
		return "events"
	case q.TextBytes != nil && *q.TextBytes < 0:
		return "text_bytes"
	case q.Class == "":
		return "class"
	case q.Status < 0 || q.Status > 999:
		return "status"
	}
	return ""
}

func phases() []string { return []string{PhaseRamp, PhaseSteady, PhaseDrain} }

// closeLook decodes a line of requests.jsonl and says what is wrong with it.
func closeLook(line []byte, number int, q *Request) *document {
	d := decodeJSON(line, number, q)
	if len(d.mistakes) > 0 {
		return d
	}
	switch field := q.wrong(); field {
	case "":
	case "lane":
		d.word(field, q.Lane, []string{LaneClosed, LaneSentinel})
	case "phase":
		d.word(field, q.Phase, phases())
	case "class":
		d.wrong(field, "no value", "")
	case "first", "last", "end":
		at := map[string]int64{"first": q.First, "last": q.Last, "end": q.End}[field]
		d.wrong(field, fmt.Sprintf("%d is no time for it: sent %d, first %d, last %d, end %d", at, q.Sent, q.First, q.Last, q.End), "")
	default:
		d.wrong(field, fmt.Sprintf("%d cannot be", reflect.Indirect(reflect.ValueOf(*q).Field(jsonNames(reflect.TypeFor[Request]()).index[field])).Int()), "")
	}
	return d
}

// wrong reports whether a sample cannot be.
func (s *Sample) wrong() bool {
	return s.T < 0 || s.T > latestStamp || s.Took < 0 || s.Took > latestStamp || !slices.Contains(sources(), s.Source) || s.mixed()
}

// mixed reports whether a sample is not that of its source alone, or a gap.
func (s *Sample) mixed() bool {
	is := func(kind string) bool { return s.Gap == "" && s.Source == kind }
	return is(SourceWorker) != (s.Worker != nil) || is(SourceGPU) != (s.GPU != nil) || is(SourceNode) != (s.Node != nil) ||
		is(SourceFrontend) != (s.Frontend != nil) || is(SourceClient) != (s.Client != nil)
}

func (d *document) checkSample(s *Sample) {
	d.word("source", s.Source, sources())
	for field, at := range map[string]int64{"t": s.T, "took": s.Took} {
		if d.sound(field) && (at < 0 || at > latestStamp) {
			d.wrong(field, fmt.Sprintf("%d cannot be", at), "")
		}
	}
	if c := s.Client; c != nil {
		for field, n := range map[string]int64{"in_flight": int64(c.InFlight), "sent": c.Sent, "ended": c.Ended, "tokens": c.Tokens} {
			if n < 0 {
				d.wrong(join("client", field), fmt.Sprintf("%d cannot be", n), "")
			}
		}
	}
	if len(d.mistakes) == 0 && s.mixed() {
		d.wrong("source", fmt.Sprintf("want the sample of a %s and nothing else, or a gap", s.Source), "")
	}
}
