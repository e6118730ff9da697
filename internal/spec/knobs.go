package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Knob is a variable that the published inference-perf check listens to. Here each
// works from the user's shell as well as from the catalog.
type Knob struct {
	Name    string
	Meaning string
	Default string // as it would be written; "": none
	Recipe  string // the constraint of a recipe that prevails over it, or ""
	Cluster bool   // it is of use only where this product deploys what it measures
	Shell   bool   // a catalog cannot set it
	Secret  bool   // its value is never shown
	kind    knobKind
}

// knobKind says what is wrong with a value, and what to write instead; "": nothing.
type knobKind func(value string) (text, hint string)

// The knobs that more than one place speaks of.
const (
	KnobConcurrency     = "AICR_INFERENCE_PERF_CONCURRENCY_PER_GPU"
	KnobWarmup          = "AICR_INFERENCE_PERF_WARMUP_PER_CONCURRENCY"
	KnobMinRequests     = "AICR_INFERENCE_PERF_MIN_REQUESTS"
	KnobRequests        = "AICR_INFERENCE_PERF_REQUESTS_PER_CONCURRENCY"
	KnobInputTokens     = "AICR_INFERENCE_PERF_INPUT_TOKENS_MEAN"
	KnobOutputTokens    = "AICR_INFERENCE_PERF_OUTPUT_TOKENS_MEAN"
	KnobModel           = "AICR_INFERENCE_PERF_MODEL"
	KnobRouter          = "AICR_INFERENCE_PERF_ROUTER_MODE"
	KnobReadyTimeout    = "AICR_INFERENCE_PERF_WORKLOAD_READY_TIMEOUT"
	KnobHealthTimeout   = "AICR_INFERENCE_PERF_HEALTH_TIMEOUT"
	KnobCacheSize       = "AICR_INFERENCE_PERF_MODEL_CACHE_SIZE"
	KnobCacheClass      = "AICR_INFERENCE_PERF_MODEL_CACHE_STORAGE_CLASS"
	KnobPopulateTimeout = "AICR_INFERENCE_PERF_MODEL_CACHE_POPULATE_TIMEOUT"
	KnobCacheTypes      = "AICR_INFERENCE_PERF_MODEL_CACHE_EXTRA_COMPATIBLE_TYPES"
	KnobNoCleanup       = "AICR_INFERENCE_PERF_NO_CLEANUP"

	KnobWorkerResources   = "AICR_INFERENCE_PERF_WORKER_RESOURCES"
	KnobFrontendResources = "AICR_INFERENCE_PERF_FRONTEND_RESOURCES"
	KnobJobResources      = "AICR_INFERENCE_PERF_JOB_RESOURCES"
	KnobLoadResources     = "AICR_INFERENCE_PERF_LOAD_RESOURCES"

	KnobRegistry = "AICR_VALIDATOR_IMAGE_REGISTRY"
	KnobTag      = "AICR_VALIDATOR_IMAGE_TAG"
	KnobToken    = "HF_TOKEN"

	// KnobPrefix begins the names of those that only inference-perf listens to.
	KnobPrefix = "AICR_INFERENCE_PERF_"
)

// DefaultModel is what is deployed where nobody names a model.
const DefaultModel = "Qwen/Qwen3-8B"

// RouterModes are the words that the frontend of a deployment takes for how it
// chooses a worker.
func RouterModes() []string {
	return []string{"kv", "round-robin", "random", "power-of-two", "least-loaded", "device-aware-weighted"}
}

