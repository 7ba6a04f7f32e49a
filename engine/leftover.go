package engine

import (
	"errors"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Windows does not remove the name of a file that is mapped, be it by another
// of its names: that of a file which a neighbour shares, or which a slow reader
// still holds. On every system the last name of a file stays while a reader has the
// file pinned: the reader may have to open the file again (segment.Budget). The store
// tries such removals again whenever a reader released a file, and when it closes. The
// next open removes what is left then.

// leftovers are removals that have to wait.
type leftovers struct {
	lockorder.Mutex[leftoversLock]
	list []leftover
	some atomic.Bool // the list is not empty
}

// leftover is a removal that has to wait.
type leftover struct {
	bytes int64 // of files that others have replaced, as far as is known
	try   func() (done bool)
}

// errHeld says that a reader has the file pinned, so that its last name stays.
var errHeld = errors.New("a reader has the file pinned")

// bytes sums what waits to be removed.
func (l *leftovers) bytes() (n int64) {
	l.Lock()
	defer l.Unlock()
	for i := range l.list {
		n += l.list[i].bytes
	}
	return n
}

// retry has the reclaimer try again, as something was released.
func (l *leftovers) retry(db *DB) {
	if l.some.Load() {
		db.work.retire(func() {})
	}
}

// remove removes something that no manifest names any more, now or later: files of
// so many bytes, as far as is known. An error but that it is in use is reported: the
// next open tries again.
func (db *DB) remove(what string, bytes int64, remove func() error) {
	try := func() bool {
		err := remove()
		if err == errHeld || vfs.InUse(err) {
			return false
		}
		if err != nil && !errors.Is(err, ErrMissing) {
			db.backgroundError(what, err)
		}
		return true
	}
	if try() {
		return
	}
	db.leftovers.Lock()
	defer db.leftovers.Unlock()
	db.leftovers.list = append(db.leftovers.list, leftover{bytes, try})
	db.leftovers.some.Store(true)
}

// removeLeftovers tries again what was in use.
func (db *DB) removeLeftovers() {
	db.leftovers.Lock()
	list := db.leftovers.list
	db.leftovers.list = nil
	db.leftovers.Unlock()
	var rest []leftover
	for _, l := range list {
		if !l.try() {
			rest = append(rest, l)
		}
	}
	db.leftovers.Lock()
	defer db.leftovers.Unlock()
	db.leftovers.list = append(db.leftovers.list, rest...)
	db.leftovers.some.Store(len(db.leftovers.list) > 0)
}
