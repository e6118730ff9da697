package busy_test

import (
	"testing"
	"testing/synctest"

	"aicr/test/busy"
)

// recorder stands in for a test, since Fatalf must not end this one.
type recorder struct {
	testing.TB
	attrs []string
	fatal bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Fatalf(string, ...any) { r.fatal = true }
func (r *recorder) Attr(key, value string) {
	r.attrs = append(r.attrs, key+"="+value)
}

func TestABusyReadingIsRepeatedOnceAndCounted(t *testing.T) {
	for name, c := range map[string]struct {
		readings []string // what each reading returns
		calls    int
		attrs    int
		fatal    bool
	}{
		"a quiet machine":    {[]string{""}, 1, 0, false},
		"busy once":          {[]string{"stamps late\nby 3 ms", ""}, 2, 1, false},
		"busy twice":         {[]string{"late", "late"}, 2, 2, true},
		"no third try":       {[]string{"late", "late", ""}, 2, 2, true},
		"no try too many":    {[]string{"", "late"}, 1, 0, false},
		"nothing but spaces": {[]string{" ", ""}, 2, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, calls := &recorder{TB: t}, 0
			synctest.Test(t, func(*testing.T) {
				busy.Measure(r, func() string { calls++; return c.readings[calls-1] })
			})
			if calls != c.calls || len(r.attrs) != c.attrs || r.fatal != c.fatal {
				t.Errorf("%d calls, attributes %q, failed %v", calls, r.attrs, r.fatal)
			}
			if name == "busy once" && r.attrs[0] != busy.Attr+"=stamps late by 3 ms" {
				t.Errorf("attribute %q", r.attrs[0])
			}
		})
	}
}
