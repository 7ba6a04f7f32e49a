package backup

import (
	"context"

	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/wal"
)

// emitter gets carried log records of versions, none above highest. The payload is valid
// until it returns.
type emitter func(s wal.Stream, highest uint64, payload []byte) error

// records emits the versions in memtables that belong to the backup.
func (c *Capture) records(ctx context.Context, emit emitter) error {
	for i := range c.parts {
		p := &c.parts[i]
		if p.Cut > p.flushed && p.Applied.Index != 0 {
			if err := emit(wal.Stream(p.ID), p.Cut, logrecord.AppendMark(nil, p.Cut, p.Applied)); err != nil {
				return err
			}
		}
		// The oldest memtable comes first, as in the log: an item that was deleted with
		// its logical partition must come before the partition tombstone.
		for j := len(p.Version.Frozen) - 1; j >= 0; j-- {
			t := &p.Version.Frozen[j]
			if err := p.table(ctx, t.Table, t.Clip, emit); err != nil {
				return err
			}
		}
		if err := p.table(ctx, p.Version.Active, nil, emit); err != nil {
			return err
		}
	}
	return nil
}

// table emits versions of a memtable: of each key within the bounds the newest version at
// or below the cut, unless it was deleted with its logical partition.
func (p *Part) table(ctx context.Context, t *memtable.Table, clip *keybounds.Bounds, emit emitter) error {
	var stream wal.Stream
	batch := logrecord.CarriedBatch{Emit: func(highest uint64, payload []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return emit(stream, highest, payload)
	}}
	var deleted lsm.DeletedBefore
	c := t.Cursor(p.Cut)
	for ok := clip.Start(c, false); ok && (clip == nil || clip.Holds(c.Key())); ok = c.Next() {
		if s := p.streamOf(c.Version().Seq); s != stream {
			if err := batch.Flush(); err != nil {
				return err
			}
			stream = s
		}
		if deleted.Hides(c.Key(), c.Version()) {
			continue
		}
		if err := batch.Add(c.Key(), c.Version()); err != nil {
			return err
		}
	}
	return batch.Flush()
}

// streamOf returns a stream from which an open of the backup accepts a record of the
// partition with this sequence. Of each stream, replay skips the sequences that the
// manifest says are flushed. An inherited version may be at or below the flushed sequence
// of the partition's own stream: then its record goes to a stream that is inherited.
func (p *Part) streamOf(seq uint64) wal.Stream {
	if seq <= p.flushed {
		for _, in := range p.inherits {
			if seq > in.FlushedSeq {
				return wal.Stream(in.Stream)
			}
		}
	}
	return wal.Stream(p.ID)
}
