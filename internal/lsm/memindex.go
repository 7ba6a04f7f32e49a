package lsm

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/memtable"
)

// memIndex is the index of a memtable, made when a query first asks for it. It
// consists of parts. Each part is a small index of the versions in a span of
// sequences. Parts are joined as they become many: with n versions, each one is
// indexed about log n times.
//
// The memory of a memIndex is counted with that of the memtables, so it makes them
// flush earlier. It is given back with its memtable. If there is no memory left, a
// query reads the memtable instead.
type memIndex struct {
	table  *memtable.Table
	policy *index.Compiled

	mu struct {
		sync.Mutex
		upTo     uint64
		parts    []*memPart // oldest first
		bytes    int64      // counted
		gone     bool       // the index was dropped: its memory is not counted any more
		tooLarge bool       // making a part takes more memory than is allowed
	}
}

// memPart is an immutable part: like a segment, it has its versions in the order
// of keys, those of one key newest first.
type memPart struct {
	table   *memtable.Table
	refs    []memtable.Ref
	seqs    []uint64
	maxSeq  uint64
	oldest  int64 // when the first of the versions was written, milliseconds
	r       *index.Reader
	Bytes   int64
	vectors vectorCache
}

// partVersionBytes is the memory of a version in a part, beside its terms: ref,
// sequence, and whether it overwrites another version.
const partVersionBytes = 8 + 8 + 12

// MemIndexes finds the indexes of memtables.
type MemIndexes struct {
	byTable sync.Map // *memtable.Table to *memIndex
	pool    *arena.Pool
	Beyond  int64 // bytes by which the indexes may pass the limit of the pool
	Scratch int64 // bytes that making a part may take meanwhile
	Bytes   atomic.Int64
	// making is held while a large part is made, so that many queries at once do
	// not hold many times the scratch.
	making sync.Mutex
}

// largePart is the size of the documents of a part, in bytes, from which it is large.
const largePart = 1 << 20

func (m *MemIndexes) Init(pool *arena.Pool, budget int64, readOnly bool) {
	m.pool = pool
	m.Beyond = budget / 16
	if readOnly {
		m.Beyond = math.MaxInt64 / 2
	}
	m.Scratch = min(index.DefaultLimit, budget/4)
}

// reserve counts memory; false: there is none left.
func (m *MemIndexes) reserve(size int64) bool {
	ok := m.pool.Reserve(size, m.Beyond)
	if ok {
		m.Bytes.Add(size)
	}
	return ok
}

func (m *MemIndexes) unreserve(size int64) {
	m.pool.Unreserve(size)
	m.Bytes.Add(-size)
}

// of returns the index of a memtable for a policy.
func (m *MemIndexes) of(t *memtable.Table, policy *index.Compiled) *memIndex {
	for {
		found, ok := m.byTable.Load(t)
		if ok && found.(*memIndex).policy == policy {
			return found.(*memIndex)
		}
		made := &memIndex{table: t, policy: policy}
		if !ok {
			if _, ok = m.byTable.LoadOrStore(t, made); !ok {
				return made
			}
		} else if m.byTable.CompareAndSwap(t, found, made) {
			m.drop(found.(*memIndex))
			return made
		}
	}
}

// Made returns the parts of a memtable's index. It returns nil if there are none, or
// while the index is in use or being extended.
func (m *MemIndexes) Made(t *memtable.Table) []*memPart {
	found, ok := m.byTable.Load(t)
	if !ok {
		return nil
	}
	mem := found.(*memIndex)
	if !mem.mu.TryLock() {
		return nil
	}
	defer mem.mu.Unlock()
	return mem.mu.parts
}

// forget drops the index of a memtable that has no more readers.
func (m *MemIndexes) forget(t *memtable.Table) {
	if found, ok := m.byTable.LoadAndDelete(t); ok {
		m.drop(found.(*memIndex))
	}
}

// drop gives the memory of an index back. What a query adds to it later is not
// counted.
func (m *MemIndexes) drop(x *memIndex) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m.unreserve(x.mu.bytes)
	x.mu.bytes, x.mu.gone = 0, true
}

// partsAt returns parts of the index of a memtable, oldest first. They hold all
// versions up to seq, and perhaps newer ones. The caller has learnt seq from the
// partition. partsAt indexes the versions that were written since the last call. It
// returns false if there is no memory for that. ages says to note when they were written.
func (m *MemIndexes) partsAt(t *memtable.Table, policy *index.Compiled, seq uint64, ages bool) ([]*memPart, bool, error) {
	x := m.of(t, policy)
	x.mu.Lock()
	defer x.mu.Unlock()
	if seq <= x.mu.upTo {
		return x.mu.parts, true, nil
	}
	if x.mu.tooLarge {
		return nil, false, nil
	}
	part := &memPart{table: t}
	t.Refs(x.mu.upTo, seq, func(r memtable.Ref, seq uint64) {
		part.refs, part.seqs = append(part.refs, r), append(part.seqs, seq)
	})
	parts := x.mu.parts[:len(x.mu.parts):len(x.mu.parts)]
	if len(part.refs) > 0 {
		var joined int64
		for len(parts) > 0 && len(parts[len(parts)-1].refs) <= 2*len(part.refs) {
			last := parts[len(parts)-1]
			joined += last.Bytes
			part = joinParts(last, part)
			parts = parts[:len(parts)-1]
		}
		if ok, err := m.build(x, part, joined, ages); !ok || err != nil {
			return nil, false, err
		}
		parts = append(parts[:len(parts):len(parts)], part)
	}
	x.mu.parts, x.mu.upTo = parts, seq
	return parts, true, nil
}

