package engine

import (
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/item"
)

// What another store has written is not believed further than it can be counted
// on from: a partition goes on from the sequence and the entry that it was
// installed at. So those leave as much room above them as there is below, and a
// time lies at most Options.MaxClockSkew ahead of the clock here.
const (
	maxForeignSeq   = item.MaxSeq / 2
	maxForeignIndex = item.MaxIndex / 2
)

// defaultClockSkew is how far times of others may lie ahead of the clock.
const defaultClockSkew = 5 * time.Minute

// latestForeign returns the latest time stamp that is taken from others.
func (db *DB) latestForeign() int64 {
	return min(db.clockMillis()+db.opts.MaxClockSkew.Milliseconds(), item.MaxTime)
}

// clockSkew is the error of a time stamp that lies further ahead.
func (db *DB) clockSkew(what string, stamp int64) error {
	return fmt.Errorf("%s: %w: it is of %v, here it is %v, and Options.MaxClockSkew is %v: set the clock that is wrong", what, ErrClockSkew,
		time.UnixMilli(stamp).UTC(), time.UnixMilli(db.clockMillis()).UTC(), db.opts.MaxClockSkew)
}

// maxEntrySequences is more than any entry takes.
const maxEntrySequences = 1 << 32

var errNoSequences = fmt.Errorf("sequences are used up: %w", ErrTooLarge)
