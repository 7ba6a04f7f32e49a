package pacing

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// spend writes so many bytes in pieces, as a compaction does.
func spend(r *Rate, bytes, piece float64) {
	for ; bytes > 0; bytes -= piece {
		for left := piece; left > 0; {
			n, until := r.Take(left)
			left -= n
			_ = Sleep(context.Background(), time.Until(until))
		}
	}
}

// TestRate: goroutines keep to a rate together, and one with a rate within another keeps to both.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if NewRate(0, nil) != nil {
			t.Error("no limit has a rate")
		}
		all := NewRate(1000, nil)
		if NewRate(0, all) != all {
			t.Error("no limit within a rate is not that rate")
		}
		for want, r := range map[float64]*Rate{math.Inf(1): nil, 1000: all, 400: NewRate(400, all), 999: NewRate(4000, NewRate(999, nil))} {
			if got := r.PerSecond(); got != want {
				t.Errorf("%g bytes a second, want %g", got, want)
			}
		}
		begun := time.Now()
		ends := func(what string, from, to time.Duration) {
			t.Helper()
			if took := time.Since(begun); took < from || took > to {
				t.Errorf("%s after %v, want %v to %v", what, took, from, to)
			}
		}
		const second = time.Second
		var wg sync.WaitGroup
		wg.Go(func() { spend(all, 5000, 5000); ends("one large piece ends", 5*second, 10*second) })
		wg.Go(func() { spend(all, 5000, 20); ends("small pieces end", 5*second, 10*second) })
		wg.Wait()
		ends("both end", 10*second, 10*second)

		begun = time.Now()
		wg.Go(func() { spend(NewRate(400, all), 4000, 100); ends("a slower one within it ends", 10*second, 13*second) })
		wg.Go(func() { spend(NewRate(4000, all), 6000, 100); ends("a faster one within it ends", 6*second, 10*second) })
		wg.Wait()

		begun = time.Now()
		spend(NewRate(1, nil), 10, 10)
		ends("ten bytes at one a second", 10*second, 10*second)
	})
}
