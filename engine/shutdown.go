package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/pins"
)

// ShutdownError tells what was still under way when the context of a Shutdown ended. It
// matches the error of the context.
type ShutdownError struct {
	Calls   int         // calls that have not returned, loads, and scans of several partitions
	Readers []Holder    // open snapshots, and scans, queries, transactions, exports and backups under way
	Feeds   []FeedStats // loops over changes
	Err     error       // of the context
}

// Error implements error.
func (e *ShutdownError) Error() string {
	var left []string
	if e.Calls > 0 {
		left = append(left, fmt.Sprintf("calls (%d)", e.Calls))
	}
	for _, r := range e.Readers {
		left = append(left, fmt.Sprintf("%s (%d) since %s", r.What, r.Count, r.Since.Format(time.RFC3339)))
	}
	for _, f := range e.Feeds {
		left = append(left, fmt.Sprintf("feed of container %q since %s", f.Container, f.Since.Format(time.RFC3339)))
	}
	return fmt.Sprintf("shutdown: still under way: %s: %v", strings.Join(left, ", "), e.Err)
}

// Unwrap returns the error of the context.
func (e *ShutdownError) Unwrap() error { return e.Err }

// Shutdown closes the store when nothing is under way any more. From its beginning on, what is
// new is refused with ErrClosed: calls, loops, snapshots, transactions. What is under way may
// come to its end: calls, loads, loops over scans, queries, changes and findings, the functions of
// Updates and Views, exports and backups, and snapshots, which can be read until they are
// closed. An Update that meets a conflict is not run again: it returns ErrClosed. A feed with
// Follow ends with ErrClosed when it has shown everything.
//
// Then Shutdown returns what Close returns. If ctx ends first, it returns a *ShutdownError,
// and the store goes on to refuse what is new: call Shutdown again, or Close. ctx does not
// bound what Close itself does, and jobs such as splits and copies do not hold Shutdown up.
// Shutdown must not be called in a loop or function for which it waits, except with a ctx that
// ends.
func (db *DB) Shutdown(ctx context.Context) (err error) {
	states := db.renewal.end(db)
	for _, state := range states {
		state.draining.Store(true)
	}
	for _, state := range states {
		if stateErr := state.shutdown(ctx); err == nil {
			err = stateErr
		}
	}
	if err == nil {
		db.renewal.ending.Wait()
	}
	return err
}

// shutdown is Shutdown of one state.
func (db *DB) shutdown(ctx context.Context) error {
	db.draining.Store(true)
	for _, c := range db.containers.Load().All() {
		c.family.Followers.Signal()
	}
	for pause := 100 * time.Microsecond; !db.closing.Load(); pause = min(2*pause, 20*time.Millisecond) {
		left := db.underWay()
		if left == nil {
			break
		}
		if err := pacing.Sleep(ctx, pause); err != nil {
			left.Err = err
			return left
		}
	}
	return db.closeState()
}

// underWay returns what a Shutdown waits for, nil if there is nothing. Calls are counted
// first: those that passed draining are over then, or have left a reader or feed behind, which
// comes into no list later.
func (db *DB) underWay() *ShutdownError {
	e := &ShutdownError{Calls: db.calls.Readers() + db.loops.Readers()}
	for _, h := range db.env.Pins.Held() {
		if h.By != pins.Copy {
			e.Readers = append(e.Readers, Holder{What: h.By.String(), Count: h.Count, Since: h.Since, Seq: h.Seq})
		}
	}
	for _, c := range db.containers.Load().All() {
		e.Feeds = c.appendFeeds(e.Feeds)
	}
	if e.Calls == 0 && len(e.Readers) == 0 && len(e.Feeds) == 0 {
		return nil
	}
	return e
}
