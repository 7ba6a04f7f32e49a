package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/forge"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/stream"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/internal/vfs"
)

// forgedChild says, in the environment of a test, that it is the child of one.
const forgedChild = "CLEAVE_FORGED_CHILD"

// forgedBytes is what all that is done with a forged store may allocate, beyond eight
// times what the store itself takes.
const forgedBytes = 64 << 20

// TestForgedStores changes segment files, manifests and log files of whole stores, backups, and
// streams of partitions, and makes the checksums right, those in files that name
// what was changed among them. Stores are opened in both ways, read, written, merged and backed up; backups are
// verified and restored, streams installed, and what comes of them is a store too. All
// of it happens in a process of its own: one that dies of memory or does not end takes no other test
// with it.
func TestForgedStores(t *testing.T) {
	if os.Getenv(forgedChild) == "" {
		most := 5 * time.Minute
		if *fullFlag {
			most = 3 * time.Hour
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestForgedStores$", fmt.Sprintf("-test.timeout=%v", most), fmt.Sprintf("-test.short=%t", testing.Short()),
			fmt.Sprintf("-full=%t", *fullFlag), fmt.Sprintf("-seed=%d", newSeed(t)))
		cmd.Env = append(os.Environ(), forgedChild+"=1", "GOMEMLIMIT=512MiB")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	limitMemory(t)
	rng := rand.New(rand.NewPCG(newSeed(t), 5))
	forged := 0
	// sweep has something tried as it is and then forged, as often as that.
	sweep := func(n int, try func(rng *rand.Rand) (what string)) {
		allocated := func(rng *rand.Rand) (string, uint64) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			what := try(rng)
			runtime.ReadMemStats(&after)
			return what, after.TotalAlloc - before.TotalAlloc
		}
		_, sound := allocated(nil)
		if *fullFlag {
			n *= 100
		}
		for range n {
			forged++
			if what, took := allocated(rng); took > 8*sound+forgedBytes {
				t.Errorf("%s: %d bytes were allocated, %d are of what it was made of", what, took, sound)
			}
		}
	}
	bases := map[string]*vfs.Mem{"small": forgeStore(t, true), "killed": forgeStore(t, false)}
	for _, name := range goldenNames(t, "store") {
		bases[name] = goldenStore(t, name)
	}
	for _, name := range slices.Sorted(maps.Keys(bases)) {
		sweep(amount(14, 3, 2), func(rng *rand.Rand) string {
			mem, what := bases[name].Clone(), name
			if rng != nil {
				what += ": " + forgeFile(t, mem, rng)
			}
			exerciseAll(t, what, mem)
			return what
		})
	}
	for _, name := range goldenNames(t, "backup") {
		for _, data := range readGolden(t, name) {
			sweep(amount(20, 4, 2), func(rng *rand.Rand) string { return exerciseBackup(t, name, data, rng) })
		}
	}
	for _, name := range goldenNames(t, "stream") {
		for _, data := range readGolden(t, name) {
			sweep(amount(20, 4, 2), func(rng *rand.Rand) string { return exerciseStream(t, name, data, rng) })
		}
	}
	t.Logf("%d forgeries", forged)
}

// forgedBy returns what a forger makes of data, and says what that is; without an rng
// the data as they are.
func forgedBy(rng *rand.Rand, forger func(*rand.Rand, []byte) ([]byte, string), what string, data []byte) (string, []byte) {
	if rng == nil {
		return what, data
	}
	forged, where := forger(rng, data)
	return what + ": " + where, forged
}

// exerciseBackup verifies and restores a backup, forged if there is an rng.
func exerciseBackup(t *testing.T, what string, data []byte, rng *rand.Rand) string {
	t.Helper()
	ctx := context.Background()
	what, data = forgedBy(rng, forge.Backup, what, data)
	checkKnown(t, what, "verify", second(VerifyBackup(ctx, bytes.NewReader(data))))
	mem := vfs.NewMem()
	err := backup.Restore(ctx, mem, "copy", bytes.NewReader(data))
	if checkKnown(t, what, "restore", err) {
		exerciseAll(t, what, below{mem, "copy"})
	} else if names := mem.Names(); len(names) > 0 {
		t.Errorf("%s: %v, and there are files %v", what, err, names)
	}
	return what
}

// exerciseStream installs a partition, forged if there is an rng.
func exerciseStream(t *testing.T, what string, data []byte, rng *rand.Rand) string {
	t.Helper()
	ctx := context.Background()
	what, data = forgedBy(rng, forge.Stream, what, data)
	mem := vfs.NewMem()
	db, err := Open(ctx, "store", testOptions(mem))
	must(t, err)
	c, err := db.CreateContainer(ctx, "docs", replicaDef)
	must(t, err)
	checkKnown(t, what, "install", second(c.InstallPartition(ctx, bytes.NewReader(data))))
	must(t, db.Close())
	exerciseAll(t, what, mem)
	return what
}

