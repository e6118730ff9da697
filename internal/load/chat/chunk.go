// Package chat reads what one event of an OpenAI-style completion stream says,
// without building any of it.
//
// Parse walks the JSON once, in place, and notes the few facts that a
// measurement needs: is there a choice, does it carry text, did it finish, what
// was counted, which worker served it, is it an error. It allocates nothing for
// what servers send as a rule; a key written with escapes, such as a token among
// the logprobs of the completions API, goes through encoding/json. Reader does the
// same for the events of one stream and remembers their common shape, since they
// differ in their text alone.
package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Chunk is what one event says. Finish and Message are views of the parsed
// bytes.
type Chunk struct {
	Choice    bool   // it has a choice, though perhaps only a role
	Content   bool   // text or a tool call that is not empty
	Reasoning bool   // reasoning text that is not empty
	Text      int    // bytes of text, in UTF-8: content, reasoning, refusals, what tools are called with
	Finish    []byte // the finish reason, or nil
	Failed    bool   // it is an error
	Message   []byte // the error as JSON

	HasUsage   bool // the output tokens were counted, and the count can be read
	Uncounted  bool // there is usage, and its count of output tokens cannot be read
	HasCached  bool
	Prompt     int64 // tokens
	Completion int64
	Cached     int64
	Thought    int64 // reasoning tokens

	HasWorker bool
	Worker    uint64
}

// ErrNotObject says that an event's data is not a JSON object.
var ErrNotObject = errors.New("not a JSON object")

var (
	errSyntax = errors.New("broken JSON")
	errUnsure = errors.New("a key with escapes")
)

// Reader parses the events of one stream. The zero value is ready to use.
type Reader struct {
	shape []byte // the last ordinary event without its text
	text  int    // where in shape the text was
	facts Chunk  // what it says, but for the bytes of that text
}

// mostShape is the largest event, in bytes, whose shape is remembered.
const mostShape = 64 << 10

// Parse is the package's Parse, several times cheaper for an event that is the
// previous one but for its text.
func (r *Reader) Parse(data []byte, c *Chunk) error {
	if n := len(data) - len(r.shape); n > 0 && len(r.shape) > 0 &&
		string(data[:r.text]) == string(r.shape[:r.text]) &&
		string(data[r.text+n:]) == string(r.shape[r.text:]) &&
		plain(data[r.text:r.text+n]) {
		*c = r.facts
		c.Text += n
		return nil
	}
	p := parser{b: data}
	err := p.parse(c)
	r.shape = r.shape[:0]
	ordinary := p.textEnd > p.textFrom && c.Finish == nil && !c.Failed && len(data) <= mostShape
	if err == nil && ordinary && plain(data[p.textFrom:p.textEnd]) {
		r.shape = append(append(r.shape, data[:p.textFrom]...), data[p.textEnd:]...)
		r.text = p.textFrom
		r.facts = *c
		r.facts.Text -= p.textEnd - p.textFrom
	}
	return err
}

// plain reports whether the inside of a string needs no look at escapes.
func plain(text []byte) bool {
	return bytes.IndexByte(text, '"') < 0 && bytes.IndexByte(text, '\\') < 0
}

// Parse notes in c what the JSON object in data says. Of a key that is there
// twice, the last one counts, as with encoding/json.
func Parse(data []byte, c *Chunk) error {
	p := parser{b: data}
	return p.parse(c)
}

func (p *parser) parse(c *Chunk) error {
	*c = Chunk{}
	p.space()
	if p.i >= len(p.b) || p.b[p.i] != '{' {
		return ErrNotObject
	}
	err := p.object(func(key []byte) error { return p.top(key, c) })
	if err == nil {
		if p.space(); p.i != len(p.b) {
			err = errSyntax
		}
	}
	if errors.Is(err, errUnsure) {
		p.textFrom, p.textEnd = 0, 0
		return parseSlowly(p.b, c)
	}
	return err
}

// parseSlowly rewrites the object with plain keys and parses that.
func parseSlowly(data []byte, c *Chunk) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // worker ids do not fit a float
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		return errSyntax
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errSyntax // something is behind the object
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return errSyntax
	}
	p := parser{b: plain, rewritten: true}
	return p.parse(c)
}

// parser is a cursor over JSON. Its methods leave it behind the value that they
// were asked to read.
type parser struct {
	b []byte
	i int
	d int // depth

	rewritten bool // a key that has escapes now needs them, and is none of ours

	textFrom, textEnd int // the first content string that is not empty
}

const maxDepth = 64

