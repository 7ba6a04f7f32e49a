package scheduler

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/pressure"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

var errTest = errors.New("injected")

// testStore is a store of memtables.
type testStore struct {
	*testing.T
	*lsmtest.Store
	*Scheduler
	gate     pressure.Gate
	parts    []*testPart
	failed   atomic.Bool
	released atomic.Int32
	ticks    atomic.Int32

	mu     sync.Mutex
	errors []string
}

// newStore makes a store of so many partitions. It is of one processor: one flush leaves
// none to writers.
func newStore(t *testing.T, partitions int) *testStore {
	s := &testStore{T: t, Store: lsmtest.New(t, 16<<20)}
	s.Env.Failed = s.failed.Load
	s.Env.Uncertain = func(err error) error { return err }
	s.Env.Background = func(what string, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errors = append(s.errors, what+": "+err.Error())
	}
	s.gate.Init(&s.Env, s, false)
	s.Scheduler = New(&s.Env, &s.gate, s)
	s.calm = 1
	for range partitions {
		s.parts = append(s.parts, &testPart{s: s, tree: s.Tree()})
	}
	return s
}

func (s *testStore) Partitions() (list []Partition) {
	for _, p := range s.parts {
		list = append(list, p)
	}
	return list
}

func (s *testStore) ReleaseLog() error { s.released.Add(1); return nil }
func (s *testStore) ShrinkLog() error  { return nil }
func (s *testStore) Tick()             { s.ticks.Add(1) }
func (s *testStore) Refused() error    { return s.Context().Err() }
func (s *testStore) Relieve()          { s.FlushSoon(); s.RewriteSoon() }

// Context is that of the scheduler.
func (s *testStore) Context() context.Context { return s.Scheduler.Context() }

// reported returns the errors of background work.
func (s *testStore) reported() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errors
}

// testPart is a partition. Its flushes and compactions only count.
type testPart struct {
	s     *testStore
	tree  *lsm.Tree
	seq   atomic.Uint64
	fails atomic.Bool   // flushes and compactions
	gate  chan struct{} // flushes wait for it; nil: they do not
	long  chan struct{} // compactions last until it is closed; nil: they do not

	commit sync.Mutex // held to freeze

	flushes, rewrites atomic.Int32
	left              atomic.Int32 // compactions to do
	at                atomic.Int32 // that look what to compact, or are at it
}

func (p *testPart) Data() *lsm.Tree { return p.tree }
func (p *testPart) LastSeq() uint64 { return p.seq.Load() }

func (p *testPart) Freeze() bool {
	p.commit.Lock()
	defer p.commit.Unlock()
	return p.s.Freeze(p.tree)
}

func (p *testPart) FlushOldest(ctx context.Context) error {
	if p.gate != nil {
		<-p.gate
	}
	if p.fails.Load() {
		return errTest
	}
	if len(p.tree.Version.Load().Frozen) == 0 { // flushed since it was chosen
		return nil
	}
	p.flushes.Add(1)
	p.s.Flushed(p.tree)
	p.s.gate.Release()
	return nil
}

func (p *testPart) RewriteSome(ctx context.Context) (bool, error) {
	if n := p.at.Add(1); n > 1 {
		p.s.Errorf("%d compactors at one partition", n)
	}
	defer p.at.Add(-1)
	if p.long != nil {
		<-p.long
	}
	if p.fails.Load() {
		return false, errTest
	}
	if p.left.Load() == 0 {
		return false, nil
	}
	p.rewrites.Add(1)
	p.left.Add(-1)
	return true, nil
}

// fill writes so many bytes to the memtable.
func (p *testPart) fill(bytes int64) {
	p.s.Put(p.tree, partmap.Number(float64(p.seq.Add(1))), "x", item.Version{Body: make([]byte, bytes)})
}

// fillUp fills partitions in turn until memory asks for a flush.
func (s *testStore) fillUp(parts ...*testPart) {
	for i := 0; !s.gate.Ripe(); i++ {
		parts[i%len(parts)].fill(10_000)
	}
}

// frozen counts the partitions with a memtable that waits for its flush.
func (s *testStore) frozen() (n int) {
	for _, p := range s.parts {
		if len(p.tree.Version.Load().Frozen) > 0 {
			n++
		}
	}
	return n
}

// awaitMemory has a write wait for memory until cancel is called.
func (s *testStore) awaitMemory() (cancel func() error) {
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := s.gate.Admit(ctx, s.parts[0].tree, s.Env.Pool.Limit())
		done <- err
	}()
	synctest.Wait()
	return func() error {
		end()
		return <-done
	}
}

