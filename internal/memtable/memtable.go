package memtable

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/item"
)

const maxBodyBytes = 1 << 30

var errTooLarge = errors.New("memtable: key or body too large")

// Range is the span of hashes (item.Key.Hash) to expect: Hi is exclusive, 0
// meaning 1<<64. It only tunes the order: other keys work, more slowly.
type Range struct{ Lo, Hi uint64 }

// Table is a memtable. Put and Release belong to one writer at a time; all
// other methods may be called from any goroutine beside it.
type Table struct {
	slots   atomic.Uint64 // type slots; 0 until the first Put
	seed    item.Seed     // of the hashes in slots
	buckets buckets
	space
	arrivals arrivals

	random       uint64 // state of randomHeight
	items        atomic.Int64
	versions     atomic.Int64
	rawBytes     atomic.Int64
	ofPartitions atomic.Int64
	minSeq       atomic.Uint64
	maxSeq       atomic.Uint64
}

// New returns an empty table that takes its memory from pool. It owns none
// before the first Put. expectItems is the number of keys to expect; it sets
// the number of buckets and need not be exact. seed is not to be known to those who
// choose keys; with it point reads hash them.
func New(pool *arena.Pool, r Range, expectItems int, seed item.Seed) *Table {
	return &Table{
		space:   space{pool: pool},
		buckets: makeBuckets(r, expectItems),
		seed:    seed,
		random:  rand.Uint64() | 1,
	}
}

// Put adds a version of a key, copying both. A version whose sequence is not
// above the newest of its key is ignored without error. It returns
// arena.ErrFull when the pool has no room (force takes the memory past the
// pool's limit instead), or the system's error when that has none, and leaves
// the table as it was. A key or body over the limits is refused.
func (t *Table) Put(k *item.Key, v *item.Version, force bool) error {
	if len(k.EPK) > item.MaxEPK || len(k.PK) > item.MaxPK || len(k.ID) > item.MaxID ||
		len(v.Body) > maxBodyBytes {
		return errTooLarge
	}
	l := item.Lookup{Key: k}
	n, link := t.find(&l)
	if n != nil && v.Seq <= t.version(n.newest).seq {
		return nil
	}
	var err error
	if n != nil {
		err = t.prepend(n, v, force)
	} else {
		n, link, err = t.add(&l, v, force)
	}
	if err != nil {
		return err
	}
	t.count(Ref{link, n.newest}, k, v)
	return nil
}

// count notes a version that was added.
func (t *Table) count(r Ref, k *item.Key, v *item.Version) {
	t.arrived(r, v.Seq)
	t.versions.Add(1)
	if k.OfPartition() {
		t.ofPartitions.Add(1)
	}
	t.rawBytes.Add(int64(len(v.Body)))
	if low := t.minSeq.Load(); low == 0 || v.Seq < low {
		t.minSeq.Store(v.Seq)
	}
	if v.Seq > t.maxSeq.Load() {
		t.maxSeq.Store(v.Seq)
	}
}

// Restore is Put, past the pool's limit, but puts a version below newer ones of
// its key in its place. Only one with a sequence that the key has is ignored. No
// reader may be there.
func (t *Table) Restore(k *item.Key, v *item.Version) error {
	n, link := t.find(k.Lookup())
	if n == nil || v.Seq > t.version(n.newest).seq {
		return t.Put(k, v, true)
	}
	above := t.version(n.newest)
	for above.older != 0 && t.version(above.older).seq >= v.Seq {
		above = t.version(above.older)
	}
	if above.seq == v.Seq {
		return nil
	}
	if len(v.Body) > maxBodyBytes {
		return errTooLarge
	}
	at, mem, err := t.alloc(versionSize(v), true)
	if err != nil {
		return err
	}
	if err := t.reserveArrival(); err != nil {
		return err
	}
	(*version)(mem).fill(v, above.older)
	above.older = at
	t.count(Ref{link, at}, k, v)
	return nil
}

// prepend adds a version to a node.
func (t *Table) prepend(n *node, v *item.Version, force bool) error {
	link, mem, err := t.alloc(versionSize(v), force)
	if err != nil {
		return err
	}
	if err := t.reserveArrival(); err != nil {
		return err
	}
	(*version)(mem).fill(v, n.newest)
	storeLink(&n.newest, link)
	return nil
}

