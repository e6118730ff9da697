package spec

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What a simulated fleet can be. Beyond these bounds numbers would overflow, or a
// simulation would not end, or not fit a machine.
const (
	mostWorkers  = 4096
	mostTogether = 64 // GPUs of a worker
	mostCounted  = 1_000_000_000
	mostTokens   = 1_000_000
	mostInFlight = 1_000_000
	mostRecycled = 100_000_000 // tokens of all the prompts that are recycled
	mostLogged   = 1000
	mostEpisodes = 1000

	leastStep   = Duration(10 * time.Microsecond)
	mostEpisode = Duration(24 * time.Hour)

	leastFactor, mostFactor = 0.01, 1e6
	leastSends, mostSends   = 0.01, 1e6 // a second
	mostJitter, mostSpread  = 2.0, 3.0
	mostPerMinute           = 600.0
	mostAnything            = 1e12
)

var (
	dnsLabel    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	versionText = regexp.MustCompile(`^[0-9A-Za-z][-0-9A-Za-z._+:/@]{0,127}$`) // an image's tag or reference too
)

func (d *document) checkScenario(s *Scenario) {
	d.constant("apiVersion", s.APIVersion, APIVersion)
	d.constant("kind", s.Kind, ScenarioKind)
	if d.require("metadata.name", "write metadata: {name: a-name}") && d.sound("metadata.name") && !dnsLabel.MatchString(s.Metadata.Name) {
		d.wrong("metadata.name", quote(s.Metadata.Name)+" is no name", "lower-case letters, digits and dashes, at most 63, a letter or digit first and last")
	}
	d.checkFleet(s.Fleet)
	d.checkLoad(s)
	d.between("reference.throughput", s.Reference.Throughput, 0, mostAnything)
	d.checkFaults("faults", s.Faults, s)
	if s.Expect != nil && d.sound("expect") {
		d.checkExpectation(s)
	}
}

func (d *document) checkFleet(f Fleet) {
	d.within("fleet.workers", f.Workers, 1, mostWorkers)
	d.within("fleet.gpusPerWorker", f.GPUsPerWorker, 1, mostTogether)
	if d.sound("fleet.workers", "fleet.gpusPerWorker") && f.GPUs() > mostWorkers {
		d.wrong(d.firstSaid("fleet.gpusPerWorker", "fleet.workers"), fmt.Sprintf("%d GPUs are more than %d", f.GPUs(), mostWorkers), "")
	}
	if d.sound("fleet.workers", "fleet.prefillWorkers") && (f.PrefillWorkers < 0 || f.PrefillWorkers >= f.Workers) {
		d.wrong(d.firstSaid("fleet.prefillWorkers", "fleet.workers"), fmt.Sprintf("%d of %d workers read prompts", f.PrefillWorkers, f.Workers),
			"at least one must be left to answer; 0: each does both")
	}
	d.word("fleet.profile", f.Profile, ProfileNames())
	d.word("fleet.router", f.Router, Routers())
	if d.sound("fleet.timing.base") && f.Timing.Base < leastStep {
		d.wrong("fleet.timing.base", fmt.Sprintf("a step takes time: want at least %s", leastStep), "")
	}
	d.between("fleet.timing.hostJitter", f.Timing.HostJitter, 0, mostJitter)
	d.between("fleet.timing.stepJitter", f.Timing.StepJitter, 0, mostJitter)
	d.within("fleet.maxSequences", f.MaxSequences, 1, mostCounted)
	d.within("fleet.maxBatchedTokens", f.MaxBatchedTokens, 1, mostCounted)
	d.within("fleet.kvBlocks", f.KVBlocks, 1, mostCounted)
	d.between("fleet.kvCredit", f.KVCredit, 0, mostAnything)
}

