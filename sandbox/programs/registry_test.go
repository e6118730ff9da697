package programs

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWorkerTakesTheLowestFreeNumberAndKeepsIt(t *testing.T) {
	r := newRegistry(2)
	join := func(pod string, want int, wantOK bool) {
		t.Helper()
		if n, ok := r.join(member{Pod: pod}); ok != wantOK || ok && n != want {
			t.Errorf("%s: %d, %v; want %d, %v", pod, n, ok, want, wantOK)
		}
	}
	if free := r.absent(); !slices.Equal(free, []int{0, 1}) {
		t.Errorf("at first %v are free", free)
	}
	join("a", 0, true)
	join("b", 1, true)
	join("a", 0, true) // it asks again and again
	join("c", 0, false)
	join("", 0, false)
	r.leave("a")
	r.leave("") // nobody's place is not freed
	if free := r.absent(); !slices.Equal(free, []int{0}) {
		t.Errorf("after a left, %v are free", free)
	}
	join("c", 0, true)
}

func TestTheRegistryTellsOfChanges(t *testing.T) {
	r := newRegistry(1)
	told := func() bool {
		select {
		case <-r.changed:
			return true
		default:
			return false
		}
	}
	r.join(member{Pod: "a"})
	if !told() {
		t.Error("a came, and nobody was told")
	}
	r.join(member{Pod: "a"})
	if told() {
		t.Error("a was there, and it was told as news")
	}
	r.leave("a")
	if !told() {
		t.Error("a left, and nobody was told")
	}
}

// A fleet that is told anew forgets what else was to go wrong, so it is not told what it
// knows; and it is told until it has heard, which it has not before it listens.
func TestAFleetIsToldOnceWhoIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(2)
		r.join(member{Pod: "a"})
		r.join(member{Pod: "b"}) // that is why it was started, and no news
		var told [][]int
		deaf := 0
		go r.keepTold(t.Context(), func(absent []int) error {
			if deaf > 0 {
				deaf--
				return errors.New("connection refused")
			}
			told = append(told, absent)
			return nil
		})
		check := func(what string, want ...[]int) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if !slices.EqualFunc(told, want, slices.Equal) {
				t.Errorf("%s: it was told %v, want %v", what, told, want)
			}
		}
		check("all are there")
		deaf = 3
		r.leave("a")
		check("one has left", []int{0})
		r.join(member{Pod: "c"})
		check("another has come", []int{0}, []int{})
	})
}
