package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"aicr/internal/observe"
	"aicr/internal/redact"
)

// access reads what the sources' servers want to know, and what is wanted of them.
func (a *app) access(o *watchOptions) (config *tls.Config, token string, wrong []error) {
	config, err := tlsConfig(a.ended, o.caFile, o.insecure)
	if err != nil {
		wrong = append(wrong, err)
	}
	if o.tokenFile == "" {
		token, _ = a.env.LookupEnv(metricsTokenVariable)
		return config, strings.TrimSpace(token), wrong
	}
	const hint = "write the bare token into the file that --metrics-token-file names"
	text, err := readWhole(a.ended, o.tokenFile, maxSecretFile)
	switch token = strings.TrimSpace(string(text)); {
	case err != nil:
		wrong = append(wrong, misuse(hint, "reading the token: %w", unnamed(err)))
	case token == "":
		wrong = append(wrong, misuse(hint, "reading the token: %s is empty", o.tokenFile))
	}
	return config, token, wrong
}

// targetFile is a list of pages that is read again when it changes.
type targetFile struct {
	path, flag string
	secrets    *secrets // of the command: a page's URL may hold one
	ended      <-chan struct{}
	targets    []observe.Target
	text       []byte
	said       string
}

// maxTargetFile is how large a list may be.
const maxTargetFile = 4 << 20

// read reads the file, and reports whether it says something else than before.
// One that is wrong changes nothing.
func (f *targetFile) read() (changed bool, err error) {
	const hint = "it wants http://HOST:PORT/metrics, or a file with one a line, or with Prometheus' file_sd targets"
	if f.text != nil && streamPath.MatchString(f.path) {
		return false, nil // what a stream had to say it has said
	}
	text, err := readWhole(f.ended, f.path, maxTargetFile)
	if err != nil {
		return false, misuse(hint, "--%s: %w", f.flag, err)
	}
	if f.text != nil && bytes.Equal(text, f.text) {
		return false, nil
	}
	targets, err := observe.ReadTargets(text)
	if err != nil {
		return false, misuse(hint, "--%s: %s: %w", f.flag, f.path, err)
	}
	f.text, f.targets = append([]byte{}, text...), targets
	for _, t := range targets {
		f.secrets.add(redact.InURL(t.URL)...)
	}
	return true, nil
}

// reread reads the lists again, and reports whether one of them changed.
func (j *watchJob) reread() bool {
	any := false
	for _, f := range j.files {
		changed, err := f.read()
		any = any || changed
		said := ""
		if err != nil {
			said = err.Error()
		}
		if said != f.said && said != "" {
			j.app.say("%s; its sources are left as they were", said)
		} else if changed {
			j.app.say("--%s: %s lists %d now", f.flag, f.path, len(f.targets))
		}
		f.said = said
	}
	return any
}

// withScheme lets a page be named by host and port alone, as Prometheus' targets
// are, unless there is a file of that name.
func withScheme(v string) string {
	address, _, _ := strings.Cut(v, "?")
	if _, port, err := net.SplitHostPort(address); err != nil || isURL(v) || strings.Trim(port, "0123456789") != "" || port == "" || readable(v) == nil {
		return v
	}
	return "http://" + v
}

// readable says why a file cannot be read, or nothing.
func readable(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer is not waited for
	if err != nil {
		return err
	}
	return f.Close()
}

// localSources are those on this machine.
func (j *watchJob) localSources() []observe.Source {
	o := j.options
	var all []observe.Source
	for _, v := range o.nodes {
		if v == local {
			host, err := os.Hostname()
			if err != nil {
				host = local
			}
			all = append(all, observe.LocalNode(systemFiles{}, host))
		}
	}
	if o.gpu == local {
		all = append(all, observe.LocalGPU(runCommand, time.Duration(o.interval)))
	}
	pages := j.namesOfPages()
	for _, v := range o.logs {
		path, worker := splitLog(v)
		open := func(ctx context.Context) (io.ReadCloser, error) { return openTail(ctx, path) }
		if path == "-" {
			open = func(context.Context) (io.ReadCloser, error) { return j.openStdin(), nil }
		}
		name := redact.Clean(path)
		if path == "-" {
			name = "standard input"
		}
		if j.logs[name] == nil {
			j.logs[name] = &readBytes{}
		}
		count := j.logs[name]
		counted := func(ctx context.Context) (io.ReadCloser, error) {
			from, err := open(ctx)
			if err != nil {
				return nil, err
			}
			return count.of(from), nil
		}
		// A log of no worker in particular may be that of any page.
		if l := (observe.Labels{Name: redact.Clean(worker)}); pages[worker] || worker == "" && len(pages) > 0 {
			all = append(all, observe.LogOfPage(counted, name, l))
		} else {
			all = append(all, observe.Log(counted, name, l))
		}
	}
	return all
}

