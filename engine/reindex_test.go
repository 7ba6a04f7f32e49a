package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestSetIndexPolicy changes policies beside writers, splits and merges.
func TestSetIndexPolicy(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := *testOptions(mem)
	opts.manual = false
	db, c := openStore(t, &opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range 1500 {
				doc := fmt.Appendf(nil, `{"id":"%d","k":"%d","n":%d,"tags":["x",%d]}`, i%400, i%7, i, w)
				if _, err := c.Upsert(ctx, doc, &WriteOptions{Durability: Buffered}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	policies := []IndexPolicy{IndexAll(), {Include: []string{"/n/?"}}, {}, {Include: []string{"/*"}, Exclude: []string{"/tags/*"}}}
	for i, p := range policies {
		if err := db.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		job, err := c.SetIndexPolicy(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if _, err := c.Split(ctx, c.Partitions()[0].ID, nil); err != nil && !errors.Is(err, ErrRefused) {
				t.Fatal(err)
			}
		}
		job.Progress()
		if err := job.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if got := c.Def().Index; !reflect.DeepEqual(got, p) {
			t.Fatalf("policy %v, not %v", got, p)
		}
	}
	writers.Wait()
	first, err := c.SetIndexPolicy(ctx, IndexAll())
	if err != nil {
		t.Fatal(err)
	}
	last, err := c.SetIndexPolicy(ctx, policies[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(ctx); err != nil && !errors.Is(err, ErrIndexReplaced) {
		t.Fatal(err)
	}
	if err := last.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if files, bytes, _ := c.stale(); files != 0 {
		t.Fatalf("%d files, %d bytes without an index after Compact", files, bytes)
	}
	checkVerified(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(ctx, "store", &opts); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if c, err = db.Container("c"); err != nil || !reflect.DeepEqual(c.Def().Index, policies[1]) {
		t.Fatalf("after a reopen: %v, %v", c.Def().Index, err)
	}
}

func TestIndexPolicyRefused(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, "store", testOptions(vfs.NewMem()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	bad := IndexPolicy{Include: []string{"/a"}}
	if _, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, Index: bad}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a bad policy: %v", err)
	}
	if _, err := db.CreateContainer(ctx, "o", ContainerDef{Kind: Opaque, Index: IndexAll()}); !errors.Is(err, ErrInvalid) {
		t.Errorf("an index of an opaque container: %v", err)
	}
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetIndexPolicy(ctx, bad); !errors.Is(err, ErrInvalid) {
		t.Errorf("a bad policy: %v", err)
	}
	large := IndexAll()
	for i := range 10_000 {
		large.Exclude = append(large.Exclude, fmt.Sprintf("/m%d/?", i))
	}
	if _, err := c.SetIndexPolicy(ctx, large); !errors.Is(err, ErrInvalid) {
		t.Errorf("a policy of 10,001 patterns: %v", err)
	}
	if _, err := db.CreateContainer(ctx, "l", ContainerDef{PartitionKey: []string{"/k"}, Index: large}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a container with a policy of 10,001 patterns: %v", err)
	}
	job, err := c.SetIndexPolicy(ctx, IndexAll())
	if err != nil || job.Wait(ctx) != nil {
		t.Errorf("a container without files: %v", err)
	}
}

// TestIndexJobAsksFewPartitions: where a partition has no file left that needs an index, it is not looked for one in all
// others: only up to the first that has one, and in none when the index job has ended.
func TestIndexJobAsksFewPartitions(t *testing.T) {
	ctx := t.Context()
	faulty := vfs.NewFaulty(vfs.NewMem())
	db, c := openStore(t, testOptions(faulty), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 3})
	parts := c.routing.Load().parts
	written := 0
	write := func() {
		t.Helper()
		for i := range 40 {
			must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"a","k":"%d"}`, i), nil)))
		}
		must(t, db.Flush(ctx))
		written++
		for _, p := range parts {
			if n := len(p.Version.Load().Runs); n < written && p != parts[0] {
				t.Fatalf("partition %d has %d runs", p.ID, n)
			}
		}
	}
	reads := 0 // of files of the last partition
	faulty.SetHook(func(call vfs.Call) error {
		if call.Op == vfs.OpRead && strings.HasPrefix(call.Name, parts[2].Dir+"/") {
			reads++
		}
		return nil
	})
	// reindex indexes the first partition, and returns the reads for that.
	reindex := func() int {
		t.Helper()
		reads = 0
		for {
			if done, err := parts[0].reindexOne(ctx, false); err != nil {
				t.Fatal(err)
			} else if !done {
				return reads
			}
		}
	}

	write()
	def := c.def.inner()
	policy, err := def.CompileIndex(index.All())
	must(t, err)
	job, err := c.replacePolicy(IndexAll(), policy)
	must(t, err)
	write()
	if n := reindex(); n > 0 || job.ended() {
		t.Errorf("%d reads, ended %t, while the second partition has a file left", n, job.ended())
	}
	must(t, c.reindexAll(ctx))
	must(t, job.Wait(ctx))
	write()
	if n := reindex(); n > 0 {
		t.Errorf("%d reads after the job has ended", n)
	}
}

// TestDamagedIndex damages an index: queries get an error that names the file and
// a place in the index; point reads do not notice; a merge fails, and the next one
// makes the index anew of the documents.
func TestDamagedIndex(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.memtableBytes = 1 << 20
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	for i := range 1000 {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a","n":%d,"s":"the %dth"}`, i, i%5, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	name, from := indexPlace(t, c)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	mem = mem.Kill()
	good, err := mem.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte{}, good...)
	damaged[from+100] ^= 4
	if err := mem.WriteFile(name, damaged); err != nil {
		t.Fatal(err)
	}
	opts.fs = mem
	if db, err = Open(ctx, "store", opts); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if c, err = db.Container("c"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(ctx, StringKey("a"), "7"); err != nil {
		t.Errorf("point read: %v", err)
	}
	p := c.routing.Load().parts[0]
	query := func() error {
		guard := db.env.Epoch.Enter()
		defer guard.Leave()
		var q lsm.Sources
		if err := q.Open(p.Data(), p.Version.Load(), p.Visible.Load(), lifetime.Past{}, c.family.Indexing.Load(), true, nil, nil); err != nil {
			return err
		}
		return q.List[len(q.List)-1].Use(func(r *index.Reader) error {
			var all index.Set
			all.Reset(0, r.Info().Items)
			return r.Union(context.Background(), index.Documents(), &all)
		})
	}
	err = query()
	var place *CorruptionError
	if !errors.As(err, &place) || place.File != mem.Path(name) || place.Offset < from || place.Offset > from+4096 {
		t.Fatalf("query: %v", err)
	}
	findings := 0
	for f, err := range db.Verify(ctx) {
		if err != nil || f.File != mem.Path(name) {
			t.Fatal(f, err)
		}
		findings++
	}
	if findings == 0 {
		t.Error("verify does not notice")
	}
	// Merges write it anew: the first finds it damaged, if no query did.
	for i := range 3 {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a","n":%d}`, i, i%5), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	merge := func() error {
		v := p.Version.Load()
		oldest := v.Runs[len(v.Runs)-1].Files[0]
		return writeAnew(ctx, &p.Tree, oldest)
	}
	oldest := p.Version.Load().Runs
	oldest[len(oldest)-1].Files[0].BadIndex.Store(false)
	if err := merge(); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("first merge: %v", err)
	}
	if err := merge(); err != nil {
		t.Fatalf("second merge: %v", err)
	}
	if err := query(); err != nil {
		t.Fatalf("query: %v", err)
	}
	checkVerified(t, db)
}

// indexPlace returns the newest file of a container and where its index begins.
func indexPlace(t *testing.T, c *Container) (file string, offset int64) {
	t.Helper()
	f := c.routing.Load().parts[0].Version.Load().Runs[0].Files[0]
	section, ok := f.Index(true)
	if !ok {
		t.Fatal("no index")
	}
	var place *CorruptionError
	errors.As(section.Corrupt(0, fault.ErrCorrupt), &place)
	return f.Name, place.Offset
}

// TestDamagedIndexIsMadeAnew: a query that meets damage in an index wakes the background, which makes the index anew: there
// need be no flush.
func TestDamagedIndexIsMadeAnew(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.FileBytes, opts.memtableBytes = 1<<20, 1<<20
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	const items = 1000
	for i := range items {
		must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a"}`, i), nil)))
	}
	must(t, db.Flush(ctx))
	name, from := indexPlace(t, c)
	must(t, db.Close())
	bytes, err := mem.ReadFile(name)
	must(t, err)
	bytes[from+100] ^= 4
	must(t, mem.WriteFile(name, bytes))

	db, c = openStore(t, opts)
	woken := 0
	db.env.CompactSoon = func() { woken++ }
	if _, err := c.Count(ctx, AllPartitions(), Exists("/id")); !errors.Is(err, ErrCorrupt) || woken == 0 {
		t.Errorf("%v, woken %d times", err, woken)
	}
	if done, err := c.routing.Load().parts[0].reindexOne(ctx, false); !done || err != nil {
		t.Errorf("what the background does: %t, %v", done, err)
	}
	if n, err := c.Count(ctx, AllPartitions(), Exists("/id")); n != items || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
}

// TestIndexJobOfDroppedContainer drops a container before anybody wrote one of
// its files anew: the job ends all the same.
func TestIndexJobOfDroppedContainer(t *testing.T) {
	ctx := context.Background()
	opts := *testOptions(vfs.NewMem())
	opts.manual = false
	db, c := openStore(t, &opts)
	if _, err := c.Upsert(ctx, []byte(`{"id":"a","k":"a","n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	p := c.routing.Load().parts[0]
	if err := p.Compacting.Lock(ctx); err != nil { // nobody indexes it
		t.Fatal(err)
	}
	job, err := c.SetIndexPolicy(ctx, IndexAll())
	if err != nil {
		t.Fatal(err)
	}
	if got := job.Progress(); got.Done || got.FilesLeft != 1 {
		t.Errorf("progress %+v", got)
	}
	dropped := make(chan error, 1)
	go func() { dropped <- db.DropContainer(ctx, "c") }()
	if err := job.Wait(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	p.Compacting.Unlock()
	if err := <-dropped; err != nil {
		t.Error(err)
	}
}

// TestIndexAfterReplay opens a store whose log is larger than the memtables may be. The open
// makes no index for the files that it writes: queries give the right answers all the same,
// and background work makes the indexes.
func TestIndexAfterReplay(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	mem := vfs.NewMem()
	large := testOptions(mem)
	large.MemoryBudget, large.memtableBytes, large.Durability = 64<<20, 32<<20, Buffered
	db, c := openStore(t, large, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 3, Index: IndexAll()})
	const items, values = 1400, 7
	pad := strings.Repeat("cleave ", 900)
	for i := range items {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"%d","n":%d,"pad":"%s"}`, i, i%97, i%values, pad), nil); err != nil {
			t.Fatal(err)
		}
	}
	if db.Stats().Flushes > 0 {
		t.Fatal("the log is not larger than the memtables")
	}
	checkCounts := func(c *Container) {
		t.Helper()
		for n := range values {
			want := int64((items + values - 1 - n) / values)
			if got, err := c.Count(ctx, AllPartitions(), Eq("/n", n)); err != nil || got != want {
				t.Errorf("n = %d: %d items, %v; want %d", n, got, err, want)
			}
		}
	}

	small := testOptions(mem.Kill())
	db, c = openStore(t, small)
	files, _, _ := c.stale()
	if db.Stats().Flushes == 0 || files == 0 {
		t.Fatalf("%d flushes, %d files without an index", db.Stats().Flushes, files)
	}
	checkCounts(c)
	checkVerified(t, db)
	if err := c.reindexAll(ctx); err != nil {
		t.Fatal(err)
	}
	if files, _, _ := c.stale(); files > 0 {
		t.Errorf("%d files without an index", files)
	}
	checkCounts(c)
	checkVerified(t, db)

	small = testOptions(mem.Kill())
	small.manual = false
	indexed := make(chan struct{}, 1000)
	small.Events = &EventListener{Compacted: func(CompactionEvent) { indexed <- struct{}{} }}
	_, c = openStore(t, small)
	checkCounts(c)
	for {
		if files, _, _ := c.stale(); files == 0 {
			break
		}
		<-indexed
	}
	checkCounts(c)
}
