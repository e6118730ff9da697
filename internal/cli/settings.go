package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

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
	Place  string // the variable or the file, where there is one
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
	data, err := readWithin(a.config, spec.MaxDocument)
	if err != nil {
		return []error{misuse("--config wants a YAML or JSON file", "reading the configuration: %w", err)}
	}
	if isDocument(data) {
		config, err := spec.DecodeConfig(data)
		if err != nil {
			return []error{mistakes(a.config, err)}
		}
		a.settings.unused = config.Unused
		return applyDocument(cmd, a.config, config.Flags(cmd.Name()), origin)
	}
	file, err := readConfig(a.config, data)
	if err != nil {
		return []error{err}
	}
	return applyConfig(cmd, a.config, file, origin)
}

// isDocument says whether a file says what kind of document it is, which no map of
// flags does. What is no map at all is for the reader of either to complain of.
func isDocument(data []byte) bool {
	var head struct {
		Kind       any `json:"kind"`
		APIVersion any `json:"apiVersion"`
		Spec       any `json:"spec"`
	}
	return yaml.Unmarshal(data, &head) == nil && (head.Kind != nil || head.APIVersion != nil || head.Spec != nil)
}

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

// readConfig reads a map of flag names to values. The values are strings,
// json.Numbers, booleans, or lists of these.
func readConfig(path string, data []byte) (map[string]any, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, misuse("", "%s: %w", path, err)
	}
	var file map[string]any
	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.UseNumber() // a count must not become 1e+06
	if err := d.Decode(&file); err != nil {
		return nil, misuse("write one 'flag-name: value' a line", "%s: not a map of flag names to values", path)
	}
	return file, nil
}

// applyConfig sets the flags of cmd that have no value yet. One file may serve
// every command: a key that is a flag of another command is passed over, one
// that is no command's is an error.
func applyConfig(cmd *cobra.Command, path string, file map[string]any, origin map[string]Setting) []error {
	known := configKeys(cmd.Root())
	from := map[string]string{}
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(file)) {
		where := path + ": " + key
		f := cmd.Flags().Lookup(key)
		switch {
		case !slices.Contains(known, key):
			hint := "keys are the names of flags, without the dashes"
			if near := nearest(key, known); near != "" {
				hint = fmt.Sprintf("did you mean %s?", near)
			}
			wrong = append(wrong, misuse(hint, "%s: no such flag", where))
			continue
		case f == nil:
			continue
		case from[f.Name] != "":
			wrong = append(wrong, misuse("", "%s: the same flag as %s", where, from[f.Name]))
			continue
		}
		from[f.Name] = key
		if origin[f.Name].Source != "" {
			continue
		}
		values, err := configValues(f, file[key])
		if err != nil {
			wrong = append(wrong, misuse("", "%s: %w", where, err))
			continue
		}
		for _, v := range values {
			if err := setFlag(cmd.Flags(), f, where, v); err != nil {
				wrong = append(wrong, err)
			}
		}
		origin[f.Name] = Setting{Source: FromFile, Place: path}
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

// configValues writes a file's value as it would stand on the command line.
func configValues(f *pflag.Flag, value any) ([]string, error) {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	} else if _, repeatable := f.Value.(pflag.SliceValue); !repeatable {
		return nil, errors.New("takes one value, not a list")
	}
	texts := make([]string, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case string:
			texts[i] = v
		case json.Number:
			texts[i] = v.String()
		case bool:
			texts[i] = fmt.Sprint(v)
		default:
			return nil, errors.New("wants a text, a number, true or false")
		}
	}
	return texts, nil
}
