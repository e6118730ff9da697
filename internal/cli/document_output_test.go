package cli

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestOutputOfADocumentIsAFormOrAPlace(t *testing.T) {
	for name, c := range map[string]struct {
		args        []string
		form, place string
		bad         bool
	}{
		"nothing":                  {nil, "yaml", "", false},
		"a form":                   {[]string{"-o", "json"}, "json", "", false},
		"text is the table":        {[]string{"-o", "text"}, "table", "", false},
		"a file":                   {[]string{"-o", "passed.yaml"}, "yaml", "passed.yaml", false},
		"a file of JSON":           {[]string{"-o", "passed.json"}, "json", "passed.json", false},
		"a ConfigMap":              {[]string{"-o", "cm://aicr/passed"}, "yaml", "cm://aicr/passed", false},
		"standard output":          {[]string{"-o", "-"}, "yaml", "-", false},
		"both":                     {[]string{"--format", "json", "-o", "out/passed"}, "json", "out/passed", false},
		"the form that was said":   {[]string{"-o", "yaml", "-o", "passed.json"}, "yaml", "passed.json", false},
		"both, by their own flags": {[]string{"-o", "json", "--write", "passed"}, "json", "passed", false},
		"neither":                  {[]string{"-o", "ymal"}, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			var form, place string
			f := pflag.NewFlagSet("", pflag.ContinueOnError)
			output := documentFlags(f, &form, &place, "")
			f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
				if name == "format" {
					name = "output"
				}
				return pflag.NormalizedName(name)
			})
			if err := f.Parse(c.args); (err != nil) != c.bad {
				t.Fatal(err)
			} else if c.bad {
				return
			}
			if err := output.settle(&app{}, &place); err != nil {
				t.Fatal(err)
			}
			if form != c.form || place != c.place {
				t.Errorf("%s to %q, want %s to %q", form, place, c.form, c.place)
			}
		})
	}
}
