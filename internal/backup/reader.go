package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// Handler gets what is in a stream. An error of a method ends the reading and is
// returned. Slices are valid until the method returns.
type Handler interface {
	// Begin gets the catalog, which is right in itself. The methods below are
	// called only if the stream may follow the one before it.
	Begin(c *Catalog) error
	// Record gets a log record of versions, none above highest, that decodes and fits
	// the catalog.
	Record(s wal.Stream, highest uint64, payload []byte) error
	// File says whose bytes come next; Data hands them over.
	File(f *File) error
	Data(p []byte) error
}

// Reader reads streams that follow each other. It is for one goroutine.
type Reader struct {
	name   string
	r      io.Reader
	off    int64 // in the input
	base   int64 // where the stream begins
	place  place
	blocks uint64
	sums   uint32
	buf    []byte
	before *Catalog // of the stream before
}

// NewReader reads r, which is called name in errors. It takes no byte from r
// behind the streams that Next has returned.
func NewReader(name string, r io.Reader) *Reader { return &Reader{name: name, r: r} }

// Next reads the next stream, to its end, and hands what is in it to h. It
// returns io.EOF if the input is at its end. What h got before an error is no
// backup. A stream that is not the first must be incremental and follow the one
// before: else the error matches ErrParent.
func (d *Reader) Next(ctx context.Context, h Handler) (Info, error) {
	c, head, err := d.begin(ctx)
	if err != nil {
		return Info{}, err
	}
	if err = h.Begin(c); err != nil {
		return Info{}, err
	}
	for ; err == nil && head.kind == kindRecords; head, err = d.block(ctx) {
		p := head.payload
		if len(p) < recordBytes {
			return Info{}, fault.Corrupt(d.name, head.off, "records block of %d bytes", len(p))
		}
		stream, highest := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint64(p[4:])
		p = p[recordBytes:]
		wrong := checkRecord(highest, p)
		if highest > c.Seq || stream == 0 || stream >= c.Store.NextPartition {
			wrong = fmt.Errorf("of partition %d up to sequence %d", stream, highest)
		}
		if wrong != nil {
			return Info{}, fault.Corrupt(d.name, head.off, "log record: %v", wrong)
		}
		if err = h.Record(wal.Stream(stream), highest, p); err != nil {
			return Info{}, err
		}
	}
	for i := range c.Files {
		if err != nil {
			return Info{}, err
		}
		f := &c.Files[i]
		if !f.Carried {
			continue
		}
		if err = h.File(f); err != nil {
			return Info{}, err
		}
		for left := f.Size; left > 0 && err == nil; head, err = d.block(ctx) {
			if head.kind != kindData || int64(len(head.payload)) > left {
				return Info{}, fault.Corrupt(d.name, head.off, "block of kind %d and %d bytes where %d bytes of file %d are missing", head.kind, len(head.payload), left, f.Number)
			}
			if err = h.Data(head.payload); err != nil {
				return Info{}, err
			}
			left -= int64(len(head.payload))
		}
	}
	if err != nil {
		return Info{}, err
	}
	if err := d.trailer(head); err != nil {
		return Info{}, err
	}
	d.before = c
	return c.info(d.off - d.base), nil
}

// checkRecord says what is wrong with a log record; nil: nothing.
func checkRecord(highest uint64, payload []byte) error {
	var op logrecord.Operation
	var err error
	for rest := payload; len(rest) > 0; {
		if rest, err = logrecord.Decode(rest, true, &op); err != nil {
			return err
		}
		if op.Version.Seq > highest {
			return fmt.Errorf("an operation has sequence %d, the record goes up to %d", op.Version.Seq, highest)
		}
	}
	return nil
}

