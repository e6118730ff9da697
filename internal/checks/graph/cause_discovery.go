package graph

import (
	"context"
	"io"
	"strings"

	"aicr/internal/kube"
	"aicr/internal/observe"
	"aicr/internal/spec"
)

// discoveryPanicked finds a frontend that is up and will never serve: only its log says
// so, and after that it does not recover.
func discoveryPanicked(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		for _, container := range frontendContainers(pod) {
			told := meaningOf(pod.Name(), s.Logs[logOf{pod.Name(), container, false}])
			for _, e := range told {
				if e.Reason == "unfold-panic" {
					all = append(all, Cause{Reason: "DiscoveryPanic", Source: pod.Name(), Text: e.Text, Logged: told,
						Advice: []string{"align the runtime's image tag with the version of the chart", "`kubectl logs " + pod.Name() + " -n " + pod.Namespace() + " -c " + container + "`"}})
					break
				}
			}
		}
	}
	return all
}

// frontendContainers are those of a pod in which requests come in: of a frontend all, of
// a worker behind a gateway the one beside it.
func frontendContainers(pod kube.Object) (names []string) {
	for _, c := range pod.List("spec", "containers") {
		if name := c.Text("name"); roleOf(pod) == roleFrontend || strings.Contains(name, "frontend") {
			names = append(names, name)
		}
	}
	return names
}

// meaningOf is what lines of a log say that someone should know, each kind once.
func meaningOf(source string, lines []string) (all []spec.Event) {
	if len(lines) == 0 {
		return nil
	}
	at := map[string]int{}
	open := func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Join(lines, "\n") + "\n")), nil
	}
	log := observe.Log(open, source, observe.Labels{})
	_ = log.Follower.Follow(context.Background(), observe.Tell{Sample: func(spec.Sample) {}, Event: func(e spec.Event) {
		i, ok := at[e.Reason]
		if !ok {
			at[e.Reason], all = len(all), append(all, e)
			return
		}
		all[i].Count = max(1, all[i].Count) + max(1, e.Count)
	}}) // its end is an error for who observes, and none here
	return all
}
