package load_test

import (
	"bytes"
	"net"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"aicr/internal/load"
)

// What a run keeps of a request is about 256 bytes, so that ten million of them
// fit in four gigabytes.
func TestARecordIsSmall(t *testing.T) {
	const limit = 256
	if n := unsafe.Sizeof(load.Record{}); n > limit {
		t.Errorf("a record has %d bytes", n)
	}
	const n = 200_000
	records := make([]load.Record, n)
	for i := range records {
		records[i] = load.Record{Seq: int64(i), Intended: int64(i), Sent: int64(i) + 1, End: int64(i) + 2, Phase: load.Steady}
	}
	before := liveHeap()
	l := load.NewLog(records, nil, nil)
	// A pointer each to put them in order, and what the last block has to spare.
	if each := float64(liveHeap()-before) / n; each > limit+16 {
		t.Errorf("a record costs %.1f bytes", each)
	}
	if l.Len() != n {
		t.Error("not all are there")
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(records)
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// frugalServer answers requests of one size without allocating, so that what is
// counted is the client's.
func frugalServer(t *testing.T) string {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " +
		strconv.Itoa(len(twoTokens)) + "\r\n\r\n" + twoTokens)
	return rawServer(t, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		have, size := 0, 0
		for {
			n, err := c.Read(buf[have:])
			if err != nil {
				return
			}
			have += n
			if size == 0 {
				head := bytes.Index(buf[:have], []byte("\r\n\r\n"))
				at := bytes.Index(buf[:have], []byte("Content-Length: "))
				if head < 0 || at < 0 {
					continue
				}
				for _, d := range buf[at+len("Content-Length: "):] {
					if d < '0' || d > '9' {
						break
					}
					size = size*10 + int(d-'0')
				}
				size += head + 4
			}
			if have < size {
				continue
			}
			have, size = 0, 0
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	})
}

// A request costs the event loop no allocation: five thousand of them make no
// more garbage than one thousand.
func TestRequestsMakeNoGarbage(t *testing.T) {
	target := newTarget(t, load.TargetOptions{URL: frugalServer(t)})
	work := worksOf(t, 32, 2)
	for wire, limit := range map[load.WireKind]float64{load.LoopWire: 0.2, load.GoroutineWire: 25} {
		mallocs := func(count int64) uint64 {
			p := planTo(t, target, load.Schedule{Users: 16, Count: count}, 2)
			p.Work, p.Wire, p.KeepTokens = work, wire, false
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			res := mustRun(t, p)
			runtime.ReadMemStats(&after)
			if got := countClasses(res.Log); got[load.OK] != int(count) {
				t.Fatalf("%v %v", got, res.Log.Details)
			}
			return after.Mallocs - before.Mallocs
		}
		few, many := mallocs(1000), mallocs(5000)
		each := (float64(many) - float64(few)) / 4000
		t.Logf("%s: %.2f allocations a request", wireNames[wire], each)
		if each > limit {
			t.Errorf("%s: %.2f allocations a request, %v are allowed", wireNames[wire], each, limit)
		}
	}
}
