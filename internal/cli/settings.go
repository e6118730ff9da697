package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/spec"
)

// Source is where a setting's value came from. A source that comes later here
// gives way to one that comes earlier.
type Source string

// The sources.
const (
	FromFlag    Source = "flag"
	FromEnv     Source = "env"
	FromFile    Source = "file"
	FromDefault Source = "default"
)

// Setting is one flag of a command with its value in force.
type Setting struct {
	Name   string
	Value  string   // as it would be written on the command line; hidden when secret
	List   []string // of a flag that may be given again and is not secret
	Source Source
	Place  string   // the variable or the file, where there is one
	Places []string // where a file says each of the values of a list
}

// settings are the values in force of the command that runs.
type settings struct {
	resolved bool
	all      []Setting
	unused   []spec.Unused // what the file says that no command does anything with
}

// of gives the setting of a flag, or the zero Setting for one that the command
// does not have.
func (s *settings) of(flag string) Setting {
	for _, one := range s.all {
		if one.Name == flag {
			return one
		}
	}
	return Setting{}
}

// resolve gives every flag that was not on the command line its value from the
// environment or the file, and notes where each came from. All that is wrong
// is reported at once.
func (a *app) resolve(cmd *cobra.Command) error {
	switch cmd.Name() {
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd, "help":
		return nil // must work in any environment
	}
	var wrong []error
	origin := map[string]Setting{}
	flags := cmd.Flags()
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			origin[f.Name] = Setting{Source: FromFlag}
			return
		}
		variable := envName(f.Name)
		value, ok := a.env.LookupEnv(variable)
		if !ok || value == "" || noted(f, noteNoEnv) { // an empty variable is how a shell says "not set"
			return
		}
		values := []string{value}
		if _, ok := f.Value.(pflag.SliceValue); ok {
			values = strings.Split(strings.TrimSpace(value), "\n") // one a line: any other sign may be part of one
		}
		for _, value := range values {
			if err := setFlag(flags, f, variable, value); err != nil {
				wrong = append(wrong, err)
			}
		}
		origin[f.Name] = Setting{Source: FromEnv, Place: variable}
	})
	if a.config != "" {
		wrong = append(wrong, a.applyFile(cmd, origin)...)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		s := origin[f.Name]
		s.Name, s.Value = f.Name, f.Value.String()
		if s.Source == "" {
			s.Source = FromDefault
		}
		if noted(f, noteSecret) && s.Value != "" {
			s.Value = "(hidden)"
		} else if list, ok := f.Value.(pflag.SliceValue); ok {
			s.List = list.GetSlice()
		}
		a.settings.all = append(a.settings.all, s)
	})
	a.settings.resolved = true
	return errors.Join(wrong...)
}

func setFlag(flags *pflag.FlagSet, f *pflag.Flag, where, value string) error {
	err := flags.Set(f.Name, value)
	if err == nil {
		return nil
	}
	cause := err
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		cause = e.Unwrap()
	}
	return badValue(where, f, value, cause, "")
}

// applyFile sets the flags of cmd that have no value yet from the --config file: a map
// of flag names, or an AICRConfig.
func (a *app) applyFile(cmd *cobra.Command, origin map[string]Setting) []error {
	if strings.HasPrefix(a.config, configMapScheme) {
		return []error{misuse("write it to a file first, with kubectl get configmap", "--config: %s is in a cluster, which is not asked before what to do is known", a.config)}
	}
	data, err := readWithin(a.ended, a.config, spec.MaxDocument)
	if err != nil {
		return []error{misuse("--config wants a YAML or JSON file", "reading the configuration: %w", err)}
	}
	if spec.IsConfig(data) {
		config, err := spec.DecodeConfig(data)
		if err != nil {
			return []error{mistakes(a.config, err)}
		}
		a.settings.unused = config.Unused
		wrong := applyDocument(cmd, a.config, config.Flags(cmd.Name()), origin)
		if skip, ok := origin[skipCheckFlag]; ok && skip.Source == FromFile {
			for i := range config.Spec.Validate.Execution.SkipChecks {
				line := spec.LineOf(data, fmt.Sprintf("%s[%d]", skipChecksField, i))
				skip.Places = append(skip.Places, fmt.Sprintf("%s:%d: %s[%d]", a.config, line, skipChecksField, i))
			}
			origin[skipCheckFlag] = skip
		}
		return wrong
	}
	file, err := spec.DecodeFlat(data)
	if err != nil {
		return []error{mistakes(a.config, err)}
	}
	return applyFlat(cmd, a.config, file, origin)
}