func (d *document) checkLoad(s *Scenario) {
	l := s.Load
	d.within("load.concurrencyPerGPU", l.ConcurrencyPerGPU, 1, mostInFlight)
	if all := l.ConcurrencyPerGPU * s.Fleet.GPUs(); d.sound("load.concurrencyPerGPU", "fleet.workers", "fleet.gpusPerWorker") && all > mostInFlight {
		d.wrong(d.firstSaid("load.concurrencyPerGPU", "fleet.workers", "fleet.gpusPerWorker"), fmt.Sprintf("%d requests in flight are more than %d", all, mostInFlight), "")
	}
	d.within("load.inputTokens", l.InputTokens, 1, mostTokens)
	d.within("load.outputTokens", l.OutputTokens, 1, mostTokens)
	if all := int(l.Prompts) * l.InputTokens; d.sound("load.prompts", "load.inputTokens") && all > mostRecycled {
		d.wrong(d.firstSaid("load.prompts", "load.inputTokens"), fmt.Sprintf("%d tokens of recycled prompts are more than %d", all, mostRecycled), "recycle fewer, or write unique")
	}
	if l.SendsPerSecond != 0 {
		d.between("load.sendsPerSecond", l.SendsPerSecond, leastSends, mostSends)
	}
	if d.sound("load.episode") && (l.Episode == 0 || l.Episode > mostEpisode) {
		d.wrong("load.episode", fmt.Sprintf("want more than 0s and at most %s", mostEpisode), "")
	}
	if d.sound("load.ramp", "load.episode") && l.Ramp > l.Episode {
		d.wrong(d.firstSaid("load.ramp", "load.episode"), fmt.Sprintf("a ramp of %s is longer than the episode of %s", l.Ramp, l.Episode), "set ramp and episode")
	}
	if d.sound("load.inputTokens", "load.outputTokens", "fleet.kvBlocks", "fleet.profile") {
		if need, have := l.InputTokens+l.OutputTokens, s.Fleet.KVBlocks*KVBlockTokens; need > have {
			d.wrong(d.firstSaid("load.inputTokens", "load.outputTokens", "fleet.kvBlocks"),
				fmt.Sprintf("a request of %d tokens does not fit a worker: %d KV blocks of %d tokens hold %d", need, s.Fleet.KVBlocks, KVBlockTokens, have),
				"set fewer inputTokens or outputTokens, or more kvBlocks")
		}
	}
}

func (d *document) checkExpectation(s *Scenario) {
	e := s.Expect
	if d.require("expect.verdict", "write verdict: [PASS]") && d.sound("expect.verdict") && len(e.Verdict) == 0 {
		d.wrong("expect.verdict", "names no verdict", "write [PASS]; of several any will do")
	}
	states := []string{string(Pass), string(Fail), string(Inconclusive), string(Invalid), string(Skip)}
	for i, state := range e.Verdict {
		d.word(element("expect.verdict", i), string(state), states)
	}
	d.word("expect.ledger", e.Ledger, []string{"integrity", "capability", "stability"})
	d.word("expect.finding", e.Finding, FindingIDs())
	d.workerList("expect.workers", e.Workers, s)
}

// checkFaults checks a list of faults against the fleet and the load that they
// fall on.
func (d *document) checkFaults(path string, faults []Fault, s *Scenario) {
	for i, f := range faults {
		if at := element(path, i); !d.full && d.sound(at) {
			d.checkFault(at, f, s)
		}
	}
}

