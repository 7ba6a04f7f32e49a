package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestSplitByItself loads a container whose partitions split when they hold too
// much.
func TestSplitByItself(t *testing.T) {
	var mu sync.Mutex
	var events []ReshapeEvent
	o := &Options{
		MemoryBudget: minMemoryBudget, FileBytes: 64 << 10, MaxPartitionBytes: 200 << 10, fs: vfs.NewMem(), memtableBytes: 64 << 10,
		Durability: Buffered,
		Events: &EventListener{Reshaped: func(e ReshapeEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}},
	}
	db, c := openStore(t, o)
	const n = 4000
	for i := range n {
		if _, err := c.Upsert(context.Background(), smallDocument(fmt.Sprint(i), fmt.Sprintf("k%d", i%200), 200), nil); err != nil {
			t.Fatal(err)
		}
	}
	settled := func() bool {
		for _, p := range db.partitions() {
			if p.Dropped.Load() || p.Version.Load().LiveBytes() > o.MaxPartitionBytes || len(p.Inherited()) > 0 || p.queued.Load() != nil {
				return false
			}
		}
		return true
	}
	until(settled)
	found := 0
	for _, err := range c.ScanAll(context.Background(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	if found != n {
		t.Errorf("%d items of %d", found, n)
	}
	parts := c.Partitions()
	if len(parts) < 4 {
		t.Errorf("%d partitions", len(parts))
	}
	db.Close() // hands out the events
	if len(events) != len(parts)-1 {
		t.Errorf("%d events, %d partitions", len(events), len(parts))
	}
	for _, e := range events {
		if e.Err != nil || e.Kind != ReshapeSplit || len(e.Parents) != 1 || len(e.Children) != 2 || e.Phase != PhaseInheriting || e.CopiedBytes != 0 {
			t.Errorf("event %+v", e)
		}
	}
}

// newFullOfOneKey returns a store with a partition past the limit, of one logical partition, after it was to be split.
func newFullOfOneKey(t *testing.T) (*splitStore, *partition) {
	t.Helper()
	s := newSplitStore(t, byK, func(o *Options) { o.MaxPartitionBytes = 10 << 10 })
	for i := range 100 {
		s.put(1, fmt.Sprint(i), strings.Repeat("x", 200))
	}
	p := s.db.partitions()[0]
	s.db.splitLarge(s.db.partitions())
	return s, p
}

// TestOneKeyIsNotSplit has one logical partition grow past the limit.
func TestOneKeyIsNotSplit(t *testing.T) {
	s, p := newFullOfOneKey(t)
	if len(s.ids()) != 1 || p.refusedAt.Load() == 0 {
		t.Errorf("partitions %v, refused at %d", s.ids(), p.refusedAt.Load())
	}
	job := s.db.partitions()[0].queued.Load()
	if job != nil {
		t.Error("the job is not over")
	}
	for i := range 100 {
		s.put(i, "x", strings.Repeat("x", 200))
	}
	p.cutting.Succeeded() // as if the time had passed
	s.db.splitLarge(s.db.partitions())
	if len(s.ids()) != 2 {
		t.Errorf("partitions %v after it has grown", s.ids())
	}
	s.check()
}

// splitsInTwo checks that the store splits its only partition by itself.
func (s *splitStore) splitsInTwo(p *partition) {
	s.t.Helper()
	s.db.splitLarge(s.db.partitions())
	if len(s.ids()) != 2 {
		s.t.Errorf("partitions %v of %d bytes", s.ids(), p.Version.Load().LiveBytes())
	}
	s.check()
}

// TestRefusedWithoutNeed: a job that was asked for and refused does not keep a partition from
// being split by itself, unless the store would have cut it in the same way.
func TestRefusedWithoutNeed(t *testing.T) {
	s := newSplitStore(t, byK, func(o *Options) { o.MaxPartitionBytes = 20 << 10 })
	for i := range 90 {
		s.put(i, "x", strings.Repeat("x", 200))
	}
	ctx, p := t.Context(), s.db.partitions()[0]
	merge, err := s.c.Merge(ctx, p.ID, p.ID)
	must(t, err)
	move, err := s.c.MoveBoundary(ctx, p.ID, p.ID, "10")
	must(t, err)
	cut, err := s.c.Split(ctx, p.ID, &SplitOptions{At: strings.Repeat("10", 24)})
	must(t, err)
	for _, job := range []*ReshapeJob{merge, move, cut} {
		if err := job.Wait(ctx); !errors.Is(err, ErrRefused) || p.refusedAt.Load() != 0 {
			t.Errorf("%v: %v, refused at %d", job.Progress().Kind, err, p.refusedAt.Load())
		}
	}
	for i := range 10 {
		s.put(i, "y", strings.Repeat("x", 200))
	}
	s.splitsInTwo(p)
}

// TestRefusedThenEmptied: a partition that held too much of one logical partition is split
// as any other once that is deleted.
func TestRefusedThenEmptied(t *testing.T) {
	s, p := newFullOfOneKey(t)
	if p.refusedAt.Load() < 20<<10 {
		t.Fatalf("refused at %d", p.refusedAt.Load())
	}
	for i := range 100 {
		must(t, s.c.Delete(t.Context(), StringKey("k1"), fmt.Sprint(i), nil))
	}
	clear(s.docs)
	must(t, s.db.Compact(t.Context()))
	s.db.splitLarge(s.db.partitions())
	for i := range 60 {
		s.put(i, "x", strings.Repeat("x", 200))
	}
	s.splitsInTwo(p)
}

// TestCancelJob cancels a job that waits and one that prepares.
func TestCancelJob(t *testing.T) {
	gate := newGate(vfs.NewMem())
	linking := make(chan struct{})
	o := &Options{MemoryBudget: minMemoryBudget, fs: &linkGate{FS: gate, reached: linking, open: gate.open}}
	db, c := openStore(t, o)
	ctx := context.Background()
	for i := range 50 {
		if _, err := c.Upsert(ctx, smallDocument(fmt.Sprint(i), fmt.Sprint(i), 50), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	id := c.Partitions()[0].ID
	split := func() *ReshapeJob {
		job, err := c.Split(ctx, id, nil)
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	first, second := split(), split()
	<-linking
	second.Cancel()
	if err := second.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a job that waited: %v", err)
	}
	if p := first.Progress(); p.Phase != PhasePreparing || len(p.Children) != 2 {
		t.Errorf("progress %+v", p)
	}
	// Writes go on meanwhile.
	if _, err := c.Upsert(ctx, smallDocument("more", "more", 50), nil); err != nil {
		t.Error(err)
	}
	first.Cancel()
	gate.release()
	if err := first.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a job that prepared: %v", err)
	}
	if parts := c.Partitions(); len(parts) != 1 || parts[0].ID != id {
		t.Errorf("partitions %+v", parts)
	}
	if names, err := gate.List("p"); err != nil || len(names) != 1 {
		t.Errorf("directories %v, %v", names, err)
	}
	third := split()
	if err := third.Wait(ctx); err != nil {
		t.Error(err)
	}
	third.Cancel() // too late
	if err := third.Wait(ctx); err != nil || len(c.Partitions()) != 2 {
		t.Errorf("cancelled when it was done: %v", err)
	}
	if p := third.Progress(); p.Children[0] != 4 {
		t.Errorf("ids %v: those of the cancelled job are used up", p.Children)
	}
	late, err := c.Split(ctx, third.Progress().Children[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := late.Wait(ctx); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Errorf("a job of a store that closed: %v", err)
	}
}

// linkGate tells when the first link is made, and holds links back until it is
// opened.
type linkGate struct {
	vfs.FS
	once    sync.Once
	reached chan struct{}
	open    chan struct{}
}

func (g *linkGate) Link(from, to string) error {
	g.once.Do(func() { close(g.reached) })
	<-g.open
	return g.FS.Link(from, to)
}

// TestDropWhileSplit drops a container whose partition is about to be split.
func TestDropWhileSplit(t *testing.T) {
	mem := vfs.NewMem()
	gate := newGate(mem)
	linking := make(chan struct{})
	o := &Options{MemoryBudget: minMemoryBudget, fs: &linkGate{FS: gate, reached: linking, open: gate.open}}
	db, c := openStore(t, o)
	ctx := context.Background()
	for i := range 50 {
		if _, err := c.Upsert(ctx, smallDocument(fmt.Sprint(i), fmt.Sprint(i), 50), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-linking
	dropped := make(chan error)
	go func() { dropped <- db.DropContainer(ctx, "c") }()
	gate.release()
	if err := <-dropped; err != nil {
		t.Error(err)
	}
	if err := job.Wait(ctx); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("job: %v", err)
	}
	if _, err := c.Split(ctx, 1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("split of a dropped container: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if names, err := mem.List("p"); err != nil || len(names) != 0 {
		t.Errorf("directories %v, %v", names, err)
	}
}

// TestCancelAtEveryCall cancels each kind of job at each of its file-system
// calls, or with the race detector at some: it is undone without a trace, or carried through.
func TestCancelAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, kind := range []ReshapeKind{ReshapeSplit, ReshapeMerge, ReshapeMove} {
		undone, done := 0, 0
		for n := int64(1); ; n += int64(lone(1)) {
			mem := vfs.NewMem()
			faulty := vfs.NewFaulty(mem)
			def := byK
			def.MinPartitions = 2
			s := newSplitStore(t, def, func(o *Options) { o.fs = faulty })
			s.mem = mem
			for i := range 60 {
				s.put(i%20, fmt.Sprint(i), "in a file")
				if i == 40 {
					must(s.t, s.db.Flush(context.Background()))
				}
			}
			before := s.ids()
			parents, at := before, ""
			if kind == ReshapeSplit {
				parents = before[:1]
			}
			if kind == ReshapeMove {
				at = "11"
			}
			job := s.c.newJob(kind, at, parents...)
			first := faulty.Calls()
			faulty.SetHook(func(c vfs.Call) error {
				if c.N == first+n {
					job.Cancel()
				}
				return nil
			})
			s.db.submit(job)
			faulty.SetHook(nil)
			reached := faulty.Calls() >= first+n
			switch err := job.Wait(context.Background()); {
			case err == nil:
				done++
			case errors.Is(err, context.Canceled):
				undone++
				if !slices.Equal(s.ids(), before) || job.Progress().Pause != 0 {
					t.Fatalf("%v cancelled at call %d: partitions %v, were %v", kind, n, s.ids(), before)
				}
			default:
				t.Fatalf("%v cancelled at call %d: %v", kind, n, err)
			}
			names, err := mem.List("p")
			if err != nil || len(names) != len(s.ids()) {
				t.Fatalf("%v cancelled at call %d: directories %v of partitions %v, %v", kind, n, names, s.ids(), err)
			}
			if state := s.db.storeManifest.state; len(state.Intents) != 0 || len(state.Partitions) != len(s.ids()) {
				t.Fatalf("%v cancelled at call %d: store manifest %+v", kind, n, state)
			}
			s.put(3, "after", "written after it")
			s.check()
			ids := s.ids()
			s.reopen(mem.Crash(vfs.CrashOptions{}))
			if !slices.Equal(s.ids(), ids) {
				t.Fatalf("%v cancelled at call %d: partitions %v after a crash, were %v", kind, n, s.ids(), ids)
			}
			s.check()
			s.db.Close()
			if !reached {
				break
			}
		}
		if undone < 5 || done < 5 {
			t.Errorf("%v: %d times undone, %d times carried through: the test reached too little", kind, undone, done)
		}
	}
}

// TestQueuedJobs queues many jobs at once. They are carried out one at a time
// in their order: a job on a partition that an earlier one replaces finds it
// gone, others go on.
func TestQueuedJobs(t *testing.T) {
	gate := newGate(vfs.NewMem())
	linking := make(chan struct{})
	var mu sync.Mutex
	var ended []PartitionID // first parents, in the order in which jobs end
	o := &Options{
		MemoryBudget: minMemoryBudget, fs: &linkGate{FS: gate, reached: linking, open: gate.open},
		Events: &EventListener{Reshaped: func(e ReshapeEvent) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, e.Parents[0])
		}},
	}
	db, err := Open(context.Background(), "mem", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	ctx := context.Background()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 5})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := c.Upsert(ctx, smallDocument(fmt.Sprint(i), fmt.Sprint(i), 50), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	parts := c.Partitions()
	var jobs []*ReshapeJob
	var want []error
	add := func(outcome error, start func() (*ReshapeJob, error)) {
		t.Helper()
		job, err := start()
		if err != nil {
			t.Fatal(err)
		}
		jobs, want = append(jobs, job), append(want, outcome)
	}
	split := func(i int) func() (*ReshapeJob, error) {
		return func() (*ReshapeJob, error) { return c.Split(ctx, parts[i].ID, nil) }
	}
	add(nil, split(0))
	<-linking // it prepares, and the others wait
	for i := 1; i < 3; i++ {
		add(nil, split(i))
	}
	add(ErrNotFound, split(1)) // replaced by then
	add(ErrNotFound, func() (*ReshapeJob, error) { return c.Merge(ctx, parts[2].ID, parts[3].ID) })
	add(nil, func() (*ReshapeJob, error) { return c.Merge(ctx, parts[3].ID, parts[4].ID) })
	add(ErrNotFound, split(4))
	for i, job := range jobs[1:] {
		if p := job.Progress(); p.Phase != PhaseQueued {
			t.Errorf("job %d: %v", i+1, p.Phase)
		}
	}
	for i := 200; i < 300; i++ { // writes go on meanwhile
		if _, err := c.Upsert(ctx, smallDocument(fmt.Sprint(i), fmt.Sprint(i), 50), nil); err != nil {
			t.Fatal(err)
		}
	}
	gate.release()
	for i, job := range jobs {
		if err := job.Wait(ctx); !errors.Is(err, want[i]) {
			t.Errorf("job %d: %v, want %v", i, err, want[i])
		}
	}
	if n := len(c.Partitions()); n != 3*2+1 {
		t.Errorf("%d partitions", n)
	}
	found := 0
	for _, err := range c.ScanAll(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	if found != 300 {
		t.Errorf("%d items", found)
	}
	checkVerified(t, db)
	if err := db.Close(); err != nil { // hands out the events
		t.Error(err)
	}
	var order []PartitionID
	for _, job := range jobs {
		order = append(order, job.Progress().Parents[0])
	}
	if !slices.Equal(ended, order) {
		t.Errorf("jobs ended in the order %v, not %v", ended, order)
	}
}

// TestSettleSplits closes right after a load: Compact has waited for the splits
// that the load calls for, and for what they leave to trims.
func TestSettleSplits(t *testing.T) {
	for _, manual := range []bool{false, true} {
		s := newSplitStore(t, byK, func(o *Options) {
			o.manual, o.MaxPartitionBytes, o.FileBytes, o.Durability = manual, 32<<10, 16<<10, Buffered
		})
		for i := range 2000 {
			s.put(i%60, fmt.Sprint(i), strings.Repeat("x", 100))
		}
		for i := range 500 { // one logical partition that is too much for any
			s.put(1000, fmt.Sprint(i), strings.Repeat("x", 100))
		}
		must(s.t, s.db.Compact(context.Background()))
		refused := 0
		for _, p := range s.db.partitions() {
			over := p.Version.Load().LiveBytes() > s.db.opts.MaxPartitionBytes
			if over && p.refusedAt.Load() > 0 {
				refused++
			} else if over {
				t.Errorf("manual %v: partition %d holds %d bytes", manual, p.ID, p.Version.Load().LiveBytes())
			}
			var again tiers.Plan
			_, err := p.InTurn(t.Context(), true, func() (_ bool, err error) {
				again, err = p.PickFew(p.Version.Load().Runs, true)
				return false, err
			})
			if p.queued.Load() != nil || len(p.Inherited()) > 0 || again.Len() > 0 || err != nil {
				t.Errorf("manual %v: partition %d is not at rest", manual, p.ID)
			}
			for f := range p.Version.Load().Files() {
				if f.Trimmable(false) {
					t.Errorf("manual %v: partition %d: %d of %d bytes of a file are foreign", manual, p.ID, f.Foreign(), f.Ref.Size)
				}
			}
		}
		if n := len(s.ids()); n < 8 || refused != 1 {
			t.Errorf("manual %v: %d partitions, %d refused", manual, n, refused)
		}
		s.check()
	}
}

// TestSettleSplitFails has the split fail that Compact waits for.
func TestSettleSplitFails(t *testing.T) {
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	s := newSplitStore(t, byK, func(o *Options) { o.fs, o.MaxPartitionBytes = faulty, 32<<10 })
	s.mem = mem
	for i := range 500 {
		s.put(i, "a", strings.Repeat("x", 100))
	}
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpLink {
			return syscall.EIO
		}
		return nil
	})
	if err := s.db.Compact(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Errorf("a settle without links: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.db.Compact(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a settle that was cancelled: %v", err)
	}
	faulty.SetHook(nil)
	must(s.t, s.db.Compact(context.Background()))
	if len(s.ids()) < 2 {
		t.Errorf("partitions %v", s.ids())
	}
	s.check()
}
