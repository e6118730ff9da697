package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"aicr/internal/spec"
)

// Kubelet is a kubelet's /stats/summary.
func Kubelet(c *Client, url, token string) Source {
	return c.at(spec.SourceNode, url, token, Labels{}, &summaryPage{clock: time.Now})
}

// summaryPage reads a kubelet's summary.
type summaryPage struct {
	clock    func() time.Time
	pressure pressure
}

// summary is what is wanted of one: the node's own part. The pods' is most of it.
type summary struct {
	Node *struct {
		Name   string    `json:"nodeName"`
		CPU    *resource `json:"cpu"`
		Memory *resource `json:"memory"`
		IO     *resource `json:"io"`
	} `json:"node"`
}

// resource is what a node's summary says of one resource.
type resource struct {
	Time time.Time `json:"time"` // of the reading, to the second
	PSI  *struct {
		Some *struct {
			Total *uint64  `json:"total"` // nanoseconds
			Avg10 *float64 `json:"avg10"` // percent
		} `json:"some"`
	} `json:"psi"`
}

const (
	errNoNode   = reason("not a kubelet's summary: it tells of no node")
	noPSI       = "the kubelet tells no PSI (needs Kubernetes 1.34, cgroup v2)"
	kernelsMean = "the kernel's own mean over 10 s"
)

func (k *summaryPage) read(_ context.Context, text []byte) ([]spec.Sample, error) {
	var told summary
	if err := json.Unmarshal(text, &told); err != nil {
		return nil, fmt.Errorf("not a kubelet's summary: %s", oneLine(err.Error()))
	}
	if told.Node == nil || told.Node.Name == "" {
		return nil, errNoNode
	}
	n := &spec.NodeSample{}
	s := spec.Sample{Source: spec.SourceNode, Name: cleaned([]byte(told.Node.Name)), Node: n}
	now := k.clock()
	for field, r := range map[string]*resource{nodeCPU.field: told.Node.CPU, nodeMemory.field: told.Node.Memory, nodeIO.field: told.Node.IO} {
		into := nodePressures(n)[field]
		if r == nil || r.PSI == nil || r.PSI.Some == nil || r.PSI.Some.Total == nil {
			k.pressure.forget(field)
			notMeasured(&s, field, noPSI)
			continue
		}
		at := r.Time
		if at.IsZero() {
			at = now
		}
		total, ok := seconds(float64(*r.PSI.Some.Total) / 1e9)
		if !ok {
			k.pressure.forget(field)
			notMeasured(&s, field, "the kubelet's total is longer than any machine ran")
			continue
		}
		why := ""
		*into, why = k.pressure.since(field, total, at)
		if mean := r.PSI.Some.Avg10; why == firstPage && mean != nil && *mean >= 0 && *mean <= 100 {
			*into = scaled(mean, 1e-2)
			derived(&s, field, kernelsMean)
		}
		if *into == nil {
			notMeasured(&s, field, why)
		}
	}
	notMeasured(&s, nodeLoad1.field, "the kubelet tells no load")
	return []spec.Sample{s}, nil
}
