package observe

import "slices"

// value is something that an exporter tells, with the names that it has had, the
// current one first. The first name that a page has is taken.
type value struct {
	field string // of the sample, as in its JSON
	names []string
	// also are names of what is counted beside, and added to it.
	also []string
	// labels picks the series where an exporter has others of the same name.
	labels map[string]string
	// take makes one value of the series; nil: their sum.
	take func([]series) *float64
}

// workerStarted is when a worker's process began. Every process may tell it.
var workerStarted = value{field: "started_s", names: []string{"process_start_time_seconds"}}

// The names of the frontend's values, as Dynamo has them.
var (
	frontendInFlight = value{field: "in_flight", names: []string{"dynamo_frontend_active_requests", "dynamo_frontend_inflight_requests"}}
	frontendQueued   = value{field: "queued", names: []string{"dynamo_frontend_queued_requests"}}
	frontendRequests = value{field: "outcomes", names: []string{"dynamo_frontend_requests_total"}}
	frontendTokens   = value{field: "tokens", names: []string{"dynamo_frontend_output_tokens_total", "dynamo_frontend_output_sequence_tokens_sum"}}
	frontendStalls   = value{field: "stalls", names: []string{"dynamo_frontend_event_loop_stall_total"}}
	frontendBusy     = value{field: "busy", names: []string{"dynamo_tokio_worker_busy_ratio"}}
)

// The names of a GPU's values, as the DCGM exporter has them. The bits of why the
// clocks are low had another name before DCGM 3.3. Where DCGM has both counts of
// double-bit errors, the one since the driver's start is taken: only it tells what
// is new.
var (
	gpuUtilization  = value{field: "utilization", names: []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"}}
	gpuPower        = value{field: "power_w", names: []string{"DCGM_FI_DEV_POWER_USAGE"}}
	gpuSMClock      = value{field: "sm_clock_mhz", names: []string{"DCGM_FI_DEV_SM_CLOCK"}}
	gpuTemperature  = value{field: "temperature_c", names: []string{"DCGM_FI_DEV_GPU_TEMP"}}
	gpuXID          = value{field: "xid", names: []string{"DCGM_FI_DEV_XID_ERRORS"}}
	gpuDoubleBit    = value{field: "ecc_double_bit", names: []string{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"}}
	gpuRemapFailure = value{field: "row_remap_failure", names: []string{"DCGM_FI_DEV_ROW_REMAP_FAILURE"}}
	gpuMemoryUsed   = value{field: "memory_used_mib", names: []string{"DCGM_FI_DEV_FB_USED"}}

	gpuClockEvents = value{field: "throttle", names: []string{"DCGM_EXP_CLOCK_EVENTS_COUNT"}}
	gpuClockBits   = value{field: "throttle", names: []string{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"}}
	gpuPowerTime   = value{field: "throttle", names: []string{"DCGM_FI_DEV_POWER_VIOLATION"}}
	gpuThermalTime = value{field: "throttle", names: []string{"DCGM_FI_DEV_THERMAL_VIOLATION"}}
)

// The same values, as nvidia-smi has them. It asks by one name and answers by
// another: clocks.sm is headed clocks.current.sm.
var (
	smiIndex        = value{names: []string{"index"}}
	smiUUID         = value{names: []string{"uuid", "gpu_uuid"}}
	smiModel        = value{names: []string{"name", "gpu_name"}}
	smiUtilization  = value{field: "utilization", names: []string{"utilization.gpu"}}
	smiPower        = value{field: "power_w", names: []string{"power.draw"}}
	smiSMClock      = value{field: "sm_clock_mhz", names: []string{"clocks.current.sm", "clocks.sm"}}
	smiTemperature  = value{field: "temperature_c", names: []string{"temperature.gpu"}}
	smiDoubleBit    = value{field: "ecc_double_bit", names: []string{"ecc.errors.uncorrected.volatile.total"}}
	smiRemapFailure = value{field: "row_remap_failure", names: []string{"remapped_rows.failure"}}
	smiMemoryUsed   = value{field: "memory_used_mib", names: []string{"memory.used"}}
	smiClockBits    = value{field: "throttle", names: []string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"}}
)

// The names of a node's values, as the node exporter has them, and cAdvisor, whose
// root container is the node.
var (
	nodeCPU    = value{field: "cpu_pressure", names: []string{"node_pressure_cpu_waiting_seconds_total"}}
	nodeMemory = value{field: "memory_pressure", names: []string{"node_pressure_memory_waiting_seconds_total"}}
	nodeIO     = value{field: "io_pressure", names: []string{"node_pressure_io_waiting_seconds_total"}}
	nodeLoad1  = value{field: "load1", names: []string{"node_load1"}}
	nodeUname  = value{names: []string{"node_uname_info"}}

	rootCPU    = value{field: "cpu_pressure", names: []string{"container_pressure_cpu_waiting_seconds_total"}, labels: root}
	rootMemory = value{field: "memory_pressure", names: []string{"container_pressure_memory_waiting_seconds_total"}, labels: root}
	rootIO     = value{field: "io_pressure", names: []string{"container_pressure_io_waiting_seconds_total"}, labels: root}
)

var root = map[string]string{"id": "/"}

// names is a set of metric names.
type names map[string]bool

func namesOf(values ...value) names {
	set := names{}
	for _, v := range values {
		for _, n := range slices.Concat(v.names, v.also) {
			set[n] = true
		}
	}
	return set
}

func (n names) has(name []byte) bool { return n[string(name)] }

// of is the value that these series of it come to; nothing when there are none.
func (v value) of(found []series) *float64 {
	if v.take == nil {
		return sum(found)
	}
	return v.take(found)
}

// in finds the series of a value on a page.
func (v value) in(p page) []series {
	var found []series
	for _, name := range v.names {
		if found = p.matching(name, v.labels); len(found) > 0 {
			break
		}
	}
	for _, name := range v.also {
		found = append(found, p.matching(name, v.labels)...)
	}
	return found
}

// missing says why there is no value: it was looked for and not found, or is none.
func (v value) missing(exporter string, p page) string {
	if len(v.in(p)) > 0 {
		return exporter + " tells no number"
	}
	return v.absent(exporter)
}

// absent says what was looked for and not found.
func (v value) absent(exporter string) string {
	return exporter + " has no " + wordy(slices.Clone(v.names), "or")
}
