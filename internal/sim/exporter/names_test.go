package exporter

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
)

// leftOut is what real pages have and ours have not, and why. A name that ends
// in * stands for all that begin so.
var leftOut = []struct{ name, why string }{
	{"dynamo_frontend_audio_per_request", "the fleet is asked for text only"},
	{"dynamo_frontend_image*", "the fleet is asked for text only"},
	{"dynamo_frontend_videos_per_request", "the fleet is asked for text only"},
	{"dynamo_frontend_detokenize_*", "the frontend's cost is one figure a request and one a token, without stages"},
	{"dynamo_frontend_stage_*", "the frontend's cost is one figure a request and one a token, without stages"},
	{"dynamo_frontend_template_seconds", "the frontend's cost is one figure a request and one a token, without stages"},
	{"dynamo_frontend_tokenize*", "the frontend's cost is one figure a request and one a token, without stages"},
	{"dynamo_frontend_model_migration_total", "no request is moved to another worker"},
	{"dynamo_frontend_router_queue_*", "of kv routing's own queue, which the model has not"},
	{"dynamo_frontend_worker_active_*", "of kv routing's own bookkeeping, which no snapshot tells"},
	{"dynamo_component_ckf_mutation_total", "of kv routing's own index"},
	{"dynamo_component_kv_cache_event*", "of kv routing's own index"},
	{"dynamo_component_router_*", "of kv routing; zero otherwise"},
	{"dynamo_router_*", "of kv routing; zero otherwise"},
	{"dynamo_request_plane_*_seconds", "nothing travels between frontend and workers"},
	{"dynamo_transport_*", "nothing travels between frontend and workers"},
	{"dynamo_tokio_*", "of Dynamo's own runtime"},

	{"dynamo_component_kv_publisher_*", "workers publish no KV events"},
	{"dynamo_component_request_bytes_total", "nothing travels between frontend and workers"},
	{"dynamo_component_response_bytes_total", "nothing travels between frontend and workers"},
	{"dynamo_engine_request", "of a limit that is off by default"},
	{"dynamo_request_queue", "of a limit that is off by default"},
	{"dynamo_rejection_request_total", "of a limit that is off by default"},
	{"dynamo_work_handler_*", "of Dynamo's own runtime"},
	{"vllm:gpu_cache_usage_perc", "the mocker's alias; vLLM has dropped it"},
	{"vllm:iteration_tokens_total", "steps are told to nobody"},

	{"DCGM_FI_DEV_MEM_COPY_UTIL", "the model has no such quantity"},
	{"DCGM_FI_DEV_ENC_UTIL", "the model has no such quantity"},
	{"DCGM_FI_DEV_DEC_UTIL", "the model has no such quantity"},
	{"DCGM_FI_DEV_MEMORY_TEMP", "the model has no such quantity"},
	{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "the model has no such quantity"},
	{"DCGM_FI_DEV_VGPU_LICENSE_STATUS", "the model has no such quantity"},
	{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "the model has no such quantity"},
	{"DCGM_FI_PROF_DRAM_ACTIVE", "the model has no such quantity"},
	{"DCGM_FI_DEV_ECC_SBE_*", "off by default, and the model has no single-bit errors"},
	{"DCGM_FI_DEV_POWER_VIOLATION", "off by default; the clock events tell of throttling"},
	{"DCGM_FI_DEV_THERMAL_VIOLATION", "off by default; the clock events tell of throttling"},
	{"DCGM_EXP_XID_ERRORS_COUNT", "off by default; the last XID is told"},

	{"node_load*", "the model has no scheduler"},
	{"node_cpu_seconds_total", "the model has no scheduler"},
}

func isLeftOut(pattern, name string) bool {
	if head, tail, wild := strings.Cut(pattern, "*"); wild {
		return strings.HasPrefix(name, head) && strings.HasSuffix(name, tail)
	}
	return pattern == name
}

// shape is what a reader of a page relies on.
type shape struct{ Type, Labels, Bounds string }

// readReal reads a list of what real pages have.
func readReal(t *testing.T, file string) map[string]shape {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shapes := map[string]shape{}
	for in := bufio.NewScanner(f); in.Scan(); {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		fields := strings.Fields(in.Text())
		if len(fields) != 4 {
			t.Fatalf("%s: %q has not four fields", file, in.Text())
		}
		shapes[fields[0]] = shape{fields[1], fields[2], fields[3]}
	}
	if len(shapes) == 0 {
		t.Fatalf("%s is empty", file)
	}
	return shapes
}

// shapes reads the same of pages of ours.
func shapes(t *testing.T, handlers ...http.Handler) map[string]shape {
	t.Helper()
	all := map[string]shape{}
	for _, h := range handlers {
		for name, f := range families(t, h) {
			s := shape{strings.ToLower(f.GetType().String()), "-", "-"}
			if labels := labelNames(f); len(labels) > 0 {
				s.Labels = strings.Join(labels, ",")
			}
			if bounds := bounds(f); len(bounds) > 0 {
				s.Bounds = strings.Join(bounds, ",")
			}
			all[name] = s
		}
	}
	return all
}

func labelNames(f *dto.MetricFamily) []string {
	var names []string
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names = append(names, l.GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func bounds(f *dto.MetricFamily) []string {
	var all []string
	for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
		if text := strconv.FormatFloat(b.GetUpperBound(), 'f', -1, 64); text != "+Inf" {
			all = append(all, text)
		}
	}
	return all
}

func TestPagesHaveTheShapeOfRealOnes(t *testing.T) {
	e := New(&source{said: moment()}, options)
	observe(e)
	used := map[string]bool{}
	for file, ours := range map[string]map[string]shape{
		"real_frontend.txt": shapes(t, e.Frontend()),
		"real_worker.txt":   shapes(t, e.Worker(0), e.Worker(1)),
		"real_gpus.txt":     shapes(t, e.GPUs()),
		"real_node.txt":     shapes(t, e.Node()),
	} {
		t.Run(file, func(t *testing.T) {
			theirs := readReal(t, file)
			for name, want := range theirs {
				got, have := ours[name]
				var why string
				for _, l := range leftOut {
					if isLeftOut(l.name, name) {
						used[l.name], why = true, l.why
					}
				}
				switch {
				case have && why != "":
					t.Errorf("%s is there, and said to be left out: %s", name, why)
				case !have && why == "":
					t.Errorf("%s is not there, and not said to be left out", name)
				case !have:
				default:
					if want.Labels == "*" {
						want.Labels = got.Labels
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s: -real +ours:\n%s", name, diff)
					}
				}
			}
			for name := range ours {
				if _, known := theirs[name]; !known {
					t.Errorf("%s is on no real page", name)
				}
			}
		})
	}
	for _, l := range leftOut {
		if !used[l.name] {
			t.Errorf("%s is left out and on no real page", l.name)
		}
	}
}

func TestWithoutWorkersTheFrontendSaysNoMoreThanTheRealOne(t *testing.T) {
	said := moment()
	for i := range said.Workers {
		said.Workers[i].Present = false
	}
	theirs := readReal(t, "real_frontend_no_workers.txt")
	for name, got := range shapes(t, New(&source{said: said}, options).Frontend()) {
		if diff := cmp.Diff(theirs[name], got); diff != "" {
			t.Errorf("%s: -real +ours:\n%s", name, diff)
		}
	}
}
