package segment

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/vfs"
)

// Budget bounds the descriptors and the mappings that readers hold together. A reader
// opens its file when it reads from it, and maps it when it is first read through the
// mapping. If other readers need the descriptor or the mapping, those that were not used
// lately are given up first (the clock algorithm). Memory alone bounds how many readers
// share a budget. It is safe for concurrent use.
//
// A descriptor is in use during one system call. A goroutine that needs one while all
// are in use waits for the first of these calls to end.
//
// A mapping is in use for longer, by readers that leave no trace. So it is taken away in
// two steps. First it is unpublished: goroutines that come later do not find it. Retire
// tells when all that came before have left. Then it is unmapped or, if the reader was
// pinned meanwhile, published again. No goroutine waits for that: without a mapping, the
// bytes are read through the descriptor.
//
// So a goroutine that uses a reader with a bounded budget must be in a stay that Retire
// waits for, or must have pinned the reader in one.
type Budget struct {
	o BudgetOptions

	mu       sync.Mutex // taken to open, close, map and unmap; no system call is made under it
	freed    sync.Cond  // on mu: a descriptor is not in use any more
	files    clock
	mappings clock
	opening  int          // descriptors that are being opened or closed
	kept     int          // descriptors that stay with their readers
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
	// Retire calls a function, later, when all goroutines have left that use a reader
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
	r    *Reader
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
// its reader; nil: there is none.
func (c *clock) evict(give func(*Reader) bool) *Reader {
	for range 2 * len(c.slots) {
		if c.hand >= len(c.slots) {
			c.hand = 0
		}
		s := c.slots[c.hand]
		if s.used.Load() {
			s.used.Store(false)
		} else if give(s.r) {
			c.remove(s)
			return s.r
		}
		c.hand++
	}
	return nil
}

// handle is the descriptor of a reader.
type handle struct {
	slot
	opening sync.Mutex   // held while it is opened: a goroutine that waits needs the file too
	users   atomic.Int64 // calls that use it; closedHandle is added while it is closed
	file    vfs.File     // changed only while it is closed
	was     bool         // open before; guarded by opening
	id      uint64       // inode of the file; guarded by opening
}

const closedHandle = math.MinInt64 / 2

// take returns the open file. Call give after the system call for which it was taken.
func (r *Reader) take() (vfs.File, error) {
	h := &r.handle
	if h.users.Add(1) > 0 {
		h.touch()
		return h.file, nil
	}
	r.give()
	return r.openFile()
}

// give gives back the file that take returned.
func (r *Reader) give() {
	if r.handle.users.Add(-1) == 0 && r.budget.waiting.Load() > 0 {
		r.budget.mu.Lock()
		r.budget.freed.Broadcast()
		r.budget.mu.Unlock()
	}
}

// openFile is take for a file that was not open.
func (r *Reader) openFile() (vfs.File, error) {
	h, b := &r.handle, r.budget
	h.opening.Lock()
	defer h.opening.Unlock()
	if h.users.Add(1) > 0 {
		return h.file, nil
	}
	r.give()
	b.reserve()
	f, err := r.openName()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opening--
	if err != nil {
		b.freed.Broadcast()
		return nil, err
	}
	if h.was {
		b.reopens.Add(1)
	}
	h.file, h.was = f, true
	h.users.Add(1 - closedHandle)
	b.files.add(&h.slot)
	return f, nil
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

// closeOneLocked takes a descriptor that is not in use from its reader, for the caller
// to close; nil: there is none. mu is locked.
func (b *Budget) closeOneLocked() vfs.File {
	var f vfs.File
	if b.files.evict(func(r *Reader) bool {
		f = r.handle.file // its reader may open it anew as soon as it is closed
		return r.handle.users.CompareAndSwap(0, closedHandle)
	}) == nil {
		return nil
	}
	return f
}

// view is a mapping of a reader.
type view struct {
	*vfs.Mapping
	data []byte // the file, without what was appended to it
}

// mapping is the mapping of a reader.
type mapping struct {
	slot
	making  sync.Mutex // held while it is made: a goroutine that waits needs it too
	was     bool       // made before; guarded by making
	now     atomic.Pointer[view]
	leaving *view // unpublished, and not yet unmapped; guarded by Budget.mu
}

// view returns the mapping of the file, nil if there is none: then the bytes must be
// read. The mapping may be used until the stay or pin of the caller ends.
func (r *Reader) view() *view {
	v := r.mapping.now.Load()
	if v == nil {
		return r.mapFile()
	}
	r.mapping.touch()
	return v
}

// mapFile maps the file if that is wanted and there is room.
func (r *Reader) mapFile() *view {
	m, b := &r.mapping, r.budget
	if r.opts.Mode != Map || b.full() {
		return nil
	}
	m.making.Lock()
	defer m.making.Unlock()
	if v := m.now.Load(); v != nil {
		return v
	}
	b.mu.Lock()
	leaves := m.leaving != nil
	b.mu.Unlock()
	if leaves {
		return nil // later it is published again, or can be made anew
	}
	if b.mapped.Add(1) > int64(b.o.MaxMappings) {
		b.mapped.Add(-1)
		b.evictMappings()
		return nil
	}
	v, err := r.newView()
	if err != nil {
		b.mapped.Add(-1)
		b.evictMappings()
		return nil // a read will return the error, if there is one
	}
	if m.was {
		b.remaps.Add(1)
	}
	m.was = true
	b.mu.Lock()
	defer b.mu.Unlock()
	m.now.Store(v)
	b.mappings.add(&m.slot)
	return v
}

func (r *Reader) newView() (*view, error) {
	f, err := r.take()
	if err != nil {
		return nil, err
	}
	defer r.give()
	m, err := f.Map()
	if err != nil {
		return nil, err
	}
	if int64(len(m.Data)) < r.props.FileBytes {
		m.Unmap()
		return nil, errEnded
	}
	m.Advise(0, 0, vfs.Random)
	return &view{m, m.Data[:r.props.FileBytes]}, nil
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
	var gone []*Reader
	for n := len(b.mappings.slots)/evictShare + 1; n > 0; n-- {
		r := b.mappings.evict(func(r *Reader) bool { return r.pins.Load() == 0 })
		if r == nil {
			break
		}
		r.mapping.leaving = r.mapping.now.Swap(nil)
		gone = append(gone, r)
	}
	b.mu.Unlock()
	b.o.Retire(func() {
		for _, r := range gone {
			b.unmap(r)
		}
		b.evicting.Store(false)
	})
}

// unmap unmaps the file of a reader whose mapping was unpublished, when only goroutines
// that have pinned the reader can still use it. If there are any, it publishes the
// mapping again.
func (b *Budget) unmap(r *Reader) {
	b.mu.Lock()
	v := r.mapping.leaving
	r.mapping.leaving = nil
	if v != nil && r.pins.Load() > 0 {
		r.mapping.now.Store(v)
		b.mappings.add(&r.mapping.slot)
		v = nil
	}
	b.mu.Unlock()
	if v != nil {
		v.Unmap()
		b.mapped.Add(-1)
	}
}

// drop releases the descriptor and the mapping of a reader that is not in use any more.
func (b *Budget) drop(r *Reader) {
	b.mu.Lock()
	var f vfs.File
	if r.kept {
		b.kept--
	}
	if r.handle.in {
		b.files.remove(&r.handle.slot)
		f = r.handle.file
		b.opening++ // until it is closed
	}
	v := r.mapping.now.Swap(nil)
	if v != nil {
		b.mappings.remove(&r.mapping.slot)
	} else {
		v, r.mapping.leaving = r.mapping.leaving, nil
	}
	b.mu.Unlock()
	if v != nil {
		v.Unmap()
		b.mapped.Add(-1)
	}
	if f == nil {
		return
	}
	f.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opening--
	b.freed.Broadcast()
}
