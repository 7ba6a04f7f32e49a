package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// spool keeps log records in a temporary file, or in memory if they are few, until they
// are written to a stream. It is for one goroutine.
type spool struct {
	fs   vfs.FS
	name string   // of the file, which is made when it is needed
	file vfs.File // nil: all is in buf
	size int64    // bytes in file
	buf  []byte   // records behind those in file
}

const (
	spoolBuffer = 1 << 20 // bytes of records in memory
	spoolHead   = 16      // stream 4, length 4, highest 8
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
func (s *spool) each(_ context.Context, emit emitter) error {
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

// remove removes the file. If that fails, the next open of the store removes it.
func (s *spool) remove() {
	if s.file != nil {
		_ = s.file.Close()
		_ = s.fs.Remove(s.name)
	}
}
