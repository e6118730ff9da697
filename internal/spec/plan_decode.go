package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// planDocument is a Plan as it is decoded: what a document writes in a way of its
// own has a type that reads it.
type planDocument struct {
	Schema       string           `json:"schema"`
	Profile      string           `json:"profile"`
	Point        OperatingPoint   `json:"point"`
	Reference    *ReferenceFigure `json:"reference,omitempty"`
	Constraints  []Constraint     `json:"constraints"`
	Thresholds   Thresholds       `json:"thresholds"`
	Stability    string           `json:"stability"`
	NoFreeGPUs   string           `json:"noFreeGPUs,omitempty"`
	Half         *HalfLook        `json:"half,omitempty"`
	Seed         seedValue        `json:"seed"`
	Prior        []PriorStall     `json:"prior,omitempty"`
	PriorMinutes float64          `json:"prior_minutes,omitempty"`
	Cost         Cost             `json:"cost"`
	Inputs       inputValues      `json:"inputs"`
	Scenario     scenarioValue    `json:"scenario,omitzero"`
	Checks       []PlannedCheck   `json:"checks,omitempty"`
	Readiness    []Held           `json:"readiness,omitempty"`
	Creates      []PlannedObject  `json:"creates,omitempty"`
	Nodes        []PlannedNode    `json:"nodes,omitempty"`
	Unused       []Unused         `json:"unused,omitempty"`
}

