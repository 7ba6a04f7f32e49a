package writebatch

import (
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
)

// Precondition is what a write requires of the present version of its item.
type Precondition uint8

// Preconditions.
const (
	Anything Precondition = iota
	Absent                // of Create
	Present               // of Replace, Delete and Patch
	Stale                 // of the expirer: the version has the etag, and has expired
)

// Check tests the precondition, and the sequence that must match unless it is 0, against
// the present version. The error is fault.ErrExists, ErrNotFound or ErrPrecondition.
func (d Precondition) Check(ifMatch uint64, v *item.Version, exists bool, past lifetime.Past) error {
	if d == Stale {
		if !exists || v.Seq != ifMatch || lsm.Shown(v, past) {
			return fault.ErrPrecondition
		}
		return nil
	}
	exists = exists && lsm.Shown(v, past)
	switch {
	case d == Absent && exists:
		return fault.ErrExists
	case d == Present && !exists:
		return fault.ErrNotFound
	case ifMatch != 0 && (!exists || v.Seq != ifMatch):
		return fault.ErrPrecondition
	}
	return nil
}

// Charge returns the RU of a write that succeeds.
func (d Precondition) Charge(ifMatch uint64, deletes bool, bytes int) float64 {
	switch {
	case deletes:
		return cost.Delete
	case d == Present || d == Anything && ifMatch != 0:
		return cost.Replace(bytes)
	}
	return cost.Insert(bytes)
}

// Found is the newest version of an item as it was found without a lock.
type Found struct {
	Files   uint64 // state of the set of files that was looked at
	Version item.Version
	Exists  bool
}

// sequence returns the version's sequence, 0 if there is none.
func (f *Found) sequence() uint64 {
	if !f.Exists {
		return 0
	}
	return f.Version.Seq
}
