package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Object is any object of Kubernetes, as JSON has it. Most kinds that are made and read
// here have no Go types that could be had, and those that have would make the program
// twice as large.
//
// What it is asked for may be missing or of another shape: then there is none of it, and
// nothing breaks.
type Object map[string]any

// Name is the object's.
func (o Object) Name() string { return o.Text("metadata", "name") }

// Namespace is the object's; "" for one that is in none.
func (o Object) Namespace() string { return o.Text("metadata", "namespace") }

// UID is what tells it from another of the same name.
func (o Object) UID() string { return o.Text("metadata", "uid") }

// ResourceVersion is what tells it from itself at another time.
func (o Object) ResourceVersion() string { return o.Text("metadata", "resourceVersion") }

// Labels are the object's; writing to them changes nothing.
func (o Object) Labels() map[string]string { return o.words("metadata", "labels") }

// Annotations are the object's; writing to them changes nothing.
func (o Object) Annotations() map[string]string { return o.words("metadata", "annotations") }

// Finalizers are what still has to be done before it goes.
func (o Object) Finalizers() []string { return o.Texts("metadata", "finalizers") }

// Deleting says that somebody has deleted it, and that it is still there.
func (o Object) Deleting() bool { return o.Text("metadata", "deletionTimestamp") != "" }

// Text is the words at a path; "" where there are none.
func (o Object) Text(path ...string) string {
	text, _ := o.at(path).(string)
	return text
}

// Int is the whole number at a path, and whether there is one.
func (o Object) Int(path ...string) (int64, bool) {
	switch n := o.at(path).(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case float64: // 2^63 is the first that does not fit
		if n == math.Trunc(n) && n >= math.MinInt64 && n < math.MaxInt64 {
			return int64(n), true
		}
	case json.Number:
		whole, err := n.Int64()
		return whole, err == nil
	}
	return 0, false
}

// Bool is what is at a path; false where there is nothing.
func (o Object) Bool(path ...string) bool {
	yes, _ := o.at(path).(bool)
	return yes
}

// Map is the object at a path; nil where there is none. It is the one that is there, not
// a copy.
func (o Object) Map(path ...string) Object { return asObject(o.at(path)) }

// List is the objects of the list at a path. What is no object is not in it.
func (o Object) List(path ...string) []Object {
	var all []Object
	switch list := o.at(path).(type) {
	case []any:
		for _, one := range list {
			if object := asObject(one); object != nil {
				all = append(all, object)
			}
		}
	case []Object:
		all = append(all, list...)
	case []map[string]any:
		for _, one := range list {
			all = append(all, one)
		}
	}
	return all
}

// Texts is the words of the list at a path. What is no word is not in it.
func (o Object) Texts(path ...string) []string {
	var all []string
	switch list := o.at(path).(type) {
	case []any:
		for _, one := range list {
			if text, ok := one.(string); ok {
				all = append(all, text)
			}
		}
	case []string:
		all = append(all, list...)
	}
	return all
}

// Has says whether there is anything at a path.
func (o Object) Has(path ...string) bool { return o.at(path) != nil }

// String is the object's kind and name, for people.
func (o Object) String() string {
	name := o.Name()
	if namespace := o.Namespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %s", o.Text("kind"), name)
}

func (o Object) at(path []string) any {
	for i, key := range path {
		value, ok := o[key]
		if !ok || i == len(path)-1 {
			return value
		}
		o = asObject(value)
	}
	return nil
}

func (o Object) words(path ...string) map[string]string {
	all := map[string]string{}
	switch words := o.at(path).(type) {
	case map[string]string:
		maps.Copy(all, words)
	default:
		for key, value := range asObject(words) {
			if word, ok := value.(string); ok {
				all[key] = word
			}
		}
	}
	return all
}

// asObject is a value as an object; nil where it is none.
func asObject(value any) Object {
	switch o := value.(type) {
	case Object:
		return o
	case map[string]any:
		return o
	case map[string]string:
		words := Object{}
		for key, word := range o {
			words[key] = word
		}
		return words
	}
	return nil
}

// Resource says where the objects of a kind are.
type Resource struct {
	Group   string // "" is the core
	Version string
	Name    string // pods
}

// DeleteOptions say how an object is deleted.
type DeleteOptions struct {
	UID             string        // only the one that has it; "": whichever is there
	ResourceVersion string        // only as it was then; "": whatever became of it
	Foreground      bool          // what it owns goes first
	Grace           time.Duration // for a pod; below 0: at once; 0: its own
}

// LogOptions say which part of a log is wanted.
type LogOptions struct {
	Previous bool // of the container before the last restart
	Tail     int  // lines; 0: all
	Follow   bool
}

// Toleration is one of a pod.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"` // Exists, Equal
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
	Seconds  *int64 `json:"tolerationSeconds,omitempty"`
}

// GPUNode is a node, its GPUs and who holds them; one without any is there too, since the
// load has to run somewhere. Two ledgers are kept, since the same GPU may be handed out
// by either.
type GPUNode struct {
	Name        string
	Ready       bool
	Schedulable bool
	Labels      map[string]string
	Taints      []Taint

	Plugin  int      // GPUs that the device plugin offers (allocatable)
	Shares  int      // times that the device plugin offers each GPU; 1: it is not shared
	Devices []Device // GPUs that DRA offers: of the newest generation of the node's pool, when it is complete
	Tainted []string // GPUs that DRA has and does not give out, and why: they are not in Devices
	MIG     int      // parts of GPUs that either offers; none is counted as a GPU
	Odd     string   // why DRA cannot be used here; "": it can, or there is none

	PluginHeld []Holder // pods that asked for nvidia.com/gpu, and did not get it from DRA
	ClaimHeld  []Holder // claims that were given a device, without those of administrators

	FreeCPU int64 // millicores that no pod has asked for

	Declared int          // GPUs that its labels or its capacity say it has, whatever is offered of them; 0: none
	Reserved *Reservation // by a run of this program; nil: by none
}

// Reservation is a node that a run has to itself for a while.
type Reservation struct {
	Node      string
	Run       string
	Namespace string // that the Lease is in
	Since     time.Time
	Until     time.Time // renewed before; after it the node is free
	Settled   bool      // its run has seen no other reservation of the node, in any namespace
}

// Product is what GPUs the node has, in the words of its label, else of its devices; "" is
// not known. The two differ by what a label may not have in it.
func (n GPUNode) Product() string {
	if label := n.Labels["nvidia.com/gpu.product"]; label != "" {
		return label
	}
	var all []string
	for _, d := range n.Devices {
		all = append(all, strings.ReplaceAll(d.Product, " ", "-"))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// Free is how many GPUs nobody holds, in either ledger.
func (n GPUNode) Free() int {
	return max(0, max(n.Plugin, len(n.Devices))-n.Held())
}

// Held is how many GPUs somebody holds, in either ledger.
func (n GPUNode) Held() int {
	held := 0
	for _, h := range n.PluginHeld {
		held += h.GPUs
	}
	for _, h := range n.ClaimHeld {
		held += h.GPUs
	}
	return held
}

// Device is a GPU that DRA offers.
type Device struct {
	Pool, Name, UUID string
	Product          string
	Held             bool // by a claim, or a part of it is
}

// Taint is one of a node.
type Taint struct{ Key, Value, Effect string }

// Holder is who holds GPUs.
type Holder struct {
	Kind      string `json:"kind"` // Pod, ResourceClaim
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	GPUs      int    `json:"gpus"` // 0: those that it has were counted with another holder, who shares them
}
