package measure

import (
	"sync"
	"sync/atomic"
)

// frontier hands out the indexes of new documents and knows up to which all
// are written.
type frontier struct {
	next atomic.Int64
	done atomic.Int64

	mu    sync.Mutex
	ahead map[int64]bool // written, while one before it is not
}

func newFrontier(n int64) *frontier {
	f := &frontier{ahead: make(map[int64]bool)}
	f.next.Store(n)
	f.done.Store(n)
	return f
}

func (f *frontier) take() int64 { return f.next.Add(1) - 1 }

func (f *frontier) written(i int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := f.done.Load()
	if i != done {
		f.ahead[i] = true
		return
	}
	for done++; f.ahead[done]; done++ {
		delete(f.ahead, done)
	}
	f.done.Store(done)
}
