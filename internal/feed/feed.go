package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// Feed is a running loop over changes. One goroutine uses it, except for State.
type Feed struct {
	store  Store
	ctx    context.Context
	o      Options
	wait   *follower // if it follows
	since  int64
	until  []entry // without Follow: what was visible when the feed began; it shows nothing above
	synced time.Time
	parts  []entry
	orders fileOrders
	tables tableOrders

	// The end of each partition's window: up to there changes are visible and durable.
	windows map[partmap.PartitionID]uint64

	sources []source
	found   []found
	text    []byte

	// shared is what other goroutines may read.
	shared struct {
		sync.Mutex
		parts []entry
		shown int64
	}
}

// Options say what a feed shows.
type Options struct {
	Container   string                 // its name, for errors
	ID          uint32                 // identifies the container in positions
	Levels      int                    // of its partition keys
	Charged     *float64               // is increased by what partitions are charged; nil: nobody asks
	Range       partmap.Range          // of the key space; if it is empty, the one EPK that it begins at
	Wants       func(k *item.Key) bool // says whether the feed shows a key of the range
	AllVersions bool                   // false: only the latest version of each item
	Followers   *Followers             // nil: the feed ends when it has shown what was visible when it began
	MostOrdered int                    // versions put in order at once; 0: orderVersions
	// CaughtUp is called by Run whenever everything visible has been shown: at the end, or
	// before the feed waits. It may call Position.
	CaughtUp func()
}

// ErrExpired says that versions after a position were dropped.
var ErrExpired = errors.New("position of the change feed has expired")

// ExpiredError says where a feed can begin. It matches ErrExpired.
type ExpiredError struct {
	Oldest Position // after which no version was dropped yet
}

// Error implements error.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("%v: the oldest one possible is %v", ErrExpired, e.Oldest)
}

// Unwrap returns ErrExpired.
func (e *ExpiredError) Unwrap() error { return ErrExpired }

// New begins a feed. The caller has entered the store.
func New(ctx context.Context, store Store, from Position, o Options) (*Feed, error) {
	f := &Feed{store: store, ctx: ctx, o: o, since: from.since, orders: fileOrders{}, tables: tableOrders{}, windows: map[partmap.PartitionID]uint64{}}
	if o.Range.Empty() {
		f.o.Range.Max = successor(o.Range.Min)
	}
	if o.MostOrdered == 0 {
		f.o.MostOrdered = orderVersions
	}
	if o.Followers == nil {
		f.until = f.visibleNow()
	}
	switch from.kind {
	case positionNow:
		f.parts = f.visibleNow()
	case positionAt:
		if from.container != o.ID {
			return nil, PositionError("of another container than " + strconv.Quote(o.Container))
		}
		var err error
		if f.parts, err = from.within(f.o.Range); err != nil {
			return nil, err
		}
	case positionTime:
		f.parts = []entry{{rng: f.o.Range}}
		if o.AllVersions {
			f.parts = f.oldest()
			given := store.SequenceAt(from.since)
			if slices.ContainsFunc(f.parts, func(e entry) bool { return e.seq > given }) {
				return nil, f.expired()
			}
		}
	default:
		f.parts = []entry{{rng: f.o.Range}}
	}
	if o.Followers != nil {
		f.wait = o.Followers.add()
	}
	f.shared.parts = slices.Clone(f.parts)
	return f, nil
}

// visibleNow returns entries for the range of the feed, at the newest visible sequences.
func (f *Feed) visibleNow() []entry {
	return f.entriesAt(func(t *lsm.Tree) uint64 { return t.Visible.Load() })
}

// oldest returns entries for the range of the feed, at the oldest sequences after which no
// version was dropped.
func (f *Feed) oldest() []entry {
	return f.entriesAt(func(t *lsm.Tree) uint64 { return t.ChangeFloor.Load() })
}

// expired returns the error of a position after which versions were dropped.
func (f *Feed) expired() error {
	return &ExpiredError{Oldest: Position{kind: positionAt, container: f.o.ID, entries: f.oldest()}}
}

