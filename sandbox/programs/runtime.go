package programs

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// runtime does what a command line asks of Dynamo's runtime image. It runs the modules
// of Dynamo that it knows, and says of every other command that the image has it not.
func runtime(ctx context.Context, c *Call) int {
	line := strings.Join(c.Args, " ")
	switch {
	case strings.Contains(line, "dynamo.frontend"):
		return frontend(ctx, c)
	case strings.Contains(line, "dynamo.vllm"), strings.Contains(line, "dynamo.mocker"):
		return worker(ctx, c)
	case strings.Contains(line, "snapshot_download"), strings.Contains(line, "hf download"), strings.Contains(line, "huggingface-cli"):
		return populate(ctx, c)
	}
	c.fail("the stand-in of the runtime image does not know what to do for %q", line)
	return 127
}

// flagOf is the value of a flag anywhere in a command line, also in one that is given to
// a shell as one word.
func flagOf(args []string, names ...string) string {
	words := strings.FieldsFunc(strings.Join(args, " "), func(r rune) bool { return strings.ContainsRune(" \t\n\"';\\", r) })
	for i, word := range words {
		for _, name := range names {
			if value, ok := strings.CutPrefix(word, name+"="); ok {
				return value
			}
			if word == name && i+1 < len(words) {
				return words[i+1]
			}
		}
	}
	return ""
}

// run runs another program in the place of this one: signals go to it, its exit code is
// ours, and it does not outlive us.
func (c *Call) run(ctx context.Context, env []string, argv ...string) int {
	cmd, err := c.start(ctx, env, argv...)
	if err != nil {
		return c.fail("%v", err)
	}
	return exitCode(c, cmd.Wait())
}

func (c *Call) start(ctx context.Context, env []string, argv ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = c.Stdout, c.Stderr, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd, cmd.Start()
}

func exitCode(c *Call, err error) int {
	switch e := err.(type) {
	case nil:
		return 0
	case *exec.ExitError:
		if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return 128 + int(s.Signal())
		}
		return e.ExitCode()
	default:
		return c.fail("%v", err)
	}
}
