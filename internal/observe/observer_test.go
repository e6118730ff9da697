package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/spec"
)

// kept is a sink that keeps everything.
type kept struct {
	mu      sync.Mutex
	samples []spec.Sample
	events  []spec.Event
}

func (k *kept) Sample(s spec.Sample) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.samples = append(k.samples, s)
}
func (k *kept) Event(e spec.Event) { k.mu.Lock(); defer k.mu.Unlock(); k.events = append(k.events, e) }

func (k *kept) of(name string) []spec.Sample {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.samples), func(s spec.Sample) bool { return s.Name != name })
}

// answers is a Reader that is a function of how often it was asked.
type answers func(ctx context.Context, nth int) ([]spec.Sample, error)

type answering struct {
	answers answers
	mu      sync.Mutex
	n       int
}

func (a *answering) Read(ctx context.Context) ([]spec.Sample, error) {
	a.mu.Lock()
	n := a.n
	a.n++
	a.mu.Unlock()
	return a.answers(ctx, n)
}

func worker(instance string, a answers) Source {
	return Source{Kind: spec.SourceWorker, Instance: instance, Reader: &answering{answers: a}}
}

func running(v float64) []spec.Sample {
	return []spec.Sample{{Worker: &spec.WorkerSample{Running: &v}}}
}

// observe lets sources be observed for some virtual time.
func observe(t *testing.T, lasts time.Duration, sources ...Source) *kept {
	t.Helper()
	k := &kept{}
	o := New(StartClock(), time.Second, k)
	o.Set(t.Context(), sources)
	time.Sleep(lasts)
	o.Close()
	return k
}

func TestEachSourceIsAskedOncePerPeriodAtTimesOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds = 600
		var sources []Source
		for i := range 8 {
			sources = append(sources, worker(fmt.Sprint("w", i), func(context.Context, int) ([]spec.Sample, error) {
				time.Sleep(10 * time.Millisecond)
				return running(1), nil
			}))
		}
		k := observe(t, seconds*time.Second, sources...)
		offsets := map[time.Duration]bool{}
		for _, s := range sources {
			got := k.of(s.Instance)
			if n := len(got); n < seconds-2 || n > seconds {
				t.Errorf("%s has %d samples in %d s", s.Instance, n, seconds)
			}
			for i := 1; i < len(got); i++ {
				gap := time.Duration(got[i].T - got[i-1].T)
				if gap < 850*time.Millisecond || gap > 1150*time.Millisecond {
					t.Errorf("%s: %s between samples %d and %d", s.Instance, gap, i-1, i)
				}
				offsets[time.Duration(got[i].T)%time.Second] = true
			}
		}
		if len(offsets) < 2*seconds {
			t.Errorf("%d sources were asked at %d different moments of a second: the times are not jittered", len(sources), len(offsets))
		}
	})
}

func TestASampleCarriesTheMiddleOfItsRequestAndHowLongItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := StartClock()
		var asked []time.Duration
		k := &kept{}
		o := New(clock, time.Second, k)
		o.Set(t.Context(), []Source{worker("a:1", func(context.Context, int) ([]spec.Sample, error) {
			asked = append(asked, clock.Now())
			time.Sleep(300 * time.Millisecond)
			return running(1), nil
		})})
		time.Sleep(10 * time.Second)
		o.Close()
		for i, s := range k.of("a:1") {
			if want := asked[i] + 150*time.Millisecond; time.Duration(s.T) != want || time.Duration(s.Took) != 300*time.Millisecond {
				t.Errorf("sample %d is of %s and took %s; it was asked at %s", i, time.Duration(s.T), time.Duration(s.Took), asked[i])
			}
			if s.Source != "worker" || s.Instance != "a:1" {
				t.Errorf("sample %d is of %s at %s", i, s.Source, s.Instance)
			}
		}
	})
}

