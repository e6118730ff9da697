package observe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func TestKubeletSummary(t *testing.T) {
	first := string(recorded(t, "kubelet_summary.json"))
	// Ten seconds by the kubelet's readings, whatever the time of asking.
	later := strings.NewReplacer("11:40:07Z", "11:40:17Z", "4787349623000", "4789849623000").Replace(first)
	clock := newTicking()
	got := nodes(t, &summaryPage{clock: clock.now}, clock, first, first, later)
	noLoad := map[string]string{"load1": "the kubelet tells no load"}
	want := []spec.Sample{
		{
			NotMeasured: noLoad, Derived: all("the kernel's own mean over 10 s", "cpu_pressure", "memory_pressure", "io_pressure"),
			Node: &spec.NodeSample{CPUPressure: f(0.066), MemoryPressure: f(0), IOPressure: f(0.0003)},
		},
		{
			NotMeasured: map[string]string{"load1": "the kubelet tells no load", "cpu_pressure": notNewer, "memory_pressure": notNewer, "io_pressure": notNewer},
			Node:        &spec.NodeSample{},
		},
		{NotMeasured: noLoad, Node: &spec.NodeSample{CPUPressure: f(0.25), MemoryPressure: f(0), IOPressure: f(0)}},
	}
	for i := range want {
		want[i].Source, want[i].Name = "node", "gpu-node-1"
	}
	if diff := cmp.Diff(want, got, nearly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKubeletsThatTellLess(t *testing.T) {
	const noLoad = "the kubelet tells no load"
	for _, tc := range []struct {
		rule, summary string
		want          spec.Sample
	}{
		{"before Kubernetes 1.34 there is no PSI", `{"node":{"nodeName":"n","cpu":{"time":"2026-11-15T11:40:07Z","usageNanoCores":1},"memory":{"usageBytes":1}}}`, spec.Sample{
			NotMeasured: map[string]string{"load1": noLoad, "cpu_pressure": noPSI, "memory_pressure": noPSI, "io_pressure": noPSI},
			Node:        &spec.NodeSample{},
		}},
		{"a mean that is no percentage is not taken", `{"node":{"nodeName":"n","cpu":{"psi":{"some":{"total":5,"avg10":101}}},"memory":{"psi":{"some":{"total":5}}},"io":{"psi":{}}}}`, spec.Sample{
			NotMeasured: map[string]string{"load1": noLoad, "cpu_pressure": firstPage, "memory_pressure": firstPage, "io_pressure": noPSI},
			Node:        &spec.NodeSample{},
		}},
		{"a total of centuries is none", `{"node":{"nodeName":"n","cpu":{"psi":{"some":{"total":18446744073709551615,"avg10":1}}}}}`, spec.Sample{
			NotMeasured: map[string]string{
				"load1": noLoad, "cpu_pressure": "the kubelet's total is longer than any machine ran", "memory_pressure": noPSI, "io_pressure": noPSI,
			},
			Node: &spec.NodeSample{},
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := (&summaryPage{clock: newTicking().now}).read(t.Context(), []byte(tc.summary))
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Source, tc.want.Name = "node", "n"
			if diff := cmp.Diff([]spec.Sample{tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNoSummaryIsAnError(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{}`, `null`, `{"node":null}`, `{"node":{}}`, `{"node":[]}`, `<html>`,
		`{"kind":"Status","status":"Failure","message":"forbidden","code":403}`,
		`{"node":{"nodeName":7}}`,
		`{"node":{"nodeName":"n","cpu":{"psi":{"some":{"total":"5"}}}}}`,
		`{"node":{"nodeName":"n","cpu":{"psi":{"some":{"total":-5}}}}}`,
		`{"node":{"nodeName":"n","cpu":{"psi":{"some":{"total":1e300}}}}}`,
		`{"node":{"nodeName":"n","cpu":{"time":"yesterday"}}}`,
		`{"node":{"nodeName":"n"}`,
		strings.Repeat("[", 1<<20),
	} {
		got, err := (&summaryPage{clock: newTicking().now}).read(t.Context(), []byte(text))
		if err == nil {
			t.Errorf("%.60q gives %v", text, got)
		} else if len(err.Error()) > 300 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q gives a reason that is no line: %v", text, err)
		}
	}
}
