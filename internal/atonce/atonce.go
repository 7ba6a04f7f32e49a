// Package atonce makes calls at one time, with the result of calls that are made one after
// the other.
package atonce

import (
	"context"
	"sync"
	"sync/atomic"
)

// Do calls do for 0 to n-1, at most limit calls at a time, and waits for all of them.
// The result is as if it made one call after the other: it returns the error of the
// lowest number that failed, and that number. All calls with lower numbers were made.
// After an error, or once ctx is done, it begins no more calls.
func Do(ctx context.Context, limit, n int, do func(i int) error) (done int, err error) {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	work := func() {
		for !failed.Load() {
			// Numbers are taken in order, and a goroutine that has taken a number makes
			// its call. So all calls below the first error are made.
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = do(i)
			}
			if errs[i] != nil {
				failed.Store(true)
			}
		}
	}
	var group sync.WaitGroup
	for range min(limit, n) {
		group.Go(work)
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return i, err
		}
	}
	return n, nil
}
