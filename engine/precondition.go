package engine

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
)

// precondition is what a write requires of the present version of its item.
type precondition uint8

const (
	anything precondition = iota
	absent                // Create
	present               // Replace, Delete
	stale                 // the expirer: the version has the etag, expired or not
)

// check tests the precondition, and the etag that must match unless it is 0, against
// the present version.
func (d precondition) check(ifMatch ETag, v *item.Version, exists bool, now int64) error {
	if d == stale {
		if !exists || ETag(v.Seq) != ifMatch {
			return ErrPrecondition
		}
		return nil
	}
	exists = exists && lsm.Shown(v, now)
	switch {
	case d == absent && exists:
		return ErrExists
	case d == present && !exists:
		return ErrNotFound
	case ifMatch != 0 && (!exists || ETag(v.Seq) != ifMatch):
		return ErrPrecondition
	}
	return nil
}

// presentVersion is the newest version of an item as it was found without a lock.
type presentVersion struct {
	files   uint64 // state of the set of files that was looked at
	version item.Version
	exists  bool
}

// sequence returns the version's sequence, 0 if there is none.
func (i *presentVersion) sequence() uint64 {
	if !i.exists {
		return 0
	}
	return i.version.Seq
}
