package cleavetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

func doc(id string) []byte { return fmt.Appendf(nil, `{"id":%q,"k":"a"}`, id) }

var key = engine.StringKey("a")

func put(t *testing.T, c *engine.Container, id string) {
	t.Helper()
	if _, err := c.Upsert(context.Background(), doc(id), nil); err != nil {
		t.Fatal(err)
	}
}

// has says whether the container has an item.
func has(t *testing.T, c *engine.Container, id string) bool {
	t.Helper()
	_, err := c.Read(context.Background(), key, id)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// TestReopen closes a store, and finds its items again.
func TestReopen(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	put(t, s.Container("c", "/k"), "x")
	before := s.DB()
	s.Close()
	if again := s.DB(); again == before || again != s.DB() {
		t.Error("DB did not open the store again, once")
	}
	if !has(t, s.Container("c", "/k"), "x") {
		t.Error("the item is gone")
	}
}

// TestReopenAfterShutdown: a program that closes the store which it was given is started again.
func TestReopenAfterShutdown(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	put(t, s.Container("c", "/k"), "x")
	before := s.DB()
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if again := s.DB(); again == before || again.Closed() {
		t.Fatal("DB did not open the store again")
	}
	if !has(t, s.Container("c", "/k"), "x") {
		t.Error("the item is gone")
	}
}

// TestKill: a killed process loses nothing that was acknowledged, and its handles are dead.
func TestKill(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	c := s.Container("c", "/k")
	put(t, c, "synced")
	if _, err := c.Upsert(t.Context(), doc("buffered"), &engine.WriteOptions{Durability: engine.Buffered}); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if _, err := c.Upsert(t.Context(), doc("late"), nil); err == nil {
		t.Error("a dead process has written")
	}
	c = s.Container("c", "/k")
	if !has(t, c, "synced") || !has(t, c, "buffered") || has(t, c, "late") {
		t.Error("after the kill: want the two items that were written before")
	}
}

// TestCutPower: a power cut takes what was not synced, and one seed takes the same each time.
func TestCutPower(t *testing.T) {
	t.Parallel()
	survivors := func(opts ...cleavetest.PowerOption) (ids []string) {
		s := cleavetest.New(t, cleavetest.NoBackground(), cleavetest.At(time.Unix(1e9, 0)))
		c := s.Container("c", "/k")
		put(t, c, "synced")
		for i := range 20 {
			if _, err := c.Upsert(t.Context(), doc(fmt.Sprint(i)), &engine.WriteOptions{Durability: engine.Buffered}); err != nil {
				t.Fatal(err)
			}
		}
		s.CutPower(opts...)
		for it, err := range s.Container("c", "/k").Scan(t.Context(), key, engine.IDRange{}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, it.ID)
		}
		return ids
	}
	if ids := survivors(); !slices.Equal(ids, []string{"synced"}) {
		t.Errorf("without a seed survived %q, want what was synced", ids)
	}
	outcomes := make(map[int]bool)
	for seed := range uint64(10) {
		first, again := survivors(cleavetest.Seed(seed)), survivors(cleavetest.Seed(seed))
		if !slices.Equal(first, again) {
			t.Errorf("seed %d: survived %q, then %q", seed, first, again)
		}
		if !slices.Contains(first, "synced") {
			t.Errorf("seed %d: what was synced is gone", seed)
		}
		outcomes[len(first)] = true
	}
	if len(outcomes) < 2 {
		t.Error("all seeds had one outcome")
	}
}

