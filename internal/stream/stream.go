// Package stream frames data that one store writes for another: blocks with
// checksums, in order, of which none can be missing or changed unnoticed.
//
//	magic    8 bytes  "CLVSTRM1"
//	block    kind     u8, not 0
//	         length   u32, of the payload
//	         checksum u32, CRC32C of the block's ordinal (u64), kind, length and payload
//	         payload
//	…
//	end      a block of kind FF without payload
//
// Integers are little-endian. Ordinals count from 0.
//
// Invariants:
//
//  1. A Reader gives only blocks whose checksum is right, in the order in which
//     they were written, and io.EOF only after the end block.
//  2. It holds one block, and memory in proportion to what it has read of it:
//     the length of a block is believed only as far as bytes come.
package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/cleavestore/cleave/internal/fault"
)

const (
	magic     = "CLVSTRM1"
	headBytes = 1 + 4 + 4
	kindEnd   = 0xFF
)

// MaxBlock is the largest payload of a block.
const MaxBlock = 16 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(ordinal uint64, head, payload []byte) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], ordinal)
	sum := crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, head[:5])
	return crc32.Update(sum, castagnoli, payload)
}

// Writer writes a stream.
type Writer struct {
	w       io.Writer
	ordinal uint64
	written int64
}

// NewWriter begins a stream. Errors are those of w.
func NewWriter(w io.Writer) (*Writer, error) {
	s := &Writer{w: w}
	return s, s.write([]byte(magic))
}

// Block writes a block of a kind from 1 to 254. The payload, of at most MaxBlock
// bytes, is not kept.
func (s *Writer) Block(kind byte, payload []byte) error {
	if kind == 0 || kind == kindEnd || len(payload) > MaxBlock {
		return errors.New("stream: no such block")
	}
	return s.block(kind, payload)
}

// Close writes the end. It does not close what the stream is written to.
func (s *Writer) Close() error { return s.block(kindEnd, nil) }

// Bytes returns the length of what was written.
func (s *Writer) Bytes() int64 { return s.written }

func (s *Writer) block(kind byte, payload []byte) error {
	var head [headBytes]byte
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[5:], checksum(s.ordinal, head[:], payload))
	s.ordinal++
	if err := s.write(head[:]); err != nil {
		return err
	}
	return s.write(payload)
}

func (s *Writer) write(b []byte) error {
	n, err := s.w.Write(b)
	s.written += int64(n)
	return err
}

// Reader reads a stream.
type Reader struct {
	r       io.Reader
	name    string
	at      int64 // offset of what comes next
	ordinal uint64
	buf     bytes.Buffer
	err     error // of the newest Next, kept
}

// NewReader returns a reader of the stream that r gives. name stands for it in
// errors.
func NewReader(name string, r io.Reader) *Reader { return &Reader{r: r, name: name} }

// Next returns the next block, whose payload is valid until Next is called
// again; io.EOF after the last one. What is no whole stream gives a
// *fault.CorruptionError with the offset; errors of the io.Reader come as they
// are. After an error Next returns it again.
func (s *Reader) Next() (kind byte, payload []byte, err error) {
	if s.err == nil {
		kind, payload, s.err = s.next()
	}
	return kind, payload, s.err
}

// Offset returns how much of the stream was read.
func (s *Reader) Offset() int64 { return s.at }

func (s *Reader) next() (byte, []byte, error) {
	if s.at == 0 {
		b, err := s.read(len(magic))
		if err != nil {
			return 0, nil, err
		}
		if string(b) != magic {
			return 0, nil, fault.Corrupt(s.name, 0, "no stream of a partition")
		}
	}
	start := s.at
	b, err := s.read(headBytes)
	if err != nil {
		return 0, nil, err
	}
	head := [headBytes]byte(b)
	length := binary.LittleEndian.Uint32(head[1:])
	if length > MaxBlock {
		return 0, nil, fault.Corrupt(s.name, start, "block of %d bytes, limit %d", length, MaxBlock)
	}
	payload, err := s.read(int(length))
	if err != nil {
		return 0, nil, err
	}
	if checksum(s.ordinal, head[:], payload) != binary.LittleEndian.Uint32(head[5:]) {
		return 0, nil, fault.Corrupt(s.name, start, "block %d: bad checksum", s.ordinal)
	}
	s.ordinal++
	switch head[0] {
	case 0:
		return 0, nil, fault.Corrupt(s.name, start, "block of kind 0")
	case kindEnd:
		return 0, nil, io.EOF
	}
	return head[0], payload, nil
}

// read returns the next n bytes.
func (s *Reader) read(n int) ([]byte, error) {
	s.buf.Reset()
	got, err := io.CopyN(&s.buf, s.r, int64(n))
	s.at += got
	if err == io.EOF {
		return nil, fault.Corrupt(s.name, s.at, "the stream ends before its end block")
	}
	return s.buf.Bytes(), err
}
