// Package http1 decodes HTTP/1.1 answers from whatever pieces the network
// delivers them in.
//
// Decoder is all there is: Feed it the bytes of each read, and it hands the
// head and then the body, without its transfer coding, to a Sink. It holds no
// clock and no connection, copies only a head that was split between reads, and
// allocates nothing once warm. net/http is the oracle in its tests; it is not
// used here because it reads through a buffer and a goroutine of its own, and
// the moment at which a byte arrived is then lost.
package http1

import (
	"bytes"
	"errors"
	"fmt"
)

// Head is what an answer's status line and headers say that matters here.
type Head struct {
	Status      int
	EventStream bool   // the content type is text/event-stream
	HTML        bool   // the content type is text/html or XHTML
	Close       bool   // the server will close the connection
	Backend     uint64 // the BackendID of who has answered, by a proxy's header; 0: it does not say
}

// WithType is the head with what the given content type says.
func (h Head) WithType(contentType string) Head {
	h.setType([]byte(contentType))
	return h
}

func (h *Head) setType(value []byte) {
	h.EventStream = prefixFold(value, "text/event-stream")
	h.HTML = prefixFold(value, "text/html") || prefixFold(value, "application/xhtml")
}

// Sink takes an answer as it arrives. The slices are the caller's: they are
// gone when the method returns. An error ends the decoding.
type Sink interface {
	Head(Head) error
	Body([]byte) error
}

// MaxHead is the largest head that is accepted.
const MaxHead = 256 << 10

var (
	// ErrTruncated says that the connection ended inside an answer.
	ErrTruncated = errors.New("the connection closed in the middle of the answer")
	// ErrNoAnswer says that the connection ended before any byte of an answer.
	ErrNoAnswer = errors.New("the connection closed before any answer")
)

// SyntaxError says what in an answer is not HTTP/1.1.
type SyntaxError struct{ What string }

func (e *SyntaxError) Error() string { return "not an HTTP/1.1 answer: " + e.What }

type state uint8

const (
	inHead state = iota
	inSized
	inUntilClose
	inChunkSize
	inChunkExtension
	inChunkData
	inChunkEnd
	inTrailer
	done
)

// Decoder decodes one answer after the other. The zero value is ready to use.
type Decoder struct {
	state  state
	head   []byte // a head that is not whole yet
	left   uint64 // bytes of the body, or of the chunk, still to come
	digits int    // of the chunk size being read
	length int    // of the trailer line being read
	begun  bool
	close  bool
}

// Reset makes the Decoder ready for the next answer and keeps its memory.
func (d *Decoder) Reset() { *d = Decoder{head: d.head[:0]} }

// Done reports that the answer is whole.
func (d *Decoder) Done() bool { return d.state == done }

// Reusable reports whether the connection may carry another request once Done.
func (d *Decoder) Reusable() bool { return d.state == done && !d.close }

// End tells the Decoder that the connection was closed. It returns nil when
// that is how the answer ends.
func (d *Decoder) End() error {
	switch {
	case d.state == done:
		return nil
	case d.state == inUntilClose:
		d.state = done
		return nil
	case !d.begun:
		return ErrNoAnswer
	}
	return ErrTruncated
}

// Feed decodes the next bytes and returns how many of them belong to this
// answer: fewer than len(b) only when the answer ended before them.
func (d *Decoder) Feed(b []byte, to Sink) (int, error) {
	rest := b
	var err error
	for len(rest) > 0 && d.state != done && err == nil {
		d.begun = true
		rest, err = d.step(rest, to)
	}
	return len(b) - len(rest), err
}

func (d *Decoder) step(b []byte, to Sink) ([]byte, error) {
	switch d.state {
	case inHead:
		return d.takeHead(b, to)
	case inSized, inChunkData:
		n := min(uint64(len(b)), d.left)
		if err := to.Body(b[:n]); err != nil {
			return b, err
		}
		if d.left -= n; d.left == 0 {
			if d.state == inSized {
				d.state = done
			} else {
				d.state = inChunkEnd
			}
		}
		return b[n:], nil
	case inUntilClose:
		return nil, to.Body(b)
	case inChunkSize:
		return d.takeChunkSize(b)
	case inChunkExtension:
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return nil, nil
		}
		d.beginChunk()
		return b[end+1:], nil
	case inChunkEnd:
		switch b[0] {
		case '\r':
		case '\n':
			d.state = inChunkSize
		default:
			return b, &SyntaxError{"a chunk is longer than its size"}
		}
		return b[1:], nil
	case inTrailer:
		switch b[0] {
		case '\r':
		case '\n':
			if d.length == 0 {
				d.state = done
			}
			d.length = 0
		default:
			d.length++
		}
		return b[1:], nil
	case done:
	}
	return b, nil
}

func (d *Decoder) takeChunkSize(b []byte) ([]byte, error) {
	for i, c := range b {
		var digit byte
		switch {
		case '0' <= c && c <= '9':
			digit = c - '0'
		case 'a' <= c && c <= 'f':
			digit = c - 'a' + 10
		case 'A' <= c && c <= 'F':
			digit = c - 'A' + 10
		case d.digits > 0 && (c == '\r' || c == ';' || c == ' ' || c == '\t'):
			d.state = inChunkExtension
			return b[i+1:], nil
		case d.digits > 0 && c == '\n':
			d.beginChunk()
			return b[i+1:], nil
		default:
			return b, &SyntaxError{fmt.Sprintf("chunk size has byte %q", c)}
		}
		if d.digits++; d.digits > 16 {
			return b, &SyntaxError{"chunk size too large"}
		}
		d.left = d.left<<4 | uint64(digit)
	}
	return nil, nil
}

