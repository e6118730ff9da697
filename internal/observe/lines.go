package observe

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lines splits a stream into lines of bounded length.
type lines struct{ from *bufio.Reader }

func linesOf(r io.Reader) *lines { return &lines{bufio.NewReaderSize(r, maxLine)} }

// next is the next line, without its end, until the call after. It is whole unless
// it was too long or the stream ended in its middle; then it is its beginning.
func (l *lines) next() (line []byte, whole bool, err error) {
	line, err = l.from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.from.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			err = nil // the next call tells
		}
		return line, false, err
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return line, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return bytes.TrimRight(line, "\r\n"), true, nil
}
