package graph

import (
	"encoding/json"
	"time"

	"aicr/internal/spec"
)

// LoadLine is a line of the log of the load's Job: one JSON object, numbered, so that
// whoever follows the log over a connection that breaks neither loses nor repeats one.
type LoadLine struct {
	N      int     `json:"n"` // from 1
	T      float64 `json:"t"` // seconds since the run's start; AIPerf's Job counts from its own
	Kind   string  `json:"kind"`
	Text   string  `json:"text"`             // for people
	Number int     `json:"number,omitempty"` // of the episode

	Reason   string        `json:"reason,omitempty"`   // LineError: in a word
	Stage    string        `json:"stage,omitempty"`    // LineStage: start, episode, as checks.Follower is told
	Progress *LoadProgress `json:"progress,omitempty"` // LineProgress
	Episode  *spec.Episode `json:"episode,omitempty"`  // LineEpisode: no more than what a person follows
	Verdict  *spec.Verdict `json:"verdict,omitempty"`  // LineJudged, LineDone: likewise
	Next     *LoadNext     `json:"next,omitempty"`     // LineJudged: why there is another episode
	Answer   *LoadAnswer   `json:"answer,omitempty"`   // LineAnswer
}

// The kinds of line.
const (
	LineStage    = "stage"
	LineProgress = "progress"
	LineEpisode  = "episode"
	LineJudged   = "judged"
	LineNote     = "note"
	LineError    = "error"
	LineAnswer   = "answer" // of AIPerf's Job: the first answer came, or its time was up
	LineAlive    = "alive"  // nothing is new; said so that who follows knows that the connection is not dead
	LineDone     = "done"   // there is a verdict, and the record can be fetched
)

// LoadNext is why there is another episode.
type LoadNext struct {
	Why   string `json:"why,omitempty"`
	Retry string `json:"retry,omitempty"`
}

// LoadProgress is how the episode under way goes.
type LoadProgress struct {
	Elapsed     Duration `json:"elapsed"`
	Concurrency int      `json:"concurrency"` // asked for
	InFlight    int64    `json:"inFlight"`
	Sent        int64    `json:"sent"`
	Done        int64    `json:"done"`
	Failed      int64    `json:"failed"`
	Tokens      int64    `json:"tokens"`
	TokensPerS  float64  `json:"tokensPerS"`
	TTFT50      Duration `json:"ttft50"`
	TTFT99      Duration `json:"ttft99"`
}

// ParseLoadLine reads a line of the log. What is none, such as a panic's trace or what
// AIPerf prints, is a note without a number, with its own words.
func ParseLoadLine(text []byte) LoadLine {
	var l LoadLine
	if err := json.Unmarshal(text, &l); err != nil || l.N < 1 || l.Kind == "" {
		return LoadLine{Kind: LineNote, Text: string(text)}
	}
	return l
}

// Seconds is the line's time.
func (l *LoadLine) Seconds() time.Duration { return time.Duration(l.T * float64(time.Second)) }