func (d *Decoder) beginChunk() {
	d.digits = 0
	if d.left == 0 {
		d.state, d.length = inTrailer, 0
		return
	}
	d.state = inChunkData
}

func (d *Decoder) takeHead(b []byte, to Sink) ([]byte, error) {
	end := d.headEnd(b)
	own := b // of the head; what follows it in the same read is the body's
	if end >= 0 {
		own = b[:end]
	}
	if len(d.head)+len(own) > MaxHead {
		return b, &SyntaxError{"head larger than 256 KiB"}
	}
	if end >= 0 && len(d.head) == 0 {
		return b[end:], d.parseHead(own, to)
	}
	if err := d.carry(own); err != nil || end < 0 {
		return nil, err
	}
	head := d.head
	d.head = d.head[:0]
	return b[end:], d.parseHead(head, to)
}

// headEnd finds where in b the head ends, of which d.head is what came before. The
// blank line may straddle the two pieces.
func (d *Decoder) headEnd(b []byte) int {
	if n := len(d.head); n > 0 {
		var seam [4]byte // the last two bytes before b, and its first two
		before := copy(seam[:2], d.head[max(0, n-2):])
		all := before + copy(seam[before:before+2], b)
		if end := headEnd(seam[:all]); end > before {
			return end - before
		}
	}
	return headEnd(b)
}

func (d *Decoder) carry(b []byte) error {
	d.head = append(d.head, b...)
	// What is not HTTP must not be waited for: a server of another protocol may
	// never send a blank line.
	n := min(len(d.head), len(protocol))
	if string(d.head[:n]) != protocol[:n] {
		return &SyntaxError{fmt.Sprintf("it begins with %q", beginning(d.head, 16))}
	}
	return nil
}

const protocol = "HTTP/1."

// beginning is what an error has of a line. The ellipsis says that it was cut: what is
// secret may have been cut with it.
func beginning(line []byte, most int) string {
	if len(line) <= most {
		return string(line)
	}
	return string(line[:most]) + "…"
}

// headEnd finds the end of the blank line that ends a head.
func headEnd(b []byte) int {
	for from := 0; ; {
		lf := bytes.IndexByte(b[from:], '\n')
		if lf < 0 {
			return -1
		}
		next := from + lf + 1
		if next < len(b) && b[next] == '\n' {
			return next + 1
		}
		if next+1 < len(b) && b[next] == '\r' && b[next+1] == '\n' {
			return next + 2
		}
		from = next
	}
}

func (d *Decoder) parseHead(b []byte, to Sink) error {
	line, b := cutLine(b)
	if len(line) < len("HTTP/1.1 200") || string(line[:len(protocol)]) != protocol || line[8] != ' ' {
		return &SyntaxError{fmt.Sprintf("it begins with %q", beginning(line, 16))}
	}
	status, ok := decimal(line[9:12])
	if !ok || status < 100 || (len(line) > 12 && line[12] != ' ') {
		return &SyntaxError{fmt.Sprintf("status line %q", beginning(line, 40))}
	}
	old := line[7] == '0' // HTTP/1.0: no chunks, and closed by default
	h := Head{Status: int(status), Close: old}
	sized, chunked, rank := false, false, 0
	for len(b) > 0 {
		line, b = cutLine(b)
		colon := bytes.IndexByte(line, ':')
		if colon < 0 {
			if len(line) == 0 {
				continue
			}
			return &SyntaxError{fmt.Sprintf("header line %q", beginning(line, 40))}
		}
		name, value := line[:colon], bytes.TrimSpace(line[colon+1:])
		switch len(name) {
		case len("connection"):
			if fold(name, "connection") {
				h.Close = (h.Close || containsFold(value, "close")) && !containsFold(value, "keep-alive")
			}
		case len("content-type"):
			if fold(name, "content-type") {
				h.setType(value)
			}
		case len("content-length"):
			if fold(name, "content-length") {
				n, ok := decimal(value)
				if !ok || (sized && n != d.left) {
					return &SyntaxError{fmt.Sprintf("content length %q", beginning(value, 40))}
				}
				sized, d.left = true, n
			}
		case len("transfer-encoding"):
			if fold(name, "transfer-encoding") && !old {
				if !fold(value, "chunked") {
					return &SyntaxError{fmt.Sprintf("transfer coding %q", beginning(value, 40))}
				}
				chunked = true
			}
		default:
			if r := BackendRank(name); r > rank {
				h.Backend, rank = BackendID(value), r
			}
		}
	}
	switch {
	case h.Status < 200: // 100 Continue, 103 Early Hints: the answer is yet to come
		d.left = 0
		return nil
	case h.Status == 204 || h.Status == 304:
		d.state, d.left = done, 0
	case chunked:
		d.state, d.left = inChunkSize, 0
	case sized && d.left == 0:
		d.state = done
	case sized:
		d.state = inSized
	default:
		d.state, h.Close = inUntilClose, true
	}
	d.close = h.Close
	return to.Head(h)
}

func cutLine(b []byte) (line, rest []byte) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return b, nil
	}
	line, rest = b[:end], b[end+1:]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	return line, rest
}

func decimal(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// fold compares with a lower-case word, ignoring case.
func fold(b []byte, lower string) bool {
	return len(b) == len(lower) && prefixFold(b, lower)
}

func prefixFold(b []byte, lower string) bool {
	if len(b) < len(lower) {
		return false
	}
	for i := range len(lower) {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func containsFold(b []byte, lower string) bool {
	for i := 0; i+len(lower) <= len(b); i++ {
		if prefixFold(b[i:], lower) {
			return true
		}
	}
	return false
}
