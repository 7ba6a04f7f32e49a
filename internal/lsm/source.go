package lsm

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/segment"
)

// Sources is what a partition holds, as a query sees it: each segment file
// within its bounds, and each memtable whole or in indexed parts. It belongs to
// one goroutine, and to the epoch guard in which its version was loaded.
type Sources struct {
	Ctx    context.Context // of the query that uses it; nil: never ended
	t      *Tree
	v      *Version
	At     uint64        // sequence at which the query reads
	Past   lifetime.Past // which versions have expired
	policy *index.Compiled
	List   []*Source // newest first; files of one run one after the other
	// Deleted tells which items were deleted together with their logical partition.
	Deleted DeletedKeys

	free    []*Source         // sources for reuse, filled by reset
	cursors []*segment.Cursor // cursors for reuse, filled by reset
}

// Source is a set of versions in the order of keys, those of one key newest
// first. A version has an ordinal, except in a memtable without an index.
type Source struct {
	Set *Sources
	i   int // index in set.list

	file  *File
	run   *Run              // of file
	part  *memPart          // of a memtable
	Table *memtable.Table   // a whole one, without an index
	Clip  *keybounds.Bounds // of part and table: the versions within belong to the partition; nil: all do

	Lo, Hi uint32        // ordinals that belong to the partition
	Index  *index.Reader // nil: there is no index for the policy
	cursor *segment.Cursor
}

// ordinals is a range of ordinals.
type ordinals struct{ Lo, Hi uint32 }

// Open lists the sources of version v of a partition, as of sequence at, which must not be above the
// visible one, in a set that is new or was reset. With tables, memtables are read through indexes, of
// which missing parts are made if there is memory. Without tables, memtables have no index, which is
// right for a query of few keys. With a nil policy nothing has an index. Files without keys from lo to hi
// are left out, damaged ones too; nil bounds leave out none.
func (q *Sources) Open(t *Tree, v *Version, at uint64, past lifetime.Past, policy *index.Compiled, tables bool, lo, hi *item.Key) error {
	q.t, q.v, q.At, q.Past, q.policy = t, v, at, past, policy
	q.Deleted.Begin(v, at)
	known := t.Visible.Load()
	if err := q.addTable(v.Active, nil, known, tables); err != nil {
		return err
	}
	for i := range v.Frozen {
		if err := q.addTable(v.Frozen[i].Table, v.Frozen[i].Clip, known, tables); err != nil {
			return err
		}
	}
	for _, r := range v.Runs {
		for _, f := range r.Files {
			if lo != nil && f.outside(lo, hi) {
				continue
			}
			s := q.addFile(f, r)
			span, err := f.OrdinalSpan()
			if err != nil {
				return err
			}
			s.Lo, s.Hi = span.Lo, span.Hi
			if s.Index, err = f.mappedIndex(policy); err != nil {
				return err
			}
		}
	}
	return nil
}

// Runs is the number of runs that have files in the set.
func (q *Sources) Runs() (n int) {
	var last *Run
	for _, s := range q.List {
		if s.run != nil && s.run != last {
			n, last = n+1, s.run
		}
	}
	return n
}

// Reset empties the set and keeps its memory for reuse.
func (q *Sources) Reset() {
	for _, s := range q.List {
		if s.cursor != nil {
			s.cursor.Reset(nil, 0)
			q.cursors = append(q.cursors, s.cursor)
		}
		*s = Source{}
	}
	free := append(q.free, q.List...)
	clear(q.List)
	*q = Sources{List: q.List[:0], free: free, cursors: q.cursors}
}

// add adds an empty source.
func (q *Sources) add() *Source {
	s := new(Source)
	if n := len(q.free); n > 0 {
		s, q.free = q.free[n-1], q.free[:n-1]
	}
	s.Set, s.i = q, len(q.List)
	q.List = append(q.List, s)
	return s
}

