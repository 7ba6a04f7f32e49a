package reclaim

import (
	"errors"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/vfs"
)

// ErrHeld says that a reader has the file pinned, so that its last name stays.
var ErrHeld = errors.New("a reader has the file pinned")

// removals are those that have to wait.
type removals struct {
	lockorder.Mutex[locks.Removals]
	list []removal
	some atomic.Bool // the list is not empty
}

// removal is one that has to wait.
type removal struct {
	bytes int64 // of the files to remove, if known; else 0
	try   func() (done bool)
}

// Remove calls remove for files that no manifest names any more. bytes is their size
// if known, else 0. If remove returns ErrHeld, or the files are in use, it is called
// again later. Other errors are reported; then the next open tries again.
func (r *Reclaimer) Remove(what string, bytes int64, remove func() error) {
	try := func() bool {
		err := remove()
		if err == ErrHeld || vfs.InUse(err) {
			return false
		}
		if err != nil && !errors.Is(err, fault.ErrMissing) {
			r.report(what, err)
		}
		return true
	}
	if try() {
		return
	}
	r.removals.Lock()
	defer r.removals.Unlock()
	r.removals.list = append(r.removals.list, removal{bytes, try})
	r.removals.some.Store(true)
}

// Unpinned makes the Reclaimer try the removals again that have to wait. It is called
// after a reader released files.
func (r *Reclaimer) Unpinned() {
	if r.removals.some.Load() {
		r.Retire(func() {})
	}
}

// RetryRemovals tries the removals again that have to wait.
func (r *Reclaimer) RetryRemovals() {
	r.removals.Lock()
	list := r.removals.list
	r.removals.list = nil
	r.removals.Unlock()
	var rest []removal
	for _, removal := range list {
		if !removal.try() {
			rest = append(rest, removal)
		}
	}
	r.removals.Lock()
	defer r.removals.Unlock()
	r.removals.list = append(r.removals.list, rest...)
	r.removals.some.Store(len(r.removals.list) > 0)
}

// WaitingBytes sums the sizes of the files whose removal has to wait.
func (r *Reclaimer) WaitingBytes() (n int64) {
	r.removals.Lock()
	defer r.removals.Unlock()
	for i := range r.removals.list {
		n += r.removals.list[i].bytes
	}
	return n
}
