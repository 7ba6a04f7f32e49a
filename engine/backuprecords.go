package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/wal"
)

// tableRecords calls emit with carried records of a memtable: of each key within the
// bounds the newest version at or below the cut.
func (p *backupPart) tableRecords(ctx context.Context, t *memtable.Table, clip *lsm.Bounds, emit func(s wal.Stream, highest uint64, payload []byte) error) error {
	var stream wal.Stream
	batch := carriedBatch{emit: func(highest uint64, payload []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return emit(stream, highest, payload)
	}}
	c := t.Cursor(p.cut)
	for ok := clip.Start(c, false); ok && (clip == nil || clip.Holds(c.Key())); ok = c.Next() {
		if s := p.streamOf(c.Version().Seq); s != stream {
			if err := batch.flush(); err != nil {
				return err
			}
			stream = s
		}
		if err := batch.add(c.Key(), c.Version()); err != nil {
			return err
		}
	}
	return batch.flush()
}

// streamOf returns a stream from which an open of the backup accepts a record of the
// partition with this sequence. Of each stream, replay skips the sequences that the
// manifest says are flushed. An inherited version may be at or below the flushed sequence
// of the partition's own stream: then its record goes to a stream that is inherited.
func (p *backupPart) streamOf(seq uint64) wal.Stream {
	if seq <= p.flushed {
		for _, in := range p.inherits {
			if seq > in.FlushedSeq {
				return wal.Stream(in.Stream)
			}
		}
	}
	return wal.Stream(p.ID)
}