// TestFlushesTakeTurns: memtables of several partitions that fill together are frozen one
// after the other, each when a flush can begin and the largest first. While a write waits
// for memory one more flush may begin than otherwise.
func TestFlushesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 4)
		if p, _ := s.nextFlush(); p != nil {
			t.Fatal("a flush begins before memory asks for it")
		}
		s.parts[2].fill(3 << 20)
		s.fillUp(s.parts...)
		first, _ := s.nextFlush()
		if first != s.parts[2] || s.frozen() != 1 {
			t.Fatalf("flushed first: %v; %d partitions frozen, want the largest alone", first, s.frozen())
		}
		s.flushes.Add(1) // the flush of first runs
		s.fillUp(s.parts...)
		if p, _ := s.nextFlush(); p != nil || s.frozen() != 1 || s.MayFlush() {
			t.Fatal("a second flush begins beside the one that leaves a processor")
		}
		cancel := s.awaitMemory()
		second, _ := s.nextFlush()
		if second == nil || second == first || s.frozen() != 2 {
			t.Fatalf("flushed while a write waits: %v beside %v", second, first)
		}
		if err := cancel(); !errors.Is(err, pressure.ErrBusy) {
			t.Errorf("the write that waited: %v", err)
		}
	})
}

// TestMostFrozenFirst: of several partitions with frozen memtables, the one with the most
// bytes is flushed first, and each once at a time.
func TestMostFrozenFirst(t *testing.T) {
	s := newStore(t, 3)
	for i, size := range []int64{300_000, 3 << 20, 1000} {
		s.parts[i].fill(size)
		s.parts[i].Freeze()
	}
	for _, want := range []int{1, 0, 2} {
		if p, _ := s.nextFlush(); p != s.parts[want] {
			t.Errorf("next is %v, want partition %d", p, want)
		}
	}
	if p, _ := s.nextFlush(); p != nil {
		t.Errorf("all are being flushed, next is %v", p)
	}
}

// TestFlushesForLargeWrite: for a write that takes more than half of the write buffers all
// memtables are flushed, if need be, though none of them asks for that; for one that finds
// room none is.
func TestFlushesForLargeWrite(t *testing.T) {
	for _, tc := range []struct {
		part    float64 // of the write buffers, that the write takes
		flushes int32   // at least; two flushers may each find that one is missing
	}{{0.5, 0}, {0.9, 1}, {1, 3}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, 3)
			for i, p := range s.parts {
				p.fill(int64(1+i) << 19)
			}
			if s.gate.Ripe() {
				t.Fatal("a memtable is flushed anyway")
			}
			s.Start(newTestLog(), 0)
			defer s.Stop()
			size := int64(tc.part * float64(s.Env.Pool.Limit()))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of the bubble
			defer cancel()
			if _, err := s.gate.Admit(ctx, s.parts[0].tree, size); err != nil {
				t.Fatalf("%v of the write buffers: %v", tc.part, err)
			}
			s.gate.Done(size)
			flushes := int32(0)
			for _, p := range s.parts {
				flushes += p.flushes.Load()
			}
			if flushes < tc.flushes || flushes > 0 && tc.flushes == 0 {
				t.Errorf("%v of the write buffers: %d flushes, want %d", tc.part, flushes, tc.flushes)
			}
		})
	}
}

// TestFlushPassesOver: where the largest memtable is of a partition that is being
// flushed, the next one is frozen, unless it is small beside it.
func TestFlushPassesOver(t *testing.T) {
	for _, size := range []int64{1000, 2 * SmallMemtable} {
		s := newStore(t, 2)
		s.parts[1].fill(size)
		s.fillUp(s.parts[0])
		if !s.parts[0].tree.Flushing.TryLock() {
			t.Fatal("somebody flushes")
		}
		next, _ := s.nextFlush()
		if size < SmallMemtable && next != nil || size > SmallMemtable && next != s.parts[1] {
			t.Errorf("beside a memtable of %d bytes: %v", size, next)
		}
	}
}

