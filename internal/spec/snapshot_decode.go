package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
)

// SnapshotVersions lists the apiVersions of a Snapshot that are read. The fields that
// matter here are the same in all of them.
func SnapshotVersions() []string {
	return []string{SnapshotVersion, "aicr.run/v1beta1", "aicr.nvidia.com/v1alpha1", "aicr.run/v1alpha3", "aicr.run/v1"}
}

// The formats that a Snapshot is written in.
const (
	FormatYAML = "yaml"
	FormatJSON = "json"
)

// MeasurementTypes lists the types of measurement.
func MeasurementTypes() []string {
	return []string{TypeK8s, TypeGPU, TypeOS, TypeSystemD, TypeNodeTopology, TypeNetworkTopology}
}

// UnknownReasons lists why a fact may not be known.
func UnknownReasons() []string {
	return []string{ReasonForbidden, ReasonAbsent, ReasonTimedOut, ReasonMixed, ReasonUnreachable, ReasonUnreadable}
}

// DecodeSnapshot reads a Snapshot from YAML or JSON, this product's own or upstream's.
// The error, if any, is a Mistakes with everything that is wrong with it.
func DecodeSnapshot(data []byte) (*Snapshot, error) {
	root, err := parseWithin(data, MaxSnapshot)
	if err != nil {
		return nil, err
	}
	if kind := otherKind(root, append(RecipeKinds(), CatalogKind, ConfigKind, VersionsKind, ScenarioKind)); kind != nil {
		return nil, notThis(kind, "a snapshot", "'aicr snapshot' makes one")
	}
	s := &Snapshot{}
	d := decodeWithin(root, s, mostFacts)
	d.word("kind", s.Kind, []string{SnapshotKind})
	d.word("apiVersion", s.APIVersion, SnapshotVersions())
	d.require("measurements", "write measurements: [], and what was found in it")
	d.checkMeasurements(s.Measurements)
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// otherKind is the kind of a document that is known to be one of others.
func otherKind(root *yaml.Node, kinds []string) *yaml.Node {
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		if value := target(root.Content[i+1]); root.Content[i].Value == "kind" && slices.Contains(kinds, value.Value) {
			return value
		}
	}
	return nil
}

func (d *document) checkMeasurements(all []Measurement) {
	types := map[string]string{}
	for i, m := range all {
		at := element("measurements", i)
		if !d.sound(at) {
			continue
		}
		if d.require(join(at, "type"), "one of "+listed(MeasurementTypes())) {
			d.word(join(at, "type"), m.Type, MeasurementTypes())
		}
		// A cluster may have several kinds of network; of everything else there is one.
		if earlier, twice := types[m.Type]; twice && m.Type != TypeNetworkTopology {
			d.wrong(join(at, "type"), m.Type+" is there twice", fmt.Sprintf("it is at line %d already", d.written[join(earlier, "type")].line))
		} else if m.Type != "" {
			types[m.Type] = at
		}
		d.checkSubtypes(join(at, "subtypes"), m.Subtypes)
	}
}

func (d *document) checkSubtypes(path string, all []Subtype) {
	names := map[string]string{}
	for i, sub := range all {
		at := element(path, i)
		if !d.sound(at) {
			continue
		}
		name := join(at, "subtype")
		if !d.require(name, "name what was measured, as subtype: server") || !d.sound(name) {
			continue
		}
		earlier, twice := names[sub.Name]
		switch {
		case sub.Name == "":
			d.wrong(name, "no value", "name what was measured, as subtype: server")
		case twice:
			d.wrong(name, quote(sub.Name)+" is there twice", fmt.Sprintf("it is at line %d already", d.written[join(earlier, "subtype")].line))
		default:
			names[sub.Name] = at
		}
		for key, u := range sub.Unknown {
			reason := join(keyed(join(at, "unknown"), key), "reason")
			if d.require(reason, "one of "+listed(UnknownReasons())) {
				d.word(reason, u.Reason, UnknownReasons())
			}
		}
	}
}

func listed(words []string) string { return strings.Join(words, ", ") }

// EncodeSnapshot writes a Snapshot as yaml or json: the same bytes for the same facts.
// One that DecodeSnapshot would not read is an error here.
func EncodeSnapshot(s *Snapshot, format string) ([]byte, error) {
	out := *s
	if out.Kind == "" {
		out.Kind = SnapshotKind
	}
	if out.APIVersion == "" {
		out.APIVersion = SnapshotVersion
	}
	if out.Measurements == nil {
		out.Measurements = []Measurement{}
	}
	var data []byte
	var err error
	switch format {
	case FormatYAML:
		data, err = encodeYAML(out, "")
	case FormatJSON:
		data, err = encodeJSON(out)
	default:
		return nil, fmt.Errorf("a snapshot is not written as %q, but as %s or %s", format, FormatYAML, FormatJSON)
	}
	if err != nil {
		return nil, fmt.Errorf("write a snapshot: %w", err)
	}
	if _, err := DecodeSnapshot(data); err != nil {
		return nil, fmt.Errorf("a snapshot that could not be read again: %w", err)
	}
	return data, nil
}

// encodeJSON writes a document so that a person can read it too.
func encodeJSON(document any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	return plainJSON(b.String()), nil
}

// plainJSON writes out what JSON may hold as it is, and a reader of YAML, which it is
// too, would read otherwise.
func plainJSON(text string) []byte {
	var b bytes.Buffer
	for _, r := range text {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// Subtype is the group of facts of that name. It is nil where the snapshot has none;
// of several it is the first.
func (s *Snapshot) Subtype(kind, name string) *Subtype {
	if s == nil {
		return nil
	}
	for i := range s.Measurements {
		if s.Measurements[i].Type != kind {
			continue
		}
		all := s.Measurements[i].Subtypes
		if at := slices.IndexFunc(all, func(sub Subtype) bool { return sub.Name == name }); at >= 0 {
			return &all[at]
		}
	}
	return nil
}
