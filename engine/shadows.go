package engine

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// The shadows of a source are the versions in older sources that it overwrites. A
// partition tombstone overwrites all older versions of its logical partition. Shadows
// never change, since sources are immutable. They become known in three ways:
//
//   - a flush looks up its keys in the runs, and a merge joins the shadows of its
//     inputs; both write the result with the file (segment.Shadows);
//   - when a merge replaces older files, the shadows of newer sources in them get the
//     new ordinals, in memory;
//   - shadows that are still unknown, as after an open, are found by the first query,
//     which looks up each key.

// shadowList names the versions of an older source that a newer one overwrites,
// each with the lowest sequence at which it does. Ordinals rise.
type shadowList struct {
	ordinals []uint32
	seqs     []uint64
}

// add adds the versions that one key overwrites. Keys come in their order. Entries that
// the list already has at or behind the ordinal are of a partition tombstone, which
// comes before the keys of its logical partition.
func (l *shadowList) add(ordinal, versions uint32, seq uint64) {
	if n := len(l.ordinals); versions > 0 && n > 0 && ordinal <= l.ordinals[n-1] {
		at, _ := slices.BinarySearch(l.ordinals, ordinal)
		for i := range l.seqs[at:min(at+int(versions), n)] {
			l.seqs[at+i] = min(l.seqs[at+i], seq)
		}
		return
	}
	for i := range versions {
		l.ordinals, l.seqs = append(l.ordinals, ordinal+i), append(l.seqs, seq)
	}
}

// between returns the part of the list for a range of ordinals.
func (l *shadowList) between(lo, hi uint32) shadowList {
	from, _ := slices.BinarySearch(l.ordinals, lo)
	to, _ := slices.BinarySearch(l.ordinals, max(lo, hi))
	return shadowList{l.ordinals[from:to], l.seqs[from:to]}
}

// joinShadows returns the union of what two sources overwrite.
func joinShadows(a, b *shadowList) *shadowList {
	switch {
	case len(a.ordinals) == 0:
		return b
	case len(b.ordinals) == 0:
		return a
	}
	l := &shadowList{ordinals: make([]uint32, 0, len(a.ordinals)+len(b.ordinals)), seqs: make([]uint64, 0, len(a.ordinals)+len(b.ordinals))}
	for i, j := 0, 0; i < len(a.ordinals) || j < len(b.ordinals); {
		switch {
		case j == len(b.ordinals) || i < len(a.ordinals) && a.ordinals[i] < b.ordinals[j]:
			l.add(a.ordinals[i], 1, a.seqs[i])
			i++
		case i == len(a.ordinals) || b.ordinals[j] < a.ordinals[i]:
			l.add(b.ordinals[j], 1, b.seqs[j])
			j++
		default:
			l.add(a.ordinals[i], 1, min(a.seqs[i], b.seqs[j]))
			i, j = i+1, j+1
		}
	}
	return l
}

// moved returns the list with the ordinals that the versions have in another file,
// without versions that this file does not have.
func (l *shadowList) moved(m *index.Remap) *shadowList {
	to := new(shadowList)
	part := l.between(m.First, m.First+uint32(len(m.New)))
	for i, o := range part.ordinals {
		if o = m.New[o-m.First]; o != index.Dropped {
			to.add(o, 1, part.seqs[i])
		}
	}
	return to
}

// shadowCache holds what a source overwrites in older ones.
type shadowCache struct {
	mu     sync.Mutex
	loaded bool                // lists has what the file stores
	lists  map[any]*shadowList // by identity of the older source
}

// identity is equal for sources with the same versions at the same ordinals: the
// number of a file, or the part of a memtable.
func (s *indexSource) identity() any {
	if s.file != nil {
		return s.file.ref.Number
	}
	return s.part
}

func (s *indexSource) cache() *shadowCache {
	if s.file != nil {
		return &s.file.shadows
	}
	return &s.part.shadows
}

// load reads the shadows that a file stores. mu is locked.
func (c *shadowCache) load(f *file) error {
	if c.loaded || f == nil {
		return nil
	}
	all, _, err := f.Shadows()
	if errors.Is(err, fault.ErrCorrupt) {
		// The shadows are then found by lookups, and the file is written anew.
		f.badIndex.Store(true)
		all, err = nil, nil
	}
	if err != nil {
		return f.named(err)
	}
	c.loaded = true
	for _, s := range all {
		c.set(s.File, &shadowList{s.Ordinals, s.Seqs})
	}
	return nil
}

