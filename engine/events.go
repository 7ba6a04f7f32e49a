package engine

import "time"

// EventListener is a set of optional functions that the engine calls as things
// happen, without holding a lock. They run on engine goroutines and on those
// of callers: they should return soon. A panic in one is recovered, counted in
// Stats.ListenerPanics and logged.
type EventListener struct {
	Flushed         func(FlushEvent)
	Merged          func(MergeEvent)
	Stalled         func(StallEvent)
	CorruptionFound func(error)
	BackgroundError func(error)
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

// MergeEvent tells of runs that were merged into one.
type MergeEvent struct {
	Container string
	Partition PartitionID
	Runs      int   // merged
	ItemsIn   int64 // versions read
	ItemsOut  int64 // versions kept
	BytesIn   int64
	BytesOut  int64
	Duration  time.Duration
}

// StallEvent tells of a write that waited because write buffers were full.
type StallEvent struct {
	Partition PartitionID
	Waited    time.Duration
}

func notify[E any](db *DB, fn func(E), event E) {
	if fn == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			db.counters.listenerPanics.Add(1)
			db.opts.Logger.Error("event listener panicked", "panic", r)
		}
	}()
	fn(event)
}
