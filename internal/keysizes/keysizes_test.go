package keysizes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/partmap"
)

// sizing counts writes as the engine does.
type sizing struct {
	*testing.T
	*lsmtest.Store
	Sizes
	now  int64
	told []int64
}

// limit is that of every logical partition.
type limit int64

func (l limit) Bytes([]byte) int64 { return int64(l) }
func (l limit) LeastBytes() int64  { return int64(l) }

func newSizing(t *testing.T, most int64) *sizing {
	s := &sizing{T: t, Store: lsmtest.New(t, 16<<20)}
	s.Sizes.Tree, s.Applying = s.Store.Tree(), new(sync.Mutex)
	life := new(lifetime.Life)
	life.Init(false, lifetime.Ever)
	s.Sizes.Tree.Life = life
	s.Rules = &Rules{Limits: limit(most), Now: func() int64 { return s.now }, NearlyFull: func(_ *lsm.Tree, _ []byte, n int64) { s.told = append(s.told, n) }}
	return s
}

// write counts a document and writes it, unless it is refused or made is false.
func (s *sizing) write(key, id string, bytes int, expires int64, made bool) error {
	s.Helper()
	k := lsmtest.Key(partmap.String(key), id)
	var c Counted
	if !s.Small(&c, int64(bytes)) {
		if err := s.Count(s.Context(), &c, &k, int64(bytes), func() (int64, error) { return s.OfItem(&k) }); err != nil {
			return err
		}
	}
	defer func() { c.End(made, false, expires) }()
	if s.Applying.Lock(); !s.Tested(&c) {
		s.Fatal("it is not counted")
	}
	s.Applying.Unlock()
	if !made {
		return nil
	}
	v := item.Version{Expires: expires, Body: make([]byte, bytes)}
	if bytes == 0 {
		v.Flags = item.Tombstone
	}
	s.Put(s.Sizes.Tree, partmap.String(key), id, v)
	return nil
}

func (s *sizing) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// TestCount: overwritten versions do not count, writes that are not made are taken back,
// deletes make room, what has expired does too, and the limit is exact.
func TestCount(t *testing.T) {
	s := newSizing(t, 1000)
	s.must(s.write("other", "x", 700, 0, true))
	for range 3 {
		s.must(s.write("a", "1", 400, 0, true))
	}
	s.must(s.write("a", "2", 500, 10, true))
	if len(s.told) != 1 || s.told[0] != 900 {
		t.Errorf("told of %v, want 900 once", s.told)
	}
	for range 3 {
		s.must(s.write("a", "3", 100, 0, false))
	}
	var limit *fault.LimitError
	if err := s.write("a", "3", 101, 0, true); !errors.Is(err, ErrFull) || !errors.As(err, &limit) || limit.Size != 1001 || limit.Limit != 1000 {
		t.Fatalf("a byte too many: %v", err)
	}
	s.must(s.write("b", "1", 900, 0, true)) // another key has a size of its own
	s.must(s.write("a", "1", 0, 0, true))
	s.must(s.write("a", "3", 500, 0, true))
	if err := s.write("a", "4", 1, 0, true); !errors.Is(err, ErrFull) {
		t.Fatalf("full: %v", err)
	}
	s.now = 10
	s.must(s.write("a", "4", 500, 0, true))
	if err := s.write("a", "5", 1, 0, true); !errors.Is(err, ErrFull) {
		t.Fatalf("full again: %v", err)
	}
	var c Counted
	key := lsmtest.Key(partmap.String("a"), "")
	if s.Small(&c, 0) {
		t.Error("a delete is not counted")
	}
	s.must(s.Count(t.Context(), &c, &key, 0, func() (int64, error) { return 0, nil }))
	c.End(true, true, 0)
	if err := s.write("a", "5", 1, 0, true); !errors.Is(err, ErrFull) {
		t.Fatalf("counted anew: %v", err)
	}
}

// TestCountedAgain: at the limit documents are counted again when some have expired, those
// written since the last count included, and at no other write.
func TestCountedAgain(t *testing.T) {
	s := newSizing(t, 1000)
	scans := func(want int64) {
		t.Helper()
		if n := s.scans.Swap(0); n != want {
			t.Errorf("documents were counted %d times, want %d", n, want)
		}
	}
	s.must(s.write("a", "1", 900, 30, true))
	s.must(s.write("a", "2", 50, 20, true))
	s.must(s.write("a", "3", 50, 10, true)) // written after the count
	scans(1)
	for range 3 {
		s.must(s.write("a", "1", 900, 30, true)) // by one of the same size
		if err := s.write("a", "4", 1, 0, true); !errors.Is(err, ErrFull) {
			t.Fatalf("full: %v", err)
		}
	}
	scans(0)
	s.now = 10
	s.must(s.write("a", "4", 50, 0, true)) // instead of 3
	for range 3 {
		if err := s.write("a", "5", 1, 0, true); !errors.Is(err, ErrFull) {
			t.Fatalf("full again: %v", err)
		}
	}
	scans(1)
	s.now = 20
	s.must(s.write("a", "5", 50, 0, true)) // instead of 2, which was found by the count
	scans(1)
}

