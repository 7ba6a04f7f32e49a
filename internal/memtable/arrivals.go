package memtable

import (
	"cmp"
	"slices"
	"sort"
	"sync/atomic"
	"unsafe"
)

// arrivals lists the versions of a table in the order in which they were put,
// for those who follow what is written: 8 bytes a version, in blocks of arena
// memory that are found by a directory.
type arrivals struct {
	blocks atomic.Pointer[[]uint32] // links
	n      atomic.Int64             // published after the entry
	// tail is a sequence: of the versions above it each was put after all with
	// lower sequences.
	tail atomic.Uint64
}

const arrivalBlock = 64 // entries

// reserveArrival makes room for one more entry, past the pool's limit if need be:
// its caller has already reserved the memory of the version.
func (t *Table) reserveArrival() error {
	if t.arrivals.n.Load()%arrivalBlock != 0 {
		return nil
	}
	return t.addArrivals()
}

// addArrivals adds a block, unless the last one is empty yet.
func (t *Table) addArrivals() error {
	var blocks []uint32
	if b := t.arrivals.blocks.Load(); b != nil {
		blocks = *b
	}
	if int(t.arrivals.n.Load()) < arrivalBlock*len(blocks) {
		return nil
	}
	link, _, err := t.alloc(arrivalBlock*int(unsafe.Sizeof(Ref{})), true)
	if err != nil {
		return err
	}
	// Readers hold shorter slices of the same array at most.
	blocks = append(blocks, link)
	t.arrivals.blocks.Store(&blocks)
	return nil
}

func (t *Table) arrival(i int) *Ref {
	link := (*t.arrivals.blocks.Load())[i/arrivalBlock]
	return (*Ref)(unsafe.Add(t.at(link), uintptr(i%arrivalBlock)*unsafe.Sizeof(Ref{})))
}

// arrived adds a version, for which there is room. Its sequence is not yet in
// the table's range.
func (t *Table) arrived(r Ref, seq uint64) {
	if high := t.maxSeq.Load(); seq < high {
		t.arrivals.tail.Store(high)
	}
	n := t.arrivals.n.Load()
	*t.arrival(int(n)) = r
	t.arrivals.n.Store(n + 1)
}

// Arrivals returns which entries of the order of arrival, from inclusive and to
// exclusive, are the versions with a sequence above after, in order of sequence.
// False: they are not in that order, as versions were put that have lower
// sequences than others before them; Refs finds them. It sees what was put
// before the call.
func (t *Table) Arrivals(after uint64) (from, to int, ok bool) {
	to = int(t.arrivals.n.Load())
	if to > 0 && after < t.arrivals.tail.Load() {
		return 0, 0, false
	}
	return sort.Search(to, func(i int) bool {
		_, seq := t.Arrival(i)
		return seq > after
	}), to, true
}

// Arrival returns entry i of the order of arrival, and its sequence.
func (t *Table) Arrival(i int) (r Ref, seq uint64) {
	r = *t.arrival(i)
	return r, t.version(r.version).seq
}

// Arrived is a version of a table, and its sequence.
type Arrived struct {
	Ref Ref
	Seq uint64
}

// InOrder returns the versions of a table with a sequence above after and not above
// upTo, in order of sequence.
func (t *Table) InOrder(after, upTo uint64) (list []Arrived) {
	if from, to, ok := t.Arrivals(after); ok {
		list = make([]Arrived, 0, to-from)
		for ; from < to; from++ {
			ref, seq := t.Arrival(from)
			if seq > upTo {
				break
			}
			list = append(list, Arrived{ref, seq})
		}
		return list
	}
	t.Refs(after, upTo, func(r Ref, seq uint64) { list = append(list, Arrived{r, seq}) })
	slices.SortFunc(list, func(a, b Arrived) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}
