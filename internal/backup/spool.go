package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// spool keeps log records in a temporary file, or in memory if they are few, until they
// are written to a stream. The file is never synced: a device that fails or is full may lose
// bytes of it without a word, so each record has a checksum. It is for one goroutine.
type spool struct {
	fs   vfs.FS
	name string   // of the file, which is made when it is needed
	file vfs.File // nil: all is in buf
	size int64    // bytes in file
	buf  []byte   // records behind those in file
}

const (
	spoolBuffer = 1 << 20 // bytes of records in memory
	spoolHead   = 20      // stream 4, length 4, highest 8, checksum of these and the payload 4
)

var errNotKept = errors.New("the file has not kept what was written to it")

// add adds a record.
func (s *spool) add(stream wal.Stream, highest uint64, payload []byte) error {
	at := len(s.buf)
	s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(stream))
	s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(len(payload)))
	s.buf = binary.LittleEndian.AppendUint64(s.buf, highest)
	s.buf = binary.LittleEndian.AppendUint32(s.buf, spoolSum(s.buf[at:], payload))
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

// spoolSum is the checksum of a record: of its head, without the sum, and its payload.
func spoolSum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
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
	for off := int64(0); ; off += spoolHead + int64(len(payload)) {
		_, err := io.ReadFull(r, head[:])
		if err == io.EOF {
			return nil
		}
		if err == nil {
			n := int(min(binary.LittleEndian.Uint32(head[4:]), MaxBlock)) // a longer one fits into no stream
			payload = slices.Grow(payload[:0], n)[:n]
			_, err = io.ReadFull(r, payload)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF || err == nil && binary.LittleEndian.Uint32(head[16:]) != spoolSum(head[:16], payload) {
			err = fault.IO("read", s.fs.Path(s.name), off, errNotKept)
		}
		if err != nil {
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
