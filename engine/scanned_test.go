package engine

import (
	"fmt"
	"iter"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// through goes through all items of a loop.
func through(items iter.Seq2[Item, error]) error {
	for _, err := range items {
		if err != nil {
			return err
		}
	}
	return nil
}

// openUncompressed opens a store with the background at work, whose compactions keep to a rate unless that is 0, and in
// which files are as large as their documents.
func openUncompressed(t *testing.T, mem *vfs.Mem, rate int64) (*DB, *Container) {
	t.Helper()
	o := testOptions(mem)
	o.manual, o.memtableBytes, o.CompactionBytesPerSecond = false, 8<<20, rate
	return openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, Compression: NoCompression})
}

// TestScannedRuns: runs that tiers let rest are compacted when scans have sought in them often enough, and
// not for reads of single items.
func TestScannedRuns(t *testing.T) {
	key := StringKey("k")
	query, err := ParseQuery("SELECT * FROM c WHERE c.x = 'y'", nil)
	must(t, err)
	scan := func(o *ScanOptions) func(*Container) error {
		return func(c *Container) error { return through(c.Scan(t.Context(), key, IDRange{}, o)) }
	}
	for _, test := range []struct {
		name string
		read func(*Container) error
		pays bool
	}{
		{"scan", scan(nil), true},
		{"scan in reverse", scan(&ScanOptions{Reverse: true, Limit: 1}), true},
		{"scan of all", func(c *Container) error { return through(c.ScanAll(t.Context(), nil)) }, true},
		{"query by index", func(c *Container) error {
			return through(c.Query(t.Context(), OnePartition(key), query).All())
		}, true},
		{"read", func(c *Container) error { return second(c.Read(t.Context(), key, "1")) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := testOptions(vfs.NewMem())
				o.manual = false
				db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
				fillRuns(t, db, c, 5)
				// Four seeks each, of 2,048: see internal/tiers.
				const early, most = 500, 600
				reads := 0
				for ; reads < most && c.Partitions()[0].Runs == 5; reads++ {
					must(t, test.read(c))
					if reads >= early {
						synctest.Wait()
					}
				}
				switch runs := c.Partitions()[0].Runs; {
				case !test.pays && runs != 5:
					t.Errorf("%d runs after %d reads", runs, reads)
				case test.pays && (runs != 1 || reads < early):
					t.Errorf("%d runs after %d reads", runs, reads)
				}
				for i := range 5 {
					must(t, second(c.Read(t.Context(), key, fmt.Sprint(i))))
				}
				must(t, db.Close())
			})
		})
	}
}

// TestScannedBeforeLarge: a large run is left alone until scans have sought in it often, and each compaction needs
// seeks of its own.
func TestScannedBeforeLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, c := openUncompressed(t, vfs.NewMem(), 0)
		for i := range 3 {
			upsert(t, c, fmt.Sprint("large", i), 1<<20)
		}
		must(t, db.Flush(t.Context()))
		p := c.routing.Load().parts[0]
		runs := func() int { return c.Partitions()[0].Runs }
		scan := func(times int) {
			for range times {
				p.Sought(p.Version.Load(), runs())
			}
			synctest.Wait()
		}
		fillRuns(t, db, c, 3)
		scan(1000) // three seeks each, a third of them in the large run
		if n := runs(); n != 4 {
			t.Fatalf("%d runs, too early", n)
		}
		scan(100)
		if n := runs(); n != 2 {
			t.Fatalf("%d runs, want a large and a small one", n)
		}
		scan(2000)
		upsert(t, c, "small", 50)
		must(t, db.Flush(t.Context()))
		synctest.Wait()
		if n := runs(); n != 3 {
			t.Errorf("%d runs: seeks were counted for two compactions", n)
		}
		must(t, db.Close())
	})
}

