// Command oracle holds the judge against known truths.
//
// Without arguments it plays the nineteen scenarios of the specification with many
// seeds, as aicr sim play does, and scores what is said of them; the published gate
// is scored beside it. It fails when the judge misses its bar.
//
// oracle oc prints the operating characteristic of the sequential tests, by Monte
// Carlo. oracle published prints what the judge says of the published runs by their
// figures alone.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	seeds := flag.Int("seeds", 20, "play each scenario with so many seeds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch flag.Arg(0) {
	case "":
		err = scored(ctx, os.Stdout, os.Stderr, names(), *seeds)
	case "oc":
		err = characteristic(ctx, os.Stdout)
	case "published":
		err = published(os.Stdout)
	default:
		err = fmt.Errorf("%q is none of oc, published", flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// errMissed says that the judge is not as good as it has to be.
var errMissed = errors.New("the bar was missed")

func scored(ctx context.Context, w, progress io.Writer, names []string, seeds int) error {
	all, err := playBoth(ctx, progress, names, seeds)
	if err != nil {
		return err
	}
	if !write(w, all, seeds) {
		return errMissed
	}
	return nil
}

// characteristic runs the test that draws it, which sees what the judge shows nobody
// else, and prints its tables.
func characteristic(ctx context.Context, w io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count", "1", "-v", "-run", "^TestTheOperatingCharacteristic|^TestTheErrorRatesOfStalls|^TestThePublishedGate", "aicr/internal/judge")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for line := range bytes.Lines(out) {
		if text, ok := bytes.CutPrefix(line, []byte("    ")); ok { // what a test itself says
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
	}
	return nil
}
