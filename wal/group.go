package wal

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// group lets one of those who wait for a sync do it for all that have come by
// then. Those who come while it syncs wait for the next turn; when it is done
// it hands the lead to the first of them. Nobody leads while nobody waits.
type group struct {
	sync.Mutex
	led         bool
	first, last *waiter // those who wait, in the order in which they came
	waiting     atomic.Int64
	pool        sync.Pool
}

// waiter is one who waits; wake gets true if it is to lead.
type waiter struct {
	pos  Position
	wake chan bool
	next *waiter
}

func (g *group) init() {
	g.pool.New = func() any { return &waiter{wake: make(chan bool, 1)} }
}

// Wait returns when the log is written to the kernel up to pos, or durable up
// to pos if sync is set. One call serves all who wait. If the write or the
// sync fails all who wait get an error that matches fault.ErrOutcomeUnknown; the log has
// failed, unless it matches ErrStalled.
func (l *Log) Wait(pos Position, sync bool) error {
	if !sync {
		if l.Written() >= pos {
			return nil
		}
		return l.flush(pos)
	}
	if l.Synced() >= pos {
		return nil
	}
	start := time.Now()
	err := l.waitSynced(pos)
	l.count.waits.Add(1)
	l.count.waited.Add(int64(time.Since(start)))
	return err
}

// Sync makes durable what was appended before the call. After an error that matches
// fault.ErrDiskFull that is for a later call.
func (l *Log) Sync() error {
	pos := l.Appended()
	if l.Synced() >= pos {
		return nil
	}
	return l.askSynced(pos)
}

// askSynced is waitSynced for those who have no record of their own before pos.
func (l *Log) askSynced(pos Position) error {
	err := l.waitSynced(pos)
	if errors.Is(err, ErrStalled) {
		return l.refusal(err)
	}
	return err
}

func (l *Log) waitSynced(pos Position) error {
	g := &l.group
	g.Lock()
	if l.Synced() >= pos {
		g.Unlock()
		return nil
	}
	if f := l.failed.Load(); f != nil {
		g.Unlock()
		return f.unknown()
	}
	if g.led {
		w := g.pool.Get().(*waiter)
		w.pos = pos
		g.pushLocked(w)
		g.Unlock()
		lead := <-w.wake
		g.pool.Put(w)
		if !lead {
			if l.Synced() >= pos {
				return nil
			}
			return l.failed.Load().unknown()
		}
	} else {
		g.led = true
		g.Unlock()
	}
	g.gather()
	err := l.syncAll()
	l.handOver()
	if l.Synced() >= pos {
		return nil
	}
	return err
}

// gather lets those run who are ready to: most of those whom the last sync has
// served are about to append again, and this sync can serve them too. It ends
// when no more come, at once for a committer that is alone.
func (g *group) gather() {
	for before := int64(-1); before < g.waiting.Load(); {
		before = g.waiting.Load()
		runtime.Gosched()
	}
}

func (g *group) pushLocked(w *waiter) {
	w.next = nil
	if g.last == nil {
		g.first = w
	} else {
		g.last.next = w
	}
	g.last = w
	g.waiting.Add(1)
}

// handOver ends a leader's turn: it wakes those who are served, and the next
// leader after them, so that it runs first.
func (l *Log) handOver() {
	g := &l.group
	g.Lock()
	synced, failed := l.Synced(), l.failed.Load() != nil
	var served, lead, next *waiter
	all := g.first
	g.first, g.last = nil, nil
	g.waiting.Store(0)
	for w := all; w != nil; w = next {
		next = w.next
		switch {
		case failed || w.pos <= synced:
			w.next, served = served, w
		case lead == nil:
			lead = w
		default:
			g.pushLocked(w)
		}
	}
	g.led = lead != nil
	g.Unlock()
	for w := served; w != nil; w = next {
		next = w.next // w is used again once it is awake
		w.wake <- false
	}
	if lead != nil {
		lead.wake <- true
	}
}

// Vouch appends an empty record that vouches for the records before it, and
// makes both durable, unless that was done or there is nothing to vouch for.
// It is meant for a log that lies still: a record that no other follows is the
// one kind whose decay looks like a torn write.
func (l *Log) Vouch() error {
	l.mu.Lock()
	f := l.mu.file
	needed := f.lastEnd > f.vouched && !l.mu.closed
	l.mu.Unlock()
	// Without records in its file there may be some in the one before that a full disk
	// holds up.
	if err := l.Sync(); err != nil || !needed {
		return err
	}
	if _, _, err := l.Append(0, TypeVouch, 0, nil, nil); err != nil {
		return err
	}
	return l.Sync()
}
