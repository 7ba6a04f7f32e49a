package engine

import (
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/item"
)

// The system clock may be wrong, and may jump. These depend on it:
//
//   - Whether an item has expired: only the present time of the clock decides. So items
//     that were hidden while the clock was ahead are seen again once it is right.
//   - Time stamps of versions, and with them when items expire. A stamp is max(clock,
//     newest stamp), as long as the newest stamp is at most Options.MaxClockSkew ahead of
//     the clock: if the clock is set back by less, stamps stand still. A clock that is
//     set back by more was wrong before. Then stamps are set back too, and Stats and an
//     event report it. Versions that were written before keep their stamps.
//   - What merges drop: see expiry.go.
//
// Marks, which say when a sequence was given out, do not depend on it: see package
// seqtime.
//
// In a replicated container stamps come from entries. They affect only that container.

// stamps are the time stamps that the store has given out, in milliseconds.
type stamps struct {
	last    atomic.Int64 // the newest one, since the clock was last set back
	highest atomic.Int64 // the highest one of all
}

// found notes a stamp that was found at open.
func (s *stamps) found(stamp int64) {
	stamp = min(stamp, item.MaxTime)
	raise(&s.last, stamp)
	raise(&s.highest, stamp)
}

// foundStamp notes the stamp of a version that was found at open. Stamps of a replicated
// container are not the store's own, and are ignored.
func (p *partition) foundStamp(stamp int64) {
	if !p.c.def.Replicated {
		p.db.stamps.found(stamp)
	}
}

// clockMillis returns the time by the clock, as a time stamp.
func (db *DB) clockMillis() int64 {
	return min(max(db.opts.clock().UnixMilli(), 1), item.MaxTime)
}

// nowMillis returns the time by which items of the container expire: the clock's, in a
// replicated container at least that of its latest entry. So an item that an entry has
// judged as expired stays hidden, even if the clock here is behind.
func (c *Container) nowMillis() int64 {
	now := c.db.clockMillis()
	if c.def.Replicated {
		now = max(now, c.entryTime.Load())
	}
	return now
}

// stamp returns the time stamp of a write.
func (db *DB) stamp() int64 {
	now := db.clockMillis()
	for {
		last := db.stamps.last.Load()
		back := last - now
		if back >= 0 && back <= db.opts.MaxClockSkew.Milliseconds() {
			return last
		}
		if !db.stamps.last.CompareAndSwap(last, now) {
			continue
		}
		raise(&db.stamps.highest, now)
		if back > 0 {
			db.counters.clockSetBack.Add(1)
			notify(db, db.clockWasSetBack, ClockEvent{Stamp: time.UnixMilli(last), Clock: time.UnixMilli(now)})
		}
		return now
	}
}

// clockWasSetBack logs that the clock was set back, and calls the event. It runs on the
// goroutine of events, so that writes do not wait.
func (db *DB) clockWasSetBack(e ClockEvent) {
	db.opts.Logger.Warn("the clock was set back", "newest time stamp", e.Stamp, "clock", e.Clock)
	if tell := db.opts.Events.ClockSetBack; tell != nil {
		tell(e)
	}
}

// futureStamp returns the highest time stamp if it lies too far ahead of the
// clock, else the zero time.
func (db *DB) futureStamp() time.Time {
	if highest := db.stamps.highest.Load(); highest > db.latestForeign() {
		return time.UnixMilli(highest)
	}
	return time.Time{}
}

// raiseEntryTime notes the time of an entry.
func (c *Container) raiseEntryTime(stamp int64) { raise(&c.entryTime, stamp) }

// raise makes n at least to.
func raise(n *atomic.Int64, to int64) {
	for {
		old := n.Load()
		if to <= old || n.CompareAndSwap(old, to) {
			return
		}
	}
}
