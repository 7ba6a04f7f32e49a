// Package epoch tells when no reader can hold an unpublished object any more.
//
// A reader enters a Domain, loads a published pointer, uses what it points to, and leaves. A
// writer replaces the pointer and then calls Synchronize. When Synchronize returns, every
// reader that could have loaded the old pointer has left, so the writer may release the old
// object. Readers share no memory to which others write often: each reader counts itself in
// one of many padded slots.
//
// Each slot counts readers by the parity of the epoch in which they entered. Synchronize
// advances the epoch and waits until no reader with the old parity is left. It does so twice.
// Once would not suffice: a reader may load the epoch, be delayed, and count itself after the
// epoch has advanced. It then holds a pointer that it loaded after the first wait, under a
// parity for which only a second wait waits. (The scheme is that of sleepable RCU:
// Guniguntala, McKenney et al., "The read-copy-update mechanism for supporting real-time
// applications on shared-memory multiprocessor systems", IBM Systems Journal 47(2), 2008.)
package epoch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Domain is a set of readers. It is safe for concurrent use.
type Domain struct {
	epoch atomic.Uint64
	mask  uint32
	slots []slot

	synchronizing sync.Mutex
}

type slot struct {
	readers [2]atomic.Int64
	_       [128 - 16]byte // its own cache lines, the neighbour that is prefetched too
}

// Guard is the stay of one reader. The zero value is not valid.
type Guard struct{ count *atomic.Int64 }

// New returns a domain without readers.
func New() *Domain {
	n := 1
	for n < 8*runtime.GOMAXPROCS(0) {
		n *= 2
	}
	return &Domain{slots: make([]slot, n), mask: uint32(n - 1)}
}

// Enter begins a stay. It never waits and allocates nothing.
func (d *Domain) Enter() Guard {
	count := &d.slots[place()&d.mask].readers[d.epoch.Load()&1]
	count.Add(1)
	return Guard{count}
}

// place returns a number that goroutines seldom share at one time and that one keeps
// for as long as its stack does: where that lies. Slots that readers keep stay in the
// caches of their processors. Nothing else relies on it.
func place() uint32 {
	var here byte
	const stack = 11 // a stack takes at least 1 << stack bytes
	return uint32(uint64(uintptr(unsafe.Pointer(&here))) >> stack * 0x9E3779B97F4A7C15 >> 32)
}

// Leave ends the stay; to be called once, from any goroutine.
func (g Guard) Leave() { g.count.Add(-1) }

// Readers returns how many readers are in the domain. A reader that enters or leaves
// meanwhile may count or not.
func (d *Domain) Readers() (n int) {
	for i := range d.slots {
		for parity := range d.slots[i].readers {
			n += int(d.slots[i].readers[parity].Load())
		}
	}
	return n
}

// Synchronize returns when every reader that entered before the call has left.
// It must not be called inside a stay in the same domain.
func (d *Domain) Synchronize() {
	d.synchronizing.Lock()
	defer d.synchronizing.Unlock()
	for range 2 {
		left := (d.epoch.Add(1) - 1) & 1
		for i := range d.slots {
			wait(&d.slots[i].readers[left])
		}
	}
}

// wait returns when a count has been zero: first yielding, then sleeping.
func wait(count *atomic.Int64) {
	const spins, longest = 64, time.Millisecond
	pause := 10 * time.Microsecond
	for i := 0; count.Load() != 0; i++ {
		if i < spins {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, longest)
	}
}
