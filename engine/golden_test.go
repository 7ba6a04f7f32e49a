package engine

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/splitter"
)

// Golden files are stores, backups and streams that a program of their time has
// written: see testdata/golden/README.md.
const goldenDir = "testdata/golden"

// goldenTime is the time at which golden stores were written, but for what the
// clock of the script has moved on since; they are read a day later.
var goldenTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func goldenOptions(fsys vfs.FS, after time.Duration) *Options {
	o := testOptions(fsys)
	var looked atomic.Int64 // time passes when it is looked at: no call is throttled
	o.clock = func() time.Time {
		return goldenTime.Add(after + time.Duration(looked.Add(1))*10*time.Millisecond)
	}
	o.elapsed = func() time.Duration { return 0 }
	return o
}

// goldenNames returns the names of golden files whose names begin so.
func goldenNames(t *testing.T, prefix string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(goldenDir, prefix+"*.zip"))
	must(t, err)
	for _, name := range found {
		names = append(names, strings.TrimSuffix(filepath.Base(name), ".zip"))
	}
	if len(names) == 0 {
		t.Fatalf("no %s* in %s", prefix, goldenDir)
	}
	return names
}

// readGolden unpacks a golden file.
func readGolden(t *testing.T, name string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(filepath.Join(goldenDir, name+".zip"))
	must(t, err)
	defer z.Close()
	files := make(map[string][]byte)
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		must(t, r.Close())
		files[f.Name] = b
	}
	return files
}

// goldenStore unpacks a golden store into a file system.
func goldenStore(t *testing.T, name string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	files := readGolden(t, name)
	made := map[string]bool{".": true}
	var mkdir func(dir string)
	mkdir = func(dir string) {
		if !made[dir] {
			mkdir(path.Dir(dir))
			must(t, mem.Mkdir(dir))
			must(t, mem.SyncDir(path.Dir(dir)))
			made[dir] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mkdir(path.Dir(name))
		must(t, mem.WriteFile(name, files[name]))
		must(t, mem.SyncDir(path.Dir(name)))
	}
	return mem
}

// checkListing compares what a store holds with what the golden file says.
func checkListing(t *testing.T, name, what string, db *DB) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(goldenDir, name+".txt"))
	must(t, err)
	got, wanted := strings.Split(goldenListing(t, db), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(got), len(wanted)) {
		if db.opts.ReadOnly {
			wanted[i], _, _ = strings.Cut(wanted[i], " with ")
		}
		if got[i] != wanted[i] {
			t.Fatalf("%s, line %d: %s\nwant %s", what, i+1, got[i], wanted[i])
		}
	}
	if len(got) != len(wanted) {
		t.Fatalf("%s: %d lines, want %d", what, len(got), len(wanted))
	}
}

// throughputText is that of a partition, which a read-only store does not give.
const throughputText = " with %v RU/s"

