package partmap

import (
	"fmt"
	"math/bits"
	"slices"
)

// PartitionID numbers a physical partition of a store; it is never reused.
type PartitionID uint32

// Entry is one physical partition of a table.
type Entry struct {
	ID    PartitionID
	Range Range
}

// Table is the routing table of a container: which physical partition holds an
// EPK. It is immutable.
//
// A search looks at the first 8 bytes of the lower boundaries only, unless
// these are equal. A directory over their leading bits narrows it to the
// boundaries in one slot: about one where partitions are even.
type Table struct {
	heads   []uint64 // first 8 bytes of each lower boundary, ascending
	slots   []uint32 // slot s holds heads[slots[s]:slots[s+1]]
	shift   uint8    // slot of a head: its bits from this one on
	entries []Entry
}

// NewTable returns the table of these partitions, in any order. The error
// matches ErrTiling if they do not tile the key space from MinEPK to MaxEPK or
// an id is used twice. It keeps no reference to entries.
func NewTable(entries []Entry) (*Table, error) {
	if len(entries) == 0 {
		return nil, fmt.Errorf("%w: there are none", ErrTiling)
	}
	t := &Table{entries: slices.Clone(entries)}
	slices.SortStableFunc(t.entries, func(a, b Entry) int { return a.Range.Min.Compare(&b.Range.Min) })
	if err := checkTiling(t.entries); err != nil {
		return nil, err
	}
	t.heads = make([]uint64, len(entries))
	for i := range t.entries {
		t.heads[i] = t.entries[i].Range.Min.Head()
	}
	t.buildSlots()
	return t, nil
}

func checkTiling(entries []Entry) error {
	ids := make(map[PartitionID]bool, len(entries))
	end := MinEPK()
	for i := range entries {
		e := &entries[i]
		if ids[e.ID] {
			return fmt.Errorf("%w: id %d is used twice", ErrTiling, e.ID)
		}
		ids[e.ID] = true
		if e.Range.Empty() {
			return fmt.Errorf("%w: partition %d has the empty range %v", ErrTiling, e.ID, e.Range)
		}
		switch c := e.Range.Min.Compare(&end); {
		case c > 0:
			return fmt.Errorf("%w: gap %v before partition %d", ErrTiling, Range{end, e.Range.Min}, e.ID)
		case c < 0:
			return fmt.Errorf("%w: partitions %d and %d overlap in %v", ErrTiling, entries[i-1].ID, e.ID, Range{e.Range.Min, end})
		}
		end = e.Range.Max
	}
	if top := MaxEPK(); end.Compare(&top) != 0 {
		return fmt.Errorf("%w: gap %v at the end", ErrTiling, Range{end, top})
	}
	return nil
}

// buildSlots makes the directory: at least two slots a partition.
func (t *Table) buildSlots() {
	slotBits := bits.Len(uint(len(t.heads)))
	t.shift = uint8(levelBits - 64 - slotBits) // keys have 62 bits in a head
	t.slots = make([]uint32, 1<<slotBits+1)
	i := 0
	for s := range t.slots {
		for i < len(t.heads) && t.slot(t.heads[i]) < s {
			i++
		}
		t.slots[s] = uint32(i)
	}
}

// slot returns the slot of a head; those above all keys belong to the last.
func (t *Table) slot(head uint64) int {
	return int(min(head>>t.shift, uint64(len(t.slots)-2)))
}

// Len returns the number of partitions, at least 1.
func (t *Table) Len() int { return len(t.entries) }

// Entry returns partition i in key-space order; i must be below Len.
func (t *Table) Entry(i int) Entry { return t.entries[i] }

// Find returns the index of the partition that holds epk; the last one for
// MaxEPK, which none holds. It takes no lock and allocates nothing.
func (t *Table) Find(epk *EPK) int {
	head := epk.Head()
	s := t.slot(head)
	lo, hi := int(t.slots[s]), int(t.slots[s+1])
	for lo < hi { // the first partition that begins after epk is in lo..hi
		mid := int(uint(lo+hi) / 2)
		if h := t.heads[mid]; h < head || h == head && t.entries[mid].Range.Min.Compare(epk) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1 // the first partition begins at MinEPK
}

// Overlapping returns the partitions lo <= i < hi that overlap r, which are
// neighbours; lo equals hi for an empty range.
func (t *Table) Overlapping(r Range) (lo, hi int) {
	if r.Empty() {
		return 0, 0
	}
	lo = t.Find(&r.Min)
	hi = t.Find(&r.Max)
	if t.entries[hi].Range.Min.Compare(&r.Max) < 0 {
		hi++
	}
	return lo, hi
}
