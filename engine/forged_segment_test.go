package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// firstSegment returns the first segment file of a store that is closed, and what is in it.
func firstSegment(t testing.TB, mem *vfs.Mem) (name string, b []byte) {
	t.Helper()
	for _, name := range mem.Names() {
		if ok, _ := path.Match("p/*/*.seg", name); ok {
			b, err := mem.ReadFile(name)
			must(t, err)
			return name, b
		}
	}
	t.Fatal("no segment file")
	return "", nil
}

// forgeSegments changes a table of every segment file of a store that is closed,
// and makes right the checksums over it, up to those in the manifests.
func forgeSegments(t *testing.T, mem *vfs.Mem, kind segment.SectionKind, change func(table []byte)) {
	t.Helper()
	le := binary.LittleEndian
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	sums := make(map[string]uint32)
	for _, name := range mem.Names() {
		if ok, _ := path.Match("p/*/*.seg", name); !ok {
			continue
		}
		b, err := mem.ReadFile(name)
		must(t, err)
		b = slices.Clone(b)
		foot := b[len(b)-512:]
		f, err := segment.DecodeFooter(name, foot, int64(len(b)))
		must(t, err)
		var tables, sum segment.Section
		for i, s := range f.Sections {
			switch s.Kind {
			case kind:
				change(b[s.Off : s.Off+s.Len])
			case segment.SectionPartitions:
				tables = s
			case segment.SectionChecksums:
				sum = s
				for at, i := tables.Off, sum.Off; at < sum.Off; at, i = at+4096, i+4 {
					le.PutUint32(b[i:], crc32.Checksum(b[at:min(at+4096, sum.Off)], castagnoli))
				}
				le.PutUint32(foot[48+24*i+4:], crc32.Checksum(b[sum.Off:sum.Off+sum.Len], castagnoli))
			}
		}
		le.PutUint32(foot[508:], crc32.Checksum(foot[:508], castagnoli))
		sums[name] = le.Uint32(foot[508:])
		must(t, mem.WriteFile(name, b))
	}
	for _, name := range mem.Names() {
		if ok, _ := path.Match("p/*/MANIFEST-*", name); !ok {
			continue
		}
		b, err := mem.ReadFile(name)
		must(t, err)
		var files manifest.Files
		must(t, manifest.Decode(name, manifest.PartitionKind, b, &files))
		for i := range files.Runs {
			for j := range files.Runs[i].Files {
				f := &files.Runs[i].Files[j]
				f.FooterCRC = sums[path.Join(path.Dir(name), manifest.SegmentName(f.Number))]
			}
		}
		generation, _ := manifest.ParseName(path.Base(name))
		b, err = manifest.Encode(manifest.PartitionKind, generation, &files)
		must(t, err)
		must(t, mem.WriteFile(name, b))
	}
}

// forgedStore is a store with one file whose table is forged.
func forgedStore(t *testing.T, kind segment.SectionKind, change func(table []byte)) (*DB, *Container) {
	t.Helper()
	ctx := context.Background()
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.FileBytes, o.memtableBytes = 4<<20, 4<<20
	db, err := Open(ctx, "forged", o)
	must(t, err)
	def := ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()}
	c, err := db.CreateContainer(ctx, "c", def)
	must(t, err)
	for n := range 2000 {
		_, err := c.Upsert(ctx, doc(fmt.Sprint("i", n), fmt.Sprint("k", n%9), n), nil)
		must(t, err)
	}
	must(t, db.Flush(ctx))
	must(t, db.Close())
	forgeSegments(t, mem, kind, change)
	db, err = Open(ctx, "forged", o)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	c, err = db.Container("c")
	must(t, err)
	return db, c
}

// TestForgedOrdinals: a file whose ordinals fall overwrites no more of it than it
// has.
func TestForgedOrdinals(t *testing.T) {
	db, c := forgedStore(t, segment.SectionOffsets, func(table []byte) {
		for at := 0; at+64 <= len(table); at += 64 {
			if at > 0 {
				binary.LittleEndian.PutUint32(table[at+8:], uint32(len(table)-at))
			}
		}
	})
	f := db.partitions()[0].Version.Load().Runs[0].Files[0]
	refused := 0
	for n := range 9 {
		key := StringKey(fmt.Sprint("k", n))
		k := itemKeyOf(key)
		_, versions, err := f.OverwrittenBy(k.Lookup())
		if errors.Is(err, ErrCorrupt) {
			refused++
		} else if err != nil || uint64(versions) > f.Properties().Items {
			t.Fatalf("%d versions of %d, %v", versions, f.Properties().Items, err)
		}
	}
	if refused == 0 {
		t.Error("no contradiction was seen")
	}
	// A flush that meets it fails, or takes little: it does not take it for true.
	for n := range 9 {
		err := c.DeleteLogicalPartition(context.Background(), StringKey(fmt.Sprint("k", n)), nil)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	}
	if err := db.Flush(context.Background()); err != nil && !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// TestForgedIndexItems: an index that says that it is of more versions than the
// file has is refused before it is used.
func TestForgedIndexItems(t *testing.T) {
	_, c := forgedStore(t, segment.SectionIndex, func(table []byte) {
		at := len(table) - 128
		for string(table[at:at+8]) != "CLVINDEX" {
			at++
		}
		binary.LittleEndian.PutUint32(table[at+12:], math.MaxInt32)
	})
	if n, err := c.Count(context.Background(), AllPartitions(), Exists("/k")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%d, %v", n, err)
	}
}

// itemKeyOf is the key of the tombstone of a logical partition.
func itemKeyOf(key PartitionKey) item.Key {
	epk := key.EPK()
	return item.Key{Hash: item.HashOf(epk.Bytes()), EPK: slices.Clone(epk.Bytes()), PK: slices.Clone(key.Encoded())}
}