// Knobs lists them, as the published documents do.
func Knobs() []Knob {
	return []Knob{
		{Name: KnobConcurrency, Meaning: "requests in flight for each GPU", Default: "128, with profile classic 256", Recipe: InputConcurrency, kind: countKnob(mostInFlight)},
		{Name: KnobWarmup, Meaning: "requests for each one in flight before those that count, of profile classic", Default: "1", kind: countKnob(mostCounted)},
		{Name: KnobMinRequests, Meaning: "least number of requests that count, of profile classic", Default: "1000", kind: countKnob(mostCounted)},
		{Name: KnobRequests, Meaning: "requests that count for each one in flight, of profile classic", Default: "8", kind: countKnob(mostCounted)},
		{Name: KnobInputTokens, Meaning: "tokens of each prompt", Default: "128", kind: countKnob(mostTokens)},
		{Name: KnobOutputTokens, Meaning: "tokens of each answer", Default: "128", kind: countKnob(mostTokens)},
		{Name: KnobModel, Meaning: "the model: to load, and on a cluster to deploy", Default: DefaultModel + "; of a URL the only one that is served", Recipe: InputModel, kind: nameKnob},
		{Name: KnobRouter, Meaning: "how the frontend chooses a worker", Default: "least-loaded", Cluster: true, kind: wordKnob(RouterModes())},
		{Name: KnobReadyTimeout, Meaning: "how long the deployment may take to be ready", Default: "10m", Cluster: true, kind: durationKnob},
		{Name: KnobHealthTimeout, Meaning: "how long each worker may take for its first answer", Default: "5m", kind: durationKnob},
		{Name: KnobCacheSize, Meaning: "size of the volume that the model is kept in, or off", Default: "100Gi", Cluster: true, kind: sizeKnob},
		{Name: KnobCacheClass, Meaning: "storage class of that volume", Default: "the cluster's own", Recipe: InputStorageClass, Cluster: true, kind: classKnob},
		{Name: KnobPopulateTimeout, Meaning: "how long filling that volume may take", Default: "13m", Cluster: true, kind: durationKnob},
		{Name: KnobCacheTypes, Meaning: "disk types that go with the machines beside those that are known to, with commas", Cluster: true, kind: nameKnob},
		{Name: KnobWorkerResources, Meaning: "requests and limits of each worker, beside its GPU, as cpu=4,memory=16Gi", Cluster: true, kind: resourcesKnob},
		{Name: KnobFrontendResources, Meaning: "requests and limits of the frontend, and of a gateway's endpoint picker and sidecars", Cluster: true, kind: resourcesKnob},
		{Name: KnobJobResources, Meaning: "requests and limits of the Jobs that fetch the model and try the load's image", Cluster: true, kind: resourcesKnob},
		{Name: KnobLoadResources, Meaning: "requests and limits of the load, over requests.cpu=2,requests.memory=2Gi,limits.memory=4Gi", Cluster: true, kind: resourcesKnob},
		{Name: KnobNoCleanup, Meaning: "leave what was made on the cluster", Default: "false", Cluster: true, Shell: true, kind: switchKnob},
		{Name: KnobRegistry, Meaning: "registry and path to take images from instead", Cluster: true, Shell: true, kind: registryKnob},
		{Name: KnobTag, Meaning: "tag of the images of this product", Default: "this program's release", Cluster: true, Shell: true, kind: tagKnob},
		{Name: KnobToken, Meaning: "token for Hugging Face", Cluster: true, Shell: true, Secret: true, kind: tokenKnob},
	}
}

var counted = regexp.MustCompile(`^[1-9][0-9]*$`)

func countKnob(most int) knobKind {
	return func(value string) (string, string) {
		n, err := strconv.Atoi(value)
		if err != nil || n > most || !counted.MatchString(value) {
			return fmt.Sprintf("%s is no whole number from 1 to %d", quote(value), most), "write the digits alone, as 128"
		}
		return "", ""
	}
}

func durationKnob(value string) (string, string) {
	d, err := time.ParseDuration(value)
	switch {
	case err == nil && d > 0 && d <= 24*time.Hour:
		return "", ""
	case err == nil:
		return quote(value) + " is no time between 0 and 24h", "write it as 10m or 90s"
	case digits.MatchString(value) && value[0] != '-':
		return quote(value) + " has no unit", fmt.Sprintf("write %ss or %sm", value, value)
	}
	return quote(value) + " is no duration", "write it as 10m or 90s"
}

