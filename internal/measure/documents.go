package measure

import (
	"bytes"
	"context"
	"slices"

	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// Documents are what a Loop reads and writes, by index. They are safe for
// concurrent use.
type Documents interface {
	// Count is the number of documents that exist before the loop.
	Count() int64
	// Key returns the partition key of document i.
	Key(i int64) partmap.Key
	// AppendID appends the id of document i.
	AppendID(dst []byte, i int64) []byte
	// AppendVersion appends another version of document i.
	AppendVersion(ctx context.Context, dst []byte, i int64, version uint64) ([]byte, error)
	// Check reports whether body is some version of the document with this id.
	Check(body []byte, id string) bool
}

// keySpaceOrder returns the indexes of documents in the order of their effective
// partition keys.
func keySpaceOrder(d Documents) []int64 {
	type place struct {
		epk   []byte
		index int64
	}
	known := make(map[partmap.Key][]byte)
	places := make([]place, d.Count())
	for i := range places {
		key := d.Key(int64(i))
		epk, ok := known[key]
		if !ok {
			e := key.EPK()
			epk = bytes.Clone(e.Bytes())
			known[key] = epk
		}
		places[i] = place{epk, int64(i)}
	}
	slices.SortFunc(places, func(a, b place) int {
		if order := bytes.Compare(a.epk, b.epk); order != 0 {
			return order
		}
		return int(a.index - b.index)
	})
	indexes := make([]int64, len(places))
	for i, p := range places {
		indexes[i] = p.index
	}
	return indexes
}

// Generated are the first documents of a generator; those behind them can be
// inserted.
type Generated struct {
	generator *workload.Generator
	n         int64
	keys      []partmap.Key // by logical partition; nil if there are many
	places    []uint8       // of these keys
}

// maxKeptKeys bounds Generated.keys to a few megabytes.
const maxKeptKeys = 1 << 17

// NewGenerated returns the documents of g with indexes below n.
func NewGenerated(g *workload.Generator, n int64) *Generated {
	d := &Generated{generator: g, n: n}
	if partitions := g.Params().LogicalPartitions; partitions <= maxKeptKeys {
		d.keys, d.places = make([]partmap.Key, partitions), make([]uint8, partitions)
		for p := range d.keys {
			d.keys[p] = partmap.String(string(g.AppendKey(nil, p)))
			d.places[p] = place(d.keys[p])
		}
	}
	return d
}

// Generator returns what makes the documents.
func (d *Generated) Generator() *workload.Generator { return d.generator }

// Count implements Documents.
func (d *Generated) Count() int64 { return d.n }

// Key implements Documents.
func (d *Generated) Key(i int64) partmap.Key {
	p := d.generator.Partition(i)
	if d.keys != nil {
		return d.keys[p]
	}
	return partmap.String(string(d.generator.AppendKey(nil, p)))
}

// place returns the place of document i, where keys are kept.
func (d *Generated) place(i int64) uint8 { return d.places[d.generator.Partition(i)] }

// AppendID implements Documents.
func (d *Generated) AppendID(dst []byte, i int64) []byte { return d.generator.AppendID(dst, i) }

// AppendVersion implements Documents. Version 0 is the one that loads write.
func (d *Generated) AppendVersion(_ context.Context, dst []byte, i int64, version uint64) ([]byte, error) {
	return d.generator.Append(dst, i, version), nil
}

// Check implements Documents.
func (d *Generated) Check(body []byte, id string) bool { return workload.IsDocument(body, id) }

// KeyBytes is about what a partition key takes in memory.
const KeyBytes = 48

// Memory is about what is kept to know the documents, in bytes.
func (d *Generated) Memory() int64 {
	return int64(d.generator.Params().LogicalPartitions*8 + len(d.keys)*KeyBytes)
}
