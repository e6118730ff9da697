package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"aicr/internal/kube"
)

// ResultFile is a file of a run's folder, by its path in it; ResultCTRF alone is in none.
type ResultFile struct {
	Name string
	Data []byte
}

// ResultCTRF is the result as dashboards read it.
const ResultCTRF = "ctrf.json"

// leftOutKey is where a copy says what did not fit into it.
const leftOutKey = "left-out.json"

// mostResult is how much of a result is kept in a ConfigMap: Kubernetes takes 1 MiB, and
// some of that is for what it writes about the object itself.
const mostResult = 900 << 10

// ResultCopy is the ConfigMap with the compact copy of a result. Files come in the order
// of their worth: where all of them are too large, what is left out is told, the last
// first; of the events, the last ones are kept.
func ResultCopy(s *Settings, files []ResultFile) kube.Object {
	n := s.Names()
	data := map[string]any{}
	var left []string
	room := mostResult
	for _, f := range files {
		text := f.Data
		if len(text) > room && f.Name == "events.jsonl" {
			text = wholeLinesOfEnd(text, min(room, 64<<10))
			left = append(left, fmt.Sprintf("%s: all but its last %d lines", f.Name, bytes.Count(text, []byte("\n"))))
		}
		if len(text) > room {
			left = append(left, f.Name)
			continue
		}
		room -= len(text)
		data[resultKey(f.Name)] = string(text)
	}
	if len(left) > 0 {
		words, _ := json.Marshal(left) // strings can be written
		data[leftOutKey] = string(words)
	}
	labels := map[string]any{}
	for k, v := range Labels(s.Run, PartLoad) {
		labels[k] = v
	}
	return kube.Object{"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"name": n.Results, "namespace": s.Namespace, "labels": labels}}
}

// wholeLinesOfEnd are as many whole lines of the end as there is room for.
func wholeLinesOfEnd(text []byte, room int) []byte {
	if len(text) <= room {
		return text
	}
	text = text[len(text)-room:]
	_, rest, _ := bytes.Cut(text, []byte("\n"))
	return rest
}

var episodeKey = regexp.MustCompile(`^episode-([0-9]{3,4})\.json$`)

// resultKey is the key of a file: a ConfigMap's has no slash.
func resultKey(name string) string {
	if rest, ok := strings.CutPrefix(name, "episodes/"); ok {
		return "episode-" + strings.TrimSuffix(rest, "/episode.json") + ".json"
	}
	return name
}

// ReadResultCopy takes a copy apart again.
func ReadResultCopy(o kube.Object) (files map[string][]byte, leftOut []string) {
	data, _ := o["data"].(map[string]any)
	files = map[string][]byte{}
	for key, value := range data {
		text, _ := value.(string)
		if key == leftOutKey {
			if json.Unmarshal([]byte(text), &leftOut) != nil {
				leftOut = []string{text}
			}
			continue
		}
		if m := episodeKey.FindStringSubmatch(key); m != nil {
			key = "episodes/" + m[1] + "/episode.json"
		}
		files[key] = []byte(text)
	}
	return files, leftOut
}
