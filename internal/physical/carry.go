package physical

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/wal"
)

// Needs returns the sequence up to which a partition's records in a log file are not
// needed; later records are.
func (p *Partition) Needs(file uint64) uint64 {
	flushed := p.Install.FlushedSeq.Load()
	if c := p.carried.Load(); c != nil && file < c.file {
		return max(flushed, c.seq)
	}
	return flushed
}

// carried says that a partition's records up to seq were written again, in log file
// number file or later ones.
type carried struct {
	file uint64
	seq  uint64
}

// Carry appends the contents of the active memtable to the log again. durable is to be
// called when the log is durable up to end: then the partition needs the older records no
// more. It returns lsm.ErrMoved if a memtable is frozen, or the partition was dropped.
func (p *Partition) Carry() (end wal.Position, durable func(), err error) {
	var c carrying
	err = p.appendCarried(&c)
	for err == wal.ErrNoFile { // this ends, as each new file takes at least one record
		if err = p.Env.MakeLogFile(); err == nil {
			err = p.appendCarried(&c)
		}
	}
	if err != nil {
		return 0, nil, p.Env.Uncertain(err)
	}
	return c.end, func() { p.carried.Store(&c.mark) }, nil
}

// carrying says how far a partition has been carried.
type carrying struct {
	after  uint64 // versions up to this sequence were appended, as far as they were needed
	marked bool   // the mark with the applied entry was appended
	end    wal.Position
	mark   carried
}

// appendCarried appends the versions of the active memtable in the order of sequences,
// and goes on where an earlier call stopped. Of each item it appends the newest version,
// unless that was deleted with its logical partition; if the container keeps changes, it
// appends all versions. No memtable may be frozen: its versions are at or below the mark,
// and would not be carried.
func (p *Partition) appendCarried(c *carrying) error {
	p.Commit.Lock()
	defer p.Commit.Unlock()
	guard := p.Env.Epoch.Enter()
	defer guard.Leave()
	c.mark.seq = p.Commit.LastSeq
	v := p.Version.Load()
	if len(v.Frozen) > 0 || p.Dropped.Load() {
		return lsm.ErrMoved
	}
	batch := logrecord.CarriedBatch{Emit: func(highest uint64, payload []byte) error {
		pos, at, err := p.Env.Log.AppendCarriedNow(wal.Stream(p.ID), highest, payload)
		if err != nil {
			return err
		}
		if c.mark.file == 0 {
			c.mark.file = at.File
		}
		p.Env.Carried.Add(int64(len(payload)))
		c.end = pos
		return nil
	}}
	if p.Commit.Applied.Index != 0 && !c.marked {
		if err := batch.Mark(p.Commit.LastSeq, p.Commit.Applied); err != nil {
			return err
		}
		c.marked = true
	}
	emit := batch.Emit
	batch.Emit = func(highest uint64, payload []byte) error {
		err := emit(highest, payload)
		if err == nil {
			c.after = highest
		}
		return err
	}
	var k item.Key
	var ver, newest item.Version
	for _, ref := range v.Active.InOrder(c.after, lsm.MaxSequence) {
		v.Active.Borrow(ref.Ref, &k, &ver)
		if !p.Family.KeepsChanges && lsm.GetFromTable(v.Active, k.Lookup(), lsm.MaxSequence, &newest) && newest.Seq != ver.Seq {
			continue
		}
		if err := batch.Add(&k, &ver); err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return err
	}
	p.Commit.Last = max(p.Commit.Last, c.end)
	p.Commit.Synced = max(p.Commit.Synced, c.end)
	return nil
}
