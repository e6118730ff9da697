package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/report/layout"
)

func newEnvironment(a *app) *cobra.Command {
	var format, data string
	cmd := &cobra.Command{
		Use:   "env",
		Short: "List the variables that a validation listens to, and their values",
		Long: `Lists the published variables of inference-perf and this program's own secrets and
defaults: the value in force, the default, and whether the shell or the catalog of
checks set it. The shell prevails over the catalog. The value of a secret is never
shown.

Every flag has a variable beside these, AICR_ and its name: --concurrency-per-gpu is
AICR_CONCURRENCY_PER_GPU. See 'aicr help validate'.

Exit codes: 0; 2 when a value is malformed, and it says which.`,
		Example: `  aicr env
  aicr env --data our-recipes -o json`,
		RunE: func(*cobra.Command, []string) error { return a.environment(data, format) },
	}
	section(cmd, "Input", func(f *pflag.FlagSet) {
		dataFlag(f, &data)
	})
	section(cmd, "Output", func(f *pflag.FlagSet) { outputFlag(f, &format) })
	return cmd
}

// variable is a row of aicr env.
type variable struct {
	Name    string `json:"name"`
	Value   string `json:"value,omitempty"`
	Default string `json:"default,omitempty"`
	Source  string `json:"source"` // env, catalog, default
	Meaning string `json:"meaning"`
	Recipe  string `json:"recipe,omitempty"` // the constraint that prevails over it
	Cluster bool   `json:"clusterOnly,omitempty"`
	Secret  bool   `json:"secret,omitempty"`
	Wrong   string `json:"wrong,omitempty"`
}

// environment lists the variables, and ends badly when one of them is malformed.
func (a *app) environment(data, format string) error {
	library, err := a.library(data)
	if err != nil {
		return err
	}
	knobs, wrong := a.readKnobs(library.Catalog)
	var all []variable
	for _, k := range knobs {
		all = append(all, variable{Name: k.Name, Value: k.Value, Default: k.Default, Source: k.From, Meaning: k.Meaning, Recipe: k.Recipe, Cluster: k.Cluster, Secret: k.Secret, Wrong: k.Wrong})
	}
	for _, v := range ownVariables() {
		if said, ok := a.env.LookupEnv(v.Name); ok && said != "" {
			v.Source, v.Value = string(FromEnv), said
			if v.Secret {
				v.Value = "(hidden)"
			}
		}
		all = append(all, v)
	}
	if format == outputJSON {
		err = a.printJSON(all)
	} else {
		_, err = a.env.Stdout.Write(environmentText(all, a.stdoutPalette()))
	}
	return errors.Join(err, errors.Join(wrong...))
}

// ownVariables are those of the program that are no flag's own, or hold for every
// command.
func ownVariables() []variable {
	return []variable{
		{Name: "AICR_API_KEY", Source: string(FromDefault), Meaning: "bearer token for the endpoint", Secret: true},
		{Name: metricsTokenVariable, Source: string(FromDefault), Meaning: "bearer token for the https pages of --node-metrics", Secret: true},
		{Name: "AICR_CONFIG", Source: string(FromDefault), Meaning: "the --config file of every command"},
		{Name: "KUBECONFIG", Source: string(FromDefault), Meaning: "which cluster aicr snapshot, aicr validate and aicr clean talk to, as for kubectl"},
		{Name: "NO_COLOR", Source: string(FromDefault), Meaning: "no colours, when it is set to anything"},
	}
}

func environmentText(all []variable, paint layout.Palette) []byte {
	t := &layout.Page{Palette: paint}
	set, wrong := 0, 0
	for _, v := range all {
		set += 1 - asDefault(v)
		if v.Wrong != "" {
			wrong++
		}
	}
	is := "are"
	if set == 1 {
		is = "is"
	}
	answer := fmt.Sprintf("%d of %s %s set", set, layout.Plural(len(all), "variable"), is)
	if wrong > 0 {
		answer += fmt.Sprintf(", and %d malformed", wrong)
	}
	t.Line(0, "", answer)
	t.Blank()
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(v, w variable) int { // what somebody set comes first
		return cmp.Compare(asDefault(v), asDefault(w))
	})
	for _, v := range all {
		value := v.Value
		if value == "" {
			value = "not set"
		}
		head := fmt.Sprintf("%-8s", v.Source)
		switch {
		case v.Wrong != "":
			head = paint.Red(head)
		case v.Source == string(FromDefault):
			head = paint.Dim(head)
		}
		t.Line(2, head, v.Name+" = "+value)
		about := v.Meaning
		if v.Default != "" && v.Source != string(FromDefault) {
			about += "; default " + v.Default
		}
		if v.Recipe != "" {
			about += "; a recipe's " + v.Recipe + " prevails"
		}
		if v.Cluster {
			about += "; on a cluster alone"
		}
		if v.Wrong != "" {
			about = "malformed: " + v.Wrong
		}
		t.Line(12, "", about)
	}
	return t.Bytes()
}

// asDefault is 1 for a variable that nobody set, and 0 for others.
func asDefault(v variable) int {
	if v.Source == string(FromDefault) {
		return 1
	}
	return 0
}
