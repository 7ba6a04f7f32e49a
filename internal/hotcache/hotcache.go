// Package hotcache holds values that were made from files and are asked for repeatedly.
//
// A value is found by the number of its file, which its reader got for the life of the
// process, and by a number within the file. A file never changes, so its values stay right.
// Those of a file that is gone are displaced in time. A value from the cache stays valid as
// long as it is referred to, and must not be changed.
//
// A Cache is safe for concurrent use, and no call waits.
package hotcache

import "sync/atomic"

// Cache is a cache of values.
//
// Each number has one set of ways for values. A value may move into its set when it was wanted
// several times while few others of the set were, and replaces one that was not found since the
// set was last full. So what is asked for once displaces hardly anything. When the bytes are used
// up, a hand goes round the sets for values to remove.
type Cache[V any] struct {
	sets []set[V]
	size int64        // bytes
	room atomic.Int64 // bytes left
	hand atomic.Uint64
}

const ways = 4

// set fills a line of memory.
type set[V any] struct {
	tags    [ways]atomic.Uint32 // of the entries: they tell them from most others without loading them
	wanted  [ways]atomic.Uint32 // upper 24 bits of the tags that were wanted most of late, then how often
	entries [ways]atomic.Pointer[entry[V]]
}

const countMask = 0xFF // of set.wanted

// entry is a value in a set. All but used is immutable.
type entry[V any] struct {
	file, n uint64
	size    int64
	value   V
	used    atomic.Bool
}

const steps = 8 // sets that are examined for room

// New returns a cache of up to size bytes for values of about mean bytes.
func New[V any](size, mean int64) *Cache[V] {
	n := 1
	for int64(n)*ways/2 < size/mean {
		n *= 2
	}
	c := &Cache[V]{sets: make([]set[V], n), size: size}
	c.room.Store(size)
	return c
}

// Bytes returns how many bytes the values take.
func (c *Cache[V]) Bytes() int64 { return c.size - c.room.Load() }

// Room returns how many bytes are left.
func (c *Cache[V]) Room() int64 { return c.room.Load() }

// place returns the set of a number of a file, and its tag.
func (c *Cache[V]) place(file, n uint64) (*set[V], uint32) {
	x := (n ^ file*0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93
	return &c.sets[x>>32&uint64(len(c.sets)-1)], uint32(x) | 1
}

// Find returns the value of a number of a file, nil if it is not held.
func (c *Cache[V]) Find(file, n uint64) *V {
	s, tag := c.place(file, n)
	for i := range s.tags {
		if s.tags[i].Load() != tag {
			continue
		}
		if e := s.entries[i].Load(); e != nil && e.n == n && e.file == file {
			if !e.used.Load() {
				e.used.Store(true)
			}
			return &e.value
		}
	}
	return nil
}

// Want says that a value which is not held was asked for. It reports whether the value should
// be Put: so many times, at most 255, was it asked for, less how often a fifth one of its set was
// meanwhile (Misra and Gries, "Finding repeated elements").
func (c *Cache[V]) Want(file, n uint64, times uint32) bool {
	s, tag := c.place(file, n)
	tag &^= countMask
	empty := -1
	for i := range s.wanted {
		switch w := s.wanted[i].Load(); {
		case w&countMask == 0:
			empty = i
		case w&^countMask != tag:
		case w&countMask+1 < times:
			s.wanted[i].Store(w + 1)
			return false
		default:
			s.wanted[i].Store(0) // if it does not stay, it must be wanted as often again
			return c.free(s) >= 0
		}
	}
	if times <= 1 {
		return c.free(s) >= 0
	}
	if empty >= 0 {
		s.wanted[empty].Store(tag | 1)
		return false
	}
	for i := range s.wanted {
		if w := s.wanted[i].Load(); w&countMask > 0 {
			s.wanted[i].Store(w - 1)
		}
	}
	return false
}

// Put keeps a value of so many bytes, if there is room. It returns the value as Find would.
func (c *Cache[V]) Put(file, n uint64, size int64, value V) *V {
	e := &entry[V]{file: file, n: n, size: size, value: value}
	for i := 0; i < steps && c.room.Load() < size; i++ {
		s := &c.sets[c.hand.Add(1)&uint64(len(c.sets)-1)]
		for way := range s.entries {
			c.empty(s, way)
		}
	}
	s, tag := c.place(file, n)
	way := c.free(s)
	switch {
	case way < 0:
	case c.room.Add(-size) >= 0 && s.entries[way].CompareAndSwap(nil, e):
		s.tags[way].Store(tag)
	default:
		c.room.Add(size)
	}
	return &e.value
}

// Drop drops all values. One that is Put at the same time may stay.
func (c *Cache[V]) Drop() {
	for i := range c.sets {
		for way := range c.sets[i].entries {
			if e := c.sets[i].entries[way].Swap(nil); e != nil {
				c.room.Add(e.size)
			}
		}
	}
}

// free returns a way of a set that is empty, or can be made so; -1 if there is none.
func (c *Cache[V]) free(s *set[V]) int {
	for way := range s.entries {
		if s.entries[way].Load() == nil {
			return way
		}
	}
	for way := range s.entries {
		if c.empty(s, way) {
			return way
		}
	}
	return -1
}

// empty empties a way, unless its entry was found since the way was last wanted. It
// reports whether the way is empty.
func (c *Cache[V]) empty(s *set[V], way int) bool {
	e := s.entries[way].Load()
	if e == nil {
		return true
	}
	if e.used.Load() {
		e.used.Store(false)
		return false
	}
	if !s.entries[way].CompareAndSwap(e, nil) {
		return false
	}
	c.room.Add(e.size)
	return true
}
