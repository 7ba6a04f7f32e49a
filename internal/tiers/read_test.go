package tiers

import (
	"math"
	"testing"
)

// TestByReads: the more seeks there were, the more of the newest runs are compacted, and small ones sooner.
func TestByReads(t *testing.T) {
	const mb = 1 << 20
	older := []int64{mb, mb, mb, 1000 * mb}
	for _, c := range []struct {
		name  string
		sizes []int64
		seeks int64 // the fewest after which so many runs are chosen
		want  int
	}{
		{"two empty runs", []int64{0, 0}, 2048, 2},
		{"five empty runs", make([]int64, 5), 2048, 5},
		{"small runs", older, 4 * 2048 * 3 / 2, 3},
		{"small runs and a large one", older, 1004 * 2048, 4},
		{"a small run behind a large one", []int64{1000 * mb, 0}, 1001 * 2048, 2},
	} {
		if got := byReads(c.sizes, math.Inf(1), c.seeks); got != (Plan{0, c.want}) {
			t.Errorf("%s: of %v after %d seeks %+v, want %d of them", c.name, c.sizes, c.seeks, got, c.want)
		}
		if got := byReads(c.sizes, math.Inf(1), c.seeks-1); got.End >= c.want {
			t.Errorf("%s: of %v %+v after %d seeks, too early", c.name, c.sizes, got, c.seeks-1)
		}
		until := SeeksUntil(c.sizes)
		if byReads(c.sizes, math.Inf(1), until).Len() == 0 || byReads(c.sizes, math.Inf(1), until-1).Len() > 0 {
			t.Errorf("%s: %d seeks are not the fewest", c.name, until)
		}
	}
	for _, sizes := range [][]int64{nil, {mb}} {
		if got := byReads(sizes, math.Inf(1), math.MaxInt64); got.Len() > 0 || SeeksUntil(sizes) != math.MaxInt64 {
			t.Errorf("of %d runs %+v", len(sizes), got)
		}
	}
}

// TestReadsAtRate: a rate makes a compaction dearer by as much as it makes the writing of the runs slower, and one
// that never ends is never worth it.
func TestReadsAtRate(t *testing.T) {
	const mb = 1 << 20
	sizes := []int64{10 * mb, 50 * mb}
	for _, c := range []struct {
		rate  float64
		seeks int64
	}{
		{math.Inf(1), 61 * 2048}, {2 * fullRate, 61 * 2048}, {fullRate, 61 * 2048}, {fullRate / 100, 6001 * 2048}, {math.SmallestNonzeroFloat64, 1 << 62},
	} {
		if early, got := byReads(sizes, c.rate, c.seeks-1), byReads(sizes, c.rate, c.seeks); early.Len() > 0 || got.Len() != 2 {
			t.Errorf("at %g bytes a second %+v after %d seeks, %+v after one less", c.rate, got, c.seeks, early)
		}
	}
}

// TestReadsPay: with a flush now and then, and no tiers, seeks and compactions take at most twice the time that
// the seeks take without compactions, and where scans are many less than these.
func TestReadsPay(t *testing.T) {
	for _, each := range []int64{100, 1000, 10_000, 100_000} { // scans between flushes
		runs, since := []int64{300 << 20}, int64(0)
		never, spent, most := int64(0), int64(0), 0
		for flushes := range int64(10) {
			runs = append([]int64{4 << 20}, runs...)
			for range each {
				never += (flushes + 1) * seekBytes
				spent += int64(len(runs)-1) * seekBytes
				since += int64(len(runs) - 1)
				if p := byReads(runs, math.Inf(1), since); p.Len() > 0 {
					one := int64(0)
					for _, size := range runs[:p.End] {
						one += size
					}
					spent += callBytes + one
					runs, since = append([]int64{one}, runs[p.End:]...), 0
				}
			}
			most = max(most, len(runs))
		}
		if spent > 2*never {
			t.Errorf("%d scans a flush: %d, and %d without compactions", each, spent, never)
		}
		if each == 100_000 && (spent > never || most > 2) {
			t.Errorf("%d scans a flush: %d, and %d without compactions; up to %d runs", each, spent, never, most)
		}
	}
}