// addTable adds a memtable.
func (q *Sources) addTable(t *memtable.Table, clip *keybounds.Bounds, known uint64, indexed bool) error {
	if t.Versions() == 0 {
		return nil
	}
	if !indexed || q.policy == nil {
		s := q.add()
		s.Table, s.Clip = t, clip
		return nil
	}
	parts, ok, err := q.t.Env.MemIndexes.partsAt(t, q.policy, known, q.t.Life.Ages())
	if err != nil {
		return err
	}
	if !ok {
		q.t.Env.FlushSoon()
		return q.addTable(t, clip, known, false)
	}
	for i := len(parts) - 1; i >= 0; i-- {
		s := q.add()
		s.part, s.Clip, s.Index = parts[i], clip, parts[i].r
		if s.Hi = uint32(len(parts[i].refs)); clip != nil {
			s.Lo, s.Hi = parts[i].lower(&clip.Lo), parts[i].lower(&clip.Hi)
		}
	}
	return nil
}

// OrdinalSpan returns the ordinals within the bounds of the reference.
func (f *File) OrdinalSpan() (*ordinals, error) {
	if s := f.span.Load(); s != nil {
		return s, nil
	}
	s := &ordinals{Hi: uint32(f.Properties().Items)}
	if f.Clip != nil {
		c := f.Cursor(MaxSequence)
		var err error
		if s.Lo, err = f.Lower(c, &f.Clip.Lo); err == nil {
			s.Hi, err = f.Lower(c, &f.Clip.Hi)
		}
		if err != nil {
			return nil, err
		}
	}
	f.span.Store(s)
	return s, nil
}

// Lower returns the ordinal of the first version whose key is not before k.
func (f *File) Lower(c *segment.Cursor, k *item.Key) (uint32, error) {
	if why := f.Broken(); why != nil {
		// Its one version lies somewhere within the bounds.
		switch {
		case item.Compare(k, &f.Clip.Lo) <= 0:
			return 0, nil
		case item.Compare(&f.Clip.Hi, k) <= 0:
			return 1, nil
		}
		return 0, why
	}
	if !c.SeekGE(k) {
		return uint32(f.Properties().Items), f.Met(c.Err())
	}
	ordinal, err := c.Ordinal()
	return ordinal, f.Met(err)
}

// mappedIndex returns the file's index if it is one for the policy, else nil.
func (f *File) mappedIndex(policy *index.Compiled) (*index.Reader, error) {
	if policy == nil {
		return nil, nil
	}
	if r := f.opened.Load(); r != nil && r.Info().Fingerprint == policy.Fingerprint() {
		return r, nil
	}
	r, err := f.openIndex(policy, false)
	if r != nil {
		f.opened.Store(r)
	}
	return r, err
}

// Indexed says whether the source has an index for the policy.
func (s *Source) Indexed() bool { return s.Index != nil }

// Follows says that all keys of the source come after those of o, which is before it in
// the list: both are files of one run.
func (s *Source) Follows(o *Source) bool { return s.run != nil && s.run == o.run }

// Use calls fn with the source's index. What fn gets from the index is valid only during
// the call. fn must hold no lock.
func (s *Source) Use(fn func(*index.Reader) error) error {
	if s.file == nil {
		return fn(s.Index)
	}
	return s.file.metIndex(s.file.Guard(func() error { return fn(s.Index) }))
}

// Cut returns the ordinals of the keys from lo, inclusive, to hi, exclusive, within the
// partition. A nil bound is the partition's.
func (s *Source) Cut(lo, hi *item.Key) (from, to uint32, err error) {
	from, to = s.Lo, s.Hi
	if lo != nil {
		if from, err = s.lower(lo); err != nil {
			return 0, 0, err
		}
	}
	if hi != nil {
		if to, err = s.lower(hi); err != nil {
			return 0, 0, err
		}
	}
	from, to = max(from, s.Lo), min(to, s.Hi)
	return from, max(from, to), nil
}

// CutPartition is cut for the keys of one logical partition, from lo to hi. Keys of
// another logical partition may be among them if the heads of the two EPKs agree.
func (s *Source) CutPartition(lo, hi *item.Key) (from, to uint32, err error) {
	if s.file != nil {
		from, to, one, err := s.file.PartitionOrdinals(lo)
		if err != nil || one {
			return max(from, s.Lo), max(from, s.Lo, min(to, s.Hi)), s.file.Met(err)
		}
	}
	return s.Cut(lo, hi)
}