// keep notes the shadows that were written with a file.
func (c *shadowCache) keep(all []segment.Shadows) {
	for _, s := range all {
		c.set(s.File, &shadowList{s.Ordinals, s.Seqs})
	}
	c.loaded = true
}

func (c *shadowCache) set(older any, l *shadowList) {
	if c.lists == nil {
		c.lists = make(map[any]*shadowList)
	}
	c.lists[older] = l
}

// known returns what a file overwrites in an older one, nil if that is not
// known.
func (c *shadowCache) known(f, older *file) *shadowList {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.load(f) != nil {
		return nil // it can be found by lookups
	}
	if l := c.lists[older.ref.Number]; l != nil || !filesApart(f, older) {
		return l
	}
	return new(shadowList)
}

// take takes over what another reference to the same file knows. With join, the bounds
// of this reference have grown by those of the other: only what both know stays known.
func (c *shadowCache) take(from *shadowCache, join bool) {
	from.mu.Lock()
	defer from.mu.Unlock()
	if !join {
		c.loaded = from.loaded
		for older, l := range from.lists {
			c.set(older, l)
		}
		return
	}
	for older, l := range c.lists {
		if other := from.lists[older]; other != nil {
			c.lists[older] = joinShadows(l, other)
		} else {
			delete(c.lists, older)
			c.loaded = false
		}
	}
}

// carry notes what a source overwrites in files that replace others, before they do. f
// is the source, nil for a part of a memtable.
func (c *shadowCache) carry(f *file, written []*file, taken []*takenIndex) {
	if !c.mu.TryLock() {
		return // a query holds the lock while it looks up shadows
	}
	defer c.mu.Unlock()
	if c.load(f) != nil {
		return
	}
	for _, w := range written {
		all := new(shadowList)
		for _, t := range taken {
			if t.number != w.ref.Number {
				continue
			}
			l := c.lists[t.file.ref.Number]
			if l == nil && (f == nil || !filesApart(f, t.file)) {
				all = nil
				break
			}
			if l != nil {
				all = joinShadows(all, l.moved(&t.remap))
			}
		}
		if all != nil {
			c.set(w.ref.Number, all)
		}
	}
}

func (q *sourceSet) addFile(f *file, r *run) *indexSource {
	s := q.add()
	s.file, s.run = f, r
	return s
}

// errAllFailed ends a search in which no older source is left that can be read.
var errAllFailed = errors.New("no older source can be read")

// shadowsOn returns what source i of the set overwrites in an older one. One pass over
// its keys finds its shadows in all older sources. For sources that cannot be read
// nothing is recorded.
func (q *sourceSet) shadowsOn(i int, older *indexSource) (*shadowList, error) {
	s := q.list[i]
	cache := s.cache()
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if err := cache.load(s.file); err != nil {
		return nil, err
	}
	if l := cache.lists[older.identity()]; l != nil {
		return l, nil
	}
	lists := make(map[any]*shadowList)
	type target struct {
		*indexSource
		list *shadowList
	}
	var targets []target
	failed := make(map[any]error)
	for _, o := range q.list[i+1:] {
		if l := cache.lists[o.identity()]; l != nil {
			lists[o.identity()] = l // lists of sources that are not in the set are dropped
			continue
		}
		// Two references to one file share a list. The first of them that is not apart
		// is the target.
		l := lists[o.identity()]
		if l == nil {
			l = new(shadowList)
			lists[o.identity()] = l
		}
		if !s.apart(o) && !slices.ContainsFunc(targets, func(t target) bool { return t.list == l }) {
			targets = append(targets, target{o, l})
		}
	}
	if len(targets) > 0 {
		err := s.eachKey(func(k *item.Key, oldest uint64) error {
			l := k.Lookup()
			for _, t := range targets {
				if failed[t.identity()] != nil {
					continue
				}
				ordinal, versions, err := t.overwrittenBy(l)
				if err != nil {
					failed[t.identity()] = err
					if len(failed) == len(targets) {
						return errAllFailed
					}
					continue
				}
				t.list.add(ordinal, versions, oldest)
			}
			return nil
		})
		if err != nil && err != errAllFailed {
			return nil, err
		}
		for id := range failed {
			delete(lists, id)
		}
	}
	cache.lists = lists
	return lists[older.identity()], failed[older.identity()]
}

