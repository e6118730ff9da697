package observe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"sigs.k8s.io/yaml"

	"aicr/internal/redact"
	"aicr/internal/spec"
)

// Target is a page to ask, and what is known of who has it.
type Target struct {
	URL    string
	Labels Labels
}

// maxTargets is how many targets a list may have: a mistake in a generator must
// not open a million connections.
const maxTargets = 4096

// ReadTargets reads a list of pages in either of two forms: a URL a line, with
// labels such as pod=decode-0 after it, or the JSON or YAML that Prometheus reads
// as file_sd. Every mistake is told, not the first alone.
func ReadTargets(text []byte) ([]Target, error) {
	var targets []Target
	var err error
	if looksLikeGroups(text) {
		targets, err = readGroups(text)
	} else {
		targets, err = readLines(text)
	}
	if len(targets) > maxTargets {
		err = errors.Join(err, fmt.Errorf("%d targets, and at most %d are taken", len(targets), maxTargets))
	}
	if err != nil {
		return nil, err
	}
	return targets, nil
}

// looksLikeGroups tells Prometheus' form by the list that it is. A URL starts
// with a letter, and a label never with a dash.
func looksLikeGroups(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' || bytes.Equal(line, []byte("---")) {
			continue
		}
		return line[0] == '[' || line[0] == '-'
	}
	return false
}

func readLines(text []byte) ([]Target, error) {
	var targets []Target
	var wrong []error
	number := 0
	for line := range bytes.Lines(text) {
		number++
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		t, err := ParseTarget(words[0])
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		labels := map[string]string{}
		for _, w := range words[1:] {
			name, value, ok := strings.Cut(w, "=")
			if !ok || !isLabel(name) {
				wrong = append(wrong, fmt.Errorf("line %d: %q is not one of name=, pod=, gpu= and role=", number, name))
				continue
			}
			if name == "role" && spec.RoleNamed(value) == spec.RoleBoth {
				wrong = append(wrong, fmt.Errorf("line %d: role=%q is neither prefill nor decode", number, value))
			}
			labels[name] = value
		}
		t.Labels = labelsOf(labels)
		targets = append(targets, t)
	}
	return targets, errors.Join(wrong...)
}

func isLabel(name string) bool {
	return name == "name" || name == "pod" || name == "gpu" || name == "role"
}

// labelsOf takes what is of use, fit to be shown; Prometheus' groups may have any labels.
func labelsOf(l map[string]string) Labels {
	return Labels{
		Name: redact.Clean(cmp.Or(l["name"], l["worker"])),
		Pod:  redact.Clean(cmp.Or(l["pod"], l["__meta_kubernetes_pod_name"])),
		GPU:  redact.Clean(cmp.Or(l["gpu"], l["gpu_uuid"], l["UUID"])),
		Role: spec.RoleNamed(cmp.Or(l["role"], l["dynamo_component"])),
	}
}

func readGroups(text []byte) ([]Target, error) {
	var groups []struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	if err := yaml.UnmarshalStrict(text, &groups); err != nil {
		return nil, fmt.Errorf("not a list of targets as Prometheus has them: %s", oneLine(err.Error()))
	}
	var targets []Target
	var wrong []error
	for i, g := range groups {
		for j, address := range g.Targets {
			path, query, _ := strings.Cut(cmp.Or(g.Labels["__metrics_path__"], "/metrics"), "?")
			u := url.URL{Scheme: cmp.Or(g.Labels["__scheme__"], "http"), Host: address, Path: path, RawQuery: query}
			t, err := ParseTarget(u.String())
			if err != nil {
				wrong = append(wrong, fmt.Errorf("group %d: target %d: %w", i+1, j+1, err)) // itself it may hold a secret
				continue
			}
			t.Labels = labelsOf(g.Labels)
			targets = append(targets, t)
		}
	}
	return targets, errors.Join(wrong...)
}

// ParseTarget reads a URL. One without a path is an exporter's, which has its
// page at /metrics.
func ParseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Target{}, errors.New("not a URL") // the parser's error repeats it, with what secrets it may have
	case u.Scheme != "http" && u.Scheme != "https":
		return Target{}, errors.New("not a URL that begins with http:// or https://")
	case u.User != nil:
		return Target{}, errors.New("a URL with a user's name or password, which every list of processes would show")
	case u.Hostname() == "":
		return Target{}, errors.New("a URL without a host")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/metrics"
	}
	return Target{URL: u.String()}, nil
}