// goldenListing tells everything that a store holds.
func goldenListing(t *testing.T, db *DB) string {
	t.Helper()
	var b strings.Builder
	names := make(map[string]bool)
	for info := range db.Containers() {
		names[info.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c, err := db.Container(name)
		must(t, err)
		listContainer(t, &b, c)
	}
	return b.String()
}

func listContainer(t *testing.T, b *strings.Builder, c *Container) {
	ctx := context.Background()
	d := c.Def()
	l := d.Limits
	fmt.Fprintf(b, "container %s: %v, key %s, %s, ttl %v, %v RU/s, no burst %v, replicated %v, limits %d %d %d %d %v, retention %v, index %v %v, unique %v\n",
		c.Name(), d.Kind, d.KeyText(), d.Compression, d.DefaultTTL, d.Throughput, d.NoBurst, d.Replicated,
		l.ItemBytes, l.LogicalPartitionBytes, l.BatchOperations, l.BatchBytes, l.PartitionThroughput, d.ChangeRetention, d.Index.Include, d.Index.Exclude, d.UniqueKeys)
	for _, p := range c.Partitions() {
		index, err := c.AppliedIndex(p.ID)
		must(t, err)
		fmt.Fprintf(b, "partition [%s, %s) at %d", p.Min, p.Max, index)
		if !c.db.opts.ReadOnly && d.Throughput > 0 {
			fmt.Fprintf(b, throughputText, p.Throughput)
		}
		fmt.Fprintln(b)
	}
	for pk, l := range c.LimitedKeys() {
		fmt.Fprintf(b, "limits of %s: %v RU/s, %d bytes; default %v RU/s\n", pk, l.Throughput, l.Bytes, d.Limits.LogicalPartitionThroughput)
	}
	line := func(it Item) {
		expires := "never"
		if !it.Expires.IsZero() {
			expires = fmt.Sprint(it.Expires.UnixMilli())
		}
		fmt.Fprintf(b, "%s %q %d %d %s %s\n", it.Key, it.ID, it.Seq, it.Modified.UnixMilli(), expires, shortBody(it.Body))
	}
	var forward []string
	for it, err := range c.ScanAll(ctx, nil) {
		must(t, err)
		line(it)
		forward = append(forward, it.Key.String()+it.ID)
		one, err := c.Read(ctx, it.Key, it.ID)
		if err != nil || one.Seq != it.Seq || !bytes.Equal(one.Body, it.Body) {
			t.Errorf("read of %s %s: %v", it.Key, it.ID, err)
		}
	}
	for it, err := range c.ScanAll(ctx, &ScanOptions{Reverse: true}) {
		must(t, err)
		if last := len(forward) - 1; last < 0 || forward[last] != it.Key.String()+it.ID {
			t.Fatalf("the reverse scan of %s shows %s %s", c.Name(), it.Key, it.ID)
		} else {
			forward = forward[:last]
		}
	}
	for l, err := range c.LogicalPartitions(ctx) {
		must(t, err)
		key, err := l.Key()
		must(t, err)
		fmt.Fprintf(b, "logical %s\n", key)
	}
	if d.Kind == JSON {
		where := Or(Range("/n", Incl(2), Excl(6)), HasPrefix("/s", "w3"), Eq("/n", 10))
		n, err := c.Count(ctx, AllPartitions(), where)
		must(t, err)
		fmt.Fprintf(b, "query: %d", n)
		for it, err := range c.Query(ctx, AllPartitions(), Query{Where: where, OrderBy: []QueryOrder{{Path: "/n", Desc: true}}}).All() {
			must(t, err)
			fmt.Fprintf(b, " %s/%s", it.Key, it.ID)
		}
		fmt.Fprintln(b)
	}
	if d.ChangeRetention == 0 {
		return
	}
	var changes []Change
	for ch, err := range c.Changes(ctx, AllPartitions(), ChangePosition{}, &ChangeOptions{AllVersions: true}) {
		must(t, err)
		ch.Body = slices.Clone(ch.Body)
		changes = append(changes, ch)
	}
	slices.SortStableFunc(changes, func(x, y Change) int {
		return cmp.Or(strings.Compare(x.Key.String(), y.Key.String()), cmp.Compare(x.Seq, y.Seq))
	})
	for _, ch := range changes {
		fmt.Fprintf(b, "change %s %q %v %d after %d %s\n", ch.Key, ch.ID, ch.Kind, ch.Seq, ch.Previous, shortBody(ch.Body))
	}
}

// shortBody is a body, or what tells it from others if it is long.
func shortBody(body []byte) string {
	if len(body) <= 120 {
		return fmt.Sprintf("%q", body)
	}
	return fmt.Sprintf("%q… %d bytes, crc %08x", body[:60], len(body), crc32.ChecksumIEEE(body))
}

// TestGoldenNames: the README beside the golden files says of each what it is.
func TestGoldenNames(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(goldenDir, "README.md"))
	must(t, err)
	for _, name := range goldenNames(t, "") {
		if !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("%s is not named", name)
		}
	}
}

// TestGoldenStores opens stores that older programs have written, read-only and
// for writing, compares all that they hold, writes to them, has all files written
// anew and opens them again.
func TestGoldenStores(t *testing.T) {
	ctx := context.Background()
	for _, name := range goldenNames(t, "store-") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range []ReadMode{ReadMapped, ReadPositioned} {
				mem := goldenStore(t, name)
				before := filesOf(t, mem)
				o := goldenOptions(mem, 24*time.Hour)
				o.ReadOnly, o.ReadMode = true, mode
				db, err := Open(ctx, "golden", o)
				must(t, err)
				checkListing(t, name, "read-only", db)
				must(t, db.Close())
				if !maps.Equal(before, filesOf(t, mem)) {
					t.Error("a read-only open has changed files")
				}
			}
			checkWritable(t, name, goldenStore(t, name), "")
		})
	}
}

