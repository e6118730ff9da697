package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// limits bound the memory of reading a dataset.
type limits struct {
	entry  int // bytes of a line
	bodies int // bytes of all that is frozen: a dataset is held whole
}

const (
	maxEntry  = 16 << 20
	maxBodies = 512 << 20
	maxShown  = 10     // broken lines told one by one
	maxBroken = 10_000 // after which the file is surely not a dataset
)

const datasetHint = `write one JSON value a line: a string, {"prompt": "…"}, {"messages": […]} or {"conversations": […]}`

// ReadDataset reads prompts, or whole chat bodies, from JSON lines or from one
// JSON array, and sends them in the file's order, again from the start when
// they are used up. They are sent as they are: no nonce is put before them, so
// that a prefix cache may well know them from the pass before.
//
// An entry is one of
//   - a string: the prompt;
//   - {"prompt": …}, {"text": …} or {"text_input": …}: the prompt, and
//     optionally its output length as output_tokens, output_length,
//     max_tokens or max_completion_tokens; other fields are not sent;
//   - {"conversations": [{"from": "human", "value": …}, …]}: its first human
//     turn; conversations without one are left out, with a note;
//   - {"messages": […], …}: a body to be sent whole, with what s asks for laid
//     under it. The model (where s names one), "stream" and s.Extra prevail
//     over the body's own.
//
// Of s, the lengths of the input, the seed and the number of entries have no
// meaning here. A file that cannot be used is a *FileError with the broken
// lines.
func ReadDataset(r io.Reader, name string, s Spec) (*Workload, error) {
	return readDataset(r, name, s, limits{entry: maxEntry, bodies: maxBodies})
}

func readDataset(r io.Reader, name string, s Spec, most limits) (*Workload, error) {
	if err := errors.Join(s.problems()...); err != nil {
		return nil, err
	}
	d := &dataset{
		spec: s, template: s.template(),
		outputs: newSampler(s.OutputTokens, 1, s.Seed, 2),
		w:       &Workload{endpoint: Chat},
		broken:  &FileError{Name: name, Hint: datasetHint},
	}
	if !s.chat() {
		d.w.endpoint = Completions
	}
	d.fixed, d.isFixed = s.Extra.output()

	entries := 0
	for u := range split(r, most.entry) {
		if u.fatal != nil {
			return nil, &FileError{Name: name, Err: u.fatal}
		}
		if entries++; entries == 1 && looksLikeInputs(u.raw) {
			d.broken.Hint = "AIPerf's inputs.json is read with --inputs; " + datasetHint
		}
		if !d.take(u) {
			break
		}
		if len(d.w.arena) > most.bodies {
			return nil, &FileError{
				Name: name, Err: fmt.Errorf("its bodies take more than %d bytes", most.bodies),
				Hint: "keep fewer lines: they are sent again from the start when they are used up",
			}
		}
	}
	return d.finish(name)
}

// A dataset is the state of reading one.
type dataset struct {
	spec     Spec
	template template
	outputs  sampler
	fixed    int // the output length that extra inputs set for all
	isFixed  bool

	w       *Workload
	skipped int
	broken  *FileError
}

// take freezes one entry or keeps what is wrong with it. It answers false when
// there is no use in reading on.
func (d *dataset) take(u unit) bool {
	offset, err := -1, u.err
	if err == nil {
		offset, err = syntax(u.raw)
	}
	if err == nil {
		offset, err = -1, d.add(u.raw)
	}
	switch {
	case err == nil:
	case errors.Is(err, errNoTurn):
		d.skipped++
	case len(d.broken.Lines) < maxShown:
		d.broken.Lines = append(d.broken.Lines, lineError(d.broken.Name, u.raw, u.line, u.column, offset, err))
	default:
		d.broken.More++
		d.broken.Gave = d.broken.More >= maxBroken
	}
	return !d.broken.Gave
}

func (d *dataset) finish(name string) (*Workload, error) {
	w := d.w
	switch {
	case len(d.broken.Lines) > 0:
		return nil, d.broken
	case len(w.slots) == 0 && d.skipped > 0:
		return nil, &FileError{Name: name, Err: fmt.Errorf("none of its %d conversations has a human turn", d.skipped), Hint: datasetHint}
	case len(w.slots) == 0:
		return nil, &FileError{Name: name, Err: errors.New("there is no prompt in it"), Hint: datasetHint}
	}
	if d.skipped > 0 {
		w.notes = append(w.notes, fmt.Sprintf("%d conversations without a human turn were left out", d.skipped))
	}
	w.entries = int64(len(w.slots))
	w.kind = fmt.Sprintf("dataset %s (%d lines, no nonce)", name, len(w.slots))
	w.seal(fmt.Sprintf("dataset, count %d", d.spec.Count))
	return w, nil
}

