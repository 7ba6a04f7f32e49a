package engine

import (
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
)

// The system clock may be wrong, and may jump. These depend on it:
//
//   - Whether an item has expired: only the present time of the clock decides. So items
//     that were hidden while the clock was ahead are seen again once it is right.
//   - Time stamps of versions, and with them when items expire. If the clock is set back
//     by at most Options.MaxClockSkew, stamps stand still. If it is set back by more,
//     stamps are set back too, and Stats and an event report it (package timestamp).
//     Versions that were written before keep their stamps.
//   - What compactions drop: see internal/expiry.
//
// Marks, which say when a sequence was given out, do not depend on it: see package
// seqtime.
//
// In a replicated container stamps come from entries. They affect only that container.

// foundAtOpen notes a stamp of the store that was found at open.
func (db *DB) foundAtOpen(stamp int64) { db.stamps.Found(min(stamp, item.MaxTime)) }

// clockMillis returns the time by the clock, as a time stamp.
func (db *DB) clockMillis() int64 {
	return min(max(db.opts.clock().UnixMilli(), 1), item.MaxTime)
}

// Past says which items of the partition have expired: by the clock, in a replicated
// container by the time of its newest entry. So whether an item is there depends on the
// entries only, and no replica shows an item again that another one has hidden.
func (p *partition) Past() lifetime.Past {
	if p.c.def.Replicated {
		return p.Life.Past(p.EntryTime.Load())
	}
	return p.c.life.Past(p.db.clockMillis())
}

// stamp returns the time stamp of a write.
func (db *DB) stamp() int64 {
	now := db.clockMillis()
	stamp, before := db.stamps.Next(now, db.opts.MaxClockSkew.Milliseconds())
	if before != 0 {
		db.counters.clockSetBack.Add(1)
		notify(db, db.clockWasSetBack, ClockEvent{Stamp: time.UnixMilli(before), Clock: time.UnixMilli(now)})
	}
	return stamp
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
	if highest := db.stamps.Highest(); highest > db.latestForeign() {
		return time.UnixMilli(highest)
	}
	return time.Time{}
}
