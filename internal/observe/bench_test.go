package observe

import "testing"

// What a page costs to read, which a fleet pays for every worker every second.
func BenchmarkWorkerPage(b *testing.B) {
	page := &workerPage{}
	text := recorded(b, "worker_during_load.txt")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := page.read(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFrontendPage(b *testing.B) {
	page := &frontendPage{}
	text := recorded(b, "frontend_during_load.txt")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := page.read(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
}
