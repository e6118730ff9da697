package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gpuExporter is the DCGM exporter of a node: for each of its GPUs what the fleet says
// of the worker that has it, with its pod, or an idle GPU.
func gpuExporter(ctx context.Context, c *Call) int {
	return c.export(ctx, "9400", func(ctx context.Context, node string) ([]byte, error) {
		n, err := c.node(ctx)
		if err != nil {
			return nil, err
		}
		type source struct{ page, number, holder string }
		from := map[string]source{} // by UUID
		for _, fleet := range n.Fleets {
			// A fleet that does not answer has not begun: its GPUs are idle.
			page, err := fetch(ctx, "http://"+net.JoinHostPort(fleet, fleetGPUPort)+"/metrics")
			if err != nil {
				continue
			}
			list, err := fetch(ctx, "http://"+net.JoinHostPort(fleet, registryPort)+"/")
			if err != nil {
				continue
			}
			var members []member
			if err := json.Unmarshal(list, &members); err != nil {
				return nil, err
			}
			for number, m := range members {
				from[m.GPU] = source{string(page), strconv.Itoa(number), fmt.Sprintf(`,container="main",namespace="%s",pod="%s"`, m.Namespace, m.Pod)}
			}
		}
		page := &metricsPage{}
		for i, uuid := range n.GPUs {
			of, held := from[uuid]
			if !held {
				of = source{idleGPU, "0", ""}
			}
			page.add(of.page, of.number, i, uuid, node, of.holder)
		}
		return page.text(), nil
	})
}

// idleGPU is the page of a GPU with nothing to do.
const idleGPU = `# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0"} 0
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0"} 70
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0"} 0
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0"} 345
# TYPE DCGM_FI_DEV_MEM_CLOCK gauge
DCGM_FI_DEV_MEM_CLOCK{gpu="0"} 2619
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0"} 34
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0"} 0
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{gpu="0"} 81920
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="0"} 0
`

// metricsPage collects series of several GPUs, those of a name together.
type metricsPage struct {
	order []string
	head  map[string][]string
	lines map[string][]string
}

var gpuLine = regexp.MustCompile(`^(\w+)\{(.*)\} (\S+)$`)
var labelPair = regexp.MustCompile(`(\w+)="([^"]*)"`)

// add takes the series of one GPU of a page and calls them those of another, with the
// labels of whoever holds it.
func (m *metricsPage) add(page, number string, gpu int, uuid, node, holder string) {
	if m.head == nil {
		m.head, m.lines = map[string][]string{}, map[string][]string{}
	}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			if words := strings.Fields(line); len(words) > 2 && !slices.Contains(m.head[words[2]], line) {
				m.head[words[2]] = append(m.head[words[2]], line)
			}
			continue
		}
		found := gpuLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		name, rest, value := found[1], holder, found[3]
		of := ""
		for _, pair := range labelPair.FindAllStringSubmatch(found[2], -1) {
			switch pair[1] {
			case "gpu":
				of = pair[2]
			case "UUID", "pci_bus_id", "device", "modelName", "Hostname", "container", "namespace", "pod": // ours
			default:
				rest += "," + pair[0]
			}
		}
		if of != number {
			continue
		}
		if m.lines[name] == nil {
			m.order = append(m.order, name)
		}
		m.lines[name] = append(m.lines[name], fmt.Sprintf(`%s{gpu="%d",UUID="%s",pci_bus_id="00000000:%02X:00.0",device="nvidia%d",modelName="NVIDIA H100 80GB HBM3",Hostname="%s"%s} %s`,
			name, gpu, uuid, gpu+16, gpu, node, rest, value))
	}
}

func (m *metricsPage) text() []byte {
	var b bytes.Buffer
	for _, name := range m.order {
		for _, line := range slices.Concat(m.head[name], m.lines[name]) {
			fmt.Fprintln(&b, line)
		}
	}
	return b.Bytes()
}

// nodeExporter is that of a node: what the fleet on it says, or a node without pressure.
func nodeExporter(ctx context.Context, c *Call) int {
	return c.export(ctx, "9100", func(ctx context.Context, node string) ([]byte, error) {
		n, err := c.node(ctx)
		if err != nil {
			return nil, err
		}
		for _, fleet := range n.Fleets {
			if page, err := fetch(ctx, "http://"+net.JoinHostPort(fleet, fleetNodePort)+"/metrics"); err == nil {
				return nodeNamed.ReplaceAll(page, []byte(`nodename="`+node+`"`)), nil
			}
		}
		var b bytes.Buffer
		for _, name := range []string{"cpu_waiting", "io_stalled", "io_waiting", "memory_stalled", "memory_waiting"} {
			fmt.Fprintf(&b, "# TYPE node_pressure_%s_seconds_total counter\nnode_pressure_%[1]s_seconds_total 0\n", name)
		}
		fmt.Fprintf(&b, "# TYPE node_uname_info gauge\nnode_uname_info{domainname=\"(none)\",machine=\"x86_64\",nodename=\"%s\",release=\"simulated\",sysname=\"Linux\",version=\"simulated\"} 1\n", node)
		return b.Bytes(), nil
	})
}

var nodeNamed = regexp.MustCompile(`nodename="[^"]*"`)

// export serves a page of metrics.
func (c *Call) export(ctx context.Context, port string, page func(ctx context.Context, node string) ([]byte, error)) int {
	p, err := c.pod(ctx)
	if err != nil {
		return c.fail("%v", err)
	}
	m := http.NewServeMux()
	m.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	m.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		body, err := page(r.Context(), p.Node)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(body) // who asked is gone otherwise
	})
	h := &house{}
	defer h.close()
	if err := h.serve(ctx, c.at(port), m); err != nil {
		return c.fail("%v", err)
	}
	<-ctx.Done()
	return 0
}