// TestFailedWork: a partition whose flushes and compactions fail holds up no other one,
// writes that it keeps from memory are told why, and it is tried again.
func TestFailedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 3)
		bad := s.parts[1]
		bad.fails.Store(true)
		for range 9 {
			bad.fill(900_000)
		}
		bad.Freeze()
		for _, p := range s.parts {
			p.left.Store(5)
		}
		s.Start(newTestLog(), 0)
		synctest.Wait()
		if _, err := s.gate.Admit(t.Context(), bad.tree, s.Env.Pool.Limit()); !errors.Is(err, pressure.ErrBusy) || !errors.Is(err, errTest) {
			t.Errorf("a write for which no memory can be made: %v", err)
		}
		s.fillUp(s.parts[0], s.parts[2])
		s.FlushSoon()
		synctest.Wait()
		for i, p := range s.parts {
			if n := p.rewrites.Load(); p != bad && n != 5 || p == bad && n > 0 {
				t.Errorf("partition %d: %d compactions", i, n)
			}
		}
		if s.parts[0].flushes.Load() == 0 || bad.flushes.Load() > 0 || len(s.reported()) == 0 {
			t.Errorf("flushes %d and %d, reported %v", s.parts[0].flushes.Load(), bad.flushes.Load(), s.reported())
		}
		bad.fails.Store(false)
		time.Sleep(time.Minute) // of the bubble
		if bad.flushes.Load() != 1 || bad.rewrites.Load() != 5 {
			t.Errorf("tried again: %d flushes, %d compactions", bad.flushes.Load(), bad.rewrites.Load())
		}
		s.Stop()
	})
}

// TestCompactors: compactions that take long hold up no other partition while a compactor is
// left, and each partition has one at a time.
func TestCompactors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 5)
		s.rewriteWanted = []Signal{NewSignal(), NewSignal(), NewSignal()}
		for i, p := range s.parts {
			p.left.Store(int32(1 + i))
		}
		long := make(chan struct{})
		s.parts[1].long, s.parts[3].long = long, long
		s.Start(newTestLog(), 0)
		for range 3 {
			s.RewriteSoon()
			synctest.Wait()
			for i, p := range s.parts {
				if left := p.left.Load(); p.long == nil && left > 0 || p.long != nil && left != int32(1+i) {
					t.Errorf("beside two that take long: partition %d has %d compactions left", i, left)
				}
			}
			s.parts[0].left.Add(1)
		}
		close(long)
		synctest.Wait()
		for i, p := range s.parts {
			if left := p.left.Load(); left > 0 {
				t.Errorf("partition %d has %d compactions left", i, left)
			}
		}
		s.Stop()
	})
}

// TestPassedOver: a compactor that passed over a partition, since another was at it, looks again when
// that one goes on to a long compaction elsewhere.
func TestPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 2)
		s.rewriteWanted = []Signal{NewSignal(), NewSignal()}
		first, long := make(chan struct{}), make(chan struct{})
		s.parts[0].long, s.parts[1].long = first, long
		s.parts[0].left.Store(5)
		s.parts[1].left.Store(1)
		var asked atomic.Int32
		s.Env.Failed = func() bool { // asked before each partition
			if asked.Add(1) == 3 { // by the second compactor, between its two
				close(first)
				time.Sleep(time.Second) // of the bubble: the first has gone on to partition 1
			}
			return false
		}
		s.Go(func() { s.compact(s.rewriteWanted[0]) })
		synctest.Wait()
		s.Go(func() { s.compact(s.rewriteWanted[1]) })
		time.Sleep(time.Minute)
		if left := s.parts[0].left.Load(); left > 0 {
			t.Errorf("%d compactions are left, and a compactor sleeps", left)
		}
		close(long)
		synctest.Wait()
		s.Stop()
	})
}

// TestFailedCompaction: a compaction that has failed is tried again, though nothing else asks for it.
func TestFailedCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 1)
		p := s.parts[0]
		p.fails.Store(true)
		p.left.Store(1)
		s.Start(newTestLog(), 0)
		synctest.Wait()
		p.fails.Store(false)
		time.Sleep(time.Minute) // of the bubble
		if n := p.rewrites.Load(); n != 1 || len(s.reported()) == 0 {
			t.Errorf("%d compactions, reported %v", n, s.reported())
		}
		s.Stop()
	})
}

// TestStop: Stop waits for the work that runs, and none begins after it.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 2)
		p := s.parts[0]
		p.gate = make(chan struct{})
		p.fill(SmallMemtable)
		p.Freeze()
		s.Start(newTestLog(), 0)
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { s.Stop(); close(stopped) }()
		synctest.Wait()
		select {
		case <-stopped:
			t.Fatal("stopped beside a flush")
		default:
		}
		s.parts[1].fill(1000)
		s.parts[1].Freeze()
		close(p.gate)
		<-stopped
		s.Relieve()
		s.parts[1].left.Store(1)
		synctest.Wait()
		if p.flushes.Load() != 1 || s.parts[1].flushes.Load()+s.parts[1].rewrites.Load() > 0 {
			t.Errorf("%d flushes in one partition, %d in the other", p.flushes.Load(), s.parts[1].flushes.Load())
		}
	})
}

