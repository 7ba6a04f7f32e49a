package splitter

import "errors"

// ErrRefused is what every *Refusal matches.
var ErrRefused = errors.New("cannot be reshaped")

// Reason says why a partition is not cut, merged or moved.
type Reason uint8

// Reasons.
const (
	OneLogicalPartition Reason = iota + 1 // one logical partition is everything
	TooNarrow                             // no EPK lies between the ends of the range
	OutsideRange                          // the cut that was asked for does not lie inside
	NotNeighbours                         // the two partitions do not touch
	TooFine                               // the cut has more bytes than the keys have
	TooMany                               // the container has all the partitions that it can have
	OneHotKey                             // one logical partition has nearly all of the load
)

var reasons = [...]string{
	OneLogicalPartition: "one logical partition is everything",
	TooNarrow:           "nothing lies between the ends of its range",
	OutsideRange:        "the cut does not lie inside of its range",
	NotNeighbours:       "the partitions are not neighbours",
	TooFine:             "the cut is longer than the keys",
	TooMany:             "the container has the most partitions possible",
	OneHotKey:           "one logical partition has nearly all of the load",
}

// String returns the reason in words.
func (r Reason) String() string {
	if int(r) < len(reasons) && r > 0 {
		return reasons[r]
	}
	return "no reason"
}

// Refusal is the error of a reshape that is refused. It matches ErrRefused.
type Refusal struct{ Reason Reason }

// Error implements error.
func (r *Refusal) Error() string { return ErrRefused.Error() + ": " + r.Reason.String() }

// Is matches ErrRefused.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }

func refuse(r Reason) error { return &Refusal{Reason: r} }
