package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// factKind is what a fact's value is, where that is known before it is read.
type factKind int

const (
	plainFact factKind = iota // text, or whatever was found
	numberFact
	boolFact
	versionFact
)

// factKeys are the keys of a subtype that a constraint may name, or any when open.
type factKeys struct {
	open bool
	keys map[string]factKind
}

type factSpace struct{ data, items factKeys }

func openFacts() factKeys { return factKeys{open: true} }

// theFacts reads "version gpu-count:number ready:bool".
func theFacts(words string) factKeys {
	all := map[string]factKind{}
	for word := range strings.FieldsSeq(words) {
		switch name, kind, _ := strings.Cut(word, ":"); {
		case kind == "number":
			all[name] = numberFact
		case kind == "bool":
			all[name] = boolFact
		case strings.HasSuffix(name, "version"), name == "chart", name == "operator":
			all[name] = versionFact
		default:
			all[name] = plainFact
		}
	}
	return factKeys{keys: all}
}

// factSpaces says what can be found: upstream's measurements and this product's own.
// A subtype of SystemD is a unit, and any is known.
func factSpaces(kind string) map[string]factSpace {
	installed := factSpace{data: theFacts("installed:bool version chart namespace ready:bool")}
	switch kind {
	case TypeK8s:
		operatorAPI := factSpace{data: theFacts("collection-state api-available:bool api-version")}
		return map[string]factSpace{
			"server":            {data: theFacts("version platform goVersion")},
			"node":              {data: theFacts("source-node provider provider-id container-runtime-id container-runtime-name container-runtime-version kubelet-version kernel-version operating-system os-image")},
			"image":             {data: openFacts()},
			"policy":            {data: openFacts()},
			"aks-gpu-pools":     {data: theFacts("gpu-pool-count:number gpu-pools gpu-driver")},
			"gke-gpu-pools":     {data: theFacts("gpu-pool-count:number gpu-pools gpu-driver-installation")},
			"oke-addons":        {data: theFacts("addon-count:number nvidia-gpu-plugin")},
			"oke-legacy-plugin": {data: theFacts("nvidia-gpu-device-plugin daemonset")},
			"slinky-slurm": {
				data:  theFacts("api-available:bool api-version collection-state controller-count:number detected:bool nodeset-count:number loginset-count:number restapi-count:number accounting-count:number"),
				items: theFacts("cluster-name external:bool accounting-ref-present:bool partition-enabled:bool id kind namespace name api-version controller-id"),
			},
			"mariadb-operator":       operatorAPI,
			"percona-server-mongodb": operatorAPI,
			"default-storage-class":  {data: theFacts("collection-state default-count:number default-classes")},

			"gpu-operator":    installed,
			"kai-scheduler":   installed,
			"grove":           installed,
			"dcgm-exporter":   installed,
			"dynamo-platform": {data: theFacts("installed:bool chart operator version namespace ready:bool")},
			"dynamo-crds":     {data: openFacts()},
			"dynamo-runtime":  {data: theFacts("version count:number"), items: openFacts()},
			"storage-classes": {data: theFacts("count:number default names"), items: openFacts()},
			"dra":             {data: theFacts("api-version slices:number devices:number drivers"), items: openFacts()},
			"device-classes":  {data: theFacts("count:number names"), items: openFacts()},
		}
	case TypeGPU:
		return map[string]factSpace{
			"hardware": {data: theFacts("gpu-present:bool gpu-count:number driver-loaded:bool detection-source model driver-version gpu-memory-mib:number cuda-version"), items: openFacts()},
			"smi":      {data: openFacts(), items: openFacts()}, // of older snapshots
		}
	case TypeOS:
		any := factSpace{data: openFacts()}
		return map[string]factSpace{"release": any, "sysctl": any, "grub": any, "kmod": any, "extensions": any}
	case TypeNodeTopology:
		return map[string]factSpace{
			"summary": {data: theFacts("node-count:number taint-count:number label-count:number gpu-node-count:number")},
			"label":   {data: openFacts(), items: theFacts("key value node-count:number node-list node-list-ref truncated:bool")},
			"taint":   {data: openFacts(), items: theFacts("key value effect node-count:number node-list node-list-ref truncated:bool")},
			"nodes":   {items: theFacts("name instance-type zone region architecture os-image kernel-version kubelet-version container-runtime gpu-product gpu-count:number gpu-allocatable:number ready:bool schedulable:bool taints")},
		}
	case TypeNetworkTopology:
		return map[string]factSpace{
			"identity":       {data: theFacts("pf-count:number rail-count:number")},
			"capabilities":   {data: theFacts("sriov:bool rdma:bool ib:bool")},
			"pfs":            {items: theFacts("pciAddress deviceID psid partNumber rdmaDevice networkInterface model connectedGPU gpuProximity rail:number numaNode:number traffic")},
			"kernel-modules": {data: openFacts()},
		}
	}
	return nil
}

