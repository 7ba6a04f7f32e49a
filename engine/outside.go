package engine

import (
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/item"
)

// defaultClockSkew is the default of Options.MaxClockSkew: how far times that come from
// another store may lie ahead of this store's clock.
const defaultClockSkew = 5 * time.Minute

// latestForeign returns the latest time stamp that is accepted from another store,
// in milliseconds.
func (db *DB) latestForeign() int64 {
	return min(db.clockMillis()+db.opts.MaxClockSkew.Milliseconds(), item.MaxTime)
}

// clockSkew is the error for a time stamp beyond latestForeign.
func (db *DB) clockSkew(what string, stamp int64) error {
	return fmt.Errorf("%s: %w: it is of %v, here it is %v, and Options.MaxClockSkew is %v: set the clock that is wrong", what, ErrClockSkew,
		time.UnixMilli(stamp).UTC(), time.UnixMilli(db.clockMillis()).UTC(), db.opts.MaxClockSkew)
}
