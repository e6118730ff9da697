package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"aicr/internal/judge"
	"aicr/internal/observe"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// fleetView draws a picture of the fleet.
type fleetView struct {
	picture  judge.Picture
	logs     []logSighting
	answered int // samples and events so far
	elapsed  time.Duration
	paint    layout.Palette
	height   func() int
}

// calm is what is said when nothing is off, which takes an answer to know.
func (v *fleetView) calm() string {
	if v.answered == 0 {
		return "no source has answered yet"
	}
	return "nothing is off"
}

// workerLabel is what a worker is called on the screen. Dynamo names its workers
// by numbers of twenty digits, of which people know none; where it was asked is
// what they typed.
func workerLabel(name, instance string) string {
	const handy = 14
	if len(name) > handy && instance != "" && isDigits(strings.SplitN(name, "/", 2)[0]) {
		_, engine, several := strings.Cut(name, "/")
		if several {
			return instance + "/" + engine
		}
		return instance
	}
	return name
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Line is the picture in a few words.
func (v *fleetView) Line() string {
	parts := []string{shortTime(v.elapsed)}
	parts = append(parts, v.counts()...)
	if n := len(v.picture.Symptoms); n > 0 {
		parts = append(parts, fmt.Sprintf("%d off", n))
	} else {
		parts = append(parts, v.calm())
	}
	return strings.Join(parts, " · ")
}

// counts are the fleet's totals.
func (v *fleetView) counts() []string {
	var parts []string
	p := v.picture
	if n := len(p.Workers); n > 0 {
		var running, waiting, tokens total
		for _, w := range p.Workers {
			running.add(w.Running)
			waiting.add(w.Waiting)
			tokens.add(w.TokensPerS)
		}
		parts = append(parts, layout.Plural(n, "worker"), tokens.text()+" tokens/s", running.text()+" running", waiting.text()+" waiting")
	}
	for _, f := range p.Frontends {
		if f.Gap != "" {
			parts = append(parts, "frontend silent for "+secondsText(f.GapS))
			continue
		}
		parts = append(parts, fmt.Sprintf("frontend %s in flight, %s queued", known(f.InFlight), known(f.Queued)))
	}
	if n := len(p.GPUs); n > 0 {
		var power total
		for _, g := range p.GPUs {
			power.add(g.PowerW)
		}
		parts = append(parts, layout.Plural(n, "GPU"), power.text()+" W")
	}
	for _, n := range p.Nodes {
		if n.CPUPressure != nil {
			parts = append(parts, fmt.Sprintf("%s CPU pressure %.0f %%", n.Name, 100**n.CPUPressure))
		}
	}
	return parts
}

// total adds up what is known, and remembers whether anything was.
type total struct {
	sum   float64
	known bool
}

func (t *total) add(v *float64) {
	if v != nil {
		t.sum += *v
		t.known = true
	}
}

func (t *total) text() string {
	if !t.known {
		return "–"
	}
	return layout.Number(roundedRate(t.sum))
}

// roundedRate leaves out digits that no rate over a second has.
func roundedRate(v float64) float64 {
	if v >= 10 {
		return float64(int64(v + 0.5))
	}
	return v
}

// known writes a value; one that is not known is a dash, never a zero.
func known(v *float64) string {
	if v == nil {
		return "–"
	}
	return layout.Number(roundedRate(*v))
}

func percentOf(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

// Block is the whole picture, what is off first, cut to the window: the worst
// are on top.
func (v *fleetView) Block(width int) []string {
	lines := layout.Filled(append([]string{v.paint.Bold(shortTime(v.elapsed))}, v.counts()...), width)
	if len(v.picture.Symptoms) == 0 {
		lines = append(lines, v.paint.Green(v.calm()))
	}
	const mostWords, mostLogs = 6, 3
	plain := plainWords(v.picture)
	for i, s := range v.picture.Symptoms {
		if i == mostWords {
			lines = append(lines, fmt.Sprintf("  and %d more", len(v.picture.Symptoms)-mostWords))
			break
		}
		mark := v.paint.Yellow("!")
		if s.Severity == judge.Fail {
			mark = v.paint.Red("✗")
		}
		for j, line := range wrap(plain(s.Words), max(20, width-2)) {
			if j > 0 {
				mark = " "
			}
			lines = append(lines, mark+" "+line)
		}
	}
	for i, l := range v.logs {
		if i == mostLogs {
			break
		}
		lines = append(lines, v.logMark(l.reason)+" "+l.words())
	}
	workers, gpus := layout.Aligned(v.workerRows(width), workerAlign), layout.Aligned(v.gpuRows(), gpuAlign)
	left := max(6, v.height()-1-len(lines))
	if len(gpus) > 0 {
		// Both want to be seen; what the one does not need is the other's.
		forGPUs := min(len(gpus)+1, max(left/3, left-len(workers)-1))
		gpus = v.shortened(gpus, forGPUs-1)
		left -= len(gpus) + 1
	}
	for _, table := range [][]string{v.shortened(workers, left-1), gpus} {
		if len(table) > 0 {
			lines = append(append(lines, ""), table...)
		}
	}
	return lines
}

// shortened cuts a table to a number of lines.
func (v *fleetView) shortened(table []string, most int) []string {
	if most = max(3, most); len(table) <= most {
		return table
	}
	return append(slices.Clone(table[:most-1]), v.paint.Dim(fmt.Sprintf("  … and %d more", len(table)-most+1)))
}

func (v *fleetView) logMark(reason string) string {
	if observe.Grave(reason) {
		return v.paint.Red("✗")
	}
	return v.paint.Yellow("!")
}

// words is what a log said, and how often.
func (l *logSighting) words() string {
	often := ""
	if l.count > 1 {
		often = fmt.Sprintf(" (%d times)", l.count)
	}
	return fmt.Sprintf("log %s: %s: %s%s", l.source, l.reason, l.text, often)
}

var (
	workerAlign = []bool{false, true, true, true, true, true, false, false}
	gpuAlign    = []bool{false, false, true, true, true, true, false, false}
)

func (v *fleetView) workerRows(width int) [][]string {
	if len(v.picture.Workers) == 0 {
		return nil
	}
	rows := [][]string{{"worker", "running", "waiting", "KV", "tokens/s", "each", "of a fair share", ""}}
	for _, w := range v.picture.Workers {
		row := []string{workerLabel(w.Name, w.Instance), known(w.Running), known(w.Waiting), percentOf(w.KVUsage), known(w.TokensPerS), known(w.PerRequest), shareBar(w.FairShare), sparkline(w.History, min(30, max(0, width-90)))}
		if w.Gap != "" {
			row[6] = fmt.Sprintf("unknown for %s: %s", secondsText(w.GapS), w.Gap)
		}
		rows = append(rows, v.marked(row, w.Symptoms))
	}
	return rows
}

func (v *fleetView) gpuRows() [][]string {
	if len(v.picture.GPUs) == 0 {
		return nil
	}
	rows := [][]string{{"GPU", "", "use", "W", "MHz", "°C", "throttle", ""}}
	gpus := slices.Clone(v.picture.GPUs)
	// Those that are off come first; the others are sorted by their places.
	sound := len(gpus)
	if i := slices.IndexFunc(gpus, func(g judge.GPUPicture) bool { return len(g.Symptoms) == 0 }); i >= 0 {
		sound = i
	}
	slices.SortFunc(gpus[sound:], func(x, y judge.GPUPicture) int {
		return strings.Compare(gpuLabel(x.Name, x.Node, x.Index), gpuLabel(y.Name, y.Node, y.Index))
	})
	labels := map[string]string{}
	for _, w := range v.picture.Workers {
		labels[w.Name] = workerLabel(w.Name, w.Instance)
	}
	for _, g := range gpus {
		worker := cmp.Or(labels[g.Worker], g.Worker)
		if worker != "" {
			rows[0][1] = "worker"
		}
		row := []string{gpuLabel(g.Name, g.Node, g.Index), worker, percentOf(g.Utilization), known(g.PowerW), known(g.SMClockMHz), known(g.TemperatureC), throttleText(g.Throttle), sparkline(g.History, 15)}
		if g.Gap != "" {
			row[6] = fmt.Sprintf("unknown for %s: %s", secondsText(g.GapS), g.Gap)
		}
		rows = append(rows, v.marked(row, g.Symptoms))
	}
	return rows
}

// gpuLabel names a GPU by its place, which is shorter than its UUID.
func gpuLabel(name, node, index string) string {
	if index == "" {
		return name
	}
	return strings.TrimPrefix(node+"/"+index, "/")
}

func throttleText(reasons *[]string) string {
	switch {
	case reasons == nil:
		return "not measured"
	case len(*reasons) == 0:
		return "none"
	}
	return strings.Join(*reasons, ", ")
}

func (v *fleetView) marked(row []string, symptoms []judge.Symptom) []string {
	for _, s := range symptoms {
		if s.Severity == judge.Fail {
			row[0] = v.paint.Red(row[0])
			return row
		}
	}
	if len(symptoms) > 0 {
		row[0] = v.paint.Yellow(row[0])
	}
	return row
}

// shareBar draws a worker's tokens against those of an even split, which is the
// middle of the bar.
func shareBar(share *float64) string {
	if share == nil {
		return "–"
	}
	const half = 5
	filled := strings.TrimRight(layout.Bar(*share/2, 2*half), " ")
	return fmt.Sprintf("%-*s %.2f", 2*half, filled, *share)
}

// shortTime is a time since the start.
func shortTime(d time.Duration) string { return d.Round(time.Second).String() }

func secondsText(s float64) string { return layout.Short(time.Duration(s * float64(time.Second))) }

// printWatch sums an observation up: the answer first. Read says whether anything was
// read, nothing of which sources nothing was.
func (a *app) printWatch(s *sightings, p judge.Picture, o *watchOptions, read bool, nothing []unreadSource) {
	var b bytes.Buffer
	paint := a.stdoutPalette()
	rows := s.tally.Rows()
	elapsed := s.clock.Now()
	samples, gaps := 0, 0
	kinds := map[string]int{}
	for _, r := range rows {
		samples += r.Samples
		gaps += r.Gaps
		kinds[r.Source]++
	}
	var fails, notes []*sighting
	for _, at := range s.past {
		if at.Severity == judge.Fail {
			fails = append(fails, at)
		} else {
			notes = append(notes, at)
		}
	}
	logs := s.logLines()
	grave := 0
	for _, l := range logs {
		if observe.Grave(l.reason) {
			grave++
		}
	}
	silent := 0 // sources of which nothing is known now
	for _, r := range rows {
		if r.Silent() && r.LastGap != spec.GapUnlisted && r.LastGap != spec.GapOffPage {
			silent++
		}
	}
	switch n := len(fails) + grave; {
	case !read:
		fmt.Fprintf(&b, "%s  nothing was read in %s\n", paint.Yellow("NOT MEASURED"), shortTime(elapsed))
	case n > 0:
		fmt.Fprintf(&b, "%s  %s off in %s\n", paint.Red("OFF"), layout.Plural(n, "thing"), shortTime(elapsed))
	case silent > 0:
		fmt.Fprintf(&b, "%s  nothing was seen off in %s, but %d of %s did not tell\n", paint.Yellow("UNKNOWN"), shortTime(elapsed), silent, layout.Plural(len(rows), "source"))
	case len(nothing) > 0:
		fmt.Fprintf(&b, "%s  nothing was seen off in %s, but nothing was read of %s\n", paint.Yellow("UNKNOWN"), shortTime(elapsed), layout.Plural(len(nothing), "source"))
	case len(notes)+len(logs) > 0:
		fmt.Fprintf(&b, "%s  nothing was off in %s, and there is %s to know\n", paint.Yellow("NOTE"), shortTime(elapsed), layout.Plural(len(notes)+len(logs), "thing"))
	default:
		fmt.Fprintf(&b, "%s  nothing was off in %s\n", paint.Green("QUIET"), shortTime(elapsed))
	}
	about := []string{}
	for _, k := range []struct{ source, one string }{
		{spec.SourceWorker, "worker"}, {spec.SourceGPU, "GPU"}, {spec.SourceNode, "node"}, {spec.SourceFrontend, "frontend"},
	} {
		if n := kinds[k.source]; n > 0 {
			about = append(about, layout.Plural(n, k.one))
		}
	}
	about = append(about, layout.Plural(samples, "sample"), layout.Plural(gaps, "gap"), "since "+s.clock.Start().Format(time.TimeOnly))
	fmt.Fprintf(&b, "     %s\n", strings.Join(about, " · "))
	for i, list := range [][]*sighting{fails, notes} {
		mark := []string{paint.Red("✗"), paint.Yellow("!")}[i]
		for _, at := range list {
			when := fmt.Sprintf("%s–%s", shortTime(at.from), shortTime(at.last))
			if !at.over && at.missed == 0 {
				when = fmt.Sprintf("%s–now", shortTime(at.from))
			}
			writeHanging(&b, fmt.Sprintf("\n  %s %-9s ", mark, when), 14, wrap(at.plain+" ("+at.Finding+")", textColumns-14))
		}
	}
	for _, l := range logs {
		mark := paint.Yellow("!")
		if observe.Grave(l.reason) {
			mark = paint.Red("✗")
		}
		writeHanging(&b, fmt.Sprintf("\n  %s %-9s ", mark, shortTime(l.first)), 14, wrap(l.words(), textColumns-14))
	}
	for _, u := range nothing {
		writeHanging(&b, "    not read:     ", 18, wrap(u.text(), textColumns-18))
	}
	writeObserved(&b, rows, p)
	if o.record != "" {
		fmt.Fprintf(&b, "\n  %-10s%s\n", "written", o.record)
	}
	_, _ = a.env.Stdout.Write(b.Bytes()) // the product writer remembers what could not be written
}

// writeObserved writes a table for each kind of source: how often it answered, and
// between what its values moved.
func writeObserved(b *bytes.Buffer, rows []*judge.TallyRow, p judge.Picture) {
	labels := map[string]string{}
	for _, w := range p.Workers {
		labels[w.Name] = workerLabel(w.Name, w.Instance)
	}
	for _, g := range p.GPUs {
		labels[g.Name] = gpuLabel(g.Name, g.Node, g.Index)
	}
	for _, table := range []struct {
		source string
		head   []string
		cells  func(*judge.TallyRow) []string
	}{
		{spec.SourceWorker, []string{"worker", "answered", "tokens", "running", "waiting", "KV", "preempted", "prefix hits"}, func(r *judge.TallyRow) []string {
			return []string{tokensOf(r), rangeOf(r, "running"), rangeOf(r, "waiting"), percentRange(r, "kv_usage"), grownOf(r, "preemptions"), hitsOf(r)}
		}},
		{spec.SourceGPU, []string{"GPU", "answered", "W", "MHz", "use", "°C", "throttle"}, func(r *judge.TallyRow) []string {
			return []string{rangeOf(r, "power_w"), rangeOf(r, "sm_clock_mhz"), percentRange(r, "utilization"), rangeOf(r, "temperature_c"), throttled(r)}
		}},
		{spec.SourceNode, []string{"node", "answered", "CPU pressure", "memory", "I/O", "load"}, func(r *judge.TallyRow) []string {
			return []string{percentRange(r, "cpu_pressure"), percentRange(r, "memory_pressure"), percentRange(r, "io_pressure"), rangeOf(r, "load1")}
		}},
		{spec.SourceFrontend, []string{"frontend", "answered", "in flight", "queued", "served", "failed", "stalls"}, func(r *judge.TallyRow) []string {
			return []string{rangeOf(r, "in_flight"), rangeOf(r, "queued"), grownOf(r, "served"), grownOf(r, "failed"), grownOf(r, "stalls")}
		}},
	} {
		lines := [][]string{table.head}
		right := make([]bool, len(table.head))
		for i := range right {
			right[i] = i > 0 && table.head[i] != "throttle"
		}
		for _, r := range slices.SortedStableFunc(slices.Values(rows), func(x, y *judge.TallyRow) int {
			return strings.Compare(cmp.Or(labels[x.Name], x.Name), cmp.Or(labels[y.Name], y.Name))
		}) {
			if r.Source != table.source {
				continue
			}
			answered := fmt.Sprintf("%d of %d", r.Samples, r.Samples+r.Gaps)
			lines = append(lines, append([]string{cmp.Or(labels[r.Name], r.Name), answered}, table.cells(r)...))
		}
		if len(lines) == 1 {
			continue
		}
		b.WriteByte('\n')
		for _, line := range layout.Aligned(lines, right) {
			b.WriteString(line + "\n")
		}
		writeUnmeasured(b, rows, table.source)
	}
}

// writeUnmeasured says what is not known of a kind of source, and how what was not told was
// come by: once, however many say the same, and of whom where not all of them do.
func writeUnmeasured(b *bytes.Buffer, rows []*judge.TallyRow, source string) {
	type fact struct{ kind, field, why string }
	whose, of := map[fact][]string{}, 0
	for _, r := range rows {
		if r.Source != source {
			continue
		}
		of++
		add := func(kind, field, why string) {
			f := fact{kind, field, why}
			whose[f] = append(whose[f], r.Name)
		}
		if r.Silent() {
			add("silent", r.Name, cmp.Or(r.LastGap, silentWhy(r)))
		}
		for f, why := range r.NotMeasured {
			add("not measured", f, why)
		}
		for f, why := range r.Derived {
			add("derived", f, why)
		}
	}
	// What is said of the same ones for the same reason is one line.
	type line struct{ kind, of, why string }
	fields := map[line][]string{}
	for f, names := range whose {
		l := line{kind: f.kind, why: f.why}
		if len(names) < of && f.kind != "silent" {
			l.of = " of " + layout.Some(slices.Sorted(slices.Values(names)), mostUnmeasured)
		}
		fields[l] = append(fields[l], f.field)
	}
	for _, l := range slices.SortedFunc(maps.Keys(fields), func(x, y line) int {
		return cmp.Or(-strings.Compare(x.kind, y.kind), strings.Compare(slices.Min(fields[x]), slices.Min(fields[y])), strings.Compare(x.of, y.of), strings.Compare(x.why, y.why))
	}) {
		what := layout.Some(slices.Sorted(slices.Values(fields[l])), 2*mostUnmeasured)
		writeHanging(b, fmt.Sprintf("    %-13s ", l.kind+":"), 18, wrap(what+l.of+" ("+l.why+")", textColumns-18))
	}
}

// mostUnmeasured bounds the names on a line of what was not measured.
const mostUnmeasured = 4

// silentWhy is why a source counts as silent that answered each time.
func silentWhy(r *judge.TallyRow) string {
	if r.Measured() {
		return "it tells neither its requests nor its tokens"
	}
	return string(unreadNoValue)
}

// rangeOf is what a value moved between.
func rangeOf(r *judge.TallyRow, name string) string {
	return between(r, name, func(v float64) string { return layout.Number(roundedRate(v)) })
}

func percentRange(r *judge.TallyRow, name string) string {
	text := between(r, name, func(v float64) string {
		if v *= 100; v < 9.95 && v >= 0.05 {
			return fmt.Sprintf("%.1f", v)
		}
		return fmt.Sprintf("%.0f", v)
	})
	if text == "–" {
		return text
	}
	return text + " %"
}

func between(r *judge.TallyRow, name string, write func(float64) string) string {
	v, ok := r.Values[name]
	if !ok {
		return "–"
	}
	low, high := write(v.Min), write(v.Max)
	if low == high {
		return low
	}
	return low + "–" + high
}

func grownOf(r *judge.TallyRow, name string) string {
	v, ok := r.Grown[name]
	if !ok {
		return "–"
	}
	return layout.Number(v)
}

// tokensOf is how many tokens a worker made, or at least those of the requests that ended.
func tokensOf(r *judge.TallyRow) string {
	if _, ok := r.Grown["generated_tokens"]; !ok {
		return grownOf(r, "ended_tokens")
	}
	return grownOf(r, "generated_tokens")
}

// hitsOf is the share of a worker's prompt tokens that its prefix cache had.
func hitsOf(r *judge.TallyRow) string {
	queries, hits := r.Grown["prefix_queries"], r.Grown["prefix_hits"]
	if _, ok := r.Grown["prefix_hits"]; !ok || queries == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*hits/queries)
}

func throttled(r *judge.TallyRow) string {
	if r.Throttle == nil {
		return "not measured"
	}
	if len(r.Throttle) == 0 {
		return "none"
	}
	var reasons []string
	for _, why := range slices.Sorted(maps.Keys(r.Throttle)) {
		reasons = append(reasons, fmt.Sprintf("%s in %d", why, r.Throttle[why]))
	}
	return strings.Join(reasons, ", ")
}
