// Package reclaim gives memory and files back when no reader can reach them any more.
//
// Readers take no lock: inside an epoch guard they load versions, files and memtables that
// writers have published. A writer that takes such an object out of use gives Retire the
// function that releases it. The Reclaimer waits until every reader that could have loaded
// the object has left its guard, and then calls the function.
//
// A file that no manifest names any more loses its name. Some removals have to wait
// longer. Windows refuses to remove any name of a mapped file. A neighbouring partition
// that shares the file, or a slow reader, may still map it. On every system the last name of a file stays while a reader
// has the file pinned: the reader may have to open the file again (openfile.Budget). The
// Reclaimer tries such removals again whenever a reader has released a file, and when the
// store closes. The next open removes the files that are left then.
//
// Invariants:
//
//  1. A function given to Retire is called once. All readers that were inside the epoch
//     when it was retired have left by then.
//  2. Functions that were retired together are called in the order of their retirement.
//  3. A removal is dropped only when it is done, or has failed for another reason than a
//     file in use; that is reported.
//
// Reclaimer.mu and Reclaimer.removals are taken last (see internal/locks), and not held
// while a function is called.
package reclaim

import (
	"context"

	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
)

// Reclaimer releases what was retired. It is safe for concurrent use.
type Reclaimer struct {
	readers *epoch.Domain
	report  func(what string, err error)
	manual  bool
	wake    chan struct{}

	mu      lockorder.Mutex[locks.Reclaimer]
	retired []func()

	removals removals
}

// New makes a Reclaimer for readers of a domain. report is told of removals that failed.
// manual says that nobody calls Run: NowIfManual does its work.
func New(readers *epoch.Domain, report func(what string, err error), manual bool) *Reclaimer {
	return &Reclaimer{readers: readers, report: report, manual: manual, wake: make(chan struct{}, 1)}
}

// Retire calls release when no reader can hold what release releases any more.
func (r *Reclaimer) Retire(release func()) {
	r.mu.Lock()
	r.retired = append(r.retired, release)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run releases what is retired until ctx ends, and what was retired by then.
func (r *Reclaimer) Run(ctx context.Context) {
	for {
		if r.Now() {
			continue
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			r.Now()
			return
		}
	}
}

// Now releases what was retired so far; false: nothing was. It waits for readers.
func (r *Reclaimer) Now() bool {
	r.mu.Lock()
	batch := r.retired
	r.retired = nil
	r.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	r.readers.Synchronize()
	for _, release := range batch {
		release()
	}
	r.RetryRemovals()
	return true
}

// NowIfManual is Now if nobody calls Run.
func (r *Reclaimer) NowIfManual() {
	if r.manual {
		r.Now()
	}
}

// Wait returns when everything that was retired before has been released, or with the
// error of ctx when that ends.
func (r *Reclaimer) Wait(ctx context.Context) error {
	done := make(chan struct{})
	r.Retire(func() { close(done) })
	r.NowIfManual()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
