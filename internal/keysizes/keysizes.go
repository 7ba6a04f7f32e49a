// Package keysizes bounds the sizes of logical partitions: the bytes of their documents.
//
// While a whole physical partition is smaller than a nearly full logical partition with the
// smallest limit, nothing is counted. Beyond that size there is a size for each key that is written. At
// first this is an upper bound: the bytes of the key in the partition tables of the runs,
// plus those in memtables. When the bound comes to nearly full, the documents of the key are
// counted exactly, once. From then on each write and delete updates the exact size.
//
// A write goes through these steps:
//
//  1. Small. If that holds, the write is not counted.
//  2. Otherwise Count. From there to End no other write to the same logical partition is
//     under way: what Count reads is what the write meets.
//  3. Under the lock under which writes are made, Applying: Tested. If that is false, back
//     to 1. The write is made.
//  4. End, without the lock.
//
// Count is first called after Begin: all writes that are made later are counted, and all
// that were made before are seen by those that count.
//
// Invariants:
//
//  1. A known size is at least that of the documents that readers see. It may be too
//     large by a write that is counted and not yet made, and by documents that have
//     expired since.
//  2. A write is refused by an exact size only, and only if nothing has expired since it
//     was determined.
//  3. A key without a size has never been counted, or was forgotten: the next write that
//     needs the size determines it anew.
//
// Counting reads files: only writers to the same logical partition wait for it. A writer
// holds size.counting from Count to End, takes Applying after it, and counts without
// Applying. Sizes.mu is held for moments and taken last (see internal/locks).
package keysizes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// ErrFull is matched by the error for a write that would take a logical partition over
// its limit.
var ErrFull = errors.New("logical partition is full")

// Rules are what the logical partitions of a container have in common.
type Rules struct {
	Limits Limits       // of their bytes
	Now    func() int64 // the present, in milliseconds
	// NearlyFull is told, once, of a logical partition in tree t that is nearly full.
	NearlyFull func(t *lsm.Tree, pk []byte, bytes int64)
}

// Limits are the bytes that the documents of logical partitions may have. They may change
// at any time.
type Limits interface {
	Bytes(pk []byte) int64 // of one
	LeastBytes() int64     // the smallest of all limits
}

// nearlyFull is the size from which a logical partition with this limit is nearly full.
func nearlyFull(limit int64) int64 { return limit / 5 * 4 }

// Sizes has the sizes of the logical partitions of one physical partition.
type Sizes struct {
	Tree  *lsm.Tree
	Rules *Rules
	// Applying is the lock under which writes are made.
	Applying sync.Locker

	begun atomic.Bool // writes are counted; set once, under Applying
	mu    lockorder.Mutex[locks.KeySizes]
	sizes map[string]*size // by encoded partition key
	scans atomic.Int64     // how often documents were counted exactly, for tests
}

// size is that of a logical partition.
type size struct {
	counting ctxlock.Mutex // guards the fields below
	known    bool          // bytes is at least an upper bound
	exact    bool          // bytes is exact, except for writes that may still fail
	told     bool          // NearlyFull was told
	bytes    int64
	next     int64  // if exact: no document in bytes expires before, milliseconds; 0: none does
	counted  int64  // when the documents were counted, milliseconds; 0: they were not
	changes  uint64 // of the default time to live, when bytes was determined
}

// sooner returns the earlier one of two times of expiry, of which 0 is never.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// maxKeys bounds the memory of the table: when it is full, some sizes that nobody uses are
// removed, evicted of them at a time.
const (
	maxKeys = 4096
	evicted = 64
)

// ErrUntested says that a write must be counted before it is made: see Tested.
var ErrUntested = errors.New("the size of the logical partition is not counted")

// Counted is what a write has added to the size of its logical partition.
type Counted struct {
	added  int64 // bytes of the write's documents; before Count at least that
	tested bool
	of     *size // nil: nothing was counted
	growth int64 // bytes
}

// Small begins a write whose documents have n bytes. If it returns true, no logical
// partition can become nearly full by them, so they need not be counted. Once there are
// sizes, all documents are counted: a size would be too small otherwise. It takes no guard:
// it looks at counts only.
func (s *Sizes) Small(c *Counted, n int64) bool {
	*c = Counted{added: n}
	return s.small(n)
}

