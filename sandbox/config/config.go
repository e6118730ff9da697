package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Config is a sandbox. One that Decode or Default gave is whole and has been checked.
type Config struct {
	Nodes               []Node
	Dynamo              Dynamo
	KAI                 bool   // the KAI scheduler's queues are served
	Gateway             bool   // the Gateway API and its inference extension are served
	DefaultStorageClass bool   // volumes are provisioned without being asked for by name
	AICR                string // the aicr program; empty is for the caller to find
	Venv                string // the Python environment with the real Dynamo and AIPerf; empty is for the caller to find, NoVenv: none
	Audit               bool   // the API server writes down who asked for what
	Probes              string // at which times pods are probed: ProbesReal or ProbesQuick
}

// At which times the nodes probe pods.
const (
	ProbesReal  = "real"  // as the pods say
	ProbesQuick = "quick" // those by which a pod gets ready each second and from its start, and 5 s at least to answer
)

// NoVenv is said where the real Dynamo and AIPerf are not wanted, though they may be there.
const NoVenv = "none"

// Node is one machine.
type Node struct {
	Name         string
	GPUs         int
	DRA          bool   // its GPUs are devices of gpu.nvidia.com
	DevicePlugin bool   // its GPUs are the resource nvidia.com/gpu
	CPU          string // a quantity
}

// Dynamo is the stand-in for the Dynamo platform.
type Dynamo struct {
	API     []string // the versions of its API that are served, the newest first
	Runtime string   // what serves: RuntimeSim or RuntimeReal
}

// What stands behind a graph.
const (
	RuntimeSim  = "sim"  // aicr's own simulator
	RuntimeReal = "real" // Dynamo itself with its mocker, from the Venv
)

const defaultCPU = "16"

// Default is the sandbox of an empty file: two nodes with two GPUs each, and one without.
func Default() Config {
	return Config{
		Nodes: []Node{
			{Name: "gpu-0", GPUs: 2, DRA: true, CPU: defaultCPU},
			{Name: "gpu-1", GPUs: 2, DRA: true, CPU: defaultCPU},
			{Name: "cpu-0", CPU: "8"},
		},
		Dynamo:              Dynamo{API: []string{"v1beta1", "v1alpha1"}, Runtime: RuntimeSim},
		DefaultStorageClass: true,
		Probes:              ProbesReal,
	}
}

// Mistakes is everything that is wrong with a file.
type Mistakes []string

func (m Mistakes) Error() string { return strings.Join(m, "\n") }

// file is the document as it is written: what it leaves out is nil.
type file struct {
	Nodes  []fileNode `yaml:"nodes"`
	Dynamo struct {
		API     []string `yaml:"api"`
		Runtime *string  `yaml:"runtime"`
	} `yaml:"dynamo"`
	KAI                 bool   `yaml:"kai"`
	Gateway             bool   `yaml:"gateway"`
	DefaultStorageClass *bool  `yaml:"defaultStorageClass"`
	AICR                string `yaml:"aicr"`
	Venv                string `yaml:"venv"`
	Audit               bool   `yaml:"audit"`

	Probes *string `yaml:"probes"`
}

type fileNode struct {
	Name         string  `yaml:"name"`
	GPUs         int     `yaml:"gpus"`
	DRA          *bool   `yaml:"dra"`
	DevicePlugin bool    `yaml:"devicePlugin"`
	CPU          *string `yaml:"cpu"`
}

// Decode reads a configuration. Paths in it are relative to folder. The error is a
// Mistakes with all of them.
func Decode(data []byte, folder string) (Config, error) {
	var f file
	var wrong Mistakes
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		var types *yaml.TypeError
		if !errors.As(err, &types) {
			return Config{}, Mistakes{strings.TrimPrefix(err.Error(), "yaml: ")}
		}
		// Whatever could be read has been: the other mistakes are told as well.
		for _, t := range types.Errors {
			wrong = append(wrong, plain(t))
		}
	} else if err == nil && decoder.Decode(new(yaml.Node)) != io.EOF {
		wrong = append(wrong, "more than one document in the file")
	}
	c := f.config(folder)
	wrong = append(wrong, c.mistakes()...)
	if len(wrong) > 0 {
		return Config{}, wrong
	}
	return c, nil
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

