package index

import (
	"slices"
	"sync"
	"weak"
)

// KeptBytes bounds the memory of what a Kept holds, in bytes.
const KeptBytes = 16 << 20

// keptEntryBytes is about what an entry takes beside its set.
const keptEntryBytes = 160

// Kept holds what was learnt from indexes at some cost and is likely to be asked again:
// a query that is read in pages asks the same of the same index for each page. An index
// never changes, so what is kept stays true. The zero value is ready for use; it is safe
// for concurrent use. It holds at most KeptBytes and leaves out what was asked least
// recently. It keeps no index alive.
type Kept struct {
	mu      sync.Mutex
	entries map[keptKey]*keptEntry
	bytes   int64
	tick    uint64
}

// Question identifies what is asked of an index, for instance by a hash.
type Question [32]byte

type keptKey struct {
	of weak.Pointer[Reader]
	q  Question
}

type keptEntry struct {
	used  uint64
	spent int64 // what was spent so far to do without the set
	set   *Set  // nil: it was not made yet
	full  bool  // set has all ordinals of the index
	order *Ordered
}

func (e *keptEntry) bytes() int64 {
	n := int64(keptEntryBytes)
	if e.set != nil {
		n += 8 * int64(len(e.set.words))
	}
	if e.order != nil {
		n += e.order.bytes()
	}
	return n
}

// entry returns the entry of a question, a new one if make is set.
func (k *Kept) entry(of *Reader, q *Question, make bool) *keptEntry {
	key := keptKey{weak.Make(of), *q}
	e := k.entries[key]
	if e == nil {
		if !make {
			return nil
		}
		if k.entries == nil {
			k.entries = map[keptKey]*keptEntry{}
		}
		e = &keptEntry{}
		k.entries[key] = e
		k.bytes += e.bytes()
	}
	k.tick++
	e.used = k.tick
	return e
}

// Set returns the set that answers a question, nil if it is not kept, and what was spent
// so far to do without it. full says that it has all ordinals. The set must not be
// changed.
func (k *Kept) Set(of *Reader, q *Question) (set *Set, full bool, spent int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entry(of, q, false)
	if e == nil {
		return nil, false, 0
	}
	return e.set, e.full, e.spent
}

// Spend adds to what was spent to do without a set.
func (k *Kept) Spend(of *Reader, q *Question, n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entry(of, q, true).spent += n
	k.shrink()
}

// Keep keeps a copy of the set that answers a question, which is of all ordinals of the
// index, unless it alone takes more than half of KeptBytes. full is as Set returns it.
func (k *Kept) Keep(of *Reader, q *Question, set *Set) (full bool) {
	full = set.Count() == int(of.info.Items)
	if 8*int64(len(set.words)) > KeptBytes/2 {
		return full
	}
	own := &Set{lo: set.lo, hi: set.hi, base: set.base, words: slices.Clone(set.words)}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entry(of, q, true)
	k.bytes -= e.bytes()
	e.set, e.full = own, full
	k.bytes += e.bytes()
	k.shrink()
	return full
}

// Order returns the order that answers a question, nil if it is not kept.
func (k *Kept) Order(of *Reader, q *Question) *Ordered {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entry(of, q, false); e != nil {
		return e.order
	}
	return nil
}

// KeepOrder keeps the order that answers a question, unless it alone takes more than half of
// KeptBytes.
func (k *Kept) KeepOrder(of *Reader, q *Question, o *Ordered) {
	if o.bytes() > KeptBytes/2 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entry(of, q, true)
	k.bytes -= e.bytes()
	e.order = o
	k.bytes += e.bytes()
	k.shrink()
}

// shrink leaves out the entries of indexes that are gone, and then those that were asked
// least recently, until the others take at most three quarters of KeptBytes. k is locked.
func (k *Kept) shrink() {
	if k.bytes <= KeptBytes {
		return
	}
	type aged struct {
		key  keptKey
		used uint64
	}
	var list []aged
	for key, e := range k.entries {
		used := e.used
		if key.of.Value() == nil {
			used = 0
		}
		list = append(list, aged{key, used})
	}
	slices.SortFunc(list, func(a, b aged) int {
		switch {
		case a.used < b.used:
			return -1
		case a.used > b.used:
			return 1
		}
		return 0
	})
	for _, a := range list {
		if a.used > 0 && k.bytes <= KeptBytes/4*3 {
			break
		}
		k.bytes -= k.entries[a.key].bytes()
		delete(k.entries, a.key)
	}
}

// Bytes returns the memory of what is kept.
func (k *Kept) Bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bytes
}
