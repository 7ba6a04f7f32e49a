package memtable

import (
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
)

const (
	slotBytes     = 8
	firstSlotsLog = 8 // log2 of the slots of a new table
)

// slots is a slot table as a word that readers load at once: log2 of its size
// in the upper half, its link in the lower. Zero: the table is empty.
type slots uint64

func makeSlots(link uint32, log int) slots { return slots(log)<<32 | slots(link) }

func (s slots) link() uint32 { return uint32(s) }
func (s slots) log() int     { return int(s >> 32) }
func (s slots) count() int   { return 1 << s.log() }

// find returns the node of a key and its link, nil if there is none.
func (t *Table) find(l *item.Lookup) (*node, uint32) {
	s := slots(t.slots.Load())
	if s == 0 {
		return nil, 0
	}
	base, mask := t.at(s.link()), uint32(s.count()-1)
	tag := t.tagOf(l)
	lengths := packLengths(l.Key)
	for i := tag >> (32 - s.log()); ; i = (i + 1) & mask {
		slot := loadWord(slotAt(base, i))
		if slot == 0 {
			return nil, 0
		}
		if uint32(slot>>32) == tag {
			if n := t.node(uint32(slot)); n.equals(l.Key, lengths) {
				return n, uint32(slot)
			}
		}
	}
}

// growSlots makes room for one more key.
func (t *Table) growSlots(force bool) error {
	old := slots(t.slots.Load())
	if t.items.Load() < int64(old.count())/4*3 {
		return nil
	}
	log := old.log() + 1
	link, base, err := t.alloc(slotBytes<<log, force)
	if err != nil {
		return err
	}
	clear(unsafe.Slice((*uint64)(base), 1<<log))
	from := t.at(old.link())
	for i := range uint32(old.count()) {
		if slot := *slotAt(from, i); slot != 0 {
			*freeSlot(base, log, uint32(slot>>32)) = slot
		}
	}
	t.slots.Store(uint64(makeSlots(link, log)))
	return nil
}

// publishSlot makes the node at link known to point reads.
func (t *Table) publishSlot(l *item.Lookup, link uint32) {
	s := slots(t.slots.Load())
	tag := t.tagOf(l)
	storeWord(freeSlot(t.at(s.link()), s.log(), tag), uint64(tag)<<32|uint64(link))
}

// freeSlot returns the first free slot for a tag.
func freeSlot(base unsafe.Pointer, log int, tag uint32) *uint64 {
	mask := uint32(1)<<log - 1
	for i := tag >> (32 - log); ; i = (i + 1) & mask {
		if slot := slotAt(base, i); *slot == 0 {
			return slot
		}
	}
}

func slotAt(base unsafe.Pointer, i uint32) *uint64 {
	return (*uint64)(unsafe.Add(base, uintptr(i)*slotBytes))
}

func (t *Table) tagOf(l *item.Lookup) uint32 { return uint32(l.Hash(&t.seed) >> 32) }