// lower returns the ordinal of the first version whose key is not before k.
func (s *Source) lower(k *item.Key) (uint32, error) {
	if s.part != nil {
		return s.part.lower(k), nil
	}
	return s.file.Lower(s.segmentCursor(), k)
}

func (s *Source) segmentCursor() *segment.Cursor {
	if s.cursor == nil {
		q := s.Set
		if n := len(q.cursors); n > 0 {
			s.cursor, q.cursors = q.cursors[n-1], q.cursors[:n-1]
			s.cursor.Reset(s.file.Reader, MaxSequence)
		} else {
			s.cursor = s.file.Cursor(MaxSequence)
		}
	}
	return s.cursor
}

// Version returns the version with an ordinal; it is valid until the next call
// on the source.
func (s *Source) Version(ordinal uint32, k *item.Key, v *item.Version) error {
	if s.part != nil {
		s.part.table.Borrow(s.part.refs[ordinal], k, v)
		return nil
	}
	c := s.segmentCursor()
	if !c.SeekOrdinal(ordinal) {
		return s.noVersion(ordinal)
	}
	*k, *v = *c.Key(), *c.Version()
	return nil
}

// Show is version for a query of few versions. Versions that are shown repeatedly are
// kept decoded.
func (s *Source) Show(ordinal uint32, k *item.Key, v *item.Version) error {
	if s.part != nil {
		return s.Version(ordinal, k, v)
	}
	if !s.segmentCursor().Show(ordinal, k, v) {
		return s.noVersion(ordinal)
	}
	return nil
}

// noVersion says why the file has not shown a version.
func (s *Source) noVersion(ordinal uint32) error {
	if err := s.cursor.Err(); err != nil {
		return s.file.Met(err)
	}
	return fmt.Errorf("%s: no version with ordinal %d", s.file.Name, ordinal)
}

// MaxSeq returns the highest sequence in the source.
func (s *Source) MaxSeq() uint64 {
	if s.part != nil {
		return s.part.maxSeq
	}
	return s.file.Properties().MaxSeq
}

// Dead adds to the set, within its range, the ordinals of versions that the query does
// not see: tombstones, expired versions, versions above its sequence, and versions that
// are overwritten up to its sequence. The source must have an index. The set covers the
// keys from lo, inclusive, to hi, exclusive; nil is no bound. The bounds matter for
// memtables without an index.
//
// The first call looks up all keys of each newer source in this one. A query of few
// versions should not pay for that: it calls overwritten instead.
func (s *Source) Dead(set *index.Set, lo, hi *item.Key) error {
	if err := s.DeadHere(set); err != nil {
		return err
	}
	for i, n := range s.Set.List[:s.i] {
		if n.Table != nil {
			if err := s.deadIn(n, set, lo, hi); err != nil {
				return err
			}
			continue
		}
		if n.apart(s) {
			continue
		}
		list, err := s.Set.vectorOn(i, s)
		if err != nil {
			return err
		}
		lo, hi := set.Range()
		if n.Clip != nil {
			// Keys of the memtable beyond these bounds do not belong to the partition.
			if lo, hi, err = s.Cut(&n.Clip.Lo, &n.Clip.Hi); err != nil {
				return err
			}
		}
		part := list.Between(lo, hi)
		for j, seq := range part.Seqs {
			if seq <= s.Set.At {
				set.Add(part.Ordinals[j])
			}
		}
	}
	return nil
}

// VectorsKnown says that dead need not look up the keys of any newer file or memtable
// part.
func (s *Source) VectorsKnown() bool {
	for _, n := range s.Set.List[:s.i] {
		if n.Table == nil && !n.apart(s) && (n.file == nil || s.file == nil || n.file.VectorCache.Known(n.file, s.file) == nil) {
			return false
		}
	}
	return true
}