// TestScansOfOneRun: scans that only one run has anything for ask for no compaction.
func TestScansOfOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(vfs.NewMem())
		o.manual = false
		db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
		for i := range 5 {
			must(t, second(c.Upsert(t.Context(), smallDocument("1", fmt.Sprint("k", i), 50), nil)))
			must(t, db.Flush(t.Context()))
		}
		query, err := ParseQuery("SELECT * FROM c WHERE c.x = 'y'", nil)
		must(t, err)
		for range 600 { // four seeks each would be enough
			must(t, through(c.Scan(t.Context(), StringKey("k0"), IDRange{}, nil)))
			must(t, through(c.Query(t.Context(), OnePartition(StringKey("k0")), query).All()))
		}
		synctest.Wait()
		if n := c.Partitions()[0].Runs; n != 5 {
			t.Errorf("%d runs", n)
		}
		must(t, db.Close())
	})
}

// TestScannedOnFullDisk: without room nothing is tried, and nothing is reported. Later scans count anew.
func TestScannedOnFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		db, c := openUncompressed(t, mem, 0)
		for i := range 3 {
			upsert(t, c, fmt.Sprint(i), 300_000)
			must(t, db.Flush(t.Context()))
		}
		p := c.routing.Load().parts[0]
		scan := func() {
			for range 4000 { // two seeks each, of 3,900
				p.Sought(p.Version.Load(), 3)
			}
			time.Sleep(time.Hour) // of the bubble: whatever is tried again is
			synctest.Wait()
		}
		const large = 1 << 40
		mem.SetCapacity(large)
		free, err := mem.Free()
		must(t, err)
		mem.SetCapacity(large - int64(free) + 1_000_000) // a compaction fits, but leaves hardly anything
		scan()
		if s := db.Stats(); s.BackgroundErrors > 0 || c.Partitions()[0].Runs != 3 {
			t.Errorf("%d errors, %d runs", s.BackgroundErrors, c.Partitions()[0].Runs)
		}
		mem.SetCapacity(math.MaxInt64)
		scan()
		if n := c.Partitions()[0].Runs; n != 1 {
			t.Errorf("with room again: %d runs", n)
		}
		must(t, db.Close())
	})
}

// TestScannedAtRate: where compactions keep to a rate, scans must have sought in the runs as much longer.
func TestScannedAtRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, c := openUncompressed(t, vfs.NewMem(), 1<<20)
		for i := range 3 {
			upsert(t, c, fmt.Sprint(i), 300_000)
			must(t, db.Flush(t.Context()))
		}
		p := c.routing.Load().parts[0]
		for _, after := range []struct{ scans, runs int }{{4000, 3}, {200_000, 1}} { // two seeks each; 3,900 without the rate, 345,000 with it
			for range after.scans {
				p.Sought(p.Version.Load(), 3)
			}
			time.Sleep(time.Minute) // of the bubble, where no time passes: a compaction that has begun ends
			synctest.Wait()
			if n := c.Partitions()[0].Runs; n != after.runs {
				t.Errorf("%d runs after %d scans more, want %d", n, after.scans, after.runs)
			}
		}
		must(t, db.Close())
	})
}

// TestScansAskAgain: a scan of an older version may pass the number that the newest one asks at.
func TestScansAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, c := openUncompressed(t, vfs.NewMem(), 0)
		upsert(t, c, "large", 2<<20-1000)
		must(t, db.Flush(t.Context()))
		fillRuns(t, db, c, 1)
		p := c.routing.Load().parts[0]
		old := p.Version.Load() // asks at 6,144 seeks
		for range 4000 {
			p.Sought(old, 2)
		}
		upsert(t, c, "small", 50)
		must(t, db.Flush(t.Context())) // from now on at 4,096
		synctest.Wait()
		for range 200 {
			p.Sought(old, 2)
		}
		for range 1024 {
			p.Sought(p.Version.Load(), 2)
		}
		synctest.Wait()
		if n := c.Partitions()[0].Runs; n == 3 {
			t.Error("the compaction was missed")
		}
		must(t, db.Close())
	})
}

// TestScannedPart: seeks in all runs say nothing about a part of them, in front of a compaction under way or of
// a file set aside.
func TestScannedPart(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	for i := range 7 {
		upsert(t, c, fmt.Sprint(i), 50)
		must(t, db.Flush(t.Context()))
	}
	p := c.routing.Load().parts[0]
	runs := p.Version.Load().Runs
	for range 1000 {
		p.Sought(p.Version.Load(), len(runs))
	}
	for end := range len(runs) {
		if plan, err := p.PickDue(runs[:end], false); err != nil || plan.Len() > 0 {
			t.Errorf("of %d runs %+v, %v", end, plan, err)
		}
	}
	if plan, err := p.PickDue(runs, true); err != nil || plan.Len() != len(runs) {
		t.Errorf("of all runs %+v, %v", plan, err)
	}
}

