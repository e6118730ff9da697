package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/redact"
)

// Run runs the program in env and gives its exit code.
//
// The first signal cancels the command's context: the command stops what it
// began, writes what it has and returns, and the code is 130 whatever it
// returned. A reader that has gone is as good as the first signal. The second makes Run
// return at once, with the command still running: the caller is expected to exit.
func Run(ctx context.Context, env Env) int {
	return int(run(ctx, env, commands))
}

func run(ctx context.Context, env Env, constructors func(*app) []*cobra.Command) Code {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := func() { cancel(errInterrupted) }
	env.Stdout, env.Stderr = &readWriter{env.Stdout, gone}, &readWriter{env.Stderr, gone}
	a := newApp(env)
	a.ended = ctx.Done()
	done := make(chan Code, 1)
	go func() { done <- a.execute(ctx, a.root(constructors)) }()
	for {
		select {
		case code := <-done:
			return code
		case <-env.Signals:
			if ctx.Err() != nil {
				a.part()
				return Interrupted
			}
			cancel(errInterrupted)
		}
	}
}

var errInterrupted = errors.New("interrupted")

// app is what the commands of one Run share.
type app struct {
	env Env

	// The global flags.
	color  string
	config string
	quiet  bool
	chatty bool

	secrets  secrets
	ended    <-chan struct{} // closed when the command is to end; nil: never
	product  *productWriter
	settings settings
	running  bool // the command itself has begun, so that an error is not one of usage
	ownCode  bool // its exit code says what came of it, also when it was ended

	mu      sync.Mutex
	live    *status // being drawn on standard error, or nil
	parting func()  // says what is left where the program is made to end at once, or nil
}

func newApp(env Env) *app {
	// What the user is told when interrupting may come beside what the command
	// has to say.
	a := &app{}
	env.Stderr = &lockedWriter{w: &confidential{&a.secrets, redact.Writer(env.Stderr, func() bool { return a.env.StderrTerm.IsTerminal || a.colored(a.env.StderrTerm) })}}
	a.product = &productWriter{w: &confidential{&a.secrets, env.Stdout}}
	env.Stdout = a.product
	a.env = env
	return a
}

// productWriter remembers that the product could not be written, so that no
// command has to watch every line it prints.
type productWriter struct {
	w   io.Writer
	err error
}

func (p *productWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// readWriter notices that nobody reads any more.
type readWriter struct {
	w    io.Writer
	gone func()
}

func (r *readWriter) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		r.gone()
	}
	return n, err
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// execute runs the tree and tells what went wrong.
func (a *app) execute(ctx context.Context, root *cobra.Command) Code {
	cmd, err := root.ExecuteContextC(ctx)
	interrupted := errors.Is(context.Cause(ctx), errInterrupted)
	if lost := a.product.err; lost != nil && !errors.Is(lost, syscall.EPIPE) && (err == nil || onlyCodes(err)) {
		err = unmeasured("", "writing the result: %w", lost)
	}
	code, hint := Unmeasured, ""
	if !a.running {
		code, hint = Misused, helpHint(cmd)
	}
	all := problems(err, code, hint)
	if told := tellable(all); len(told) > 0 && !(interrupted && onlyCancelled(told)) {
		tell(a.env.Stderr, a.stderrPalette(), told)
	}
	if interrupted && !a.ownCode {
		return Interrupted
	}
	return worst(all)
}

