package control

import (
	"context"
	"sync"
)

// gate lets requests through. While it is shut they wait.
type gate struct {
	mu    sync.Mutex
	users int
	shut  chan struct{} // not nil: the gate is shut; closed when it opens
	idle  chan struct{} // not nil: closed when there are no users any more
}

// enter waits until the gate is open. Who has entered calls leave.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		shut := g.shut
		if shut == nil {
			g.users++
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		select {
		case <-shut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users--; g.users == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// close shuts the gate and waits until all who have entered have left. After an error it is
// open again. One goroutine at a time calls it.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	g.shut = make(chan struct{})
	var idle chan struct{}
	if g.users > 0 {
		idle = make(chan struct{})
		g.idle = idle
	}
	g.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		g.open()
		return ctx.Err()
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut, g.idle = nil, nil
}