// The checks that are left out are held against the catalog, long after the file is read.
const (
	skipCheckFlag   = "skip-check"
	skipChecksField = "spec.validate.execution.skipChecks"
)

// applyDocument sets the flags of cmd that an AICRConfig speaks for and that have no
// value yet. A list takes the place of another, and is not added to it.
func applyDocument(cmd *cobra.Command, path string, file map[string][]string, origin map[string]Setting) (wrong []error) {
	for _, name := range slices.Sorted(maps.Keys(file)) {
		f := cmd.Flags().Lookup(name)
		switch {
		case f == nil:
			wrong = append(wrong, misuse("leave it out", "%s: it speaks of --%s, which aicr %s does not have", path, name, cmd.Name()))
			continue
		case origin[name].Source != "":
			continue
		}
		origin[name] = Setting{Source: FromFile, Place: path}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			if err := list.Replace(file[name]); err != nil {
				wrong = append(wrong, misuse("", "%s: --%s: %w", path, name, err))
			}
			continue
		}
		for _, v := range file[name] {
			if err := setFlag(cmd.Flags(), f, path+": "+name, v); err != nil {
				wrong = append(wrong, err)
			}
		}
	}
	return wrong
}

// applyFlat sets the flags of cmd that have no value yet. One file may serve
// every command: a key that is a flag of another command is passed over, one
// that is no command's is an error.
func applyFlat(cmd *cobra.Command, path string, file []spec.FlatSetting, origin map[string]Setting) (wrong []error) {
	known := configKeys(cmd.Root())
	from := map[string]spec.FlatSetting{}
	for _, s := range file {
		where := fmt.Sprintf("%s:%d: %s", path, s.Line, s.Name)
		f := cmd.Flags().Lookup(s.Name)
		switch {
		case !slices.Contains(known, s.Name):
			hint := "keys are the names of flags, without the dashes"
			if near := nearest(s.Name, known); near != "" {
				hint = fmt.Sprintf("did you mean %s?", near)
			}
			wrong = append(wrong, misuse(hint, "%s: no such flag", where))
			continue
		case f == nil:
			continue
		}
		if earlier, twice := from[f.Name]; twice {
			wrong = append(wrong, misuse(fmt.Sprintf("%s is at line %d already", earlier.Name, earlier.Line), "%s: the same flag as %s", where, earlier.Name))
			continue
		}
		from[f.Name] = s
		if origin[f.Name].Source != "" {
			continue
		}
		if _, repeatable := f.Value.(pflag.SliceValue); s.List && !repeatable {
			wrong = append(wrong, misuse("", "%s: takes one value, not a list", where))
			continue
		}
		set := Setting{Source: FromFile, Place: path}
		for _, v := range s.Values {
			place := fmt.Sprintf("%s:%d: %s", path, v.Line, s.Name)
			set.Places = append(set.Places, place)
			if err := setFlag(cmd.Flags(), f, place, v.Text); err != nil {
				wrong = append(wrong, err)
			}
		}
		origin[f.Name] = set
	}
	return wrong
}

// configKeys lists the flags that a file may set, aliases included, of a
// command and all below it.
func configKeys(cmd *cobra.Command) []string {
	var keys []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && !noted(f, noteNoEnv) {
			keys = append(append(keys, f.Name), f.Annotations[noteAlias]...)
		}
	})
	for _, c := range cmd.Commands() {
		keys = append(keys, configKeys(c)...)
	}
	return keys
}
