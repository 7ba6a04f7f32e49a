package engine

import (
	"encoding/binary"
	"errors"

	"github.com/cleavestore/cleave/wal"
)

// swap is step 4 of a reshape, and its only pause. It fills in pointers and
// appends to the log's buffer; it waits for nothing, and takes as long for a
// large partition as for a small one. install of the parents is locked.
//
// At first a child shows what its parents show: with two parents, everything up to the
// higher of their visible sequences. For the other parent that may include writes that
// are not published there yet. It must not include a write that waits for its sync. Such
// a write can only lie below the higher visible sequence if a write that needs no sync
// raised that: syncParents prevents it.
func (r *reshape) swap() (err error) {
	db := r.db
	defer func() {
		if err != nil {
			r.db.discard(r.children, true) // the store has failed: the parents serve its readers
		}
	}()
	// Write the log's buffer now, so that nothing is left to write while the locks are
	// held. Where the disk is full it stays in the buffer: the children then wait for
	// room, as the parents did.
	if err = db.log.Wait(db.log.Appended(), false); err != nil && !errors.Is(err, wal.ErrStalled) {
		return db.uncertain(err)
	}
	if len(r.parents) > 1 {
		if err = r.syncParents(); err != nil {
			db.fail(err) // the manifest names the children: there is no way back
			return err
		}
	}
	r.lockParents()
	start := db.opts.clock()
	err = r.swapLocked()
	swapped := db.opts.clock()
	r.unlockParents()
	if err != nil {
		return err
	}
	db.times.pauses[r.plan.Kind].Record(swapped.Sub(start), 1)
	r.job.update(func(p *ReshapeProgress) { p.Pause, p.Swapped = swapped.Sub(start), swapped })
	return nil
}

func (r *reshape) lockParents() {
	for _, p := range r.parents {
		p.mu.Lock()
	}
}

func (r *reshape) unlockParents() {
	for _, p := range r.parents {
		p.mu.Unlock()
	}
}

// syncParents makes durable what the parents have written, and makes their later writes
// wait for a sync. Afterwards no write that waits for its sync lies below what is
// visible in another parent.
func (r *reshape) syncParents() error {
	var last wal.Position
	r.lockParents()
	for _, p := range r.parents {
		p.mu.allSynced = true
		last = max(last, p.mu.last)
	}
	r.unlockParents()
	return r.db.await(last, last)
}

// swapLocked lets the children take the place of the parents. The commit locks
// of the parents are held.
func (r *reshape) swapLocked() error {
	for _, p := range r.parents {
		if err := r.appendFence(p); err != nil {
			return r.db.uncertain(err) // the log has failed: nothing is written any more
		}
	}
	var newest struct {
		last, synced, lazy wal.Position
		seq                uint64
	}
	var left []*inheritance
	for _, p := range r.parents {
		newest.last, newest.synced = max(newest.last, p.mu.last), max(newest.synced, p.mu.synced)
		newest.lazy, newest.seq = max(newest.lazy, p.mu.lazy), max(newest.seq, p.mu.lastSeq)
		left = append(left, p.leaveTables())
	}
	several := len(r.parents) > 1
	if several {
		// A table is flushed, and so published, only when the records of all parents are
		// durable: a crash leaves a prefix of the writes of both.
		for _, in := range left {
			for i := range in.tables {
				in.tables[i].Last, in.tables[i].Synced = newest.last, newest.last
			}
		}
	}
	for _, child := range r.children {
		v := *child.Version.Load()
		v.Frozen = inheritedTables(child, left)
		child.Version.Store(&v)
		child.mu.last, child.mu.synced, child.mu.lazy = newest.last, newest.synced, newest.lazy
		child.mu.lastSeq = newest.seq
		if r.c.def.Replicated { // and so there is one parent
			child.mu.applied = r.parents[0].mu.applied
			child.mu.left = parentProgress{newest.seq, child.mu.applied}
		}
	}
	// A writer that publishes a sequence in a parent either sees the heirs and publishes
	// it there too, or has published before the parent's visible sequence is read below.
	for _, p := range r.parents {
		p.heirs.Store(&heirs{children: r.children, several: several, last: newest.last, synced: newest.synced})
	}
	for _, p := range r.parents {
		for _, child := range r.children {
			child.raise(p.Visible.Load())
		}
	}
	r.inheritMeters()
	r.c.routing.Store(r.routing)
	for _, p := range r.parents {
		p.endLocked()
	}
	return nil
}

// appendFence ends the stream of a parent with a record that names its heirs, if the log
// has room for it. Fences are only used for a check.
func (r *reshape) appendFence(p *partition) error {
	var ids []byte
	for _, child := range r.children {
		ids = binary.AppendUvarint(ids, uint64(child.ID))
	}
	_, pos, err := r.db.log.AppendNow(wal.Stream(p.ID), wal.TypeFence, 0, nil, ids)
	switch {
	case err == nil:
		p.mu.last = pos
	case err == wal.ErrNoFile || errors.Is(err, ErrDiskFull):
		return nil
	}
	return err
}
