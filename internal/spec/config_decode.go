package spec

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// AllPhases is the word for every phase, where phases are chosen.
const AllPhases = "all"

func configPhases() []string  { return append(Phases(), AllPhases) }
func configFormats() []string { return []string{"yaml", "json", "table"} }

// DecodeConfig reads a Config from YAML or JSON. The error, if any, is a Mistakes with
// everything that is wrong with it.
func DecodeConfig(data []byte) (*Config, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	d := decode(root, c)
	d.checkConfig(c)
	if err := d.err(); err != nil {
		return nil, err
	}
	c.Unused = d.unused
	return c, nil
}

func (d *document) checkConfig(c *Config) {
	if d.require("apiVersion", "write apiVersion: "+ConfigVersions()[0]) {
		d.word("apiVersion", c.APIVersion, ConfigVersions())
	}
	d.constant("kind", c.Kind, ConfigKind)
	d.checkConfigSections(c.Spec)
	if s := c.Spec.Snapshot; s != nil {
		if s.Output != nil {
			d.configFormat("spec.snapshot.output.format", s.Output.Format)
		}
		if e := s.Execution; e != nil {
			d.span("spec.snapshot.execution.timeout", e.Timeout)
			if e.MaxNodesPerEntry != nil {
				d.within("spec.snapshot.execution.maxNodesPerEntry", *e.MaxNodesPerEntry, 0, mostCounted)
			}
		}
		if a := s.Agent; a != nil && d.sound("spec.snapshot.agent") && a.RuntimeClassName != "" && a.RequireGPU != nil && *a.RequireGPU {
			d.wrong("spec.snapshot.agent.runtimeClassName", "it is instead of requireGpu: true, not beside it", "leave one of them out")
		}
	}
	d.checkConfigRecipe(c.Spec)
	if v := c.Spec.Validate; v != nil && v.Execution != nil {
		const at = "spec.validate.execution"
		d.checkNames(join(at, "skipChecks"), v.Execution.SkipChecks)
		d.checkConfigPhases(join(at, "phases"), v.Execution.Phases)
		d.span(join(at, "timeout"), v.Execution.Timeout)
	}
}

// configFormat checks a format; the empty text is upstream's way to say none.
func (d *document) configFormat(path, format string) {
	if format != "" {
		d.word(path, format, configFormats())
	}
}

// checkConfigSections wants a section. One whose every line is commented out is none.
func (d *document) checkConfigSections(s ConfigSpec) {
	sections := []string{"snapshot", "recipe", "bundle", "validate", "verify"}
	if !d.require("spec", "write spec: with a section "+strings.Join(sections, ", ")) || !d.sound("spec") {
		return
	}
	misnamed := slices.ContainsFunc(sections, func(name string) bool { return d.misnamed[join("spec", name)] })
	if !misnamed && s.Snapshot == nil && s.Recipe == nil && s.Bundle == nil && s.Validate == nil && s.Verify == nil {
		d.wrong("spec", "no section", "write one at least of "+strings.Join(sections, ", "))
	}
}

func (d *document) checkConfigRecipe(s ConfigSpec) {
	if s.Recipe == nil {
		return
	}
	const criteria, snapshot, output, bundled = "spec.recipe.criteria", "spec.recipe.input.snapshot", "spec.recipe.output.path", "spec.bundle.input.recipe"
	if c := s.Recipe.Criteria; c != nil {
		d.within(criteria+".nodes", c.Nodes, 0, mostCounted) // 0 is upstream's way to say nothing
		for _, field := range CriteriaFields() {
			if text, hint := CriteriaMistake(field, c.Named(field)); text != "" && d.sound(join(criteria, field)) {
				d.wrong(join(criteria, field), text, hint)
			}
		}
		if in := s.Recipe.Input; in != nil && in.Snapshot != "" {
			d.wrong(snapshot, "a snapshot beside criteria", fmt.Sprintf("criteria are concluded from it, or said at line %d: leave one of them out", d.written[criteria].line))
		}
	}
	out, b := s.Recipe.Output, s.Bundle
	if out != nil {
		d.configFormat("spec.recipe.output.format", out.Format)
	}
	if out == nil || out.Path == "" || b == nil || b.Input == nil || b.Input.Recipe == "" || !d.sound(output, bundled) {
		return
	}
	if path.Clean(out.Path) != path.Clean(b.Input.Recipe) {
		d.wrong(bundled, fmt.Sprintf("%s is not the recipe that is written: %s", quote(b.Input.Recipe), quote(out.Path)), fmt.Sprintf("name the file of line %d", d.written[output].line))
	}
}

