package engine

import (
	"errors"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Windows refuses to remove a name of a mapped file, even if the file is mapped by
// another of its names. Such files are shared by a neighbouring partition, or a slow
// reader still holds them. On every system the last name of a file stays while a
// reader has the file pinned: the reader may have to open the file again
// (openfile.Budget). The store tries such removals again whenever a reader has
// released a file, and when it closes. The next open removes the files that are left
// then.

// leftovers are removals that have to wait.
type leftovers struct {
	lockorder.Mutex[locks.Leftovers]
	list []leftover
	some atomic.Bool // the list is not empty
}

// leftover is a removal that has to wait.
type leftover struct {
	bytes int64 // of the files to remove, if known; else 0
	try   func() (done bool)
}

// bytes sums the sizes of the files that wait to be removed.
func (l *leftovers) bytes() (n int64) {
	l.Lock()
	defer l.Unlock()
	for i := range l.list {
		n += l.list[i].bytes
	}
	return n
}

// retry makes the reclaimer try again. It is called after a reader released files.
func (l *leftovers) retry(db *DB) {
	if l.some.Load() {
		db.work.retire(func() {})
	}
}

// remove calls remove for files that no manifest names any more. bytes is their size
// if known, else 0. If the files are in use, they are removed later. Other errors are
// reported; then the next open tries again.
func (db *DB) remove(what string, bytes int64, remove func() error) {
	try := func() bool {
		err := remove()
		if err == lsm.ErrHeld || vfs.InUse(err) {
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

// removeLeftovers tries the removals again that had to wait.
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
