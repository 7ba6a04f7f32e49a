// Package lockorder gives locks a place in an order, and checks the order in tests that run
// with the race detector. A goroutine panics if it takes a lock that belongs before one that
// it holds, even if no other goroutine is there to deadlock with. It also panics if it writes
// to a file under a lock that forbids it. In ordinary builds a Mutex is a sync.Mutex, and
// nothing is checked.
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
