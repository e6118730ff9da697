package workload

import (
	"slices"
	"strconv"
)

// A template is a body with two things left open: the prompt and the asked
// output length.
type template []piece

// A piece is one field of a body: what comes before the open place, the place,
// and what comes after.
type piece struct {
	key    string
	lead   string // the name, quoted, and the colon
	before string // from the value's first byte on
	hole   hole
	after  string
	forced bool // a dataset's own field of this name gives way
}

type hole uint8

const (
	holeNone hole = iota
	holePrompt
	holeOutput
)

// template lays out the body that s asks for. Its order is that of the facts
// that a reader of a request looks for, and is pinned by the hash.
func (s Spec) template() template {
	t := template{{key: "model", before: string(quote(s.Model)), forced: s.Model != ""}}
	if s.chat() {
		t = append(t, piece{key: "messages", before: `[{"role":"user","content":"`, hole: holePrompt, after: `"}]`})
	} else {
		t = append(t, piece{key: "prompt", before: `"`, hole: holePrompt, after: `"`})
	}
	t = append(t, piece{key: "stream", before: `true`, forced: true})
	if s.Fields.IncludeUsage {
		t = append(t, piece{key: "stream_options", before: `{"include_usage":true}`})
	}
	if !s.Extra.has("max_completion_tokens") { // the same thing by its newer name
		t = append(t, piece{key: "max_tokens", hole: holeOutput})
	}
	if s.Fields.MinTokens {
		t = append(t, piece{key: "min_tokens", hole: holeOutput})
	}
	if s.Fields.IgnoreEOS {
		t = append(t, piece{key: "ignore_eos", before: `true`})
	}
	if s.Fields.Temperature0 {
		t = append(t, piece{key: "temperature", before: `0`})
	}
	if s.Fields.WorkerID {
		t = append(t, piece{key: "nvext", before: `{"extra_fields":["worker_id"]}`})
	}
	for _, f := range s.Extra {
		p := piece{key: f.Key, before: string(compact(f.Value)), forced: true}
		if i := slices.IndexFunc(t, func(q piece) bool { return q.key == f.Key }); i >= 0 {
			t[i] = p
		} else {
			t = append(t, p)
		}
	}
	for i := range t {
		t[i].lead = string(quote(t[i].key)) + ":"
	}
	return t
}

// render appends a body and tells where in it the prompt's text begins. The
// prompt is the inside of a JSON string.
func (t template) render(dst, prompt []byte, output int) (body []byte, promptAt int) {
	start := len(dst)
	for i, p := range t {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		dst = append(dst, sep)
		dst = append(dst, p.lead...)
		dst = append(dst, p.before...)
		switch p.hole {
		case holePrompt:
			promptAt = len(dst) - start
			dst = append(dst, prompt...)
		case holeOutput:
			dst = strconv.AppendInt(dst, int64(output), 10)
		case holeNone:
		}
		dst = append(dst, p.after...)
	}
	return append(dst, '}'), promptAt
}

// merge lays the template under a whole body that came with a dataset: what the
// body says stays, except the fields that are forced.
func (t template) merge(body Extra, output int) Extra {
	for _, p := range t {
		value := []byte(p.before)
		switch p.hole {
		case holePrompt:
			continue
		case holeOutput:
			if p.key == "max_tokens" && body.has("max_completion_tokens") {
				continue
			}
			value = strconv.AppendInt(nil, int64(output), 10)
		case holeNone:
		}
		if p.forced && (p.key == "max_tokens" || p.key == "max_completion_tokens") {
			body = body.without("max_tokens", "max_completion_tokens") // one of them must not contradict the other
		}
		if p.forced || !body.has(p.key) {
			body = body.set(p.key, value)
		}
	}
	return body
}

func (x Extra) render(dst []byte) []byte {
	for i, f := range x {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		dst = append(dst, sep)
		dst = append(dst, quote(f.Key)...)
		dst = append(dst, ':')
		dst = append(dst, compact(f.Value)...)
	}
	return append(dst, '}')
}
