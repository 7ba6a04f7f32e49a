package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// keySizes bounds the size of logical partitions: the bytes of their documents.
//
// While a whole physical partition is smaller than a nearly full logical partition,
// nothing is counted. Beyond that size, keySizes has a size for each key that is
// written. At first this is an upper bound: the bytes of the key in the partition
// tables of the runs, plus all documents in memtables, overwritten versions
// included. When the bound comes to nearly full, the documents of the key are
// counted exactly, once. From then on each write and delete updates the exact size.
// Counting reads files: only writers to the same logical partition wait for it.
type keySizes struct {
	mu    lockorder.Mutex[locks.KeySizes]
	sizes map[string]*keySize // by encoded partition key
}

// keySize is the size of a logical partition.
type keySize struct {
	counting ctxlock.Mutex // guards the fields below
	known    bool          // bytes is at least an upper bound
	exact    bool          // bytes is exact, except for writes that may still fail
	told     bool          // the listener was told that it is nearly full
	bytes    int64
}

// maxFullKeys bounds the memory of the table: when it is full, it is cleared.
const maxFullKeys = 4096

// nearlyFull is the size from which a logical partition is nearly full.
func (l *Limits) nearlyFull() int64 { return l.LogicalPartitionBytes / 5 * 4 }

// counted is what a write has added to the size of its logical partition.
type counted struct {
	full   *keySize // nil: nothing was counted
	growth int64    // bytes
}

// measure tests a write against the limit of its logical partition, and counts
// it.
func (p *partition) measure(ctx context.Context, r *request) error {
	r.counted = counted{}
	size := int64(len(r.ver.Body))
	if p.heldBytes()+size <= p.c.def.Limits.nearlyFull() {
		return nil
	}
	return p.count(ctx, &r.counted, &r.key, size, func() (int64, error) { return p.itemBytes(&r.key) })
}

// measureBatch is measure for a batch whose documents have size bytes. Of several
// operations on one item, only the last one counts.
func (p *partition) measureBatch(ctx context.Context, u *commit, size int64) error {
	u.counted = counted{}
	if p.heldBytes()+size <= p.c.def.Limits.nearlyFull() {
		return nil
	}
	size = 0
	for i := range u.ops {
		if u.ops[i].final {
			size += int64(len(u.ops[i].body()))
		}
	}
	k := u.key(nil)
	return p.count(ctx, &u.counted, &k, size, func() (replaced int64, err error) {
		for i := range u.ops {
			if !u.ops[i].final {
				continue
			}
			k := u.key(u.ops[i].id())
			n, err := p.itemBytes(&k)
			if err != nil {
				return 0, err
			}
			replaced += n
		}
		return replaced, nil
	})
}

// count tests a write against the limit of its logical partition, and counts it.
// The new documents have size bytes; replaced returns the size of the documents that
// they replace. A write that only deletes has size 0. It is counted only if the size
// of the logical partition is exact.
func (p *partition) count(ctx context.Context, c *counted, key *item.Key, size int64, replaced func() (int64, error)) error {
	limits := &p.c.def.Limits
	k := p.full.of(key.PK, size > 0)
	if k == nil {
		return nil
	}
	if err := k.counting.Lock(ctx); err != nil {
		return err
	}
	defer k.counting.Unlock()
	if size == 0 && !k.exact {
		return nil
	}
	var err error
	if !k.known {
		if k.bytes, err = p.keyBound(key); err != nil {
			return err
		}
		k.known = true
	}
	// Documents may have expired since they were counted: count again.
	again := p.c.def.DefaultTTL != 0 && k.bytes+size > limits.LogicalPartitionBytes && size > 0
	if !k.exact && k.bytes+size > limits.nearlyFull() || again {
		var n int64
		if n, err = p.countBytes(ctx, key); err != nil {
			return err
		}
		k.bytes, k.exact = n, true
	}
	var old int64
	if k.exact {
		if old, err = replaced(); err != nil {
			return err
		}
	}
	after := k.bytes - old + size
	if after > limits.LogicalPartitionBytes && size > old {
		return &LimitError{What: "logical partition " + keyOf(string(key.PK)).String(), Size: after, Limit: limits.LogicalPartitionBytes, Kind: ErrLogicalPartitionFull}
	}
	if k.bytes = after; k.exact && after > limits.nearlyFull() && !k.told {
		k.told = true
		notify(p.db, p.db.opts.Events.NearlyFull, NearlyFullEvent{
			Container: p.c.name, Partition: p.ID, Key: keyOf(string(key.PK)), Bytes: after, Limit: limits.LogicalPartitionBytes,
		})
	}
	*c = counted{k, size - old}
	return nil
}

