package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/stream"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// forgedChild says, in the environment of a test, that it is the child of one.
const forgedChild = "CLEAVE_FORGED_CHILD"

// forgedBytes is what all that is done with a forged store may allocate, beyond eight
// times what the store itself takes.
const forgedBytes = 64 << 20

// TestForgedStores changes sections of the segment files of whole stores, and makes
// the checksums over them right, up to those in the manifests. The stores are opened
// in both ways, read, written, merged and backed up, in a process of their own: one
// that dies of memory or does not end takes no other test with it.
func TestForgedStores(t *testing.T) {
	if os.Getenv(forgedChild) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestForgedStores$", "-test.timeout=5m", fmt.Sprintf("-test.short=%t", testing.Short()),
			fmt.Sprintf("-full=%t", *fullFlag), fmt.Sprintf("-seed=%d", newSeed(t)))
		cmd.Env = append(os.Environ(), forgedChild+"=1", "GOMEMLIMIT=512MiB")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	limitMemory(t)
	rng := rand.New(rand.NewPCG(newSeed(t), 5))
	bases := map[string]*vfs.Mem{"small": forgeStore(t, true)}
	for _, name := range goldenNames(t, "store") {
		bases[name] = goldenStore(t, name)
	}
	allocated := func(do func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	forged := 0
	for _, name := range slices.Sorted(maps.Keys(bases)) {
		base := bases[name]
		sound := allocated(func() { exerciseAll(t, name, base.Clone()) })
		n := amount(12, 3, 2)
		if *fullFlag {
			n = 1000
		}
		for range n {
			image := base.Clone()
			what := fmt.Sprintf("%s: %s", name, forgeSection(t, image, rng))
			forged++
			if took := allocated(func() { exerciseAll(t, what, image) }); took > 8*sound+forgedBytes {
				t.Errorf("%s: %d bytes were allocated, %d are of the store as it was", what, took, sound)
			}
		}
	}
	t.Logf("%d forged stores", forged)
}

// exerciseAll is exercise, and before it the reading of the store by who does not write.
func exerciseAll(t *testing.T, what string, mem *vfs.Mem) {
	t.Helper()
	ctx := context.Background()
	opts := testOptions(mem)
	opts.ReadOnly = true
	db, err := Open(ctx, "store", opts)
	if err == nil {
		for info := range db.Containers() {
			c, err := db.Container(info.Name)
			must(t, err)
			for _, reverse := range []bool{false, true} {
				for _, err := range c.ScanAll(ctx, &ScanOptions{Reverse: reverse}) {
					if err != nil && !known(err) {
						t.Errorf("%s: scan, reverse %t: %v", what, reverse, err)
					}
				}
			}
			for range c.LogicalPartitions(ctx) {
			}
		}
		err = db.Close()
	}
	if err != nil && !known(err) {
		t.Errorf("%s: read only: %v", what, err)
	}
	exercise(t, what, mem)
}

// forgeSection changes a few numbers in one section of one segment file, and makes
// right the checksums over it.
func forgeSection(t *testing.T, mem *vfs.Mem, rng *rand.Rand) (what string) {
	t.Helper()
	le := binary.LittleEndian
	sum := func(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
	var files []string
	for _, name := range mem.Names() {
		if ok, _ := path.Match("p/*/*.seg", name); ok {
			files = append(files, name)
		}
	}
	name := files[rng.IntN(len(files))]
	old, err := mem.ReadFile(name)
	must(t, err)
	b := slices.Clone(old)
	foot := b[len(b)-512:]
	f, err := segment.DecodeFooter(name, foot, int64(len(b)))
	must(t, err)
	which := rng.IntN(len(f.Sections))
	s := f.Sections[which]
	section := b[s.Off : s.Off+s.Len]
	what = fmt.Sprintf("%s, section %d of kind %v", name, which, s.Kind)
	for range 1 + rng.IntN(3) {
		if len(section) < 8 {
			break
		}
		at := rng.IntN(len(section) - 7)
		switch value := []uint64{0, 1, 0xff, 0xffff, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1<<64 - 1}[rng.IntN(8)]; rng.IntN(3) {
		case 0:
			section[at] = byte(value)
		case 1:
			le.PutUint32(section[at:], uint32(value))
		case 2:
			le.PutUint32(section[at:], le.Uint32(section[at:])+uint32(rng.IntN(5))-2)
		}
		what += fmt.Sprintf(", %d", at)
	}
	var tables segment.Section
	for i, s := range f.Sections {
		switch s.Kind {
		case segment.SectionPartitions:
			tables = s
		case segment.SectionChecksums:
			for at, i := tables.Off, s.Off; at < s.Off && i+4 <= s.Off+s.Len; at, i = at+4096, i+4 {
				le.PutUint32(b[i:], sum(b[at:min(at+4096, s.Off)]))
			}
		}
		if le.Uint32(foot[48+24*i+4:]) == sum(old[s.Off:s.Off+s.Len]) {
			le.PutUint32(foot[48+24*i+4:], sum(b[s.Off:s.Off+s.Len]))
		}
	}
	le.PutUint32(foot[508:], sum(foot[:508]))
	must(t, mem.WriteFile(name, b))
	number, _ := manifest.ParseSegmentName(path.Base(name))
	dir := path.Dir(name)
	for _, name := range manifestsOf(mem) {
		if path.Dir(name) != dir {
			continue
		}
		text, err := mem.ReadFile(name)
		must(t, err)
		var files manifest.Files
		must(t, manifest.Decode(name, manifest.PartitionKind, text, &files))
		for _, r := range files.Runs {
			for i := range r.Files {
				if r.Files[i].Number == number {
					r.Files[i].FooterCRC = le.Uint32(foot[508:])
				}
			}
		}
		generation, _ := manifest.ParseName(path.Base(name))
		text, err = manifest.Encode(manifest.PartitionKind, generation, &files)
		must(t, err)
		must(t, mem.WriteFile(name, text))
	}
	return what
}

// FuzzInstall installs streams whose blocks are any bytes, with right checksums.
func FuzzInstall(f *testing.F) {
	ctx := context.Background()
	db, err := Open(ctx, "store", testOptions(vfs.NewMem()))
	must(f, err)
	f.Cleanup(func() { db.Close() })
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	must(f, err)
	var exported bytes.Buffer
	must(f, second(c.ExportPartition(ctx, c.Partitions()[0].ID, &exported)))
	r := stream.NewReader("stream", bytes.NewReader(exported.Bytes()))
	blocks := map[byte][]byte{}
	for {
		kind, payload, err := r.Next()
		if err != nil {
			break
		}
		blocks[kind] = bytes.Clone(payload)
	}
	f.Add(blocks[blockHead], []byte{}, blocks[blockTail])
	f.Add(blocks[blockHead], []byte("items"), []byte(`{"items":1}`))
	f.Fuzz(func(t *testing.T, head, items, tail []byte) {
		var b bytes.Buffer
		w, err := stream.NewWriter(&b)
		must(t, err)
		for _, block := range []struct {
			kind    byte
			payload []byte
		}{{blockHead, head}, {blockItems, items}, {blockTail, tail}} {
			if len(block.payload) > 0 {
				must(t, w.Block(block.kind, block.payload))
			}
		}
		must(t, w.Close())
		if _, err := c.InstallPartition(ctx, &b); err != nil && !known(err) {
			t.Errorf("%v", err)
		}
	})
}