// DeadHere is dead without the versions that newer sources overwrite.
func (s *Source) DeadHere(set *index.Set) error {
	of := index.Dead{Expired: s.Set.Past.Expired, Aged: s.aged(), Before: s.Set.Past.Before, Unseen: s.MaxSeq() > s.Set.At}
	rest := false
	if err := s.Use(func(r *index.Reader) (err error) {
		rest, err = r.AddDead(OrBackground(s.Set.Ctx), of, set)
		return err
	}); err != nil || !rest {
		return err
	}
	return s.deadVersions(set)
}

// aged says whether a version without a time of its own may have expired, by the default of
// the container. An index that was made while there was none does not tell which.
func (s *Source) aged() bool {
	if s.file == nil {
		return s.part.oldest < s.Set.Past.Before
	}
	return s.run.Expiring.Aged(s.Set.Past)
}

// deadIn adds the versions that the memtable n, which has no index, overwrites.
func (s *Source) deadIn(n *Source, set *index.Set, lo, hi *item.Key) error {
	return n.walkTable(lo, hi, func(k *item.Key, v *item.Version) (bool, error) {
		if err := Ended(s.Set.Ctx); err != nil {
			return false, err
		}
		first, versions, err := s.overwrittenBy(k.Lookup())
		if err != nil {
			return false, err
		}
		set.AddRange(first, first+versions)
		return true, nil
	})
}

// overwrittenBy returns the ordinals of the versions that a newer source with a version
// of the key overwrites: those of the key, or, for a partition tombstone, of its logical
// partition.
func (s *Source) overwrittenBy(l *item.Lookup) (first, versions uint32, err error) {
	if s.part != nil {
		first, versions = s.part.lookup(l.Key)
		return first, versions, nil
	}
	return s.file.OverwrittenBy(l)
}

// deadVersions adds the versions above the sequence of the query, those that another
// version of the same key in the source overwrites up to it, those that have expired, and
// those that were deleted with their logical partition.
func (s *Source) deadVersions(set *index.Set) error {
	lo, hi := set.Range()
	lo, hi = max(lo, s.Lo), min(hi, s.Hi)
	if lo >= hi {
		return nil
	}
	var k item.Key
	var v item.Version
	var last item.KeyCopy
	covered := false
	if err := s.Version(lo, &k, &v); err != nil {
		return err
	}
	last.Set(&k)
	lo, err := s.lower(&last.Key) // newer versions of the key may lie before the range
	if err != nil {
		return err
	}
	for o := lo; o < hi; o++ {
		if err := Ended(s.Set.Ctx); err != nil {
			return err
		}
		if err := s.Version(o, &k, &v); err != nil {
			return err
		}
		if item.Compare(&k, &last.Key) != 0 {
			last.Set(&k)
			covered = false
		}
		if covered || v.Seq > s.Set.At {
			set.Add(o)
			continue
		}
		covered = true
		hidden, err := s.Set.Deleted.Hides(&k, &v)
		if err != nil {
			return err
		}
		if hidden || s.Set.Past.Gone(&v) {
			set.Add(o)
		}
	}
	return nil
}

// Clean says that no version of the source is dead.
func (s *Source) Clean() (bool, error) {
	if s.MaxSeq() > s.Set.At || s.aged() {
		return false, nil
	}
	none := true
	if err := s.Use(func(r *index.Reader) error {
		if plain, err := r.Plain(); plain || err != nil {
			return err
		}
		for _, span := range [...]index.Span{index.Deleted(), index.Older(), index.Expired(s.Set.Past.Expired)} {
			some, err := r.Some(span)
			if some || err != nil {
				none = false
				return err
			}
		}
		return nil
	}); err != nil || !none {
		return false, err
	}
	for i, n := range s.Set.List[:s.i] {
		if n.Table != nil {
			return false, nil
		}
		if n.apart(s) {
			continue
		}
		list, err := s.Set.vectorOn(i, s)
		if err != nil || len(list.Ordinals) > 0 {
			return false, err
		}
	}
	return true, nil
}