func (p *parser) top(key []byte, c *Chunk) error {
	switch string(key) {
	case "choices":
		c.Choice, c.Content, c.Reasoning, c.Text, c.Finish = false, false, false, 0, nil
		return p.array(func() error { return p.choice(c) })
	case "usage":
		c.HasUsage, c.Uncounted, c.HasCached = false, false, false
		c.Prompt, c.Completion, c.Cached, c.Thought = 0, 0, 0, 0
		return p.usage(c)
	case "error":
		from := p.i
		if err := p.skip(); err != nil {
			return err
		}
		c.Message = p.b[from:p.i]
		if c.Failed = string(c.Message) != "null"; !c.Failed {
			c.Message = nil
		}
		return nil
	case "nvext":
		c.HasWorker, c.Worker = false, 0
		return p.nested(func(key []byte) error {
			if string(key) != "worker_id" {
				return p.skip()
			}
			c.HasWorker, c.Worker = false, 0
			return p.worker(c)
		})
	}
	return p.skip()
}

func (p *parser) choice(c *Chunk) error {
	if p.peek() != '{' {
		return p.skip()
	}
	c.Choice = true
	var delta, text filling // of this choice: is there content, by either shape
	var reasoning filling
	var finish []byte
	err := p.object(func(key []byte) error {
		switch string(key) {
		case "delta", "message":
			delta, reasoning = filling{}, filling{}
			return p.nested(func(key []byte) error {
				switch string(key) {
				case "content":
					from := p.i + 1
					f, err := p.filled()
					if f.any && p.textEnd == 0 && p.b[from-1] == '"' {
						p.textFrom, p.textEnd = from, p.i-1
					}
					delta.add(f)
					return err
				case "refusal", "tool_calls", "function_call":
					f, err := p.filled()
					delta.add(f)
					return err
				case "reasoning_content", "reasoning":
					f, err := p.filled()
					reasoning.add(f)
					return err
				}
				return p.skip()
			})
		case "text":
			f, err := p.filled()
			text = f
			return err
		case "finish_reason":
			finish = nil
			if p.peek() != '"' {
				return p.skip()
			}
			s, err := p.str()
			if len(s) > 0 {
				finish = s
			}
			return err
		}
		return p.skip()
	})
	c.Content = c.Content || delta.any || text.any
	c.Reasoning = c.Reasoning || reasoning.any
	c.Text += delta.bytes + text.bytes + reasoning.bytes
	if finish != nil {
		c.Finish = finish
	}
	return err
}

func (p *parser) usage(c *Chunk) error {
	if p.peek() != '{' {
		return p.skip()
	}
	err := p.object(func(key []byte) (err error) {
		switch string(key) {
		case "prompt_tokens":
			_, err = p.tokens(&c.Prompt)
			return err
		case "completion_tokens":
			c.Completion = 0
			c.HasUsage, err = p.tokens(&c.Completion)
			return err
		case "prompt_tokens_details":
			c.HasCached, c.Cached = false, 0
			return p.nested(func(key []byte) (err error) {
				if string(key) != "cached_tokens" {
					return p.skip()
				}
				c.HasCached, err = p.tokens(&c.Cached)
				return err
			})
		case "completion_tokens_details":
			c.Thought = 0
			return p.nested(func(key []byte) error {
				if string(key) != "reasoning_tokens" {
					return p.skip()
				}
				_, err := p.tokens(&c.Thought)
				return err
			})
		}
		return p.skip()
	})
	c.Uncounted = !c.HasUsage
	return err
}

// worker reads Dynamo's worker_id: the decoding worker, or else the prefilling
// one.
func (p *parser) worker(c *Chunk) error {
	var decode, prefill int64
	var hasDecode, hasPrefill bool
	err := p.nested(func(key []byte) (err error) {
		switch string(key) {
		case "decode_worker_id":
			hasDecode, err = p.count(&decode)
		case "prefill_worker_id":
			hasPrefill, err = p.count(&prefill)
		default:
			err = p.skip()
		}
		return err
	})
	switch {
	case hasDecode:
		c.HasWorker, c.Worker = true, uint64(decode)
	case hasPrefill:
		c.HasWorker, c.Worker = true, uint64(prefill)
	}
	return err
}

func (p *parser) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.i < len(p.b) {
		return p.b[p.i]
	}
	return 0
}

// object calls value for each key, with the cursor at the key's value.
func (p *parser) object(value func(key []byte) error) error {
	if p.d++; p.d > maxDepth {
		return errSyntax
	}
	p.i++ // {
	if p.space(); p.peek() == '}' {
		p.i++
		p.d--
		return nil
	}
	for {
		if p.space(); p.peek() != '"' {
			return errSyntax
		}
		key, err := p.str()
		if err != nil {
			return err
		}
		if !p.rewritten && bytes.IndexByte(key, '\\') >= 0 {
			return errUnsure
		}
		if p.space(); p.peek() != ':' {
			return errSyntax
		}
		p.i++
		p.space()
		if err := value(key); err != nil {
			return err
		}
		p.space()
		switch p.peek() {
		case ',':
			p.i++
		case '}':
			p.i++
			p.d--
			return nil
		default:
			return errSyntax
		}
	}
}

// nested is object for a value that may be something else, which it skips.
func (p *parser) nested(value func(key []byte) error) error {
	if p.peek() != '{' {
		return p.skip()
	}
	return p.object(value)
}