// A hung worker is what this instrument is for: it must be seen, and be all that
// is seen.
func TestAHungSourceIsAGapAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := worker("hung", func(ctx context.Context, nth int) ([]spec.Sample, error) {
			if nth < 3 || nth > 12 {
				return running(float64(nth)), nil
			}
			<-ctx.Done()
			return nil, whyNot(ctx.Err())
		})
		fine := worker("fine", func(context.Context, int) ([]spec.Sample, error) { return running(1), nil })
		k := observe(t, 20*time.Second, hung, fine)
		if n := len(k.of("fine")); n < 18 {
			t.Errorf("the other has %d samples in 20 s", n)
		}
		samples := k.of("hung")
		if len(samples) < 18 {
			t.Fatalf("the hung one has %d samples and gaps in 20 s", len(samples))
		}
		for i, s := range samples {
			want := ""
			if i >= 3 && i <= 12 {
				want = "no answer in 800ms"
			}
			if s.Gap != want || (s.Worker == nil) != (want != "") {
				t.Errorf("sample %d: gap %q with %+v, want %q", i, s.Gap, s.Worker, want)
			}
		}
	})
}

func TestWhatIsNotAnsweredIsAGapWithItsReason(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers answers
		want    string
	}{
		{"an error", func(context.Context, int) ([]spec.Sample, error) { return nil, errors.New("status 503") }, "status 503"},
		{"a reader that heeds no limit", func(context.Context, int) ([]spec.Sample, error) {
			time.Sleep(1500 * time.Millisecond)
			return running(1), nil
		}, "the answer was late: it took 1.5s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := observe(t, 5*time.Second, worker("w:1", tc.answers)).of("w:1")
				if len(got) == 0 {
					t.Fatal("nothing was told")
				}
				for _, s := range got {
					if s.Gap != tc.want && !strings.HasPrefix(s.Gap, "the observer itself") || s.Worker != nil {
						t.Errorf("gap %q with %+v, want %q", s.Gap, s.Worker, tc.want)
					}
				}
			})
		})
	}
}

// A stop of the observer's own program must not look like one of the servers,
// nor vanish.
func TestPeriodsThatTheObserverSleptThroughAreGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		slow := sinkFunc(func(s spec.Sample) {
			if k.Sample(s); len(k.samples) == 5 {
				time.Sleep(time.Hour) // nobody takes anything for so long
			}
		})
		o := New(StartClock(), time.Second, slow)
		o.Set(t.Context(), []Source{worker("w", func(context.Context, int) ([]spec.Sample, error) { return running(1), nil })})
		time.Sleep(2*time.Hour + backlog*time.Second)
		o.Close()
		if n, want := len(k.samples), 7200+backlog; n < want-3 || n > want {
			t.Errorf("%d samples and gaps in %d s", n, want)
		}
	})
}

type sinkFunc func(spec.Sample)

func (f sinkFunc) Sample(s spec.Sample) { f(s) }
func (f sinkFunc) Event(spec.Event)     {}

func TestNamesAreKeptThroughGaps(t *testing.T) {
	two := func(names ...string) []spec.Sample {
		var all []spec.Sample
		for _, n := range names {
			all = append(all, spec.Sample{Name: n, GPU: &spec.GPUSample{}})
		}
		return all
	}
	synctest.Test(t, func(t *testing.T) {
		gpus := Source{Kind: spec.SourceGPU, Instance: "dcgm:9400", Reader: &answering{answers: func(_ context.Context, nth int) ([]spec.Sample, error) {
			switch {
			case nth == 0:
				return nil, reason("connection refused")
			case nth == 2:
				return nil, reason("status 500")
			case nth > 3:
				return two("GPU-a"), nil
			}
			return two("GPU-a", "GPU-b"), nil
		}}}
		k := observe(t, 7*time.Second, gpus)
		want := map[string][]string{
			"dcgm:9400": {"connection refused"},
			"GPU-a":     {"", "status 500", "", "", ""},
			"GPU-b":     {"", "status 500", "", "no longer on the page", "no longer on the page"},
		}
		for name, reasons := range want {
			var got []string
			for _, s := range k.of(name) {
				got = append(got, s.Gap)
			}
			if len(got) < len(reasons) || !slices.Equal(got[:len(reasons)], reasons) {
				t.Errorf("%s: gaps %q, want %q first", name, got, reasons)
			}
		}
	})
}

func TestWhyIsSaidWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := worker("w", func(_ context.Context, nth int) ([]spec.Sample, error) {
			why := map[string]string{"kv_usage": "none"}
			if nth >= 3 {
				why = map[string]string{"kv_usage": "none any more"}
			}
			return []spec.Sample{{Worker: &spec.WorkerSample{}, NotMeasured: why}}, nil
		})
		for i, got := range observe(t, 8*time.Second, s).of("w") {
			if (got.NotMeasured != nil) != (i == 0 || i == 3) {
				t.Errorf("sample %d says %v", i, got.NotMeasured)
			}
		}
	})
}

func TestLabelsOfWhoeverNamedTheSourceComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := worker("w:1", func(context.Context, int) ([]spec.Sample, error) {
			return []spec.Sample{{Name: "77", Worker: &spec.WorkerSample{Pod: "said by the page"}}}, nil
		})
		s.Labels = Labels{Name: "decode-3", Pod: "pod-3", GPU: "GPU-3"}
		got := observe(t, 3*time.Second, s).of("decode-3")
		if len(got) == 0 || got[0].Worker.Pod != "pod-3" || got[0].Worker.GPU != "GPU-3" {
			t.Errorf("%+v", got)
		}
		s.Labels.GPU, s.Labels.Role = "GPU-3,GPU-4", spec.RolePrefill
		got = observe(t, 3*time.Second, s).of("decode-3")
		if len(got) == 0 || got[0].Worker.GPU != "" || len(got[0].Worker.GPUs) != 2 || got[0].Worker.Role != spec.RolePrefill {
			t.Errorf("%+v", got)
		}
		several := worker("w:1", func(context.Context, int) ([]spec.Sample, error) {
			return []spec.Sample{{Name: "77/0", Worker: &spec.WorkerSample{}}, {Name: "77/1", Worker: &spec.WorkerSample{}}}, nil
		})
		several.Labels.Name = "decode-3"
		k := observe(t, 3*time.Second, several)
		if len(k.of("decode-3/0")) == 0 || len(k.of("decode-3/1")) == 0 {
			t.Error("a name that is given makes one of several engines")
		}
	})
}

func TestSetStopsWhatIsGoneAndLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		var mu sync.Mutex
		source := func(name string) Source {
			return worker(name, func(_ context.Context, nth int) ([]spec.Sample, error) {
				mu.Lock()
				defer mu.Unlock()
				asked[name] = nth + 1
				return running(1), nil
			})
		}
		o := New(StartClock(), time.Second, &kept{})
		defer o.Close()
		o.Set(t.Context(), []Source{source("a"), source("b"), source("a")})
		time.Sleep(10 * time.Second)
		o.Set(t.Context(), []Source{source("a"), source("c")})
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		about := func(n, want int) bool { return n == want || n == want-1 }
		if !about(asked["a"], 20) || !about(asked["b"], 10) || !about(asked["c"], 10) {
			t.Errorf("asked %v, want a 20 times, b and c 10 times, or once less", asked)
		}
	})
}

// script is a Follower that says and ends as it is told to.
type script func(ctx context.Context, tell Tell, start int) error

type following struct {
	script script
	starts int
}

func (f *following) Follow(ctx context.Context, tell Tell) error {
	f.starts++
	return f.script(ctx, tell, f.starts)
}

