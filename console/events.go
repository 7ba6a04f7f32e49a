package console

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/humanize"
)

// keptEvents is how many events an Events keeps.
const keptEvents = 500

// Event is something that happened in the store.
type Event struct {
	Number    uint64 `json:"number"` // from 1
	Time      int64  `json:"t"`      // milliseconds since the Unix epoch
	Kind      string `json:"kind"`
	Container string `json:"container,omitempty"`
	Text      string `json:"text"`
}

// Events keeps the newest 500 events of a store for its page. The zero Events is empty. Its
// methods are safe for concurrent use.
type Events struct {
	mu   sync.Mutex
	last uint64
	list []Event
}

// Listener returns a listener for Options.Events of the store. It also passes each event
// on to next, which may be nil.
func (e *Events) Listener(next *engine.EventListener) *engine.EventListener {
	l := new(engine.EventListener)
	if next != nil {
		*l = *next
	}
	l.Flushed = then(l.Flushed, func(v engine.FlushEvent) {
		e.add("flush", v.Container, "partition %d: %s, %s in %v", v.Partition, humanize.Plural(v.Items, "version", "versions"), humanize.Bytes(v.Bytes), v.Duration.Round(time.Millisecond))
	})
	l.Compacted = then(l.Compacted, func(v engine.CompactionEvent) {
		kind := "compaction"
		if v.Trim {
			kind = "trim"
		} else if v.Reindex {
			kind = "reindex"
		}
		e.add(kind, v.Container, "partition %d: %s, %s to %s in %v", v.Partition, humanize.Plural(v.Runs, "run", "runs"), humanize.Bytes(v.BytesIn), humanize.Bytes(v.BytesOut), v.Duration.Round(time.Millisecond))
	})
	l.Stalled = then(l.Stalled, func(v engine.StallEvent) {
		e.add("stall", "", "a write to partition %d waited %v for memory", v.Partition, v.Waited.Round(time.Millisecond))
	})
	l.Reshaped = then(l.Reshaped, func(v engine.ReshapeEvent) {
		if v.Err != nil {
			e.add(v.Kind.String(), v.Container, "of %s ended: %v", idsOf(v.Parents), v.Err)
			return
		}
		e.add(v.Kind.String(), v.Container, "%s became %s; writes waited %v", idsOf(v.Parents), idsOf(v.Children), v.Pause.Round(time.Microsecond))
	})
	l.NearlyFull = then(l.NearlyFull, func(v engine.NearlyFullEvent) {
		e.add("nearly full", v.Container, "%v holds %s of %s", v.Key, humanize.Bytes(v.Bytes), humanize.Bytes(v.Limit))
	})
	l.ClockSetBack = then(l.ClockSetBack, func(v engine.ClockEvent) {
		e.add("clock", "", "the clock was set back to %v", v.Clock.UTC())
	})
	l.LogDropped = then(l.LogDropped, func(v engine.LogDroppedEvent) {
		e.add("torn log", "", "file %d ends at %d: %s", v.File, v.Offset, v.Reason)
	})
	l.CorruptionFound = then(l.CorruptionFound, func(err error) { e.add("damage", "", "%v", err) })
	l.BackgroundError = then(l.BackgroundError, func(err error) { e.add("error", "", "%v", err) })
	return l
}

// idsOf writes the numbers of partitions for people.
func idsOf(ids []engine.PartitionID) string {
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = fmt.Sprint(id)
	}
	return strings.Join(text, " and ")
}

// then returns a function that calls two; the first may be nil.
func then[E any](first, second func(E)) func(E) {
	if first == nil {
		return second
	}
	return func(event E) {
		second(event)
		first(event)
	}
}

func (e *Events) add(kind, container, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	e.list = append(e.list[max(0, len(e.list)-keptEvents+1):], Event{e.last, time.Now().UnixMilli(), kind, container, fmt.Sprintf(format, args...)})
}

// after returns the events after one of them, the oldest first.
func (e *Events) after(number uint64) []Event {
	list := []Event{}
	if e == nil {
		return list
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.list {
		if v.Number > number {
			list = append(list, v)
		}
	}
	return list
}
