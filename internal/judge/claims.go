package judge

import (
	"fmt"
	"time"

	"aicr/internal/spec"
)

// Claims holds the tokens that a server counts in its answers against what came of them:
// the text, the events, and what was asked for. Only served requests are in it.
type Claims struct {
	answers int     // whose amount of text is known
	tokens  float64 // that they claim
	text    float64 // bytes

	hollow       int // of those, answers with less than leastText bytes a token
	hollowTokens float64

	beyond int // answers that claim far more than was asked for
	most   int // tokens of the largest of them
	asked  int // for that one

	streams int // answers of two tokens or more
	atOnce  int // of those, that came in one event, or within no time

	events      float64 // with content, where their number is known
	eventTokens float64 // of the same answers
	eventful    int
}

const (
	// leastText is the least text, in bytes, that tokens have on average: half a byte. A
	// token is some 4 bytes of English, 3 of Chinese; only special tokens have none.
	leastText = 0.5
	// hollowShare is the share of the tokens in answers without as much text from which on
	// a throughput is not to be believed: less cannot lift one that fails to one that passes.
	hollowShare = 0.05
	// beyondTimes and beyondPlus say how much more than was asked for is beyond belief: a
	// server may count a few special tokens of its own.
	beyondTimes, beyondPlus = 2, 16
	// fastestToken is a time in which no model makes a token of one stream: tokens that come
	// faster were held back and sent at once.
	fastestToken = 50 * time.Microsecond
)

// Add takes a request for which so many output tokens were asked; 0: not known.
func (c *Claims) Add(q *spec.Request, asked int) {
	if !q.Served() {
		return
	}
	if asked > 0 && float64(q.Tokens) > beyondTimes*float64(asked)+beyondPlus {
		if c.beyond++; q.Tokens > c.most {
			c.most, c.asked = q.Tokens, asked
		}
	}
	if q.TextBytes != nil {
		c.answers++
		c.tokens += float64(q.Tokens)
		c.text += float64(*q.TextBytes)
		if float64(*q.TextBytes) < leastText*float64(q.Tokens) {
			c.hollow++
			c.hollowTokens += float64(q.Tokens)
		}
	}
	if q.Events != nil && *q.Events > 0 {
		c.eventful++
		c.events += float64(*q.Events)
		c.eventTokens += float64(q.Tokens)
	}
	if q.Tokens >= 2 && q.Last >= q.First {
		c.streams++
		if q.Events != nil && *q.Events == 1 || float64(q.Last-q.First) < float64(q.Tokens-1)*float64(fastestToken) {
			c.atOnce++
		}
	}
}

func (c *Claims) addAll(o *Claims) {
	c.answers, c.tokens, c.text = c.answers+o.answers, c.tokens+o.tokens, c.text+o.text
	c.hollow, c.hollowTokens = c.hollow+o.hollow, c.hollowTokens+o.hollowTokens
	c.streams, c.atOnce = c.streams+o.streams, c.atOnce+o.atOnce
	c.events, c.eventTokens, c.eventful = c.events+o.events, c.eventTokens+o.eventTokens, c.eventful+o.eventful
	if c.beyond += o.beyond; o.most > c.most {
		c.most, c.asked = o.most, o.asked
	}
}

// Implausible says why the tokens cannot be what the server claims; "" where they can.
func (c *Claims) Implausible() string {
	switch {
	case c.beyond > 0:
		return fmt.Sprintf("%s claimed up to %s tokens where %s were asked for",
			counted(float64(c.beyond), "answer"), grouped(float64(c.most)), grouped(float64(c.asked)))
	case c.tokens > 0 && c.text < leastText*c.tokens:
		return fmt.Sprintf("%s of text in %s answers that claim %s tokens: "+
			"%s bytes a token, and %.1f is the least that can be", counted(c.text, "byte"),
			grouped(float64(c.answers)), grouped(c.tokens), twoDigits(c.text/c.tokens), leastText)
	case c.hollowTokens > hollowShare*c.tokens:
		return fmt.Sprintf("%s of %s answers, with %s of the tokens, have less than %.1f bytes of text a token",
			grouped(float64(c.hollow)), grouped(float64(c.answers)), percent(c.hollowTokens/c.tokens), leastText)
	}
	return ""
}

// CameAtOnce reports whether most answers came in one event or within no time, so that
// a stall inside an answer cannot be seen.
func (c *Claims) CameAtOnce() bool { return 2*c.atOnce > c.streams }

// perEvent is how many tokens an event carried.
func (c *Claims) perEvent() figure {
	f := notMeasured()
	if c.events > 0 {
		f.value, f.n = c.eventTokens/c.events, c.eventful
	}
	return f
}