func wordKnob(words []string) knobKind {
	return func(value string) (string, string) {
		if slices.Contains(words, value) {
			return "", ""
		}
		return quote(value) + " is none that there is", meant(value, words, "want")
	}
}

func nameKnob(value string) (string, string) {
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return quote(value) + " has a space in it", "write the name alone"
	}
	return "", ""
}

// switchedOff are the words that a size is written as where none is wanted.
func switchedOff() []string { return []string{"off", "0", "none", "disabled"} }

var storageSize = regexp.MustCompile(`^(0*[1-9][0-9]*(\.[0-9]+)?|0*\.0*[1-9][0-9]*)(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$`)

func sizeKnob(value string) (string, string) {
	if slices.Contains(switchedOff(), strings.ToLower(value)) || storageSize.MatchString(value) {
		return "", ""
	}
	return quote(value) + " is no size", "write it as 100Gi, or off"
}

var storageClassName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func classKnob(value string) (string, string) {
	if storageClassName.MatchString(value) {
		return "", ""
	}
	return quote(value) + " is no name of a storage class", "lower-case letters, digits, dashes and dots"
}

func switchKnob(value string) (string, string) {
	if _, err := strconv.ParseBool(value); err != nil {
		return quote(value) + " is neither true nor false", "write 1 or 0"
	}
	return "", ""
}

