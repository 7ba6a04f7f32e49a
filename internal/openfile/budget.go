package openfile

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/vfs"
)

// Budget bounds the descriptors and the mappings that files hold together. A File is
// opened when it is read, and mapped when it is first read through the mapping. If other
// files need the descriptor or the mapping, those that were not used lately are given up
// first (the clock algorithm). Memory alone bounds how many files share a budget. It is
// safe for concurrent use.
//
// A descriptor is in use during one system call. A goroutine that needs one while all
// are in use waits for the first of these calls to end.
//
// A mapping is in use for longer, by goroutines that leave no trace. So it is taken away in
// two steps. First it is unpublished: goroutines that come later do not find it. Retire
// tells when all that came before have left. Then it is unmapped or, if the file was
// pinned meanwhile, published again. No goroutine waits for that: without a mapping, the
// bytes are read through the descriptor.
//
// So a goroutine that uses a file with a bounded budget must be in a stay that Retire
// waits for, or must have pinned the file in one.
type Budget struct {
	o BudgetOptions

	mu       sync.Mutex // taken to open, close, map and unmap; no system call is made under it
	freed    sync.Cond  // on mu: a descriptor is not in use any more
	files    clock
	mappings clock
	opening  int          // descriptors that are being opened or closed
	kept     int          // descriptors that stay with their files
	waiting  atomic.Int64 // goroutines that wait for freed
	mapped   atomic.Int64 // mappings, also those that are being made or unmapped
	evicting atomic.Bool  // a batch of mappings is being unmapped

	reopens atomic.Int64 // opens of a file that was open before
	remaps  atomic.Int64 // mappings of a file that was mapped before
}

// BudgetOptions are the options of a Budget.
type BudgetOptions struct {
	// MaxFiles is how many descriptors are open at most, MaxMappings how many
	// mappings there are. 0: no limit.
	MaxFiles, MaxMappings int
	// Retire calls a function, later, when all goroutines have left that use a file
	// now without having pinned it. Nil: mappings stay.
	Retire func(func())
}

// NewBudget returns a budget that is not used yet.
func NewBudget(o BudgetOptions) *Budget {
	if o.MaxFiles <= 0 {
		o.MaxFiles = math.MaxInt
	}
	if o.MaxMappings <= 0 {
		o.MaxMappings = math.MaxInt
	}
	b := &Budget{o: o}
	b.freed.L = &b.mu
	return b
}

// BudgetStats tells how much of a budget is used.
type BudgetStats struct {
	Files, MaxFiles       int   // descriptors open now, and at most
	Mappings, MaxMappings int   // mappings now, and at most
	Reopens               int64 // times that a file was opened that had been open before
	Remaps                int64 // times that a file was mapped that had been mapped before
}

// Stats returns how much of the budget is used.
func (b *Budget) Stats() BudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetStats{
		Files: len(b.files.slots) + b.opening, MaxFiles: b.o.MaxFiles,
		Mappings: int(b.mapped.Load()), MaxMappings: b.o.MaxMappings,
		Reopens: b.reopens.Load(), Remaps: b.remaps.Load(),
	}
}

// Spare closes a descriptor that is not in use, so that the caller can open another
// file; false: there is none.
func (b *Budget) Spare() bool {
	b.mu.Lock()
	f := b.closeOneLocked()
	b.mu.Unlock()
	if f == nil {
		return false
	}
	f.Close()
	return true
}

// clock holds the slots that may be given up, in the order in which they are examined.
type clock struct {
	slots []*slot
	hand  int
}

// slot is a place of a clock.
type slot struct {
	of   *File
	at   int         // its index; guarded by Budget.mu
	in   bool        // it is in the clock; guarded by Budget.mu
	used atomic.Bool // since the hand was last here
}

// touch marks the slot as used. It writes only a change, so that readers on several
// processors can share the memory.
func (s *slot) touch() {
	if !s.used.Load() {
		s.used.Store(true)
	}
}

func (c *clock) add(s *slot) {
	s.at, s.in = len(c.slots), true
	s.used.Store(true)
	c.slots = append(c.slots, s)
}