// begin reads up to the first block behind the catalog.
func (d *Reader) begin(ctx context.Context) (*Catalog, block, error) {
	d.base, d.blocks, d.sums = d.off, 0, 0
	var b [headerBytes]byte
	if n, err := io.ReadFull(d.r, b[:]); err == io.EOF {
		return nil, block{}, io.EOF
	} else if err != nil {
		return nil, block{}, d.failed("header", n, err)
	}
	d.off += headerBytes
	if string(b[:8]) != magic {
		return nil, block{}, fault.Corrupt(d.name, d.base, "not a backup")
	}
	if sum := binary.LittleEndian.Uint32(b[36:]); sum != crc32.Checksum(b[:36], castagnoli) {
		return nil, block{}, fault.Corrupt(d.name, d.base, "header: checksum %08x does not match", sum)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v == 0 || v > Version {
		return nil, block{}, fmt.Errorf("%s: backup format %d, this program knows up to %d: %w", d.name, v, Version, fault.ErrTooNew)
	}
	if !bytes.Equal(b[28:36], make([]byte, 8)) {
		return nil, block{}, fault.Corrupt(d.name, d.base, "header: bytes without a meaning")
	}
	copy(d.place[:], b[12:28])
	at := d.off
	var text []byte
	head, err := d.block(ctx)
	for ; err == nil && head.kind == kindCatalog; head, err = d.block(ctx) {
		if len(text)+len(head.payload) > manifest.MaxBytes {
			return nil, block{}, fault.Corrupt(d.name, head.off, "catalog of over %d bytes", manifest.MaxBytes)
		}
		text = append(text, head.payload...)
	}
	if err != nil {
		return nil, block{}, err
	}
	c := new(Catalog)
	if err = manifest.Unmarshal(text, c, true); err == nil && !bytes.Equal(c.ID[:], d.place[:16]) {
		err = fmt.Errorf("id %x in a stream of another one", c.ID)
	}
	if err != nil {
		return nil, block{}, fault.Corrupt(d.name, at, "catalog: %v", err)
	}
	if d.before != nil {
		if err := c.follows(d.before); err != nil {
			return nil, block{}, fmt.Errorf("%s: offset %d: %w", d.name, d.base, err)
		}
	}
	return c, head, nil
}

// block is a block that was verified.
type block struct {
	kind    kind
	off     int64 // in the input
	sums    uint32
	blocks  uint64 // before it
	payload []byte // until the next block is read
}

// block reads the next block.
func (d *Reader) block(ctx context.Context) (block, error) {
	if err := ctx.Err(); err != nil {
		return block{}, err
	}
	b := block{off: d.off, sums: d.sums, blocks: d.blocks}
	var head [blockBytes]byte
	if n, err := io.ReadFull(d.r, head[:]); err != nil {
		return b, d.failed("block", n, err)
	}
	d.off += blockBytes
	b.kind = kind(head[0])
	length := binary.LittleEndian.Uint32(head[4:])
	if length > MaxBlock || b.kind < kindCatalog || b.kind > kindTrailer || head[1]|head[2]|head[3] != 0 {
		return b, fault.Corrupt(d.name, b.off, "block of kind %d and %d bytes", head[0], length)
	}
	if err := d.fill(int(length)); err != nil {
		return b, err
	}
	b.payload = d.buf
	sum := binary.LittleEndian.Uint32(head[8:])
	if got := d.place.blockSum(b.off-d.base, head[:], b.payload); got != sum {
		return b, fault.Corrupt(d.name, b.off, "block: checksum %08x, computed %08x", sum, got)
	}
	d.blocks++
	d.sums = addSum(d.sums, sum)
	return b, nil
}

// fill reads n bytes into buf, which grows as they come.
func (d *Reader) fill(n int) error {
	d.buf = d.buf[:0]
	for len(d.buf) < n {
		have := len(d.buf)
		want := min(n, max(have*2, cap(d.buf), 64<<10))
		if want > cap(d.buf) {
			d.buf = append(make([]byte, 0, want), d.buf...)
		}
		d.buf = d.buf[:want]
		got, err := io.ReadFull(d.r, d.buf[have:])
		if err != nil {
			return d.failed("block", got, err)
		}
		d.off += int64(got)
	}
	return nil
}

// failed tells of a read that got n bytes and then err.
func (d *Reader) failed(what string, n int, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fault.Corrupt(d.name, d.off+int64(n), "the backup ends in the middle of a %s", what)
	}
	return fault.IO("read", d.name, d.off+int64(n), err)
}

// trailer checks the last block.
func (d *Reader) trailer(b block) error {
	p := b.payload
	if b.kind != kindTrailer || len(p) != trailerBytes {
		return fault.Corrupt(d.name, b.off, "block of kind %d and %d bytes where the trailer is expected", b.kind, len(p))
	}
	length, blocks, sums := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint32(p[16:])
	if length != uint64(d.off-d.base) || blocks != b.blocks || sums != b.sums {
		return fault.Corrupt(d.name, b.off, "trailer: %d bytes in %d blocks with the sum %08x, read %d bytes in %d blocks with %08x",
			length, blocks, sums, d.off-d.base, b.blocks, b.sums)
	}
	return nil
}