// TestFailedStore: nothing is done in a store that has failed.
func TestFailedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 1)
		s.failed.Store(true)
		s.parts[0].fill(SmallMemtable)
		s.parts[0].Freeze()
		s.parts[0].left.Store(1)
		log := newTestLog()
		s.Start(log, time.Second)
		time.Sleep(time.Minute) // of the bubble
		if n := s.parts[0].flushes.Load() + s.parts[0].rewrites.Load() + s.ticks.Load() + log.vouched.Load() + log.synced.Load(); n != 0 {
			t.Errorf("%d pieces of work", n)
		}
		s.Stop()
	})
}

// testLog is a log that counts. Vouch appends a record, unless nothing follows the last
// one that did.
type testLog struct {
	appended, vouchedAt    atomic.Int64
	wanted                 chan struct{}
	vouched, synced, spare atomic.Int32
}

func newTestLog() *testLog {
	l := &testLog{wanted: make(chan struct{}, 1)}
	l.appended.Store(1)
	return l
}

func (l *testLog) Vouch() error {
	if l.vouchedAt.Load() != l.appended.Load() {
		l.vouchedAt.Store(l.appended.Add(1))
		l.vouched.Add(1)
	}
	return nil
}

func (l *testLog) Appended() wal.Position          { return wal.Position(l.appended.Load()) }
func (l *testLog) Sync() error                     { l.synced.Add(1); return nil }
func (l *testLog) SpareWanted() <-chan struct{}    { return l.wanted }
func (l *testLog) MakeSpare(context.Context) error { l.spare.Add(1); return nil }

// fullLog is a testLog that finds no room for another record.
type fullLog struct{ *testLog }

func (fullLog) Vouch() error { return fault.ErrDiskFull }

// TestUpkeepOnFullDisk: that the log finds no room for a record keeps nothing else from being looked after: it may make
// room.
func TestUpkeepOnFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 1)
		s.parts[0].fill(idleBytes)
		s.Start(fullLog{newTestLog()}, 0)
		time.Sleep(2 * IdleFlush) // of the bubble
		if n, flushes := s.ticks.Load(), s.parts[0].flushes.Load(); n < 200 || flushes != 1 {
			t.Errorf("%d ticks in a minute, %d flushes of the idle partition", n, flushes)
		}
		if len(s.reported()) == 0 {
			t.Error("nobody is told")
		}
		s.Stop()
	})
}

// TestWaitsNoLonger: a write that waits until runs are compacted goes on when that has failed.
func TestWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 1)
		p := s.parts[0]
		p.fails.Store(true)
		p.long, p.gate = make(chan struct{}), make(chan struct{})
		for range tiers.MostRuns {
			p.fill(10)
			p.Freeze()
		}
		s.Start(newTestLog(), 0)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		admitted := make(chan error, 1)
		go func() {
			_, err := s.gate.Admit(ctx, p.tree, 1)
			admitted <- err
		}()
		synctest.Wait()
		if len(admitted) > 0 {
			t.Fatal("a write did not wait")
		}
		close(p.long)
		synctest.Wait()
		if len(admitted) == 0 {
			t.Error("the write waits still")
		}
		cancel()
		close(p.gate)
		s.Stop()
		if err := <-admitted; err != nil {
			t.Error(err)
		}
	})
}

// TestUpkeep: the log is vouched for once after its last record, spare files are made and
// syncs come at their interval; and a partition that takes no more writes is flushed,
// if there is enough in it.
func TestUpkeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 3)
		log := newTestLog()
		s.parts[0].fill(idleBytes)
		s.parts[1].fill(idleBytes / 2)
		s.parts[2].fill(idleBytes)
		s.Start(log, 10*time.Second)
		log.wanted <- struct{}{}
		for range 6 {
			time.Sleep(IdleFlush / 3)
			s.parts[2].fill(100)
		}
		time.Sleep(Interval)
		synctest.Wait()
		if a, b, c := s.parts[0].flushes.Load(), s.parts[1].flushes.Load(), s.parts[2].flushes.Load(); a != 1 || b != 0 || c != 0 {
			t.Errorf("flushes of the idle, the small and the busy partition: %d, %d, %d", a, b, c)
		}
		if v, n, spare := log.vouched.Load(), log.synced.Load(), log.spare.Load(); v != 1 || n != 6 || spare != 1 {
			t.Errorf("vouched %d times, synced %d times, %d spare files", v, n, spare)
		}
		log.appended.Add(1)
		time.Sleep(vouchAfter / 2)
		if n := log.vouched.Load(); n != 1 {
			t.Error("vouched beside a record that others may follow")
		}
		time.Sleep(5 * time.Second)
		if n := log.vouched.Load(); n != 2 {
			t.Errorf("vouched %d times after another record", n)
		}
		if n := s.ticks.Load(); n < 250 {
			t.Errorf("%d ticks in 65 s", n)
		}
		s.Stop()
	})
}
