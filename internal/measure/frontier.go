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

	refused atomic.Int64 // len(again)

	mu    sync.Mutex
	ahead map[int64]bool // written, while one before it is not
	again []int64        // whose write failed, to be taken again
}

func newFrontier(n int64) *frontier {
	f := &frontier{ahead: make(map[int64]bool)}
	f.next.Store(n)
	f.done.Store(n)
	return f
}

func (f *frontier) take() int64 {
	if f.refused.Load() > 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(f.again); n > 0 {
			i := f.again[n-1]
			f.again = f.again[:n-1]
			f.refused.Store(int64(n - 1))
			return i
		}
	}
	return f.next.Add(1) - 1
}

// failed gives an index back that was taken and not written. The documents behind it do not
// count until it is.
func (f *frontier) failed(i int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.again = append(f.again, i)
	f.refused.Store(int64(len(f.again)))
}

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
