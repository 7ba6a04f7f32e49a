package engine

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/lsm"
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

// endInheritance flushes the inherited memtables of a partition, until it inherits
// nothing any more.
func (db *DB) endInheritance(ctx context.Context, p *partition) error {
	if p.Lost != nil {
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
	for len(p.Inherited()) > 0 && !p.Dropped.Load() {
		if !p.Version.Load().HoldsInherited() {
			return p.forgetParents()
		}
		if err := db.flushAlone(ctx, p); err != nil {
			return err
		}
		db.env.Reclaim.NowIfManual()
	}
	return nil
}

// forgetParents ends the inheritance of a partition that holds nothing of its
// parents in memory.
func (p *partition) forgetParents() error {
	p.Install.Lock()
	defer p.Install.Unlock()
	if p.Dropped.Load() || len(p.Inherited()) == 0 {
		return nil
	}
	upTo, at := p.Install.FlushedSeq.Load(), p.Install.Applied
	if p.c.def.Replicated {
		// Entries that wrote nothing have left no memtable.
		p.mu.Lock()
		if left := p.mu.left; left.seq > upTo {
			upTo, at = left.seq, left.Applied
		}
		p.mu.Unlock()
	}
	return p.StoreFiles(p.Version.Load().Runs, upTo, at, nil)
}

// streamOwners maps the streams of the log to the partitions that need them.
type streamOwners map[wal.Stream][]*partition

func (db *DB) streamOwners() streamOwners {
	owners := make(streamOwners)
	for _, p := range db.partitions() {
		owners[wal.Stream(p.ID)] = append(owners[wal.Stream(p.ID)], p)
		for _, in := range p.Inherited() {
			owners[wal.Stream(in.Stream)] = append(owners[wal.Stream(in.Stream)], p)
		}
	}
	return owners
}

// done returns a sequence: the records of a stream in a log file that are at or
// below it are no longer needed.
func (o streamOwners) done(s wal.Stream, file uint64) uint64 {
	least := uint64(lsm.MaxSequence)
	for _, p := range o[s] {
		if wal.Stream(p.ID) == s {
			least = min(least, p.needs(file))
			continue
		}
		for _, in := range p.Inherited() {
			if wal.Stream(in.Stream) == s {
				least = min(least, in.FlushedSeq)
			}
		}
	}
	return least
}

// inheritedTables returns the memtables of the parents as frozen ones of a
// child, newest first. Each is counted once more in its refs.
func inheritedTables(child *partition, left []*inheritance) []lsm.Frozen {
	var views []lsm.Frozen
	for _, in := range left {
		if !in.from.Range.Overlaps(child.Range) {
			continue
		}
		clip := lsm.NewBounds(child.Range, child.c.levels())
		if child.Range.Min.Compare(&in.from.Range.Min) <= 0 && child.Range.Max.Compare(&in.from.Range.Max) >= 0 {
			clip = nil
		}
		for _, t := range in.tables {
			t.Sharers.Add(1)
			t.Clip = clip
			views = append(views, t)
		}
	}
	return views
}

// inheritance is the memtables that a parent leaves to its children.
type inheritance struct {
	from   *partition
	tables []lsm.Frozen // newest first
}

// leaveTables returns the memtables of a parent that takes no more writes, as the
// children inherit them. The parent keeps a reference to each. The commit lock is
// held.
func (p *partition) leaveTables() *inheritance {
	p.freezeLocked()
	in := &inheritance{from: p, tables: slices.Clone(p.Version.Load().Frozen)}
	for i := range in.tables {
		t := &in.tables[i]
		t.From, t.Sharers = wal.Stream(p.ID), new(atomic.Int32)
		t.Sharers.Add(1)
	}
	p.Swap(func(v lsm.Version) lsm.Version {
		v.Frozen = slices.Clone(in.tables)
		return v
	})
	return in
}