// add adds a node with its first version, which lies right behind it, and
// returns it with its link.
func (t *Table) add(l *item.Lookup, v *item.Version, force bool) (n *node, link uint32, err error) {
	if err = t.prepare(force); err != nil {
		return nil, 0, err
	}
	k := l.Key
	at, err := t.locate(k, force)
	if err != nil {
		return nil, 0, err
	}
	size := nodeSize(k)
	link, mem, err := t.alloc(size+versionSize(v), force)
	if err != nil {
		return nil, 0, err
	}
	if err := t.reserveArrival(); err != nil {
		return nil, 0, err
	}
	n = (*node)(mem)
	n.fill(k)
	(*version)(unsafe.Add(mem, size)).fill(v, 0)
	n.newest = link + uint32(size/unitBytes)
	t.insert(k, link, &at)
	t.publishSlot(l, link)
	t.items.Add(1)
	return n, link, nil
}

// prepare makes room for one more key in the slots, at first the directory and
// the slots themselves.
func (t *Table) prepare(force bool) error {
	if t.slots.Load() != 0 {
		return t.growSlots(force)
	}
	// The first unit stays unused: its link is 0.
	slotsAt := unitBytes + roundUp(linkBytes*t.buckets.pages())
	size := slotsAt + slotBytes<<firstSlotsLog
	_, mem, err := t.alloc(size, force)
	if err != nil {
		return err
	}
	clear(unsafe.Slice((*byte)(mem), size))
	t.slots.Store(uint64(makeSlots(uint32(slotsAt/unitBytes), firstSlotsLog)))
	return nil
}

// Get sets v to the newest version of a key with a sequence up to maxSeq, which may
// be a tombstone, and reports whether there is one. v.Body is valid until
// Release.
func (t *Table) Get(l *item.Lookup, maxSeq uint64, v *item.Version) bool {
	n, _ := t.find(l)
	if n == nil {
		return false
	}
	at := t.visible(n, maxSeq)
	if at == nil {
		return false
	}
	at.borrow(v)
	return true
}

// Latest is Get without a bound: the newest version, whether published or not.
func (t *Table) Latest(l *item.Lookup, v *item.Version) bool {
	return t.Get(l, math.MaxUint64, v)
}

// visible returns the newest version of n up to maxSeq, nil if there is none.
func (t *Table) visible(n *node, maxSeq uint64) *version {
	v := t.version(loadLink(&n.newest))
	for v.seq > maxSeq {
		if v.older == 0 {
			return nil
		}
		v = t.version(v.older)
	}
	return v
}

func (t *Table) node(link uint32) *node       { return (*node)(t.at(link)) }
func (t *Table) leaf(link uint32) *leaf       { return (*leaf)(t.at(link)) }
func (t *Table) version(link uint32) *version { return (*version)(t.at(link)) }

// Bytes returns the bytes in use: entries, their order and slots.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// Reserved returns the bytes of the chunks that the table holds.
func (t *Table) Reserved() int64 { return t.reserved.Load() }

// Items returns the number of keys.
func (t *Table) Items() int64 { return t.items.Load() }

// Versions returns the number of versions.
func (t *Table) Versions() int64 { return t.versions.Load() }

// RawBytes returns the sum of the lengths of all bodies.
func (t *Table) RawBytes() int64 { return t.rawBytes.Load() }

// PartitionTombstones returns the number of versions of keys that stand for a
// logical partition.
func (t *Table) PartitionTombstones() int64 { return t.ofPartitions.Load() }

// MinSeq returns the lowest sequence in the table, 0 if it is empty.
func (t *Table) MinSeq() uint64 { return t.minSeq.Load() }

// MaxSeq returns the highest sequence in the table, 0 if it is empty.
func (t *Table) MaxSeq() uint64 { return t.maxSeq.Load() }

// Release returns the chunks to the pool and leaves the table empty. The caller
// guarantees that no reader is left and that nothing borrowed is used again.
func (t *Table) Release() {
	t.slots.Store(0)
	t.arrivals.n.Store(0)
	t.arrivals.tail.Store(0)
	t.arrivals.blocks.Store(nil)
	t.release()
	t.items.Store(0)
	t.versions.Store(0)
	t.rawBytes.Store(0)
	t.ofPartitions.Store(0)
	t.minSeq.Store(0)
	t.maxSeq.Store(0)
}
