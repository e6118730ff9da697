package observe

import (
	"context"
	"maps"
	"time"

	"aicr/internal/spec"
)

// NodeExporter is a node's exporter, or a kubelet's /metrics/cadvisor; a token is
// sent if there is one.
func NodeExporter(c *Client, url, token string) Source {
	return c.at(spec.SourceNode, url, token, Labels{}, &nodePage{clock: time.Now})
}

// nodePage reads the page of a node exporter, or of cAdvisor.
type nodePage struct {
	parser
	clock    func() time.Time
	pressure pressure

	root map[string]time.Duration // what cAdvisor's counters last stood at,
	at   time.Time                // and since when
}

var nodeNames = namesOf(nodeCPU, nodeMemory, nodeIO, nodeLoad1, nodeUname, rootCPU, rootMemory, rootIO)

const errNotANode = reason("no node's metrics on the page: neither node_pressure_ nor container_pressure_ nor node_load1")

func (n *nodePage) read(ctx context.Context, text []byte) ([]spec.Sample, error) {
	p, err := n.parse(ctx, text, nodeNames)
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		return nil, errNotANode
	}
	node := &spec.NodeSample{}
	s := spec.Sample{Source: spec.SourceNode, Node: node}
	for _, u := range nodeUname.in(p) {
		s.Name = u.labels["nodename"]
	}
	at := n.clock()
	totals := counters(p, nodeCPU, nodeMemory, nodeIO)
	if len(totals) == 0 {
		if totals = counters(p, rootCPU, rootMemory, rootIO); len(totals) > 0 {
			at = n.measured(totals, at)
		}
	}
	for field, into := range nodePressures(node) {
		total, told := totals[field]
		if !told {
			n.pressure.forget(field)
			notMeasured(&s, field, absentPressure[field])
			continue
		}
		why := ""
		if *into, why = n.pressure.since(field, total, at); *into == nil {
			notMeasured(&s, field, why)
		}
	}
	if node.Load1 = sum(nodeLoad1.in(p)); node.Load1 == nil {
		notMeasured(&s, nodeLoad1.field, nodeLoad1.absent("the node exporter"))
	}
	return []spec.Sample{s}, nil
}

// measured is when cAdvisor's counters were read. cAdvisor reads them every ten
// seconds or so and is asked more often; some counter of a running node always
// moves, so that none has moved means that none was read.
func (n *nodePage) measured(totals map[string]time.Duration, now time.Time) time.Time {
	if maps.Equal(n.root, totals) {
		return n.at
	}
	n.root, n.at = totals, now
	return now
}

// counters are the times that a page tells, by the value's name. It has each once;
// twice is one too many to know which is the node's.
func counters(p page, values ...value) map[string]time.Duration {
	found := map[string]time.Duration{}
	for _, v := range values {
		if all := v.in(p); len(all) == 1 {
			if total, ok := seconds(all[0].value); ok {
				found[v.field] = total
			}
		}
	}
	return found
}

var absentPressure = map[string]string{
	nodeCPU.field:    nodeCPU.absent("the node exporter"),
	nodeMemory.field: nodeMemory.absent("the node exporter"),
	nodeIO.field:     nodeIO.absent("the node exporter"),
}
