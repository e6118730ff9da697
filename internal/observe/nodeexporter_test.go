package observe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// nodes reads pages that are a second apart.
func nodes(t *testing.T, reader pageReader, clock *ticking, pages ...string) []spec.Sample {
	t.Helper()
	var all []spec.Sample
	for _, page := range pages {
		got, err := reader.read(t.Context(), []byte(page))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got...)
		clock.at = clock.at.Add(time.Second)
	}
	return all
}

// The pages are of a real node exporter 1.12.1, three seconds apart, with four busy
// loops on two cores.
func TestNodeExporterPage(t *testing.T) {
	clock := newTicking()
	reader := &nodePage{clock: clock.now}
	var got []spec.Sample
	for _, page := range []string{"node_exporter_1.txt", "node_exporter_2.txt"} {
		samples, err := reader.read(t.Context(), recorded(t, page))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, samples...)
		clock.at = clock.at.Add(3 * time.Second)
	}
	want := []spec.Sample{
		{
			Source: "node", Name: "vm", NotMeasured: all(firstPage, "cpu_pressure", "memory_pressure", "io_pressure"),
			Node: &spec.NodeSample{Load1: f(1.64)},
		},
		{Source: "node", Name: "vm", Node: &spec.NodeSample{
			CPUPressure: f((5437.710068 - 5434.724568) / 3), MemoryPressure: f(0), IOPressure: f((78.706585 - 78.697797) / 3), Load1: f(1.64),
		}},
	}
	if diff := cmp.Diff(want, got, nearly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodesThatTellLess(t *testing.T) {
	const noLoad = "the node exporter has no node_load1"
	cadvisor := string(recorded(t, "cadvisor.txt"))
	later := strings.NewReplacer("4787.349623", "4787.849623", "11.2", "12.2").Replace(cadvisor)
	for _, tc := range []struct {
		rule  string
		pages []string
		want  spec.Sample // of the last page
	}{
		{"an exporter on a kernel without PSI", []string{"node_load1 3\n", "node_load1 4\n"}, spec.Sample{
			NotMeasured: map[string]string{
				"cpu_pressure":    "the node exporter has no node_pressure_cpu_waiting_seconds_total",
				"memory_pressure": "the node exporter has no node_pressure_memory_waiting_seconds_total",
				"io_pressure":     "the node exporter has no node_pressure_io_waiting_seconds_total",
			},
			Node: &spec.NodeSample{Load1: f(4)},
		}},
		{"cAdvisor's root container is the node", []string{cadvisor, later}, spec.Sample{
			NotMeasured: map[string]string{"load1": noLoad},
			Node:        &spec.NodeSample{CPUPressure: f(0.5), MemoryPressure: f(0), IOPressure: f(0)},
		}},
		{"cAdvisor that has not read anew says nothing", []string{cadvisor, later, later}, spec.Sample{
			NotMeasured: map[string]string{"load1": noLoad, "cpu_pressure": notNewer, "memory_pressure": notNewer, "io_pressure": notNewer},
			Node:        &spec.NodeSample{},
		}},
		{"cAdvisor's next reading counts from its last, not from the page before", []string{cadvisor, cadvisor, later}, spec.Sample{
			NotMeasured: map[string]string{"load1": noLoad},
			Node:        &spec.NodeSample{CPUPressure: f(0.25), MemoryPressure: f(0), IOPressure: f(0)},
		}},
		{"a counter that is no time is absent", []string{"node_load1 NaN\nnode_pressure_cpu_waiting_seconds_total -1\n"}, spec.Sample{
			NotMeasured: map[string]string{
				"cpu_pressure":    "the node exporter has no node_pressure_cpu_waiting_seconds_total",
				"memory_pressure": "the node exporter has no node_pressure_memory_waiting_seconds_total",
				"io_pressure":     "the node exporter has no node_pressure_io_waiting_seconds_total",
				"load1":           noLoad,
			},
			Node: &spec.NodeSample{},
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			clock := newTicking()
			got := nodes(t, &nodePage{clock: clock.now}, clock, tc.pages...)
			tc.want.Source = "node"
			if diff := cmp.Diff(tc.want, got[len(got)-1]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := (&nodePage{clock: time.Now}).read(t.Context(), []byte("up 1\n")); !errors.Is(err, errNotANode) {
		t.Errorf("a page of something else gives %v", err)
	}
}
