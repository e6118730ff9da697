package spec

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// shellOnly are the variables that a user's own shell gives to a check. A catalog is
// shared, and one of them is a secret.
func shellOnly() []string {
	return []string{KnobToken, KnobNoCleanup, "AICR_NCCL_FABRIC", "AICR_REQUIRE_SCOPED_INFERENCE_GATEWAY"}
}

func affinityWords() []string { return []string{"preferred", "required"} }

var (
	variableName = regexp.MustCompile(`^[A-Za-z_.-][A-Za-z0-9_.-]*$`)
	quantity     = regexp.MustCompile(`^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$`)
	imageShape   = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
)

// DecodeCatalog reads a Catalog from YAML or JSON. The error, if any, is a Mistakes
// with everything that is wrong with it.
func DecodeCatalog(data []byte) (*Catalog, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	c := &Catalog{}
	d := decode(root, c)
	d.checkCatalog(c)
	if err := d.err(); err != nil {
		return nil, err
	}
	c.Unused = d.unused
	return c, nil
}

// EncodeCatalog writes a Catalog. One that DecodeCatalog would not read is an error
// here.
func EncodeCatalog(c *Catalog) ([]byte, error) {
	whole := *c
	if whole.Validators == nil {
		whole.Validators = []CatalogEntry{}
	}
	data, err := encodeYAML(whole, "")
	if err == nil {
		_, err = DecodeCatalog(data)
	}
	if err != nil {
		return nil, fmt.Errorf("a catalog that could not be read again: %w", err)
	}
	return data, nil
}

func (d *document) checkCatalog(c *Catalog) {
	d.word("apiVersion", c.APIVersion, CatalogVersions())
	d.word("kind", c.Kind, []string{CatalogKind})
	if !d.require("validators", "give a list of checks; [] is none") {
		return
	}
	first := map[string]string{}
	for i, e := range c.Validators {
		at := element("validators", i)
		if !d.sound(at) {
			continue
		}
		name := join(at, "name")
		if d.require(name, "a recipe asks for a check by its name") && d.sound(name) {
			switch earlier, twice := first[e.Name]; {
			case !dnsLabel.MatchString(e.Name):
				d.wrong(name, quote(e.Name)+" is no name", "lower-case letters, digits and dashes, at most 63, a letter or digit first and last")
			case twice:
				d.wrong(name, e.Name+" is there twice", fmt.Sprintf("it is at line %d already", d.written[earlier].line))
			default:
				first[e.Name] = name
			}
		}
		if d.require(join(at, "phase"), "one of "+strings.Join(Phases(), ", ")) {
			d.word(join(at, "phase"), e.Phase, Phases())
		}
		d.checkEntry(at, e)
	}
}

func (d *document) checkEntry(at string, e CatalogEntry) {
	if image := join(at, "image"); d.says(image) && d.sound(image) && !imageShape.MatchString(e.Image) {
		d.wrong(image, quote(e.Image)+" is no image", "write it as registry/name:tag or registry/name@sha256:…")
	}
	if timeout := join(at, "timeout"); d.says(timeout) && d.sound(timeout) {
		if d.span(timeout, e.Timeout) == 0 && d.sound(timeout) {
			d.wrong(timeout, "want more than 0s", "leave it out for "+Duration(DefaultDeadline).String())
		}
	}
	seen := map[string]bool{}
	for i, v := range e.Env {
		name := join(element(join(at, "env"), i), "name")
		if !d.sound(element(join(at, "env"), i)) || !d.require(name, "name the variable") || !d.sound(name) {
			continue
		}
		switch {
		case !variableName.MatchString(v.Name):
			d.wrong(name, quote(v.Name)+" is no variable's name", "letters, digits and underscores, no digit first")
		case slices.Contains(shellOnly(), v.Name):
			notForCatalogs(d, name, v.Name)
		case seen[v.Name]:
			d.wrong(name, v.Name+" is there twice", "")
		case e.Name == InferencePerf:
			d.checkKnob(element(join(at, "env"), i), v)
		}
		seen[v.Name] = true
	}
	if r := e.Resources; r != nil {
		in := func(field string) string { return join(join(at, "resources"), field) }
		d.quantity(in("cpu"), string(r.CPU), "write it as 500m, or 2")
		d.quantity(in("memory"), string(r.Memory), "write it as 512Mi")
		if d.sound(join(at, "resources")) && d.says(in("cpu")) != d.says(in("memory")) {
			missing, there := "memory", "cpu"
			if d.says(in("memory")) {
				missing, there = there, missing
			}
			d.require(in(missing), fmt.Sprintf("it goes with %s: write both, or neither", there))
		}
	}
	for i, a := range e.DependencyAffinity {
		in := element(join(at, "dependencyAffinity"), i)
		if d.sound(in) {
			d.require(join(in, "componentRef"), "name a component of the recipe")
			d.word(join(in, "requirement"), a.Requirement, affinityWords())
		}
	}
}

// quantity checks an amount as Kubernetes writes it, by its shape alone.
func (d *document) quantity(path, value, hint string) {
	if !d.says(path) || !d.sound(path) {
		return
	}
	switch parts := quantity.FindStringSubmatch(value); {
	case parts == nil:
		d.wrong(path, quote(value)+" is no quantity", hint)
	case strings.Trim(parts[1], "0.") == "":
		d.wrong(path, "want more than 0, got "+quote(value), hint)
	}
}

// span is a time as Go writes it, 0 where it is not said or none.
func (d *document) span(path, value string) time.Duration {
	if !d.says(path) || !d.sound(path) || value == "" {
		return 0
	}
	took, err := time.ParseDuration(value)
	switch {
	case err != nil:
		text, hint := notDuration(value, Duration(DefaultDeadline))
		d.wrong(path, quote(value)+" "+text, hint)
	case took < 0:
		d.wrong(path, quote(value)+" is negative", "")
	case took > longest:
		d.wrong(path, fmt.Sprintf("%s is longer than %dh", quote(value), longest/time.Hour), "")
	default:
		return took
	}
	return 0
}

// envVarDocument is a variable of a container, as it is written.
type envVarDocument struct {
	Name  string   `json:"name"`
	Value BareText `json:"value,omitempty"`
}

func (v *EnvVar) fromDocument(d *document, n *yaml.Node, path string) {
	var written envVarDocument
	d.structure(n, path, reflect.ValueOf(&written).Elem(), strings.Count(path, "."))
	v.Name, v.Value = written.Name, string(written.Value)
}

func (v *BareText) fromDocument(d *document, n *yaml.Node, path string) {
	*v = BareText(d.bareText(n, path))
}

// bareText is text that is easily written without quotes: a number or a truth value is
// taken as it was written.
func (d *document) bareText(n *yaml.Node, path string) string {
	if n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float" || n.Tag == "!!bool") {
		return n.Value
	}
	text, _ := d.text(n, path)
	return text
}