func (s *Sizes) small(n int64) bool {
	if s.begun.Load() {
		return false
	}
	if n == 0 {
		return true
	}
	v := s.Tree.Version.Load()
	return v.RawBytes+v.DocumentBytes()+n <= nearlyFull(s.Rules.Limits.LeastBytes())
}

// Tested says whether the write may be made: it was counted, or is still small. Applying is
// held.
func (s *Sizes) Tested(c *Counted) bool { return c.tested || s.small(c.added) }

// begin has all writes counted that are made from now on.
func (s *Sizes) begin() {
	if !s.begun.Load() {
		s.Applying.Lock()
		s.begun.Store(true)
		s.Applying.Unlock()
	}
}

// Count tests a write that is not small against the limit of its logical partition, and
// counts it. c is that of Small. The documents that the write makes have added bytes;
// replaced returns the size of the documents that they replace. A write that only deletes
// adds 0 bytes. The error is a *fault.LimitError, which matches ErrFull, that of ctx, or one
// of reading files. Without an error the caller calls End.
func (s *Sizes) Count(ctx context.Context, c *Counted, key *item.Key, added int64, replaced func() (int64, error)) error {
	s.begin()
	k, err := s.lock(ctx, key.PK)
	if err != nil {
		return err
	}
	growth, err := s.count(ctx, k, key, added, replaced)
	if err != nil {
		k.counting.Unlock()
		return err
	}
	c.tested, c.of, c.added, c.growth = true, k, added, growth
	return nil
}

// count returns by how much the size has grown. k is locked.
func (s *Sizes) count(ctx context.Context, k *size, key *item.Key, added int64, replaced func() (int64, error)) (growth int64, err error) {
	if added == 0 && !k.exact {
		return 0, nil
	}
	limit := s.Rules.Limits.Bytes(key.PK)
	nearlyFull := nearlyFull(limit)
	// Expired documents may be back by another default, or if the clock was set back.
	if changes := s.Tree.Life.Changes(); k.changes != changes || s.Rules.Now() < k.counted {
		k.changes, k.counted, k.known, k.exact = changes, 0, false, false
	}
	if !k.known {
		if k.bytes, err = s.bound(key, nearlyFull-added); err != nil {
			return 0, err
		}
		k.known = true
	}
	if !k.exact && k.bytes+added > nearlyFull {
		if err = s.exactly(ctx, k, key); err != nil {
			return 0, err
		}
	}
	var old int64
	if k.exact {
		if old, err = replaced(); err != nil {
			return 0, err
		}
	}
	// In a partition that others have replaced, what the write replaces may not be found any more. The write is not made there.
	full := func() bool { return added > old && k.bytes-old+added > limit && !s.Tree.Dropped.Load() }
	if full() && k.next != 0 && k.next <= s.Rules.Now() { // documents have expired: count again
		if err = s.exactly(ctx, k, key); err != nil {
			return 0, err
		}
		// Behind the count: a document that expires in between is in the size at worst.
		if old, err = replaced(); err != nil {
			return 0, err
		}
	}
	after := k.bytes - old + added
	if full() {
		return 0, &fault.LimitError{What: "logical partition " + partmap.FromTrusted(key.PK).String(), Size: after, Limit: limit, Kind: ErrFull}
	}
	if k.bytes = after; k.exact && after > nearlyFull && !k.told {
		k.told = true
		s.Rules.NearlyFull(s.Tree, key.PK, after)
	}
	return added - old, nil
}

// exactly determines the exact size. k is locked.
func (s *Sizes) exactly(ctx context.Context, k *size, key *item.Key) error {
	begun := s.Rules.Now()
	t, err := s.countAll(ctx, key)
	if err == nil {
		k.bytes, k.exact, k.next, k.counted = t.Bytes, true, t.next, max(begun, s.Rules.Now())
	}
	return err
}

// lock returns the size of a logical partition, locked. It is in the table.
func (s *Sizes) lock(ctx context.Context, pk []byte) (*size, error) {
	for {
		k := s.of(pk)
		if err := k.counting.Lock(ctx); err != nil {
			return nil, err
		}
		if s.has(pk, k) {
			return k, nil
		}
		k.counting.Unlock()
	}
}

// of returns the size of a logical partition. If the table has none, of adds one that
// is not known yet.
func (s *Sizes) of(pk []byte) *size {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.sizes[string(pk)]
	if k != nil {
		return k
	}
	if s.sizes == nil {
		s.sizes = make(map[string]*size)
	}
	if len(s.sizes) >= maxKeys {
		s.evict()
	}
	k = &size{counting: ctxlock.New(locks.Counting{})}
	s.sizes[string(pk)] = k
	return k
}

