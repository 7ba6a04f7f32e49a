package engine

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/stream"
	"github.com/cleavestore/cleave/partmap"
)

// A physical partition is exported as a stream of blocks (see internal/stream):
//
//   - a head, which describes the partition
//   - blocks of items in key-space order; each item is an operation as in a carried
//     record
//   - a tail, with the number of items
//
// The stream holds the newest version of each item, whether or not it has expired.
// Behind the items of each logical partition come its claims on unique keys. There
// are no tombstones.
const (
	blockHead  = 1 // JSON: streamHead
	blockItems = 2 // operations
	blockTail  = 3 // JSON: streamTail

	streamFormat = 1
	streamBlock  = 64 << 10 // bytes at which a block is complete
)

type streamHead struct {
	Format int              `json:"format"`
	Kind   string           `json:"kind"`
	Key    string           `json:"key"`    // definition of the partition key
	Levels int              `json:"levels"` // of it
	TTL    int64            `json:"default_ttl"`
	Unique [][]string       `json:"unique_keys,omitempty"`
	Min    manifest.Bytes   `json:"min"` // EPK, inclusive
	Max    manifest.Bytes   `json:"max"` // EPK, exclusive
	Seq    uint64           `json:"seq"`
	At     manifest.Applied `json:"applied"` // index 0: none
}

type streamTail struct {
	Items  int64 `json:"items"`
	Claims int64 `json:"claims,omitempty"`
}

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
	call, err := c.enter(ctx)
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
	out, err := stream.NewWriter(w)
	if err != nil {
		return PartitionContent{}, err
	}
	content := PartitionContent{Partition: id, Index: at.Index, Min: p.Range.Min.String(), Max: p.Range.Max.String()}
	head := c.streamHead(p.Range)
	head.Seq, head.At = taken.seq, at
	if err = writeJSON(out, blockHead, &head); err != nil {
		return content, err
	}
	var tail streamTail
	err = c.exportItems(ctx, p.Range, taken, out, &tail)
	content.Items = tail.Items
	if err != nil {
		return content, err
	}
	if err = writeJSON(out, blockTail, &tail); err != nil {
		return content, err
	}
	err = out.Close()
	content.Bytes = out.Bytes()
	return content, err
}

// streamHead describes a part of the container.
func (c *Container) streamHead(rng partmap.Range) streamHead {
	return streamHead{
		Format: streamFormat, Kind: c.def.Kind.String(), Key: c.def.KeyText(), Levels: c.levels(), TTL: ttlToManifest(c.def.DefaultTTL),
		Unique: c.def.UniqueKeys, Min: slices.Clone(rng.Min.Bytes()), Max: slices.Clone(rng.Max.Bytes()),
	}
}

func writeJSON(w *stream.Writer, kind byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.Block(kind, text)
}

// exportItems writes the items of a range, as of a pinned sequence.
func (c *Container) exportItems(ctx context.Context, rng partmap.Range, at cut, out *stream.Writer, n *streamTail) error {
	// By the clock of 1 ms nothing has expired: expired items are exported too.
	s := &Snapshot{c: c, seq: at.seq, born: at.born, now: 1}
	o := exec.ScanOptions{Snapshot: cutOf(s), Borrow: true, Claims: true}
	var block []byte
	var failure error
	err := exec.ScanRange(ctx, c.host(), rng, &o, func(r *exec.Row) bool {
		ver := item.Version{Seq: r.Seq, Modified: r.Modified, Expires: r.Expires, Body: r.Body}
		key := item.Key{PK: r.Key.Encoded(), ID: bytesOf(r.ID)}
		if c.isClaim(&key) {
			ver.Flags = item.Claim
			n.Claims++
		} else {
			n.Items++
		}
		block = logrecord.AppendCarried(block, &key, &ver)
		if len(block) >= streamBlock {
			failure = out.Block(blockItems, block)
			block = block[:0]
		}
		return failure == nil
	})
	if err != nil {
		return err
	}
	if failure == nil && len(block) > 0 {
		failure = out.Block(blockItems, block)
	}
	return failure
}
