package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/vfs"
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

// spool keeps log records in a temporary file, or in memory if they are few. A spool with
// only fs and name set is empty.
type spool struct {
	fs   vfs.FS
	name string
	file vfs.File // nil: all is in buf
	size int64    // bytes in file
	buf  []byte   // records behind those in file
}

const (
	spoolBuffer = 1 << 20
	spoolHead   = 16 // stream 4, length 4, highest 8
)

// add adds a record.
func (s *spool) add(stream wal.Stream, highest uint64, payload []byte) error {
	s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(stream))
	s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(len(payload)))
	s.buf = binary.LittleEndian.AppendUint64(s.buf, highest)
	s.buf = append(s.buf, payload...)
	if len(s.buf) < spoolBuffer {
		return nil
	}
	if s.file == nil {
		f, err := s.fs.Create(s.name)
		if err != nil {
			return err
		}
		s.file = f
	}
	if _, err := s.file.WriteAt(s.buf, s.size); err != nil {
		return err
	}
	s.size += int64(len(s.buf))
	s.buf = s.buf[:0]
	return nil
}

// each calls emit with the records, in the order in which they were added.
func (s *spool) each(_ context.Context, emit func(stream wal.Stream, highest uint64, payload []byte) error) error {
	var parts []io.Reader
	if s.file != nil {
		parts = append(parts, io.NewSectionReader(s.file, 0, s.size))
	}
	r := bufio.NewReaderSize(io.MultiReader(append(parts, bytes.NewReader(s.buf))...), spoolBuffer)
	var head [spoolHead]byte
	var payload []byte
	for {
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := int(binary.LittleEndian.Uint32(head[4:]))
		payload = slices.Grow(payload[:0], n)[:n]
		if _, err := io.ReadFull(r, payload); err != nil {
			return err
		}
		if err := emit(wal.Stream(binary.LittleEndian.Uint32(head[:])), binary.LittleEndian.Uint64(head[8:]), payload); err != nil {
			return err
		}
	}
}

// remove removes the file. If that fails, the next open removes it.
func (s *spool) remove() {
	if s.file != nil {
		_ = s.file.Close()
		_ = s.fs.Remove(s.name)
	}
}
