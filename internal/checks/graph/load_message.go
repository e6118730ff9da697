package graph

import (
	"encoding/json"
	"errors"
	"fmt"
)

// LoadMessageSchema is that of the termination message.
const LoadMessageSchema = "aicr.run/load/v1alpha1"

// longestMessage is what Kubernetes keeps of a termination message, in bytes.
const longestMessage = 4096

// LoadMessage is the termination message of the load's Job. It is there from its first
// moment on, and says how far it came.
type LoadMessage struct {
	Schema   string   `json:"schema"`
	Run      string   `json:"run"`
	Stage    string   `json:"stage"`              // started, start, episode 3, judged, done, failed
	Verdict  string   `json:"verdict,omitempty"`  // only when it is done
	Reason   string   `json:"reason,omitempty"`   // of the verdict, or what there is to say so far
	Findings []string `json:"findings,omitempty"` // ids
	Record   string   `json:"record,omitempty"`   // the folder in the pod, while that is there
	Copy     string   `json:"copy,omitempty"`     // the ConfigMap with the compact one
	Error    string   `json:"error,omitempty"`    // why there is no verdict
}

// Encode writes it within what Kubernetes keeps.
func (m *LoadMessage) Encode() []byte {
	c := *m
	for range 1000 {
		data, err := json.Marshal(&c)
		if err == nil && len(data) <= longestMessage {
			return data
		}
		c.Reason, c.Error, c.Record = shorterWords(c.Reason), shorterWords(c.Error), shorterWords(c.Record)
		if n := len(c.Findings); n > 0 {
			c.Findings = c.Findings[:n-1]
		}
	}
	data, _ := json.Marshal(&LoadMessage{Schema: c.Schema, Stage: "failed", Error: "the message did not fit"}) // strings can be written
	return data
}

func shorterWords(text string) string {
	r := []rune(text)
	if len(r) < 64 {
		return text
	}
	return string(r[:len(r)*3/4]) + "…"
}

// ParseLoadMessage reads a termination message.
func ParseLoadMessage(text []byte) (*LoadMessage, error) {
	var m LoadMessage
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, errors.New("the termination message is not this program's")
	}
	if m.Schema != LoadMessageSchema {
		return nil, fmt.Errorf("the termination message is of schema %q, not of %s", m.Schema, LoadMessageSchema)
	}
	return &m, nil
}
