package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// The most that is read of what is no document; documents have limits of their own.
const (
	maxSecretFile  = 64 << 10 // a key, a token
	maxCertificate = 4 << 20  // all the authorities of a system are some 220 kB
	maxDatasetFile = 4 << 30  // what is kept of it has a limit of its own
	maxFaultsFile  = 1 << 20
)

// InputError says that a file is none that is read.
type InputError struct {
	Path  string
	Fault InputFault
	Most  int64 // bytes, of TooLarge
}

// InputFault is what is wrong with a file.
type InputFault int

// What can be.
const (
	NotAFile InputFault = iota // it is a folder, a device or a named pipe
	TooLarge                   // it is larger than any of its kind
	GivenUp                    // the command was ended while it was read
)

func (e *InputError) Error() string {
	switch e.Fault {
	case TooLarge:
		return fmt.Sprintf("%s is larger than %s", e.Path, bytesText(e.Most))
	case GivenUp:
		return e.Path + " was not read to its end: interrupted"
	case NotAFile:
	}
	return e.Path + " is no regular file: a named pipe, a device or a folder is not read; /dev/stdin and <(command) are"
}

// Unwrap makes one that was given up what an interrupt is.
func (e *InputError) Unwrap() error {
	if e.Fault == GivenUp {
		return errInterrupted
	}
	return nil
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// streamPath is a file that this process was started with: standard input, or what a
// shell gives for <(command). It may be a pipe, and ends when its writer does.
var streamPath = regexp.MustCompile(`^(?:/dev/stdin|/dev/fd/[0-9]+|/proc/self/fd/[0-9]+)$`)

// openInput opens a file that is read to its end, once. Nothing that has no end and nothing
// that waits for a writer is opened but a stream that the process was given; reading that
// is given up when the command is to end.
func openInput(ended <-chan struct{}, path string) (io.ReadCloser, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	switch mode := info.Mode(); {
	case mode.IsRegular(), filepath.Clean(path) == os.DevNull:
		return f, nil
	case streamPath.MatchString(path) && mode&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeCharDevice) != 0:
		return &inputStream{file: f, path: path, ended: ended, closed: make(chan struct{})}, nil
	}
	_ = f.Close()
	return nil, &InputError{Path: path, Fault: NotAFile}
}

// inputStream is a stream that is read beside, since a read of one may wait for ever.
type inputStream struct {
	file   *os.File
	path   string
	ended  <-chan struct{}
	closed chan struct{}
	part   chan inputPart
	rest   []byte
	err    error
}

type inputPart struct {
	text []byte
	err  error
}

func (s *inputStream) Read(p []byte) (int, error) {
	if s.part == nil {
		s.part = make(chan inputPart)
		go s.pump()
	}
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		select {
		case part := <-s.part:
			s.rest, s.err = part.text, part.err
		case <-s.ended:
			s.err = &InputError{Path: s.path, Fault: GivenUp}
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// streamPause is how long is waited for more of a stream that has nothing yet and cannot
// tell when it has.
const streamPause = 10 * time.Millisecond

// pump reads until the end of the stream or of its reader.
func (s *inputStream) pump() {
	for {
		chunk := make([]byte, 32<<10)
		n, err := s.file.Read(chunk)
		if errors.Is(err, syscall.EAGAIN) {
			time.Sleep(streamPause)
			err = nil
		}
		if n == 0 && err == nil {
			select {
			case <-s.ended:
				return
			case <-s.closed:
				return
			default:
				continue
			}
		}
		select {
		case s.part <- inputPart{chunk[:n], err}:
		case <-s.ended:
			return
		case <-s.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Close leaves the stream to its reader beside, which may be waiting in it: the descriptor
// of the process stays open in any case.
func (s *inputStream) Close() error {
	close(s.closed)
	_ = s.file.SetReadDeadline(time.Unix(1, 0)) // ends a read that waits, where the system can
	return s.file.Close()
}

// readWithin reads no more of a file than one byte over the limit: what is longer is
// refused by the decoder of a document, which has the words for it.
func readWithin(ended <-chan struct{}, path string, most int64) ([]byte, error) {
	f, err := openInput(ended, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// readWhole reads a file that may have so many bytes.
func readWhole(ended <-chan struct{}, path string, most int64) ([]byte, error) {
	text, err := readWithin(ended, path, most)
	if err == nil && int64(len(text)) > most {
		return nil, &InputError{Path: path, Fault: TooLarge, Most: most}
	}
	return text, err
}

// maxKubeconfig is how large a kubeconfig may be, with the certificates in it.
const maxKubeconfig = 16 << 20

// kubeconfigEnds says why a kubeconfig is not read: client-go reads to the end whatever it is
// given, and waits for who writes to a pipe. One that is not there is client-go's to tell.
func kubeconfigEnds(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	switch mode := info.Mode(); {
	case mode.IsRegular() && info.Size() > maxKubeconfig:
		return &InputError{Path: path, Fault: TooLarge, Most: maxKubeconfig}
	case mode.IsRegular(), filepath.Clean(path) == os.DevNull:
		return nil
	case streamPath.MatchString(path) && mode&fs.ModeNamedPipe != 0: // of <(command), which ends
		return nil
	}
	return &InputError{Path: path, Fault: NotAFile}
}
