package expiry

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/partmap"
)

// TestPurgeable: the slower one of two clocks counts, and nothing is dropped in a store
// that was opened less than the grace period ago.
func TestPurgeable(t *testing.T) {
	opened := time.UnixMilli(1_000_000)
	const grace = time.Minute
	for _, tc := range []struct {
		open, clock time.Duration // since the opening, steady and by the system's clock
		want        int64
	}{
		{grace - 1, grace - 1, 0},
		{grace - 1, time.Hour, 0},
		{grace, grace, 1_000_000},
		{grace, time.Hour, 1_000_000},
		{time.Hour, grace, 1_000_000},
		{time.Hour, -time.Hour, 1_000_000 - (time.Hour + grace).Milliseconds()},
	} {
		if at := Purgeable(opened, opened.Add(tc.clock), tc.open, grace); at != tc.want {
			t.Errorf("%+v: %d", tc, at)
		}
	}
}

// TestPass: a pass rests for some time, and is due if something was written or has
// expired since the last one, or if the default time to live has changed.
func TestPass(t *testing.T) {
	var none Pass
	if !none.Due(0, 1, 0, 0) || none.Due(0, 0, 100, 0) {
		t.Error("the first pass is due if anything was written")
	}
	p := Ended(time.Hour, 10*time.Second, 7, 500, 2)
	rested := time.Hour + 10*time.Second + 200*time.Second
	for _, tc := range []struct {
		open    time.Duration
		seq     uint64
		purge   int64
		changes uint64
		want    bool
	}{
		{rested - 1, 8, 1000, 2, false},
		{rested, 7, 499, 2, false},
		{rested, 8, 499, 2, true},
		{rested, 7, 500, 2, true},
		{rested, 7, 499, 4, true},
	} {
		if got := p.Due(tc.open, tc.seq, tc.purge, tc.changes); got != tc.want {
			t.Errorf("%+v: due %v", tc, got)
		}
	}
	if p := Ended(0, 0, 7, 0, 0); p.Due(leastRest-1, 8, 0, 0) || !p.Due(leastRest, 8, 0, 0) || p.Due(leastRest, 7, 1000, 0) {
		t.Error("a short pass over items that do not expire")
	}
}

// TestScan: a scan of many batches meets each expired item once, and no item that lives,
// has no time to live or was deleted.
func TestScan(t *testing.T) {
	s := lsmtest.New(t, 16<<20)
	tree := s.Tree()
	const items = 3*steps + 100
	due := make(map[string]uint64)
	for i := range items {
		v := item.Version{Body: []byte("x")}
		id := string(rune('a'+i%20)) + time.Duration(i).String()
		switch i % 4 {
		case 0:
			v.Expires, due[id] = 100, uint64(i+1)
		case 1:
			v.Expires = 101 + int64(i)
		case 2:
			v.Flags, v.Body = item.Tombstone, nil
		}
		s.Put(tree, partmap.Number(float64(i%10)), id, v)
		if i == items/2 {
			s.Freeze(tree)
		}
	}
	var scan Scan
	calls := 0
	for more := true; more; calls++ {
		var gone []Item
		var err error
		if gone, more, err = scan.Next(t.Context(), tree, lifetime.Past{Expired: 100}); err != nil {
			t.Fatal(err)
		}
		if len(gone) > batch {
			t.Errorf("a batch of %d", len(gone))
		}
		for _, it := range gone {
			if due[string(it.Key.ID)] != it.Seq {
				t.Errorf("item %s of sequence %d is not due", it.Key.ID, it.Seq)
			}
			delete(due, string(it.Key.ID))
		}
	}
	if len(due) > 0 || scan.Left != 102 || calls < items/4/batch {
		t.Errorf("%d items not met in %d batches, the next expires at %d", len(due), calls, scan.Left)
	}
	tree.Dropped.Store(true)
	if _, _, err := scan.Next(t.Context(), tree, lifetime.Past{Expired: 100}); err != lsm.ErrMoved {
		t.Errorf("in a partition that was dropped: %v", err)
	}
}
