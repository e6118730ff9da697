package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"aicr/internal/spec"
)

const gpuDriver = "gpu.nvidia.com"

// draVersions are the versions of resource.k8s.io that can be read, the best first.
var draVersions = []string{"v1", "v1beta2", "v1beta1"}

// slice is what matters of a ResourceSlice, in any of the versions.
type slice struct {
	driver, pool, node string
	generation, of     int64 // of the pool; slices that this generation has
	devices            int   // GPUs, or whatever another driver has
	products           []string
	driverVersions     []string
	memories           []string
	unreadable         string
}

// sliceFields are the fields of it, for whoever counts devices.
type sliceFields struct {
	Spec struct {
		Driver   string `json:"driver"`
		NodeName string `json:"nodeName"`
		Pool     struct {
			Name               string `json:"name"`
			Generation         int64  `json:"generation"`
			ResourceSliceCount int64  `json:"resourceSliceCount"`
		} `json:"pool"`
		Devices []sliceDevice `json:"devices"`
	} `json:"spec"`
}

// sliceDevice is a device of a slice. v1beta1 has a level more in each.
type sliceDevice struct {
	Name string `json:"name"`
	deviceFields
	Basic *deviceFields `json:"basic"`
}

func (d *sliceDevice) fields() *deviceFields {
	if d.Basic != nil {
		return d.Basic
	}
	return &d.deviceFields
}

// deviceFields are what is said of a device.
type deviceFields struct {
	Attributes attributes `json:"attributes"`
	Taints     []Taint    `json:"taints"`
	Capacity   map[string]struct {
		Value json.RawMessage `json:"value"`
	} `json:"capacity"`
}

func (d *deviceFields) text(name string) string { return d.Attributes.text(name) }

// memoryMiB is 0 where it is not said.
func (d *deviceFields) memoryMiB() (int64, error) {
	memory, ok := d.Capacity["memory"]
	if !ok {
		memory = d.Capacity[gpuDriver+"/memory"]
	}
	if memory.Value == nil {
		return 0, nil
	}
	amount, err := quantityOf(memory.Value)
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return amount.Value() >> 20, nil
}

// attributes are those of a device.
type attributes map[string]struct {
	String  *string `json:"string"`
	Version *string `json:"version"`
}

// text is an attribute, whose name may be written with the driver's before it.
func (all attributes) text(name string) string {
	a, ok := all[name]
	if !ok {
		a = all[gpuDriver+"/"+name]
	}
	switch {
	case a.String != nil:
		return *a.String
	case a.Version != nil:
		return *a.Version
	}
	return ""
}

func sliceOf(fields *sliceFields) slice {
	s := slice{driver: fields.Spec.Driver, pool: fields.Spec.Pool.Name, node: fields.Spec.NodeName, generation: fields.Spec.Pool.Generation, of: fields.Spec.Pool.ResourceSliceCount}
	for _, d := range fields.Spec.Devices {
		device := d.fields()
		if s.driver != gpuDriver {
			s.devices++
			continue
		}
		switch device.text("type") {
		case "gpu":
			s.devices++
			s.products = append(s.products, device.text("productName"))
			s.driverVersions = append(s.driverVersions, device.text("driverVersion"))
			mib, err := device.memoryMiB()
			switch {
			case err != nil:
				s.unreadable = "device " + d.Name + ": " + err.Error()
			case mib > 0:
				s.memories = append(s.memories, strconv.FormatInt(mib, 10))
			}
		case "": // it could be a GPU: none is counted then
			s.unreadable = "device " + d.Name + " has no type"
		}
	}
	return s
}

func (c *Cluster) readSlices(ctx context.Context, each time.Duration, r *readings) (reading[string], reading[[]slice]) {
	served := r.served(groupDRA, resourceSlices, draVersions...)
	if !served.ok() {
		return failed[string](*served.why), failed[[]slice](*served.why)
	}
	best := served.got[0]
	return reading[string]{got: best.Version}, listed(ctx, c, each, pathOf(best), one(sliceOf))
}

// pool is the devices that a driver offers together, mostly those of one node.
type pool struct {
	driver, name, node string
	devices            int
	product            string
	driverVersion      string
	memoryMiB          string
	unreadable         *spec.Unknown // why the devices are not known
}

