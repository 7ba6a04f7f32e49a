package engine

import (
	"sync"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/memtable"
)

// memIndex is the index of a memtable, made when a query first asks for it. It
// consists of parts, each a small index of the versions of a span of sequences,
// which are joined as they become many: a version is read as often as the logarithm
// of their number. Memory: about as much as the documents have in terms.
type memIndex struct {
	table  *memtable.Table
	policy *index.Compiled

	mu struct {
		sync.Mutex
		upTo  uint64
		parts []*memPart // oldest first
	}
}

// memPart is an immutable part: like a segment, it has its versions in the order
// of keys, those of one key newest first.
type memPart struct {
	table   *memtable.Table
	refs    []memtable.Ref
	seqs    []uint64
	maxSeq  uint64
	r       *index.Reader
	shadows shadowCache
}

// memIndexes finds the indexes of memtables.
type memIndexes struct{ byTable sync.Map } // *memtable.Table to *memIndex

// of returns the index of a memtable for a policy.
func (m *memIndexes) of(t *memtable.Table, policy *index.Compiled) *memIndex {
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
			return made
		}
	}
}

// made returns the parts of a memtable that were made, if nobody makes some.
func (m *memIndexes) made(t *memtable.Table) []*memPart {
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

// forget lets go of the index of a memtable that nobody reads any more.
func (m *memIndexes) forget(t *memtable.Table) { m.byTable.Delete(t) }

// partsAt returns parts, oldest first, that hold all versions up to a sequence,
// which the caller has learnt from the partition, and perhaps newer ones. It
// reads what was written since the last call.
func (m *memIndex) partsAt(seq uint64) ([]*memPart, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq > m.mu.upTo {
		part := &memPart{table: m.table}
		m.table.Refs(m.mu.upTo, seq, func(r memtable.Ref, seq uint64) {
			part.refs, part.seqs = append(part.refs, r), append(part.seqs, seq)
		})
		parts := m.mu.parts[:len(m.mu.parts):len(m.mu.parts)]
		if len(part.refs) > 0 {
			for len(parts) > 0 && len(parts[len(parts)-1].refs) <= 2*len(part.refs) {
				part = joinParts(parts[len(parts)-1], part)
				parts = parts[:len(parts)-1]
			}
			if err := part.build(m.policy); err != nil {
				return nil, err
			}
			parts = append(parts[:len(parts):len(parts)], part)
		}
		m.mu.parts, m.mu.upTo = parts, seq
	}
	return m.mu.parts, nil
}

// joinParts returns the versions of two parts, not built.
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

// build indexes the versions.
func (p *memPart) build(policy *index.Compiled) error {
	b := index.NewBuilder(policy, 0, nil)
	defer b.Close()
	var key, last item.Key
	var v item.Version
	var deleted deletedBefore
	for i, r := range p.refs {
		p.table.Borrow(r, &key, &v)
		older := i > 0 && item.Compare(&key, &last) == 0
		last = key
		older = deleted.hides(&key, &v) || older
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
	r, err := index.Open(index.Memory(bytes))
	p.r = r
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

// lookup finds the versions that one of a key overwrites: the ordinal of the first
// and how many there are. One of a whole logical partition overwrites all of it.
func (p *memPart) lookup(k *item.Key) (ordinal, versions uint32) {
	var key item.Key
	var v item.Version
	ordinal = p.lower(k)
	if k.OfPartition() {
		_, end := limitsOf(k)
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
