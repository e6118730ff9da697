package sim

import (
	"container/list"
	"slices"
)

// prefixes knows which KV blocks of past prompts are still at hand: the least
// recently used are forgotten first.
type prefixes struct {
	at    map[uint64]*list.Element
	order *list.List // of block names, the most recently used first
}

func newPrefixes() *prefixes { return &prefixes{map[uint64]*list.Element{}, list.New()} }

// match is how many of the first blocks are known.
func (p *prefixes) match(blocks []uint64) int {
	for i, b := range blocks {
		if _, ok := p.at[b]; !ok {
			return i
		}
	}
	return len(blocks)
}

// use notes that the blocks were used just now, the head of the prompt last: what
// is forgotten first is a tail, without which the head is still of use.
func (p *prefixes) use(blocks []uint64) {
	for _, b := range slices.Backward(blocks) {
		if e, ok := p.at[b]; ok {
			p.order.MoveToFront(e)
			continue
		}
		p.at[b] = p.order.PushFront(b)
	}
}

// keep forgets all but room blocks.
func (p *prefixes) keep(room int) {
	for p.order.Len() > max(0, room) {
		last := p.order.Back()
		p.order.Remove(last)
		delete(p.at, last.Value.(uint64))
	}
}
