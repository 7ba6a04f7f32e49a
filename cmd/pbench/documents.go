package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// documents are what a run reads and writes, by index. They are safe for
// concurrent use.
type documents interface {
	count() int64
	key(i int64) partmap.Key
	appendID(dst []byte, i int64) []byte
	// appendVersion appends another version of document i.
	appendVersion(ctx context.Context, dst []byte, i int64, version uint64) ([]byte, error)
	// check reports whether body is some version of the document with this id.
	check(body []byte, id string) bool
	// inserts reports whether documents at and past count can be made.
	inserts() bool
	// memory is about what is kept to know them, in bytes.
	memory() int64
}

// generated are the documents of a generator.
type generated struct {
	generator *workload.Generator
	n         int64
	keys      []partmap.Key // by logical partition; nil if there are many
}

// maxKeptKeys bounds generated.keys to a few megabytes.
const maxKeptKeys = 1 << 17

func newGenerated(g *workload.Generator, n int64) *generated {
	d := &generated{generator: g, n: n}
	if partitions := g.Params().LogicalPartitions; partitions <= maxKeptKeys {
		d.keys = make([]partmap.Key, partitions)
		for p := range d.keys {
			d.keys[p] = partmap.String(string(g.AppendKey(nil, p)))
		}
	}
	return d
}

func (d *generated) count() int64 { return d.n }

func (d *generated) key(i int64) partmap.Key {
	p := d.generator.Partition(i)
	if d.keys != nil {
		return d.keys[p]
	}
	return partmap.String(string(d.generator.AppendKey(nil, p)))
}

func (d *generated) appendID(dst []byte, i int64) []byte { return d.generator.AppendID(dst, i) }

func (d *generated) appendVersion(_ context.Context, dst []byte, i int64, version uint64) ([]byte, error) {
	return d.generator.Append(dst, i, version), nil
}

func (d *generated) check(body []byte, id string) bool { return workload.IsDocument(body, id) }

func (d *generated) inserts() bool { return true }

// keyBytes is about what a partition key takes in memory.
const keyBytes = 48

func (d *generated) memory() int64 {
	return int64(d.generator.Params().LogicalPartitions*8 + len(d.keys)*keyBytes)
}

// sampled are documents that were loaded from elsewhere: their names are read
// from the container, an update writes a document again as it is.
type sampled struct {
	c     container
	keys  []partmap.Key
	names []sampledName
	ids   []byte // one after the other
}

// sampledName is the name of a document: places in keys and ids.
type sampledName struct {
	key, id uint32
	idBytes uint16
}

// maxSampled bounds the names that are kept, at 30 to 60 bytes each.
const maxSampled = 1 << 20

// sampleDocuments reads the names of the documents in c, or of so many of
// them, evenly spread over the key space, that limit is not exceeded. It calls
// progress now and then with the number of documents that were read.
func sampleDocuments(ctx context.Context, c container, limit int64, progress func(n int64)) (*sampled, error) {
	d := &sampled{c: c}
	stride := (c.Stats().documents + limit - 1) / limit
	n := int64(0)
	for name, err := range c.Keys(ctx) {
		if err != nil {
			return nil, fmt.Errorf("read the keys: %w", err)
		}
		if n++; n%4096 == 0 {
			progress(n)
		}
		if stride > 1 && n%stride != 0 || int64(len(d.names)) == limit {
			continue
		}
		if last := len(d.keys) - 1; last < 0 || d.keys[last] != name.key {
			d.keys = append(d.keys, name.key)
		}
		d.names = append(d.names, sampledName{key: uint32(len(d.keys) - 1), id: uint32(len(d.ids)), idBytes: uint16(len(name.id))})
		d.ids = append(d.ids, name.id...)
	}
	return d, nil
}

func (d *sampled) count() int64 { return int64(len(d.names)) }

func (d *sampled) key(i int64) partmap.Key { return d.keys[d.names[i].key] }

func (d *sampled) id(i int64) []byte {
	n := d.names[i]
	return d.ids[n.id : n.id+uint32(n.idBytes)]
}

func (d *sampled) appendID(dst []byte, i int64) []byte { return append(dst, d.id(i)...) }

func (d *sampled) appendVersion(ctx context.Context, dst []byte, i int64, _ uint64) ([]byte, error) {
	return d.c.Read(ctx, d.key(i), string(d.id(i)), dst)
}

func (d *sampled) check(body []byte, _ string) bool { return len(body) > 0 }

func (d *sampled) inserts() bool { return false }

func (d *sampled) memory() int64 {
	return int64(cap(d.keys)*keyBytes + cap(d.names)*12 + cap(d.ids))
}

// findDocuments returns the documents of a container: those of the generator
// that filled it, or else what it holds.
func findDocuments(ctx context.Context, env *environment, dir, name string, c container) (documents, *origin, error) {
	known, err := readCatalog(dir)
	if err != nil {
		return nil, nil, err
	}
	var d documents
	var from *origin
	if o, ok := known.Containers[name]; ok {
		g, err := workload.NewGenerator(o.Generator)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: container %q: %w", catalogName, name, err)
		}
		d, from = newGenerated(g, o.Documents), &o
	} else {
		bar := newProgress(env, "read the keys", time.Now())
		defer bar.end()
		d, err = sampleDocuments(ctx, c, maxSampled, func(n int64) {
			bar.show(time.Now(), -1, func() string { return formatCount(n) + " documents" })
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if d.count() == 0 {
		return nil, nil, errors.New("container " + name + " is empty: load something first")
	}
	return d, from, nil
}