func (c *clock) remove(s *slot) {
	last := len(c.slots) - 1
	moved := c.slots[last]
	c.slots[s.at], moved.at = moved, s.at
	c.slots[last] = nil
	c.slots, s.in = c.slots[:last], false
}

// evict takes out a slot that was not used lately and that give agrees to, and returns
// its file; nil: there is none.
func (c *clock) evict(give func(*File) bool) *File {
	for range 2 * len(c.slots) {
		if c.hand >= len(c.slots) {
			c.hand = 0
		}
		s := c.slots[c.hand]
		if s.used.Load() {
			s.used.Store(false)
		} else if give(s.of) {
			c.remove(s)
			return s.of
		}
		c.hand++
	}
	return nil
}

// reserve reserves a place among the descriptors, which is counted in opening. It waits
// while all are in use.
func (b *Budget) reserve() {
	b.mu.Lock()
	announced := false
	for len(b.files.slots)+b.opening >= b.o.MaxFiles {
		if f := b.closeOneLocked(); f != nil {
			b.opening++ // the place of f
			b.mu.Unlock()
			f.Close()
			return
		}
		// give looks for waiters after it has given a file back: look once more before
		// waiting.
		if !announced {
			announced = true
			b.waiting.Add(1)
			defer b.waiting.Add(-1)
			continue
		}
		b.freed.Wait()
	}
	b.opening++
	b.mu.Unlock()
}

// closeOneLocked takes a descriptor that is not in use from its file, for the caller
// to close; nil: there is none. mu is locked.
func (b *Budget) closeOneLocked() vfs.File {
	var open vfs.File
	if b.files.evict(func(f *File) bool {
		open = f.handle.file // it may be opened anew as soon as it is closed
		return f.handle.users.CompareAndSwap(0, closedHandle)
	}) == nil {
		return nil
	}
	return open
}

// full says that there is no room for a mapping and no eviction to begin: one runs, or
// none is possible.
func (b *Budget) full() bool {
	return b.mapped.Load() >= int64(b.o.MaxMappings) && (b.evicting.Load() || b.o.Retire == nil)
}

// evictShare is the share of the mappings that is given up at once.
const evictShare = 16

// evictMappings begins to unmap files that were not used lately.
func (b *Budget) evictMappings() {
	if b.o.Retire == nil || !b.evicting.CompareAndSwap(false, true) {
		return
	}
	b.mu.Lock()
	var gone []*File
	for n := len(b.mappings.slots)/evictShare + 1; n > 0; n-- {
		f := b.mappings.evict(func(f *File) bool { return f.pins.Load() == 0 })
		if f == nil {
			break
		}
		f.mapping.leaving = f.mapping.now.Swap(nil)
		gone = append(gone, f)
	}
	b.mu.Unlock()
	b.o.Retire(func() {
		for _, f := range gone {
			b.unmap(f)
		}
		b.evicting.Store(false)
	})
}

// unmap unmaps a file whose mapping was unpublished, when only goroutines that have
// pinned the file can still use it. If there are any, it publishes the mapping again.
func (b *Budget) unmap(f *File) {
	b.mu.Lock()
	v := f.mapping.leaving
	f.mapping.leaving = nil
	if v != nil && f.pins.Load() > 0 {
		f.mapping.now.Store(v)
		b.mappings.add(&f.mapping.slot)
		v = nil
	}
	b.mu.Unlock()
	if v != nil {
		v.mapping.Unmap()
		b.mapped.Add(-1)
	}
}

// drop releases the descriptor and the mapping of a file that is not in use any more.
func (b *Budget) drop(f *File) {
	b.mu.Lock()
	var open vfs.File
	if f.kept {
		b.kept--
	}
	if f.handle.in {
		b.files.remove(&f.handle.slot)
		open = f.handle.file
		b.opening++ // until it is closed
	}
	v := f.mapping.now.Swap(nil)
	if v != nil {
		b.mappings.remove(&f.mapping.slot)
	} else {
		v, f.mapping.leaving = f.mapping.leaving, nil
	}
	b.mu.Unlock()
	if v != nil {
		v.mapping.Unmap()
		b.mapped.Add(-1)
	}
	if open == nil {
		return
	}
	open.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opening--
	b.freed.Broadcast()
}
