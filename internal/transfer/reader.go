package transfer

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/stream"
	"github.com/cleavestore/cleave/partmap"
)

// name stands for the stream in errors.
const name = "stream of a partition"

// Reader reads a partition.
type Reader struct {
	Head   Head
	Range  partmap.Range // of the head
	source *stream.Reader
	block  []byte // items that were not given yet
	tail   tail   // of what was given
	number int64  // of the item at hand, from 1 on
	last   item.KeyCopy
}

// NewReader reads the head. Errors of r come as they are; what is no stream of a partition
// gives a *fault.CorruptionError with the offset, and a newer format fault.ErrTooNew.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{source: stream.NewReader(name, r)}
	kind, payload, err := d.source.Next()
	if err != nil {
		return nil, d.early(err)
	}
	if kind != HeadBlock {
		return nil, d.corrupt("the stream does not begin with what it is")
	}
	h := &d.Head
	if err = manifest.Unmarshal(payload, h, false); err != nil {
		return nil, d.corrupt("the stream does not begin with what it is: %v", err)
	}
	if h.Format > Format {
		return nil, fmt.Errorf("stream of format %d, this program knows up to %d: %w", h.Format, Format, fault.ErrTooNew)
	}
	if d.Range.Min, err = partmap.EPKFromBytes(h.Min); err == nil {
		d.Range.Max, err = partmap.EPKFromBytes(h.Max)
	}
	switch {
	case err != nil || d.Range.Empty():
		return nil, d.corrupt("no range")
	case h.Seq > MaxSeq || h.At.Index > MaxIndex:
		return nil, d.corrupt("sequence %d, entry %d: at most %d and %d are counted on from", h.Seq, h.At.Index, uint64(MaxSeq), uint64(MaxIndex))
	case h.At.Index == 0 && h.At != (manifest.Applied{}), h.At.Index > 0 && !h.At.Valid(), h.At.TTL.Revision > 0 && !h.Mutable:
		return nil, d.corrupt("entry %d of the time %d", h.At.Index, h.At.Time)
	}
	return d, nil
}

// Next reads an item, or a claim on a unique key, which has that flag. The slices of op are
// valid until the next call. It returns io.EOF at the end of the stream.
func (d *Reader) Next(ctx context.Context, op *logrecord.Operation) error {
	for len(d.block) == 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		kind, payload, err := d.source.Next()
		if err != nil {
			return d.early(err)
		}
		switch kind {
		case ItemsBlock:
			d.block = payload
		case TailBlock:
			return d.end(payload)
		default:
			return d.corrupt("block of unknown kind %d", kind)
		}
	}
	d.number++
	var err error
	if d.block, err = logrecord.Decode(d.block, true, op); err != nil {
		return d.Refuse(err.Error())
	}
	switch {
	case op.At.Index != 0 || op.Version.Deleted() || op.Version.Seq > d.Head.Seq:
		return d.Refuse("no item of this partition")
	case !d.Range.Contains(&op.EPK) || op.EPK.Levels() != d.Head.Levels:
		return d.Refuse(fmt.Sprintf("key %x lies outside of the partition", op.Key.EPK))
	case partmap.FromTrusted(op.Key.PK).Version() != cmp.Or(d.Head.Hash, 2):
		return d.Refuse("a key of another version")
	case d.number > 1 && item.Compare(&d.last.Key, &op.Key) >= 0:
		return d.Refuse("not in order")
	}
	d.last.Set(&op.Key)
	if op.Version.Flags == item.Claim {
		d.tail.Claims++
	} else {
		d.tail.Items++
	}
	return nil
}

// end reads the tail and the end of the stream.
func (d *Reader) end(payload []byte) error {
	var t tail
	if manifest.Unmarshal(payload, &t, false) != nil || t != d.tail {
		return d.corrupt("the stream has %d items and %d claims, and says otherwise", d.tail.Items, d.tail.Claims)
	}
	if _, _, err := d.source.Next(); err != io.EOF {
		return d.early(err)
	}
	return io.EOF
}

// Items returns the number of items that were read, without claims.
func (d *Reader) Items() int64 { return d.tail.Items }

// Bytes returns how much of the stream was read.
func (d *Reader) Bytes() int64 { return d.source.Offset() }

// Refuse returns the error for the item that was read last, if it does not belong there.
func (d *Reader) Refuse(why string) error { return d.corrupt("item %d: %s", d.number, why) }

// corrupt returns the error for an invalid block.
func (d *Reader) corrupt(format string, args ...any) error {
	return fault.Corrupt(name, d.source.Offset(), format, args...)
}

// early returns the error of a stream that ends too early, or does not end: if err
// is nil or io.EOF, that is an error of its own.
func (d *Reader) early(err error) error {
	if err == nil || err == io.EOF {
		return d.corrupt("the stream does not end where it says")
	}
	return err
}
