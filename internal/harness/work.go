package harness

import (
	"sync"
	"time"
)

// Work is a flush, compaction or the like that has ended.
type Work struct {
	Kind      string // flush, compaction, trim or reindex
	Partition uint32
	Begun     time.Time
	Ended     time.Time
	Bytes     int64 // of the files that it wrote
	BytesIn   int64 // of the files that it read
	Runs      int   // that it compacted
}

// WorkLog collects what a store tells of its flushes and compactions. It is safe for
// concurrent use. A nil one, and one that is not kept, is empty.
type WorkLog struct {
	mu    sync.Mutex
	kept  bool
	ended []Work
}

// Keep lets the log collect from now on. Who does so takes from it.
func (l *WorkLog) Keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = true
}

// Note is called by the store.
func (l *WorkLog) Note(w Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept {
		l.ended = append(l.ended, w)
	}
}

// Take returns what has ended since the last time.
func (l *WorkLog) Take() (ended []Work) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ended, l.ended = l.ended, nil
	return ended
}