func (d *document) checkConfigPhases(at string, phases []string) {
	for i, p := range phases {
		one := element(at, i)
		d.word(one, p, configPhases())
		if d.sound(one) && slices.Contains(phases[:i], p) {
			d.wrong(one, quote(p)+" is there twice", "")
		}
	}
}

// Flags are the flags of a command that the file speaks for, and their values. One that
// it does not speak of is not there; one of several values that are none is there and
// empty.
func (c *Config) Flags(command string) map[string][]string {
	flags := configFlags{}
	switch s := c.Spec; {
	case command == "snapshot" && s.Snapshot != nil:
		flags.ofSnapshot(s.Snapshot)
	case command == "recipe" && s.Recipe != nil:
		flags.ofRecipe(s.Recipe)
	case command == "validate" && s.Validate != nil:
		flags.ofValidate(s.Validate)
		if s.Recipe != nil { // what the recipe was made of knows its checks, too
			flags.text("data", s.Recipe.Data)
		}
	}
	return flags
}

type configFlags map[string][]string

// text is a flag of one value. The empty text is upstream's way to say nothing.
func (f configFlags) text(name, value string) {
	if value != "" {
		f[name] = []string{value}
	}
}

func (f configFlags) switched(name string, value *bool) {
	if value != nil {
		f[name] = []string{strconv.FormatBool(*value)}
	}
}

func (f configFlags) several(name string, values []string) {
	if values != nil {
		f[name] = values
	}
}

func (f configFlags) ofSnapshot(s *ConfigSnapshot) {
	if o := s.Output; o != nil {
		f.text("write", o.Path)
		f.text("output", o.Format)
	}
	if e := s.Execution; e != nil {
		f.text("timeout", e.Timeout)
		if e.MaxNodesPerEntry != nil {
			f.text("max-nodes-per-entry", strconv.Itoa(*e.MaxNodesPerEntry))
		}
	}
}

func (f configFlags) ofRecipe(r *ConfigRecipe) {
	if c := r.Criteria; c != nil {
		f.text("service", c.Service)
		f.text("accelerator", c.Accelerator)
		f.text("os", c.OS)
		f.text("intent", c.Intent)
		f.text("platform", c.Platform)
		if c.Nodes != 0 {
			f.text("nodes", strconv.Itoa(c.Nodes))
		}
	}
	if r.Input != nil {
		f.text("snapshot", r.Input.Snapshot)
	}
	if o := r.Output; o != nil {
		f.text("write", o.Path)
		f.text("output", o.Format)
	}
	f.text("data", r.Data)
}

func (f configFlags) ofValidate(v *ConfigValidate) {
	if v.Input != nil {
		f.text("recipe", v.Input.Recipe)
		f.text("snapshot", v.Input.Snapshot)
	}
	e := v.Execution
	if e == nil {
		return
	}
	f.several("phase", e.Phases)
	f.several("skip-check", e.SkipChecks)
	f.switched("fail-fast", e.FailFast)
	f.switched("no-cluster", e.NoCluster)
	f.switched("no-cleanup", e.NoCleanup)
	f.text("timeout", e.Timeout)
	if e.FailOnError != nil && !*e.FailOnError {
		f.text("fail-on", "never") // true is what a command does that is not told otherwise
	}
}
