package engine

import (
	"time"

	"github.com/cleavestore/cleave/internal/feed"
)

// ChangePosition is a place in the change feed of a container. For each part of the key space
// it has the sequence up to which everything was shown. It does not depend on how the
// container is stored, so it stays valid through splits, merges and restarts. It is
// immutable. The zero ChangePosition is FromStart. String returns what ParsePosition reads:
//
//	func (ChangePosition) String() string
//	func (ChangePosition) MarshalText() ([]byte, error)
//	func (*ChangePosition) UnmarshalText(text []byte) error
type ChangePosition = feed.Position

// FromStart returns the position before the first change.
func FromStart() ChangePosition { return ChangePosition{} }

// FromNow returns the position behind everything that is visible when the loop over the
// feed begins.
func FromNow() ChangePosition { return feed.FromNow() }

// FromTime returns the position before the first change that was made at t or later, by
// the time stamps of versions, which are milliseconds. A time before 1970 or behind 9999 is the nearest one between.
func FromTime(t time.Time) ChangePosition { return feed.FromTime(t) }

// ParsePosition reads what ChangePosition.String returns; ErrInvalid for anything
// else.
func ParsePosition(text string) (ChangePosition, error) { return feed.ParsePosition(text) }
