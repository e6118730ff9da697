package exporter

import (
	"math"

	"aicr/internal/sim"
)

var (
	nodeCPUWaiting    = desc("node_pressure_cpu_waiting_seconds_total", "Time in which a task waited for a CPU.")
	nodeIOWaiting     = desc("node_pressure_io_waiting_seconds_total", "Time in which a task waited for I/O.")
	nodeIOStalled     = desc("node_pressure_io_stalled_seconds_total", "Time in which every task waited for I/O.")
	nodeMemoryWaiting = desc("node_pressure_memory_waiting_seconds_total", "Time in which a task waited for memory.")
	nodeMemoryStalled = desc("node_pressure_memory_stalled_seconds_total", "Time in which every task waited for memory.")
	nodeLoad1         = desc("node_load1", "Load over 1 minute.")
	nodeLoad5         = desc("node_load5", "Load over 5 minutes.")
	nodeLoad15        = desc("node_load15", "Load over 15 minutes.")
	nodeCPU           = desc("node_cpu_seconds_total", "What a CPU did.", "cpu", "mode")
	nodeName          = desc("node_uname_info", "The system's names.", "domainname", "machine", "nodename", "release", "sysname", "version")
)

func writeNode(p page, s sim.Snapshot, name string) {
	n := s.Node
	p.counter(nodeCPUWaiting, n.CPUWait)
	p.counter(nodeIOWaiting, n.IOWait)
	p.counter(nodeMemoryWaiting, n.MemoryWait)
	p.counter(nodeIOStalled, 0) // nothing in the model stops every task at once
	p.counter(nodeMemoryStalled, 0)

	// The model has no scheduler. As a stand-in, a worker with something to do
	// keeps a core busy, and the one core that is shown is busy while a task waits.
	load := 0.0
	for _, w := range s.Workers {
		if w.Present && w.Held > 0 {
			load++
		}
	}
	p.gauge(nodeLoad1, load)
	p.gauge(nodeLoad5, load)
	p.gauge(nodeLoad15, load)
	p.counter(nodeCPU, n.CPUWait, "0", "user")
	p.counter(nodeCPU, math.Max(0, s.At.Seconds()-n.CPUWait), "0", "idle")

	p.gauge(nodeName, 1, "(none)", "x86_64", name, "simulated", "Linux", "simulated")
}
