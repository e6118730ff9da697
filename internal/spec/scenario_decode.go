package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// DefaultProfile is the profile of a Scenario that names none.
const DefaultProfile = "h100-eks"

// DecodeScenario reads a Scenario from YAML or JSON. The error, if any, is a
// Mistakes with everything that is wrong with it.
func DecodeScenario(data []byte) (*Scenario, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	s, d := overlay(root, DefaultProfile)
	if _, known := ProfileNamed(s.Fleet.Profile); known && s.Fleet.Profile != DefaultProfile {
		s, d = overlay(root, s.Fleet.Profile)
	}
	d.checkScenario(s)
	if err := d.err(); err != nil {
		return nil, err
	}
	for i := range s.Faults {
		s.Faults[i].complete()
	}
	if s.Faults == nil {
		s.Faults = []Fault{} // so that it is written as an empty list
	}
	return s, nil
}

func overlay(root *yaml.Node, profile string) (*Scenario, *document) {
	s, _ := NewScenario("", profile)
	return s, decode(root, s)
}

// DecodeFaults reads faults for the fleet of a Scenario from YAML or JSON: a
// list, or a map whose only field is faults. The error, if any, is a Mistakes.
func DecodeFaults(data []byte, s *Scenario) ([]Fault, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	var body struct {
		Faults []Fault `json:"faults"`
	}
	var d *document
	if root.Kind == yaml.SequenceNode {
		d = decode(root, &body.Faults)
		d.checkFaults("", body.Faults, s)
	} else {
		d = decode(root, &body)
		d.require("faults", "give a list of faults; [] is none")
		d.checkFaults("faults", body.Faults, s)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	if len(body.Faults) == 0 {
		return nil, nil // none, however that was written
	}
	for i := range body.Faults {
		body.Faults[i].complete()
	}
	return body.Faults, nil
}

// longest is what no time of a document goes beyond, so that sums of them do not
// overflow.
const longest = 1000 * time.Hour

// fromDocument reads a number with its unit. The hint offers the unit of the
// value that would be there otherwise.
func (v *Duration) fromDocument(d *document, n *yaml.Node, path string) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!int" && n.Tag != "!!float" {
		d.wrong(path, "want a duration, got "+describe(n), "write it as 5.6ms")
		return
	}
	took, err := time.ParseDuration(n.Value)
	switch {
	case err != nil:
		text, hint := notDuration(n.Value, *v)
		d.wrong(path, quote(n.Value)+" "+text, hint)
	case took < 0:
		d.wrong(path, quote(n.Value)+" is negative", "")
	case took > longest:
		d.wrong(path, fmt.Sprintf("%s is longer than %dh", quote(n.Value), longest/time.Hour), "")
	default:
		*v = Duration(took)
	}
}

// notDuration says why a text is none, and what may have been meant.
func notDuration(written string, otherwise Duration) (text, hint string) {
	end := strings.LastIndexAny(written, "0123456789.") + 1
	number, unit := strings.TrimLeft(written[:end], "+-"), strings.TrimSpace(written[end:])
	if _, err := strconv.ParseFloat(number, 64); err != nil || strings.Trim(number, "0123456789.") != "" || len(written) > 40 {
		return "is not a duration", "write it as 5.6ms"
	}
	if unit == "" {
		if otherwise == 0 {
			return "has no unit", fmt.Sprintf("write %sms or %[1]ss", number)
		}
		usual := otherwise.String()
		return "has no unit", "write " + number + usual[strings.LastIndexAny(usual, "0123456789")+1:]
	}
	meantBy := map[string]string{
		"sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "msecs": "ms", "millis": "ms", "milliseconds": "ms",
		"usec": "us", "usecs": "us", "micros": "us", "microseconds": "us", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
		"hour": "h", "hours": "h", "ns": "ns", "us": "us", "ms": "ms", "s": "s", "m": "m", "h": "h",
	}
	right, ok := meantBy[strings.ToLower(unit)]
	switch {
	case !ok:
		return "has a unit that there is not", "the units are ns, us, ms, s, m, h"
	case right == unit && !strings.Contains(written, " "):
		return "is too long", ""
	default:
		return "is not a duration", "write " + number + right
	}
}

func (v *Prompts) fromDocument(d *document, n *yaml.Node, path string) {
	const hint = "write unique, or how many distinct prompts are recycled"
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == "unique" {
		*v = 0
		return
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || !digits.MatchString(n.Value) {
		d.wrong(path, "want unique or a whole number, got "+describe(n), hint)
		return
	}
	i, ok := d.whole(n, path)
	switch {
	case ok && i < 1:
		d.wrong(path, fmt.Sprintf("%d prompts", i), hint)
	case ok && i > mostCounted:
		d.wrong(path, fmt.Sprintf("%d is more than %d", i, mostCounted), "")
	case ok:
		*v = Prompts(i)
	}
}

func (v *Workers) fromDocument(d *document, n *yaml.Node, path string) {
	switch {
	case n.Kind == yaml.SequenceNode && n.Tag == "!!seq":
		for i, one := range n.Content {
			at := element(path, i)
			d.written[at] = positionOf(one)
			if w, ok := d.whole(target(one), at); ok {
				v.List = append(v.List, int(w))
			} else {
				v.List = append(v.List, 0) // so that the others keep their places
			}
			if d.values++; d.values > maxValues {
				d.stop(one, path, fmt.Sprintf("more than %d values", maxValues))
				return
			}
		}
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == "any":
		v.Any = true
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == "all":
		v.All = true
	case n.Kind == yaml.ScalarNode && n.Tag == "!!int":
		d.wrong(path, "want a list of workers, got "+describe(n), fmt.Sprintf("write [%s]", plain(n.Value)))
	default:
		d.wrong(path, "want a list of workers, got "+describe(n), "write [0, 1], all or any")
	}
}
