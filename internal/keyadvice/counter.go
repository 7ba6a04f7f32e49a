package keyadvice

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/cleavestore/cleave/internal/spacesaving"
)

// tally counts documents and their bytes.
type tally struct{ documents, bytes int64 }

// size returns the tally as Space-Saving counts it, exact up to 2^53 bytes.
func (t tally) size() spacesaving.Size {
	return spacesaving.Size{Items: float64(t.documents), Weight: float64(t.bytes)}
}

func tallyOf(s spacesaving.Size) tally { return tally{int64(s.Items), int64(s.Weight)} }

// counter counts by key, in bounded memory: see the package documentation.
type counter struct {
	limit    int // keys that are kept
	heavyMax int // counters of heavy
	kept     map[string]*tally
	keyBytes int                 // of the keys in kept
	zeros    int                 // the hashes of kept keys end in so many zero bits
	heavy    *spacesaving.Sketch // by bytes; nil while every key is kept
}

// meanKeyBytes is how long a key may be on average before it counts as more
// than one against the limit.
const meanKeyBytes = 64

func newCounter(limit, heavyMax int) *counter {
	return &counter{limit: limit, heavyMax: heavyMax, kept: make(map[string]*tally)}
}

// add counts documents. hash is hashOf(key).
func (c *counter) add(key []byte, hash uint64, more tally) {
	if c.heavy != nil {
		c.heavy.Add(key, more.size())
	}
	if !c.keeps(hash) {
		return
	}
	if t := c.kept[string(key)]; t != nil {
		t.add(more)
		return
	}
	c.kept[string(key)] = &more
	c.keyBytes += len(key)
	for c.full() {
		c.thin()
	}
}

func (c *counter) full() bool {
	return len(c.kept) > c.limit || len(c.kept) > 1 && c.keyBytes > c.limit*meanKeyBytes
}

func (c *counter) keeps(hash uint64) bool { return bits.TrailingZeros64(hash) >= c.zeros }

// thin keeps half of the keys. At first the largest are handed to heavy.
func (c *counter) thin() {
	if c.heavy == nil {
		c.heavy = spacesaving.New(c.heavyMax)
		for _, l := range largestOf(c.kept, c.heavyMax) {
			c.heavy.Seed([]byte(l.key), c.kept[l.key].size())
		}
	}
	c.zeros++
	for key := range c.kept {
		if !c.keeps(hashOf([]byte(key))) {
			delete(c.kept, key)
			c.keyBytes -= len(key)
		}
	}
}

// exact reports whether every key was counted.
func (c *counter) exact() bool { return c.heavy == nil }

// keys returns the number of keys, estimated if not exact.
func (c *counter) keys() int64 { return int64(len(c.kept)) << c.zeros }

// relativeError returns the standard error of keys as a share of it.
func (c *counter) relativeError() float64 {
	if c.exact() || len(c.kept) == 0 {
		return 0
	}
	return 1 / math.Sqrt(float64(len(c.kept)))
}

// large is one of the largest keys. Its true bytes lie between size less err
// and size; its documents are size less err at least, and size or about it.
type large struct {
	key       string
	size, err tally
}

// compareLarge orders the largest first, equals by key.
func compareLarge(a, b large) int {
	return cmp.Or(cmp.Compare(b.size.bytes, a.size.bytes), cmp.Compare(b.size.documents, a.size.documents), cmp.Compare(a.key, b.key))
}

// largest returns the n largest keys.
func (c *counter) largest(n int) []large {
	if c.exact() {
		return largestOf(c.kept, n)
	}
	var all []large
	for _, h := range c.heavy.All() {
		l := large{key: h.Key, size: tallyOf(h.Size), err: tallyOf(h.Err)}
		if t := c.kept[l.key]; t != nil {
			l.size, l.err = *t, tally{}
		}
		all = append(all, l)
	}
	slices.SortFunc(all, compareLarge)
	return all[:min(n, len(all))]
}

// largestOf returns the n largest of a map.
func largestOf(m map[string]*tally, n int) []large {
	// A list of twice as many is cut back whenever it is full.
	list := make([]large, 0, 2*n)
	for key, t := range m {
		if list = append(list, large{key: key, size: *t}); len(list) == 2*n {
			slices.SortFunc(list, compareLarge)
			list = list[:n]
		}
	}
	slices.SortFunc(list, compareLarge)
	return list[:min(n, len(list))]
}

// ranks returns the documents of a key at the given places between 0 and 1 in
// the order of size, 1 being the largest one.
func (c *counter) ranks(places ...float64) []int64 {
	sizes := make([]int64, 0, len(c.kept))
	for _, t := range c.kept {
		sizes = append(sizes, t.documents)
	}
	slices.Sort(sizes)
	out := make([]int64, len(places))
	for i, p := range places {
		if len(sizes) > 0 {
			out[i] = sizes[min(int(p*float64(len(sizes))), len(sizes)-1)]
		}
	}
	return out
}
