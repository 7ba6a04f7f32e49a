package engine

import (
	"context"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/item"
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
// same partition key, DefaultTTL and unique keys. Reads and writes go on. The
// versions that the export reads are kept until it ends. Errors of w are returned
// unchanged.
func (c *Container) ExportPartition(ctx context.Context, id PartitionID, w io.Writer) (PartitionContent, error) {
	if w == nil {
		return PartitionContent{}, invalidf("ExportPartition: no writer is given")
	}
	c, call, err := c.enterNewest(ctx)
	if err != nil {
		return PartitionContent{}, err
	}
	p := c.partition(id)
	if p == nil {
		call.Leave()
		return PartitionContent{}, c.noPartition(id)
	}
	taken, at, err := p.takeCut(pins.Export)
	call.Leave() // a slow writer must not hold up Close
	if err != nil {
		return PartitionContent{}, err
	}
	defer c.db.env.Pins.Release(pins.Export, taken.seq)
	if p.Dropped.Load() {
		return PartitionContent{}, c.noPartition(id)
	}
	content := PartitionContent{Partition: id, Index: at.Index, Min: p.Range.Min.String(), Max: p.Range.Max.String()}
	head := c.transferHead(p.Range)
	head.Seq, head.At = taken.seq, at
	out, err := transfer.NewWriter(w, &head)
	if err != nil {
		return content, err
	}
	err = c.exportItems(ctx, p.Range, taken, out)
	content.Items = out.Items()
	if err != nil {
		return content, err
	}
	err = out.Close()
	content.Bytes = out.Bytes()
	return content, err
}

// transferHead describes a part of the container.
func (c *Container) transferHead(rng partmap.Range) transfer.Head {
	return transfer.Head{
		Format: transfer.Format, Kind: c.def.Kind.String(), Key: c.keys.Text, Levels: c.levels(), TTL: definition.Millis(c.def.DefaultTTL),
		Unique: c.def.UniqueKeys, Min: slices.Clone(rng.Min.Bytes()), Max: slices.Clone(rng.Max.Bytes()),
	}
}

// exportItems writes the items of a range, as of a pinned sequence.
func (c *Container) exportItems(ctx context.Context, rng partmap.Range, at cut, out *transfer.Writer) error {
	// By the clock of 1 ms nothing has expired: expired items are exported too.
	s := &Snapshot{c: c, seq: at.seq, installEpoch: at.installEpoch, now: 1}
	o := exec.ScanOptions{Snapshot: cutOf(s), Borrow: true, Claims: true}
	var failure error
	err := exec.ScanRange(ctx, c.host(), rng, &o, func(r *exec.Row) bool {
		ver := item.Version{Seq: r.Seq, Modified: r.Modified, Expires: r.Expires, Body: r.Body}
		key := item.Key{PK: r.Key.Encoded(), ID: bytesOf(r.ID)}
		if c.isClaim(&key) {
			ver.Flags = item.Claim
		}
		failure = out.Add(&key, &ver)
		return failure == nil
	})
	if err != nil {
		return err
	}
	return failure
}