// poolsOf takes the newest whole generation of each pool: while a driver writes a new one,
// both are there, and to count them together would count devices twice.
func poolsOf(all []slice) []pool {
	type id struct{ driver, name string }
	generations := map[id]map[int64][]slice{}
	for _, s := range all {
		of := id{s.driver, s.pool}
		if generations[of] == nil {
			generations[of] = map[int64][]slice{}
		}
		generations[of][s.generation] = append(generations[of][s.generation], s)
	}
	var pools []pool
	for _, of := range slices.SortedFunc(maps.Keys(generations), func(a, b id) int {
		return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.name, b.name))
	}) {
		p := pool{driver: of.driver, name: of.name}
		newest := slices.Sorted(maps.Keys(generations[of]))
		slices.Reverse(newest)
		var whole []slice
		for _, g := range newest {
			if some := generations[of][g]; whole == nil && int64(len(some)) == some[0].of {
				whole = some
			}
		}
		if whole == nil {
			some := generations[of][newest[0]]
			why := unreadable("pool %s: %d of %d slices of generation %d are there", of.name, len(some), some[0].of, newest[0])
			p.unreadable, p.node = &why, some[0].node
		}
		var products, versions, memories []string
		for _, s := range whole {
			p.node = cmp.Or(p.node, s.node)
			p.devices += s.devices
			products, versions, memories = append(products, s.products...), append(versions, s.driverVersions...), append(memories, s.memories...)
			if s.unreadable != "" {
				why := unreadable("pool %s: %s", of.name, s.unreadable)
				p.unreadable = &why
			}
		}
		p.product, p.driverVersion, p.memoryMiB = only(products), only(versions), only(memories)
		pools = append(pools, p)
	}
	return pools
}

// only is the value that all have, all of them where they differ.
func only(values []string) string {
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	return strings.Join(values, ",")
}

func (r *readings) draFacts() spec.Subtype {
	f := newFacts("dra")
	if !r.draVersion.ok() {
		f.unknown(*r.draVersion.why, "api-version", "slices", "devices", "drivers")
		return f.done()
	}
	f.set("api-version", r.draVersion.got)
	if !r.slices.ok() {
		f.unknown(*r.slices.why, "slices", "devices", "drivers")
		return f.done()
	}
	f.set("slices", len(r.slices.got))
	total, drivers, unread := 0, []string{}, (*spec.Unknown)(nil)
	for _, p := range poolsOf(r.slices.got) {
		drivers = append(drivers, p.driver)
		data := map[string]any{}
		if p.unreadable != nil {
			if p.driver == gpuDriver && unread == nil {
				unread = p.unreadable
			}
		} else {
			data["devices"] = p.devices
			if p.driver == gpuDriver {
				total += p.devices
			}
		}
		if p.driverVersion != "" {
			data["driver-version"] = p.driverVersion
		}
		f.item(map[string]string{"node": p.node, "driver": p.driver, "pool": p.name, "product": p.product}, data)
	}
	if unread != nil {
		f.unknown(*unread, "devices")
	} else {
		f.set("devices", total)
	}
	if len(drivers) == 0 {
		f.unknown(absent("there is no slice"), "drivers")
	} else {
		f.set("drivers", only(drivers))
	}
	return f.done()
}

type deviceClass struct{ name, extended string }

func (c *Cluster) readClasses(ctx context.Context, each time.Duration, r *readings) reading[[]deviceClass] {
	served := r.served(groupDRA, deviceClasses, draVersions...)
	if !served.ok() {
		return failed[[]deviceClass](*served.why)
	}
	type class struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			ExtendedResourceName string `json:"extendedResourceName"`
		} `json:"spec"`
	}
	return listed(ctx, c, each, pathOf(served.got[0]), one(func(one *class) deviceClass { return deviceClass{one.Name, one.Spec.ExtendedResourceName} }))
}

func (r *readings) classFacts() spec.Subtype {
	f := newFacts("device-classes")
	if !r.classes.ok() {
		f.unknown(*r.classes.why, "count", "names")
		return f.done()
	}
	f.set("count", len(r.classes.got))
	var names []string
	for _, one := range r.classes.got {
		names = append(names, one.name)
		f.item(map[string]string{"name": one.name}, map[string]any{"extended-resource": one.extended})
	}
	if len(names) == 0 {
		f.unknown(absent("there is no device class"), "names")
	} else {
		f.set("names", only(names))
	}
	return f.done()
}