// checkWritable opens the store in a directory of mem for writing, compares,
// writes and reopens.
func checkWritable(t *testing.T, name string, mem *vfs.Mem, dir string) {
	t.Helper()
	ctx := context.Background()
	open := func() *DB {
		db, err := Open(ctx, "golden", goldenOptions(below{mem, dir}, 24*time.Hour))
		must(t, err)
		return db
	}
	db := open()
	checkListing(t, name, "opened", db)
	checkVerified(t, db)
	must(t, db.Close())

	// Nothing was written, but what was in the log only may be in files now.
	db = open()
	must(t, db.Flush(ctx))
	checkListing(t, name, "flushed", db)
	must(t, db.Compact(ctx))
	checkListing(t, name, "settled", db)

	want := writeGolden(t, db)
	check := func(what string) {
		t.Helper()
		got := goldenItems(t, db)
		if !maps.Equal(got, want) {
			t.Errorf("%s: %d items, want %d", what, len(got), len(want))
		}
	}
	check("written")
	mem = mem.Kill()
	db.Close()
	db = open()
	check("killed")
	must(t, db.Flush(ctx))
	must(t, db.Compact(ctx))
	check("settled")
	for info := range db.Containers() {
		c, err := db.Container(info.Name)
		must(t, err)
		if !c.Def().Replicated {
			job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
			must(t, err)
			if err := job.Wait(ctx); err != nil && !errors.Is(err, splitter.ErrRefused) {
				t.Fatal(err)
			}
		}
		if len(c.Def().UniqueKeys) > 0 {
			must(t, compareClaims(db, c))
		}
	}
	check("split")
	checkVerified(t, db)
	must(t, db.Close())
	db = open()
	check("reopened")
	checkVerified(t, db)
	must(t, db.Close())
}

// goldenItems returns the items of all containers.
func goldenItems(t *testing.T, db *DB) map[string]string {
	t.Helper()
	items := make(map[string]string)
	for info := range db.Containers() {
		c, err := db.Container(info.Name)
		must(t, err)
		for it, err := range c.ScanAll(context.Background(), nil) {
			must(t, err)
			items[info.Name+" "+it.Key.String()+" "+it.ID] = string(it.Body)
		}
	}
	return items
}

// writeGolden puts an item beside every fourth item of each container, writes
// every third anew and deletes every fifth. It returns what is there then.
func writeGolden(t *testing.T, db *DB) map[string]string {
	t.Helper()
	ctx := context.Background()
	want := goldenItems(t, db)
	for info := range db.Containers() {
		c, err := db.Container(info.Name)
		must(t, err)
		var items []Item
		for it, err := range c.ScanAll(ctx, nil) {
			must(t, err)
			it.Body = slices.Clone(it.Body)
			items = append(items, it)
		}
		put := func(b *Batch, key PartitionKey, id string, body []byte) {
			t.Helper()
			if c.Def().Kind == Opaque {
				must(t, b.Put(id, body, nil))
			} else {
				must(t, b.Upsert(body, nil))
			}
			want[info.Name+" "+key.String()+" "+id] = string(body)
		}
		for i, it := range items {
			b := c.NewBatch(it.Key)
			if i%4 == 0 {
				id := it.ID + "+"
				body := it.Body
				if c.Def().Kind == JSON {
					var doc map[string]any
					must(t, json.Unmarshal(it.Body, &doc))
					doc["id"], doc["u"], doc["s"] = id, id, id
					body, err = json.Marshal(doc)
					must(t, err)
				}
				put(b, it.Key, id, body)
			}
			if i%3 == 0 {
				body := append(slices.Clone(it.Body), ' ')
				put(b, it.Key, it.ID, body)
			} else if i%5 == 0 {
				must(t, b.Delete(it.ID, nil))
				delete(want, info.Name+" "+it.Key.String()+" "+it.ID)
			}
			switch {
			case b.Len() == 0:
			case c.Def().Replicated:
				epk := it.Key.EPK()
				for _, p := range c.Partitions() {
					if !c.partition(p.ID).Range.Contains(&epk) {
						continue
					}
					index, err := c.AppliedIndex(p.ID)
					must(t, err)
					applied, err := c.ApplyAt(ctx, p.ID, Entry{Index: index + 1, Time: goldenTime.Add(24 * time.Hour), Batches: []*Batch{b}})
					must(t, err)
					must(t, applied.Results[0].Err)
				}
			default:
				_, err := c.Commit(ctx, b)
				must(t, err)
			}
		}
	}
	return want
}

// TestGoldenBackups verifies and restores backups that older programs have
// written, a full one by itself and with the one that follows it.
func TestGoldenBackups(t *testing.T) {
	ctx := context.Background()
	for _, name := range goldenNames(t, "backup") {
		files := readGolden(t, name)
		full, both := files["full"], slices.Concat(files["full"], files["incremental"])
		for i, backups := range [][]byte{full, both} {
			infos, err := VerifyBackup(ctx, bytes.NewReader(backups))
			if err != nil || len(infos) != i+1 {
				t.Fatalf("%s: %d backups, %v", name, len(infos), err)
			}
			mem := vfs.NewMem()
			must(t, backup.Restore(ctx, mem, "copy", bytes.NewReader(backups)))
			db, err := Open(ctx, "copy", goldenOptions(below{mem, "copy"}, 24*time.Hour))
			must(t, err)
			checkVerified(t, db)
			if i == 0 {
				if len(goldenItems(t, db)) == 0 {
					t.Errorf("%s: the full backup is empty", name)
				}
				must(t, db.Close())
				continue
			}
			checkListing(t, name, "restored", db)
			must(t, db.Close())
			checkWritable(t, name, mem, "copy")
		}
	}
}

