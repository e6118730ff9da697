package spec

import (
	"slices"
	"strconv"
)

// RecipeKind is the kind of a Recipe document.
const RecipeKind = "RecipeMetadata"

// RecipeVersion is the apiVersion that a Recipe is written with.
const RecipeVersion = "aicr.run/v1beta1"

// RecipeVersions lists those that are read. The fields that matter here are the
// same in all of them.
func RecipeVersions() []string {
	return []string{RecipeVersion, "aicr.run/v1alpha2", "aicr.nvidia.com/v1alpha1"}
}

// Recipe is what a deployment should be, as far as its verdict goes: what is
// wanted of it, at which load, and how that is judged.
type Recipe struct {
	Comment  string // written before the document; not read
	Name     string
	Criteria Criteria
	Checks   []string
	Wants    []RecipeConstraint // as they were written; see Constraints
	Verdict  RecipeVerdict
}

// Criteria says for which deployments a recipe is.
type Criteria struct {
	Service     string `json:"service,omitempty"`
	Accelerator string `json:"accelerator,omitempty"`
	OS          string `json:"os,omitempty"`
	Intent      string `json:"intent,omitempty"`
	Platform    string `json:"platform,omitempty"`
	Nodes       int    `json:"nodes,omitempty"`
}

// RecipeConstraint is what a recipe wants, in its own words. Value is a comparator
// and a number for a figure, and a bare value for an input.
type RecipeConstraint struct {
	Name        string   `json:"name"`
	Value       Wanted   `json:"value"`
	Unit        string   `json:"unit,omitempty"`
	Severity    string   `json:"severity,omitempty"`
	Remediation string   `json:"remediation,omitempty"`
	Tolerance   *float64 `json:"tolerance,omitempty"` // share of the threshold
}

// Wanted is a value that is wanted: ">= 50000", or 256.
type Wanted string

// RecipeVerdict is how a deployment of the recipe is judged.
type RecipeVerdict struct {
	Profile    string           `json:"profile,omitempty"`
	Stability  string           `json:"stability,omitempty"`
	Reference  *RecipeReference `json:"reference,omitempty"`
	Thresholds ThresholdValues  `json:"thresholds,omitempty"` // those that differ from the profile's, by name
}

// ThresholdValues are some of the Thresholds, by their names.
type ThresholdValues map[string]float64

// RecipeReference is a throughput that was measured on healthy hardware of this
// kind, and the operating point at which it was.
type RecipeReference struct {
	Throughput        float64 `json:"throughput"` // tokens/s, of all the GPUs
	GPUs              int     `json:"gpus"`
	ConcurrencyPerGPU int     `json:"concurrencyPerGPU"`
	InputTokens       int     `json:"inputTokens"`
	OutputTokens      int     `json:"outputTokens"`
	Dispersion        float64 `json:"dispersion,omitempty"` // ln-sd between episodes; 0: not known
	N                 int     `json:"n,omitempty"`          // episodes that it is of
	Measured          string  `json:"measured,omitempty"`   // RFC 3339, or a day
}

// The inputs that a recipe sets by a constraint with a bare value.
const (
	InputModel       = "inference-model"
	InputConcurrency = "inference-concurrency-per-gpu"
	InputRouting     = "inference-routing-mode"
)

// Constraints are the figures that are wanted of a fleet of so many GPUs, in
// canonical units. What is wanted of one GPU is wanted of each.
func (r *Recipe) Constraints(gpus int) []Constraint {
	var all []Constraint
	for _, w := range r.Wants {
		f, ok := figureNamed(w.Name)
		if !ok {
			continue
		}
		comparator, rest := compared(string(w.Value))
		value, isNumber := amount(rest)
		u, isUnit := f.unitNamed(w.Unit)
		if !isNumber || !isUnit {
			continue // DecodeRecipe lets no such thing through
		}
		c := Constraint{Name: w.Name, Comparator: comparator, Threshold: value * u.times, Unit: f.units[0].name, Tolerance: DefaultTolerance, From: "recipe " + r.Name}
		if u.perGPU {
			c.Threshold *= float64(gpus)
		}
		if w.Tolerance != nil {
			c.Tolerance = *w.Tolerance
		}
		all = append(all, c)
	}
	return all
}

// Input is the value of an input that the recipe sets.
func (r *Recipe) Input(name string) (string, bool) {
	i := slices.IndexFunc(r.Wants, func(w RecipeConstraint) bool { return w.Name == name })
	if i < 0 {
		return "", false
	}
	return string(r.Wants[i].Value), true
}

// ConcurrencyPerGPU is the load that the recipe sets: its own input, else the
// point at which its reference was measured.
func (r *Recipe) ConcurrencyPerGPU() (int, bool) {
	if text, ok := r.Input(InputConcurrency); ok {
		n, err := strconv.Atoi(text)
		return n, err == nil
	}
	if ref := r.Verdict.Reference; ref != nil {
		return ref.ConcurrencyPerGPU, true
	}
	return 0, false
}

// Overlay lays the recipe's thresholds over others. Whether they make sense
// together is for t.Check to say.
func (r *Recipe) Overlay(t *Thresholds) {
	for name, value := range r.Verdict.Thresholds {
		t.set(name, value)
	}
}