func (d *document) checkFault(path string, f Fault, s *Scenario) {
	in := func(field string) string { return join(path, field) }
	var kinds []string
	for _, k := range FaultKinds() {
		kinds = append(kinds, string(k.Kind))
	}
	kind, known := FaultKindNamed(f.Kind)
	if d.require(in("kind"), "the kinds are "+strings.Join(kinds, ", ")) {
		d.word(in("kind"), string(f.Kind), kinds)
	}
	if known && d.sound(in("kind")) {
		d.checkFields(path, f, kind)
	}
	d.checkWindow(path, f, s, kind.NeedsWindow)

	if f.Workers != nil && d.sound(in("workers")) {
		switch {
		case f.Workers.Any && known && !kind.AnyWorker:
			d.wrong(in("workers"), string(f.Kind)+" cannot fall on any worker", "name the workers, or write all")
		case !f.Workers.Any && !f.Workers.All:
			d.workerList(in("workers"), f.Workers.List, s)
		}
	}
	if f.Factor != nil && d.sound(in("factor")) && (*f.Factor < leastFactor || *f.Factor > mostFactor) {
		d.wrong(in("factor"), fmt.Sprintf("want %v to %v, got %v", leastFactor, mostFactor, *f.Factor), "2 is twice as slow")
	}
	if f.Takes != nil && d.sound(in("takes")) && *f.Takes == 0 {
		d.wrong(in("takes"), "want more than 0s", "")
	}
	if f.Share != nil && d.sound(in("share")) {
		switch {
		case *f.Share < 0:
			d.wrong(in("share"), fmt.Sprintf("negative share %v", *f.Share), "a share is from 0 to 1")
		case *f.Share > 1:
			d.wrong(in("share"), fmt.Sprintf("a share of %v is more than all", *f.Share), "a share is from 0 to 1")
		}
	}
	if f.GPU != nil && d.sound(in("gpu"), "fleet.gpusPerWorker") && (*f.GPU < 0 || *f.GPU >= s.Fleet.GPUsPerWorker) {
		d.wrong(in("gpu"), fmt.Sprintf("GPU %d of a worker's %d", *f.GPU, s.Fleet.GPUsPerWorker), "a worker's GPUs are counted from 0")
	}
	d.word(in("running"), f.Running, runningWords())
	d.word(in("how"), f.How, howWords())
	d.word(in("reason"), f.Reason, reasonWords())
	d.word(in("source"), f.Source, sourceWords())
	for _, n := range []struct {
		field       string
		value       *int
		least, most int
	}{
		{"status", f.Status, 400, 599},
		{"xid", f.XID, 1, 1000},
		{"doubleBit", f.DoubleBit, 1, mostCounted},
		{"panics", f.Panics, 0, mostLogged},
		{"bucketMissing", f.BucketMissing, 0, mostLogged},
	} {
		if n.value != nil {
			d.within(in(n.field), *n.value, n.least, n.most)
		}
	}
	d.version(in("runtime"), f.Runtime)
	d.version(in("chart"), f.Chart)
}

// checkFields holds what a fault says against what its kind takes.
func (d *document) checkFields(path string, f Fault, kind FaultDescription) {
	takes := f.fieldNames()
	for _, field := range jsonNames(reflect.TypeFor[Fault]()).all {
		if at := join(path, field); d.says(at) && !slices.Contains(takes, field) {
			d.wrong(at, fmt.Sprintf("%s takes no %s", kind.Kind, field), "the fields here are "+strings.Join(takes, ", "))
		}
	}
	for _, field := range kind.Requires {
		d.require(join(path, field), fmt.Sprintf("%s needs %s", kind.Kind, strings.Join(kind.Requires, ", ")))
	}
	if kind.Kind == GPUError && !d.says(join(path, "xid")) && !d.says(join(path, "doubleBit")) &&
		d.sound(join(path, "remapFailure")) && (f.RemapFailure == nil || !*f.RemapFailure) {
		d.wrong(path, "a gpu-error without an error", "say xid, doubleBit or remapFailure: true")
	}
}

