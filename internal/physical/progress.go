package physical

import (
	"context"

	"github.com/cleavestore/cleave/internal/manifest"
)

// progress is the newest sequence and entry of a partition's parents when the partition
// took over.
type progress struct {
	seq uint64
	manifest.Applied
}

// sortMixed ends the memtable in which replay has mixed records of several streams.
func (p *Partition) sortMixed() {
	p.Commit.Lock()
	defer p.Commit.Unlock()
	if p.Commit.mixed {
		if !p.FreezeLocked() {
			p.Commit.left = progress{p.Commit.LastSeq, p.Commit.Applied}
		}
		p.Commit.mixed = false // at most an empty memtable
	}
}

// EndInheritance flushes the inherited memtables of a partition, until it inherits nothing
// any more.
func (p *Partition) EndInheritance(ctx context.Context) error {
	if p.Lost != nil {
		return nil // what it inherits is not known
	}
	p.sortMixed()
	for len(p.Inherited()) > 0 && !p.Dropped.Load() {
		if !p.Version.Load().HoldsInherited() {
			return p.forgetParents()
		}
		if err := p.FlushAlone(ctx); err != nil {
			return err
		}
		p.Env.Reclaim.NowIfManual()
	}
	return nil
}

// forgetParents ends the inheritance of a partition that holds nothing of its parents in
// memory.
func (p *Partition) forgetParents() error {
	p.Install.Lock()
	defer p.Install.Unlock()
	if p.Dropped.Load() || len(p.Inherited()) == 0 {
		return nil
	}
	upTo, at := p.Install.FlushedSeq.Load(), p.Install.Applied
	if p.Family.Replicated {
		// Entries that wrote nothing have left no memtable.
		p.Commit.Lock()
		if left := p.Commit.left; left.seq > upTo {
			upTo, at = left.seq, left.Applied
		}
		p.Commit.Unlock()
	}
	return p.StoreFiles(p.Version.Load().Runs, upTo, at, nil)
}

// FlushEntries makes durable what the partition of a replicated container has applied, in
// files as far as it can be, and returns the newest entry that is. No other partition is
// flushed. An entry that other entries follow at once may be durable in the log only.
func (p *Partition) FlushEntries(ctx context.Context) (uint64, error) {
	newest, at := p.Newest()
	p.Freeze()
	if err := p.FlushFrozen(ctx); err != nil {
		return 0, err
	}
	if err := p.noteEntries(); err != nil {
		return 0, err
	}
	if flushed := p.flushedEntry(); flushed >= at.Index {
		return flushed, nil
	}
	return at.Index, p.Env.Await(newest.Pos, newest.Pos)
}

// DurableEntry returns the newest entry that is durable. It writes and syncs nothing.
func (p *Partition) DurableEntry() uint64 {
	newest, at := p.Newest()
	if p.Env.Log == nil || p.Env.Log.Synced() >= newest.Pos {
		return at.Index
	}
	return p.flushedEntry()
}

func (p *Partition) flushedEntry() uint64 {
	p.Install.Lock()
	defer p.Install.Unlock()
	return p.Install.Applied.Index
}

// noteEntries stores the newest entry in the manifest of a partition that holds nothing in
// memory. An entry that wrote nothing leaves no memtable, so no flush stores it.
func (p *Partition) noteEntries() error {
	p.Install.Lock()
	defer p.Install.Unlock()
	p.Commit.Lock()
	v := p.Version.Load()
	empty := v.Active.Versions() == 0 && len(v.Frozen) == 0 && !p.Dropped.Load()
	last, at := p.Commit.LastSeq, p.Commit.Applied
	p.Commit.Unlock()
	if !empty || last <= p.Install.FlushedSeq.Load() || len(p.Inherited()) > 0 {
		return nil
	}
	return p.StoreFiles(v.Runs, last, at, nil)
}