// TestClockSetBack: documents that had expired by a clock that was ahead count again when it is set right.
func TestClockSetBack(t *testing.T) {
	s := newSizing(t, 1000)
	s.must(s.write("a", "1", 900, 10, true))
	s.now = 20
	s.must(s.write("a", "2", 850, 0, true))
	s.now = 5
	if err := s.write("a", "3", 100, 0, true); !errors.Is(err, ErrFull) {
		t.Errorf("a write beside 1,750 of 1,000 bytes: %v", err)
	}
	s.now = 10
	s.must(s.write("a", "3", 100, 0, true))
}

// TestExact: a size that is never counted again stays exact through writes that replace
// documents and writes that are not made.
func TestExact(t *testing.T) {
	s := newSizing(t, 1000)
	s.Sizes.Tree.Life = new(lifetime.Life)
	for range 3 {
		s.must(s.write("a", "1", 850, 0, true))
		s.must(s.write("a", "2", 100, 0, false))
	}
	s.must(s.write("a", "2", 150, 0, true))
	if err := s.write("a", "3", 1, 0, true); !errors.Is(err, ErrFull) {
		t.Errorf("full: %v", err)
	}
	s.must(s.write("a", "1", 0, 0, true))
	s.must(s.write("a", "3", 850, 0, true))
}

// TestSmall: while all of the partition is small, nothing is in the table.
func TestSmall(t *testing.T) {
	s := newSizing(t, 1000)
	s.must(s.write("a", "1", 800, 0, true))
	if s.sizes != nil {
		t.Error("counted below the size that is nearly full")
	}
	s.must(s.write("a", "2", 1, 0, true))
	if len(s.sizes) != 1 {
		t.Errorf("%d keys counted, want one", len(s.sizes))
	}
}

// TestCountWaits: a write to a logical partition that is being counted waits no longer
// than its context lasts, and is not counted then.
func TestCountWaits(t *testing.T) {
	s := newSizing(t, 1000)
	s.must(s.write("a", "1", 850, 0, true))
	k := lsmtest.Key(partmap.String("a"), "2")
	size := s.of(k.PK)
	s.must(size.counting.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var c Counted
	done := make(chan error)
	go func() { done <- s.Count(ctx, &c, &k, 1, func() (int64, error) { return 0, nil }) }()
	if err := <-done; !errors.Is(err, context.Canceled) || c.of != nil {
		t.Errorf("%v, counted %+v", err, c)
	}
	size.counting.Unlock()
}

// TestSmallKeys: beside many documents of others in memtables, overwritten ones included, a
// key far from its limit is not counted, and one that comes near is.
func TestSmallKeys(t *testing.T) {
	s := newSizing(t, 1000)
	const keys = 50
	for range 2 {
		for i := range keys {
			s.must(s.write(fmt.Sprint(i), "1", 300, 0, true))
		}
	}
	if n := s.scans.Load(); n != 0 {
		t.Errorf("%d keys of 300 bytes were counted", n)
	}
	clear(s.sizes) // all sizes are determined anew
	for i := range keys {
		s.must(s.write(fmt.Sprint(i), "2", 300, 0, true))
	}
	if n := s.scans.Load(); n != 0 {
		t.Errorf("%d keys of 600 bytes were counted", n)
	}
	s.must(s.write("7", "3", 300, 0, true))
	if err := s.write("7", "4", 101, 0, true); !errors.Is(err, ErrFull) {
		t.Errorf("a byte too many: %v", err)
	}
	if n := s.scans.Load(); n != 1 {
		t.Errorf("counted %d times, want once", n)
	}
}

// TestFull: a table that is full loses a few sizes that no write holds, and no other.
func TestFull(t *testing.T) {
	s := newSizing(t, 1000)
	s.must(s.write("held", "1", 700, 0, true))
	key := lsmtest.Key(partmap.String("held"), "2")
	var c Counted
	if s.Small(&c, 150) {
		t.Fatal("850 of 1,000 bytes are small")
	}
	s.must(s.Count(t.Context(), &c, &key, 150, func() (int64, error) { return 0, nil }))
	held := s.of(key.PK)
	for i := range maxKeys {
		s.of(fmt.Append(nil, i))
	}
	if n := len(s.sizes); n > maxKeys || n <= maxKeys-evicted || s.of(key.PK) != held {
		t.Errorf("%d sizes, that of the write under way is there: %v", n, s.of(key.PK) == held)
	}
	c.End(false, false, 0)
	if err := s.write("held", "2", 301, 0, true); !errors.Is(err, ErrFull) {
		t.Errorf("a byte too many: %v", err)
	}
	s.must(s.write("held", "2", 300, 0, true))
}