// evict removes some sizes that nobody uses. Sizes.mu is held.
func (s *Sizes) evict() {
	n := 0
	for pk, k := range s.sizes {
		if !k.counting.Locked() {
			delete(s.sizes, pk)
			if n++; n == evicted {
				return
			}
		}
	}
}

func (s *Sizes) has(pk []byte, k *size) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sizes[string(pk)] == k
}

// End ends a write, which was made or not. all says that it deletes the logical partition:
// the next write that needs the size determines it anew. expires is when the first of the
// write's documents does, 0: never. End may be called for a write that was not counted, and
// more than once.
func (c *Counted) End(made, all bool, expires int64) {
	k := c.of
	if k == nil {
		return
	}
	c.of = nil
	if !made {
		k.bytes -= c.growth
	} else if all {
		k.known, k.exact, k.told, k.bytes = false, false, false, 0
	} else if c.added > 0 {
		k.next = sooner(k.next, expires)
	}
	k.counting.Unlock()
}

// bound returns an upper bound of the size of a logical partition: its bytes in the
// partition tables of the runs and in memtables. If all documents in memtables leave the
// bound at most enough, it does not look for those of the logical partition. It stops when
// the bound is above enough.
func (s *Sizes) bound(k *item.Key, enough int64) (int64, error) {
	guard := s.Tree.Env.Epoch.Enter()
	defer guard.Leave()
	v := s.Tree.Version.Load()
	t, err := inRuns(v, k)
	if err != nil {
		return 0, err
	}
	if all := t.Bytes + v.DocumentBytes(); all <= enough {
		return all, nil
	}
	t.addMemory(v, k, enough)
	return t.Bytes, nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// OfItem returns the size of the present document of an item, unpublished versions
// included.
func (s *Sizes) OfItem(k *item.Key) (int64, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	guard := s.Tree.Env.Epoch.Enter()
	defer guard.Leave()
	var v item.Version
	epk := partmap.HashEncoded(k.PK)
	body, found, err := s.Tree.Version.Load().Lookup(k, &epk, lsm.MaxSequence, (*buf)[:0], false, &v)
	if err != nil || !found || !lsm.Shown(&v, s.past()) {
		return 0, err
	}
	return int64(len(body)), nil
}

// past says which documents have expired.
func (s *Sizes) past() lifetime.Past { return s.Tree.Life.Past(s.Rules.Now()) }

// countBatch is how many items are counted inside one epoch guard.
const countBatch = 1024

// countAll counts the documents of a logical partition, unpublished ones included.
func (s *Sizes) countAll(ctx context.Context, k *item.Key) (t Tally, err error) {
	s.scans.Add(1)
	var from item.KeyCopy
	from.Set(&item.Key{Hash: k.Hash, EPK: k.EPK, PK: k.PK})
	for more, inclusive := true, true; more; inclusive = false {
		if err = ctx.Err(); err != nil {
			return Tally{}, err
		}
		if more, err = s.countSome(ctx, &t, &from, inclusive); err != nil {
			return Tally{}, err
		}
	}
	return t, nil
}

// countSome counts on from an item, and moves from to where it stopped.
func (s *Sizes) countSome(ctx context.Context, t *Tally, from *item.KeyCopy, inclusive bool) (more bool, err error) {
	guard := s.Tree.Env.Epoch.Enter()
	defer guard.Leave()
	var m lsm.Cursor
	m.Open(s.Tree.Version.Load(), lsm.MaxSequence, false)
	m.Ctx = ctx
	defer m.Close()
	past := s.past()
	m.Seek(&from.Key, inclusive)
	for n := 0; m.Valid(); n++ {
		key, v := m.Top()
		if item.ComparePartition(key, &from.Key) != 0 {
			return false, nil
		}
		if lsm.Shown(v, past) {
			t.Versions++
			t.Bytes += int64(len(v.Body))
			t.Newest = max(t.Newest, v.Modified)
			t.next = sooner(t.next, s.Tree.Life.Expires(v.Modified, v.Expires))
		}
		if n == countBatch {
			from.Set(key)
			return true, nil
		}
		m.Next()
	}
	return false, m.Err()
}
