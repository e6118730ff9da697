package exporter

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"aicr/internal/sim"
)

const (
	gpuModel = "NVIDIA H100 80GB HBM3" // whose power and clocks the fleet's GPUs have
	mebibyte = 1 << 20

	// clockWindow is how far back clock events are counted, in milliseconds: a
	// GPUState tells of one second.
	clockWindow = "1000"
)

// clockEvents are the bits of DCGM's clock event reasons.
var clockEvents = map[string]uint64{
	"gpu_idle":       0x1,
	"clocks_setting": 0x2,
	"power_cap":      0x4,
	"hw_slowdown":    0x8,
	"sync_boost":     0x10,
	"sw_thermal":     0x20,
	"hw_thermal":     0x40,
	"hw_power_brake": 0x80,
	"display_clocks": 0x100,
}

var (
	gpuUtil           = ofGPU("FI_DEV_GPU_UTIL", "Share of the time in which a kernel ran, in percent.")
	gpuGraphics       = ofGPU("FI_PROF_GR_ENGINE_ACTIVE", "Share of the time in which a kernel ran, 0 to 1.")
	gpuPower          = ofGPU("FI_DEV_POWER_USAGE", "Power, in W.")
	gpuEnergy         = ofGPU("FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy since the start, in mJ.")
	gpuSMClock        = ofGPU("FI_DEV_SM_CLOCK", "SM clock, in MHz.")
	gpuMemClock       = ofGPU("FI_DEV_MEM_CLOCK", "Memory clock, in MHz.")
	gpuTemperature    = ofGPU("FI_DEV_GPU_TEMP", "Temperature, in C.")
	gpuMemoryUsed     = ofGPU("FI_DEV_FB_USED", "Memory in use, in MiB.")
	gpuMemoryFree     = ofGPU("FI_DEV_FB_FREE", "Memory free, in MiB.")
	gpuMemoryReserved = ofGPU("FI_DEV_FB_RESERVED", "Memory kept by the driver, in MiB.")
	gpuXID            = ofGPU("FI_DEV_XID_ERRORS", "The last XID; 0 when there was none.")
	gpuDoubleBitVol   = ofGPU("FI_DEV_ECC_DBE_VOL_TOTAL", "Double-bit errors since the driver's start.")
	gpuDoubleBitAgg   = ofGPU("FI_DEV_ECC_DBE_AGG_TOTAL", "Double-bit errors in the GPU's life.")
	gpuRemapFailure   = ofGPU("FI_DEV_ROW_REMAP_FAILURE", "Whether a row could not be remapped.")
	gpuRowsHard       = ofGPU("FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped for errors that could not be corrected.")
	gpuRowsSoft       = ofGPU("FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Rows remapped for errors that were corrected.")
	gpuReplays        = ofGPU("FI_DEV_PCIE_REPLAY_COUNTER", "PCIe retries.")
	gpuClockReasons   = ofGPU("FI_DEV_CLOCKS_EVENT_REASONS", "Why the clocks are not higher, as bits.")
	gpuClockEvents    = ofGPU("EXP_CLOCK_EVENTS_COUNT", "Clock events in the window.", "clock_event", "window_size_in_ms")
)

func ofGPU(name, help string, labels ...string) *prometheus.Desc {
	return desc("DCGM_"+name, help, append([]string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"}, labels...)...)
}

func writeGPUs(p page, gpus []sim.GPUState, node string) {
	for i, g := range gpus {
		if !g.Missing {
			writeGPU(p, g, i, node)
		}
	}
}

func writeGPU(p page, g sim.GPUState, i int, node string) {
	labels := []string{strconv.Itoa(i), g.UUID, fmt.Sprintf("%08X:%02X:00.0", i>>8, i&0xff), "nvidia" + strconv.Itoa(i), gpuModel, node}

	p.gauge(gpuUtil, 100*g.Utilization, labels...)
	p.gauge(gpuGraphics, g.Utilization, labels...)
	p.gauge(gpuPower, g.PowerW, labels...)
	p.counter(gpuEnergy, 1000*g.EnergyJ, labels...)
	p.gauge(gpuSMClock, g.SMClockMHz, labels...)
	p.gauge(gpuMemClock, g.MemClockMHz, labels...)
	p.gauge(gpuTemperature, g.TemperatureC, labels...)
	p.gauge(gpuMemoryUsed, g.MemoryUsed/mebibyte, labels...)
	p.gauge(gpuMemoryFree, (g.MemoryTotal-g.MemoryUsed)/mebibyte, labels...)
	p.gauge(gpuMemoryReserved, 0, labels...)
	p.gauge(gpuXID, float64(g.XID), labels...)
	p.counter(gpuDoubleBitVol, float64(g.DoubleBit), labels...)
	p.counter(gpuDoubleBitAgg, float64(g.DoubleBit), labels...)
	failed := 0.0
	if g.RemapFailure {
		failed = 1
	}
	p.gauge(gpuRemapFailure, failed, labels...)
	p.counter(gpuRowsHard, 0, labels...) // no row is remapped in the model,
	p.counter(gpuRowsSoft, 0, labels...)
	p.counter(gpuReplays, 0, labels...) // and no transfer repeated

	var reasons uint64
	for _, event := range g.Throttle {
		bit, known := clockEvents[event]
		if !known {
			p.metrics <- prometheus.NewInvalidMetric(gpuClockReasons, fmt.Errorf("clock event %q is none of DCGM's", event))
			continue
		}
		if reasons&bit != 0 { // two faults may give the same reason
			continue
		}
		reasons |= bit
		p.gauge(gpuClockEvents, 1, slices.Concat(labels, []string{event, clockWindow})...)
	}
	p.gauge(gpuClockReasons, float64(reasons), labels...)
}
