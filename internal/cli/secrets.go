package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"aicr/internal/redact"
	"aicr/internal/spec"
)

// secrets are what a command was given in confidence. No stream of it has one of them,
// whoever repeats it.
type secrets struct {
	mu     sync.Mutex
	values []string
	mask   *redact.Mask
}

// add makes values known as secrets, and gives the mask that hides all of them.
func (s *secrets) add(values ...string) *redact.Mask {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = append(s.values, values...)
	s.mask = redact.NewMask(s.values...)
	return s.mask
}

func (s *secrets) known() *redact.Mask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mask
}

// confidential is a stream without the secrets.
type confidential struct {
	secrets *secrets
	w       io.Writer
}

func (c *confidential) Write(p []byte) (int, error) {
	mask := c.secrets.known()
	if mask == nil {
		return c.w.Write(p)
	}
	masked := []byte(nil)
	if text := bytes.TrimSpace(p); len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(text) {
		masked = mask.JSON(p) // what is a document stays one
	} else {
		masked = []byte(mask.Text(string(p)))
	}
	if _, err := c.w.Write(masked); err != nil {
		return 0, err
	}
	return len(p), nil
}

// addresses are the flags whose values are URLs, with or without a scheme.
var addresses = []string{"url", "worker-metrics", "frontend-metrics", "gpu-metrics", "node-metrics", "proxy"}

// shownValue is the value of a flag as it may be shown and kept.
func shownValue(flag, value string) string {
	if isURL(value) || slices.Contains(addresses, flag) {
		return redact.URL(value)
	}
	if flag == "extra-inputs" {
		return redact.Masked(value)
	}
	return value
}

// unnamed is why a file with a secret cannot be read. What is given in the place of a file's
// name, and is none, may be the secret.
func unnamed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return plainly(err)
	}
	return err
}

// shownWord is a word of a command line that stands where none was expected.
func shownWord(word string) string {
	if isURL(word) || strings.Contains(word, "?") {
		return redact.URL(word)
	}
	return redact.Masked(word)
}

// shownFlag is a flag of a command line that was recorded.
var shownFlag = regexp.MustCompile(`--([a-z-]+)=('[^']*'|\S+)`)

// shownCommand is a recorded command line as it may be shown: one that another version
// has kept may have secrets in its URLs.
func shownCommand(command string) string {
	return shownFlag.ReplaceAllStringFunc(command, func(word string) string {
		flag, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if quoted, ok := strings.CutPrefix(value, "'"); ok {
			return "--" + flag + "='" + shownValue(flag, strings.TrimSuffix(quoted, "'")) + "'"
		}
		return "--" + flag + "=" + shownValue(flag, value)
	})
}

// hideSecrets takes out of a recorded run what another version may have left in it. What
// this one records has none, and stays as it is.
func hideSecrets(run *spec.RecordedRun) {
	run.Run.Command, run.Run.Target.URL = shownCommand(run.Run.Command), redact.URL(run.Run.Target.URL)
	for i := range run.Events {
		run.Events[i].Text = redact.Masked(run.Events[i].Text)
	}
	if run.Plan == nil {
		return
	}
	for name, input := range run.Plan.Inputs {
		input.Value = shownValue(name, input.Value)
		run.Plan.Inputs[name] = input
	}
}