// TestCrashAt crashes a transaction at each change that it makes of the disk. It is there
// whole or not at all, and whole if it was acknowledged.
func TestCrashAt(t *testing.T) {
	t.Parallel()
	lost, kept := 0, 0
	n := 1
	for ; ; n++ {
		s := cleavetest.New(t, cleavetest.NoBackground())
		c := s.Container("c", "/k")
		put(t, c, "before")
		s.CrashAt(n)
		err := c.Update(t.Context(), key, func(tx *engine.Tx) error {
			return errors.Join(tx.Upsert(doc("one"), nil), tx.Upsert(doc("two"), nil), tx.Delete("before", nil))
		})
		if !s.Crashed() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if n%2 == 0 {
			s.Kill()
		} else {
			s.CutPower()
		}
		c = s.Container("c", "/k")
		one, two, before := has(t, c, "one"), has(t, c, "two"), has(t, c, "before")
		if one != two || one == before || err == nil && !one {
			t.Errorf("crash at change %d, the transaction ended with %v: one %t, two %t, before %t", n, err, one, two, before)
		}
		if one {
			kept++
		} else {
			lost++
		}
	}
	if n < 3 || lost == 0 {
		t.Errorf("%d changes, %d transactions kept, %d lost: the crashes met nothing", n-1, kept, lost)
	}
}

// TestFillDisk fills the disk: the next write is refused, nothing is lost, and with room
// again writes go on.
func TestFillDisk(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	c := s.Container("c", "/k")
	put(t, c, "before")
	for range 3 {
		s.FillDisk()
		if _, err := c.Upsert(t.Context(), doc("refused"), nil); !errors.Is(err, engine.ErrDiskFull) {
			t.Fatalf("on a full disk: %v, want ErrDiskFull", err)
		}
		if !has(t, c, "before") || has(t, c, "refused") {
			t.Error("on a full disk reads show something else")
		}
		s.FreeDisk()
		put(t, c, "after")
	}
	s.FillDisk()
	s.Kill() // a crash frees nothing
	db, err := s.Open(t.Context())
	if err != nil {
		t.Fatalf("open on a full disk, with the reserve: %v", err)
	}
	if db.Stats().Failed != nil {
		t.Error(db.Stats().Failed)
	}
	if c = s.Container("c", "/k"); !has(t, c, "before") || !has(t, c, "after") {
		t.Error("the items are gone")
	}
}

// TestFillDiskOfFailedStore: the disk below a store that has failed can be filled as well.
func TestFillDiskOfFailedStore(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	c := s.Container("c", "/k")
	put(t, c, "before")
	s.Fail(cleavetest.Sync, nil, cleavetest.OnFile(cleavetest.LogFiles))
	if _, err := c.Upsert(t.Context(), doc("unknown"), nil); !errors.Is(err, engine.ErrOutcomeUnknown) {
		t.Fatalf("with a failed sync: %v, want ErrOutcomeUnknown", err)
	}
	s.FillDisk()
	if _, err := c.Upsert(t.Context(), doc("refused"), nil); !errors.Is(err, engine.ErrFailed) {
		t.Errorf("of a failed store on a full disk: %v, want ErrFailed", err)
	}
	if !has(t, c, "before") || has(t, c, "refused") {
		t.Error("reads show something else")
	}
	s.FreeDisk()
	s.Kill()
	put(t, s.Container("c", "/k"), "after")
}

// TestLeaveSpace writes until the space that is left is used up.
func TestLeaveSpace(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t, cleavetest.NoBackground())
	c := s.Container("c", "/k")
	s.LeaveSpace(1 << 20)
	body := fmt.Appendf(nil, `{"id":"x","k":"a","text":"%01000d"}`, 0)
	var err error
	n := 0
	for ; err == nil && n < 10_000; n++ {
		_, err = c.Upsert(t.Context(), body, nil)
	}
	if !errors.Is(err, engine.ErrDiskFull) || n < 200 {
		t.Errorf("after %d writes: %v, want ErrDiskFull after some hundreds", n, err)
	}
}

// TestFail has a sync fail: the write has an unknown outcome, later ones are refused, and
// another open ends that.
func TestFail(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	c := s.Container("c", "/k")
	put(t, c, "before")
	f := s.Fail(cleavetest.Sync, nil, cleavetest.OnFile(cleavetest.LogFiles))
	if _, err := c.Upsert(t.Context(), doc("unknown"), nil); !errors.Is(err, engine.ErrOutcomeUnknown) || !errors.Is(err, syscall.EIO) {
		t.Errorf("the write whose sync failed: %v, want ErrOutcomeUnknown and EIO", err)
	}
	if n := f.Hits(); n != 1 {
		t.Errorf("the fault was met %d times", n)
	}
	if _, err := c.Upsert(t.Context(), doc("refused"), nil); !errors.Is(err, engine.ErrFailed) {
		t.Errorf("the write after it: %v, want ErrFailed", err)
	}
	if !has(t, c, "before") {
		t.Error("a failed store does not serve reads")
	}
	s.Kill()
	c = s.Container("c", "/k")
	put(t, c, "after")
	if !has(t, c, "before") || has(t, c, "refused") {
		t.Error("after another open: want the item before, and none that was refused")
	}
}

