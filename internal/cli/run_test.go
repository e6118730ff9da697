package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/checks/graph"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// testEnv is a world in which only what a test sets exists.
func testEnv(vars map[string]string, args ...string) Env {
	return Env{
		Args:      args,
		Stdin:     strings.NewReader(""),
		Stdout:    io.Discard,
		Stderr:    io.Discard,
		LookupEnv: func(k string) (string, bool) { v, ok := vars[k]; return v, ok },
		Now:       time.Now,
		Build:     Build{Version: "v0"},
	}
}

func testTree(t *testing.T) *cobra.Command {
	t.Helper()
	return newApp(testEnv(nil)).root(commands)
}

func everyCommand(root *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		var visit func(*cobra.Command) bool
		visit = func(c *cobra.Command) bool {
			for _, sub := range c.Commands() {
				if !visit(sub) {
					return false
				}
			}
			return yield(c)
		}
		visit(root)
	}
}

func TestEveryCommandIsPresentable(t *testing.T) {
	imperative := regexp.MustCompile(`^[A-Z][a-z]*[a-rt-z] .*[^.]$`) // no third person, no period
	valueName := regexp.MustCompile(`^[A-Z][A-Z0-9:=,./-]*$|\|`)
	for cmd := range everyCommand(testTree(t)) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if !imperative.MatchString(cmd.Short) {
				t.Errorf("Short is %q, want an imperative without a period", cmd.Short)
			}
			if !strings.Contains(cmd.Example, "aicr ") || !strings.HasPrefix(cmd.Example, "  ") {
				t.Errorf("Example is %q, want indented calls of aicr", cmd.Example)
			}
			if cmd.HasParent() && (cmd.PersistentPreRunE != nil || cmd.PersistentPreRun != nil) {
				t.Error("a persistent pre-run hides the root's, which resolves the settings; use PreRunE")
			}
			if cmd.Run != nil {
				t.Error("Run cannot fail; use RunE")
			}
			var help bytes.Buffer
			writeHelp(&help, layout.Palette{}, cmd, 80)
			if e, u := strings.Index(help.String(), "Example:"), strings.Index(help.String(), "Usage:"); e < 0 || u < e {
				t.Errorf("the help does not show the example before the usage:\n%s", &help)
			}
			for line := range strings.Lines(help.String()) {
				if n := layout.Width(strings.TrimSuffix(line, "\n")); n > 80 && !strings.HasPrefix(line, "  aicr ") {
					t.Errorf("help line of %d columns: %s", n, line)
				}
			}
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if f.Hidden || len(f.Annotations[noteNoEnv]) > 0 {
					return
				}
				if !strings.Contains(help.String(), "["+envName(f.Name)+"]") {
					t.Errorf("the help does not show %s beside --%s", envName(f.Name), f.Name)
				}
				if v, usage := pflag.UnquoteUsage(f); v != "" && !valueName.MatchString(v) {
					t.Errorf("--%s takes %q, want a name in capitals, in backquotes in its usage", f.Name, v)
				} else if usage == "" || strings.HasSuffix(usage, ".") {
					t.Errorf("--%s: usage %q, want words without a period", f.Name, usage)
				}
			})
		})
	}
}

func TestFlagsOfOneNameAreOfOneKind(t *testing.T) {
	// The variables and the file know a flag by its name alone. A command may take
	// more words than another.
	kinds := map[string]string{}
	for cmd := range everyCommand(testTree(t)) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if was, ok := kinds[f.Name]; ok && was != f.Value.Type() && !strings.HasPrefix(f.Value.Type(), was+"|") && !strings.HasPrefix(was, f.Value.Type()+"|") {
				t.Errorf("--%s is a %s in %s and a %s elsewhere", f.Name, f.Value.Type(), cmd.CommandPath(), was)
			}
			kinds[f.Name] = f.Value.Type()
		})
	}
}

