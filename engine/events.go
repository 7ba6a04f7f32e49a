package engine

import (
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
)

// EventListener is a set of optional functions that the engine calls as things
// happen: one at a time, in order, on a goroutine of its own. The functions may
// call the store, except Close, which waits for them. While 4,096 events wait for a
// slow listener, further events are dropped and counted in Stats.EventsDropped. A
// panic in a function is recovered, counted in Stats.ListenerPanics and logged.
type EventListener struct {
	Flushed         func(FlushEvent)
	Compacted       func(CompactionEvent)
	Stalled         func(StallEvent)
	CorruptionFound func(error)
	BackgroundError func(error)
	Reshaped        func(ReshapeEvent)
	NearlyFull      func(NearlyFullEvent)
	ClockSetBack    func(ClockEvent)
	LogDropped      func(LogDroppedEvent)
	SlowCall        func(SlowCallEvent) // of calls that take longer than Options.SlowCall
}

// FlushEvent tells of a memtable that became a run of segment files.
type FlushEvent struct {
	Container string
	Partition PartitionID
	Items     int64 // versions written
	RawBytes  int64 // of their documents
	Bytes     int64 // of the files
	Duration  time.Duration
}

// CompactionEvent tells of runs that were compacted into one.
type CompactionEvent struct {
	Container string
	Partition PartitionID
	Reindex   bool  // a file was written anew with another index
	Trim      bool  // a shared file was written anew without the items of other partitions
	Runs      int   // compacted
	ItemsIn   int64 // versions read
	ItemsOut  int64 // versions kept
	BytesIn   int64
	BytesOut  int64
	// Duration includes compactions of newer runs in the partition that it let in between;
	// each of them is told by an event of its own, before.
	Duration time.Duration
}

// ReshapeEvent tells of a split, merge or move of a boundary that has ended. Its
// Phase is the last one that the job reached.
type ReshapeEvent struct {
	ReshapeProgress
	Err error // nil: the children have taken over
}

// StallEvent tells of a write that waited because write buffers were full.
type StallEvent struct {
	Partition PartitionID
	Waited    time.Duration
}

// ClockEvent tells of a write that found the clock more than Options.MaxClockSkew
// behind the newest time stamp: the clock was ahead then, or is behind now.
type ClockEvent struct {
	Stamp time.Time // the newest time stamp before
	Clock time.Time // the clock, and the time stamp of the write
}

// LogDroppedEvent tells that Open found a torn record at the end of the log, from a power
// cut or a kill. Open ignores the log from there on: it was never known to be durable.
type LogDroppedEvent struct {
	File    uint64 // number of the log file, as in its name
	Offset  int64  // of the torn record: the log ends here
	Reason  string // why the record was refused
	Bytes   int64  // ignored here and in later files, up to the last recognizable record
	Records int64  // ignored records whose headers can be read
}

// NearlyFullEvent tells of a write after which a logical partition holds more
// than four fifths of its limit: see KeyLimits. It comes once while the
// engine keeps the size of the logical partition in memory. It may come again
// after that: for instance after the physical partition was replaced or the store
// was opened.
type NearlyFullEvent struct {
	Container string
	Partition PartitionID
	Key       PartitionKey
	Bytes     int64 // of its documents
	Limit     int64 // past which writes fail with ErrLogicalPartitionFull
}

// tellNearlyFull reports a logical partition of the container that is nearly full.
func (c *Container) tellNearlyFull(t *lsm.Tree, pk []byte, bytes int64) {
	notify(c.db, c.db.opts.Events.NearlyFull, NearlyFullEvent{
		Container: c.name, Partition: t.ID, Key: keyOf(string(pk)), Bytes: bytes, Limit: c.limits.Bytes(pk),
	})
}

// notify reports an event to a function of the listener. It never waits.
func notify[E any](db *DB, fn func(E), event E) {
	if fn != nil && !db.events.Add(func() {
		db.opts.telling.Lock()
		defer db.opts.telling.Unlock()
		fn(event)
	}) {
		db.counters.eventsDropped.Add(1)
	}
}

// listenerPanicked notes the panic of a listener.
func (db *DB) listenerPanicked(value any) {
	db.counters.listenerPanics.Add(1)
	db.opts.Logger.Error("event listener panicked", "panic", value)
}