var (
	registryName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([-._a-z0-9]*[a-z0-9])?)*$`)
	tagName      = regexp.MustCompile(`^[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}$`)
)

const highestPort = 65535

// registryKnob wants a host first: to those who pull, what has neither a dot nor a port
// is an organisation of Docker Hub.
func registryKnob(value string) (string, string) {
	host, _, _ := strings.Cut(value, "/")
	_, port, hasPort := strings.Cut(host, ":")
	number, _ := strconv.Atoi(port)
	switch {
	case strings.Contains(value, "@"):
		return quote(unsigned(value)) + " has a user or a password in it", "write the registry alone, and log in to it where images are pulled"
	case !registryName.MatchString(strings.TrimRight(value, "/")) || !strings.ContainsAny(host, ".:") && host != "localhost":
		return quote(value) + " is no registry", "write it as registry.example.com/mirror, without https:// and without a tag"
	case hasPort && (number < 1 || number > highestPort):
		return fmt.Sprintf("%s has no port from 1 to %d", quote(value), highestPort), "write it as registry.example.com:5000/mirror"
	}
	return "", ""
}

// unsigned is an address without who signs in to it: a password may be there.
func unsigned(address string) string {
	if at := strings.LastIndex(address, "@"); at >= 0 {
		return hiddenValue + address[at:]
	}
	return address
}

func tagKnob(value string) (string, string) {
	if tagName.MatchString(value) {
		return "", ""
	}
	return quote(value) + " is no tag", "letters, digits, dots, dashes and underscores, at most 128"
}

// tokenKnob says nothing of what is in a token: not even what is wrong with it.
func tokenKnob(value string) (string, string) {
	if text, _ := nameKnob(value); text != "" {
		return "a space or a line's end is in it", "write the token alone"
	}
	return "", ""
}

// Where the value of a knob came from.
const (
	KnobFromEnv     = "env"
	KnobFromCatalog = "catalog"
	KnobFromDefault = "default"
)

// hiddenValue stands for a secret that is set.
const hiddenValue = "(hidden)"

// KnobValue is a knob with the value that is in force. That of a secret is not in it.
type KnobValue struct {
	Knob
	Value string
	From  string
	Wrong string // what is wrong with it, or ""
	Hint  string
}

// KnobValues are all the knobs, in the order of Knobs.
type KnobValues []KnobValue

// ReadKnobs settles each knob: the shell prevails over the catalog, and that over the
// default. A variable that is empty is not set. Others of the catalog's variables that
// are none of the knobs, and look as if they were meant to be, are at the end.
func ReadKnobs(shell func(string) (string, bool), c *Catalog) KnobValues {
	var env []EnvVar
	if c != nil {
		perf, _ := c.Named(InferencePerf)
		env = perf.Env
	}
	var all KnobValues
	for _, k := range Knobs() {
		v := KnobValue{Knob: k, Value: k.Default, From: KnobFromDefault}
		for _, e := range env {
			if e.Name == k.Name && e.Value != "" {
				v.Value, v.From = e.Value, KnobFromCatalog
			}
		}
		if said, ok := shell(k.Name); ok && said != "" {
			v.Value, v.From = said, KnobFromEnv
		} else if v.From == KnobFromCatalog && k.Shell {
			v.Wrong, v.Hint = "a catalog cannot set it", "set it in the shell"
		}
		if v.From != KnobFromDefault && v.Wrong == "" {
			v.Wrong, v.Hint = k.kind(v.Value)
		}
		switch {
		case v.From == KnobFromDefault:
		case k.Secret:
			v.Value = hiddenValue
		case k.Name == KnobRegistry:
			v.Value = unsigned(v.Value)
		}
		all = append(all, v)
	}
	for _, e := range env {
		if text, hint := unheardKnob(e.Name); text != "" {
			all = append(all, KnobValue{Knob: Knob{Name: e.Name}, Value: e.Value, From: KnobFromCatalog, Wrong: text, Hint: hint})
		}
	}
	return all
}

// unheardKnob says that a name is of the knobs' kind and none of them; "": it is one of
// them, or of another kind.
func unheardKnob(name string) (text, hint string) {
	if !strings.HasPrefix(name, KnobPrefix) {
		return "", ""
	}
	var known []string
	for _, k := range Knobs() {
		if k.Name == name {
			return "", ""
		}
		known = append(known, k.Name)
	}
	if near, ok := Nearest(name, known); ok {
		return "no check listens to it", fmt.Sprintf("did you mean %s?", near)
	}
	return "no check listens to it", "'aicr env' lists those that there are"
}

// checkKnob notes what is wrong with a variable of a catalog that inference-perf listens
// to, or was meant to.
func (d *document) checkKnob(at string, v EnvVar) {
	name, value := join(at, "name"), join(at, "value")
	if text, hint := unheardKnob(v.Name); text != "" {
		d.wrong(name, v.Name+": "+text, hint)
	}
	for _, k := range Knobs() {
		switch {
		case k.Name != v.Name:
		case k.Shell:
			notForCatalogs(d, name, v.Name)
		case v.Value != "" && d.sound(value):
			if text, hint := k.kind(v.Value); text != "" {
				d.wrong(value, k.Name+": "+text, hint)
			}
		}
	}
}

func notForCatalogs(d *document, path, name string) {
	d.wrong(path, name+" is not for a catalog to set", "take it out, and set it in the shell that runs aicr")
}

// Said is the value of a knob that somebody set, and who. One that is malformed is not.
func (all KnobValues) Said(name string) (value, from string, ok bool) {
	for _, v := range all {
		if v.Name == name && v.From != KnobFromDefault && v.Wrong == "" {
			return v.Value, v.From, true
		}
	}
	return "", "", false
}

// Duration is the time that a knob says, or its default.
func (all KnobValues) Duration(name string) time.Duration {
	for _, v := range all {
		if v.Name != name {
			continue
		}
		if d, err := time.ParseDuration(v.Value); err == nil && v.Wrong == "" {
			return d
		}
		d, _ := time.ParseDuration(v.Default)
		return d
	}
	return 0
}

// CacheSize is the size of the volume for the model; "": there is to be none.
func (all KnobValues) CacheSize() string {
	for _, v := range all {
		if v.Name == KnobCacheSize && v.Wrong == "" && !slices.Contains(switchedOff(), strings.ToLower(v.Value)) {
			return v.Value
		}
	}
	return ""
}
