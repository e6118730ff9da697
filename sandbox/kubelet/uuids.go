package kubelet

import "aicr/sandbox/config"

// UUIDs are those of a node's GPUs, by number.
func UUIDs(n config.Node) []string {
	var all []string
	for i := range n.GPUs {
		all = append(all, newGPU(n.Name, i).uuid)
	}
	return all
}