// Overwritten says whether a source before this one in the list has a version of
// the key itself up to the sequence of the query.
func (s *Source) Overwritten(k *item.Key) (bool, error) {
	var v item.Version
	l := k.Lookup()
	for _, n := range s.Set.List[:s.i] {
		if n.Clip != nil && !n.Clip.Holds(k) {
			continue // the memtable may have the key, but not as part of this partition
		}
		switch {
		case n.Table != nil:
			if n.Table.Get(l, s.Set.At, &v) {
				return true, nil
			}
		case n.part != nil:
			if n.part.table != s.partTable() && n.part.table.Get(l, s.Set.At, &v) {
				return true, nil
			}
			if n.part.table == s.partTable() {
				if ok := n.part.has(k, s.Set.At); ok {
					return true, nil
				}
			}
		case n.run != s.run && !n.file.before(k):
			if n.file.Clip != nil && !n.file.Clip.Holds(k) {
				continue
			}
			found, err := n.file.Head(l, s.Set.At, &v)
			if err != nil {
				return false, n.file.Met(err)
			}
			if found {
				return true, nil
			}
		}
	}
	return false, nil
}

func (s *Source) partTable() *memtable.Table {
	if s.part == nil {
		return nil
	}
	return s.part.table
}

// has says whether the part has a version of the key up to a sequence.
func (p *memPart) has(k *item.Key, at uint64) bool {
	first, versions := p.lookup(k)
	return versions > 0 && p.seqs[first+versions-1] <= at
}

// Scan calls visit with the keys from lo, inclusive, to hi, exclusive, and the newest
// version of each up to the sequence of the query. It leaves out tombstones, expired
// versions, and versions that newer sources overwrite. A nil bound is the partition's.
// Key and version are valid only during visit. In a memtable without an index the
// ordinal is 0.
func (s *Source) Scan(lo, hi *item.Key, visit func(ordinal uint32, k *item.Key, v *item.Version) (bool, error)) error {
	show := func(ordinal uint32, k *item.Key, v *item.Version) (bool, error) {
		if !Shown(v, s.Set.Past) {
			return true, nil
		}
		hidden, err := s.Set.Deleted.Hides(k, v)
		if err == nil && !hidden {
			hidden, err = s.Overwritten(k)
		}
		if hidden || err != nil {
			return err == nil, err
		}
		return visit(ordinal, k, v)
	}
	if s.Table != nil {
		return s.walkTable(lo, hi, func(k *item.Key, v *item.Version) (bool, error) { return show(0, k, v) })
	}
	from, to, err := s.Cut(lo, hi)
	if err != nil {
		return err
	}
	var k item.Key
	var v item.Version
	var last item.KeyCopy
	covered := false
	for o := from; o < to; o++ {
		if err := s.Version(o, &k, &v); err != nil {
			return err
		}
		if o == from || item.Compare(&k, &last.Key) != 0 {
			last.Set(&k)
			covered = false
		}
		if covered || v.Seq > s.Set.At {
			continue
		}
		covered = true
		if more, err := show(o, &k, &v); !more || err != nil {
			return err
		}
	}
	return nil
}

// walkTable calls visit with the keys of a memtable without an index, and the
// newest version of each up to the sequence of the query.
func (s *Source) walkTable(lo, hi *item.Key, visit func(*item.Key, *item.Version) (bool, error)) error {
	if s.Clip != nil {
		if lo == nil || item.Compare(lo, &s.Clip.Lo) < 0 {
			lo = &s.Clip.Lo
		}
		if hi == nil || item.Compare(&s.Clip.Hi, hi) < 0 {
			hi = &s.Clip.Hi
		}
	}
	c := s.Table.Cursor(s.Set.At)
	ok := false
	if lo == nil {
		ok = c.First()
	} else {
		ok = c.SeekGE(lo)
	}
	for ; ok && (hi == nil || item.Compare(c.Key(), hi) < 0); ok = c.Next() {
		if more, err := visit(c.Key(), c.Version()); !more || err != nil {
			return err
		}
	}
	return nil
}

// Ended returns the error of ctx, nil if ctx is nil. Loops whose length depends on the
// data or the query call it.
func Ended(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return ctx.Err()
}

// OrBackground returns ctx, or context.Background() if ctx is nil.
func OrBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
