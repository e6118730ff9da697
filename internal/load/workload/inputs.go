package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxInputs bounds a file of inputs, which is held in memory while it is read.
const maxInputs = 256 << 20

// Replay is what may be changed about bodies that are replayed, which is little:
// they are sent as they were recorded.
type Replay struct {
	Model string // "": each body's own
	Count int64  // planned requests; only the hash takes it in
}

// ReadInputs reads AIPerf's inputs.json to send the very bodies that AIPerf
// sent, without the space between their tokens. The payloads of all sessions
// are sent in the file's order, and again from the start when they are used up.
func ReadInputs(r io.Reader, name string, replay Replay) (*Workload, error) {
	return readInputs(r, name, replay, maxInputs)
}

func readInputs(r io.Reader, name string, replay Replay, most int) (*Workload, error) {
	fail := func(hint string, err error) (*Workload, error) {
		return nil, &FileError{Name: name, Err: err, Hint: hint}
	}
	const hint = "give the inputs.json that AIPerf writes to its artifact folder"
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return fail("", err)
	}
	if len(text) > most {
		return fail("keep fewer sessions in it", fmt.Errorf("it is larger than %d bytes", most))
	}
	text = bytes.TrimPrefix(text, []byte(bom))
	if len(bytes.TrimSpace(text)) == 0 {
		return fail(hint, errors.New("the file is empty"))
	}
	broken := func(offset int, err error) (*Workload, error) {
		return nil, &FileError{Name: name, Lines: []*LineError{lineError(name, text, 1, 1, offset, err)}, Hint: hint}
	}
	if offset, err := syntax(text); err != nil {
		return broken(offset, err)
	}
	var file struct {
		Data []struct {
			SessionID string            `json:"session_id"`
			Payloads  []json.RawMessage `json:"payloads"`
		} `json:"data"`
	}
	if offset, err := offsetOf(json.Unmarshal(text, &file)); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its words are Go's types
			err = errors.New("not of the shape of inputs.json")
		}
		return broken(offset, err)
	}

	w := &Workload{}
	var several, mute int
	for i, session := range file.Data {
		where := session.SessionID
		if where == "" {
			where = "session " + strconv.Itoa(i)
		}
		if len(session.Payloads) > 1 {
			several++
		}
		for j, raw := range session.Payloads {
			streams, err := w.replay(raw, replay.Model)
			if err != nil {
				return fail(hint, fmt.Errorf("%s, payload %d: %w", clip([]byte(where)), j, err))
			}
			if !streams {
				mute++
			}
		}
	}
	if len(w.slots) == 0 {
		return fail(hint, errors.New("there is no payload in it"))
	}
	if several > 0 {
		w.notes = append(w.notes, fmt.Sprintf("%d of %d sessions have several payloads: each was sent as a request of its own, in the file's order", several, len(file.Data)))
	}
	if mute > 0 {
		w.notes = append(w.notes, fmt.Sprintf("%d of %d payloads do not ask to stream: their first token cannot be timed", mute, len(w.slots)))
	}
	w.entries = int64(len(w.slots))
	w.kind = fmt.Sprintf("replay %s (%d payloads)", name, len(w.slots))
	w.seal(fmt.Sprintf("replay, count %d", replay.Count))
	return w, nil
}

// replay freezes one payload.
func (w *Workload) replay(raw json.RawMessage, model string) (streams bool, err error) {
	body, err := object(raw)
	if err != nil {
		return false, err
	}
	endpoint := Chat
	switch {
	case body.has("messages"):
	case body.has("prompt"):
		endpoint = Completions
	default:
		return false, errors.New("has neither messages nor a prompt")
	}
	if w.endpoint != "" && w.endpoint != endpoint {
		return false, fmt.Errorf("is for the %s endpoint and those before it for %s", endpoint, w.endpoint)
	}
	w.endpoint = endpoint
	output := 0
	for _, f := range body {
		if f.Key == "max_tokens" || f.Key == "max_completion_tokens" {
			if n, err := tokenCount(f.Value); err == nil {
				output = n
			}
		}
	}
	if model != "" {
		w.arena = body.set("model", quote(model)).render(w.arena)
	} else {
		w.arena = append(w.arena, compact(raw)...)
	}
	w.freeze(0, output)
	i, ok := body.find("stream")
	return ok && string(body[i].Value) == "true", nil
}