// probe is a program of one command, "probe", that runs work.
func probe(define func(*cobra.Command), work func(*app, *cobra.Command) error) func(*app) []*cobra.Command {
	return func(a *app) []*cobra.Command {
		other := &cobra.Command{Use: "other", RunE: func(*cobra.Command, []string) error { return nil }}
		other.Flags().Int("elsewhere", 0, "")
		cmd := &cobra.Command{Use: "probe", RunE: func(cmd *cobra.Command, _ []string) error { return work(a, cmd) }}
		if define != nil {
			define(cmd)
		}
		return []*cobra.Command{cmd, other}
	}
}

func TestExitCodeAndMessageFollowTheError(t *testing.T) {
	cause := errors.New("no such host")
	for name, c := range map[string]struct {
		err    error
		code   Code
		stderr string
	}{
		"nothing wrong":                   {nil, Passed, ""},
		"a verdict prints nothing":        {Failed, Failed, ""},
		"a verdict of passed is no error": {Passed, Passed, ""},
		"a plain error is unmeasured":     {cause, Unmeasured, "error: no such host\n"},
		"a problem has its own code":      {misuse("", "bad"), Misused, "error: bad\n"},
		"a hint follows":                  {unmeasured("check --url", "no: %w", cause), Unmeasured, "error: no: no such host\nhint: check --url\n"},
		"words around a problem are kept": {fmt.Errorf("probing: %w", misuse("h", "bad")), Misused, "error: probing: bad\nhint: h\n"},
		"each cause with its hint, a shared one once": {
			errors.Join(misuse("h1", "a"), misuse("h2", "b"), misuse("h1", "c")), Misused,
			"error: a\nerror: b\nhint: h2\nerror: c\nhint: h1\n",
		},
		"the worst code counts":           {errors.Join(misuse("", "a"), cause), Unmeasured, "error: a\nerror: no such host\n"},
		"two wrapped errors are one line": {fmt.Errorf("%w or %w", errors.New("a"), errors.New("b")), Unmeasured, "error: a or b\n"},
		"lines of a cause are indented":   {errors.New("a\nb"), Unmeasured, "error: a\n  b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			env := testEnv(nil, "probe")
			env.Stdout, env.Stderr = &stdout, &stderr
			code := run(t.Context(), env, probe(nil, func(*app, *cobra.Command) error { return c.err }))
			if code != c.code || stderr.String() != c.stderr || stdout.Len() > 0 {
				t.Errorf("code %d, stderr %q, stdout %q; want %d, %q and nothing", code, &stderr, &stdout, c.code, c.stderr)
			}
		})
	}
}

