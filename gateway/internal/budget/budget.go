// Package budget bounds the memory that requests under way take.
package budget

import (
	"context"
	"sync"
)

// Budget bounds a sum of sizes. Who finds no room waits in line.
type Budget struct {
	mu    sync.Mutex
	free  int64
	queue []waiting
}

type waiting struct {
	size  int64
	ready chan struct{} // closed when the size was taken
}

// New returns a budget of a size.
func New(size int64) *Budget { return &Budget{free: size} }

// Take takes size, which is at most the whole budget, or returns the error of ctx.
func (b *Budget) Take(ctx context.Context, size int64) error {
	b.mu.Lock()
	if len(b.queue) == 0 && size <= b.free {
		b.free -= size
		b.mu.Unlock()
		return nil
	}
	w := waiting{size: size, ready: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.queue {
		if b.queue[i].ready == w.ready {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.serve()
			return ctx.Err()
		}
	}
	// It was given meanwhile.
	b.free += size
	b.serve()
	return ctx.Err()
}

// Give gives size back.
func (b *Budget) Give(size int64) {
	if size == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += size
	b.serve()
}

// serve lets those go on, in order, for whom there is room. The caller holds mu.
func (b *Budget) serve() {
	for len(b.queue) > 0 && b.queue[0].size <= b.free {
		b.free -= b.queue[0].size
		close(b.queue[0].ready)
		b.queue = b.queue[1:]
	}
}
