package redact

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Mask takes secrets that are known out of what others say, in every form in which they
// may repeat them. A nil one hides nothing.
type Mask struct {
	forms []string // of the secrets, the longest first
	hide  *strings.Replacer
	loose []*loose // of the secrets that may be written in yet other ways
}

// shortest is how long a secret has to be to be one. What is shorter is a word that
// somebody put there because something wanted one, and would be found in the middle of
// other words.
const shortest = 6

// NewMask hides secrets. Without one that is long enough it is nil.
func NewMask(secrets ...string) *Mask {
	found, m := map[string]bool{}, &Mask{}
	for _, secret := range secrets {
		word := strings.TrimSpace(secret) // who reads it from a file or a variable does the same
		if len(word) < shortest || found[word] {
			continue
		}
		if l := looseOf(word); l != nil {
			m.loose = append(m.loose, l)
		}
		for _, form := range formsOf(word) {
			found[form] = true
		}
	}
	if len(found) == 0 {
		return nil
	}
	for form := range found {
		m.forms = append(m.forms, form)
	}
	slices.SortFunc(m.forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, form := range m.forms {
		pairs = append(pairs, form, Hidden)
	}
	m.hide = strings.NewReplacer(pairs...)
	return m
}

// formsOf are the ways in which a word is written: as it is, in an address, in JSON (and
// JSON in a string of JSON), in a message of Go, in HTML, and in base64.
func formsOf(word string) []string {
	forms := []string{word, url.QueryEscape(word), url.PathEscape(word), html.EscapeString(word)}
	for _, escaped := range []string{url.QueryEscape(word), url.PathEscape(word)} {
		forms = append(forms, smallEscapes(escaped))
	}
	for _, text := range []string{word, inJSON(word), plainJSON(word)} {
		forms = append(forms, inJSON(text), plainJSON(text))
	}
	quoted := strconv.Quote(word)
	ascii := strconv.QuoteToASCII(word)
	forms = append(forms, quoted[1:len(quoted)-1], ascii[1:len(ascii)-1])
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		forms = append(forms, e.EncodeToString([]byte(word)))
	}
	return append(forms, withinBase64(word)...)
}

// inJSON is a string of JSON as encoding/json writes it, without its quotes.
func inJSON(word string) string {
	text, _ := json.Marshal(word) // a string can be written
	return string(text[1 : len(text)-1])
}

