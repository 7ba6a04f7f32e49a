package engine

import (
	"context"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/partmap"
)

// PartitionContent describes the partition that ExportPartition has written or
// InstallPartition has installed.
type PartitionContent struct {
	Partition PartitionID
	Index     uint64 // of the newest entry in it; 0: none
	Min, Max  string // range: effective partition keys in hexadecimal digits
	Items     int64
	Bytes     int64 // of the stream
}

// ExportPartition writes the content of a physical partition to w, as of its newest
// entry, or, if the container is not replicated, as of its newest write.
// InstallPartition reads it in a replicated container of the same kind, with the
// same partition key and hash version, DefaultTTL and unique keys. Reads and writes go on. The
// versions that the export reads are kept until it ends. Errors of w are returned
// unchanged.
func (c *Container) ExportPartition(ctx context.Context, id PartitionID, w io.Writer) (PartitionContent, error) {
	if w == nil {
		return PartitionContent{}, invalidf("ExportPartition: no writer is given")
	}
	content := PartitionContent{Partition: id}
	var out *transfer.Writer
	err := c.exportTo(ctx, id, func(h *transfer.Head, rng partmap.Range) (_ exec.Sink, err error) {
		content.Index, content.Min, content.Max = h.At.Index, rng.Min.String(), rng.Max.String()
		out, err = transfer.NewWriter(w, h)
		return out, err
	})
	if out != nil {
		content.Items = out.Items()
	}
	if err == nil {
		err = out.Close()
		content.Bytes = out.Bytes()
	}
	return content, err
}

// DigestPartition returns a digest of the content of a physical partition, SHA-256, and the
// entry as of which it is. Partitions of replicas that have applied the same entries have the
// same digest at the same entry: one that differs has gone wrong. It reads the whole
// partition; reads and writes go on meanwhile. Errors: ErrNotFound, ErrNotHere, those of
// reading.
func (c *Container) DigestPartition(ctx context.Context, id PartitionID) (index uint64, sum [32]byte, err error) {
	var d *transfer.Digest
	err = c.exportTo(ctx, id, func(h *transfer.Head, _ partmap.Range) (_ exec.Sink, err error) {
		index = h.At.Index
		d, err = transfer.NewDigest(h)
		return d, err
	})
	if err == nil {
		sum = d.Sum()
	}
	return index, sum, err
}

// exportTo gives the items of a partition, as of its newest entry, to what begin returns.
func (c *Container) exportTo(ctx context.Context, id PartitionID, begin func(*transfer.Head, partmap.Range) (exec.Sink, error)) error {
	c, call, err := c.enterNewest(ctx)
	if err != nil {
		return err
	}
	p, err := c.present(id)
	if err != nil {
		call.Leave()
		return err
	}
	taken, at, err := p.takeCut(pins.Export)
	call.Leave() // a slow writer must not hold up Close
	if err != nil {
		return err
	}
	defer c.db.env.Pins.Release(taken.pin)
	if p.Dropped.Load() {
		return c.noPartition(id)
	}
	head := c.transferHead(p.Range)
	head.Seq, head.At = taken.pin.Seq, at
	out, err := begin(&head, p.Range)
	if err != nil {
		return err
	}
	// Expired items are exported too.
	s := &Snapshot{c: c, seq: taken.pin.Seq, installEpoch: taken.installEpoch, past: lifetime.Nothing}
	return exec.Items(ctx, c.host(), p.Range, cutOf(s), c.isClaim, out)
}

// transferHead describes a part of the container.
func (c *Container) transferHead(rng partmap.Range) transfer.Head {
	format := transfer.FixedFormat
	if c.life.Follows() {
		format = transfer.Format
	}
	return transfer.Head{
		Format: format, Kind: c.def.Kind.String(), Key: c.keys.Text, Levels: c.levels(), Hash: c.def.HashVersion, TTL: c.life.Default(), Mutable: c.life.Follows(),
		Unique: c.def.UniqueKeys, Min: slices.Clone(rng.Min.Bytes()), Max: slices.Clone(rng.Max.Bytes()),
	}
}