// TestScansWakeAtRate: scans wake compactors only when a compaction is worth it at the rate.
func TestScansWakeAtRate(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.memtableBytes, o.CompactionBytesPerSecond = 8<<20, 1<<20
	db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, Compression: NoCompression})
	for i := range 3 {
		upsert(t, c, fmt.Sprint(i), 300_000)
		must(t, db.Flush(t.Context()))
	}
	p := c.routing.Load().parts[0]
	woken := 0
	p.Env.CompactSoon = func() { woken++ }
	for i, wakes := range []bool{false, true} { // 345,000 seeks are worth it; 3,900 without the rate
		for range 100_000 {
			p.Sought(p.Version.Load(), 3)
		}
		if woken > 0 != wakes {
			t.Errorf("woken %d times after %d scans", woken, (i+1)*100_000)
		}
	}
}

// changedMeanwhile is a file system in which something changes before a file is made.
type changedMeanwhile struct {
	vfs.FS
	change func()
}

func (c *changedMeanwhile) Create(name string) (vfs.File, error) {
	c.change()
	return c.FS.Create(name)
}

// TestScannedOutdated: a compaction that scans have asked for starts over when what it may drop has changed
// meanwhile, though it has used up the seeks.
func TestScannedOutdated(t *testing.T) {
	fsys := &changedMeanwhile{FS: vfs.NewMem(), change: func() {}}
	o := testOptions(fsys)
	o.ExpiryGrace = -1
	clock := newTestClock(o)
	db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: 10 * time.Second, MutableTTL: true})
	for i := range 5 {
		upsert(t, c, fmt.Sprint(i), 50)
		must(t, db.Flush(t.Context()))
		clock.pass(3 * time.Second)
	}
	p := c.routing.Load().parts[0]
	for range 1000 {
		p.Sought(p.Version.Load(), 5)
	}
	changes := 0
	fsys.change = func() {
		if changes++; changes == 1 {
			must(t, c.SetDefaultTTL(t.Context(), 20*time.Second))
		}
	}
	if done, err := p.CompactOne(t.Context()); err != nil || !done || changes == 0 {
		t.Errorf("done %t, %v; %d changes", done, err, changes)
	}
	if n := c.Partitions()[0].Runs; n != 1 {
		t.Errorf("%d runs", n)
	}
	for i := range 5 { // two had expired by the time that they had before
		must(t, second(c.Read(t.Context(), StringKey("a"), fmt.Sprint(i))))
	}
}

// TestCompactOutdatedWithoutRoom: a compaction that starts over has given back what it wrote before.
func TestCompactOutdatedWithoutRoom(t *testing.T) {
	mem := vfs.NewMem()
	fsys := &changedMeanwhile{FS: mem, change: func() {}}
	o := testOptions(fsys)
	o.ExpiryGrace, o.memtableBytes = -1, 8<<20
	clock := newTestClock(o)
	db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: 10 * time.Second, MutableTTL: true, Compression: NoCompression})
	const plenty = 1 << 40
	mem.SetCapacity(plenty)
	for i := range 5 { // two have expired in the end
		upsert(t, c, fmt.Sprint(i), 300_000)
		must(t, db.Flush(t.Context()))
		clock.pass(3 * time.Second)
	}
	free, err := mem.Free()
	must(t, err)
	mem.SetCapacity(plenty - int64(free) + 1_900_000) // for five, and not for three more
	changes := 0
	fsys.change = func() {
		if changes++; changes == 1 {
			must(t, c.SetDefaultTTL(t.Context(), 20*time.Second))
		}
	}
	must(t, c.routing.Load().parts[0].CompactFully(t.Context()))
	if n := c.Partitions()[0].Runs; n != 1 || changes < 2 {
		t.Errorf("%d runs, %d files made", n, changes)
	}
	for i := range 5 {
		must(t, second(c.Read(t.Context(), StringKey("a"), fmt.Sprint(i))))
	}
}
