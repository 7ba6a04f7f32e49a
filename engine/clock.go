package engine

import (
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/item"
)

// The clock of the system may be wrong, and jump. What depends on it:
//
//   - Whether an item has expired: by the clock as it is now, nothing else. So a
//     clock that was ahead hides nothing any more once it is right.
//   - Time stamps of versions, and with them when items expire. They are
//     max(clock, the newest one), as long as that is not more than
//     Options.MaxClockSkew ahead: a clock that is set back by less stands still.
//     One that is set back by more was wrong before; then stamps are set back
//     too, and Stats and an event tell. What was written meanwhile keeps its
//     stamps.
//   - What merges drop: see expiry.go.
//   - Marks, which say when a sequence was given out, do not: see marks.go.
//
// In a replicated container stamps come from entries, and concern it alone.

// stamps are the time stamps that the store has given out, in milliseconds.
type stamps struct {
	last    atomic.Int64 // the newest one, since the clock was last set back
	highest atomic.Int64 // of all
}

// found notes a stamp that was found at open.
func (s *stamps) found(stamp int64) {
	stamp = min(stamp, item.MaxTime)
	raise(&s.last, stamp)
	raise(&s.highest, stamp)
}

// foundStamp notes the stamp of a version that was found at open. Those of a
// replicated container are not the store's own.
func (p *partition) foundStamp(stamp int64) {
	if !p.c.def.Replicated {
		p.db.stamps.found(stamp)
	}
}

// clockMillis returns the time by the clock, as a time stamp.
func (db *DB) clockMillis() int64 {
	return min(max(db.opts.clock().UnixMilli(), 1), item.MaxTime)
}

// nowMillis returns the time by which items of the container expire: the clock's.
// What an entry of a replicated log has judged to have expired is not seen any
// more, though the clock here may be behind.
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

// clockWasSetBack tells of it, on the goroutine of events: writes do not wait.
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

// raise makes a number at least what is given.
func raise(n *atomic.Int64, to int64) {
	for {
		old := n.Load()
		if to <= old || n.CompareAndSwap(old, to) {
			return
		}
	}
}
