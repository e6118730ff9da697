package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/report"
	"aicr/internal/spec"
)

// How long the cluster may take to keep the compact copy: it may be away for a while. A
// Job that was told to end has not so long.
const (
	copyWithin = 2 * time.Minute
	copyAtOnce = 6 * time.Second
)

// copyResult keeps a compact copy of the result on the cluster, and says where.
func (k *checkKeeper) copyResult(ctx context.Context, v *spec.Verdict) (where string, err error) {
	within := copyWithin
	if ctx.Err() != nil {
		within = copyAtOnce
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	cluster, err := kube.Connect(kube.Access{LookupEnv: k.app.env.LookupEnv, Program: "aicr/" + k.app.env.Build.Version})
	if err != nil {
		return "", err
	}
	s := &k.given.settings
	o := graph.ResultCopy(s, k.resultFiles(ctx, v))
	if _, err := cluster.Create(ctx, kube.Resource{Version: "v1", Name: "configmaps"}, o); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%s", s.Namespace, graph.NamesOf(s.Run).Results), nil
}

// resultFiles are those that the copy is made of, the less needed the later. What cannot
// be read is not in it.
func (k *checkKeeper) resultFiles(ctx context.Context, v *spec.Verdict) []graph.ResultFile {
	var all []graph.ResultFile
	add := func(name string, data []byte, err error) {
		if err == nil {
			all = append(all, graph.ResultFile{Name: name, Data: data})
		}
	}
	verdict, err := indentedJSON(v)
	add(verdictFile, verdict, err)
	read := func(name string) {
		data, err := os.ReadFile(filepath.Join(k.folder(), name))
		add(name, data, err)
	}
	read(runFile)
	read(planFile)
	var ctrf bytes.Buffer
	err = report.CTRF(&ctrf, k.reportOf(ctx, v))
	add(graph.ResultCTRF, ctrf.Bytes(), err)
	read(eventsFile)
	if run, err := spec.ReadRun(runFiles(k.folder())); err == nil {
		for _, number := range run.Numbers() {
			read(filepath.Join(episodesDir, fmt.Sprintf("%03d", number), "episode.json"))
		}
	}
	return all
}
