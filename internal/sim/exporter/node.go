package exporter

import "aicr/internal/sim"

var (
	nodeCPUWaiting    = desc("node_pressure_cpu_waiting_seconds_total", "Time in which a task waited for a CPU.")
	nodeIOWaiting     = desc("node_pressure_io_waiting_seconds_total", "Time in which a task waited for I/O.")
	nodeIOStalled     = desc("node_pressure_io_stalled_seconds_total", "Time in which every task waited for I/O.")
	nodeMemoryWaiting = desc("node_pressure_memory_waiting_seconds_total", "Time in which a task waited for memory.")
	nodeMemoryStalled = desc("node_pressure_memory_stalled_seconds_total", "Time in which every task waited for memory.")
	nodeName          = desc("node_uname_info", "The system's names.", "domainname", "machine", "nodename", "release", "sysname", "version")
)

func writeNode(p page, n sim.NodeState, name string) {
	p.counter(nodeCPUWaiting, n.CPUWait)
	p.counter(nodeIOWaiting, n.IOWait)
	p.counter(nodeMemoryWaiting, n.MemoryWait)
	p.counter(nodeIOStalled, 0) // nothing in the model stops every task at once
	p.counter(nodeMemoryStalled, 0)
	p.gauge(nodeName, 1, "(none)", "x86_64", name, "simulated", "Linux", "simulated")
}
