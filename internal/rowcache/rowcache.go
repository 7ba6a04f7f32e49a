// Package rowcache holds decoded items that are read repeatedly, by their keys or by
// their ordinals. A read that finds its item here needs no locator and no group. Most skewed
// reads do. An item from the cache stays valid as long as it is referred to, and must not be
// written.
//
// Package segment reads and fills a Cache; the engine makes one for all its files. It is
// safe for concurrent use, and no call waits.
package rowcache

import (
	"bytes"

	"github.com/cleavestore/cleave/internal/hotcache"
	"github.com/cleavestore/cleave/internal/item"
)

// Cache is a cache of items. A file is identified by the number of its reader.
type Cache struct {
	rows *hotcache.Cache[row]
}

// row is the newest version of a key in a file, or the version with an ordinal. It is immutable.
type row struct {
	version item.Version
	key     item.Key
}

// byOrdinal marks the files of items that are found by their ordinals.
const byOrdinal = 1 << 63

const (
	meanBytes  = 1 << 10 // bytes of an item for which room is provided
	largest    = 16 << 10
	overhead   = 224 // bytes of an item beside its key and body
	timesNoted = 2   // after which an item is held
)

// New returns a cache of up to size bytes.
func New(size int64) *Cache { return &Cache{hotcache.New[row](size, meanBytes)} }

// Bytes returns how many bytes the items take.
func (c *Cache) Bytes() int64 { return c.rows.Bytes() }

// Drop drops all items. One that is noted at the same time may stay.
func (c *Cache) Drop() { c.rows.Drop() }

// Find returns the newest version of a key in a file, if it is held. The body stays
// valid as long as it is referred to, and must not be written.
func (c *Cache) Find(file uint64, k *item.Key, hash uint64) *item.Version {
	r := c.rows.Find(file, hash)
	if r == nil || !bytes.Equal(r.key.ID, k.ID) || !bytes.Equal(r.key.PK, k.PK) {
		return nil
	}
	return &r.version
}

// FindOrdinal returns the version with an ordinal in a file, if it is held, and
// its key. They are valid as the body that Find returns.
func (c *Cache) FindOrdinal(file uint64, ordinal uint32) (*item.Key, *item.Version) {
	r := c.rows.Find(file|byOrdinal, uint64(ordinal))
	if r == nil {
		return nil, nil
	}
	return &r.key, &r.version
}

// NoteOrdinal is Note for the version with an ordinal.
func (c *Cache) NoteOrdinal(file uint64, ordinal uint32, k *item.Key, v *item.Version) {
	c.Note(file|byOrdinal, k, uint64(ordinal), v)
}

// Note says that the newest version of a key in a file was decoded. It keeps nothing of
// the arguments.
func (c *Cache) Note(file uint64, k *item.Key, hash uint64, v *item.Version) {
	if len(v.Body) > largest || !c.rows.Want(file, hash, timesNoted) {
		return
	}
	size := len(k.EPK) + len(k.PK) + len(k.ID) + len(v.Body)
	b := make([]byte, 0, size)
	own := func(part []byte) []byte {
		from := len(b)
		b = append(b, part...)
		return b[from:len(b):len(b)]
	}
	r := row{version: *v, key: item.Key{Hash: k.Hash, EPK: own(k.EPK), PK: own(k.PK), ID: own(k.ID)}}
	r.version.Body = own(v.Body)
	c.rows.Put(file, hash, int64(size)+overhead, r)
}
