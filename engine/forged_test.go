package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/forge"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/stream"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// The tests below change what files and streams say, and make their checksums right
// again. A store answers that with an error of a type that callers know, or goes
// on; it does not panic, hang or take memory out of proportion.

// forgeStore makes a small store that has a bit of everything, and closes it, or
// leaves what a kill leaves.
func forgeStore(t testing.TB, closed bool) *vfs.Mem {
	ctx := context.Background()
	mem := vfs.NewMem()
	db, err := Open(ctx, "store", testOptions(mem))
	must(t, err)
	docs, err := db.CreateContainer(ctx, "docs", ContainerDef{
		PartitionKey: []string{"/k"}, MinPartitions: 2, Index: IndexAll(), DefaultTTL: NoExpiry, ChangeRetention: time.Hour, UniqueKeys: [][]string{{"/u"}},
	})
	must(t, err)
	replicated, err := db.CreateContainer(ctx, "replicated", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	must(t, err)
	for i := range 60 {
		if i == 40 {
			must(t, db.Flush(ctx))
			job, err := docs.Split(ctx, docs.Partitions()[0].ID, nil)
			must(t, err)
			must(t, job.Wait(ctx))
		}
		k := string(rune('a' + i%7))
		var o *WriteOptions
		if i%3 == 0 {
			o = &WriteOptions{TTL: time.Hour}
		}
		_, err := docs.Upsert(ctx, fmt.Appendf(nil, `{"id":"i%d","k":%q,"u":%d,"s":"%0100d"}`, i%30, k, i, i), o)
		must(t, err)
		b := replicated.NewBatch(StringKey(k))
		must(t, b.Upsert(fmt.Appendf(nil, `{"id":"i%d","k":%q}`, i%30, k), nil))
		_, err = replicated.ApplyAt(ctx, replicated.Partitions()[0].ID, Entry{Index: uint64(i + 1), Time: db.opts.clock(), Batches: []*Batch{b}})
		must(t, err)
	}
	must(t, docs.DeleteLogicalPartition(ctx, StringKey("b"), nil))
	must(t, db.keepMarks())
	if closed {
		must(t, db.Close())
		return mem.Kill()
	}
	defer db.abandonForTest()
	return mem.Clone()
}

// known says whether callers can tell an error by its type.
func known(err error) bool {
	for _, kind := range []error{
		ErrCorrupt, ErrTooNew, ErrMissing, ErrInvalid, ErrNotFound, ErrNoContainer, ErrExists, ErrUniqueKey, ErrClockSkew, ErrTooLarge, ErrIndexGap, ErrWrongParent,
		ErrBusy, ErrFailed, ErrLogicalPartitionFull, ErrPrecondition,
		ErrReplicated, ErrCopying, ErrCopied, ErrClosed, ErrThrottled, ErrRandomSuffix,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// checkKnown says whether a step of what is done with something forged succeeded. Its
// error must be known; of damage it says where that is.
func checkKnown(t *testing.T, what, step string, err error) bool {
	t.Helper()
	if err != nil && !known(err) {
		t.Errorf("%s: %s: %v", what, step, err)
	}
	if damage := (*CorruptionError)(nil); errors.Is(err, ErrCorrupt) && (!errors.As(err, &damage) || damage.File == "" || damage.Offset < 0) {
		t.Errorf("%s: %s: damage without a place: %v", what, step, err)
	}
	if err != nil && len(err.Error()) > 2000 {
		t.Errorf("%s: %s: an error of %d bytes", what, step, len(err.Error()))
	}
	return err == nil
}

// exercise opens a store and does everything with it. Each error must be known.
func exercise(t *testing.T, what string, fsys vfs.FS) (opened bool) {
	t.Helper()
	ctx := context.Background()
	check := func(step string, err error) bool {
		t.Helper()
		return checkKnown(t, what, step, err)
	}
	opts := testOptions(fsys)
	// A forged share of the throughput may be so small that a scan waits for hours.
	var passed atomic.Int64
	opts.clock = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	opts.pause = func(d time.Duration) { passed.Add(int64(d)) }
	db, err := Open(ctx, "store", opts)
	if !check("open", err) {
		return false
	}
	defer func() { check("close", db.Close()) }()
	check("backup", second(db.Backup(ctx, io.Discard, nil)))
	for info := range db.Containers() {
		c, err := db.Container(info.Name)
		if !check("container", err) {
			continue
		}
		for _, err := range c.ScanAll(ctx, nil) {
			check("scan", err)
		}
		for _, err := range c.Changes(ctx, AllPartitions(), FromStart(), nil) {
			check("changes", err)
		}
		check("query", second(c.Count(ctx, AllPartitions(), Exists("/s"))))
		check("write", second(c.Upsert(ctx, []byte(`{"id":"new","k":"a","u":"new"}`), nil)))
		check("delete", c.DeleteLogicalPartition(ctx, StringKey("c"), nil))
		for _, p := range c.Partitions() {
			check("export", second(c.ExportPartition(ctx, p.ID, io.Discard)))
		}
	}
	check("create", second(db.CreateContainer(ctx, "new", ContainerDef{PartitionKey: []string{"/k"}})))
	check("flush", db.Flush(ctx))
	check("settle", db.Compact(ctx))
	for _, err := range db.Verify(ctx) {
		check("verify", err)
	}
	return true
}

// manifestsOf returns the paths of the manifests of a store.
func manifestsOf(mem *vfs.Mem) (names []string) {
	for _, name := range mem.Names() {
		if _, ok := manifest.ParseName(name[strings.LastIndexByte(name, '/')+1:]); ok {
			names = append(names, name)
		}
	}
	return names
}

// TestForgedManifests changes each value in the manifests of a store.
func TestForgedManifests(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 1))
	share := sweep(4, 12, 40)
	opened, refused := 0, 0
	for _, closed := range []bool{true, false} {
		mem := forgeStore(t, closed)
		for _, name := range manifestsOf(mem) {
			data, err := mem.ReadFile(name)
			must(t, err)
			kind := manifest.PartitionKind
			generation, _ := manifest.ParseName(path.Base(name))
			if !strings.Contains(name, "/") {
				kind = manifest.StoreKind
			}
			_, body, _ := bytes.Cut(data, []byte("\n"))
			must(t, forge.EachJSON(body, func(where string, text []byte) {
				if rng.IntN(share) > 0 {
					return
				}
				forged, err := manifest.Encode(kind, generation, json.RawMessage(text))
				must(t, err)
				image := mem.Clone()
				must(t, image.WriteFile(name, forged))
				if exercise(t, fmt.Sprintf("closed %t, %s%s", closed, name, where), image) {
					opened++
				} else {
					refused++
				}
			}))
		}
	}
	if opened == 0 || refused == 0 {
		t.Errorf("%d mutants opened, %d were refused", opened, refused)
	}
}

// TestForgedHeads changes each value in the head and the tail of an installation.
func TestForgedHeads(t *testing.T) {
	ctx := context.Background()
	_, db, c, _ := outsideStore(t)
	defer db.Close()
	var blocks [][]byte
	var kinds []byte
	r := stream.NewReader("stream", bytes.NewReader(forgedStream(t, c, func(*transfer.Head, *item.Version) {})))
	for {
		kind, payload, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		kinds, blocks = append(kinds, kind), append(blocks, bytes.Clone(payload))
	}
	for which := range blocks {
		if kinds[which] == transfer.ItemsBlock {
			continue
		}
		must(t, forge.EachJSON(blocks[which], func(where string, text []byte) {
			var b bytes.Buffer
			w, err := stream.NewWriter(&b)
			must(t, err)
			for i := range blocks {
				payload := blocks[i]
				if i == which {
					payload = text
				}
				must(t, w.Block(kinds[i], payload))
			}
			must(t, w.Close())
			if _, err := c.InstallPartition(ctx, &b); err != nil && !known(err) {
				t.Errorf("block %d%s: %v", which, where, err)
			}
		}))
	}
}

// TestInstallOfNothing: a stream without a block is damaged.
func TestInstallOfNothing(t *testing.T) {
	_, db, c, _ := outsideStore(t)
	defer db.Close()
	var b bytes.Buffer
	w, err := stream.NewWriter(&b)
	must(t, err)
	must(t, w.Close())
	if _, err := c.InstallPartition(t.Context(), &b); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// TestForgedRecords puts records of random operations, some of them changed, at the end of
// the log.
func TestForgedRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 2))
	key := StringKey("a")
	for i := range amount(2000, 400, 60) {
		mem := vfs.NewMem()
		db, err := Open(context.Background(), "store", testOptions(mem))
		must(t, err)
		c, err := db.CreateContainer(context.Background(), "c", ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry, Replicated: i%2 == 0})
		must(t, err)
		number := func() uint64 {
			return []uint64{0, 1, uint64(rng.IntN(100)), 1 << 40, item.MaxSeq, item.MaxSeq + 1, math.MaxInt64, math.MaxUint64}[rng.IntN(8)]
		}
		carried := rng.IntN(2) == 0
		var payload []byte
		for range 1 + rng.IntN(3) {
			k := item.Key{PK: key.Encoded(), ID: []byte{byte('a' + rng.IntN(3))}}
			v := item.Version{Seq: number(), Modified: int64(number()), Expires: int64(number()), Flags: item.Flags(rng.IntN(4)), Body: []byte(`{"id":"a","k":"a"}`)}
			switch {
			case !carried:
				payload = append(logrecord.AppendHead(payload, &k, &v), v.Body...)
			case rng.IntN(4) == 0:
				payload = logrecord.AppendMark(payload, number(), manifest.Applied{Index: number(), Time: int64(number())})
			default:
				payload = logrecord.AppendCarried(payload, &k, &v)
			}
		}
		if rng.IntN(2) == 0 {
			payload[rng.IntN(len(payload))] ^= 1 << rng.IntN(8)
		}
		stream := wal.Stream(c.Partitions()[0].ID)
		if rng.IntN(8) == 0 {
			stream = wal.Stream(number())
		}
		if carried {
			_, _, err = db.log.AppendCarried(stream, number(), payload)
		} else {
			_, _, err = db.log.Append(stream, wal.TypeWrite, uint32(1+rng.IntN(3)), payload, nil)
		}
		must(t, err)
		must(t, db.log.Sync())
		mem = mem.Crash(vfs.CrashOptions{})
		db.abandonForTest()
		exercise(t, fmt.Sprintf("record %d: %x", i, payload), mem)
	}
}