func TestAProductThatCouldNotBeWrittenIsNoSuccess(t *testing.T) {
	for _, outcome := range []error{nil, Passed, Failed} {
		var stderr bytes.Buffer
		env := testEnv(nil, "probe")
		env.Stdout, env.Stderr = fullDisk{}, &stderr
		code := run(t.Context(), env, probe(nil, func(a *app, _ *cobra.Command) error {
			fmt.Fprintln(a.env.Stdout, "product")
			return outcome
		}))
		if want := "error: writing the result: no space left\n"; code != Unmeasured || stderr.String() != want {
			t.Errorf("%v: code %d, stderr %q; want 3 and %q", outcome, code, &stderr, want)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestMisuseIsToldWithAHintAndWithoutTheManual(t *testing.T) {
	define := func(cmd *cobra.Command) {
		section(cmd, "Load", func(f *pflag.FlagSet) {
			f.Int("concurrency", 1, "")
			f.Float64("request-rate", 1, "")
			f.Duration("ramp", 0, "")
			f.Bool("streaming", false, "")
			f.String("api-key", "", "")
			f.Int("pin", 0, "")
			f.Int("prompt-input-tokens-mean", 0, "")
			var arrival string
			f.Var(newChoice(&arrival, "constant", "poisson"), "arrival", "")
			secret(f, "api-key", "pin")
			alias(f, "prompt-input-tokens-mean", "isl")
		})
	}
	for name, c := range map[string]struct {
		args   string
		vars   map[string]string
		stderr string
	}{
		"near flag":             {"probe --concurency 3", nil, "error: unknown flag --concurency\nhint: did you mean --concurrency?\n"},
		"beginning of a flag":   {"probe --prompt 3", nil, "error: unknown flag --prompt\nhint: did you mean --prompt-input-tokens-mean?\n"},
		"far flag":              {"probe --zzzzz=hunter2", nil, "error: unknown flag --zzzzz\nhint: see 'aicr probe --help'\n"},
		"letters":               {"probe -xhunter2", nil, "error: unknown flag -x\nhint: see 'aicr probe --help'\n"},
		"syntax":                {"probe --=hunter2", nil, "error: a flag is written --name=value or --name value\nhint: see 'aicr probe --help'\n"},
		"no value":              {"probe --concurrency", nil, "error: --concurrency needs a value\nhint: see 'aicr probe --help'\n"},
		"no whole number":       {"probe --concurrency 1.5", nil, "error: --concurrency: \"1.5\" is not a whole number\nhint: see 'aicr probe --help'\n"},
		"alias":                 {"probe --isl x", nil, "error: --prompt-input-tokens-mean: \"x\" is not a whole number\nhint: see 'aicr probe --help'\n"},
		"no number":             {"probe --request-rate x", nil, "error: --request-rate: \"x\" is not a number\nhint: see 'aicr probe --help'\n"},
		"out of range":          {"probe --concurrency 99999999999999999999", nil, "error: --concurrency: \"99999999999999999999\" is out of range\nhint: see 'aicr probe --help'\n"},
		"no duration":           {"probe --ramp 30", nil, "error: --ramp: \"30\" is not a duration such as 30s or 5m\nhint: see 'aicr probe --help'\n"},
		"no boolean":            {"probe --streaming=perhaps", nil, "error: --streaming: \"perhaps\" is neither true nor false\nhint: see 'aicr probe --help'\n"},
		"no such choice":        {"probe --arrival gamma", nil, "error: --arrival: \"gamma\" is not a value that it takes: want constant, poisson\nhint: see 'aicr probe --help'\n"},
		"secret":                {"probe --pin hunter2", nil, "error: --pin: not a value that it takes\nhint: see 'aicr probe --help'\n"},
		"secret in environment": {"probe", map[string]string{"AICR_PIN": "hunter2"}, "error: AICR_PIN: not a value that it takes\n"},
		"environment, all at once": {"probe", map[string]string{"AICR_CONCURRENCY": "many", "AICR_RAMP": "soon"},
			"error: AICR_CONCURRENCY: \"many\" is not a whole number\nerror: AICR_RAMP: \"soon\" is not a duration such as 30s or 5m\n"},
		"argument":     {"probe this", nil, "error: unexpected argument \"this\"\nhint: see 'aicr probe --help'\n"},
		"near command": {"prob", nil, "error: unknown command \"prob\"\nhint: did you mean 'aicr probe'?\n"},
		"far command":  {"zzzzzz", nil, "error: unknown command \"zzzzzz\"\nhint: see 'aicr --help'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			env := testEnv(c.vars, strings.Fields(c.args)...)
			env.Stdout, env.Stderr = &stdout, &stderr
			code := run(t.Context(), env, probe(define, func(*app, *cobra.Command) error { t.Error("the command ran"); return nil }))
			if code != Misused || stdout.Len() > 0 {
				t.Errorf("code %d, stdout %q; want 2 and nothing", code, &stdout)
			}
			if diff := cmp.Diff(c.stderr, stderr.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCobraFindsWrongBeforeTheCommandBeginsIsMisuse(t *testing.T) {
	define := func(cmd *cobra.Command) {
		cmd.Flags().String("url", "", "")
		if err := cmd.MarkFlagRequired("url"); err != nil {
			t.Fatal(err)
		}
	}
	var stderr bytes.Buffer
	env := testEnv(nil, "probe")
	env.Stderr = &stderr
	work := func(*app, *cobra.Command) error { return nil }
	if code := run(t.Context(), env, probe(define, work)); code != Misused || !strings.HasSuffix(stderr.String(), "\nhint: see 'aicr probe --help'\n") {
		t.Errorf("code %d, stderr %q; want 2 and a hint", code, &stderr)
	}
	if code := run(t.Context(), testEnv(map[string]string{"AICR_URL": "x"}, "probe"), probe(define, work)); code != Passed {
		t.Errorf("code %d with the flag from the environment, want 0", code)
	}
}

func TestValuesComeFromFlagThenEnvThenFileThenDefault(t *testing.T) {
	define := func(cmd *cobra.Command) {
		f := cmd.Flags()
		f.Int("concurrency", 1, "")
		f.StringSlice("report", []string{"text"}, "")
		f.String("api-key", "", "")
		f.Int("prompt-input-tokens-mean", 550, "")
		alias(f, "prompt-input-tokens-mean", "isl")
		secret(f, "api-key")
	}
	setting := func(name, value string, s Source, place string) Setting {
		want := Setting{Name: name, Value: value, Source: s, Place: place}
		if list, ok := strings.CutPrefix(value, "["); ok {
			want.List = strings.Split(strings.TrimSuffix(list, "]"), ",")
		}
		return want
	}
	for name, c := range map[string]struct {
		file string
		vars map[string]string
		args []string
		want Setting
		err  string
	}{
		"default":                     {want: setting("concurrency", "1", FromDefault, "")},
		"file over default":           {file: "concurrency: 1000000", want: setting("concurrency", "1000000", FromFile, "FILE")},
		"JSON is a file too":          {file: `{"concurrency": 2}`, want: setting("concurrency", "2", FromFile, "FILE")},
		"environment over file":       {file: "concurrency: 2", vars: map[string]string{"AICR_CONCURRENCY": "3"}, want: setting("concurrency", "3", FromEnv, "AICR_CONCURRENCY")},
		"flag over environment":       {file: "concurrency: 2", vars: map[string]string{"AICR_CONCURRENCY": "3"}, args: []string{"--concurrency=4"}, want: setting("concurrency", "4", FromFlag, "")},
		"flag over a bad variable":    {vars: map[string]string{"AICR_CONCURRENCY": "x"}, args: []string{"--concurrency=4"}, want: setting("concurrency", "4", FromFlag, "")},
		"the default's value by flag": {vars: map[string]string{"AICR_CONCURRENCY": "3"}, args: []string{"--concurrency=1"}, want: setting("concurrency", "1", FromFlag, "")},
		"empty variable is none":      {vars: map[string]string{"AICR_CONCURRENCY": ""}, want: setting("concurrency", "1", FromDefault, "")},
		"a list in a file":            {file: "report: [a, b]", want: setting("report", "[a,b]", FromFile, "FILE")},
		"a list in a variable":        {vars: map[string]string{"AICR_REPORT": "a,b"}, want: setting("report", "[a,b]", FromEnv, "AICR_REPORT")},
		"alias in a file":             {file: "isl: 128", want: setting("prompt-input-tokens-mean", "128", FromFile, "FILE")},
		"secret is hidden":            {vars: map[string]string{"AICR_API_KEY": "hunter2"}, want: setting("api-key", "(hidden)", FromEnv, "AICR_API_KEY")},
		"another command's key":       {file: "elsewhere: 3", want: setting("concurrency", "1", FromDefault, "")},
		"an empty file":               {file: "", want: setting("concurrency", "1", FromDefault, "")},

		"unknown key":         {file: "concurrancy: 2", err: "error: FILE:1: concurrancy: no such flag\nhint: did you mean concurrency?\n"},
		"config in a file":    {file: "config: x", err: "error: FILE:1: config: no such flag\nhint: keys are the names of flags, without the dashes\n"},
		"bad value":           {file: "concurrency: many", err: "error: FILE:1: concurrency: \"many\" is not a whole number\n"},
		"list for one value":  {file: "concurrency: [1, 2]", err: "error: FILE:1: concurrency: takes one value, not a list\n"},
		"no value":            {file: "concurrency:", err: "error: FILE:1: concurrency: want text, a number, true or false, got nothing\n"},
		"the same flag twice": {file: "isl: 1\nprompt-input-tokens-mean: 2", err: "error: FILE:2: prompt-input-tokens-mean: the same flag as isl\nhint: isl is at line 1 already\n"},
		"no map":              {file: "- a", err: "error: FILE:1: not a map of flag names to values\nhint: write one 'flag-name: value' a line\n"},
		"a key twice":         {file: "concurrency: 1\nconcurrency: 2", err: "error: FILE:2: concurrency: written twice\nhint: it is at line 1 already\n"},
		"file and environment wrong": {file: "x: 1", vars: map[string]string{"AICR_CONCURRENCY": "y"},
			err: "error: AICR_CONCURRENCY: \"y\" is not a whole number\nerror: FILE:1: x: no such flag\nhint: keys are the names of flags, without the dashes\n"},
	} {
		for _, how := range []string{"--config", "AICR_CONFIG"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "aicr.yaml")
				if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
				vars, args := map[string]string{}, append([]string{"probe"}, c.args...)
				maps.Copy(vars, c.vars)
				if how == "--config" {
					args = append(args, "--config", path)
				} else {
					vars["AICR_CONFIG"] = path
				}
				var stderr bytes.Buffer
				env := testEnv(vars, args...)
				env.Stderr = &stderr
				var got Setting
				_ = run(t.Context(), env, probe(define, func(a *app, cmd *cobra.Command) error {
					got = a.settings.of(c.want.Name)
					return nil
				}))
				got.Place, got.Places = strings.ReplaceAll(got.Place, path, "FILE"), nil // each with its line, in settings.txtar
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("setting (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.err, strings.ReplaceAll(stderr.String(), path, "FILE")); diff != "" {
					t.Errorf("stderr (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestFirstSignalCancelsAndSecondReturnsAtOnce(t *testing.T) {
	type result struct {
		code   Code
		stderr string
	}
	drained := func(a *app, cmd *cobra.Command) error {
		<-cmd.Context().Done()
		return nil
	}
	cancelled := func(a *app, cmd *cobra.Command) error {
		<-cmd.Context().Done()
		return fmt.Errorf("waiting: %w", cmd.Context().Err())
	}
	verdict := func(a *app, cmd *cobra.Command) error {
		<-cmd.Context().Done()
		return Failed
	}
	broken := func(a *app, cmd *cobra.Command) error {
		<-cmd.Context().Done()
		return misuse("", "disk full")
	}
	stubborn := func(*app, *cobra.Command) error { select {} }
	kept := &graph.Kept{Run: spec.Run{ID: "20261116-015518-0123456789abcdef", Target: spec.Target{Context: "my cluster"}}, Settings: &graph.Settings{Namespace: "validations"}}
	made := func(a *app) { a.leave(kept, (&validateJob{options: &validateOptions{}}).cleanCommand(kept)) }
	gone := func(a *app) {
		made(a)
		a.leave(nil, "")
	}
	parting := "left on the cluster: namespace " + graph.NamesOf(kept.Run.ID).Namespace + ", and what carries run " + kept.Run.ID + " in namespace validations\n" +
		"to remove it: aicr clean --run " + kept.Run.ID + " --namespace validations --context 'my cluster'\n"
	notice := "stopping; interrupt again to exit at once\n"
	for name, c := range map[string]struct {
		work    func(*app, *cobra.Command) error
		args    []string
		signals int
		want    result
		before  func(*app) // the first signal
	}{
		"drained":                     {drained, nil, 1, result{Interrupted, notice}, nil},
		"quietly":                     {drained, []string{"-q"}, 1, result{Interrupted, ""}, nil},
		"cancellation is no error":    {cancelled, nil, 1, result{Interrupted, notice}, nil},
		"a verdict does not count":    {verdict, nil, 1, result{Interrupted, notice}, nil},
		"what went wrong is told":     {broken, nil, 1, result{Interrupted, notice + "error: disk full\n"}, nil},
		"the second does not wait":    {stubborn, nil, 2, result{Interrupted, notice}, nil},
		"it says what is left":        {stubborn, nil, 2, result{Interrupted, notice + parting}, made},
		"quietly too":                 {stubborn, []string{"-q"}, 2, result{Interrupted, parting}, made},
		"what is gone is not left":    {stubborn, nil, 2, result{Interrupted, notice}, gone},
		"nobody interrupts a failure": {func(*app, *cobra.Command) error { return Failed }, nil, 0, result{Failed, ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			signals := make(chan os.Signal)
			stderr := &lockedBuffer{said: make(chan struct{}, 10)}
			env := testEnv(nil, append([]string{"probe"}, c.args...)...)
			env.Stderr, env.Signals = stderr, signals
			begun := make(chan struct{})
			go func() {
				<-begun
				for i := range c.signals {
					if i == 1 && strings.Contains(c.want.stderr, notice) {
						<-stderr.said // as a person would, who reads the notice
					}
					signals <- os.Interrupt
				}
			}()
			work := func(a *app, cmd *cobra.Command) error {
				if c.before != nil {
					c.before(a)
				}
				close(begun)
				err := c.work(a, cmd)
				if strings.Contains(c.want.stderr, notice) {
					<-stderr.said // so that the order of the lines is one
				}
				return err
			}
			code := run(t.Context(), env, probe(nil, work))
			if diff := cmp.Diff(c.want, result{code, stderr.String()}, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// lockedBuffer sends word of each write.
type lockedBuffer struct {
	lockedWriter
	buf  bytes.Buffer
	said chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said <- struct{}{}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestColorFollowsTheWishThenTheTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		tty  bool
		vars map[string]string
		args []string
		want bool
	}{
		"terminal":                   {tty: true, want: true},
		"pipe":                       {tty: false, want: false},
		"NO_COLOR":                   {tty: true, vars: map[string]string{"NO_COLOR": "1"}, want: false},
		"NO_COLOR present and empty": {tty: true, vars: map[string]string{"NO_COLOR": ""}, want: false},
		"TERM=dumb":                  {tty: true, vars: map[string]string{"TERM": "dumb"}, want: false},
		"TERM=xterm":                 {tty: true, vars: map[string]string{"TERM": "xterm"}, want: true},
		"always into a pipe":         {tty: false, args: []string{"--color=always"}, want: true},
		"always against NO_COLOR":    {tty: true, vars: map[string]string{"NO_COLOR": "1"}, args: []string{"--color=always"}, want: true},
		"AICR_COLOR over NO_COLOR":   {tty: true, vars: map[string]string{"NO_COLOR": "1", "AICR_COLOR": "always"}, want: true},
		"never":                      {tty: true, args: []string{"--color=never"}, want: false},
		"flag over AICR_COLOR":       {tty: true, vars: map[string]string{"AICR_COLOR": "always"}, args: []string{"--color=never"}, want: false},
	} {
		for _, parsed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/parsed=%v", name, parsed), func(t *testing.T) {
				var stderr bytes.Buffer
				args := append([]string{"probe"}, c.args...)
				if !parsed {
					args = append(args, "--no-such-flag")
				}
				env := testEnv(c.vars, args...)
				env.Stderr, env.StderrTerm.IsTerminal = &stderr, c.tty
				_ = run(t.Context(), env, probe(nil, func(*app, *cobra.Command) error { return errors.New("x") }))
				if got := strings.Contains(stderr.String(), "\x1b["); got != c.want {
					t.Errorf("coloured: %v, want %v: %q", got, c.want, &stderr)
				}
			})
		}
	}
}

func TestHelpGroupsFlagsAndNamesVariables(t *testing.T) {
	root := newApp(testEnv(nil)).root(probe(func(cmd *cobra.Command) {
		cmd.Short, cmd.Example = "Try something", "  aicr probe"
		section(cmd, "Target", func(f *pflag.FlagSet) {
			f.StringP("url", "u", "", "where the endpoint is: `URL`")
		})
		section(cmd, "Load", func(f *pflag.FlagSet) {
			f.Int("prompt-input-tokens-mean", 550, "asked length of the prompts, `N` tokens")
			alias(f, "prompt-input-tokens-mean", "isl")
		})
		alsoReads(cmd, "AICR_API_KEY", "key for the endpoint")
	}, nil))
	cmd, _, err := root.Find([]string{"probe"})
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	writeHelp(&got, layout.Palette{}, cmd, 80)
	own, _, _ := strings.Cut(got.String(), "\nGlobal flags:")
	want := `Try something

Example:
  aicr probe

Usage:
  aicr probe [flags]

Target:
  -u, --url URL  where the endpoint is: URL [AICR_URL]

Load:
      --prompt-input-tokens-mean N  asked length of the prompts, N tokens; also
                                    --isl (default 550)
                                    [AICR_PROMPT_INPUT_TOKENS_MEAN]
`
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(got.String(), "\nEnvironment:\n  AICR_API_KEY  key for the endpoint\n") {
		t.Errorf("the help does not end with the environment:\n%s", &got)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"concurrency", "request-count", "request-rate", "model", "url", "o"}
	for name, want := range map[string]string{
		"concurency":  "concurrency",
		"modle":       "model",
		"Model":       "model",
		"requestrate": "request-rate",
		"conc":        "concurrency",
		"request":     "", // two begin so
		"zebra":       "",
		"x":           "",
		"":            "",
	} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestBuildIsCompletedFromWhatGoNoted(t *testing.T) {
	if got := (Build{}).completed(nil, false); got != (Build{Version: "dev"}) {
		t.Errorf("without any word: %+v", got)
	}
}

func TestRunKeepsTheCallersContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	code := run(ctx, testEnv(nil, "probe"), probe(nil, func(_ *app, cmd *cobra.Command) error {
		cancel()
		<-cmd.Context().Done()
		return cmd.Context().Err()
	}))
	if code != Unmeasured {
		t.Errorf("code %d, want 3: it was not a user who stopped it", code)
	}
}

// unread is what nobody reads any more.
type unread struct{}

func (unread) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

// Who reads has gone: what was begun is ended in good order, however much is still said.
func TestAReaderThatHasGoneEndsACommandInGoodOrder(t *testing.T) {
	for name, env := range map[string]Env{
		"the product": {Stdout: unread{}, Stderr: io.Discard},
		"the rest":    {Stdout: io.Discard, Stderr: unread{}},
	} {
		t.Run(name, func(t *testing.T) {
			ended := false
			command := func(a *app) []*cobra.Command {
				return []*cobra.Command{{Use: "do", RunE: func(cmd *cobra.Command, _ []string) error {
					for range 3 {
						fmt.Fprintln(a.env.Stdout, "a line")
						fmt.Fprintln(a.env.Stderr, "another")
						<-cmd.Context().Done()
					}
					ended = true
					return nil
				}}}
			}
			env.Args, env.Now, env.LookupEnv = []string{"do"}, time.Now, func(string) (string, bool) { return "", false }
			if code := run(t.Context(), env, command); code != Interrupted || !ended {
				t.Errorf("it ended with %d, in good order %v", code, ended)
			}
		})
	}
}
