package feed

import (
	"cmp"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// Memtables list their versions in the order of arrival, which is that of
// sequences. Files do not: a feed puts in order the versions that it needs of them.
// It skips files whose sequences are all below its window. In the other files it
// skips groups by the highest sequences noted for them (segment.Reader.Sequences).
// So a feed that keeps up reads little more than the new versions.
//
// If a part has more versions than are put in order at once, it is cut between
// logical partitions. If a single logical partition has more, the order holds the
// first versions of the window. The next ones are put in order when the feed gets
// there.
const (
	orderVersions = 128 << 10 // put in order at once, in all files of a part
	orderShare    = 64        // each file may have at least one in orderShare of them
	orderStep     = 16 << 10  // ordinals between two checks of the limit
)

// sequenced is a version of a file.
type sequenced struct {
	seq     uint64
	ordinal uint32
}

// orderKey identifies a fileOrder: a file within a range.
type orderKey struct {
	f   *lsm.File
	rng partmap.Range
}

// fileOrder holds the versions of a file in a range, in order of sequence.
type fileOrder struct {
	after  uint64 // list has the versions above after, up to upTo
	upTo   uint64
	list   []sequenced
	cursor *segment.Cursor
}

type fileOrders map[orderKey]*fileOrder

// covers says whether the order has the next version after a sequence.
func (o *fileOrder) covers(seq uint64) bool { return o != nil && o.after <= seq && seq < o.upTo }

// sweep forgets the orders of ranges that are no longer those of a part.
func (m fileOrders) sweep(parts []entry) {
	for key := range m {
		if !slices.ContainsFunc(parts, func(e entry) bool { return e.rng == key.rng }) {
			delete(m, key)
		}
	}
}

func (m fileOrders) close() { clear(m) }

// filesAfter returns the files of v that may hold versions of a part above its
// sequence, modified at since or later.
func filesAfter(v *lsm.Version, e *entry, since int64) (list []*lsm.File) {
	for _, r := range v.Runs {
		for _, f := range r.Files {
			p := f.Properties()
			if p.MaxSeq > e.seq && p.MaxModified >= since && e.rng.Overlaps(partmap.Range{Min: f.Min, Max: f.Max}) {
				list = append(list, f)
			}
		}
	}
	return list
}

// spend forgets the orders of a part that it has shown to the end. left says
// whether the part has others.
func (m fileOrders) spend(e *entry) (left bool) {
	for key := range m {
		if key.rng != e.rng {
			continue
		}
		if key.f.Properties().MaxSeq <= e.seq {
			delete(m, key)
		} else {
			left = true
		}
	}
	return left
}

// prepare puts in order the versions of a part in the files of a tree. It cuts
// the part if these are too many.
func (f *Feed) prepare(t *lsm.Tree, i int) error {
	for done := false; !done; {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		v, release := t.PinVersion()
		var err error
		done, err = f.orderNext(v, i)
		release()
		if err != nil {
			return f.store.ReadError(err)
		}
	}
	return nil
}

// orderNext puts in order the versions of a part in one more file. It cuts the part
// if these are too many. It returns true if nothing was left to do. The files of v
// are held.
func (f *Feed) orderNext(v *lsm.Version, i int) (done bool, err error) {
	e := &f.parts[i]
	files := filesAfter(v, e, f.since)
	for key := range f.orders {
		if key.rng == e.rng && !slices.Contains(files, key.f) {
			delete(f.orders, key)
		}
	}
	// The remaining files share the rest of the limit in proportion to their items.
	most := f.o.MostOrdered
	var next *lsm.File
	left, items := most, int64(0)
	for _, file := range files {
		if o := f.orders[orderKey{file, e.rng}]; o.covers(e.seq) {
			left -= len(o.list)
			continue
		}
		items += int64(file.Properties().Items)
		next = file
	}
	if next == nil {
		return true, nil
	}
	limit := max(1, most/orderShare, int(float64(left)*float64(next.Properties().Items)/float64(items)))
	o, at, err := f.order(next, e, limit)
	if err != nil {
		return false, err
	}
	from := e.rng
	if o != nil {
		f.orders[orderKey{next, from}] = o
	}
	if at == from.Max {
		return false, nil
	}
	f.cut(i, at)
	return false, f.orders.narrow(from, f.parts[i].rng, f.o.Levels)
}

// narrow restricts the orders of a range to its first piece.
func (m fileOrders) narrow(from, to partmap.Range, levels int) error {
	end := keybounds.At(&to.Max, levels)
	for key, o := range m {
		if key.rng != from {
			continue
		}
		at, err := key.f.Lower(key.f.Cursor(lsm.MaxSequence), &end)
		if err != nil {
			return err
		}
		delete(m, key)
		o.list = slices.DeleteFunc(o.list, func(s sequenced) bool { return s.ordinal >= at })
		m[orderKey{key.f, to}] = o
	}
	return nil
}

// order puts in order the versions of a file above the sequence of a part, up to a
// limit. at is the end of the part, or, if there are more versions, where to cut
// it. If o is nil, the caller cuts the part and calls order again. A part of a
// single logical partition is not cut: then the order holds its first versions.
func (f *Feed) order(file *lsm.File, e *entry, limit int) (o *fileOrder, at partmap.EPK, err error) {
	lo, hi, err := ordinalsIn(file, keybounds.New(e.rng, f.o.Levels))
	if err != nil {
		return nil, at, err
	}
	least, err := partmap.EPKFromBytes(keybounds.At(&e.rng.Min, f.o.Levels).EPK)
	if err != nil {
		return nil, at, err
	}
	single := successor(least)
	whole := single.Compare(&e.rng.Max) >= 0
	o = &fileOrder{after: e.seq, upTo: lsm.MaxSequence, cursor: file.Cursor(lsm.MaxSequence)}
	beyond := hi // the first version over the limit
	for ; lo < hi && beyond == hi; lo += min(orderStep, hi-lo) {
		if err = file.Sequences(lo, min(hi, lo+orderStep), e.seq, func(ordinal uint32, seq uint64) {
			switch {
			case seq > o.upTo || beyond < hi:
			case !whole && len(o.list) == limit:
				beyond = ordinal
			default:
				if o.list = append(o.list, sequenced{seq, ordinal}); len(o.list) >= 2*limit {
					o.cut(limit)
				}
			}
		}); err != nil {
			return nil, at, file.Met(err)
		}
	}
	if beyond < hi {
		if !o.cursor.SeekOrdinal(beyond) {
			return nil, at, file.Met(o.cursor.Err())
		}
		if at, err = partmap.EPKFromBytes(o.cursor.Key().EPK); err != nil {
			return nil, at, err
		}
		if at.Compare(&e.rng.Min) <= 0 {
			return nil, single, nil // the first logical partition alone is over the limit
		}
	} else {
		at = e.rng.Max
	}
	if len(o.list) > limit {
		o.cut(limit)
	} else {
		o.sort()
	}
	o.list = slices.Clip(o.list)
	return o, at, nil
}

func (o *fileOrder) sort() {
	slices.SortFunc(o.list, func(a, b sequenced) int { return cmp.Compare(a.seq, b.seq) })
}

// cut keeps the limit first versions.
func (o *fileOrder) cut(limit int) {
	o.sort()
	o.list = o.list[:limit]
	o.upTo = o.list[limit-1].seq
}

// ordinalsIn returns the ordinals of a file within both its own bounds and b.
func ordinalsIn(f *lsm.File, b *keybounds.Bounds) (lo, hi uint32, err error) {
	span, err := f.OrdinalSpan()
	if err != nil {
		return 0, 0, err
	}
	p := f.Properties()
	lo, hi = span.Lo, span.Hi
	c := f.Cursor(lsm.MaxSequence)
	if item.Compare(&b.Lo, &p.Min) > 0 {
		at, err := f.Lower(c, &b.Lo)
		if err != nil {
			return 0, 0, err
		}
		lo = max(lo, at)
	}
	if item.Compare(&b.Hi, &p.Max) <= 0 {
		at, err := f.Lower(c, &b.Hi)
		if err != nil {
			return 0, 0, err
		}
		hi = min(hi, at)
	}
	return lo, hi, nil
}
