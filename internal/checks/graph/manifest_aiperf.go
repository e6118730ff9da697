package graph

import (
	"aicr/internal/kube"
)

// What AIPerf's log has its result between, as published.
const (
	AIPerfSentinel  = "===AIPERF-RESULT==="
	AIPerfContainer = "aiperf"

	aiperfFolder = "/tmp/aiperf"
)

// wrapAIPerf runs AIPerf once there is an answer, and prints its result between two lines,
// so that it can be had from the log. It ends as AIPerf did: without a result where it
// failed.
const wrapAIPerf = startAIPerf + `
code = subprocess.call([sys.executable, "-m", "aiperf", *sys.argv[1:]])
if code != 0:
    sys.exit(code if code > 0 else 128 - code)
result = pathlib.Path("` + aiperfFolder + `/profile_export_aiperf.json").read_text()
print("` + AIPerfSentinel + `", result, "` + AIPerfSentinel + `", sep="\n", flush=True)
`

// aiperfManifest is the Job that runs AIPerf in place of this program's own load. It is in
// the namespace of the graph, where the token is that its tokenizer may need, and has no
// rights at all.
func aiperfManifest(s *Settings) kube.Object {
	pod := offBusy(s, fields{
		"automountServiceAccountToken": false,
		"containers": []any{fields{
			"name": AIPerfContainer, "image": s.Images.AIPerf,
			"command":         row("python3", "-c", wrapAIPerf),
			"args":            row(aiperfArguments(s)...),
			"env":             joined([]any{env("HOME", "/tmp"), env("HF_HOME", "/tmp/huggingface")}, startEnv(s), tokenEnv(s)),
			"resources":       loadResources(s).fields(),
			"securityContext": readOnlyContainer(),
			"volumeMounts":    []any{fields{"name": "tmp", "mountPath": "/tmp"}},
		}},
		"volumes": []any{fields{"name": "tmp", "emptyDir": fields{}}},
	})
	n := s.Names()
	return manifest("batch/v1", "Job", LoadNamespace(s), n.Load, s, PartLoad, loadJob(s, pod))
}

// LoadNamespace is where the load's Job is.
func LoadNamespace(s *Settings) string {
	if s.Engine == EngineAIPerf {
		return s.Names().Namespace
	}
	return s.Namespace
}

// aiperfArguments are the published ones: everything that could vary is pinned.
func aiperfArguments(s *Settings) []string {
	l := s.AIPerf
	if l == nil {
		l = &AIPerfLoad{}
	}
	all := []string{"profile", "--model", s.Model, "--url", ServiceURL(s), "--endpoint-type", "chat", "--streaming",
		"--concurrency", digits(l.Concurrency), "--request-count", digits(l.Requests), "--warmup-request-count", digits(l.Warmup),
		"--prompt-input-tokens-mean", digits(l.InputTokens), "--prompt-input-tokens-stddev", "0",
		"--prompt-output-tokens-mean", digits(l.OutputTokens), "--prompt-output-tokens-stddev", "0",
		"--num-dataset-entries", "100", "--random-seed", "100", "--extra-inputs", "temperature:0",
		"--output-artifact-dir", aiperfFolder, "--export-level", "summary"}
	if s.Gateway {
		name, value := RouteHeader(s)
		all = append(all, "--header", name+":"+value)
	}
	return all
}

// ServiceURL is where the graph answers, for who is inside the cluster.
func ServiceURL(s *Settings) string {
	if s.Gateway {
		return "http://" + GatewayName + "." + GatewayNamespace + ".svc:80"
	}
	n := s.Names()
	return "http://" + n.Graph + "-frontend." + n.Namespace + ".svc:8000"
}
