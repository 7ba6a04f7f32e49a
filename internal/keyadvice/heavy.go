package keyadvice

import "container/heap"

// heavy finds the largest keys of a stream in the memory of some counters, by
// the algorithm Space-Saving with weights: a key without a counter takes over
// the smallest one, with what it has counted as a possible error.
//
// Invariants: a key with a counter has at most its bytes, and at least these
// less its error; a key without one has at most the bytes of the smallest
// counter, which is at most all bytes / the number of counters.
type heavy struct {
	limit    int
	index    map[string]*heavyKey
	smallest []*heavyKey // a heap
}

type heavyKey struct {
	large
	at int // in the heap
}

func newHeavy(limit int) *heavy {
	return &heavy{limit: limit, index: make(map[string]*heavyKey, limit)}
}

// seed gives a key its counter before the first add. Keys that were left out
// must not be larger than any that was given.
func (h *heavy) seed(key string, t tally) {
	k := &heavyKey{large: large{key: key, size: t}}
	h.index[key] = k
	heap.Push(h, k)
}

// add counts what a key has more.
func (h *heavy) add(key []byte, t tally) {
	k := h.index[string(key)]
	if k == nil {
		if len(h.smallest) < h.limit {
			h.seed(string(key), t)
			return
		}
		k = h.smallest[0]
		delete(h.index, k.key)
		k.key, k.err = string(key), k.size
		h.index[k.key] = k
	}
	k.size.add(t)
	heap.Fix(h, k.at)
}

// all returns the counters.
func (h *heavy) all() []large {
	list := make([]large, len(h.smallest))
	for i, k := range h.smallest {
		list[i] = k.large
	}
	return list
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h *heavy) Len() int           { return len(h.smallest) }
func (h *heavy) Less(i, j int) bool { return h.smallest[i].size.bytes < h.smallest[j].size.bytes }
func (h *heavy) Swap(i, j int) {
	h.smallest[i], h.smallest[j] = h.smallest[j], h.smallest[i]
	h.smallest[i].at, h.smallest[j].at = i, j
}
func (h *heavy) Push(x any) {
	k := x.(*heavyKey)
	k.at = len(h.smallest)
	h.smallest = append(h.smallest, k)
}
func (h *heavy) Pop() any {
	last := h.smallest[len(h.smallest)-1]
	h.smallest = h.smallest[:len(h.smallest)-1]
	return last
}
