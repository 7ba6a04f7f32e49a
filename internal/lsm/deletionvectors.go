package lsm

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/deletion"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
)

// The deletion vectors of a source, a memtable or a file, name the versions in older
// sources that it overwrites. A partition tombstone overwrites all older versions of its
// logical partition. Sources are immutable, so their vectors never change. They become
// known in three ways:
//
//   - a flush looks up its keys in the runs, and a compaction joins the vectors of its
//     inputs; both write the result with the file (package deletion);
//   - when a compaction replaces older files, the vectors that newer sources have for
//     them get the new ordinals, in memory;
//   - a vector that is still unknown, as after an open, is found by the first query,
//     which looks up each key.

// moved returns the list with the ordinals that the versions have in another file,
// without versions that this file does not have.
func moved(l *deletion.Vector, m *index.Remap) *deletion.Vector {
	to := new(deletion.Vector)
	part := l.Between(m.First, m.First+uint32(len(m.New)))
	for i, o := range part.Ordinals {
		if o = m.New[o-m.First]; o != index.Dropped {
			to.Add(o, 1, part.Seqs[i])
		}
	}
	return to
}

// vectorCache holds what a source overwrites in older ones.
type vectorCache struct {
	mu     sync.Mutex
	loaded bool                     // lists has what the file stores
	lists  map[any]*deletion.Vector // by identity of the older source
}

// identity is equal for sources with the same versions at the same ordinals: the
// number of a file, or the part of a memtable.
func (s *Source) identity() any {
	if s.file != nil {
		return s.file.Ref.Number
	}
	return s.part
}

func (s *Source) cache() *vectorCache {
	if s.file != nil {
		return &s.file.VectorCache
	}
	return &s.part.vectors
}

// load reads the deletion vectors that a file stores. mu is locked.
func (c *vectorCache) load(f *File) error {
	if c.loaded || f == nil {
		return nil
	}
	all, _, err := f.DeletionVectors()
	if errors.Is(err, fault.ErrCorrupt) {
		// The vectors are then found by lookups, and the file is written anew.
		f.BadIndex.Store(true)
		all, err = nil, nil
	}
	if err != nil {
		return f.Renamed(err)
	}
	c.keep(all)
	return nil
}

// keep notes the deletion vectors that a file stores.
func (c *vectorCache) keep(all []deletion.FileVector) {
	for _, s := range all {
		c.set(s.File, &s.Vector)
	}
	c.loaded = true
}

func (c *vectorCache) set(older any, l *deletion.Vector) {
	if c.lists == nil {
		c.lists = make(map[any]*deletion.Vector)
	}
	c.lists[older] = l
}

// Known returns what a file overwrites in an older one, nil if that is not
// Known.
func (c *vectorCache) Known(f, older *File) *deletion.Vector {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.load(f) != nil {
		return nil // it can be found by lookups
	}
	if l := c.lists[older.Ref.Number]; l != nil || !filesApart(f, older) {
		return l
	}
	return new(deletion.Vector)
}

// take takes over what another reference to the same file knows. With join, the bounds
// of this reference have grown by those of the other: only what both know stays known.
func (c *vectorCache) take(from *vectorCache, join bool) {
	if from.mu.TryLock() {
		defer from.mu.Unlock()
	} else {
		from = new(vectorCache) // a query holds the lock while it looks up keys, and may hold it for long
	}
	if !join {
		c.loaded, c.lists = from.loaded, maps.Clone(from.lists)
		return
	}
	for older, l := range c.lists {
		if other := from.lists[older]; other != nil {
			c.lists[older] = deletion.Join(l, other)
		} else {
			delete(c.lists, older)
			c.loaded = false
		}
	}
}

// carry notes what a source overwrites in files that replace others, before they do. f
// is the source, nil for a part of a memtable.
func (c *vectorCache) carry(f *File, written []*File, taken []*takenIndex) {
	if !c.mu.TryLock() {
		return // a query holds the lock while it looks up keys
	}
	defer c.mu.Unlock()
	if c.load(f) != nil {
		return
	}
	for _, w := range written {
		var all *deletion.Vector // nil: it is not known
		for _, t := range taken {
			if t.number != w.Ref.Number {
				continue
			}
			l := c.lists[t.file.Ref.Number]
			if l == nil && (f == nil || !filesApart(f, t.file)) {
				all = nil
				break
			}
			all = deletion.Join(cmp.Or(all, new(deletion.Vector)), moved(cmp.Or(l, new(deletion.Vector)), &t.remap))
		}
		if all != nil {
			c.set(w.Ref.Number, all)
		}
	}
}

func (q *Sources) addFile(f *File, r *Run) *Source {
	s := q.add()
	s.file, s.run = f, r
	return s
}

// errAllFailed ends a search in which no older source is left that can be read.
var errAllFailed = errors.New("no older source can be read")