// TestFaultOptions counts which of several calls fail.
func TestFaultOptions(t *testing.T) {
	t.Parallel()
	own := errors.New("an error of the test")
	for _, test := range []struct {
		opts []cleavetest.FaultOption
		want string // of ten flushes, those that fail
	}{
		{nil, "x........."},
		{[]cleavetest.FaultOption{cleavetest.Nth(3)}, "..x......."},
		{[]cleavetest.FaultOption{cleavetest.Nth(3), cleavetest.Times(2)}, "..xx......"},
		{[]cleavetest.FaultOption{cleavetest.Nth(8), cleavetest.ForEver()}, ".......xxx"},
	} {
		s := cleavetest.New(t, cleavetest.NoBackground())
		c := s.Container("c", "/k")
		f := s.Fail(cleavetest.Create, own, append(test.opts, cleavetest.OnFile(cleavetest.SegmentFiles+"*"))...)
		got := ""
		for i := range 10 {
			put(t, c, fmt.Sprint(i))
			if err := s.DB().Flush(t.Context()); err == nil {
				got += "."
			} else if errors.Is(err, own) {
				got += "x"
			} else {
				t.Fatal(err)
			}
		}
		if got != test.want {
			t.Errorf("%v: %s, want %s", f, got, test.want)
		}
		f.Clear()
	}
}

// TestDamage damages segment files: reads of what they hold fail, others go on.
func TestDamage(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	put(t, s.Container("c", "/k"), "x")
	if err := s.DB().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, s.Container("other", "/k"), "y")
	s.Close()
	if names := s.Damage(cleavetest.SegmentFiles); len(names) != 1 {
		t.Errorf("damaged %q, want one file", names)
	}
	if _, err := s.Container("c", "/k").Read(t.Context(), key, "x"); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("read of a damaged file: %v, want ErrCorrupt", err)
	}
	if !has(t, s.Container("other", "/k"), "y") {
		t.Error("an item of another container is gone")
	}
	s.Close()
	s.Damage(cleavetest.ManifestFiles)
	if _, err := s.Open(t.Context()); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("open with damaged manifests: %v, want ErrCorrupt", err)
	}
}

// TestClock has items expire and request units refill, with a clock that stands still.
func TestClock(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := cleavetest.New(t, cleavetest.At(at))
	c, err := s.DB().CreateContainer(t.Context(), "c", engine.ContainerDef{
		PartitionKey: []string{"/k"}, DefaultTTL: time.Hour, Throughput: 10, NoBurst: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Second) // a new container has no request units saved
	at = s.Now()
	meta, err := c.Upsert(t.Context(), doc("x"), nil)
	if err != nil || !meta.Modified.Equal(at) || !meta.Expires.Equal(at.Add(time.Hour)) {
		t.Errorf("written at %v, expires %v, %v", meta.Modified, meta.Expires, err)
	}
	var throttled *engine.ThrottledError
	for n := 0; !errors.As(err, &throttled); n++ {
		if n == 1000 {
			t.Fatal("1,000 writes were not throttled")
		}
		_, err = c.Upsert(t.Context(), doc("x"), nil)
	}
	s.Advance(throttled.RetryAfter)
	put(t, c, "x")
	s.Advance(59 * time.Minute)
	if !has(t, c, "x") {
		t.Error("the item has expired before its time")
	}
	s.Advance(time.Minute)
	if has(t, c, "x") {
		t.Error("the item has not expired")
	}
	s.Advance(time.Second)
	s.SetClock(at)
	if !s.Now().Equal(at) || !has(t, c, "x") {
		t.Error("the clock was not set back")
	}
}

// TestSlowSyncs, in a bubble: a write takes as long as its sync, and no real time.
func TestSlowSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cleavetest.New(t)
		c := s.Container("c", "/k")
		s.SlowSyncs(time.Minute)
		begun := time.Now()
		put(t, c, "x")
		if took := time.Since(begun); took < time.Minute {
			t.Errorf("the write took %v", took)
		}
		s.SlowSyncs(0)
		time.Sleep(2 * time.Minute) // a sync of the background may have begun before
	})
}