// apart says that two sources can have no logical partition in common: two files,
// if their keys lie apart.
func (s *indexSource) apart(o *indexSource) bool {
	if s.file == nil || o.file == nil {
		return false
	}
	return s.run == o.run || filesApart(s.file, o.file)
}

// filesApart is apart for two files of a partition. Two references to one file are apart
// too: neither overwrites anything in the other.
func filesApart(a, b *file) bool {
	if a.ref.Number == b.ref.Number {
		return true
	}
	p, q := a.Properties(), b.Properties()
	return item.ComparePartition(&p.Max, &q.Min) < 0 || item.ComparePartition(&q.Max, &p.Min) < 0
}

var errFalling = errors.New("offsets: ordinals fall where keys rise")

// overwrittenBy returns the ordinals of the versions that a newer source with a version
// of the key overwrites: those of the key, or, for a partition tombstone, of its logical
// partition. They may lie beyond the bounds of the reference.
func (f *file) overwrittenBy(l *item.Lookup) (first, versions uint32, err error) {
	k := l.Key
	if k.OfPartition() {
		from, to := limitsOf(k)
		c := f.Cursor(maxSequence)
		if first, err = f.lower(c, from); err != nil {
			return 0, 0, err
		}
		var hi uint32
		hi, err = f.lower(c, to)
		if err == nil && hi < first {
			err = f.met(f.Corrupt(errFalling))
		}
		if err != nil {
			return 0, 0, err
		}
		return first, hi - first, nil
	}
	if p := f.Properties(); item.Compare(k, &p.Min) < 0 || item.Compare(&p.Max, k) < 0 {
		return 0, 0, nil
	}
	first, versions, err = f.Lookup(l)
	return first, versions, f.met(err)
}

// eachKey calls visit with the keys of the source and the sequence of the oldest
// version of each.
func (s *indexSource) eachKey(visit func(k *item.Key, oldest uint64) error) error {
	if s.part != nil {
		var k, next item.Key
		var v item.Version
		for i := range s.part.refs {
			s.part.table.Borrow(s.part.refs[i], &k, &v)
			if i+1 < len(s.part.refs) {
				var older item.Version
				if s.part.table.Borrow(s.part.refs[i+1], &next, &older); item.Compare(&k, &next) == 0 {
					continue
				}
			}
			if err := visit(&k, v.Seq); err != nil {
				return err
			}
		}
		return nil
	}
	in := runInput{files: []*file{s.file}}
	var last item.KeyCopy
	var oldest uint64
	for {
		ok, err := in.next()
		if err != nil {
			return err
		}
		if oldest != 0 && (!ok || item.Compare(in.walker.Key(), &last.Key) != 0) {
			if err := visit(&last.Key, oldest); err != nil {
				return err
			}
		}
		if !ok {
			return nil
		}
		last.Set(in.walker.Key())
		oldest = in.walker.Version().Seq
	}
}

// shadowFinder finds the shadows of the file that an output writes, in the files of
// older runs.
type shadowFinder struct {
	older  []*run
	inputs map[uint64]*shadowList // what the inputs of a merge know, by number of the older file
	// unread are the older files that could not be read, by number: what is overwritten in
	// them is not recorded, and does not keep the file from being written.
	unread map[uint64]bool

	begun  bool
	first  item.KeyCopy // key of the file being written
	last   item.KeyCopy
	epk    partmap.EPK // of last
	oldest uint64      // sequence of the oldest version of last so far
	found  map[uint64]*shadowList
}

// newShadowFinder returns a finder for an output. inputs are the runs that a
// merge reads.
func newShadowFinder(older, inputs []*run) *shadowFinder {
	s := &shadowFinder{older: older, inputs: make(map[uint64]*shadowList), unread: make(map[uint64]bool)}
	for _, r := range older {
		for _, old := range r.files {
			var all *shadowList
			for _, in := range inputs {
				for _, f := range in.files {
					l := f.shadows.known(f, old)
					if l == nil {
						all = nil
						break
					}
					if all == nil {
						all = new(shadowList)
					}
					all = joinShadows(all, l)
				}
				if all == nil {
					break
				}
			}
			if all != nil {
				s.inputs[old.ref.Number] = all
			}
		}
	}
	return s
}

