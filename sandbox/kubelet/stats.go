package kubelet

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// GetStatsSummary tells how busy the node is. All nodes are this machine, so they all
// say the same. What the machine does not tell is left out.
func (n *node) GetStatsSummary(context.Context) (*stats.Summary, error) {
	now := metav1.Now()
	s := &stats.Summary{Pods: []stats.PodStats{}}
	s.Node = stats.NodeStats{
		NodeName: n.Name, StartTime: now,
		CPU:    &stats.CPUStats{Time: now, PSI: pressure("cpu")},
		Memory: &stats.MemoryStats{Time: now, PSI: pressure("memory")},
		IO:     &stats.IOStats{Time: now, PSI: pressure("io")},
	}
	if used, ok := cpuNanoseconds(); ok {
		s.Node.CPU.UsageCoreNanoSeconds = &used
	}
	if memory, ok := memoryBytes(); ok {
		used := memory["MemTotal"] - memory["MemAvailable"]
		available := memory["MemAvailable"]
		s.Node.Memory.UsageBytes, s.Node.Memory.WorkingSetBytes, s.Node.Memory.AvailableBytes = &used, &used, &available
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.runs {
		s.Pods = append(s.Pods, stats.PodStats{PodRef: stats.PodReference{Name: r.name, Namespace: r.namespace, UID: string(r.uid)}, StartTime: r.begun})
	}
	return s, nil
}

// pressure is what the kernel says of a resource; nil where it does not.
func pressure(resource string) *stats.PSIStats {
	text, err := os.ReadFile("/proc/pressure/" + resource)
	if err != nil {
		return nil
	}
	psi, err := parsePressure(string(text))
	if err != nil {
		return nil
	}
	return psi
}

// parsePressure reads a file of /proc/pressure.
func parsePressure(text string) (*stats.PSIStats, error) {
	psi, some := new(stats.PSIStats), false
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var to *stats.PSIData
		switch kind {
		case "some":
			to, some = &psi.Some, true
		case "full":
			to = &psi.Full
		default:
			return nil, fmt.Errorf("%q is neither some nor full", kind)
		}
		var microseconds uint64
		if _, err := fmt.Sscanf(rest, "avg10=%g avg60=%g avg300=%g total=%d", &to.Avg10, &to.Avg60, &to.Avg300, &microseconds); err != nil {
			return nil, err
		}
		to.Total = microseconds * 1000
	}
	if !some {
		return nil, fmt.Errorf("no line begins with some")
	}
	return psi, nil
}

// cpuNanoseconds is how long all CPUs have worked, in the hundredths that Linux counts.
func cpuNanoseconds() (uint64, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, false
	}
	var ticks uint64
	for _, i := range []int{1, 2, 3, 6, 7, 8} { // without idle and waiting
		t, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return 0, false
		}
		ticks += t
	}
	return ticks * 10_000_000, true
}

func memoryBytes() (map[string]uint64, bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	all := map[string]uint64{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var name string
		var kib uint64
		if _, err := fmt.Sscanf(s.Text(), "%s %d", &name, &kib); err == nil {
			all[strings.TrimSuffix(name, ":")] = kib << 10
		}
	}
	return all, all["MemTotal"] > 0 && all["MemAvailable"] > 0
}