func TestAFollowerThatEndsOrFallsSilentLeavesGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := Source{Kind: spec.SourceGPU, Instance: "local", Follower: &following{script: func(ctx context.Context, tell Tell, start int) error {
			for range 3 {
				tell.Sample(spec.Sample{Name: "GPU-a", GPU: &spec.GPUSample{}})
				if !sleep(ctx, time.Second) {
					return ctx.Err()
				}
			}
			if start == 1 {
				return fmt.Errorf("nvidia-smi ended: %w", io.ErrUnexpectedEOF)
			}
			<-ctx.Done()
			return ctx.Err()
		}}}
		k := observe(t, 20*time.Second, gpu)
		var told, ended, silent int
		for _, s := range k.of("GPU-a") {
			switch {
			case s.GPU != nil:
				told++
			case strings.HasPrefix(s.Gap, "nvidia-smi ended"):
				ended++
			case s.Gap == "nothing was said for over a period":
				silent++
			}
		}
		if told != 6 || ended < 4 || ended > 6 || silent < 8 {
			t.Errorf("%d samples, %d gaps for its end, %d for its silence", told, ended, silent)
		}
	})
}

func TestNothingIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails by itself when a goroutine is left in its bubble
		hangs := worker("hangs", func(ctx context.Context, _ int) ([]spec.Sample, error) { <-ctx.Done(); return nil, ctx.Err() })
		observe(t, 1500*time.Millisecond, hangs)
	})
}

// Neither a goroutine nor a connection outlives an observation.
func TestNoConnectionIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := recorded(t, "worker_during_load.txt")
		open := 0
		var mu sync.Mutex
		client, url := serveInMemory(t, &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hangs" {
					<-r.Context().Done()
					return
				}
				_, _ = w.Write(page)
			}),
			ConnState: func(_ net.Conn, s http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				switch s {
				case http.StateNew:
					open++
				case http.StateClosed, http.StateHijacked:
					open--
				case http.StateActive, http.StateIdle:
				}
			},
		})
		k := &kept{}
		o := New(StartClock(), 50*time.Millisecond, k)
		o.Set(t.Context(), []Source{Worker(client, url, Labels{}), Worker(client, url+"/hangs", Labels{Name: "hangs"})})
		time.Sleep(time.Second)
		o.Close()
		client.Close()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if open != 0 {
			t.Errorf("%d connections are open", open)
		}
		for _, name := range []string{"hangs", "15440633145584257461"} {
			if n := len(k.of(name)); n < 3 {
				t.Errorf("%d samples of %s", n, name)
			}
		}
	})
}

// Two pages of one host are two; a list that names another page of it is followed.
func TestPagesOfOneHostAreToldApart(t *testing.T) {
	c := NewClient(&http.Transport{})
	a, b := Worker(c, "http://proxy:1/a/metrics", Labels{}), Worker(c, "http://proxy:1/b/metrics", Labels{})
	if a.Instance != "proxy:1/a/metrics" || b.Instance != "proxy:1/b/metrics" {
		t.Errorf("they are at %q and %q", a.Instance, b.Instance)
	}
	if s := Worker(c, "http://host:1/metrics?token=sesame", Labels{}); s.Instance != "host:1" {
		t.Errorf("it is at %q", s.Instance)
	}
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		o := New(StartClock(), time.Second, k)
		defer o.Close()
		page := func(address string, v float64) Source {
			s := worker("host:1", func(context.Context, int) ([]spec.Sample, error) { return running(v), nil })
			s.Address = address
			return s
		}
		o.Set(t.Context(), []Source{page("http://host:1/metrics?of=a", 1)})
		time.Sleep(5 * time.Second)
		o.Set(t.Context(), []Source{page("http://host:1/metrics?of=b", 2)})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		got := k.of("host:1")
		if last := got[len(got)-1]; last.Worker == nil || *last.Worker.Running != 2 {
			t.Errorf("the page that is listed now is not asked: %+v", last)
		}
	})
}

