package engine

import (
	"time"

	"github.com/cleavestore/cleave/internal/feed"
)

// ChangePosition is a place in the change feed of a container. For each part of the key space
// it has the sequence up to which everything was shown. It does not depend on how the
// container is stored, so it stays valid through splits, merges and restarts. It is
// immutable. The zero ChangePosition is FromStart.
type ChangePosition struct{ at feed.Position }

// FromStart returns the position before the first change.
func FromStart() ChangePosition { return ChangePosition{} }

// FromNow returns the position behind everything that is visible when the loop over the
// feed begins.
func FromNow() ChangePosition { return ChangePosition{feed.FromNow()} }

// FromTime returns the position before the first change that was made at t or later, by
// the time stamps of versions, which are milliseconds.
func FromTime(t time.Time) ChangePosition { return ChangePosition{feed.FromTime(t)} }

// String returns the text that ParsePosition reads: "start", "now", "time:" and a time by
// RFC 3339, or an encoding with some 20 bytes or more for each part of the key space that
// was read to another sequence.
func (p ChangePosition) String() string { return p.at.String() }

// MarshalText implements encoding.TextMarshaler.
func (p ChangePosition) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *ChangePosition) UnmarshalText(text []byte) error {
	parsed, err := ParsePosition(string(text))
	if err == nil {
		*p = parsed
	}
	return err
}

// ParsePosition reads what ChangePosition.String returns; ErrInvalid for anything
// else.
func ParsePosition(text string) (ChangePosition, error) {
	p, err := feed.ParsePosition(text)
	if err != nil {
		return ChangePosition{}, invalidf("%v", err)
	}
	return ChangePosition{p}, nil
}