// plain takes the names of Go's types out of a message.
func plain(message string) string {
	message = unknownField.ReplaceAllString(message, "unknown field $1")
	return strings.NewReplacer("!!str ", "", "!!int ", "", "!!map ", "", "!!seq ", "", " into int", ": not a whole number", " into bool", ": not true or false").Replace(message)
}

func (f *file) config(folder string) Config {
	c := Default()
	if f.Nodes != nil {
		c.Nodes = nil
	}
	for _, n := range f.Nodes {
		c.Nodes = append(c.Nodes, Node{
			Name: n.Name, GPUs: n.GPUs, DevicePlugin: n.DevicePlugin,
			DRA: or(n.DRA, n.GPUs > 0 && !n.DevicePlugin),
			CPU: or(n.CPU, defaultCPU),
		})
	}
	if f.Dynamo.API != nil {
		c.Dynamo.API = f.Dynamo.API
	}
	c.Dynamo.Runtime = or(f.Dynamo.Runtime, c.Dynamo.Runtime)
	c.KAI, c.Gateway = f.KAI, f.Gateway
	c.DefaultStorageClass = or(f.DefaultStorageClass, c.DefaultStorageClass)
	c.AICR, c.Venv = absolute(folder, f.AICR), f.Venv
	if c.Venv != NoVenv {
		c.Venv = absolute(folder, c.Venv)
	}
	c.Audit = f.Audit
	c.Probes = or(f.Probes, c.Probes)
	return c
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func absolute(folder, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// The addresses of the nodes allow for this many.
const maxNodes = 200

var (
	nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	cpus     = regexp.MustCompile(`^[1-9][0-9]*m?$`)
)

func (c *Config) mistakes() Mistakes {
	var wrong Mistakes
	say := func(format string, values ...any) { wrong = append(wrong, fmt.Sprintf(format, values...)) }

	if len(c.Nodes) == 0 {
		say("nodes: none, and a cluster has one at least")
	}
	if len(c.Nodes) > maxNodes {
		say("nodes: %d, and %d is the most", len(c.Nodes), maxNodes)
	}
	first := map[string]int{}
	for i, n := range c.Nodes {
		at := "nodes[" + strconv.Itoa(i) + "]"
		if !nodeName.MatchString(n.Name) {
			say("%s.name: %q is not a name of a node: letters a-z, digits and -, at most 63", at, n.Name)
		} else if before, twice := first[n.Name]; twice {
			say("%s.name: %q is nodes[%d] already", at, n.Name, before)
		} else {
			first[n.Name] = i
		}
		if n.GPUs < 0 || n.GPUs > 64 {
			say("%s.gpus: %d, and a node has 0 to 64", at, n.GPUs)
		}
		if n.GPUs > 0 && !n.DRA && !n.DevicePlugin {
			say("%s: has GPUs, and neither dra nor devicePlugin to give them out", at)
		}
		if !cpus.MatchString(n.CPU) {
			say("%s.cpu: %q is not a number of CPUs, such as 16 or 500m", at, n.CPU)
		}
	}
	served := map[string]bool{}
	for i, v := range c.Dynamo.API {
		at := "dynamo.api[" + strconv.Itoa(i) + "]"
		if v != "v1beta1" && v != "v1alpha1" {
			say("%s: %q is neither v1beta1 nor v1alpha1", at, v)
		}
		if served[v] {
			say("%s: %q is there twice", at, v)
		}
		served[v] = true
	}
	switch c.Dynamo.Runtime {
	case RuntimeSim, RuntimeReal:
	default:
		say("dynamo.runtime: %q is neither %s nor %s", c.Dynamo.Runtime, RuntimeSim, RuntimeReal)
	}
	switch c.Probes {
	case ProbesReal, ProbesQuick:
	default:
		say("probes: %q is neither %s nor %s", c.Probes, ProbesReal, ProbesQuick)
	}
	return wrong
}
