// Package eventqueue calls functions in order on a goroutine of its own. Adding
// a function never waits, so the caller may hold locks.
package eventqueue

import (
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
)

// most is how many functions may wait.
const most = 4096

// Queue is a queue of functions. The zero Queue takes functions, and calls them once it is
// started. Its methods are safe for concurrent use. Its lock is locks.Events.
type Queue struct {
	mu      lockorder.Mutex[locks.Events]
	waiting []func()
	closed  bool
	wake    chan struct{}
	done    chan struct{}
}

// Start begins the goroutine, once. It recovers the panic of a function and hands the value
// to panicked. Functions that were added earlier wait for Start.
func (q *Queue) Start(panicked func(value any)) {
	q.mu.Lock()
	q.wake, q.done = make(chan struct{}, 1), make(chan struct{})
	q.wake <- struct{}{}
	q.mu.Unlock()
	go q.run(panicked)
}

// run makes the calls until the queue is stopped. A function that ends its goroutine gets
// the queue another one.
func (q *Queue) run(panicked func(any)) {
	ended := false
	defer func() {
		if ended {
			close(q.done)
			return
		}
		go q.run(panicked)
	}()
	for more := true; more; _, more = <-q.wake {
		for fn := q.take(); fn != nil; fn = q.take() {
			call(fn, panicked)
		}
	}
	ended = true
}

func call(fn func(), panicked func(any)) {
	defer func() {
		if p := recover(); p != nil {
			panicked(p)
		}
	}()
	fn()
}

// take returns the next function, nil if none waits.
func (q *Queue) take() (fn func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	fn = q.waiting[0]
	q.waiting = q.waiting[1:]
	return fn
}

// Add adds a function. It returns false if 4,096 wait already, or the queue is stopped:
// then fn is not called.
func (q *Queue) Add(fn func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.waiting) >= most {
		return false
	}
	q.waiting = append(q.waiting, fn)
	if q.wake != nil {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// Stop waits until all functions were called that had been added, and ends the goroutine.
func (q *Queue) Stop() {
	q.mu.Lock()
	running := q.wake != nil && !q.closed
	q.closed = true
	if running {
		close(q.wake)
	}
	q.mu.Unlock()
	if running {
		<-q.done
	}
}