// errNoTurn marks a conversation that has nothing to ask. The published
// ShareGPT file has thousands of them, so they do not make a file broken.
var errNoTurn = errors.New("no human turn")

// add freezes the entry raw, which has passed syntax.
func (d *dataset) add(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case '"':
		return d.prompt(raw, 0)
	case '{':
	default:
		return fmt.Errorf("%s is neither a string nor an object", clip(raw))
	}
	fields, err := object(raw)
	if err != nil {
		return err
	}
	output, err := ownLength(fields)
	if err != nil {
		return err
	}
	if fields.has("messages") {
		return d.body(fields, output)
	}
	if i, ok := fields.find("conversations"); ok {
		turn, err := firstHuman(fields[i].Value)
		if err != nil {
			return err
		}
		return d.prompt(turn, output)
	}
	for _, key := range []string{"prompt", "text", "text_input"} {
		i, ok := fields.find(key)
		if !ok {
			continue
		}
		if v := fields[i].Value; v[0] != '"' {
			return fmt.Errorf("%s is %s, not a string", key, clip(v))
		}
		return d.prompt(fields[i].Value, output)
	}
	return errors.New("has no prompt, text, text_input, messages or conversations")
}

// prompt freezes a prompt that is a JSON string in its quotes, escapes as they
// were written.
func (d *dataset) prompt(quoted []byte, output int) error {
	if d.spec.Model == "" {
		return errNoModel
	}
	text := quoted[1 : len(quoted)-1]
	if len(text) == 0 {
		return errors.New("the prompt is empty")
	}
	output = d.asked(output)
	d.w.arena, _ = d.template.render(d.w.arena, text, output)
	d.w.freeze(0, output)
	return nil
}

// body freezes a whole chat body.
func (d *dataset) body(fields Extra, output int) error {
	if !d.spec.chat() {
		return fmt.Errorf("a body with messages cannot go to the %s endpoint", d.spec.Endpoint)
	}
	if d.spec.Model == "" && !fields.has("model") {
		return errNoModel
	}
	i, _ := fields.find("messages")
	if m := compact(fields[i].Value); m[0] != '[' || len(m) == len("[]") {
		return errors.New("messages is not a list of messages")
	}
	output = d.asked(output)
	// Ours, not the API's: a strict server would refuse them.
	fields = fields.without("output_tokens", "output_length")
	d.w.arena = d.template.merge(fields, output).render(d.w.arena)
	d.w.freeze(0, output)
	return nil
}

var errNoModel = errors.New("no model is named, here or with --model")

// asked settles an entry's output length: an extra input first, then the
// entry's own, then the spec's. One is drawn from the spec for every entry, so
// that giving one line a length leaves those after it as they were.
func (d *dataset) asked(own int) int {
	drawn := d.outputs.next()
	switch {
	case d.isFixed:
		return d.fixed
	case own > 0:
		return own
	default:
		return drawn
	}
}

// ownLength is the output length that an entry gives itself; 0 for none.
func ownLength(fields Extra) (int, error) {
	length, by := 0, ""
	for _, f := range fields {
		switch f.Key {
		case "output_tokens", "output_length", "max_tokens", "max_completion_tokens":
		default:
			continue
		}
		n, err := tokenCount(f.Value)
		if err != nil {
			return 0, fmt.Errorf("%s %w", f.Key, err)
		}
		if by != "" {
			return 0, fmt.Errorf("%s and %s both give the output length", by, f.Key)
		}
		length, by = n, f.Key
	}
	return length, nil
}

// firstHuman finds the first turn of a person in a ShareGPT conversation, as a
// JSON string in its quotes.
func firstHuman(raw []byte) ([]byte, error) {
	if raw[0] != '[' {
		return nil, errNotTurns
	}
	for _, turn := range members(raw) {
		if turn[0] != '{' {
			return nil, errNotTurns
		}
		var from, value []byte
		for k, v := range members(turn) {
			switch string(k) {
			case `"from"`:
				from = v
			case `"value"`:
				value = v
			}
		}
		if string(from) != `"human"` && string(from) != `"user"` {
			continue
		}
		if len(value) == 0 || value[0] != '"' {
			return nil, errors.New("the human turn's value is not a string")
		}
		if len(value) == len(`""`) {
			return nil, errNoTurn
		}
		return value, nil
	}
	return nil, errNoTurn
}

var errNotTurns = errors.New("conversations is not a list of turns with from and value")

// looksLikeInputs tells a file of AIPerf's inputs by its first line, pretty or
// not.
func looksLikeInputs(first []byte) bool {
	s := strings.Join(strings.Fields(string(first[:min(len(first), 64)])), "")
	return s == "{" || strings.HasPrefix(s, `{"data":[`)
}
