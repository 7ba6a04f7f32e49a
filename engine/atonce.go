package engine

import (
	"context"
	"sync"
	"sync/atomic"
)

// atOnceEach is how many partitions are loaded or made at a time for each processor:
// most of them wait for the device. Each has up to two descriptors for moments.
const atOnceEach = 4

// atOnce calls do for 0 to n-1, limit of them at a time, and waits for all. It ends as
// if it made one call after the other: the first error in their order counts, and those before it, of
// which it returns the number, were made. After an error, or once ctx is done, it begins no more.
func atOnce(ctx context.Context, limit, n int, do func(i int) error) (done int, err error) {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	work := func() {
		for !failed.Load() {
			// Numbers are taken in order, and the goroutine that takes one makes its call:
			// all calls below the first error are made.
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