// TestGoldenStreams installs partitions that older programs have exported.
func TestGoldenStreams(t *testing.T) {
	ctx := context.Background()
	for _, name := range goldenNames(t, "stream") {
		mem := vfs.NewMem()
		db, err := Open(ctx, "golden", goldenOptions(mem, 24*time.Hour))
		must(t, err)
		c, err := db.CreateContainer(ctx, "docs", replicaDef)
		must(t, err)
		files := readGolden(t, name)
		for _, part := range slices.Sorted(maps.Keys(files)) {
			_, err := c.InstallPartition(ctx, bytes.NewReader(files[part]))
			must(t, err)
		}
		must(t, db.Close())
		checkWritable(t, name, mem, "")
	}
}

// TestNewerFormats: what a newer program has written is refused, by that name,
// and its bytes stay as they are.
func TestNewerFormats(t *testing.T) {
	ctx := context.Background()
	le := binary.LittleEndian
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	// raise changes a version and makes the checksum right that covers it.
	raise := func(b []byte, version, sum, from, to int) {
		le.PutUint32(b[version:], 1000)
		le.PutUint32(b[sum:], crc32.Checksum(b[from:to], castagnoli))
	}
	header := func(b []byte) []byte { raise(b, 8, 60, 0, 60); return b }
	text := func(b []byte) []byte {
		line, body, _ := bytes.Cut(b, []byte("\n"))
		words := strings.Split(string(line), " ")
		head := strings.Join(append(words[:2:2], "1000"), " ")
		sum := crc32.Update(crc32.Checksum([]byte(head), castagnoli), castagnoli, body)
		return fmt.Appendf(nil, "%s %08x %d\n%s", head, sum, len(body), body)
	}
	footer := func(b []byte) []byte {
		raise(b[len(b)-512:], 8, 508, 0, 508)
		return b
	}
	for what, newer := range map[string]struct {
		file   string // of which one is changed
		change func([]byte) []byte
	}{
		"segment header":     {"p/*/*.seg", header},
		"segment footer":     {"p/*/*.seg", footer},
		"partition manifest": {"p/*/MANIFEST-*", text},
		"store manifest":     {"MANIFEST-*", text},
		"log":                {"wal/*.log", header},
	} {
		mem := goldenStore(t, "store-killed")
		changed := 0
		for _, name := range mem.Names() {
			if ok, _ := path.Match(newer.file, name); ok {
				b, err := mem.ReadFile(name)
				must(t, err)
				must(t, mem.WriteFile(name, newer.change(slices.Clone(b))))
				changed++
			}
		}
		if changed == 0 {
			t.Fatalf("%s: no file", what)
		}
		before := filesOf(t, mem)
		for _, readOnly := range []bool{true, false} {
			o := goldenOptions(mem, 24*time.Hour)
			o.ReadOnly = readOnly
			if db, err := Open(ctx, "golden", o); !errors.Is(err, ErrTooNew) {
				t.Errorf("%s, read-only %v: %v", what, readOnly, err)
				if err == nil {
					db.Close()
				}
			}
		}
		if !maps.Equal(before, filesOf(t, mem)) {
			t.Errorf("%s: files were changed", what)
		}
	}

	full := readGolden(t, "backup")["full"]
	raise(full, 8, 36, 0, 36)
	if _, err := VerifyBackup(ctx, bytes.NewReader(full)); !errors.Is(err, ErrTooNew) {
		t.Errorf("verify of a backup: %v", err)
	}
	mem := vfs.NewMem()
	if err := backup.Restore(ctx, mem, "copy", bytes.NewReader(full)); !errors.Is(err, ErrTooNew) || len(mem.Names()) != 0 {
		t.Errorf("restore of a backup: %v, leaves %v", err, mem.Names())
	}

	db, err := Open(ctx, "golden", goldenOptions(vfs.NewMem(), 24*time.Hour))
	must(t, err)
	defer db.Close()
	c, err := db.CreateContainer(ctx, "docs", replicaDef)
	must(t, err)
	var b bytes.Buffer
	head := c.transferHead(c.partition(c.Partitions()[0].ID).Range)
	head.Format = 1000
	w, err := transfer.NewWriter(&b, &head)
	must(t, err)
	must(t, w.Close())
	if _, err := c.InstallPartition(ctx, &b); !errors.Is(err, ErrTooNew) {
		t.Errorf("install: %v", err)
	}
}
