package engine

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/segment"
)

// sourceSet is what a partition holds, as a query sees it: each segment file
// within its bounds, and each memtable whole or in indexed parts. It belongs to
// one goroutine, and to the epoch guard in which its version was loaded.
type sourceSet struct {
	ctx    context.Context // of the query that uses it; nil: never ended
	t      *tree
	v      *version
	at     uint64 // sequence at which the query reads
	now    int64  // milliseconds: a version that expires at or before it is gone
	policy *index.Compiled
	list   []*indexSource // newest first; files of one run one after the other
	// deleted tells which items were deleted together with their logical partition.
	deleted deletedKeys

	free    []*indexSource    // sources for reuse, filled by reset
	cursors []*segment.Cursor // cursors for reuse, filled by reset
}

// indexSource is a set of versions in the order of keys, those of one key newest
// first. A version has an ordinal, except in a memtable without an index.
type indexSource struct {
	set *sourceSet
	i   int // index in set.list

	file  *file
	run   *run            // of file
	part  *memPart        // of a memtable
	table *memtable.Table // a whole one, without an index
	clip  *bounds         // of part and table: the versions within belong to the partition; nil: all do

	lo, hi uint32        // ordinals that belong to the partition
	r      *index.Reader // nil: there is no index for the policy
	cursor *segment.Cursor
}

// ordinals is a range of ordinals.
type ordinals struct{ lo, hi uint32 }

// open is sourcesAt for a set that is new, or was reset. It leaves out files without
// keys from lo to hi, damaged ones too. nil bounds leave out no file.
func (q *sourceSet) open(t *tree, v *version, at uint64, now int64, policy *index.Compiled, tables bool, lo, hi *item.Key) error {
	q.t, q.v, q.at, q.now, q.policy = t, v, at, now, policy
	q.deleted.begin(v, at)
	known := t.visible.Load()
	if err := q.addTable(v.active, nil, known, tables); err != nil {
		return err
	}
	for i := range v.frozen {
		if err := q.addTable(v.frozen[i].Table, v.frozen[i].clip, known, tables); err != nil {
			return err
		}
	}
	for _, r := range v.runs {
		for _, f := range r.files {
			if lo != nil && f.outside(lo, hi) {
				continue
			}
			s := q.addFile(f, r)
			span, err := f.ordinalSpan()
			if err != nil {
				return err
			}
			s.lo, s.hi = span.lo, span.hi
			if s.r, err = f.mappedIndex(policy); err != nil {
				return err
			}
		}
	}
	return nil
}

// reset empties the set and keeps its memory for reuse.
func (q *sourceSet) reset() {
	for _, s := range q.list {
		if s.cursor != nil {
			s.cursor.Reset(nil, 0)
			q.cursors = append(q.cursors, s.cursor)
		}
		*s = indexSource{}
	}
	free := append(q.free, q.list...)
	clear(q.list)
	*q = sourceSet{list: q.list[:0], free: free, cursors: q.cursors}
}

// add adds an empty source.
func (q *sourceSet) add() *indexSource {
	s := new(indexSource)
	if n := len(q.free); n > 0 {
		s, q.free = q.free[n-1], q.free[:n-1]
	}
	s.set, s.i = q, len(q.list)
	q.list = append(q.list, s)
	return s
}

// addTable adds a memtable.
func (q *sourceSet) addTable(t *memtable.Table, clip *bounds, known uint64, indexed bool) error {
	if t.Versions() == 0 {
		return nil
	}
	if !indexed || q.policy == nil {
		s := q.add()
		s.table, s.clip = t, clip
		return nil
	}
	parts, ok, err := q.t.env.memIndexes.partsAt(t, q.policy, known)
	if err != nil {
		return err
	}
	if !ok {
		q.t.env.flushSoon()
		return q.addTable(t, clip, known, false)
	}
	for i := len(parts) - 1; i >= 0; i-- {
		s := q.add()
		s.part, s.clip, s.r = parts[i], clip, parts[i].r
		if s.hi = uint32(len(parts[i].refs)); clip != nil {
			s.lo, s.hi = parts[i].lower(&clip.lo), parts[i].lower(&clip.hi)
		}
	}
	return nil
}