// plainJSON is it where nothing is escaped for HTML's sake.
func plainJSON(word string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(word) // a string can be written
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

// smallEscapes writes %2F as %2f.
func smallEscapes(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// withinBase64 is what shows of a word in the base64 of something longer, such as
// user:password, by where in it the word begins. The characters at both ends depend on
// what stands beside it.
func withinBase64(word string) (forms []string) {
	for before := range 3 {
		text := base64.StdEncoding.EncodeToString(append(make([]byte, before), word...))
		from, to := (before*8+5)/6, (before+len(word))*8/6
		if inner := text[from:to]; len(inner) >= shortest {
			forms = append(forms, inner, strings.NewReplacer("+", "-", "/", "_").Replace(inner))
		}
	}
	return forms
}

// Text is a text without the secrets. One that was cut, and so ends with an ellipsis, has
// no beginning of one there either.
func (m *Mask) Text(text string) string {
	if m == nil {
		return text
	}
	text = m.hide.Replace(text)
	for _, l := range m.loose {
		text = l.hide(text)
	}
	if !strings.Contains(text, ellipsis) {
		return text
	}
	var kept strings.Builder
	for {
		before, after, cut := strings.Cut(text, ellipsis)
		if !cut {
			return kept.String() + text
		}
		if n := m.begunText(before); n > 0 {
			before = before[:len(before)-n] + Hidden
		}
		kept.WriteString(before + ellipsis)
		text = after
	}
}

// shortestBeginning is how much of a secret has to stand at the end of a text for it to be
// taken for the beginning of one.
const shortestBeginning = 4

// Part is the beginning of a text whose rest is unknown, without the secrets: one that
// begins at its end is hidden too.
func (m *Mask) Part(text string) string {
	if m == nil {
		return text
	}
	text = m.Text(text)
	open := strings.TrimRight(text, "\"'`\\}]) .") // what was cut may have been quoted after that
	if n := m.begunText(open); n >= shortestBeginning {
		return open[:len(open)-n] + Hidden + text[len(open):]
	}
	return text
}

// Foreign is what somebody else said, without the secrets and without what looks like
// one. It is for a text that has not been cut.
func (m *Mask) Foreign(text string) string { return Masked(m.Text(text)) }

// JSON is a document of JSON, or several, without the secrets in the texts that it has. Its
// numbers and the names of its fields stay as they are: a secret may look like one of those.
func (m *Mask) JSON(document []byte) []byte {
	if m == nil || !m.isIn(document) {
		return document
	}
	masked := make([]byte, 0, len(document))
	for at := 0; at < len(document); {
		begin := bytes.IndexByte(document[at:], '"')
		if begin < 0 {
			return append(masked, document[at:]...)
		}
		begin += at
		end := endOfText(document, begin)
		masked = append(masked, document[at:begin]...)
		if text := document[begin:end]; isFieldName(document[end:]) {
			masked = append(masked, text...)
		} else {
			masked = append(masked, m.textOfJSON(text)...)
		}
		at = end
	}
	return masked
}

// textOfJSON is a text of JSON, with its quotation marks, without the secrets. What is masked
// is what it says: a secret may begin with the second half of an escape.
func (m *Mask) textOfJSON(text []byte) []byte {
	if !m.isIn(text) {
		return text
	}
	says := ""
	if err := json.Unmarshal(text, &says); err != nil {
		return []byte(m.Text(string(text))) // it is no JSON
	}
	masked := m.Text(says)
	if masked == says {
		return text
	}
	return JSON([]byte(`"` + plainJSON(masked) + `"`))
}

// isIn says whether there may be a secret in what is written as JSON, where letters may be
// escaped too.
func (m *Mask) isIn(document []byte) bool {
	return m.Text(string(document)) != string(document) || bytes.Contains(document, []byte(`\u00`))
}

// endOfText is where a text of JSON ends that begins with a quotation mark there.
func endOfText(document []byte, begin int) int {
	for i := begin + 1; i < len(document); i++ {
		switch document[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(document)
}

// isFieldName says of what stands behind a text that the text is a field's name.
func isFieldName(behind []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(behind, " \t\r\n"), []byte(":"))
}

// JSONWriter passes documents of JSON on as JSON does. A line, or a whole document, is held
// back until it has come.
func (m *Mask) JSONWriter(to io.Writer) io.WriteCloser { return &maskedJSON{mask: m, to: to} }

type maskedJSON struct {
	mask *Mask
	to   io.Writer
	held []byte // the beginning of a line
}

func (w *maskedJSON) Write(p []byte) (int, error) {
	if w.mask == nil {
		return w.to.Write(p)
	}
	end := bytes.LastIndexByte(p, '\n') + 1 // none is inside a text of JSON
	if end == 0 {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	lines := append(w.held, p[:end]...)
	w.held = append([]byte(nil), p[end:]...)
	if _, err := w.to.Write(w.mask.JSON(lines)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *maskedJSON) Close() error {
	_, err := w.to.Write(w.mask.JSON(w.held))
	w.held = nil
	return err
}

// File is the content of a file without the secrets. One that is packed is packed again.
func (m *Mask) File(name string, from io.Reader) io.Reader {
	switch {
	case m == nil:
		return from
	case !strings.HasSuffix(name, ".gz"):
		return m.Reader(from)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(m.repack(w, from)) }()
	return r
}

// mostUnpacked is how much of a packed file is looked at: a few bytes can be packed that
// never end.
const mostUnpacked = 16 << 30

var errUnpacked = fmt.Errorf("a packed file has more than %d GiB", mostUnpacked>>30)

func (m *Mask) repack(w io.Writer, from io.Reader) error {
	unpacked, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(w)
	if n, err := io.Copy(packed, m.Reader(io.LimitReader(unpacked, mostUnpacked))); err != nil {
		return err
	} else if n >= mostUnpacked {
		return errUnpacked
	}
	return packed.Close()
}

// Reader gives what it reads without the secrets, and at once: what could be the
// beginning of one is all that it holds back.
func (m *Mask) Reader(from io.Reader) io.Reader {
	if m == nil {
		return from
	}
	return &maskedReader{mask: m, from: from}
}

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
		r.read, r.err = []byte(r.mask.hide.Replace(string(append(r.read, chunk[:n]...)))), err
		r.free = len(r.read) - r.mask.begun(r.read)
		if err != nil && r.free < len(r.read) { // it was cut off where a secret may begin
			r.read = append(r.read[:r.free], Hidden...)
			r.free = len(r.read)
		}
	}
	n := copy(p, r.read[:r.free])
	r.read, r.free = r.read[n:], r.free-n
	return n, nil
}

// begun is how many bytes at the end could be the beginning of a secret.
func (m *Mask) begun(text []byte) (longest int) {
	for _, form := range m.forms {
		for n := min(len(form)-1, len(text)); n > longest; n-- {
			if bytes.HasSuffix(text, []byte(form[:n])) {
				longest = n
			}
		}
	}
	return longest
}

// begunText is begun for a text that may have a secret in yet other ways.
func (m *Mask) begunText(text string) int {
	longest := m.begun([]byte(text))
	for _, l := range m.loose {
		longest = max(longest, l.begun(text))
	}
	return longest
}