// splitLog parts a log's file from the name of the worker whose log it is, if that is given.
func splitLog(v string) (path, worker string) {
	const label = " name="
	if i := strings.LastIndex(v, label); i > 0 {
		return strings.TrimSpace(v[:i]), strings.TrimSpace(v[i+len(label):])
	}
	return v, ""
}

// namesOfPages are what the workers' pages go by: the name that each was given, and where it is.
func (j *watchJob) namesOfPages() map[string]bool {
	names := map[string]bool{}
	for _, s := range j.workerPages() {
		names[s.Instance] = true
		if s.Labels.Name != "" {
			names[s.Labels.Name] = true
		}
	}
	return names
}

// openStdin reads standard input. A read of it cannot be ended, so that it is done
// beside, by who is left to the end of the program.
func (j *watchJob) openStdin() io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, j.app.env.Stdin)
		_ = in.CloseWithError(err)
		close(j.stdinEnded)
	}()
	return out
}

// onlyStdin reports that there is nothing to watch once standard input has ended.
func (o *watchOptions) onlyStdin() bool {
	if len(o.logs) != 1 {
		return false
	}
	path, _ := splitLog(o.logs[0])
	return path == "-" && len(o.workers)+len(o.frontends)+len(o.gpus)+len(o.nodes) == 0 && o.gpu != local
}

// systemFiles opens files of this machine.
type systemFiles struct{}

func (systemFiles) Open(name string) (io.ReadCloser, error) { return os.Open(name) }

// runCommand starts a program; closing its output ends it.
func runCommand(ctx context.Context, name string, args ...string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, name, args...)
	out, in, err := os.Pipe()
	if err != nil {
		cancel()
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in // nvidia-smi says on either what it does not know
	cmd.WaitDelay = time.Second
	dieTogether(cmd)
	err = cmd.Start()
	_ = in.Close() // the program has its own
	if err != nil {
		cancel()
		_ = out.Close()
		if errors.Is(err, exec.ErrNotFound) {
			err = errors.New(name + " is not on this machine")
		}
		return nil, err
	}
	return &running{File: out, cmd: cmd, cancel: cancel}, nil
}

// running is the output of a program.
type running struct {
	*os.File
	cmd    *exec.Cmd
	cancel context.CancelFunc
}

// Close ends the program. One that a driver holds fast is not waited for: it is
// what is being looked for.
func (r *running) Close() error {
	r.cancel()
	err := r.File.Close()
	gone := make(chan struct{})
	go func() {
		_ = r.cmd.Wait() // it was ended; how is of no interest
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(time.Second):
	}
	return err
}

// tailEvery is how often a file is looked at for more.
const tailEvery = 250 * time.Millisecond

// tail reads a file as it grows, from its end on. A file that was replaced or
// cut, as logs are rotated, is read from its start.
type tail struct {
	ctx  context.Context // a Reader has no other way to be ended
	path string
	file *os.File
	at   int64
	left time.Time // when it was seen that the path has become another file
}

func openTail(ctx context.Context, path string) (io.ReadCloser, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	at, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &tail{ctx: ctx, path: path, file: file, at: at}, nil
}

func (t *tail) Read(p []byte) (int, error) {
	for {
		n, err := t.file.Read(p)
		t.at += int64(n)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := t.turn(); err != nil {
			return 0, err
		}
		select {
		case <-t.ctx.Done():
			return 0, io.EOF
		case <-time.After(tailEvery):
		}
	}
}

// turn goes over to what the path has become.
func (t *tail) turn() error {
	now, err := os.Stat(t.path)
	if err != nil {
		return nil // it is being rotated, or is gone: what is open is still read
	}
	was, err := t.file.Stat()
	if err != nil {
		return err
	}
	switch {
	case !os.SameFile(now, was) && t.left.IsZero():
		t.left = time.Now() // who writes to the old one may still have something to say
	case !os.SameFile(now, was) && time.Since(t.left) < lastWords:
	case !os.SameFile(now, was):
		t.left = time.Time{}
		fresh, err := os.Open(t.path)
		if err != nil {
			return nil
		}
		_ = t.file.Close()
		t.file, t.at = fresh, 0
	case now.Size() < t.at:
		if _, err := t.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		t.at = 0
	}
	return nil
}

// lastWords is how long a file that was replaced is still read.
const lastWords = time.Second

func (t *tail) Close() error { return t.file.Close() }
