//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// client is a program that is measured.
type client struct {
	name    string
	command func(call) []string
	version []string // command that tells it; nil: none
	env     []string // beside the harness's own
	family  bool     // it has processes of its own, whose memory is added up
	exports bool     // it writes profile_export_aiperf.json
}

// call is what a client is asked to do.
type call struct {
	url, model, dir       string
	concurrency, requests int
	input, output         int
}

// findClients gives the clients that are here, and says which are not.
func findClients(self, aicr, aiperf, tokenizer string, peers []string) (found []client, missing []string, err error) {
	for _, name := range []string{"drain", "drain-conn"} {
		found = append(found, client{name: name, command: func(c call) []string {
			return []string{self, name, "--url", c.url, "--model", c.model, "--concurrency", strconv.Itoa(c.concurrency),
				"--request-count", strconv.Itoa(c.requests), "--input", strconv.Itoa(c.input), "--output", strconv.Itoa(c.output)}
		}})
	}
	// The pinned gate's names for the pinned gate's things.
	common := func(c call) []string {
		return []string{"--url", c.url, "--model", c.model, "--concurrency", strconv.Itoa(c.concurrency),
			"--request-count", strconv.Itoa(c.requests),
			"--prompt-input-tokens-mean", strconv.Itoa(c.input), "--prompt-output-tokens-mean", strconv.Itoa(c.output),
			"--output-artifact-dir", c.dir, "--export-level", "summary"}
	}
	if path, err := lookPath(aicr, "./bin/aicr", "aicr"); err == nil {
		found = append(found, client{
			name: "aicr", exports: true, version: []string{path, "version"},
			command: func(c call) []string { return append([]string{path, "bench"}, common(c)...) },
		})
	} else if aicr != "" {
		return nil, nil, fmt.Errorf("--aicr: %w", err)
	} else {
		missing = append(missing, "aicr: build it to bin/aicr or give --aicr")
	}
	if path, err := lookPath(aiperf, "aiperf"); err == nil {
		found = append(found, client{
			name: "AIPerf", exports: true, family: true, version: []string{path, "--version"},
			// With either set, AIPerf refuses a tokenizer that is a local folder.
			env: []string{"HF_HUB_OFFLINE=", "TRANSFORMERS_OFFLINE="},
			command: func(c call) []string {
				args := append([]string{path, "profile", "--endpoint-type", "chat", "--streaming", "--ui", "none", "--no-server-metrics",
					"--prompt-input-tokens-stddev", "0", "--prompt-output-tokens-stddev", "0", "--num-dataset-entries", "100",
					"--random-seed", "100", "--extra-inputs", "temperature:0"}, common(c)...)
				if tokenizer != "" {
					args = append(args, "--tokenizer", tokenizer)
				}
				return args
			},
		})
	} else if aiperf != "" {
		return nil, nil, fmt.Errorf("--aiperf: %w", err)
	} else {
		missing = append(missing, "AIPerf: give --aiperf or AIPERF")
	}
	for _, peer := range peers {
		name, template, ok := strings.Cut(peer, "=")
		if !ok || name == "" || template == "" {
			return nil, nil, fmt.Errorf("--peer %q: want NAME=COMMAND", peer)
		}
		found = append(found, client{name: name, family: true, command: func(c call) []string {
			fill := strings.NewReplacer("{url}", c.url, "{model}", c.model, "{c}", strconv.Itoa(c.concurrency),
				"{n}", strconv.Itoa(c.requests), "{in}", strconv.Itoa(c.input), "{out}", strconv.Itoa(c.output), "{dir}", c.dir)
			return []string{"/bin/sh", "-c", "exec " + fill.Replace(template)}
		}})
	}
	return found, missing, nil
}

// facts are the lines under the table: where and with what it was measured.
func facts(ctx context.Context, o options) []string {
	lines := []string{
		fmt.Sprintf("%d tokens in, %d out; TTFT %v ± %v, ITL %v; %d × C requests; server on core %d, client and its children on core %d.",
			o.input, o.tokens, o.script.TTFT, o.script.TTFTSpread, o.script.ITL, o.perUser, o.serverCore, o.clientCore),
		fmt.Sprintf("Medians of up to %d readings each, interleaved; discarded are those with a server later than %v at p99 and those in which others used more than %.2f of the two cores.",
			o.rounds, o.late, o.others),
		"CPU is user and system of all the client's processes; TTFT is off by the client's figure less the server's truth (request in the server's kernel to first token written).",
	}
	machine := []string{runtime.Version(), runtime.GOARCH}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		machine = append(machine, "Linux "+unix.ByteSliceToString(name.Release[:]))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				machine = append(machine, fmt.Sprintf("%d × %s", runtime.NumCPU(), strings.TrimSpace(value)))
				break
			}
		}
	}
	lines = append(lines, "Machine: "+strings.Join(machine, ", ")+".")
	for _, c := range o.clients {
		if c.version == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		out, err := exec.CommandContext(ctx, c.version[0], c.version[1:]...).CombinedOutput()
		cancel()
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if err != nil {
			first = "version unknown"
		}
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", c.name, first, filepath.Base(c.version[0])))
	}
	return lines
}