// ordinalSpan returns the ordinals within the bounds of the reference.
func (f *file) ordinalSpan() (*ordinals, error) {
	if s := f.span.Load(); s != nil {
		return s, nil
	}
	s := &ordinals{hi: uint32(f.Properties().Items)}
	if f.clip != nil {
		c := f.Cursor(maxSequence)
		var err error
		if s.lo, err = f.lower(c, &f.clip.lo); err == nil {
			s.hi, err = f.lower(c, &f.clip.hi)
		}
		if err != nil {
			return nil, err
		}
	}
	f.span.Store(s)
	return s, nil
}

// lower returns the ordinal of the first version whose key is not before k.
func (f *file) lower(c *segment.Cursor, k *item.Key) (uint32, error) {
	if why := f.Broken(); why != nil {
		// Its one version lies somewhere within the bounds.
		switch {
		case item.Compare(k, &f.clip.lo) <= 0:
			return 0, nil
		case item.Compare(&f.clip.hi, k) <= 0:
			return 1, nil
		}
		return 0, why
	}
	if !c.SeekGE(k) {
		return uint32(f.Properties().Items), f.met(c.Err())
	}
	ordinal, err := c.Ordinal()
	return ordinal, f.met(err)
}

// mappedIndex returns the file's index if it is one for the policy, else nil.
func (f *file) mappedIndex(policy *index.Compiled) (*index.Reader, error) {
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

// indexed says whether the source has an index for the policy.
func (s *indexSource) indexed() bool { return s.r != nil }

// use calls fn with the source's index. What fn gets from the index is valid only during
// the call. fn must hold no lock.
func (s *indexSource) use(fn func(*index.Reader) error) error {
	if s.file == nil {
		return fn(s.r)
	}
	return s.file.metIndex(s.file.Guard(func() error { return fn(s.r) }))
}

// cut returns the ordinals of the keys from lo, inclusive, to hi, exclusive, within the
// partition. A nil bound is the partition's.
func (s *indexSource) cut(lo, hi *item.Key) (from, to uint32, err error) {
	from, to = s.lo, s.hi
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
	from, to = max(from, s.lo), min(to, s.hi)
	return from, max(from, to), nil
}

// cutPartition is cut for the keys of one logical partition, from lo to hi. Keys of
// another logical partition may be among them if the heads of the two EPKs agree.
func (s *indexSource) cutPartition(lo, hi *item.Key) (from, to uint32, err error) {
	if s.file != nil {
		from, to, one, err := s.file.PartitionOrdinals(lo)
		if err != nil || one {
			return max(from, s.lo), max(from, s.lo, min(to, s.hi)), s.file.met(err)
		}
	}
	return s.cut(lo, hi)
}

// lower returns the ordinal of the first version whose key is not before k.
func (s *indexSource) lower(k *item.Key) (uint32, error) {
	if s.part != nil {
		return s.part.lower(k), nil
	}
	return s.file.lower(s.segmentCursor(), k)
}

func (s *indexSource) segmentCursor() *segment.Cursor {
	if s.cursor == nil {
		q := s.set
		if n := len(q.cursors); n > 0 {
			s.cursor, q.cursors = q.cursors[n-1], q.cursors[:n-1]
			s.cursor.Reset(s.file.Reader, maxSequence)
		} else {
			s.cursor = s.file.Cursor(maxSequence)
		}
	}
	return s.cursor
}

// version returns the version with an ordinal; it is valid until the next call
// on the source.
func (s *indexSource) version(ordinal uint32, k *item.Key, v *item.Version) error {
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

// show is version for a query of few versions. Versions that are shown repeatedly are
// kept decoded.
func (s *indexSource) show(ordinal uint32, k *item.Key, v *item.Version) error {
	if s.part != nil {
		return s.version(ordinal, k, v)
	}
	if !s.segmentCursor().Show(ordinal, k, v) {
		return s.noVersion(ordinal)
	}
	return nil
}

// noVersion says why the file has not shown a version.
func (s *indexSource) noVersion(ordinal uint32) error {
	if err := s.cursor.Err(); err != nil {
		return s.file.met(err)
	}
	return fmt.Errorf("%s: no version with ordinal %d", s.file.name, ordinal)
}

// maxSeq returns the highest sequence in the source.
func (s *indexSource) maxSeq() uint64 {
	if s.part != nil {
		return s.part.maxSeq
	}
	return s.file.Properties().MaxSeq
}

// dead adds to the set, within its range, the ordinals of versions that the query does
// not see: tombstones, expired versions, versions above its sequence, and versions that
// are overwritten up to its sequence. The source must have an index. The set covers the
// keys from lo, inclusive, to hi, exclusive; nil is no bound. The bounds matter for
// memtables without an index.
//
// The first call looks up all keys of each newer source in this one. A query of few
// versions should not pay for that: it calls overwritten instead.
func (s *indexSource) dead(set *index.Set, lo, hi *item.Key) error {
	if err := s.deadHere(set); err != nil {
		return err
	}
	for i, n := range s.set.list[:s.i] {
		if n.table != nil {
			if err := s.deadIn(n, set, lo, hi); err != nil {
				return err
			}
			continue
		}
		if n.apart(s) {
			continue
		}
		list, err := s.set.shadowsOn(i, s)
		if err != nil {
			return err
		}
		lo, hi := set.Range()
		if n.clip != nil {
			// Keys of the memtable beyond these bounds do not belong to the partition.
			if lo, hi, err = s.cut(&n.clip.lo, &n.clip.hi); err != nil {
				return err
			}
		}
		part := list.between(lo, hi)
		for j, seq := range part.seqs {
			if seq <= s.set.at {
				set.Add(part.ordinals[j])
			}
		}
	}
	return nil
}

// shadowsKnown says that dead need not look up the keys of any newer file or memtable
// part.
func (s *indexSource) shadowsKnown() bool {
	for _, n := range s.set.list[:s.i] {
		if n.table == nil && !n.apart(s) && (n.file == nil || s.file == nil || n.file.shadows.known(n.file, s.file) == nil) {
			return false
		}
	}
	return true
}

// deadHere is dead without the versions that newer sources overwrite.
func (s *indexSource) deadHere(set *index.Set) error {
	if err := s.use(func(r *index.Reader) error {
		if plain, err := r.Plain(); plain || err != nil {
			return err
		}
		for _, span := range [...]index.Span{index.Deleted(), index.Expired(s.set.now)} {
			if err := r.Union(orBackground(s.set.ctx), span, set); err != nil {
				return err
			}
		}
		if s.maxSeq() <= s.set.at {
			return r.Union(orBackground(s.set.ctx), index.Older(), set)
		}
		return nil
	}); err != nil {
		return err
	}
	if s.maxSeq() > s.set.at {
		return s.deadVersions(set)
	}
	return nil
}

// deadIn adds the versions that the memtable n, which has no index, overwrites.
func (s *indexSource) deadIn(n *indexSource, set *index.Set, lo, hi *item.Key) error {
	return n.walkTable(lo, hi, func(k *item.Key, v *item.Version) (bool, error) {
		if err := ended(s.set.ctx); err != nil {
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
func (s *indexSource) overwrittenBy(l *item.Lookup) (first, versions uint32, err error) {
	if s.part != nil {
		first, versions = s.part.lookup(l.Key)
		return first, versions, nil
	}
	return s.file.overwrittenBy(l)
}

// deadVersions adds the versions above the sequence of the query, those that another
// version of the same key in the source overwrites up to it, and those that were deleted
// with their logical partition.
func (s *indexSource) deadVersions(set *index.Set) error {
	lo, hi := set.Range()
	lo, hi = max(lo, s.lo), min(hi, s.hi)
	if lo >= hi {
		return nil
	}
	var k item.Key
	var v item.Version
	var last item.KeyCopy
	covered := false
	if err := s.version(lo, &k, &v); err != nil {
		return err
	}
	last.Set(&k)
	lo, err := s.lower(&last.Key) // newer versions of the key may lie before the range
	if err != nil {
		return err
	}
	for o := lo; o < hi; o++ {
		if err := ended(s.set.ctx); err != nil {
			return err
		}
		if err := s.version(o, &k, &v); err != nil {
			return err
		}
		if item.Compare(&k, &last.Key) != 0 {
			last.Set(&k)
			covered = false
		}
		if covered || v.Seq > s.set.at {
			set.Add(o)
			continue
		}
		covered = true
		hidden, err := s.set.deleted.hides(&k, &v)
		if err != nil {
			return err
		}
		if hidden {
			set.Add(o)
		}
	}
	return nil
}

// clean says that no version of the source is dead.
func (s *indexSource) clean() (bool, error) {
	if s.maxSeq() > s.set.at {
		return false, nil
	}
	none := true
	if err := s.use(func(r *index.Reader) error {
		if plain, err := r.Plain(); plain || err != nil {
			return err
		}
		for _, span := range [...]index.Span{index.Deleted(), index.Older(), index.Expired(s.set.now)} {
			terms, _, err := r.Count(orBackground(s.set.ctx), span)
			if err != nil {
				return err
			}
			none = none && terms == 0
		}
		return nil
	}); err != nil || !none {
		return false, err
	}
	for i, n := range s.set.list[:s.i] {
		if n.table != nil {
			return false, nil
		}
		if n.apart(s) {
			continue
		}
		list, err := s.set.shadowsOn(i, s)
		if err != nil || len(list.ordinals) > 0 {
			return false, err
		}
	}
	return true, nil
}

// overwritten says whether a source before this one in the list has a version of
// the key itself up to the sequence of the query.
func (s *indexSource) overwritten(k *item.Key) (bool, error) {
	var v item.Version
	l := k.Lookup()
	for _, n := range s.set.list[:s.i] {
		if n.clip != nil && !n.clip.holds(k) {
			continue // the memtable may have the key, but not as part of this partition
		}
		switch {
		case n.table != nil:
			if n.table.Get(l, s.set.at, &v) {
				return true, nil
			}
		case n.part != nil:
			if n.part.table != s.partTable() && n.part.table.Get(l, s.set.at, &v) {
				return true, nil
			}
			if n.part.table == s.partTable() {
				if ok := n.part.has(k, s.set.at); ok {
					return true, nil
				}
			}
		case n.run != s.run && !n.file.before(k):
			if n.file.clip != nil && !n.file.clip.holds(k) {
				continue
			}
			found, err := n.file.Head(l, s.set.at, &v)
			if err != nil {
				return false, n.file.met(err)
			}
			if found {
				return true, nil
			}
		}
	}
	return false, nil
}

func (s *indexSource) partTable() *memtable.Table {
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

// scan calls visit with the keys from lo, inclusive, to hi, exclusive, and the newest
// version of each up to the sequence of the query. It leaves out tombstones, expired
// versions, and versions that newer sources overwrite. A nil bound is the partition's.
// Key and version are valid only during visit. In a memtable without an index the
// ordinal is 0.
func (s *indexSource) scan(lo, hi *item.Key, visit func(ordinal uint32, k *item.Key, v *item.Version) (bool, error)) error {
	show := func(ordinal uint32, k *item.Key, v *item.Version) (bool, error) {
		if !visible(v, s.set.now) {
			return true, nil
		}
		hidden, err := s.set.deleted.hides(k, v)
		if err == nil && !hidden {
			hidden, err = s.overwritten(k)
		}
		if hidden || err != nil {
			return err == nil, err
		}
		return visit(ordinal, k, v)
	}
	if s.table != nil {
		return s.walkTable(lo, hi, func(k *item.Key, v *item.Version) (bool, error) { return show(0, k, v) })
	}
	from, to, err := s.cut(lo, hi)
	if err != nil {
		return err
	}
	var k item.Key
	var v item.Version
	var last item.KeyCopy
	covered := false
	for o := from; o < to; o++ {
		if err := s.version(o, &k, &v); err != nil {
			return err
		}
		if o == from || item.Compare(&k, &last.Key) != 0 {
			last.Set(&k)
			covered = false
		}
		if covered || v.Seq > s.set.at {
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
func (s *indexSource) walkTable(lo, hi *item.Key, visit func(*item.Key, *item.Version) (bool, error)) error {
	if s.clip != nil {
		if lo == nil || item.Compare(lo, &s.clip.lo) < 0 {
			lo = &s.clip.lo
		}
		if hi == nil || item.Compare(&s.clip.hi, hi) < 0 {
			hi = &s.clip.hi
		}
	}
	c := s.table.Cursor(s.set.at)
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

// sourcesAt lists the sources of version v of a partition, as of sequence at, which must
// not be above the visible one. With tables, memtables are read through indexes, of
// which missing parts are made if there is memory. Without tables, memtables have no
// index, which is right for a query of few keys. With a nil policy nothing has an index.
func (t *tree) sourcesAt(v *version, at uint64, now int64, policy *index.Compiled, tables bool) (*sourceSet, error) {
	q := new(sourceSet)
	return q, q.open(t, v, at, now, policy, tables, nil, nil)
}

// ended returns the error of ctx, nil if ctx is nil. Loops whose length depends on the
// data or the query call it.
func ended(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return ctx.Err()
}

// orBackground returns ctx, or context.Background() if ctx is nil.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