// TestBubble: in a bubble time.Sleep turns the clock, and wakes background work.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cleavetest.New(t)
		c, err := s.DB().CreateContainer(t.Context(), "c", engine.ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		put(t, c, "x")
		time.Sleep(59 * time.Minute)
		if !has(t, c, "x") {
			t.Error("the item has expired before its time")
		}
		time.Sleep(2 * time.Minute)
		if has(t, c, "x") {
			t.Error("the item has not expired")
		}
		s.Kill()
		put(t, s.Container("c", "/k"), "y")
	})
}

// TestOwnOpen: a program that opens its store by itself finds the same one again.
func TestOwnOpen(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	o := s.Options()
	for i := range 3 {
		db, err := engine.Open(t.Context(), s.Dir(), o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := db.EnsureContainer(t.Context(), "c", engine.ContainerDef{PartitionKey: []string{"/k"}})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && !has(t, c, "x") {
			t.Error("the item is gone")
		}
		put(t, c, "x")
		if _, err := s.Open(t.Context()); !errors.Is(err, engine.ErrLocked) {
			t.Errorf("a second open: %v, want ErrLocked", err)
		}
		if i == 1 {
			s.Kill()
			if _, err := c.Upsert(t.Context(), doc("x"), nil); err == nil {
				t.Error("a dead process has written")
			}
		} else if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKillUnderLoad kills a process again and again while others write: what was
// acknowledged is there.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	s := cleavetest.New(t)
	written := make(map[string]bool)
	for life := range 10 {
		c := s.Container("c", "/k")
		for id := range written {
			if !has(t, c, id) {
				t.Fatalf("life %d: %s was acknowledged and is gone", life, id)
			}
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		some := make(chan bool, 1)
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("%d-%d-%d", life, w, i)
					if _, err := c.Upsert(context.Background(), doc(id), nil); err != nil {
						return
					}
					mu.Lock()
					written[id] = true
					if len(written)%50 == 49 {
						select {
						case some <- true:
						default:
						}
					}
					mu.Unlock()
				}
			})
		}
		<-some
		if life%2 == 0 {
			s.Kill()
		} else {
			s.CutPower(cleavetest.Seed(uint64(life)))
		}
		wg.Wait()
	}
}

// TestDiskAfterCrash: what a test does to the disk after a crash that CrashAt brought about is
// there when the store is opened again.
func TestDiskAfterCrash(t *testing.T) {
	s := cleavetest.New(t, cleavetest.NoBackground())
	ctx := t.Context()
	c := s.Container("c", "/k")
	doc := []byte(`{"id":"a","k":"b"}`)
	if _, err := c.Upsert(ctx, doc, nil); err != nil {
		t.Fatal(err)
	}
	crash := func() {
		t.Helper()
		s.CrashAt(1)
		if _, err := c.Upsert(ctx, doc, nil); err == nil || !s.Crashed() {
			t.Fatalf("crashed: %v, %v", s.Crashed(), err)
		}
	}
	s.LeaveSpace(0)
	crash()
	s.FreeDisk()
	s.Kill()
	c = s.Container("c", "/k")
	if _, err := c.Upsert(ctx, doc, nil); err != nil {
		t.Errorf("there is space again: %v", err)
	}
	crash()
	s.Damage(cleavetest.ManifestFiles)
	s.Kill()
	if _, err := s.Open(ctx); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("manifests are damaged: %v", err)
	}
}