// array calls element with the cursor at each element; anything else is skipped.
func (p *parser) array(element func() error) error {
	if p.peek() != '[' {
		return p.skip()
	}
	if p.d++; p.d > maxDepth {
		return errSyntax
	}
	p.i++
	if p.space(); p.peek() == ']' {
		p.i++
		p.d--
		return nil
	}
	for {
		p.space()
		if err := element(); err != nil {
			return err
		}
		p.space()
		switch p.peek() {
		case ',':
			p.i++
		case ']':
			p.i++
			p.d--
			return nil
		default:
			return errSyntax
		}
	}
}

// str reads a string and returns what is between its quotes, escapes and all.
func (p *parser) str() ([]byte, error) {
	from := p.i + 1
	for at := from; ; {
		quote := bytes.IndexByte(p.b[at:], '"')
		if quote < 0 {
			return nil, errSyntax
		}
		at += quote
		escapes := 0
		for at-escapes > from && p.b[at-escapes-1] == '\\' {
			escapes++
		}
		at++
		if escapes%2 == 0 {
			p.i = at
			return p.b[from : at-1], nil
		}
	}
}

// filling is what a value that may have text in it has.
type filling struct {
	any   bool // it is a string, array or object that is not empty
	bytes int  // of text
}

func (f *filling) add(more filling) {
	f.any = f.any || more.any
	f.bytes += more.bytes
}

// filled passes over a value and tells what is in it.
func (p *parser) filled() (f filling, err error) {
	switch p.peek() {
	case '"':
		s, err := p.str()
		return filling{len(s) > 0, textLen(s)}, err
	case '[', '{':
		from := p.i
		f.bytes, err = p.texts()
		f.any = len(bytes.TrimSpace(p.b[from+1:max(from+1, p.i-1)])) > 0
		return f, err
	}
	return filling{}, p.skip()
}

// texts passes over a value and sums up the texts in it: those of content parts, and
// the name and arguments of a tool's call. What only labels a part is no text.
func (p *parser) texts() (n int, err error) {
	switch p.peek() {
	case '"':
		s, err := p.str()
		return textLen(s), err
	case '[':
		err = p.array(func() error {
			more, err := p.texts()
			n += more
			return err
		})
		return n, err
	case '{':
		err = p.object(func(key []byte) error {
			switch string(key) {
			case "type", "id", "role", "object":
				return p.skip()
			}
			more, err := p.texts()
			n += more
			return err
		})
		return n, err
	}
	return 0, p.skip()
}

// textLen is how many bytes of UTF-8 the inside of a JSON string stands for.
func textLen(s []byte) int {
	n := len(s)
	for {
		at := bytes.IndexByte(s, '\\')
		if at < 0 || at+1 >= len(s) {
			return n
		}
		if s[at+1] != 'u' || at+6 > len(s) {
			n-- // a backslash and a letter are one byte
			s = s[at+2:]
			continue
		}
		n -= 6 - hexLen(s[at+2:at+6])
		s = s[at+6:]
	}
}

// hexLen is how many bytes of UTF-8 a unit of UTF-16 makes, by its four hexadecimal
// digits. Each half of a surrogate pair makes two of the pair's four.
func hexLen(digits []byte) int {
	switch {
	case digits[0] == '0' && digits[1] == '0' && digits[2] < '8':
		return 1
	case digits[0] == '0' && digits[1] < '8':
		return 2
	case (digits[0] == 'd' || digits[0] == 'D') && digits[1] >= '8':
		return 2
	}
	return 3
}

// tokens reads a count of tokens. One that no signed number of 64 bits can hold is none.
func (p *parser) tokens(n *int64) (bool, error) {
	var v int64
	ok, err := p.count(&v)
	if !ok || v < 0 {
		return false, err
	}
	*n = v
	return true, err
}

// count reads a whole number that is not negative; bits beyond 63 are kept, as
// worker ids need all 64. Other values are skipped and leave n alone.
func (p *parser) count(n *int64) (bool, error) {
	from := p.i
	if err := p.skip(); err != nil {
		return false, err
	}
	digits := p.b[from:p.i]
	if len(digits) == 0 || len(digits) > 20 {
		return false, nil
	}
	var v uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false, nil
		}
		next := v*10 + uint64(c-'0')
		if next/10 != v {
			return false, nil
		}
		v = next
	}
	*n = int64(v)
	return true, nil
}

// skip passes over one value.
func (p *parser) skip() error {
	switch p.peek() {
	case '"':
		_, err := p.str()
		return err
	case '{':
		return p.object(func([]byte) error { return p.skip() })
	case '[':
		return p.array(p.skip)
	case 'n':
		if len(p.b)-p.i >= 4 && string(p.b[p.i:p.i+4]) == "null" {
			p.i += 4
			return nil
		}
	case 0:
		return errSyntax
	}
	from := p.i
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r', ':', '"', '{', '[':
			if p.i == from {
				return errSyntax
			}
			return nil
		}
		p.i++
	}
	return nil
}
