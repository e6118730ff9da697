package graph

import (
	"bufio"
	"context"

	"aicr/internal/kube"
)

// isUnderWay says that a line of the load is one of its work: first answers have come.
func isUnderWay(l LoadLine) bool {
	return l.Kind == LineStage && l.Stage != "start" || l.Kind == LineProgress || l.Kind == LineEpisode || l.Kind == LineDone
}

// starts says that the load waits for its first answers still, by all of its log as it is
// now. Who follows the log may hear of it late: who attaches has hours of it to read, over
// a connection that is not open yet. A log that cannot be read says nothing.
func (r *Run) starts(ctx context.Context) bool {
	s := r.Kept.Settings
	l, err := lookAtLoad(ctx, r.API, s)
	if err != nil || l.pod == nil || l.ended() {
		return false
	}
	brief, cancel := context.WithTimeout(ctx, lastReadTime)
	defer cancel()
	log, err := r.API.Logs(brief, LoadNamespace(s), l.pod.Name(), loadContainerOf(s), kube.LogOptions{})
	if err != nil {
		return false
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, mostLogLine)
	for lines.Scan() {
		if isUnderWay(ParseLoadLine(lines.Bytes())) {
			return false
		}
	}
	return lines.Err() == nil
}
