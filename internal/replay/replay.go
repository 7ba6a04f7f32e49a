// Package replay puts the records of the log into memtables when a store is opened.
//
// A record belongs to the stream of a partition. Partitions that replaced that one have
// inherited the stream, and each takes the operations within its range. Operations that a
// partition already has, in files or from another record, are left out by their sequence.
//
// Invariants:
//
//  1. No record behind the fence of its stream, none of a partition that was never made,
//     and no operation outside of the ranges that may have it is taken: these are damage.
//  2. A memtable never has an older version of a key than the files below it.
//  3. A partition that is set aside takes nothing: its records stay in the log.
//
// A Replay serves one goroutine, before any reader. There are no locks.
package replay

import (
	"fmt"
	"path"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// Partition is a physical partition that takes records.
type Partition interface {
	// Data returns its memtables and files.
	Data() *lsm.Tree
	// NoteVersion notes a version that the memtable got.
	NoteVersion(v *item.Version)
	// NoteEntry notes an entry of a replicated log. last is the newest sequence then.
	NoteEntry(last uint64, at manifest.Applied)
}

// Replay takes the records of a log in their order.
type Replay struct {
	FS     vfs.FS
	Owners func(wal.Stream) []Partition // that need the records of a stream
	Made   uint32                       // partitions with lower ids were made

	fenced map[wal.Stream]bool
	op     logrecord.Operation
}

// Take takes a record. Its error names the file and the offset of the record.
func (r *Replay) Take(rec *wal.Record) error {
	if rec.Seq > item.MaxSeq || rec.Last() > item.MaxSeq {
		return r.corrupt(rec, "sequences %d to %d, which no store comes to", rec.Seq, rec.Last())
	}
	if rec.Type == wal.TypeFence {
		if r.fenced == nil {
			r.fenced = make(map[wal.Stream]bool)
		}
		r.fenced[rec.Stream] = true
	}
	if rec.Type != wal.TypeWrite && rec.Type != wal.TypeCarried {
		return nil
	}
	if r.fenced[rec.Stream] {
		return r.corrupt(rec, "record of partition %d behind its fence", rec.Stream)
	}
	owners := r.Owners(rec.Stream)
	if len(owners) == 0 {
		if uint32(rec.Stream) < r.Made {
			return nil // dropped
		}
		return r.corrupt(rec, "record of partition %d, which was never made", rec.Stream)
	}
	for _, p := range owners {
		if p.Data().Lost != nil {
			continue
		}
		if err := r.takeInto(p, rec); err != nil {
			return err
		}
	}
	return nil
}

// corrupt reports a record that does not make sense.
func (r *Replay) corrupt(rec *wal.Record, format string, args ...any) error {
	return fault.Corrupt(r.FS.Path(path.Join(manifest.LogDir, wal.FileName(rec.File))), rec.Offset, format, args...)
}

// takeInto puts the operations of a record into the memtable of a partition.
func (r *Replay) takeInto(p Partition, rec *wal.Record) error {
	t, op := p.Data(), &r.op
	carried := rec.Type == wal.TypeCarried
	own := rec.Stream == wal.Stream(t.ID)
	flushed := t.FlushedOf(rec.Stream)
	rest := rec.Payload
	for i := 0; len(rest) > 0; i++ {
		var err error
		if rest, err = logrecord.Decode(rest, carried, op); err != nil {
			return r.corrupt(rec, "%w", fmt.Errorf("operation %d: %w", i, err))
		}
		if !carried {
			op.Version.Seq = rec.Seq + uint64(i)
		}
		if op.Version.Seq <= flushed {
			continue
		}
		if op.At.Index != 0 {
			p.NoteEntry(rec.Seq, op.At)
			continue
		}
		if !t.Range.Contains(&op.EPK) {
			if !own {
				continue // another partition inherits the operation, or has flushed it
			}
			return r.corrupt(rec, "operation %d: key %x lies outside of partition %d", i, op.Key.EPK, t.ID)
		}
		if op.EPK.Levels() != t.Family.Levels || len(op.Version.Body) > segment.MaxBody {
			return r.corrupt(rec, "operation %d: no file of partition %d takes %d bytes with a key of %d levels", i, t.ID, len(op.Version.Body), op.EPK.Levels())
		}
		// In the log a carried version may come behind newer versions of its item, which
		// were flushed in the middle of the replay.
		if carried && t.Install.Behind {
			err = restoreBehind(t, op)
		} else {
			err = t.Version.Load().Active.Restore(&op.Key, &op.Version)
		}
		if err != nil {
			return err
		}
		p.NoteVersion(&op.Version)
	}
	return nil
}

// restoreBehind puts op into the memtable after this replay has flushed. A newer version of
// its item that is in files is copied back before it. If op is in the tree itself, nothing is
// done: after a crash in the middle of carrying no record of newer versions may follow, and a
// partition tombstone that was put into the memtable alone would hide what was written after
// it.
func restoreBehind(t *lsm.Tree, op *logrecord.Operation) error {
	guard := t.Env.Epoch.Enter()
	defer guard.Leave()
	v := t.Version.Load()
	var newest, same item.Version
	// The lookup meets the files of this replay first, and damage only in files behind
	// them. Those were flushed before; if they have a newer version, the log has it too.
	body, found, err := v.Lookup(&op.Key, &op.EPK, lsm.MaxSequence, nil, false, &newest)
	if err == nil && found && newest.Seq >= op.Version.Seq {
		if _, found, err = v.Lookup(&op.Key, &op.EPK, op.Version.Seq, nil, true, &same); err == nil && found && same.Seq == op.Version.Seq {
			return nil
		}
		newest.Body = body
		key := op.Key
		if deleted, err := v.PartitionTombstone(&op.Key, lsm.MaxSequence); err == nil && deleted == newest.Seq {
			key = key.Partition()
		}
		if err := v.Active.Restore(&key, &newest); err != nil {
			return err
		}
	}
	return v.Active.Restore(&op.Key, &op.Version)
}
