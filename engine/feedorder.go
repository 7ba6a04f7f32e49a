package engine

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/memtable"
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
	feedOrderVersions = 128 << 10 // put in order at once, in all files of a part
	feedOrderShare    = 64        // each file may have at least one in feedOrderShare of them
	feedOrderStep     = 16 << 10  // ordinals between two checks of the limit
)

// sequenced is a version of a file.
type sequenced struct {
	seq     uint64
	ordinal uint32
}

// orderKey identifies a fileOrder: a file within a range.
type orderKey struct {
	f   *file
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
func (m fileOrders) sweep(parts []feedEntry) {
	for key := range m {
		if !slices.ContainsFunc(parts, func(e feedEntry) bool { return e.rng == key.rng }) {
			delete(m, key)
		}
	}
}

func (m fileOrders) close() { clear(m) }

// filesAfter returns the files of v that may hold versions of a part above its
// sequence, modified at since or later.
func filesAfter(v *version, e *feedEntry, since int64) (list []*file) {
	for _, r := range v.runs {
		for _, f := range r.files {
			p := f.Properties()
			if p.MaxSeq > e.seq && p.MaxModified >= since && e.rng.Overlaps(partmap.Range{Min: f.min, Max: f.max}) {
				list = append(list, f)
			}
		}
	}
	return list
}

// spend forgets the orders of a part that it has shown to the end. left says
// whether the part has others.
func (m fileOrders) spend(e *feedEntry) (left bool) {
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
func (f *feed) prepare(t *tree, i int) error {
	for done := false; !done; {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		v, release := t.hold()
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
func (f *feed) orderNext(v *version, i int) (done bool, err error) {
	e := &f.parts[i]
	files := filesAfter(v, e, f.since)
	for key := range f.orders {
		if key.rng == e.rng && !slices.Contains(files, key.f) {
			delete(f.orders, key)
		}
	}
	// The remaining files share the rest of the limit in proportion to their items.
	most := f.o.MostOrdered
	var next *file
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
	limit := max(1, most/feedOrderShare, int(float64(left)*float64(next.Properties().Items)/float64(items)))
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
	end := boundaryKey(&to.Max, levels)
	for key, o := range m {
		if key.rng != from {
			continue
		}
		at, err := key.f.lower(key.f.Cursor(maxSequence), &end)
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
func (f *feed) order(file *file, e *feedEntry, limit int) (o *fileOrder, at partmap.EPK, err error) {
	lo, hi, err := ordinalsIn(file, newBounds(e.rng, f.o.Levels))
	if err != nil {
		return nil, at, err
	}
	least, err := partmap.EPKFromBytes(boundaryKey(&e.rng.Min, f.o.Levels).EPK)
	if err != nil {
		return nil, at, err
	}
	single := successor(least)
	whole := single.Compare(&e.rng.Max) >= 0
	o = &fileOrder{after: e.seq, upTo: maxSequence, cursor: file.Cursor(maxSequence)}
	beyond := hi // the first version over the limit
	for ; lo < hi && beyond == hi; lo += min(feedOrderStep, hi-lo) {
		if err = file.Sequences(lo, min(hi, lo+feedOrderStep), e.seq, func(ordinal uint32, seq uint64) {
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
			return nil, at, file.met(err)
		}
	}
	if beyond < hi {
		if !o.cursor.SeekOrdinal(beyond) {
			return nil, at, file.met(o.cursor.Err())
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
func ordinalsIn(f *file, b *bounds) (lo, hi uint32, err error) {
	span, err := f.ordinalSpan()
	if err != nil {
		return 0, 0, err
	}
	p := f.Properties()
	lo, hi = span.lo, span.hi
	c := f.Cursor(maxSequence)
	if item.Compare(&b.lo, &p.Min) > 0 {
		at, err := f.lower(c, &b.lo)
		if err != nil {
			return 0, 0, err
		}
		lo = max(lo, at)
	}
	if item.Compare(&b.hi, &p.Max) <= 0 {
		at, err := f.lower(c, &b.hi)
		if err != nil {
			return 0, 0, err
		}
		hi = min(hi, at)
	}
	return lo, hi, nil
}

// tableOrder holds versions of a memtable in order of sequence. It is needed where
// that is not the order of arrival: after a replay of carried records.
type tableOrder struct {
	after uint64
	upTo  uint64
	list  []memtable.Arrived
}

type tableOrders map[*memtable.Table]*tableOrder

// feedSource is a cursor over the versions of a memtable or a file, in order of
// sequence.
type feedSource struct {
	seq  uint64 // of the current version; maxSequence: there is none
	ends bool   // seq is the end of the order: there is no current version, and more may follow

	table *memtable.Table
	clip  *bounds     // of table; versions outside are skipped
	list  *tableOrder // nil: the order of arrival
	file  *file
	order *fileOrder

	at, to int
}

// openSources opens a source for each memtable and file of v that may have versions
// of a part above its sequence, at the first of them. It returns false if the order
// of a file is missing.
func (f *feed) openSources(v *version, e *feedEntry) (bool, error) {
	clip := newBounds(e.rng, f.o.Levels)
	f.openTable(v.active, clip, e.seq)
	for i := range v.frozen {
		f.openTable(v.frozen[i].Table, clip, e.seq)
	}
	for t := range f.tables {
		if t != v.active && !slices.ContainsFunc(v.frozen, func(o frozenTable) bool { return o.Table == t }) {
			delete(f.tables, t)
		}
	}
	for _, file := range filesAfter(v, e, f.since) {
		o := f.orders[orderKey{file, e.rng}]
		if !o.covers(e.seq) {
			return false, nil
		}
		s := feedSource{file: file, order: o, to: len(o.list)}
		s.at = sort.Search(len(o.list), func(i int) bool { return o.list[i].seq > e.seq })
		s.settle()
		f.sources = append(f.sources, s)
	}
	return true, nil
}

func (f *feed) openTable(t *memtable.Table, clip *bounds, seq uint64) {
	if t.MaxSeq() <= seq {
		return
	}
	s := feedSource{table: t, clip: clip}
	from, to, ok := t.Arrivals(seq)
	if s.at, s.to = from, to; !ok {
		l := f.tables[t]
		if l == nil || l.after > seq || l.upTo <= seq {
			l = orderTable(t, seq)
			f.tables[t] = l
		}
		s.list, s.to = l, len(l.list)
		s.at = sort.Search(len(l.list), func(i int) bool { return l.list[i].Seq > seq })
	}
	s.settle()
	f.sources = append(f.sources, s)
}

// orderTable puts in order the versions of a memtable above a sequence.
func orderTable(t *memtable.Table, after uint64) *tableOrder {
	upTo := t.MaxSeq()
	return &tableOrder{after: after, upTo: upTo, list: t.InOrder(after, upTo)}
}

// closeSources lets go of memtables and files.
func (f *feed) closeSources() {
	clear(f.sources)
	f.sources = f.sources[:0]
}

// nextSource returns the source with the lowest sequence, nil if none is left.
func (f *feed) nextSource() *feedSource {
	var best *feedSource
	for i := range f.sources {
		if s := &f.sources[i]; s.seq != maxSequence && (best == nil || s.seq < best.seq) {
			best = s
		}
	}
	return best
}

// next moves to the next version.
func (s *feedSource) next() {
	s.at++
	s.settle()
}

// settle sets seq and ends from the position of the cursor.
func (s *feedSource) settle() {
	switch {
	case s.at < s.to && s.order != nil:
		s.seq = s.order.list[s.at].seq
	case s.at < s.to && s.list != nil:
		s.seq = s.list.list[s.at].Seq
	case s.at < s.to:
		_, s.seq = s.table.Arrival(s.at)
	case s.order != nil:
		s.seq, s.ends = s.order.upTo, true
	case s.list != nil:
		s.seq, s.ends = s.list.upTo, true
	default:
		s.seq = maxSequence
	}
}

// read returns the current version, valid until next. It returns false if the
// version lies outside of the part.
func (s *feedSource) read(k *item.Key, v *item.Version) (bool, error) {
	if s.table != nil {
		r, _ := s.ref()
		s.table.Borrow(r, k, v)
		return s.clip.holds(k), nil
	}
	c := s.order.cursor
	if !c.SeekOrdinal(s.order.list[s.at].ordinal) {
		return false, s.file.met(c.Err())
	}
	*k, *v = *c.Key(), *c.Version()
	return true, nil
}

func (s *feedSource) ref() (memtable.Ref, uint64) {
	if s.list != nil {
		return s.list.list[s.at].Ref, s.list.list[s.at].Seq
	}
	return s.table.Arrival(s.at)
}