// root builds the command tree.
func (a *app) root(constructors func(*app) []*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "aicr",
		Short: "Say whether a GPU inference deployment is healthy, and if not, why",
		Example: `  aicr bench --demo
  aicr help bench`,
		SilenceErrors:     true, // execute tells them
		SilenceUsage:      true, // a failure is no reason to print the manual
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.resolve(cmd) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetOut(a.env.Stdout)
	root.SetErr(a.env.Stderr)
	root.SetIn(a.env.Stdin)
	root.SetArgs(a.env.Args)
	root.SetFlagErrorFunc(parseProblem)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.help(cmd) })

	globals := pflag.NewFlagSet("global", pflag.ContinueOnError)
	globals.SortFlags = false
	globals.BoolP("help", "h", false, "show this help")
	globals.StringVar(&a.config, "config", "", "read flags that are not given from `FILE`: an AICRConfig, or a YAML or JSON map of flag names to values")
	globals.Var(newChoice(&a.color, colorAuto, colorAlways, colorNever), "color",
		"colour the output; auto follows NO_COLOR and TERM")
	globals.BoolVarP(&a.quiet, "quiet", "q", false, "print nothing but the product, a verdict in one line, and errors")
	globals.BoolVarP(&a.chatty, "verbose", "v", false, "print more about what is done")
	inSection(globals, sectionGlobal)
	withoutEnv(globals, "help")
	root.PersistentFlags().AddFlagSet(globals)

	// Of the program itself alone: cobra prints Version where it is given.
	own := pflag.NewFlagSet("own", pflag.ContinueOnError)
	own.Bool("version", false, "print which version of the program this is, as 'aicr version' does")
	inSection(own, "Version")
	withoutEnv(own, "version")
	root.Flags().AddFlagSet(own)
	root.Version = a.env.Build.line()
	root.SetVersionTemplate("{{.Version}}\n")

	children := constructors(a)
	root.AddCommand(children...)
	for _, c := range children {
		if c.Name() == "help" {
			root.SetHelpCommand(c)
		}
	}
	a.prepare(root)
	return root
}

// prepare gives every command what it need not ask for: strict arguments,
// completion of choices, aliases of flags, and word of when it begins.
func (a *app) prepare(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.prepare(c)
	}
	cmd.Flags().SortFlags = false
	cmd.DisableFlagsInUseLine = true
	registerAliases(cmd)
	registerChoices(cmd)
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = unknownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		return
	}
	if cmd.Args == nil {
		cmd.Args = noArguments
	}
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.running = true
			stop := context.AfterFunc(cmd.Context(), a.acknowledge)
			defer stop()
			return work(cmd, args)
		}
	}
}

// acknowledge tells the user that the first interrupt was heard, since a
// command may take a while to end in good order.
func (a *app) acknowledge() { a.say("stopping; interrupt again to exit at once") }

// part says what is left.
func (a *app) part() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.parting != nil {
		a.parting()
	}
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(append(names, c.Name()), c.Aliases...)
	}
	hint := helpHint(cmd)
	if near := nearest(args[0], names); near != "" {
		hint = fmt.Sprintf("did you mean '%s %s'?", cmd.CommandPath(), near)
	}
	return misuse(hint, "unknown command %q", shownWord(args[0]))
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if secretGiven(cmd) { // it may be the rest of a value that has a space in it
		return misuse("put a value that has a space in it between quotation marks; "+helpHint(cmd), "unexpected argument")
	}
	return misuse(helpHint(cmd), "unexpected argument %q", shownWord(args[0]))
}

func helpHint(cmd *cobra.Command) string {
	return fmt.Sprintf("see '%s --help'", cmd.CommandPath())
}

// say tells a person, on standard error, what goes on.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		a.line(fmt.Sprintf(format, args...))
	}
}

// detail tells a person who asked for more with --verbose.
func (a *app) detail(format string, args ...any) {
	if a.chatty {
		a.line(fmt.Sprintf(format, args...))
	}
}

func (a *app) line(s string) {
	s = redact.Clean(s)
	a.mu.Lock()
	live := a.live
	a.mu.Unlock()
	if live != nil {
		live.Line(s)
		return
	}
	fmt.Fprintln(a.env.Stderr, s)
}

// watch starts a status on standard error. Until it is done, say and detail
// print above it.
func (a *app) watch() *status {
	w, t := a.env.Stderr, a.env.StderrTerm
	if a.quiet {
		w, t = io.Discard, Terminal{}
	}
	if a.dumb() {
		t.IsTerminal = false
	}
	s := newStatus(w, t, a.env.Now)
	s.onDone = func() { a.setLive(nil) }
	a.setLive(s)
	return s
}

func (a *app) setLive(s *status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live = s
}