// of returns the size of a logical partition. If the table has none, of adds one that
// is not known yet if add is set, and returns nil otherwise.
func (f *keySizes) of(pk []byte, add bool) *keySize {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.sizes[string(pk)]
	if k != nil || !add {
		return k
	}
	if f.sizes == nil || len(f.sizes) >= maxFullKeys {
		f.sizes = make(map[string]*keySize)
	}
	k = &keySize{counting: ctxlock.New(locks.Counting{})}
	f.sizes[string(pk)] = k
	return k
}

// takeBack takes back what was counted: the write was not made.
func (n *counted) takeBack() {
	if n.full == nil {
		return
	}
	_ = n.full.counting.Lock(context.Background()) // cannot fail: the context does not end
	n.full.bytes -= n.growth
	n.full.counting.Unlock()
}

// forget removes the size of a deleted logical partition. The next write that needs
// it determines it anew.
func (f *keySizes) forget(pk []byte) {
	f.mu.Lock()
	delete(f.sizes, string(pk))
	f.mu.Unlock()
}

// heldBytes is the size of all documents in the partition, overwritten ones
// included. It needs no guard: it looks at counts only.
func (p *partition) heldBytes() int64 {
	v := p.Version.Load()
	return v.RawBytes + v.DocumentBytes()
}

// keyBound returns an upper bound of the size of a logical partition: its bytes in
// the partition tables of the runs, and all documents in memtables.
func (p *partition) keyBound(k *item.Key) (int64, error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	n := v.DocumentBytes()
	epk := partmap.HashEncoded(k.PK)
	for _, r := range v.Runs {
		f := r.Find(&epk)
		if f == nil {
			continue
		}
		_, raw, ok, err := f.PartitionStats(k)
		if err != nil {
			return 0, err
		}
		if ok {
			n += int64(raw)
		}
	}
	return n, nil
}

// itemBytes returns the size of the present document of an item.
func (p *partition) itemBytes(k *item.Key) (int64, error) {
	buf := borrowed.Get().(*[]byte)
	defer borrowed.Put(buf)
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	var v item.Version
	epk := partmap.HashEncoded(k.PK)
	body, found, err := p.Version.Load().Lookup(k, &epk, lsm.MaxSequence, (*buf)[:0], false, &v)
	if err != nil || !found || !lsm.Shown(&v, p.c.nowMillis()) {
		return 0, err
	}
	return int64(len(body)), nil
}

// countBatch is how many items are counted inside one epoch guard.
const countBatch = 1024

// countBytes sums the documents of a logical partition, unpublished ones
// included.
func (p *partition) countBytes(ctx context.Context, k *item.Key) (total int64, err error) {
	var from item.KeyCopy
	from.Set(&item.Key{Hash: k.Hash, EPK: k.EPK, PK: k.PK})
	for more, inclusive := true, true; more; inclusive = false {
		if err = ctx.Err(); err != nil {
			return 0, err
		}
		var n int64
		if n, more, err = p.countSome(ctx, &from, inclusive); err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// countSome counts on from an item, and moves from to where it stopped.
func (p *partition) countSome(ctx context.Context, from *item.KeyCopy, inclusive bool) (total int64, more bool, err error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	var m lsm.Cursor
	m.Open(p.Version.Load(), lsm.MaxSequence, false)
	m.Ctx = ctx
	defer m.Close()
	now := p.c.nowMillis()
	m.Seek(&from.Key, inclusive)
	for n := 0; m.Valid(); n++ {
		key, v := m.Top()
		if item.ComparePartition(key, &from.Key) != 0 {
			return total, false, nil
		}
		if lsm.Shown(v, now) {
			total += int64(len(v.Body))
		}
		if n == countBatch {
			from.Set(key)
			return total, true, nil
		}
		m.Next()
	}
	return total, false, m.Err()
}
