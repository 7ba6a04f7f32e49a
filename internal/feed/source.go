package feed

import (
	"slices"
	"sort"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
)

// tableOrder holds versions of a memtable in order of sequence. It is needed where
// that is not the order of arrival: after a replay of carried records.
type tableOrder struct {
	after uint64
	upTo  uint64
	list  []memtable.Arrived
}

type tableOrders map[*memtable.Table]*tableOrder

// source is a cursor over the versions of a memtable or a file, in order of
// sequence.
type source struct {
	seq  uint64 // of the current version; lsm.MaxSequence: there is none
	ends bool   // seq is the end of the order: there is no current version, and more may follow

	table *memtable.Table
	clip  *keybounds.Bounds // of table; versions outside are skipped
	list  *tableOrder       // nil: the order of arrival
	file  *lsm.File
	order *fileOrder

	at, to int
}

// openSources opens a source for each memtable and file of v that may have versions
// of a part above its sequence, at the first of them. It returns false if the order
// of a file is missing.
func (f *Feed) openSources(v *lsm.Version, e *entry) (bool, error) {
	clip := keybounds.New(e.rng, f.o.Levels)
	f.openTable(v.Active, clip, e.seq)
	for i := range v.Frozen {
		f.openTable(v.Frozen[i].Table, clip, e.seq)
	}
	for t := range f.tables {
		if t != v.Active && !slices.ContainsFunc(v.Frozen, func(o lsm.Frozen) bool { return o.Table == t }) {
			delete(f.tables, t)
		}
	}
	for _, file := range filesAfter(v, e, f.since) {
		o := f.orders[orderKey{file, e.rng}]
		if !o.covers(e.seq) {
			return false, nil
		}
		s := source{file: file, order: o, to: len(o.list)}
		s.at = sort.Search(len(o.list), func(i int) bool { return o.list[i].seq > e.seq })
		s.settle()
		f.sources = append(f.sources, s)
	}
	return true, nil
}

func (f *Feed) openTable(t *memtable.Table, clip *keybounds.Bounds, seq uint64) {
	if t.MaxSeq() <= seq {
		return
	}
	s := source{table: t, clip: clip}
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
func (f *Feed) closeSources() {
	clear(f.sources)
	f.sources = f.sources[:0]
}

// nextSource returns the source with the lowest sequence, nil if none is left.
func (f *Feed) nextSource() *source {
	var best *source
	for i := range f.sources {
		if s := &f.sources[i]; s.seq != lsm.MaxSequence && (best == nil || s.seq < best.seq) {
			best = s
		}
	}
	return best
}

// next moves to the next version.
func (s *source) next() {
	s.at++
	s.settle()
}

// settle sets seq and ends from the position of the cursor.
func (s *source) settle() {
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
		s.seq = lsm.MaxSequence
	}
}

// read returns the current version, valid until next. It returns false if the
// version lies outside of the part.
func (s *source) read(k *item.Key, v *item.Version) (bool, error) {
	if s.table != nil {
		r, _ := s.ref()
		s.table.Borrow(r, k, v)
		return s.clip.Holds(k), nil
	}
	c := s.order.cursor
	if !c.SeekOrdinal(s.order.list[s.at].ordinal) {
		return false, s.file.Met(c.Err())
	}
	*k, *v = *c.Key(), *c.Version()
	return true, nil
}

func (s *source) ref() (memtable.Ref, uint64) {
	if s.list != nil {
		return s.list.list[s.at].Ref, s.list.list[s.at].Seq
	}
	return s.table.Arrival(s.at)
}
