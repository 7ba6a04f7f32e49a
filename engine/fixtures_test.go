package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// testOptions are options of a small store on fsys, whose background work
// happens only when it is asked for.
func testOptions(fsys vfs.FS) *Options {
	return &Options{
		MemoryBudget: minMemoryBudget, LogFileBytes: minLogFileBytes, LogBytes: 8 * minLogFileBytes, FileBytes: 32 << 10,
		fs: fsys, manual: true, memtableBytes: 64 << 10, reserveBytes: 16 << 10, foldBytes: 1,
	}
}

// byK is the definition of a container with the key /k.
var byK = ContainerDef{PartitionKey: []string{"/k"}}

// openStore opens a store with options, in a temporary directory if they name no file
// system, and returns it with its container "c". If that is not there, it is made with a
// definition, byK unless one is given.
func openStore(t testing.TB, o *Options, def ...ContainerDef) (*DB, *Container) {
	t.Helper()
	dir := "mem"
	if o.fs == nil {
		dir = t.TempDir()
	}
	db, err := Open(context.Background(), dir, o)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	c, err := db.Container("c")
	if errors.Is(err, ErrNoContainer) {
		c, err = db.CreateContainer(context.Background(), "c", append(def, byK)[0])
	}
	must(t, err)
	return db, c
}

// testClock is a clock that tests set, beside one that does not jump.
type testClock struct{ wall, steady atomic.Int64 }

func newTestClock(o *Options) *testClock {
	c := new(testClock)
	c.wall.Store(int64(1_700_000_000 * time.Second))
	o.clock = func() time.Time { return time.Unix(0, c.wall.Load()) }
	o.elapsed = func() time.Duration { return time.Duration(c.steady.Load()) }
	return c
}

// pass lets time pass.
func (c *testClock) pass(d time.Duration) {
	c.wall.Add(int64(d))
	c.steady.Add(int64(d))
}

// doc returns a small document.
func doc(id, k string, n int) []byte { return fmt.Appendf(nil, `{"id":%q,"k":%q,"n":%d}`, id, k, n) }

// smallDocument returns a document with a text of size bytes.
func smallDocument(id, k string, size int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"k":%q,"x":%q}`, id, k, strings.Repeat("x", size))
}

// documentOf makes a document of exactly so many bytes.
func documentOf(id, k string, bytes int) []byte {
	head := fmt.Sprintf(`{"id":%q,"k":%q,"x":"`, id, k)
	return []byte(head + strings.Repeat("x", bytes-len(head)-2) + `"}`)
}

// upsert writes a small document with the key "a".
func upsert(t testing.TB, c *Container, id string, size int) {
	t.Helper()
	if _, err := c.Upsert(context.Background(), smallDocument(id, "a", size), nil); err != nil {
		t.Fatal(err)
	}
}

// killedStore returns a store whose writer was killed after n synced puts.
func killedStore(t *testing.T, n int) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.LogFileBytes = 1 << 20
	_, c := openStore(t, opts)
	for i := range n {
		upsert(t, c, string(rune('a'+i%26))+string(rune('a'+i/26)), i)
	}
	return mem.Kill()
}

// bufferedStore is a store with ten writes of which no sync was asked for.
func bufferedStore(t *testing.T) (*vfs.Mem, *DB, *Container) {
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.Durability = Buffered
	db, c := openStore(t, opts)
	for i := range 10 {
		upsert(t, c, fmt.Sprint(i), 10)
	}
	return mem, db, c
}

// openTwenty opens a store of twenty items, some of them in a file and some in memory.
func openTwenty(t *testing.T) (*DB, *Container) {
	t.Helper()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	for i := range 20 {
		upsert(t, c, fmt.Sprint(i), 100)
		if i == 10 {
			must(t, db.Flush(t.Context()))
		}
	}
	return db, c
}

// queryStore is a container of 400 documents in four partitions, half of them
// flushed.
func queryStore(t *testing.T, policy IndexPolicy) *Container {
	t.Helper()
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4, Index: policy})
	for i := range 400 {
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"i%03d","k":%d,"n":%d,"s":"text %d"}`, i, i%20, i, i%7), nil)))
		if i == 200 {
			must(t, db.Flush(t.Context()))
		}
	}
	return c
}

// someBackups makes a store with files and a log, a full backup of it and two
// incremental ones.
func someBackups(t *testing.T) (db *DB, c *Container, streams [][]byte, infos []BackupInfo) {
	t.Helper()
	ctx := context.Background()
	db, c = openStore(t, testOptions(vfs.NewMem()))
	var since *BackupInfo
	for i := range 3 {
		for n := range 8 {
			upsert(t, c, fmt.Sprint(i, "-", n), 40)
			if n == 4 {
				must(t, db.Flush(ctx))
			}
		}
		var stream bytes.Buffer
		info, err := db.Backup(ctx, &stream, &BackupOptions{Since: since})
		must(t, err)
		streams, infos, since = append(streams, stream.Bytes()), append(infos, info), &info
	}
	return db, c, streams, infos
}

// holds says whether a store has that many items in its container c.
func holds(fsys vfs.FS, items int) error {
	ctx := context.Background()
	db, err := Open(ctx, "copy", testOptions(fsys))
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := db.Container("c")
	if err != nil {
		return err
	}
	n := 0
	for _, err := range c.ScanAll(ctx, nil) {
		if err != nil {
			return err
		}
		n++
	}
	if n != items {
		return fmt.Errorf("%d items", n)
	}
	return nil
}

// filesOf returns the bytes of all files but LOCK and RESERVE.
func filesOf(t *testing.T, mem *vfs.Mem) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, name := range mem.Names() {
		if b, err := mem.ReadFile(name); err == nil && name != manifest.LockName && name != manifest.ReserveName {
			files[name] = string(b)
		}
	}
	return files
}

// results returns the bodies of the results of a query, up to an error.
func results(r *QueryResult) (list []string, err error) {
	for it, err := range r.All() {
		if err != nil {
			return list, err
		}
		list = append(list, string(it.Body))
	}
	return list, nil
}

// collectItems returns items up to an error.
func collectItems(seq func(func(Item, error) bool)) (items []Item, err error) {
	for it, err := range seq {
		if err != nil {
			return items, err
		}
		items = append(items, it)
	}
	return items, nil
}

// checkVerified has a store verify itself.
func checkVerified(t testing.TB, db *DB) {
	t.Helper()
	for f, err := range db.Verify(context.Background()) {
		must(t, err)
		t.Errorf("verify: %v", f)
	}
}

// keyOfEachPartition returns, for each physical partition, a key that lies in
// it.
func keyOfEachPartition(c *Container) []PartitionKey {
	rt := c.routing.Load()
	keys := make([]PartitionKey, len(rt.parts))
	for i, found := 0, 0; found < len(keys); i++ {
		key := NumberKey(float64(i))
		epk := key.EPK()
		if at := rt.table.Find(&epk); !keys[at].Valid() {
			keys[at] = key
			found++
		}
	}
	return keys
}

// partitionOf returns the physical partition of a key.
func partitionOf(c *Container, key PartitionKey) PartitionID {
	epk := key.EPK()
	rt := c.routing.Load()
	return rt.parts[rt.table.Find(&epk)].ID
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call that returns a value too.
func second[T any](_ T, err error) error { return err }

// until waits for something that another goroutine brings about.
func until(holds func() bool) {
	for !holds() {
		runtime.Gosched()
	}
}

// background calls fn on another goroutine and returns a channel for its error.
func background(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}
