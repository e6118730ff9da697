// Package busy is how a proof reports that this machine was too busy to measure
// on: the client's own audit failed, so the reading says nothing about the code
// under test. Such a reading is repeated once and counted; `make prove` lists it.
package busy

import (
	"strings"
	"testing"
	"time"
)

const (
	// Attr is the attribute that a test gets for each reading that a busy machine
	// spoilt; go test -json carries it to hack/prove.
	Attr = "machine-busy"
	// Tries is how many readings a test may take.
	Tries = 2
	// pause is waited for before another reading: what kept the machine busy may
	// be over by then.
	pause = 5 * time.Second
)

// Measure calls once, which takes a reading and checks it. If once returns why
// the machine was too busy for the reading, it is called again; a test that
// needs more than Tries readings fails.
func Measure(t testing.TB, once func() (tooBusy string)) {
	t.Helper()
	for try := range Tries {
		if try > 0 {
			time.Sleep(pause)
		}
		why := once()
		if why == "" {
			return
		}
		t.Attr(Attr, strings.Join(strings.Fields(why), " ")) // an attribute is one line
		t.Logf("the machine was too busy: %s", why)
	}
	t.Fatalf("the machine was too busy for %d readings in a row", Tries)
}
