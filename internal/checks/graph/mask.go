package graph

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/kube"
)

// Mask takes the token of a run out of what others say. observe.Masked finds what looks
// like a secret; a mirror's token may look like anything, but the command knows it.
//
// A command that attaches may not have been given the token. It does not ask the cluster
// for it, since that would take the right to read Secrets: then the patterns are all that
// is left.
type Mask struct {
	words []string // the longest first
	hide  *strings.Replacer
}

// shortestSecret is how long a token has to be to be one. What is shorter is a word that
// somebody put there because something wanted one; without it no text could be read.
const shortestSecret = 8

// NewMask hides a secret: as it is, and as a Secret, an address, JSON and a message of Go
// write it. Without one it is nil, which hides nothing.
func NewMask(secret Secret) *Mask {
	word := strings.TrimSpace(string(secret)) // who reads it from a file or a variable does the same
	if len(word) < shortestSecret {
		return nil
	}
	inJSON, _ := json.Marshal(word) // a string can be written
	m := &Mask{words: []string{word, base64.StdEncoding.EncodeToString([]byte(word)), url.QueryEscape(word)}}
	for _, quoted := range []string{string(inJSON), strconv.Quote(word)} {
		m.words = append(m.words, quoted[1:len(quoted)-1])
	}
	slices.SortFunc(m.words, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, w := range m.words {
		pairs = append(pairs, w, hidden)
	}
	m.hide = strings.NewReplacer(pairs...)
	return m
}

// text is a text without the secret.
func (m *Mask) text(s string) string {
	if m == nil {
		return s
	}
	return m.hide.Replace(s)
}

// value is a copy of a value of JSON without the secret.
func (m *Mask) value(v any) any {
	switch v := v.(type) {
	case string:
		return m.text(v)
	case kube.Object:
		return m.value(map[string]any(v))
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, one := range v {
			all[m.text(key)] = m.value(one)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, one := range v {
			all[i] = m.value(one)
		}
		return all
	}
	return v
}

// File is the content of a file without the secret. One that is packed is packed again.
func (m *Mask) File(name string, from io.Reader) io.Reader {
	switch {
	case m == nil:
		return from
	case !strings.HasSuffix(name, ".gz"):
		return &maskedReader{mask: m, from: from}
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(m.repack(w, from)) }()
	return r
}

func (m *Mask) repack(w io.Writer, from io.Reader) error {
	unpacked, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(w)
	if _, err := io.Copy(packed, &maskedReader{mask: m, from: unpacked}); err != nil {
		return err
	}
	return packed.Close()
}

// maskedReader gives what it reads without the secret, and at once: what could be the
// beginning of one is all that it holds back.
type maskedReader struct {
	mask *Mask
	from io.Reader
	read []byte // and not given yet
	free int    // so much of it can be given
	err  error
}

func (r *maskedReader) Read(p []byte) (int, error) {
	for r.free == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var chunk [32 << 10]byte
		n, err := r.from.Read(chunk[:])
		r.read, r.err = []byte(r.mask.text(string(append(r.read, chunk[:n]...)))), err
		r.free = len(r.read) - r.mask.begun(r.read)
		if err != nil && r.free < len(r.read) { // it was cut off where a secret may begin
			r.read = append(r.read[:r.free], hidden...)
			r.free = len(r.read)
		}
	}
	n := copy(p, r.read[:r.free])
	r.read, r.free = r.read[n:], r.free-n
	return n, nil
}

// begun is how many bytes at the end could be the beginning of a secret.
func (m *Mask) begun(text []byte) (longest int) {
	for _, w := range m.words {
		for n := min(len(w)-1, len(text)); n > longest; n-- {
			if bytes.HasSuffix(text, []byte(w[:n])) {
				longest = n
			}
		}
	}
	return longest
}
