package load_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
)

// files is a machine's file tree.
func files(content map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range content {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

// The CPU quota's statistics are found in either version's cgroup, the nearest
// that tells them.
func TestThrottlingIsRead(t *testing.T) {
	const v2 = "usage_usec 9\nuser_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 1500\nnr_bursts 0\n"
	const v1 = "nr_periods 20\nnr_throttled 4\nthrottled_time 7000\n"
	fromV2 := &load.Throttling{Periods: 10, Throttled: 3, Time: 1500 * time.Microsecond}
	fromV1 := &load.Throttling{Periods: 20, Throttled: 4, Time: 7 * time.Microsecond}
	tests := map[string]struct {
		tree map[string]string
		want *load.Throttling
	}{
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/kubepods/pod1\n", "sys/fs/cgroup/kubepods/pod1/cpu.stat": v2,
			"sys/fs/cgroup/cpu.stat": "usage_usec 1\n"}, fromV2},
		"version 2, own namespace": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": v2}, fromV2},
		"version 1": {map[string]string{
			"proc/self/cgroup": "9:name=systemd:/\n4:cpu,cpuacct:/docker/a\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.stat": v1, "sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 1\n"}, fromV1},
		"version 1, own namespace": {map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/docker/a\n", "sys/fs/cgroup/cpu,cpuacct/cpu.stat": v1}, fromV1},
		"version 1, linked": {map[string]string{
			"proc/self/cgroup": "4:cpuacct,cpu:/a\n", "sys/fs/cgroup/cpu/a/cpu.stat": v1}, fromV1},
		"both": {map[string]string{
			"proc/self/cgroup": "0::/a\n1:cpu:/a\n", "sys/fs/cgroup/cpu/a/cpu.stat": v1,
			"sys/fs/cgroup/unified/a/cpu.stat": v2}, fromV1},
		"the accounting alone": {map[string]string{
			"proc/self/cgroup": "2:cpuacct:/\n", "sys/fs/cgroup/cpuacct/cpu.stat": v1}, nil},
		"root, no quota": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 9\n"}, nil},
		"not numbers": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "nr_periods many\n\n \n"}, nil},
		"broken line":   {map[string]string{"proc/self/cgroup": "0\n:\n"}, nil},
		"no such thing": {map[string]string{}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, load.ReadThrottling(files(tt.tree))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if load.ReadThrottling(nil) != nil || load.ReadPressure(nil) != nil {
		t.Error("a machine that must not be looked at was")
	}
}

// CPU pressure is that of the cgroup, or else of the whole machine.
func TestPressureIsRead(t *testing.T) {
	const text = "some avg10=52.44 avg60=50.74 avg300=49.53 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
	second := time.Second
	tests := map[string]struct {
		tree map[string]string
		want *time.Duration
	}{
		"of the cgroup": {map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/cpu.pressure": fmt.Sprintf(text, 1_000_000), "proc/pressure/cpu": fmt.Sprintf(text, 7)}, &second},
		"of the machine": {map[string]string{"proc/self/cgroup": "1:cpu:/\n", "proc/pressure/cpu": fmt.Sprintf(text, 1_000_000)}, &second},
		"an old kernel":  {map[string]string{"proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000"}, &second},
		"full alone":     {map[string]string{"proc/pressure/cpu": "full avg10=0.00 total=5\n"}, nil},
		"not told":       {map[string]string{"proc/self/cgroup": "0::/\n"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, load.ReadPressure(files(tt.tree))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The client is blamed for what it did, and for nothing else.
func TestTheClientIsBlamedForItsOwn(t *testing.T) {
	const ttft = 200 * ms // stamps may be late by 20 ms
	closed := load.Schedule{Users: 100, Count: 1000}
	open, capped := load.Schedule{Rate: 50, Count: 1000}, load.Schedule{Rate: 50, Users: 10, Count: 1000}
	healthy := load.Audit{Asked: 100, InFlight: 99.9, Little: 99.9, Steady: 10 * time.Second,
		StampLag: load.Spread{N: 1000, P99: 2 * ms}, Lateness: load.Spread{N: 1000, P99: ms}}
	with := func(change func(*load.Audit)) load.Audit {
		a := healthy
		change(&a)
		return a
	}
	served := load.Record{Sent: 1, FirstByte: 2, FirstContent: 3, End: 4, Phase: load.Steady}
	late := load.Record{Intended: 1, Sent: int64(30 * ms), FirstByte: int64(40 * ms), End: int64(50 * ms), Phase: load.Steady}
	slow := late
	slow.Connect = int64(20 * ms) // opening a connection is not the client's lateness
	tests := map[string]struct {
		audit   load.Audit
		main    load.Schedule
		records []load.Record
		want    []string
	}{
		"healthy":               {audit: healthy, main: closed},
		"under-driven":          {with(func(a *load.Audit) { a.InFlight = 94.9 }), closed, nil, []string{"client/under-driven"}},
		"just enough":           {audit: with(func(a *load.Audit) { a.InFlight = 95 }), main: closed},
		"no steady part":        {audit: with(func(a *load.Audit) { a.InFlight, a.Steady = math.NaN(), 0 }), main: closed},
		"too short to tell":     {audit: with(func(a *load.Audit) { a.InFlight, a.Steady = 40, 199*ms }), main: closed},
		"refused connections":   {audit: with(func(a *load.Audit) { a.InFlight = 40 }), main: closed, records: []load.Record{{Class: load.Connect}}},
		"out of descriptors":    {healthy, closed, []load.Record{{Class: load.Connect, Flags: load.Exhausted}}, []string{"client/under-driven"}},
		"late stamps":           {with(func(a *load.Audit) { a.StampLag.P99 = 21 * ms }), closed, nil, []string{"client/late"}},
		"stamps within limit":   {audit: with(func(a *load.Audit) { a.StampLag.P99 = 20 * ms }), main: closed},
		"late and under-driven": {with(func(a *load.Audit) { a.StampLag.P99, a.InFlight = time.Second, 10 }), closed, nil, []string{"client/late", "client/under-driven"}},
		"closed, sends late":    {audit: with(func(a *load.Audit) { a.Lateness.P99 = time.Second }), main: closed},
		"open, sends late":      {with(func(a *load.Audit) { a.Asked, a.Lateness.P99 = 0, 21*ms }), open, []load.Record{late, late}, []string{"client/under-driven"}},
		"open, one send late":   {audit: with(func(a *load.Audit) { a.Asked, a.Lateness.P99 = 0, 21*ms }), main: open, records: []load.Record{late}},
		"open, connects slowly": {audit: with(func(a *load.Audit) { a.Asked, a.Lateness.P99 = 0, 21*ms }), main: open, records: []load.Record{slow, slow}},
		"open, within limit":    {audit: with(func(a *load.Audit) { a.Asked, a.Lateness.P99 = 0, 20*ms }), main: open},
		"open, few in flight":   {audit: with(func(a *load.Audit) { a.Asked, a.InFlight = 0, 1 }), main: open},
		"capped, sends late":    {audit: with(func(a *load.Audit) { a.Asked, a.Lateness.P99 = 0, time.Minute }), main: capped},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := &load.Result{Log: load.NewLog(append([]load.Record{served}, tt.records...), nil, nil)}
			var got []string
			for _, r := range load.Judge(tt.audit, &load.Plan{Main: tt.main}, res, ttft) {
				got = append(got, r.ID)
				if r.Text == "" || r.Hint == "" {
					t.Errorf("%+v", r)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("blamed for %v, want %v", got, tt.want)
			}
		})
	}
	// Where nothing was answered there is no stamp to be late.
	silent := with(func(a *load.Audit) { a.StampLag.P99 = time.Second })
	if got := load.Judge(silent, &load.Plan{Main: closed}, &load.Result{Log: load.NewLog(nil, nil, nil)}, 0); got != nil {
		t.Errorf("%v", got)
	}
}

func TestLagLimit(t *testing.T) {
	for ttft, want := range map[time.Duration]time.Duration{
		0: 10 * ms, 100 * ms: 10 * ms, 200 * ms: 20 * ms, 500 * ms: 50 * ms, time.Minute: 50 * ms,
	} {
		if got := load.LagLimit(ttft); got != want {
			t.Errorf("beside %v: %v, want %v", ttft, got, want)
		}
	}
}