// Two who tell of the same thing must not become one series.
func TestAThingIsToldOfByOne(t *testing.T) {
	named := func(instance string, names ...string) Source {
		return worker(instance, func(context.Context, int) ([]spec.Sample, error) {
			var all []spec.Sample
			for _, n := range names {
				all = append(all, spec.Sample{Name: n, Worker: &spec.WorkerSample{}})
			}
			return all, nil
		})
	}
	t.Run("the same worker at two addresses", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := observe(t, 5*time.Second, named("127.0.0.1:1", "77"), named("localhost:1", "77"))
			instances := map[string]bool{}
			for _, s := range k.of("77") {
				instances[s.Instance] = true
			}
			if len(instances) != 1 {
				t.Errorf("it is told of by %v", instances)
			}
			var gaps []spec.Sample
			gaps = append(append(gaps, k.of("127.0.0.1:1")...), k.of("localhost:1")...)
			if len(gaps) == 0 || !strings.HasPrefix(gaps[0].Gap, "this is worker 77, which is asked at ") {
				t.Errorf("the other says %+v", gaps)
			}
		})
	})
	t.Run("until the first no longer does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ends := worker("a:1", func(_ context.Context, nth int) ([]spec.Sample, error) {
				if nth > 3 {
					return nil, reason("connection refused")
				}
				return []spec.Sample{{Name: "77", Worker: &spec.WorkerSample{}}}, nil
			})
			k := &kept{}
			o := New(StartClock(), time.Second, k)
			defer o.Close()
			o.Set(t.Context(), []Source{ends})
			time.Sleep(3 * time.Second)
			o.Set(t.Context(), []Source{ends, named("b:1", "77")})
			time.Sleep(20 * time.Second)
			synctest.Wait()
			told := 0
			for _, s := range k.of("77") {
				if s.Instance == "b:1" && s.Gap == "" {
					told++
				} else if told > 1 {
					t.Errorf("and the first still: %+v", s)
				}
			}
			if told < 10 {
				t.Errorf("the second tells %d times", told)
			}
		})
	})
	t.Run("one name given to two", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := named("a:1", "77"), named("b:1", "78")
			a.Labels.Name, b.Labels.Name = "w", "w"
			k := observe(t, 5*time.Second, a, b)
			if len(k.of("w")) == 0 || len(k.of("w@a:1"))+len(k.of("w@b:1")) == 0 {
				t.Errorf("%d of w, %d and %d of the others", len(k.of("w")), len(k.of("w@a:1")), len(k.of("w@b:1")))
			}
		})
	})
	t.Run("engines of workers without a name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := observe(t, 5*time.Second, named("a:1", "/0", "/1"), named("b:1", "/0", "/1"))
			for _, name := range []string{"a:1/0", "a:1/1", "b:1/0", "b:1/1"} {
				if len(k.of(name)) == 0 {
					t.Errorf("nothing of %s", name)
				}
			}
		})
	})
}

func TestWhatIsTakenOffTheListSaysSoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		o := New(StartClock(), time.Second, k)
		s := worker("w:1", func(context.Context, int) ([]spec.Sample, error) {
			return []spec.Sample{{Name: "77", Worker: &spec.WorkerSample{}}}, nil
		})
		o.Set(t.Context(), []Source{s})
		time.Sleep(5 * time.Second)
		o.Set(t.Context(), nil)
		time.Sleep(5 * time.Second)
		o.Close()
		got := k.of("77")
		for i, x := range got {
			if (x.Gap == "no longer listed") != (i == len(got)-1) {
				t.Errorf("sample %d of %d: gap %q", i, len(got), x.Gap)
			}
		}
	})
}

// Rows that waited in a pipe while this program stood still are of times that
// nobody knows.
func TestRowsThatCameTogetherAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := Source{Kind: spec.SourceGPU, Instance: "local", Follower: &following{script: func(ctx context.Context, tell Tell, _ int) error {
			for {
				for range 5 {
					tell.Sample(spec.Sample{Name: "GPU-a", GPU: &spec.GPUSample{}})
				}
				if !sleep(ctx, 5*time.Second) {
					return ctx.Err()
				}
			}
		}}}
		told := 0
		for _, s := range observe(t, 12*time.Second, gpu).of("GPU-a") {
			if s.GPU != nil {
				told++
			}
		}
		if told != 3 {
			t.Errorf("%d samples, want 3", told)
		}
	})
}