// note is called for each version that the output adds.
func (s *shadowFinder) note(k *item.Key, seq uint64) {
	if s == nil {
		return
	}
	if s.begun && item.Compare(k, &s.last.Key) == 0 {
		s.oldest = seq
		return
	}
	s.find()
	if !s.begun || !item.SamePartition(k, &s.last.Key) {
		s.epk = partmap.HashEncoded(k.PK)
	}
	s.last.Set(k)
	s.oldest = seq
	if !s.begun {
		s.begun = true
		s.first.Set(k)
		s.found = make(map[uint64]*shadowList)
	}
}

// find looks up the last key in the older files for which the inputs do not know the
// shadows.
func (s *shadowFinder) find() {
	if !s.begun {
		return
	}
	l := s.last.Lookup()
	for _, r := range s.older {
		f := r.find(&s.epk)
		if f == nil || s.inputs[f.ref.Number] != nil || s.unread[f.ref.Number] {
			continue
		}
		ordinal, versions, err := f.overwrittenBy(l)
		if err != nil {
			s.unread[f.ref.Number] = true
			continue
		}
		if versions > 0 {
			l := s.found[f.ref.Number]
			if l == nil {
				l = new(shadowList)
				s.found[f.ref.Number] = l
			}
			l.add(ordinal, versions, s.oldest)
		}
	}
}

// end returns what the file overwrites in each older file that could be read, and begins
// the next file. A nil finder returns nil.
func (s *shadowFinder) end() []segment.Shadows {
	if s == nil {
		return nil
	}
	s.find()
	s.begun = false
	var all []segment.Shadows
	done := make(map[uint64]bool)
	for _, r := range s.older {
		for _, f := range r.files {
			n := f.ref.Number
			if done[n] {
				continue
			}
			done[n] = true
			l := s.found[n]
			if in := s.inputs[n]; in != nil && len(in.ordinals) > 0 {
				part, err := s.within(in, f)
				if err != nil {
					s.unread[n] = true
				}
				l = &part
			}
			if s.unread[n] {
				continue
			}
			if l == nil {
				l = new(shadowList)
			}
			all = append(all, segment.Shadows{File: n, Ordinals: l.ordinals, Seqs: l.seqs})
		}
	}
	slices.SortFunc(all, func(a, b segment.Shadows) int { return cmp.Compare(a.File, b.File) })
	return all
}

// within returns the part of a list for the logical partitions of the file being
// written.
func (s *shadowFinder) within(l *shadowList, older *file) (shadowList, error) {
	c := older.Cursor(maxSequence)
	from, _ := limitsOf(&s.first.Key)
	lo, err := older.lower(c, from)
	if err != nil {
		return shadowList{}, err
	}
	_, to := limitsOf(&s.last.Key)
	hi, err := older.lower(c, to)
	return l.between(lo, hi), err
}

// carryShadows notes what newer sources of a partition overwrite in the files that an
// output has written, before these files replace its inputs. newer are the runs that are
// newer than the output.
func (t *tree) carryShadows(o *output, newer []*run) {
	if o.index.policy == nil {
		return
	}
	for _, r := range newer {
		for _, f := range r.files {
			f.shadows.carry(f, o.files, o.index.carried)
		}
	}
	v := t.version.Load()
	tables := []*frozenTable{{Table: v.active}}
	for i := range v.frozen {
		tables = append(tables, &v.frozen[i])
	}
	for _, table := range tables {
		for _, part := range t.env.memIndexes.made(table.Table) {
			part.shadows.carry(nil, o.files, o.index.carried)
		}
	}
}

// completeShadows finds what the files of an output overwrite in files that merges have
// written meanwhile. Shadows in files that cannot be read stay unknown.
func (t *tree) completeShadows(o *output) {
	if o.shadows == nil {
		return
	}
	v, release := t.hold()
	defer release()
	for _, f := range o.files {
		q := sourceSet{t: t, v: v}
		q.addFile(f, nil)
		for _, r := range v.runs {
			for _, old := range r.files {
				q.addFile(old, r)
			}
		}
		for _, old := range q.list[1:] {
			if !q.list[0].apart(old) && !o.shadows.unread[old.file.ref.Number] {
				_, _ = q.shadowsOn(0, old)
			}
		}
	}
}
