package physical

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/wal"
)

// Succession is the partitions that children replace, and the children. They are of one
// container and cover the same part of the key space, each in its order.
type Succession struct {
	Env               *Env
	Parents, Children []*Partition
}

// Lock takes the commit locks of the parents.
func (s *Succession) Lock() {
	for _, p := range s.Parents {
		p.Commit.Lock()
	}
}

// Unlock releases the commit locks of the parents.
func (s *Succession) Unlock() {
	for _, p := range s.Parents {
		p.Commit.Unlock()
	}
}

// SyncParents makes durable what the parents have written, and makes their later writes
// wait for a sync. Afterwards no write that waits for its sync lies below what is visible
// in another parent.
func (s *Succession) SyncParents() error {
	var last wal.Position
	s.Lock()
	for _, p := range s.Parents {
		p.Commit.allSynced = true
		last = max(last, p.Commit.Last)
	}
	s.Unlock()
	return s.Env.Await(last, last)
}

// TakeOverLocked lets the children take the place of the parents: fences end the parents'
// streams, and the children get the parents' memtables and visible sequences. It fills in
// pointers and appends to the log's buffer; it waits for nothing, and takes as long for
// large partitions as for small ones. The commit locks of the parents are held. After an
// error the store has failed, and the parents stay.
//
// At first a child shows what its parents show: with two parents, everything up to the
// higher of their visible sequences. For the other parent that may include writes that
// are not published there yet. It must not include a write that waits for its sync. Such
// a write can only lie below the higher visible sequence if a write that needs no sync
// raised that: SyncParents, which is called before, prevents it.
func (s *Succession) TakeOverLocked() error {
	if err := s.FenceLocked(); err != nil {
		return s.Env.Uncertain(err) // the log has failed: nothing is written any more
	}
	var newest struct {
		last, synced, lazy wal.Position
		seq                uint64
	}
	var left []*inheritance
	for _, p := range s.Parents {
		newest.last, newest.synced = max(newest.last, p.Commit.Last), max(newest.synced, p.Commit.Synced)
		newest.lazy, newest.seq = max(newest.lazy, p.Commit.Lazy), max(newest.seq, p.Commit.LastSeq)
		left = append(left, p.leaveTablesLocked())
	}
	several := len(s.Parents) > 1
	if several {
		// A table is flushed, and so published, only when the records of all parents are
		// durable: a crash leaves a prefix of the writes of both.
		for _, in := range left {
			for i := range in.tables {
				in.tables[i].Last, in.tables[i].Synced = newest.last, newest.last
			}
		}
	}
	for _, child := range s.Children {
		v := *child.Version.Load()
		v.Frozen = inheritedTables(child, left)
		child.Version.Store(&v)
		c := &child.Commit
		c.Last, c.Synced, c.Lazy, c.LastSeq = newest.last, newest.synced, newest.lazy, newest.seq
		if child.Family.Replicated { // and so there is one parent
			child.ReachLocked(s.Parents[0].Commit.Applied)
			c.left = progress{newest.seq, c.Applied}
		}
	}
	// A writer that publishes a sequence in a parent either sees the heirs and publishes
	// it there too, or has published before the parent's visible sequence is read below.
	for _, p := range s.Parents {
		p.heirs.Store(&heirs{children: s.Children, several: several, last: newest.last, synced: newest.synced})
	}
	for _, p := range s.Parents {
		for _, child := range s.Children {
			child.raise(p.Visible.Load())
		}
	}
	return nil
}

// FenceLocked ends the streams of the parents, each with a record that names the children,
// if the log has room for it. Fences are only used for a check.
func (s *Succession) FenceLocked() error {
	var ids []byte
	for _, child := range s.Children {
		ids = binary.AppendUvarint(ids, uint64(child.ID))
	}
	for _, p := range s.Parents {
		_, pos, err := s.Env.Log.AppendNow(wal.Stream(p.ID), wal.TypeFence, 0, nil, ids)
		switch {
		case err == nil:
			p.Commit.Last = pos
		case err != wal.ErrNoFile && !errors.Is(err, fault.ErrDiskFull):
			return err
		}
	}
	return nil
}

// heirs are the partitions that took the place of another one.
type heirs struct {
	children []*Partition
	// With several parents, the writes of all of them become visible in the children
	// together: when the log is written up to last and synced up to synced.
	several      bool
	last, synced wal.Position
}

// publish makes the writes of a parent up to seq visible in the children too.
func (h *heirs) publish(env *Env, seq uint64) error {
	if h.several {
		if err := env.Await(h.last, h.synced); err != nil {
			return err
		}
	}
	for _, c := range h.children {
		if err := c.Publish(seq); err != nil {
			return err
		}
	}
	return nil
}

// inheritance is the memtables that a parent leaves to its children.
type inheritance struct {
	from   *Partition
	tables []lsm.Frozen // newest first
}

// leaveTablesLocked returns the memtables of a parent that takes no more writes, as the
// children inherit them. The parent keeps a reference to each.
func (p *Partition) leaveTablesLocked() *inheritance {
	p.FreezeLocked()
	in := &inheritance{from: p, tables: slices.Clone(p.Version.Load().Frozen)}
	if c := &p.Commit; len(in.tables) > 0 && c.LastSeq > in.tables[0].LastSeq {
		// The newest entries wrote nothing: they count as flushed with what they follow.
		t := &in.tables[0]
		t.Last, t.Synced, t.LastSeq, t.Applied = c.Last, c.Synced, c.LastSeq, c.Applied
	}
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

// inheritedTables returns the memtables of the parents as frozen ones of a child, newest
// first. Each is counted once more in its refs.
func inheritedTables(child *Partition, left []*inheritance) []lsm.Frozen {
	var views []lsm.Frozen
	for _, in := range left {
		if !in.from.Range.Overlaps(child.Range) {
			continue
		}
		clip := keybounds.New(child.Range, child.Family.Levels)
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