// vectorOn returns what source i of the set overwrites in an older one. One pass over
// its keys finds its vectors for all older sources. For sources that cannot be read
// nothing is recorded.
func (q *Sources) vectorOn(i int, older *Source) (*deletion.Vector, error) {
	s := q.List[i]
	cache := s.cache()
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if err := cache.load(s.file); err != nil {
		return nil, err
	}
	if l := cache.lists[older.identity()]; l != nil {
		return l, nil
	}
	// Lists of files and parts that have gone are dropped, but not those of files with other keys than the set.
	lists := make(map[any]*deletion.Vector)
	for f := range q.v.Files() {
		if l := cache.lists[f.Ref.Number]; l != nil {
			lists[f.Ref.Number] = l
		}
	}
	type target struct {
		*Source
		list *deletion.Vector
	}
	var targets []target
	failed := make(map[any]error)
	for _, o := range q.List[i+1:] {
		// Two references to one file share a list. The first of them that is not apart
		// is the target.
		id := o.identity()
		known := cache.lists[id]
		l := cmp.Or(known, lists[id], new(deletion.Vector))
		lists[id] = l
		if known == nil && !s.apart(o) && !slices.ContainsFunc(targets, func(t target) bool { return t.list == l }) {
			targets = append(targets, target{o, l})
		}
	}
	if len(targets) > 0 {
		err := s.eachKey(func(k *item.Key, oldest uint64) error {
			if err := Ended(q.Ctx); err != nil {
				return err
			}
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
				t.list.Add(ordinal, versions, oldest)
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
func (s *Source) apart(o *Source) bool {
	if s.file == nil || o.file == nil {
		return false
	}
	return s.run == o.run || filesApart(s.file, o.file)
}

// filesApart is apart for two files of a partition. Two references to one file are apart
// too: neither overwrites anything in the other.
func filesApart(a, b *File) bool {
	if a.Ref.Number == b.Ref.Number {
		return true
	}
	p, q := a.Properties(), b.Properties()
	return item.ComparePartition(&p.Max, &q.Min) < 0 || item.ComparePartition(&q.Max, &p.Min) < 0
}

var errFalling = errors.New("offsets: ordinals fall where keys rise")

// OverwrittenBy returns the ordinals of the versions that a newer source with a version
// of the key overwrites: those of the key, or, for a partition tombstone, of its logical
// partition. They may lie beyond the bounds of the reference.
func (f *File) OverwrittenBy(l *item.Lookup) (first, versions uint32, err error) {
	k := l.Key
	if k.OfPartition() {
		from, to := LimitsOf(k)
		c := f.Cursor(MaxSequence)
		if first, err = f.Lower(c, from); err != nil {
			return 0, 0, err
		}
		var hi uint32
		hi, err = f.Lower(c, to)
		if err == nil && hi < first {
			err = f.Met(f.Corrupt(errFalling))
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
	return first, versions, f.Met(err)
}

// mayOverwrite returns for which keys OverwrittenBy may find versions: bit i is of keys[i].
func (f *File) mayOverwrite(keys []item.Lookup) uint64 {
	may := f.MayHave(keys)
	for i := range keys {
		if keys[i].Key.OfPartition() {
			may |= 1 << i
		}
	}
	return may
}

// eachKey calls visit with the keys of the source and the sequence of the oldest
// version of each.
func (s *Source) eachKey(visit func(k *item.Key, oldest uint64) error) error {
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
	in := runWalker{files: []*File{s.file}}
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

// carryVectors notes what newer sources of a partition overwrite in the files that an
// output has written, before these files replace its inputs. newer are the runs that are
// newer than the output.
func (t *Tree) carryVectors(o *output, newer []*Run) {
	if o.index.policy == nil {
		return
	}
	for _, r := range newer {
		for _, f := range r.Files {
			f.VectorCache.carry(f, o.files, o.index.carried)
		}
	}
	v := t.Version.Load()
	tables := []*Frozen{{Table: v.Active}}
	for i := range v.Frozen {
		tables = append(tables, &v.Frozen[i])
	}
	for _, table := range tables {
		for _, part := range t.Env.MemIndexes.Made(table.Table) {
			part.vectors.carry(nil, o.files, o.index.carried)
		}
	}
}

// completeVectors finds what the files of an output overwrite in files that compactions have
// written meanwhile. Vectors for files that cannot be read stay unknown.
func (t *Tree) completeVectors(o *output) {
	if o.vectors == nil {
		return
	}
	v, release := t.PinVersion()
	defer release()
	for _, f := range o.files {
		q := Sources{t: t, v: v}
		q.addFile(f, nil)
		for _, r := range v.Runs {
			for _, old := range r.Files {
				q.addFile(old, r)
			}
		}
		for _, old := range q.List[1:] {
			if !q.List[0].apart(old) && !o.vectors.unread[old.file.Ref.Number] {
				_, _ = q.vectorOn(0, old)
			}
		}
	}
}
