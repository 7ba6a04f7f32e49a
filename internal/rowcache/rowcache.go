// Package rowcache holds decoded items that are read repeatedly, by their keys or by
// their ordinals. A read that finds its item here needs no locator and no group. Most skewed
// reads do.
//
// A file is identified by a number, which its reader got for the life of the process. A file
// never changes, so its cached items stay right. Items of a file that is gone are displaced in
// time. An item from the cache stays valid as long as it is referred to, and must not be
// written.
//
// Package segment reads and fills a Cache; the engine makes one for all its files. It is
// safe for concurrent use, and no call waits.
package rowcache

import (
	"bytes"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/item"
)

// Cache is a cache of items.
//
// Each key has one slot, and so has each ordinal. A key moves into its slot when it was
// noted twice without another key of the slot in between, unless the item there was read
// since the slot was last wanted. So uniform reads displace hardly anything. When the
// bytes are used up, a hand goes round the slots for one to empty.
type Cache struct {
	slots []slot
	size  int64        // bytes
	room  atomic.Int64 // bytes left
	hand  atomic.Uint64
}

type slot struct {
	item atomic.Pointer[row]
	tag  atomic.Uint32 // of the item: tells it from most others without loading it
	last atomic.Uint32 // tag that was noted last
}

// row is the newest version of a key in a file, or the version with an ordinal. All
// but used is immutable.
type row struct {
	file    uint64 // number of the reader; byOrdinal is added for an ordinal
	hash    uint64 // of the key; or the ordinal
	version item.Version
	key     item.Key
	used    atomic.Bool
}

// byOrdinal marks the files of items that are found by their ordinals.
const byOrdinal = 1 << 63

const (
	meanBytes = 1 << 10 // bytes of an item for which slots are provided
	largest   = 16 << 10
	overhead  = 224 // bytes of an item beside its key and body
	steps     = 8   // slots that are examined for room
)

// New returns a cache of up to size bytes.
func New(size int64) *Cache {
	n := 1
	for int64(n) < size/meanBytes {
		n *= 2
	}
	c := &Cache{slots: make([]slot, n), size: size}
	c.room.Store(size)
	return c
}

// Bytes returns how many bytes the items take.
func (c *Cache) Bytes() int64 { return c.size - c.room.Load() }

func (i *row) size() int64 {
	return bytesOf(&i.key, &i.version)
}

// bytesOf returns what an item takes.
func bytesOf(k *item.Key, v *item.Version) int64 {
	return int64(len(k.EPK)+len(k.PK)+len(k.ID)+len(v.Body)) + overhead
}

// place returns the slot of a key in a file, and its tag.
func (c *Cache) place(file, hash uint64) (*slot, uint32) {
	x := (hash ^ file*0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93
	return &c.slots[x>>32&uint64(len(c.slots)-1)], uint32(x) | 1
}

// Find returns the newest version of a key in a file, if it is held. The body stays
// valid as long as it is referred to, and must not be written.
func (c *Cache) Find(file uint64, k *item.Key, hash uint64) *item.Version {
	slot, tag := c.place(file, hash)
	if slot.tag.Load() != tag {
		return nil
	}
	i := slot.item.Load()
	if i == nil || i.hash != hash || i.file != file || !bytes.Equal(i.key.ID, k.ID) || !bytes.Equal(i.key.PK, k.PK) {
		return nil
	}
	i.use()
	return &i.version
}

// FindOrdinal returns the version with an ordinal in a file, if it is held, and
// its key. They are valid as the body that Find returns.
func (c *Cache) FindOrdinal(file uint64, ordinal uint32) (*item.Key, *item.Version) {
	slot, tag := c.place(file|byOrdinal, uint64(ordinal))
	if slot.tag.Load() != tag {
		return nil, nil
	}
	i := slot.item.Load()
	if i == nil || i.hash != uint64(ordinal) || i.file != file|byOrdinal {
		return nil, nil
	}
	i.use()
	return &i.key, &i.version
}

func (i *row) use() {
	if !i.used.Load() {
		i.used.Store(true)
	}
}

// NoteOrdinal is Note for the version with an ordinal.
func (c *Cache) NoteOrdinal(file uint64, ordinal uint32, k *item.Key, v *item.Version) {
	c.Note(file|byOrdinal, k, uint64(ordinal), v)
}

// Note says that the newest version of a key in a file was decoded. It keeps nothing of
// the arguments.
func (c *Cache) Note(file uint64, k *item.Key, hash uint64, v *item.Version) {
	slot, tag := c.place(file, hash)
	if slot.last.Load() != tag {
		slot.last.Store(tag)
		return
	}
	if len(v.Body) > largest || !c.empty(slot) {
		return
	}
	size := bytesOf(k, v)
	for range steps {
		if c.room.Load() >= size {
			break
		}
		c.empty(&c.slots[c.hand.Add(1)&uint64(len(c.slots)-1)])
	}
	if c.room.Add(-size) < 0 {
		c.room.Add(size)
		return
	}
	b := make([]byte, 0, size-overhead)
	own := func(part []byte) []byte {
		from := len(b)
		b = append(b, part...)
		return b[from:len(b):len(b)]
	}
	i := &row{file: file, hash: hash, version: *v, key: item.Key{Hash: k.Hash, EPK: own(k.EPK), PK: own(k.PK), ID: own(k.ID)}}
	i.version.Body = own(v.Body)
	if !slot.item.CompareAndSwap(nil, i) {
		c.room.Add(size)
		return
	}
	slot.tag.Store(tag)
}

// empty empties a slot, unless its item was read since the slot was last wanted. It
// reports whether the slot is empty.
func (c *Cache) empty(s *slot) bool {
	i := s.item.Load()
	if i == nil {
		return true
	}
	if i.used.Load() {
		i.used.Store(false)
		return false
	}
	if !s.item.CompareAndSwap(i, nil) {
		return false
	}
	c.room.Add(i.size())
	return true
}
