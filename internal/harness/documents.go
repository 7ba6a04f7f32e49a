package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// Documents are what a run reads and writes.
type Documents interface {
	measure.Documents
	// Memory is about what is kept to know them, in bytes.
	Memory() int64
}

// CanInsert reports whether documents past the existing ones can be made.
func CanInsert(d Documents) bool {
	_, ok := d.(*measure.Generated)
	return ok
}

// sampled are documents that were loaded from elsewhere: their names are read
// from the container, an update writes a document again as it is.
type sampled struct {
	Container Container
	keys      []partmap.Key
	names     []sampledName
	ids       []byte // one after the other
}

// sampledName is the name of a document: places in keys and ids.
type sampledName struct {
	key, ID uint32
	idBytes uint16
}

// maxSampled bounds the names that are kept, at 30 to 60 bytes each.
const maxSampled = 1 << 20

// SampleDocuments reads the names of the documents in c, or of so many of
// them, evenly spread over the key space, that limit is not exceeded. It calls
// progress now and then with the number of documents that were read.
func SampleDocuments(ctx context.Context, c Container, limit int64, progress func(n int64)) (*sampled, error) {
	d := &sampled{Container: c}
	stride := (c.Stats().Documents + limit - 1) / limit
	n := int64(0)
	for name, err := range c.Keys(ctx) {
		if err != nil {
			return nil, fmt.Errorf("read the keys: %w", err)
		}
		if n++; n%4096 == 0 {
			progress(n)
		}
		if stride > 1 && n%stride != 1 || int64(len(d.names)) == limit {
			continue
		}
		if last := len(d.keys) - 1; last < 0 || d.keys[last] != name.Key {
			d.keys = append(d.keys, name.Key)
		}
		d.names = append(d.names, sampledName{key: uint32(len(d.keys) - 1), ID: uint32(len(d.ids)), idBytes: uint16(len(name.ID))})
		d.ids = append(d.ids, name.ID...)
	}
	return d, nil
}

// Count implements measure.Documents.
func (d *sampled) Count() int64 { return int64(len(d.names)) }

// Key implements measure.Documents.
func (d *sampled) Key(i int64) partmap.Key { return d.keys[d.names[i].key] }

func (d *sampled) id(i int64) []byte {
	n := d.names[i]
	return d.ids[n.ID : n.ID+uint32(n.idBytes)]
}

// AppendID implements measure.Documents.
func (d *sampled) AppendID(dst []byte, i int64) []byte { return append(dst, d.id(i)...) }

// AppendVersion implements measure.Documents: a document is written again as
// it is.
func (d *sampled) AppendVersion(ctx context.Context, dst []byte, i int64, _ uint64) ([]byte, error) {
	return d.Container.Read(ctx, d.Key(i), string(d.id(i)), dst)
}

// Check implements measure.Documents.
func (d *sampled) Check(body []byte, _ string) bool { return len(body) > 0 }

// Memory implements documents.
func (d *sampled) Memory() int64 {
	return int64(cap(d.keys)*measure.KeyBytes + cap(d.names)*12 + cap(d.ids))
}

// findDocuments returns the documents of a container: those of the generator
// that filled it, or else what it holds.
func findDocuments(ctx context.Context, env *Environment, dir, name string, c Container) (Documents, *Origin, error) {
	known, err := ReadCatalog(dir)
	if err != nil {
		return nil, nil, err
	}
	var d Documents
	var from *Origin
	if o, ok := known.Containers[name]; ok {
		g, generatorErr := workload.NewGenerator(o.Generator)
		if generatorErr != nil {
			return nil, nil, fmt.Errorf("%s: container %q: %w", CatalogName, name, generatorErr)
		}
		if jsondoc.SamePaths(c.Def().PartitionKey, []string{g.KeyPath()}) { // else it has taken the place of one that was dropped
			d, from = measure.NewGenerated(g, o.Documents), &o
		}
	}
	if d == nil {
		bar := NewProgress(env, "read the keys", time.Now())
		defer bar.End()
		d, err = SampleDocuments(ctx, c, maxSampled, func(n int64) {
			bar.Show(time.Now(), -1, func() string { return humanize.Count(n) + " documents" })
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if d.Count() == 0 {
		return nil, nil, errors.New("container " + name + " is empty: load something first")
	}
	return d, from, nil
}
