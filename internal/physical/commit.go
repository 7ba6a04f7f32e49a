package physical

import (
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/wal"
)

// Record is a record of the log whose versions are in the memtable.
type Record struct {
	Seq  uint64       // of its last version
	Pos  wal.Position // its end in the log
	Need wal.Position // the log must be synced up to there before the record is shown
}

// NoteLocked notes a record whose versions are in the memtable; seq is the last one's
// sequence, pos the record's end in the log.
func (p *Partition) NoteLocked(active *memtable.Table, seq uint64, pos wal.Position, sync bool) Record {
	p.Commit.Last, p.Commit.LastSeq = pos, seq
	if sync || p.Commit.allSynced {
		p.Commit.Synced = pos
	} else {
		p.Commit.Lazy = pos
	}
	if active.Bytes() >= p.Env.MemtableBytes {
		p.FreezeLocked()
		p.Env.Work.FlushSoon()
	} else if n := active.Reserved(); n != p.Commit.reserved {
		// Other processors write to the cache lines that Ripe reads: do not ask for
		// every record.
		if p.Commit.reserved = n; p.Env.Gate.Ripe() && p.Env.Work.MayFlush() {
			p.Env.Work.FlushSoon()
		}
	}
	return p.NewestLocked()
}

// NewestLocked returns the newest record of the partition.
func (p *Partition) NewestLocked() Record {
	return Record{Seq: p.Commit.LastSeq, Pos: p.Commit.Last, Need: p.Commit.Synced}
}

// Newest returns the newest record of the partition and the entry that it had applied then.
func (p *Partition) Newest() (Record, manifest.Applied) {
	p.Commit.Lock()
	defer p.Commit.Unlock()
	return p.NewestLocked(), p.Commit.Applied
}

// LastSeq returns the sequence of the newest write.
func (p *Partition) LastSeq() uint64 {
	p.Commit.Lock()
	defer p.Commit.Unlock()
	return p.Commit.LastSeq
}

// Show waits until the log has the record, and makes it visible.
func (p *Partition) Show(r Record) error {
	if err := p.Env.Await(r.Pos, r.Need); err != nil {
		return err
	}
	return p.Publish(r.Seq)
}

// Await waits until the log is written up to pos, and synced up to need. After an error
// that leaves open what is durable, the store has failed.
func (e *Env) Await(pos, need wal.Position) error {
	if need < pos {
		if err := e.Log.Wait(pos, false); err != nil {
			return e.Uncertain(err)
		}
	}
	if need > 0 {
		if err := e.Log.Wait(need, true); err != nil {
			return e.Uncertain(err)
		}
	}
	return nil
}

// MakeLogFile makes the log file that an append under a commit lock found missing.
func (e *Env) MakeLogFile() error { return e.Uncertain(e.Log.MakeFile()) }

// Publish makes everything up to seq visible, also in the partitions that replaced this
// one. After an error the store has failed, and there it stays invisible.
func (p *Partition) Publish(seq uint64) error {
	p.raise(seq)
	if h := p.heirs.Load(); h != nil {
		return h.publish(p.Env, seq)
	}
	return nil
}

func (p *Partition) raise(seq uint64) {
	for {
		old := p.Visible.Load()
		if old >= seq {
			return
		}
		if p.Visible.CompareAndSwap(old, seq) {
			p.Family.Followers.Signal()
			return
		}
	}
}

// Freeze gives the partition a new memtable. It returns false if the present one is empty,
// or the partition was dropped.
func (p *Partition) Freeze() bool {
	p.Commit.Lock()
	defer p.Commit.Unlock()
	return p.FreezeLocked()
}

// FreezeLocked is Freeze with the commit lock held.
func (p *Partition) FreezeLocked() bool {
	active := p.Version.Load().Active
	if active.Versions() == 0 || p.Dropped.Load() {
		return false
	}
	c := &p.Commit
	next := memtable.New(p.Env.Pool, p.Span, int(active.Items()), p.Env.Seed)
	frozen := lsm.Frozen{Table: active, Last: c.Last, Synced: c.Synced, LastSeq: c.LastSeq, Applied: c.Applied, Mixed: c.mixed}
	if !p.Env.Replaying {
		c.mixed = false
	}
	p.Env.FrozenBytes.Add(active.Reserved()) // first: its flush, which subtracts them, may begin and end before Swap returns
	p.Swap(func(v lsm.Version) lsm.Version {
		v.Active = next
		v.Frozen = append([]lsm.Frozen{frozen}, v.Frozen...)
		return v
	})
	return true
}