// exerciseAll is exercise, and before it the reading of the store by who does not write.
func exerciseAll(t *testing.T, what string, fsys vfs.FS) {
	t.Helper()
	ctx := context.Background()
	opts := testOptions(fsys)
	opts.ReadOnly = true
	db, err := Open(ctx, "store", opts)
	if checkKnown(t, what, "open read-only", err) {
		for info := range db.Containers() {
			c, err := db.Container(info.Name)
			must(t, err)
			for _, reverse := range []bool{false, true} {
				for _, err := range c.ScanAll(ctx, &ScanOptions{Reverse: reverse}) {
					checkKnown(t, what, "scan", err)
				}
			}
			for range c.LogicalPartitions(ctx) {
			}
		}
		checkKnown(t, what, "close", db.Close())
	}
	exercise(t, what, fsys)
}

// forgeFile changes a segment file, a manifest or a log file of a store.
func forgeFile(t *testing.T, mem *vfs.Mem, rng *rand.Rand) (what string) {
	t.Helper()
	kinds := []struct {
		pattern string
		forge   func(t *testing.T, mem *vfs.Mem, rng *rand.Rand, name string, b []byte) string
	}{{"p/*/*.seg", forgeSegment}, {"MANIFEST-*", forgeManifest}, {"p/*/MANIFEST-*", forgeManifest}, {"wal/*.log", forgeLog}}
	for {
		kind := kinds[rng.IntN(len(kinds))]
		names := slices.DeleteFunc(mem.Names(), func(name string) bool {
			ok, _ := path.Match(kind.pattern, name)
			return !ok
		})
		if len(names) > 0 {
			name := names[rng.IntN(len(names))]
			b, err := mem.ReadFile(name)
			must(t, err)
			return name + " " + kind.forge(t, mem, rng, name, slices.Clone(b))
		}
	}
}

func forgeLog(t *testing.T, mem *vfs.Mem, rng *rand.Rand, name string, b []byte) string {
	what := forge.Log(rng, b)
	must(t, mem.WriteFile(name, b))
	return what
}

// forgeManifest changes a manifest, and what other ones say of it that are edits of it.
func forgeManifest(t *testing.T, mem *vfs.Mem, rng *rand.Rand, name string, b []byte) string {
	forged, what := forge.Manifest(rng, b)
	must(t, mem.WriteFile(name, forged))
	for _, next := range manifestsOf(mem) { // in the order of their generations
		if path.Dir(next) != path.Dir(name) {
			continue
		}
		edit, err := mem.ReadFile(next)
		must(t, err)
		if rebased, ok := forge.Rebase(edit, b, forged); ok {
			must(t, mem.WriteFile(next, rebased))
			b, forged = edit, rebased
		}
	}
	return what
}

// forgeSegment changes a segment file, and what manifests say of it.
func forgeSegment(t *testing.T, mem *vfs.Mem, rng *rand.Rand, name string, b []byte) string {
	what := forge.Segment(rng, b)
	writeForged(t, mem, name, b)
	return what
}

// writeForged writes a segment file, and what manifests say of it.
func writeForged(t *testing.T, mem *vfs.Mem, name string, b []byte) {
	t.Helper()
	must(t, mem.WriteFile(name, b))
	number, _ := manifest.ParseSegmentName(path.Base(name))
	for _, of := range manifestsOf(mem) {
		if path.Dir(of) != path.Dir(name) {
			continue
		}
		text, err := mem.ReadFile(of)
		must(t, err)
		var files manifest.Files
		must(t, manifest.Decode(of, manifest.PartitionKind, text, &files))
		for _, r := range files.Runs {
			for i := range r.Files {
				if r.Files[i].Number == number {
					r.Files[i].FooterCRC = binary.LittleEndian.Uint32(b[len(b)-4:])
				}
			}
		}
		generation, _ := manifest.ParseName(path.Base(of))
		text, err = manifest.Encode(manifest.PartitionKind, generation, &files)
		must(t, err)
		must(t, mem.WriteFile(of, text))
	}
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
	f.Add(blocks[transfer.HeadBlock], []byte{}, blocks[transfer.TailBlock])
	f.Add(blocks[transfer.HeadBlock], []byte("items"), []byte(`{"items":1}`))
	f.Fuzz(func(t *testing.T, head, items, tail []byte) {
		var b bytes.Buffer
		w, err := stream.NewWriter(&b)
		must(t, err)
		for _, block := range []struct {
			kind    byte
			payload []byte
		}{{transfer.HeadBlock, head}, {transfer.ItemsBlock, items}, {transfer.TailBlock, tail}} {
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
