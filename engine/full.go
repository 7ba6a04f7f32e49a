package engine

import (
	"sync"

	"github.com/cleavestore/cleave/internal/item"
)

// fullKeys bounds the size of logical partitions.
//
// While a physical partition holds less than the limit of a logical one,
// nothing is counted. Beyond it an upper bound is kept for each key that is
// written: what the partition tables of the runs and the memtables hold of it,
// overwritten versions included, and what is written from then on. When the
// bound would pass the limit, the key's documents are counted exactly, and a
// write is refused only if they are too many.
type fullKeys struct {
	mu    sync.Mutex
	bound map[string]int64 // by encoded key: bytes at most
}

// maxFullKeys bounds the memory of the table; it is forgotten when full.
const maxFullKeys = 4096

// checkFull tests the limit for a write of size bytes.
func (p *partition) checkFull(r *request, size int64) error {
	limit := p.c.def.Limits.LogicalPartitionBytes
	if p.heldBytes()+size <= limit {
		return nil
	}
	p.full.mu.Lock()
	defer p.full.mu.Unlock()
	pk := r.key.PK
	bound, ok := p.full.bound[string(pk)]
	if !ok {
		var err error
		if bound, err = p.keyBound(&r.key); err != nil {
			return err
		}
	}
	if bound+size > limit {
		exact, replaced, err := p.keyBytes(&r.key)
		if err != nil {
			return err
		}
		bound = exact
		if exact-replaced+size > limit {
			return &LimitError{What: "logical partition " + keyOf(string(pk)).String(), Size: exact - replaced + size, Limit: limit, Kind: ErrLogicalPartitionFull}
		}
	}
	if p.full.bound == nil || len(p.full.bound) >= maxFullKeys {
		p.full.bound = make(map[string]int64)
	}
	p.full.bound[string(pk)] = bound + size
	return nil
}

// heldBytes is the raw size of everything in the partition.
func (p *partition) heldBytes() int64 {
	guard := p.db.epoch.Enter()
	defer guard.Leave()
	v := p.version.Load()
	return v.raw + v.memoryBytes()
}

// memoryBytes is the raw size of the documents in memtables.
func (v *version) memoryBytes() int64 {
	n := v.active.RawBytes()
	for i := range v.frozen {
		n += v.frozen[i].RawBytes()
	}
	return n
}

// keyBound sums what tables and memtables say of a logical partition.
func (p *partition) keyBound(k *item.Key) (int64, error) {
	guard := p.db.epoch.Enter()
	defer guard.Leave()
	v := p.version.Load()
	n := v.memoryBytes()
	for _, r := range v.runs {
		for _, f := range r.files {
			_, raw, ok, err := f.PartitionStats(k)
			if err != nil {
				return 0, err
			}
			if ok {
				n += int64(raw)
			}
		}
	}
	return n, nil
}

// keyBytes counts the documents of a logical partition, unpublished ones
// included, and tells the size of the one with the key's id.
func (p *partition) keyBytes(k *item.Key) (total, same int64, err error) {
	guard := p.db.epoch.Enter()
	defer guard.Leave()
	var m mergedCursor
	m.open(p.version.Load(), maxSequence, false)
	defer m.close()
	first := item.Key{Hash: k.Hash, EPK: k.EPK, PK: k.PK}
	now := p.db.nowMillis()
	for m.seek(&first, true); m.valid(); m.next() {
		key, v := m.top()
		if item.ComparePartition(key, k) != 0 {
			break
		}
		if !visible(v, now) {
			continue
		}
		size := int64(len(key.PK) + len(key.ID) + len(v.Body))
		total += size
		if item.Compare(key, k) == 0 {
			same = size
		}
	}
	return total, same, m.err()
}
