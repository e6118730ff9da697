package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A prompt of 128 tokens has 8 blocks, of whose 128 tokens at most 94 %, 120,
// are found again. What is forgotten of a prompt is its end: without its
// beginning the rest would be of no use.
func TestAPromptSeenBeforeCostsItsUncachedTail(t *testing.T) {
	tests := map[string]struct {
		kvBlocks int
		prompts  []int // names; 0: like no other
		tokens   int
		output   int // 1 when not said
		cached   []int
	}{
		"the second time only the tail":     {prompts: []int{1, 1, 1}, tokens: 128, cached: []int{0, 120, 120}},
		"another prompt costs all of it":    {prompts: []int{1, 2, 1, 2}, tokens: 128, cached: []int{0, 0, 120, 120}},
		"unique prompts never hit":          {prompts: []int{0, 0, 0}, tokens: 128, cached: []int{0, 0, 0}},
		"a short prompt keeps one token":    {prompts: []int{1, 1}, tokens: 1, cached: []int{0, 0}},
		"the oldest is forgotten for KV":    {kvBlocks: 17, prompts: []int{1, 2, 1}, tokens: 128, cached: []int{0, 0, 16}},
		"the latest use counts, not first":  {kvBlocks: 26, prompts: []int{1, 2, 1, 3, 1, 2}, tokens: 128, cached: []int{0, 0, 120, 0, 120, 32}},
		"what decodes needs KV too":         {kvBlocks: 24, prompts: []int{1, 2, 1}, tokens: 128, output: 2, cached: []int{0, 0, 112}},
		"and not before it decodes":         {kvBlocks: 24, prompts: []int{1, 2, 1}, tokens: 128, cached: []int{0, 0, 120}},
		"with room for both, both are kept": {kvBlocks: 26, prompts: []int{1, 2, 1, 2}, tokens: 128, cached: []int{0, 0, 120, 120}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := bare(1)
			if tt.kvBlocks > 0 {
				s.Fleet.KVBlocks = tt.kvBlocks
			}
			var asks []ask
			for i, p := range tt.prompts {
				a := ask{at: 100 * ms * time.Duration(i), prompt: tt.tokens, output: max(1, tt.output)}
				if p > 0 {
					a.blocks = promptOf(p, tt.tokens)
				}
				asks = append(asks, a)
			}
			f := virtual(s, 1, false)
			streams, _ := drive(t, f, asks, nil)
			var cached []int
			hits := 0
			for i, s := range streams {
				cached = append(cached, s.Cached)
				hits += s.Cached
				// Its first token says what was computed.
				want := asks[i].at + 300*us + 12_100*us + 10*us*time.Duration(tt.tokens-tt.cached[i]) + 507*us
				if s.First != want {
					t.Errorf("request %d had its first token at %v, want %v", i, s.First, want)
				}
			}
			if diff := cmp.Diff(tt.cached, cached); diff != "" {
				t.Errorf("cached tokens (-want +got):\n%s", diff)
			}
			w := f.workers[0]
			if asked := int64(tt.tokens * len(streams)); w.queries != asked || w.prompted != asked || w.hits != int64(hits) {
				t.Errorf("counters: %d prompt tokens, %d queries, %d hits; want %d, %d, %d", w.prompted, w.queries, w.hits, asked, asked, hits)
			}
		})
	}
}

func TestPrefixesMatchFromTheStartAndForgetTheLeastRecent(t *testing.T) {
	p := newPrefixes()
	p.use([]uint64{1, 2, 3})
	p.use([]uint64{1, 2, 4})
	for _, tt := range []struct {
		blocks []uint64
		want   int
	}{
		{nil, 0},
		{[]uint64{1, 2, 3}, 3},
		{[]uint64{1, 2, 4, 5}, 3},
		{[]uint64{1, 9, 3}, 1},
		{[]uint64{9, 1, 2}, 0},
	} {
		if got := p.match(tt.blocks); got != tt.want {
			t.Errorf("%v matches %d, want %d", tt.blocks, got, tt.want)
		}
	}
	p.keep(3)
	if got := p.match([]uint64{1, 2, 3}); got != 2 {
		t.Errorf("after forgetting the least recent block, %d match, want 2", got)
	}
	p.keep(-1)
	if p.match([]uint64{1}) != 0 || p.order.Len() != 0 || len(p.at) != 0 {
		t.Error("something is kept where there is no room")
	}
}

func TestAWorkerThatDiesForgetsItsPrefixes(t *testing.T) {
	s := bare(1)
	blocks := promptOf(1, 128)
	s.Faults = append(s.Faults, during(dead(0), 1000*ms, 100*ms))
	streams, _ := drive(t, virtual(s, 1, false), []ask{
		{prompt: 128, output: 1, blocks: blocks},
		{at: 500 * ms, prompt: 128, output: 1, blocks: blocks},
		{at: 1500 * ms, prompt: 128, output: 1, blocks: blocks},
	}, nil)
	if got := []int{streams[0].Cached, streams[1].Cached, streams[2].Cached}; !cmp.Equal(got, []int{0, 120, 0}) {
		t.Errorf("cached %v, want 0, 120, 0", got)
	}
}
