package engine

import (
	"context"
	"path"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// Until it has flushed them, a child inherits from its parents:
//
//   - their memtables, as frozen ones. The child sees them within its bounds and
//     shares them with the other child.
//   - their streams in the log, from the sequence up to which the parents had
//     flushed. The log keeps the records that the child needs, and replay puts them
//     into the child.
//
// For each inherited stream, the child's manifest notes how far the child has
// flushed it. The inheritance has ended when the manifest names no stream.

// heirs are the partitions that took the place of another one.
type heirs struct {
	children []*partition
	// With several parents, the writes of all of them become visible in the children
	// together: when the log is written up to last and synced up to synced.
	several      bool
	last, synced wal.Position
}

// publish makes the writes of a parent up to seq visible in the children too.
func (h *heirs) publish(db *DB, seq uint64) error {
	if h.several {
		if err := db.await(h.last, h.synced); err != nil {
			return err
		}
	}
	for _, c := range h.children {
		if err := c.publish(seq); err != nil {
			return err
		}
	}
	return nil
}

// inherited returns the streams that the partition inherits. The slice is
// never changed.
func (p *partition) inherited() []manifest.Inherited {
	if list := p.inherits.Load(); list != nil {
		return *list
	}
	return nil
}

// flushedOf returns the sequence up to which the partition has flushed a stream.
func (p *partition) flushedOf(s wal.Stream) uint64 {
	for _, in := range p.inherited() {
		if wal.Stream(in.Stream) == s {
			return in.FlushedSeq
		}
	}
	return p.install.flushedSeq.Load()
}

// flushed returns how far the partition has flushed its own stream, and those that
// it inherits, once mem is in files. mem is its oldest frozen memtable.
func (p *partition) flushed(mem *frozenTable) (seq uint64, inherits []manifest.Inherited) {
	// The partition's own records come after all inherited ones.
	seq = max(p.install.flushedSeq.Load(), mem.lastSeq)
	for _, in := range p.inherited() {
		switch {
		case mem.mixed:
			continue // replay put the whole stream into this memtable and earlier ones
		case mem.from == wal.Stream(in.Stream):
			if !p.holdsOf(mem) {
				continue
			}
			in.FlushedSeq = mem.lastSeq
		}
		inherits = append(inherits, in)
	}
	return seq, inherits
}

// holdsOf says whether another frozen memtable comes from the same parent as mem.
func (p *partition) holdsOf(mem *frozenTable) bool {
	frozen := p.version.Load().frozen
	for i := range frozen {
		if frozen[i].Table != mem.Table && frozen[i].from == mem.from {
			return true
		}
	}
	return false
}

// holdsInherited says whether some frozen memtable holds records of inherited
// streams.
func (v *version) holdsInherited() bool {
	for i := range v.frozen {
		if v.frozen[i].from != 0 || v.frozen[i].mixed {
			return true
		}
	}
	return false
}

// endInheritance flushes the inherited memtables of a partition, until it inherits
// nothing any more.
func (db *DB) endInheritance(ctx context.Context, p *partition) error {
	if p.lost != nil {
		return nil // what it inherits is not known
	}
	p.mu.Lock()
	if p.mu.mixed {
		if !p.freezeLocked() {
			p.mu.left = parentProgress{p.mu.lastSeq, p.mu.applied}
		}
		p.mu.mixed = false // at most an empty memtable
	}
	p.mu.Unlock()
	for len(p.inherited()) > 0 && !p.dropped.Load() {
		if !p.version.Load().holdsInherited() {
			return p.forgetParents()
		}
		if err := db.flushAlone(ctx, p); err != nil {
			return err
		}
		db.work.reclaimIfManual()
	}
	return nil
}

// forgetParents ends the inheritance of a partition that holds nothing of its
// parents in memory.
func (p *partition) forgetParents() error {
	p.install.Lock()
	defer p.install.Unlock()
	if p.dropped.Load() || len(p.inherited()) == 0 {
		return nil
	}
	upTo, at := p.install.flushedSeq.Load(), p.install.applied
	if p.c.def.Replicated {
		// Entries that wrote nothing have left no memtable.
		p.mu.Lock()
		if left := p.mu.left; left.seq > upTo {
			upTo, at = left.seq, left.applied
		}
		p.mu.Unlock()
	}
	return p.storeFiles(p.version.Load().runs, upTo, at, nil)
}

// streamOwners maps the streams of the log to the partitions that need them.
type streamOwners map[wal.Stream][]*partition

func (db *DB) streamOwners() streamOwners {
	owners := make(streamOwners)
	for _, p := range db.partitions() {
		owners[wal.Stream(p.id)] = append(owners[wal.Stream(p.id)], p)
		for _, in := range p.inherited() {
			owners[wal.Stream(in.Stream)] = append(owners[wal.Stream(in.Stream)], p)
		}
	}
	return owners
}

// done returns a sequence: the records of a stream in a log file that are at or
// below it are no longer needed.
func (o streamOwners) done(s wal.Stream, file uint64) uint64 {
	least := uint64(maxSequence)
	for _, p := range o[s] {
		if wal.Stream(p.id) == s {
			least = min(least, p.needs(file))
			continue
		}
		for _, in := range p.inherited() {
			if wal.Stream(in.Stream) == s {
				least = min(least, in.FlushedSeq)
			}
		}
	}
	return least
}

// inheritedTables returns the memtables of the parents as frozen ones of a
// child, newest first. Each is counted once more in its refs.
func inheritedTables(child *partition, left []*inheritance) []frozenTable {
	var views []frozenTable
	for _, in := range left {
		if !in.from.rng.Overlaps(child.rng) {
			continue
		}
		clip := newBounds(child.rng, child.c.levels())
		if child.rng.Min.Compare(&in.from.rng.Min) <= 0 && child.rng.Max.Compare(&in.from.rng.Max) >= 0 {
			clip = nil
		}
		for _, t := range in.tables {
			t.refs.Add(1)
			t.clip = clip
			views = append(views, t)
		}
	}
	return views
}

// inheritance is the memtables that a parent leaves to its children.
type inheritance struct {
	from   *partition
	tables []frozenTable // newest first
}

// leaveTables returns the memtables of a parent that takes no more writes, as the
// children inherit them. The parent keeps a reference to each. The commit lock is
// held.
func (p *partition) leaveTables() *inheritance {
	p.freezeLocked()
	in := &inheritance{from: p, tables: slices.Clone(p.version.Load().frozen)}
	for i := range in.tables {
		t := &in.tables[i]
		t.from, t.refs = wal.Stream(p.id), new(atomic.Int32)
		t.refs.Add(1)
	}
	p.swap(func(v version) version {
		v.frozen = slices.Clone(in.tables)
		return v
	})
	return in
}

// inheritRuns makes the runs of a child out of those of its parents, within
// its bounds. Runs of several parents are paired from the oldest on: their keys
// are disjoint. The files are acquired; releaseRuns gives them back.
func (child *partition) inheritRuns(parents []*partition) (runs []*run, err error) {
	depth := 0
	for _, p := range parents {
		depth = max(depth, len(p.version.Load().runs))
	}
	defer func() {
		if err != nil {
			releaseRuns(runs)
			runs = nil
		}
	}()
	for age := depth; age > 0; age-- { // the oldest run has age 1
		out := new(run)
		runs = append(runs, out)
		for _, p := range parents {
			of := p.version.Load().runs
			if len(of) < age {
				continue
			}
			if err := out.inherit(of[len(of)-age], child); err != nil {
				return runs, err
			}
		}
		if len(out.files) == 0 {
			runs = runs[:len(runs)-1]
		}
	}
	return runs, nil
}

// inherit adds the files of a parent's run, within the bounds of a child.
func (r *run) inherit(of *run, child *partition) error {
	items := of.items()
	before := r.items()
	for _, f := range of.files {
		rng := partmap.Range{Min: f.min, Max: f.max}
		if rng.Min.Compare(&child.rng.Min) < 0 {
			rng.Min = child.rng.Min
		}
		if rng.Max.Compare(&child.rng.Max) > 0 {
			rng.Max = child.rng.Max
		}
		if rng.Empty() {
			continue
		}
		next := &file{Reader: f.Reader, ref: f.ref, name: path.Join(child.dir, manifest.SegmentName(f.ref.Number))}
		next.path = child.db.fs.Path(next.name)
		next.shadows.take(&f.shadows, false)
		next.inheritDamage(f)
		next.setBounds(rng, child.c.levels())
		if next.holdsNothing() {
			continue
		}
		if n := len(r.files); n > 0 && r.files[n-1].ref.Number == f.ref.Number && r.files[n-1].max.Compare(&rng.Min) == 0 {
			// Two adjacent references to one file, of the same age, are joined.
			last := r.files[n-1]
			last.setBounds(partmap.Range{Min: last.min, Max: rng.Max}, child.c.levels())
			last.shadows.take(&next.shadows, true)
			next = last
		} else {
			next.Acquire()
			r.files = append(r.files, next)
		}
		if err := next.estimate(); err != nil {
			return err
		}
	}
	if items > 0 {
		share := float64(r.items()-before) / float64(items)
		r.shadowed += int64(float64(of.shadowed) * share)
		r.expiring.join(of.expiring, share)
	}
	r.heldBy, r.keptAbove = r.heldBy.join(of.heldBy), max(r.keptAbove, of.keptAbove)
	return nil
}

func releaseRuns(runs []*run) {
	for _, r := range runs {
		for _, f := range r.files {
			f.Release()
		}
	}
}

// walk returns a walker for a merge over the file from its lower bound on, or
// a little before it.
func (f *file) walk() *segment.Walker {
	if f.clip == nil {
		return f.WalkKeys()
	}
	return f.WalkKeysFrom(f.clip.lo.EPK)
}

// advance moves the walker to the next version within the bounds.
func (r *runInput) advance() bool {
	for r.walker.Next() {
		clip := r.file.clip
		if clip == nil || clip.holds(r.walker.Key()) {
			return true
		}
		if clip.hi.Hash < r.walker.Key().Hash {
			return false // far behind the upper bound
		}
	}
	return false
}
