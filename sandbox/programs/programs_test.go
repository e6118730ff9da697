package programs

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestAFlagIsFoundInACommandLineOrInAShells(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"two words":     {[]string{"python3", "-m", "dynamo.vllm", "--model", "Qwen/Qwen3-8B"}, "Qwen/Qwen3-8B"},
		"one word":      {[]string{"python3", "-m", "dynamo.vllm", "--model=Qwen/Qwen3-8B"}, "Qwen/Qwen3-8B"},
		"for a shell":   {[]string{"bash", "-c", "exec python3 -m dynamo.vllm \\\n  --model 'Qwen/Qwen3-8B' --block-size 128"}, "Qwen/Qwen3-8B"},
		"not there":     {[]string{"python3", "-m", "dynamo.vllm"}, ""},
		"nothing after": {[]string{"--model"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := flagOf(c.args, "--model"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestAScenarioIsFittedToTheGraph(t *testing.T) {
	text, err := fitScenario([]byte("kind: Scenario\nfleet: {workers: 8, profile: small}\nfaults: [{kind: worker-slow, workers: [0]}]\nexpect: {verdict: [PASS]}\n"), 2, "kv", false)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Fleet struct {
			Workers         int
			Profile, Router string
		}
		Faults []struct{ Kind string }
		Expect any
	}
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Fleet.Workers != 2 || got.Fleet.Router != "kv" || got.Fleet.Profile != "small" || len(got.Faults) != 1 || got.Expect != nil {
		t.Errorf("it became\n%s", text)
	}
	text, err = fitScenario(text, 2, "", true)
	if err != nil || !strings.Contains(string(text), "discovery-panic") || strings.Contains(string(text), "worker-slow") {
		t.Errorf("with a panic it became\n%s, %v", text, err)
	}
	if _, err := fitScenario(nil, 2, "", false); err == nil {
		t.Error("an empty scenario was taken")
	}
}

func TestAnExporterNamesTheGPUsOfItsNode(t *testing.T) {
	fleet := `# HELP DCGM_FI_DEV_POWER_USAGE Power, in W.
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{Hostname="node-0",UUID="GPU-x",device="nvidia0",gpu="0",modelName="m",pci_bus_id="b"} 300
DCGM_FI_DEV_POWER_USAGE{Hostname="node-0",UUID="GPU-y",device="nvidia1",gpu="1",modelName="m",pci_bus_id="b"} 400
# TYPE DCGM_EXP_CLOCK_EVENTS_COUNT gauge
DCGM_EXP_CLOCK_EVENTS_COUNT{gpu="1",clock_event="power_cap",window_size_in_ms="1000"} 1
`
	page := &metricsPage{}
	page.add(fleet, "1", 0, "GPU-a", "gpu-0", `,pod="w-1"`) // the fleet's second worker has the first GPU here
	page.add(idleGPU, "0", 1, "GPU-b", "gpu-0", "")
	lines := strings.Split(string(page.text()), "\n")
	for _, want := range []string{
		`DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pci_bus_id="00000000:10:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-0",pod="w-1"} 400`,
		`DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",pci_bus_id="00000000:11:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-0"} 70`,
		`DCGM_EXP_CLOCK_EVENTS_COUNT{gpu="0",UUID="GPU-a",pci_bus_id="00000000:10:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-0",pod="w-1",clock_event="power_cap",window_size_in_ms="1000"} 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line\n%s\nin\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if n := strings.Count(string(page.text()), "DCGM_FI_DEV_POWER_USAGE{"); n != 2 {
		t.Errorf("two GPUs have %d powers", n)
	}
}

func TestTheModelToFetchIsThatOfTheEnvironmentOrTheCommandLine(t *testing.T) {
	env := map[string]string{}
	c := &Call{Args: []string{"python3", "-c", `snapshot_download("Qwen/Qwen3-8B")`}, Getenv: func(name string) string { return env[name] }}
	if got := modelToFetch(c); got != "Qwen/Qwen3-8B" {
		t.Errorf("of the command line: %q", got)
	}
	env["AICR_MODEL"] = "a/b"
	if got := modelToFetch(c); got != "a/b" {
		t.Errorf("of the environment: %q", got)
	}
}

func TestFaultsAreWordsWithValues(t *testing.T) {
	p := &Pod{Faults: SplitFaults(" crash-loop, slow-start=42s,,")}
	if v, ok := p.fault("slow-start"); !ok || v != "42s" || len(p.Faults) != 2 {
		t.Errorf("%q: slow-start is %q, %v", p.Faults, v, ok)
	}
	if _, ok := p.fault("slow"); ok {
		t.Error("a part of a word was taken for one")
	}
}

func TestEveryImageHasAProgram(t *testing.T) {
	for image, program := range Images() {
		if !slices.Contains(Names(), program) {
			t.Errorf("%s is %s, which there is not", image, program)
		}
	}
}
