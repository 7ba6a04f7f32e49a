package segment

import (
	"bytes"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/item"
)

// Hot holds decoded items that are read repeatedly, by their keys or by their ordinals.
// A read that finds its item here needs no locator and no group. Of skewed reads most
// do. A file never changes, so items of it stay right; items of a file that is gone are
// displaced in time. Readers share one Hot. It is safe for concurrent use, and no call
// waits.
//
// Each key has one slot, and so has each ordinal. One in four decoded items is noted. A
// key moves into its slot when it was noted twice without another key of the slot in
// between, unless the item there was read since the slot was last wanted. So uniform
// reads displace hardly anything. When the bytes are used up, a hand goes round the
// slots for one to empty.
type RowCache struct {
	slots []rowSlot
	size  int64        // bytes
	room  atomic.Int64 // bytes left
	hand  atomic.Uint64
}

type rowSlot struct {
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
	hotMean        = 1 << 10 // bytes of an item for which slots are provided
	hotLargest     = 16 << 10
	hotOverhead    = 224 // bytes of an item beside its key and body
	decodesPerNote = 4   // by reads that share scratch
	hotSteps       = 8   // slots that are examined for room
)

// NewRowCache returns a cache of up to size bytes.
func NewRowCache(size int64) *RowCache {
	n := 1
	for int64(n) < size/hotMean {
		n *= 2
	}
	h := &RowCache{slots: make([]rowSlot, n), size: size}
	h.room.Store(size)
	return h
}

// Bytes returns how many bytes the items take.
func (h *RowCache) Bytes() int64 { return h.size - h.room.Load() }

func (i *row) size() int64 {
	return hotBytes(&i.key, &i.version)
}

// hotBytes returns what an item takes.
func hotBytes(k *item.Key, v *item.Version) int64 {
	return int64(len(k.EPK)+len(k.PK)+len(k.ID)+len(v.Body)) + hotOverhead
}

// slot returns the slot of a key in a file, and its tag.
func (h *RowCache) slot(file, hash uint64) (*rowSlot, uint32) {
	x := (hash ^ file*0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93
	return &h.slots[x>>32&uint64(len(h.slots)-1)], uint32(x) | 1
}

// find returns the newest version of a key in a file, if it is held. The body stays
// valid as long as it is referred to, and must not be written.
func (h *RowCache) find(file uint64, k *item.Key, hash uint64) *item.Version {
	slot, tag := h.slot(file, hash)
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

// findOrdinal returns the version with an ordinal in a file, if it is held, and
// its key. They are valid as the body that find returns.
func (h *RowCache) findOrdinal(file uint64, ordinal uint32) (*item.Key, *item.Version) {
	slot, tag := h.slot(file|byOrdinal, uint64(ordinal))
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

// noteOrdinal is note for the version with an ordinal.
func (h *RowCache) noteOrdinal(file uint64, ordinal uint32, k *item.Key, v *item.Version) {
	h.note(file|byOrdinal, k, uint64(ordinal), v)
}

// note says that the newest version of a key in a file, or with byOrdinal the version
// with an ordinal, was decoded. It keeps nothing of the arguments.
func (h *RowCache) note(file uint64, k *item.Key, hash uint64, v *item.Version) {
	slot, tag := h.slot(file, hash)
	if slot.last.Load() != tag {
		slot.last.Store(tag)
		return
	}
	if len(v.Body) > hotLargest || !h.empty(slot) {
		return
	}
	size := hotBytes(k, v)
	for range hotSteps {
		if h.room.Load() >= size {
			break
		}
		h.empty(&h.slots[h.hand.Add(1)&uint64(len(h.slots)-1)])
	}
	if h.room.Add(-size) < 0 {
		h.room.Add(size)
		return
	}
	b := make([]byte, 0, size-hotOverhead)
	own := func(part []byte) []byte {
		from := len(b)
		b = append(b, part...)
		return b[from:len(b):len(b)]
	}
	i := &row{file: file, hash: hash, version: *v, key: item.Key{Hash: k.Hash, EPK: own(k.EPK), PK: own(k.PK), ID: own(k.ID)}}
	i.version.Body = own(v.Body)
	if !slot.item.CompareAndSwap(nil, i) {
		h.room.Add(size)
		return
	}
	slot.tag.Store(tag)
}

// empty empties a slot, unless its item was read since the slot was last wanted. It
// reports whether the slot is empty.
func (h *RowCache) empty(slot *rowSlot) bool {
	i := slot.item.Load()
	if i == nil {
		return true
	}
	if i.used.Load() {
		i.used.Store(false)
		return false
	}
	if !slot.item.CompareAndSwap(i, nil) {
		return false
	}
	h.room.Add(i.size())
	return true
}