// DecodePlan reads the plan that a run kept. Nothing in it has a default: a
// verdict must not hang on what a later program would put there. The error, if
// any, is a Mistakes.
func DecodePlan(data []byte) (*Plan, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	var p planDocument
	d := decode(root, &p)
	d.complete("", reflect.TypeFor[planDocument]())
	d.constant("schema", p.Schema, PlanSchema)
	d.word("profile", p.Profile, Profiles())
	d.word("stability", p.Stability, []string{StabilityGate, StabilityReport})
	d.word("noFreeGPUs", p.NoFreeGPUs, []string{NoFreeGPUsSkip, NoFreeGPUsFail})
	d.checkPoint("point", p.Point)
	d.checkThresholds("thresholds", &p.Thresholds)
	if r := p.Reference; r != nil && d.sound("reference") {
		d.above("reference.throughput", r.Throughput)
		d.between("reference.dispersion", r.Dispersion, 0, mostJitter)
		d.within("reference.n", r.N, 0, mostCounted)
	}
	d.checkResolved(p.Constraints)
	if h := p.Half; h != nil && d.sound("half") {
		d.within("half.concurrency", h.Concurrency, 1, mostInFlight)
		d.above("half.duration_s", h.DurationS)
	}
	for i, s := range p.Prior {
		at := element("prior", i)
		d.between(join(at, "count"), s.Count, 0, mostCounted)
		d.moment(join(at, "last"), s.Last)
	}
	d.between("prior_minutes", p.PriorMinutes, 0, mostAnything)
	d.within("cost.expected_episodes", p.Cost.ExpectedEpisodes, 0, mostEpisodes)
	d.within("cost.worst_episodes", p.Cost.WorstEpisodes, 0, mostEpisodes)
	for field, v := range map[string]float64{"expected_s": p.Cost.ExpectedS, "worst_s": p.Cost.WorstS,
		"expected_gpu_minutes": p.Cost.ExpectedGPUMinutes, "worst_gpu_minutes": p.Cost.WorstGPUMinutes} {
		d.between(join("cost", field), v, 0, mostAnything)
	}
	for i, c := range p.Checks {
		at := element("checks", i)
		d.word(join(at, "phase"), c.Phase, Phases())
		d.between(join(at, "timeout_s"), c.TimeoutS, 0, mostAnything)
		d.word(join(at, "verdict"), string(c.Verdict), []string{string(Fail), string(Inconclusive), string(Skip), string(NotRun)})
		d.word(join(at, "reason.code"), c.Reason.Code, checkReasonCodes())
		if c.Runs && c.Verdict != "" {
			d.wrong(join(at, "verdict"), fmt.Sprintf("is %s of a check that runs", c.Verdict), "a check that runs has no verdict in the plan")
		}
	}
	for i, h := range p.Readiness {
		d.word(join(element("readiness", i), "state"), string(h.State), []string{string(HeldMet), string(HeldNotMet), string(HeldError)})
	}
	for i, n := range p.Nodes {
		d.within(join(element("nodes", i), "workers"), n.Workers, 1, mostInFlight)
		d.between(join(element("nodes", i), "cost.worst_s"), n.Cost.WorstS, 0, mostAnything)
	}
	for i, u := range p.Unused {
		d.within(join(element("unused", i), "line"), u.Line, 0, mostCounted)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return &Plan{Schema: p.Schema, Profile: p.Profile, Point: p.Point, Reference: p.Reference, Constraints: p.Constraints,
		Thresholds: p.Thresholds, Stability: p.Stability, NoFreeGPUs: p.NoFreeGPUs, Half: p.Half, Seed: uint64(p.Seed), Prior: p.Prior, PriorMinutes: p.PriorMinutes, Cost: p.Cost,
		Inputs: p.Inputs, Scenario: p.Scenario.Scenario, Checks: p.Checks, Readiness: p.Readiness, Creates: p.Creates, Nodes: p.Nodes, Unused: p.Unused}, nil
}

// EncodePlan writes a plan as a run keeps it. A plan that DecodePlan would not
// read is an error here, before anything is measured by it.
func EncodePlan(p *Plan) ([]byte, error) {
	whole := *p
	if whole.Constraints == nil {
		whole.Constraints = []Constraint{}
	}
	if whole.Inputs == nil {
		whole.Inputs = map[string]Input{}
	}
	data, err := encodeYAML(whole, "")
	if err == nil {
		_, err = DecodePlan(data)
	}
	if err != nil {
		return nil, fmt.Errorf("a plan that cannot be kept: %w", err)
	}
	return data, nil
}

// checkResolved checks constraints that are in their canonical units already.
func (d *document) checkResolved(all []Constraint) {
	seen := map[string]bool{}
	for i, c := range all {
		at := element("constraints", i)
		if !d.sound(at) {
			continue
		}
		kind, known := figureNamed(c.Name)
		d.word(join(at, "name"), c.Name, figureNames())
		if seen[c.Name] {
			d.wrong(join(at, "name"), quote(c.Name)+" is there twice", "")
		}
		seen[c.Name] = true
		d.above(join(at, "threshold"), c.Threshold)
		d.between(join(at, "tolerance"), c.Tolerance, 0, mostTolerance)
		if known {
			d.word(join(at, "comparator"), c.Comparator, []string{kind.comparator})
			d.word(join(at, "unit"), c.Unit, []string{kind.units[0].name})
		}
	}
}

// checkPoint notes what no load can be.
func (d *document) checkPoint(path string, p OperatingPoint) {
	const day = 86400
	in := func(field string) string { return join(path, field) }
	if !d.sound(path) {
		return
	}
	d.within(in("workers"), p.Workers, 0, mostWorkers) // 0: not known
	d.within(in("prefill_workers"), p.Prefill, 0, max(0, p.Workers-1))
	d.within(in("gpus_per_worker"), p.GPUsPerWorker, 0, mostTogether)
	d.within(in("concurrency"), p.Concurrency, 1, mostInFlight)
	d.within(in("input_tokens"), p.InputTokens, 0, mostTokens)
	d.within(in("output_tokens"), p.OutputTokens, 0, mostTokens)
	d.within(in("requests"), p.Requests, 0, mostCounted)
	d.within(in("wave_per_user"), p.WavePerUser, 0, mostCounted)
	if d.sound(in("wave"), in("wave_per_user")) && p.WavePerUser > 0 && !p.Wave {
		d.wrong(in("wave_per_user"), "there is no wave", "write wave: true, or leave it out")
	}
	d.between(in("ramp_s"), p.RampS, 0, day)
	d.between(in("duration_s"), p.DurationS, 0, day)
	d.between(in("sentinel_rate"), p.SentinelRate, 0, mostSends)
	d.between(in("request_timeout_s"), p.RequestTimeout, 0, day)
	if d.says(in("duration_s")) && d.sound(in("duration_s"), in("requests")) && p.DurationS == 0 && p.Requests == 0 {
		d.wrong(in("duration_s"), "an episode that ends neither by time nor by count", "")
	}
	if d.says(in("prompts")) && d.sound(in("prompts")) && p.Prompts == "" {
		d.wrong(in("prompts"), "no value", "unique, or how many are recycled")
	}
}

// complete notes every field of a struct that is not there and is not one that is
// left out when it is empty.
func (d *document) complete(path string, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		at := join(path, name)
		if !d.says(at) {
			if options == "" {
				d.require(at, "a record has this field always")
				d.broken[at] = true // misnamed or missing: nothing more is said of it
			}
			continue
		}
		inside := f.Type
		if inside.Kind() == reflect.Pointer {
			inside = inside.Elem()
		}
		switch {
		case reflect.PointerTo(inside).Implements(reflect.TypeFor[documentValue]()):
		case inside.Kind() == reflect.Struct:
			d.complete(at, inside)
		case inside.Kind() == reflect.Slice && inside.Elem().Kind() == reflect.Struct:
			for i := 0; d.says(element(at, i)); i++ {
				d.complete(element(at, i), inside.Elem())
			}
		}
	}
}