// TestBackupBombs verifies and restores backups, and installs streams, whose JSON would take far more
// memory than it has bytes.
func TestBackupBombs(t *testing.T) {
	ctx := context.Background()
	const n = 1 << 20
	bomb := `{"store":{"intents":[` + strings.Repeat("{},", n) + `{}]}}`
	data := forgedBackup([]byte(bomb))
	_, db, c, _ := outsideStore(t)
	defer db.Close()
	var b bytes.Buffer
	w, err := stream.NewWriter(&b)
	must(t, err)
	must(t, w.Block(transfer.HeadBlock, []byte(`{"key":"`+strings.Repeat("x", n)+`","unique_keys":[`+strings.Repeat("[],", n)+`[]]}`)))
	must(t, w.Close())
	for name, do := range map[string]func() error{
		"verify":  func() error { return second(VerifyBackup(ctx, bytes.NewReader(data))) },
		"restore": func() error { return backup.Restore(ctx, vfs.NewMem(), "dir", bytes.NewReader(data)) },
		"install": func() error { return second(c.InstallPartition(ctx, bytes.NewReader(b.Bytes()))) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := do()
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrCorrupt) || len(err.Error()) > 1000 {
			t.Errorf("%s: %.200v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 16*uint64(len(bomb)) {
			t.Errorf("%s: %d bytes took %d", name, len(bomb), took)
		}
	}
}

// forgedBackup returns a backup with a catalog, its checksums right, up to the block
// behind it: a reader decodes the catalog when it has that.
func forgedBackup(catalog []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	data := append([]byte("cleavbak"), 1, 0, 0, 0)
	data = append(data, make([]byte, 24)...)
	data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, table))
	block := func(kind byte, piece []byte) {
		head := binary.LittleEndian.AppendUint32([]byte{kind, 0, 0, 0}, uint32(len(piece)))
		sum := binary.LittleEndian.AppendUint64(bytes.Clone(data[12:28]), uint64(len(data)))
		data = append(data, head...)
		data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(append(append(sum, head...), piece...), table))
		data = append(data, piece...)
	}
	for piece := range slices.Chunk(catalog, 1<<20) {
		block(1, piece)
	}
	block(4, make([]byte, 20))
	return data
}
