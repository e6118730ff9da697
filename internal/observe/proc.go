package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"aicr/internal/spec"
)

// LocalNode is the node that this program runs on, whose name is host.
func LocalNode(files Files, host string) Source {
	return Source{Kind: spec.SourceNode, Instance: "local", Reader: &localNode{files: files, host: host, clock: time.Now}}
}

// localNode reads what the kernel says of the node.
type localNode struct {
	files    Files
	host     string
	clock    func() time.Time
	pressure pressure
}

func (l *localNode) Read(ctx context.Context) ([]spec.Sample, error) {
	n := &spec.NodeSample{}
	s := spec.Sample{Source: spec.SourceNode, Name: l.host, Node: n}
	for field, name := range map[string]string{nodeCPU.field: "cpu", nodeMemory.field: "memory", nodeIO.field: "io"} {
		into, why := nodePressures(n)[field], ""
		text, err := l.file("/proc/pressure/" + name)
		at := l.clock()
		if err == nil {
			var total time.Duration
			if total, err = someTotal(text); err == nil {
				*into, why = l.pressure.since(field, total, at)
			}
		}
		if err != nil {
			l.pressure.forget(field)
			why = err.Error()
		}
		if *into == nil {
			notMeasured(&s, field, why)
		}
	}
	text, err := l.file("/proc/loadavg")
	if err == nil {
		n.Load1, err = firstLoad(text)
	}
	if err != nil {
		notMeasured(&s, nodeLoad1.field, err.Error())
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return []spec.Sample{s}, nil
}

// file reads a small file of the kernel's.
func (l *localNode) file(name string) ([]byte, error) {
	const most = 4 << 10
	f, err := l.files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the kernel has no %s", name)
	}
	if err != nil {
		return nil, reason(oneLine(err.Error()))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, reason(oneLine(err.Error())) // psi=0 on the kernel's command line answers so
	}
	return text, nil
}

// someTotal is the time in which some task waited, which the kernel counts in
// microseconds.
func someTotal(text []byte) (time.Duration, error) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0] != "some" || line[len(line)-1] != '\n' {
			continue
		}
		for _, field := range fields[1:] {
			if digits, ok := strings.CutPrefix(field, "total="); ok {
				micros, err := strconv.ParseUint(digits, 10, 63)
				if total, ok := seconds(float64(micros) / 1e6); err == nil && ok {
					return total, nil
				}
			}
		}
	}
	return 0, reason("not a file of /proc/pressure: it has no total")
}

// firstLoad is the load of the last minute.
func firstLoad(text []byte) (*float64, error) {
	if first, _, ok := strings.Cut(string(text), " "); ok {
		if load, err := strconv.ParseFloat(first, 64); err == nil && load >= 0 && number(load) != nil {
			return &load, nil
		}
	}
	return nil, reason("not a /proc/loadavg")
}