// above checks a number that must be more than nothing.
func (d *document) above(path string, value float64) {
	if d.says(path) && d.sound(path) && (value <= 0 || value > mostAnything) {
		d.wrong(path, fmt.Sprintf("want more than 0 and at most %s, got %s", decimals(mostAnything), decimals(value)), "")
	}
}

// moment checks a time of day, if it was said.
func (d *document) moment(path, value string) {
	if !d.says(path) || !d.sound(path) {
		return
	}
	if _, err := time.Parse(time.RFC3339, value); err != nil {
		d.wrong(path, quote(value)+" is no time", "write it as 2026-06-04T12:00:00Z")
	}
}

// decimals writes a number without an exponent.
func decimals(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

type seedValue uint64

func (v *seedValue) fromDocument(d *document, n *yaml.Node, path string) {
	seed, err := strconv.ParseUint(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!str" || err != nil {
		d.wrong(path, "want a whole number from 0, got "+describe(n), "")
		return
	}
	*v = seedValue(seed)
}

type inputValues map[string]Input

func (v *inputValues) fromDocument(d *document, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode || n.Tag != "!!map" {
		d.wrong(path, "want a map of inputs, got "+describe(n), "")
		return
	}
	*v = inputValues{}
	for _, m := range d.members(n, path, 0) {
		at := join(path, plain(m.name))
		d.written[at] = positionOf(m.key)
		var one Input
		d.value(m.value, at, reflect.ValueOf(&one).Elem(), 1)
		d.complete(at, reflect.TypeFor[Input]())
		(*v)[m.name] = one
	}
}

// scenarioValue is a Scenario as a part of another document.
type scenarioValue struct{ *Scenario }

func (v *scenarioValue) fromDocument(d *document, n *yaml.Node, path string) {
	s, inner := wholeScenario(n)
	for _, m := range inner.mistakes {
		d.note(join(path, m.Path), position{m.Line, m.Column}, m.Text, m.Hint)
	}
	v.Scenario = s
}

// wholeScenario is what DecodeScenario makes of a document's root.
func wholeScenario(root *yaml.Node) (*Scenario, *document) {
	s, d := overlay(root, DefaultProfile)
	if _, known := ProfileNamed(s.Fleet.Profile); known && s.Fleet.Profile != DefaultProfile {
		s, d = overlay(root, s.Fleet.Profile)
	}
	d.checkScenario(s)
	for i := range s.Faults {
		s.Faults[i].complete()
	}
	if s.Faults == nil {
		s.Faults = []Fault{}
	}
	return s, d
}

// encodeYAML writes a value by its JSON names, in the order of its fields, so that
// the same value has the same bytes. Comment is put before it.
func encodeYAML(v any, comment string) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(escaped(string(text))), &doc); err != nil {
		return nil, err
	}
	plainly(&doc)
	var b strings.Builder
	for line := range strings.Lines(comment) {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	out := yaml.NewEncoder(&b)
	out.SetIndent(2)
	if err := out.Encode(&doc); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// escaped writes out what JSON may hold as it is and YAML may not.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < 0x7f || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// plainly takes the brackets and quotes away that JSON needs and YAML does not. Text
// of several lines keeps them: without, the library writes some that it cannot read.
func plainly(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || !strings.ContainsFunc(n.Value, unicode.IsControl) {
		n.Style = 0
	}
	for _, one := range n.Content {
		plainly(one)
	}
}

// emptyDocument is one that nothing was read from.
func emptyDocument() *document {
	return &document{root: &yaml.Node{Line: 1, Column: 1}, written: map[string]position{}, broken: map[string]bool{}, misnamed: map[string]bool{}, most: maxValues}
}