// build makes the index of a part. The part replaces older parts that hold joined
// bytes. build returns false if there is no memory. x is locked.
func (m *MemIndexes) build(x *memIndex, part *memPart, joined int64, ages bool) (bool, error) {
	versions := int64(len(part.refs))
	raw := x.table.RawBytes() / max(1, x.table.Versions()) * versions
	counted := partVersionBytes*versions + raw/8 // a guess, until the part is made
	if x.mu.gone {
		counted = 0
	} else if !m.reserve(counted) {
		return false, nil
	}
	if raw >= largePart {
		m.making.Lock()
		defer m.making.Unlock()
	}
	err := part.build(x.policy, m.Scratch, ages)
	more := part.Bytes - counted
	switch {
	case err == nil && x.mu.gone:
		return true, nil
	case err == nil && (more <= 0 || m.reserve(more)):
		m.unreserve(joined - min(0, more))
		x.mu.bytes += part.Bytes - joined
		return true, nil
	case errors.Is(err, index.ErrTooLarge):
		x.mu.tooLarge, err = true, nil
	}
	m.unreserve(counted)
	return false, err
}

// joinParts returns a part with the versions of two parts. Its index is not built.
func joinParts(older, newer *memPart) *memPart {
	out := &memPart{table: older.table}
	var a, b item.Key
	var v item.Version
	i, j := 0, 0
	take := func(p *memPart, at int) {
		out.refs, out.seqs = append(out.refs, p.refs[at]), append(out.seqs, p.seqs[at])
	}
	for i < len(older.refs) && j < len(newer.refs) {
		older.table.Borrow(older.refs[i], &a, &v)
		older.table.Borrow(newer.refs[j], &b, &v)
		if item.Compare(&a, &b) < 0 {
			take(older, i)
			i++
		} else {
			take(newer, j) // of one key all versions of newer come first
			j++
		}
	}
	for ; i < len(older.refs); i++ {
		take(older, i)
	}
	for ; j < len(newer.refs); j++ {
		take(newer, j)
	}
	return out
}

// build indexes the versions. It fails with index.ErrTooLarge if that takes more than
// scratch bytes.
func (p *memPart) build(policy *index.Compiled, scratch int64, ages bool) error {
	b := index.NewBuilder(policy, scratch, nil)
	b.Written = ages
	defer b.Close()
	var key, last item.Key
	var v item.Version
	var deleted DeletedBefore
	p.oldest = math.MaxInt64
	for i, r := range p.refs {
		p.table.Borrow(r, &key, &v)
		p.oldest = min(p.oldest, v.Modified)
		older := i > 0 && item.Compare(&key, &last) == 0
		last = key
		older = deleted.Hides(&key, &v) || older
		p.maxSeq = max(p.maxSeq, v.Seq)
		b.Note(uint32(i), &v, older)
		if v.IsDocument() {
			if err := b.Add(uint32(i), v.Body); err != nil {
				return err
			}
		}
	}
	var bytes []byte
	if err := b.WriteTo(func(piece []byte) error {
		bytes = append(bytes, piece...)
		return nil
	}, uint32(len(p.refs))); err != nil {
		return err
	}
	bytes = append(make([]byte, 0, len(bytes)), bytes...) // no more than it takes
	r, err := index.Open(index.Memory(bytes))
	p.r, p.Bytes = r, int64(len(bytes))+partVersionBytes*int64(len(p.refs))
	return err
}

// lower returns the ordinal of the first version whose key is not before k.
func (p *memPart) lower(k *item.Key) uint32 {
	var key item.Key
	var v item.Version
	lo, hi := 0, len(p.refs)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		p.table.Borrow(p.refs[mid], &key, &v)
		if item.Compare(&key, k) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return uint32(lo)
}

// lookup finds the versions that a version with key k overwrites: the ordinal of the
// first, and their number. A partition tombstone overwrites its whole logical
// partition.
func (p *memPart) lookup(k *item.Key) (ordinal, versions uint32) {
	var key item.Key
	var v item.Version
	ordinal = p.lower(k)
	if k.OfPartition() {
		_, end := LimitsOf(k)
		return ordinal, p.lower(end) - ordinal
	}
	for i := ordinal; i < uint32(len(p.refs)); i++ {
		p.table.Borrow(p.refs[i], &key, &v)
		if item.Compare(&key, k) != 0 {
			break
		}
		versions++
	}
	return ordinal, versions
}
