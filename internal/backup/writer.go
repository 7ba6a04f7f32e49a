package backup

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// Writer writes one stream. It is for one goroutine. An error of the underlying
// writer is returned as it is; after any error the stream is no backup.
type Writer struct {
	w       io.Writer
	catalog *Catalog
	place   place
	head    [blockBytes]byte
	record  []byte
	off     int64
	blocks  uint64
	sums    uint32
}

// NewWriter writes the header and the catalog, which must be right. It writes nothing of a catalog that is too large to
// be read again: that is fault.ErrTooLarge.
func NewWriter(w io.Writer, c *Catalog) (*Writer, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("backup: catalog: %w", err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("backup: catalog: %w", err)
	}
	if len(text) > manifest.MaxBytes {
		return nil, fmt.Errorf("backup: catalog of %d bytes, at most %d: %w", len(text), manifest.MaxBytes, fault.ErrTooLarge)
	}
	b := &Writer{w: w, catalog: c}
	copy(b.place[:], c.ID[:])
	head := make([]byte, 0, headerBytes)
	head = append(head, magic...)
	head = binary.LittleEndian.AppendUint32(head, c.version())
	head = append(head, c.ID[:]...)
	head = append(head, make([]byte, 8)...)
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	if err := b.write(head); err != nil {
		return nil, err
	}
	return b, b.pieces(kindCatalog, text)
}

// Record adds a log record of versions, none with a sequence above highest.
func (b *Writer) Record(s wal.Stream, highest uint64, payload []byte) error {
	b.record = binary.LittleEndian.AppendUint32(b.record[:0], uint32(s))
	b.record = binary.LittleEndian.AppendUint64(b.record, highest)
	b.record = append(b.record, payload...)
	return b.block(kindRecords, b.record)
}

// Data adds bytes of the files that the catalog says are in the stream, one
// after the other. A call adds bytes of one file.
func (b *Writer) Data(p []byte) error { return b.pieces(kindData, p) }

// Close ends the stream; the underlying writer stays open. It returns what
// describes the backup.
func (b *Writer) Close() (Info, error) {
	var t [trailerBytes]byte
	binary.LittleEndian.PutUint64(t[:], uint64(b.off+blockBytes+trailerBytes))
	binary.LittleEndian.PutUint64(t[8:], b.blocks)
	binary.LittleEndian.PutUint32(t[16:], b.sums)
	if err := b.block(kindTrailer, t[:]); err != nil {
		return Info{}, err
	}
	return b.catalog.info(b.off), nil
}

// Written returns how many bytes were written.
func (b *Writer) Written() int64 { return b.off }

func (b *Writer) pieces(k kind, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), pieceBytes)
		if err := b.block(k, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (b *Writer) block(k kind, payload []byte) error {
	if len(payload) > MaxBlock {
		return fmt.Errorf("backup: block of %d bytes, at most %d", len(payload), MaxBlock)
	}
	b.head = [blockBytes]byte{byte(k)}
	binary.LittleEndian.PutUint32(b.head[4:], uint32(len(payload)))
	sum := b.place.blockSum(b.off, b.head[:], payload)
	binary.LittleEndian.PutUint32(b.head[8:], sum)
	b.blocks++
	b.sums = addSum(b.sums, sum)
	if err := b.write(b.head[:]); err != nil {
		return err
	}
	return b.write(payload)
}

func (b *Writer) write(p []byte) error {
	n, err := b.w.Write(p)
	b.off += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}
