package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestSettleBesideSnapshot: tombstones that a snapshot holds back are no reason
// to merge again and again; when it is closed they go.
func TestSettleBesideSnapshot(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	for i := range 10 {
		upsert(t, c, fmt.Sprint(i), 10)
	}
	s, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := c.Delete(ctx, StringKey("a"), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().Compactions; n > 2 {
		t.Errorf("%d merges beside a snapshot", n)
	}
	if it, err := s.Read(ctx, StringKey("a"), "3"); err != nil || it.ID != "3" {
		t.Errorf("snapshot: %v", err)
	}
	s.Close()
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if p := c.Partitions()[0]; p.Items != 0 || p.Tombstones != 0 || p.FileBytes != 0 {
		t.Errorf("after the snapshot: %+v", p)
	}
}

// TestSettleBesideSnapshotOfNothing is the same with a snapshot of the store
// before its first write, at sequence 0.
func TestSettleBesideSnapshotOfNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var merges atomic.Int32
	opts := testOptions(vfs.NewMem())
	opts.Events = &EventListener{Compacted: func(CompactionEvent) {
		if merges.Add(1) == 10 {
			cancel()
		}
	}}
	db, c := openStore(t, opts)
	s, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	upsert(t, c, "stays", 10)
	upsert(t, c, "goes", 10)
	if err := c.Delete(ctx, StringKey("a"), "goes", nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := db.Compact(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for it, err := range s.ScanAll(ctx, nil) {
		t.Errorf("the snapshot has %q, %v", it.ID, err)
	}
	s.Close()
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if p := c.Partitions()[0]; p.Items != 1 || p.Tombstones != 0 {
		t.Errorf("after the snapshot: %+v", p)
	}
}

// TestRunsAreBounded writes faster than small merges can keep up with.
func TestRunsAreBounded(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.manual, opts.Durability, opts.memtableBytes, opts.CompactionBytesPerSecond = false, Buffered, 8<<10, 1<<20
	opts.LogFileBytes = 1 << 20
	db, c := openStore(t, opts)
	most := 0
	for i := range 3000 {
		upsert(t, c, fmt.Sprint(i%1000), 400)
		most = max(most, c.Partitions()[0].Runs)
	}
	// A memtable may be on its way when the limit is reached, and each writer
	// and flusher may be past the test.
	if most > tiers.MostRuns+8 {
		t.Errorf("%d runs at most, with a limit of %d", most, tiers.MostRuns)
	}
	if s := db.Stats(); s.BackgroundErrors > 0 || s.Flushes < tiers.MostRuns {
		t.Errorf("%d background errors, %d flushes", s.BackgroundErrors, s.Flushes)
	}
}

// TestCompactWithoutRoom: where the disk has no room to write the oldest run anew, Compact leaves it. Later there is room.
func TestCompactWithoutRoom(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.memtableBytes = 8 << 20
	db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, Compression: NoCompression})
	const plenty = 1 << 40
	mem.SetCapacity(plenty)
	for run := range 2 {
		for i := range 500 {
			upsert(t, c, fmt.Sprintf("%04d", 2*i+run), 1700)
		}
		must(t, db.Flush(t.Context()))
	}
	free, err := mem.Free()
	must(t, err)
	mem.SetCapacity(plenty - int64(free) + 500_000)
	for _, want := range []int{2, 1} {
		must(t, db.Compact(t.Context()))
		if runs := c.Partitions()[0].Runs; runs != want {
			t.Errorf("%d runs, want %d", runs, want)
		}
		n := 0
		for it, err := range c.Scan(t.Context(), StringKey("a"), IDRange{}, nil) {
			must(t, err)
			if it.ID != fmt.Sprintf("%04d", n) {
				t.Fatalf("item %d is %s", n, it.ID)
			}
			n++
		}
		if n != 1000 {
			t.Errorf("%d items", n)
		}
		mem.SetCapacity(plenty)
	}
}