func (d *document) checkWindow(path string, f Fault, s *Scenario, needed bool) {
	at, lasts, perMinute, spread := join(path, "at"), join(path, "lasts"), join(path, "perMinute"), join(path, "spread")
	if f.At != nil && d.sound(at, "load.episode") && *f.At >= s.Load.Episode {
		d.wrong(at, fmt.Sprintf("%s is not within the episode of %s", *f.At, s.Load.Episode), "at counts from the episode's start")
	}
	if f.Lasts != nil && d.sound(lasts) && *f.Lasts == 0 {
		d.wrong(lasts, "want more than 0s", "")
	}
	if f.PerMinute != nil && d.sound(perMinute) && (*f.PerMinute <= 0 || *f.PerMinute > mostPerMinute) {
		d.wrong(perMinute, fmt.Sprintf("want more than 0 and at most %v, got %v", mostPerMinute, *f.PerMinute), "leave the fault out where it never comes, and the window where it always is")
	}
	if d.says(spread) {
		if f.Spread != nil {
			d.between(spread, *f.Spread, 0, mostSpread)
		}
		if !d.says(perMinute) {
			d.wrong(spread, "spread is of perMinute, which is not there", "leave spread out, or write perMinute instead of at")
		}
	}
	switch {
	case d.says(at) && d.says(perMinute):
		d.wrong(perMinute, "a window is either at a time or so often per minute", "leave out at or perMinute")
	case d.says(at) && !d.says(lasts):
		d.wrong(at, "a window without a length", "add lasts: 8s")
	case d.says(perMinute) && !d.says(lasts):
		d.wrong(perMinute, "a window without a length", "add lasts: 8s, the median")
	case d.says(lasts) && !d.says(at) && !d.says(perMinute):
		d.wrong(lasts, "a length without a window", "add at: 10s, or perMinute: 1")
	case needed && !d.says(at) && !d.says(perMinute):
		d.wrong(path, string(f.Kind)+" needs a window", "add at and lasts, or perMinute and lasts")
	}
	episodes := join(path, "episodes")
	if d.says(episodes) && d.sound(episodes) && len(f.Episodes) == 0 {
		d.wrong(episodes, "names no episode", "leave it out for all of them")
	}
	for i, e := range f.Episodes {
		if one := element(episodes, i); d.sound(one) && (e < 1 || e > mostEpisodes) {
			d.wrong(one, fmt.Sprintf("no episode %d", e), fmt.Sprintf("episodes are counted from 1, to at most %d", mostEpisodes))
		}
	}
}

// workerList checks that a list names workers of the fleet, each once.
func (d *document) workerList(path string, list []int, s *Scenario) {
	if d.says(path) && d.sound(path) && len(list) == 0 {
		d.wrong(path, "names no worker", "")
	}
	seen := map[int]bool{}
	for i, w := range list {
		switch at := element(path, i); {
		case !d.sound(at):
		case d.sound("fleet.workers") && (w < 0 || w >= s.Fleet.Workers):
			d.wrong(at, fmt.Sprintf("worker %d of %d", w, s.Fleet.Workers), fmt.Sprintf("workers are counted from 0, so the last is %d", s.Fleet.Workers-1))
		case seen[w]:
			d.wrong(at, fmt.Sprintf("worker %d is named twice", w), "")
		default:
			seen[w] = true
		}
	}
}

// require notes a value that is not there, nor under a name that was told to be
// wrong already.
func (d *document) require(path, hint string) bool {
	if d.says(path) {
		return true
	}
	if d.sound(parent(path)) && !d.misnamed[path] {
		d.wrong(path, "is missing", hint)
	}
	return false
}

func (d *document) constant(path, value, want string) {
	if d.require(path, "write "+path+": "+want) && d.sound(path) && value != want {
		d.wrong(path, fmt.Sprintf("%s is not known here", quote(value)), "write "+path+": "+want)
	}
}

// word checks a value that must be one of some words, if it was said.
func (d *document) word(path, value string, words []string) {
	if d.says(path) && d.sound(path) && !slices.Contains(words, value) {
		d.wrong(path, fmt.Sprintf("%s is not known here", quote(value)), meant(value, words, "one of"))
	}
}

func (d *document) version(path, value string) {
	if d.says(path) && d.sound(path) && !versionText.MatchString(value) {
		d.wrong(path, quote(value)+" is no version", "write it as 1.2.3, or leave it out")
	}
}

func (d *document) within(path string, value, least, most int) {
	if d.sound(path) && (value < least || value > most) {
		text := fmt.Sprintf("want %d to %d, got %d", least, most, value)
		if value < least && most == mostCounted {
			text = fmt.Sprintf("want at least %d, got %d", least, value)
		}
		d.wrong(path, text, "")
	}
}

func (d *document) between(path string, value, least, most float64) {
	switch {
	case !d.sound(path):
	case value < 0:
		d.wrong(path, fmt.Sprintf("%v is negative", value), "")
	case value < least || value > most:
		d.wrong(path, fmt.Sprintf("want %v to %v, got %v", least, most, value), "")
	}
}

// firstSaid is the first of these that the document says.
func (d *document) firstSaid(paths ...string) string {
	for _, path := range paths {
		if d.says(path) {
			return path
		}
	}
	return paths[0]
}
