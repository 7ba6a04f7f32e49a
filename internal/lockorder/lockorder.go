// Package lockorder gives locks a place in an order and checks it while tests run
// under the race detector: a goroutine that takes a lock which belongs before one
// that it holds panics, whether or not another goroutine would have made a
// deadlock of it, and so does one that writes to a file under a lock that must not
// be held then. In ordinary builds a Mutex is a sync.Mutex, and nothing is checked.
package lockorder

// Order is the place of a kind of lock in the order of all.
type Order struct {
	Name string
	Rank int    // locks are taken in rising order
	Many bool   // several of the kind may be held; who takes them has an order of its own
	NoIO bool   // while it is held no file is written, synced or renamed, no directory synced
	But  string // if not empty: with NoIO, files whose names begin with this may be written
}

// Kind is implemented by an empty type, which names a kind of lock.
type Kind interface{ Order() Order }