// TestCompactsShareRoom: room for the compaction of one partition is not room for another one's meanwhile.
func TestCompactsShareRoom(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	fsys := &changedMeanwhile{FS: mem, change: func() {}}
	o := testOptions(fsys)
	o.memtableBytes = 8 << 20
	db, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Compression: NoCompression})
	const plenty = 1 << 40
	mem.SetCapacity(plenty)
	for run := range 2 {
		for i := range 400 {
			must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"%d","v":%q}`, run, i, strings.Repeat("v", 2000)), nil)))
		}
		must(t, db.Flush(ctx))
	}
	free, err := mem.Free()
	must(t, err)
	mem.SetCapacity(plenty - int64(free) + 2_000_000) // each takes some 800,000
	parts := c.routing.Load().parts
	beside := 0
	fsys.change = func() {
		if beside++; beside == 1 {
			must(t, parts[1].CompactFully(ctx))
		}
	}
	must(t, parts[0].CompactFully(ctx))
	checkRuns := func(want ...int) {
		t.Helper()
		for i, p := range c.Partitions() {
			if p.Runs != want[i] {
				t.Errorf("partition %d has %d runs, want %d", i, p.Runs, want[i])
			}
		}
	}
	checkRuns(1, 2)
	must(t, parts[1].CompactFully(ctx))
	checkRuns(1, 1)
}

// TestCompactBesideDamage: as few runs as can be are left of each row of runs between damaged ones.
func TestCompactBesideDamage(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	for i := range 8 {
		upsert(t, c, fmt.Sprint(i), 50)
		must(t, db.Flush(t.Context()))
	}
	p := c.routing.Load().parts[0]
	runs := p.Version.Load().Runs
	for _, r := range []*lsm.Run{runs[2], runs[5]} {
		r.Files[0].Aside.Store(true)
	}
	must(t, p.CompactFully(t.Context()))
	if n := c.Partitions()[0].Runs; n != 5 {
		t.Errorf("%d runs, want 5", n)
	}
}

// TestCompactAfterSplit: when Compact returns, nothing is left for another one, also where it trimmed files that two
// partitions shared, of which it did not know before how much of them is whose.
func TestCompactAfterSplit(t *testing.T) {
	for few := 40; few <= 160; few += lone(4) {
		s := newSplitStore(t, byK, func(o *Options) { o.memtableBytes = 8 << 20 })
		put := func(from, n int) {
			for i := range n {
				s.put(i%(40+few%7), fmt.Sprint(from+i), fmt.Sprint("text ", i*i))
			}
			must(t, s.db.Flush(t.Context()))
		}
		put(0, 1500)
		must(t, s.db.Compact(t.Context()))
		put(1500, few)
		s.split(0, nil)
		must(t, s.db.Compact(t.Context()))
		before := s.db.Stats().Compactions
		must(t, s.db.Compact(t.Context()))
		if n := s.db.Stats().Compactions - before; n > 0 {
			t.Errorf("%d new items: %d compactions were left", few, n)
		}
		s.check()
	}
}

// roomStore is a partition on a disk of which a test says how much room it has.
type roomStore struct {
	*testing.T
	mem     *vfs.Mem
	db      *DB
	c       *Container
	p       *partition
	created int // files, since the last leave
}

const plentyOfRoom = 1 << 40

func newRoomStore(t *testing.T) *roomStore {
	s := &roomStore{T: t, mem: vfs.NewMem()}
	s.mem.SetCapacity(plentyOfRoom)
	o := testOptions(&changedMeanwhile{FS: s.mem, change: func() { s.created++ }})
	o.memtableBytes = 8 << 20
	s.db, s.c = openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, Compression: NoCompression})
	s.p = s.c.routing.Load().parts[0]
	return s
}

// run writes n documents of 1,700 bytes into a run of their own.
func (s *roomStore) run(from, n int) {
	s.Helper()
	for i := range n {
		upsert(s.T, s.c, fmt.Sprintf("%04d", from+i), 1700)
	}
	must(s.T, s.db.Flush(s.Context()))
}

// leave makes the disk one with so much room.
func (s *roomStore) leave(room int64) {
	s.Helper()
	s.mem.SetCapacity(plentyOfRoom)
	free, err := s.mem.Free()
	must(s.T, err)
	s.mem.SetCapacity(plentyOfRoom - int64(free) + room)
	s.created = 0
}

// check checks that work was done, or refused before it made a file, and the number of runs after it.
func (s *roomStore) check(what string, work func() (bool, error), want bool, runs int) {
	s.Helper()
	done, err := work()
	if done != want || want && err != nil || !want && (!errors.Is(err, ErrDiskFull) || s.created > 0) {
		s.Errorf("%s: done %t, %d files begun, %v", what, done, s.created, err)
	}
	if got := s.c.Partitions()[0].Runs; got != runs {
		s.Errorf("%s: %d runs, want %d", what, got, runs)
	}
}

func (s *roomStore) compact() (bool, error) { return s.p.CompactOne(s.Context()) }

// TestCompactionsNeedRoom: a compaction, or the rewriting of a file, begins no file if the disk has no room for what it writes.
func TestCompactionsNeedRoom(t *testing.T) {
	s := newRoomStore(t)
	for i := range 8 {
		s.run(100*i, 100) // 170,000 bytes each
	}
	s.leave(1_000_000)
	s.check("compaction without room", s.compact, false, 8)
	s.leave(2_000_000)
	s.check("compaction with room", s.compact, true, 1)
	rewrite := func() (bool, error) {
		return s.p.InTurn(t.Context(), true, func() (bool, error) {
			return s.p.RewriteFile(t.Context(), physical.Reindex, nil, func(*lsm.File) bool { return true })
		})
	}
	s.leave(1_000_000)
	s.check("rewriting without room", rewrite, false, 1)
	s.leave(2_000_000)
	s.check("rewriting with room", rewrite, true, 1)
}

// TestDeadWithoutRoom: of a partition of which much is dead, and that is too large to be compacted as a whole, a
// tier is compacted. Room for what is alive is enough for all.
func TestDeadWithoutRoom(t *testing.T) {
	s := newRoomStore(t)
	s.run(0, 2000)
	for range 8 {
		s.run(0, 600)
	}
	s.leave(2_000_000) // of the tier 600 documents are alive, 1,020,000 bytes, and of all 3,400,000
	s.check("what is dead, without room", s.compact, true, 2)
	s.run(0, 600)
	s.run(0, 600)
	s.leave(2_000_000)
	s.check("what is dead, without a tier", s.compact, false, 4)
	s.leave(4_000_000)
	s.check("what is dead, with room", s.compact, true, 1)
}

// TestNothingToSample: a flush of which the samples are too small for a dictionary has none.
func TestNothingToSample(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.memtableBytes = 8 << 20
	db, c := openStore(t, o, ContainerDef{Kind: Opaque, PartitionKey: []string{"/k"}})
	for i := range 4200 { // every second is a sample
		body := []byte{}
		switch i {
		case 0:
			body = []byte("hello")
		case 1:
			body = make([]byte, 1100<<10)
		}
		must(t, second(c.Put(t.Context(), StringKey("a"), fmt.Sprintf("%05d", i), body, nil)))
	}
	must(t, db.Flush(t.Context()))
	must(t, db.Compact(t.Context()))
}
