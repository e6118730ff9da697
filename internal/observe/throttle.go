package observe

import (
	"fmt"
	"math/bits"
	"slices"
)

// clockReasons names NVML's bits of why a GPU's clocks are not higher, from the
// lowest on, as the DCGM exporter names them.
var clockReasons = []string{
	"gpu_idle", "clocks_setting", "power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake", "display_clocks",
}

// reasonsOf names the bits that are set. One that has no name yet is a reason all
// the same.
func reasonsOf(mask uint64) *[]string {
	reasons := []string{}
	for ; mask != 0; mask &= mask - 1 {
		if bit := bits.TrailingZeros64(mask); bit < len(clockReasons) {
			reasons = append(reasons, clockReasons[bit])
		} else {
			reasons = append(reasons, fmt.Sprintf("bit 0x%x", uint64(1)<<bit))
		}
	}
	slices.Sort(reasons)
	return &reasons
}