// factAt says what kind of fact a path names, or what is wrong with the path: what no
// collector could ever find is a slip, and must not wait for a snapshot to be missed.
func factAt(path string) (kind factKind, mistake, hint string) {
	p, err := ParsePath(path)
	if err != nil {
		first, rest, _ := strings.Cut(path, ".")
		switch near, ok := Nearest(first, MeasurementTypes()); {
		case slices.Contains(MeasurementTypes(), first):
			hint = "write it as Type.Subtype.Key, as K8s.server.version"
		case first == "Deployment":
			hint = "it is a constraint of the deployment phase: " + listed(deploymentNames())
		case ok && rest != "":
			hint = fmt.Sprintf("did you mean %s.%s?", near, rest)
		default:
			hint = "write it as Type.Subtype.Key, as K8s.server.version; the types are " + listed(MeasurementTypes())
		}
		return plainFact, err.Error(), hint
	}
	if p.Type == TypeSystemD {
		return plainFact, "", ""
	}
	spaces := factSpaces(p.Type)
	space, ok := spaces[p.Subtype]
	if !ok {
		names := slices.Sorted(maps.Keys(spaces))
		return plainFact, fmt.Sprintf("%s has no %s", p.Type, quote(p.Subtype)), meant(p.Subtype, names, "it has")
	}
	group := p.Type + "." + p.Subtype
	in := space.data
	if p.Item != nil {
		in = space.items
		if !in.open && len(in.keys) == 0 {
			return plainFact, group + " has no items", fmt.Sprintf("write %s.%s", group, p.Key)
		}
		if _, known := in.keys[p.Item.Key]; p.Item.Key != "" && !in.open && !known {
			return plainFact, fmt.Sprintf("an item of %s has no %s", group, quote(p.Item.Key)), meant(p.Item.Key, slices.Sorted(maps.Keys(in.keys)), "it has")
		}
	} else if !in.open && len(in.keys) == 0 {
		return plainFact, group + " is a list", fmt.Sprintf("choose one of its items, as %s[0].%s", group, p.Key)
	}
	if in.open {
		return openFactKind(p), "", ""
	}
	kind, known := in.keys[p.Key]
	if !known {
		return plainFact, fmt.Sprintf("%s has no %s", group, quote(p.Key)), meant(p.Key, slices.Sorted(maps.Keys(in.keys)), "it has")
	}
	return kind, "", ""
}

// openFactKind is the kind of a fact of which any key is possible: the few that can
// only be versions are told by their names. A label is none of them: its value names
// the nodes too.
func openFactKind(p FactPath) factKind {
	isVersion := false
	switch p.Type + "." + p.Subtype {
	case "OS.release":
		isVersion = p.Key == "VERSION_ID"
	case "OS.sysctl":
		isVersion = strings.HasSuffix(p.Key, "osrelease")
	case "K8s.policy":
		isVersion = p.Key == "version" || strings.HasSuffix(p.Key, ".version")
	case "K8s.dynamo-runtime":
		isVersion = p.Key == "version"
	case "K8s.dra", "GPU.hardware", "GPU.smi":
		isVersion = p.Key == "driver-version" || p.Key == "cuda-version"
	}
	if isVersion {
		return versionFact
	}
	return plainFact
}
