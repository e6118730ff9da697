package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// message is what inner tells up: where it is, that it is ready, or why it cannot be.
type message struct {
	Progress string `json:"progress,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
	Error    string `json:"error,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

func (m message) err() error {
	if m.Hint != "" {
		return advised{errors.New(m.Error), m.Hint}
	}
	return errors.New(m.Error)
}

// teller writes messages, a line each.
type teller struct {
	mu sync.Mutex
	to io.Writer
}

// tell does not mind when nobody listens: then up is gone, and so is inner soon.
func (t *teller) tell(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, err := json.Marshal(m)
	if err == nil {
		_, _ = t.to.Write(append(line, '\n'))
	}
}

// listen gives out messages until there are no more.
func listen(from io.Reader) <-chan message {
	out := make(chan message)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var m message
			if json.Unmarshal(lines.Bytes(), &m) == nil {
				out <- m
			}
		}
	}()
	return out
}
