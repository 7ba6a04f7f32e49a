// Package spacesaving finds the heaviest keys of a stream with a fixed number of
// counters, by the algorithm Space-Saving with weights. A key without a counter
// takes over the smallest counter, and the weight that this counter has becomes the possible
// error of the key.
// (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k
// elements in data streams", ICDT 2005.)
//
// Invariants:
//
//  1. The true weight of a key with a counter is at most the weight of the counter, and at
//     least that less its error.
//  2. The true weight of a key without a counter is at most the weight of the smallest
//     counter, which is at most the sum of all weights divided by the number of counters.
package spacesaving

import (
	"container/heap"
	"unsafe"
)

// Size is what is counted of a key. Keys are ordered by weight.
type Size struct {
	Items  float64
	Weight float64
}

func (s *Size) add(o Size) {
	s.Items += o.Items
	s.Weight += o.Weight
}

func (s *Size) scale(by float64) {
	s.Items *= by
	s.Weight *= by
}

// Heavy is a key with its counter. Its true weight lies between Size less Err
// and Size; its items are Size less Err at least, and Size or about it.
type Heavy struct {
	Key       string
	Size, Err Size
}

// Sketch is the set of counters. It serves one goroutine at a time.
type Sketch struct {
	limit    int
	index    map[string]*counter // the strings lie in the counters' key
	smallest byWeight
}

// counter counts a key. Its memory serves the next key too.
type counter struct {
	key       []byte
	size, err Size
	at        int // in the heap
}

// New returns a sketch with so many counters, at least 1. It grows as keys come.
func New(limit int) *Sketch { return &Sketch{limit: limit, index: make(map[string]*counter)} }

// Seed gives a key its counter before the first Add. Keys that are left out
// must not be heavier than any that is given.
func (s *Sketch) Seed(key []byte, size Size) {
	k := &counter{size: size}
	s.name(k, key)
	heap.Push(&s.smallest, k)
}

// Add counts what a key has more. It allocates only for keys longer than those
// before, while there are counters that are not in use.
func (s *Sketch) Add(key []byte, more Size) {
	k := s.index[string(key)]
	if k == nil {
		if len(s.smallest) < s.limit {
			s.Seed(key, more)
			return
		}
		k = s.smallest[0]
		delete(s.index, k.name())
		s.name(k, key)
		k.err = k.size
	}
	k.size.add(more)
	heap.Fix(&s.smallest, k.at)
}

// Scale multiplies all that was counted.
func (s *Sketch) Scale(by float64) {
	for _, k := range s.smallest {
		k.size.scale(by)
		k.err.scale(by)
	}
}

// All returns the counters in no order.
func (s *Sketch) All() []Heavy {
	list := make([]Heavy, len(s.smallest))
	for i, k := range s.smallest {
		list[i] = Heavy{Key: string(k.key), Size: k.size, Err: k.err}
	}
	return list
}

// name gives a counter that is not in the index its key.
func (s *Sketch) name(k *counter, key []byte) {
	k.key = append(k.key[:0], key...)
	s.index[k.name()] = k
}

// name returns the key without a copy: it must not be in the index any more
// when the bytes change.
func (k *counter) name() string { return unsafe.String(unsafe.SliceData(k.key), len(k.key)) }

// byWeight is a heap with the lightest counter first.
type byWeight []*counter

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h byWeight) Len() int           { return len(h) }
func (h byWeight) Less(i, j int) bool { return h[i].size.Weight < h[j].size.Weight }
func (h byWeight) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *byWeight) Push(x any) {
	k := x.(*counter)
	k.at = len(*h)
	*h = append(*h, k)
}
func (h *byWeight) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
