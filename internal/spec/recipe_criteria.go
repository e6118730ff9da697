package spec

import (
	"slices"
	"strings"
	"unicode"
)

// CriteriaFields lists the words that a deployment is described by, in the order in
// which people say them.
func CriteriaFields() []string { return []string{"service", "accelerator", "os", "intent", "platform"} }

// CriteriaWords lists the words of a field of the criteria that are known; nil: there is
// no such field. Any is every one of them. Sim is this product's own, for the simulator.
func CriteriaWords(field string) []string {
	switch field {
	case "service":
		return []string{"aks", "any", "bcm", "eks", "generic", "gke", "k0s", "kind", "lke", "metal3", "ocp", "oke", "rke2", "sim", "togetherai"}
	case "accelerator":
		return []string{"a100", "any", "b200", "gb200", "gb300", "h100", "h200", "l40", "l40s", "rtx-pro-6000", "sim", "vr200"}
	case "os":
		return []string{"amazonlinux", "any", "cos", "ol", "rhel", "sles", "talos", "ubuntu"}
	case "intent":
		return []string{"any", "inference", "training"}
	case "platform":
		return []string{"any", "dynamo", "kubeflow", "kueue", "nim", "runai", "slurm"}
	}
	return nil
}

// Named is the word of a field, or "".
func (c *Criteria) Named(field string) string {
	if word := c.Field(field); word != nil {
		return *word
	}
	return ""
}

// Field is where the word of a field is, or nil.
func (c *Criteria) Field(name string) *string {
	return map[string]*string{"service": &c.Service, "accelerator": &c.Accelerator, "os": &c.OS, "intent": &c.Intent, "platform": &c.Platform}[name]
}

// CriteriaMistake says what is wrong with a word of the criteria, and what was meant.
// No word at all is not wrong, and neither is one of an organisation's own, unless it
// is so close to one that is known that it is a slip. Intents are those that there are.
func CriteriaMistake(field, word string) (text, hint string) {
	words := CriteriaWords(field)
	if word == "" || slices.Contains(words, word) || noSlip(field, word) {
		return "", ""
	}
	_, slip := Nearest(word, words)
	if slip || field == "intent" || !dnsLabel.MatchString(word) {
		return quote(word) + " is not known here", meant(word, words, "one of")
	}
	return "", ""
}

// noSlip says whether a word names something else that is real, a letter away from one
// that is known: the next model of a GPU, for one. An organisation may have an overlay
// for it.
func noSlip(field, word string) bool {
	model := func(word string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return '0'
			}
			return r
		}, word)
	}
	others := map[string][]string{
		"service":     {"eks-a", "eksa", "iks", "metal", "mke", "ncp", "okd", "oks", "rke", "tke", "vke"},
		"accelerator": {"a10", "a10g", "a40", "b100", "gh200", "h20", "l4", "p100", "v100"},
	}
	return slices.Contains(others[field], word) || slices.ContainsFunc(CriteriaWords(field), func(known string) bool { return model(known) == model(word) })
}