// entriesAt returns entries that cover the range of the feed. Each has the sequence that
// at returns for its partition.
func (f *Feed) entriesAt(at func(*lsm.Tree) uint64) []entry {
	r := f.o.Range
	rt := f.store.Routing()
	var out []entry
	for lo, hi := rt.Table().Overlapping(r); lo < hi; lo++ {
		t := rt.Partition(lo).Tree()
		e := entry{rng: t.Range, seq: at(t)}
		if e.rng.Min.Compare(&r.Min) < 0 {
			e.rng.Min = r.Min
		}
		if e.rng.Max.Compare(&r.Max) > 0 {
			e.rng.Max = r.Max
		}
		out = append(out, e)
	}
	return joined(out)
}

// Close ends a feed. It is called once.
func (f *Feed) Close() {
	f.orders.close()
	if f.wait != nil {
		f.o.Followers.remove(f.wait)
	}
}

// State returns how many changes were shown, and the greatest distance, over all parts,
// from the sequence up to which the part was shown to the newest visible one. Changes
// that the feed has read but not yet passed on count as shown.
func (f *Feed) State() (shown int64, behind uint64) {
	f.shared.Lock()
	defer f.shared.Unlock()
	return f.shared.shown, f.behind(f.shared.parts)
}

// note sets what State returns, after a batch.
func (f *Feed) note() {
	f.shared.Lock()
	defer f.shared.Unlock()
	f.shared.parts = append(f.shared.parts[:0], f.parts...)
	f.shared.shown += int64(len(f.found))
}

// errReplaced says that other partitions have replaced a partition: its range is looked up
// again.
var errReplaced = errors.New("partition was replaced during a turn of a change feed")

// Run passes changes to show until everything visible was shown, or, if the feed follows,
// until its context ends. If show returns false, Run returns nil. Between the calls of
// show the feed holds nothing.
func (f *Feed) Run(show func(Change) bool) error {
	for {
		shown, late := false, false
		for i := 0; i < len(f.parts); i++ {
			next, err := f.turn(i)
			if err == errReplaced {
				i--
				continue
			}
			if err == errLate {
				late = true
				continue
			}
			if err != nil {
				if err = f.store.Wait(f.ctx, err); err != nil {
					return err
				}
				i--
				continue
			}
			shown = shown || next != turnNothing
			f.note()
			if !f.handOut(i, show) {
				return nil
			}
			switch next {
			case turnAgain:
				i--
			case turnCut:
				i++
			}
		}
		f.orders.sweep(f.parts)
		f.parts = joined(f.parts)
		if shown {
			continue
		}
		if !late {
			f.o.CaughtUp()
		}
		if f.wait == nil {
			return nil
		}
		if err := f.sleep(late); err != nil {
			return err
		}
	}
}

// Position returns where the feed is.
func (f *Feed) Position() Position {
	return Position{kind: positionAt, container: f.o.ID, since: f.since, entries: joined(f.parts)}
}

// errLate says that a part has changes, but must wait until the feed may sync the
// log again.
var errLate = errors.New("change feed waits for more before it syncs the log")

// sleep waits for changes. If late is set, it waits until the feed may sync the
// log again.
func (f *Feed) sleep(late bool) error {
	if late {
		timer := time.NewTimer(max(0, syncEvery-time.Since(f.synced)))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-f.store.Closing():
			return f.store.Ended()
		}
	}
	f.wait.sleeping.Store(true)
	defer f.wait.sleeping.Store(false)
	if err := f.store.Ended(); err != nil {
		return err
	}
	if f.behind(f.parts) > 0 {
		return nil
	}
	select {
	case <-f.wait.wake:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-f.store.Closing():
		return f.store.Ended()
	}
}

// behind returns the greatest distance, over some parts, from the sequence up to which the
// part was shown to the newest visible one.
func (f *Feed) behind(parts []entry) (most uint64) {
	rt := f.store.Routing()
	for i := range parts {
		for lo, hi := rt.Table().Overlapping(parts[i].rng); lo < hi; lo++ {
			if at := rt.Partition(lo).Tree().Visible.Load(); at > parts[i].seq {
				most = max(most, at-parts[i].seq)
			}
		}
	}
	return most
}
