package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnEmptyFileIsTheDefault(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}\n"} {
		got, err := Decode([]byte(text), "/etc")
		if err != nil {
			t.Fatalf("Decode(%q): %v", text, err)
		}
		if diff := cmp.Diff(Default(), got); diff != "" {
			t.Errorf("Decode(%q) (-want +got):\n%s", text, diff)
		}
	}
}

func TestAFileSaysOnlyWhatDiffers(t *testing.T) {
	got, err := Decode([]byte(`
nodes:
  - {name: a, gpus: 8}
  - {name: b, gpus: 4, devicePlugin: true, cpu: 4}
  - {name: c, gpus: 2, devicePlugin: true, dra: true}
  - {name: d}
dynamo: {api: [v1alpha1], runtime: real}
kai: true
gateway: true
defaultStorageClass: false
aicr: ../bin/aicr
venv: /opt/venv
audit: true
probes: quick
`), "/etc/box")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Nodes: []Node{
			{Name: "a", GPUs: 8, DRA: true, CPU: "16"},
			{Name: "b", GPUs: 4, DevicePlugin: true, CPU: "4"},
			{Name: "c", GPUs: 2, DRA: true, DevicePlugin: true, CPU: "16"},
			{Name: "d", CPU: "16"},
		},
		Dynamo: Dynamo{API: []string{"v1alpha1"}, Runtime: "real"},
		KAI:    true, Gateway: true,
		AICR: "/etc/bin/aicr", Venv: "/opt/venv", Audit: true, Probes: ProbesQuick,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnEnvironmentThatIsNotWantedIsNoPath(t *testing.T) {
	for text, want := range map[string]string{"venv: none": NoVenv, "venv: some": "/etc/box/some", "kai: true": ""} {
		if got, err := Decode([]byte(text), "/etc/box"); err != nil || got.Venv != want {
			t.Errorf("%s: %q, %v; want %q", text, got.Venv, err, want)
		}
	}
}

func TestNoDynamoAPIMeansThatDynamoIsNotInstalled(t *testing.T) {
	got, err := Decode([]byte("dynamo: {api: []}"), "")
	if err != nil || len(got.Dynamo.API) != 0 {
		t.Errorf("api %v, err %v; want none of both", got.Dynamo.API, err)
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	_, err := Decode([]byte(`
nodes:
  - {name: a, gpus: many}
  - {name: a, gpu: 2}
  - {name: Big_One, gpus: 65, cpu: lots}
  - {name: e, gpus: 1, dra: false}
dynamo: {api: [v1, v1beta1, v1beta1], runtime: fast}
kai: perhaps
colour: blue
probes: soon
`), "")
	if err == nil {
		t.Fatal("no mistake found")
	}
	for _, want := range []string{
		"line 3: cannot unmarshal `many`: not a whole number",
		"line 4: unknown field gpu",
		"cannot unmarshal `perhaps`: not true or false",
		"line 9: unknown field colour",
		`nodes[1].name: "a" is nodes[0] already`,
		`nodes[2].name: "Big_One"`,
		"nodes[2].gpus: 65",
		`nodes[2].cpu: "lots"`,
		"nodes[3]: has GPUs, and neither",
		`dynamo.api[0]: "v1" is neither`,
		`dynamo.api[2]: "v1beta1" is there twice`,
		`dynamo.runtime: "fast" is neither sim nor real`,
		`probes: "soon" is neither real nor quick`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestWhatIsNotOneDocumentIsAMistake(t *testing.T) {
	for name, text := range map[string]string{
		"two documents": "kai: true\n---\nkai: false\n",
		"no YAML":       "nodes: [",
		"a list":        "- name: a",
		"no nodes":      "nodes: []",
		"a key twice":   "kai: true\nkai: true",
	} {
		if c, err := Decode([]byte(text), ""); err == nil {
			t.Errorf("%s: taken as %+v", name, c)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("nodes: [{name: a, gpus: 2}]\nkai: true"))
	f.Add([]byte("dynamo: {api: [v1beta1]}\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Decode(data, "/x")
		if err == nil && len(c.mistakes()) > 0 {
			t.Errorf("taken, with mistakes: %v", c.mistakes())
		}
		if err != nil && err.Error() == "" {
			t.Error("refused without a word")
		}
	})
}
