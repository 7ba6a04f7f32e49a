package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/uniquekey"
)

// isClaim says whether the key is that of a claim. Without unique keys none is: the ids
// of an opaque container may be any bytes.
func (c *Container) isClaim(k *item.Key) bool {
	return c.unique != nil && k.Marked()
}

// UniqueKeyError tells which unique key is taken, and by which item; it matches
// ErrUniqueKey.
type UniqueKeyError struct {
	Paths  []string
	Holder string // id of the item that has the values
	ID     string // id of the item that was refused
}

// Error implements error.
func (e *UniqueKeyError) Error() string {
	return fmt.Sprintf("%v: item %q has these values at %s", ErrUniqueKey, e.Holder, strings.Join(e.Paths, ", "))
}

// Unwrap returns ErrUniqueKey.
func (e *UniqueKeyError) Unwrap() error { return ErrUniqueKey }

// lookUpClaims looks up the claims that the batch changes. The caller is inside a guard.
// The documents that patches make must be known.
func (u *commit) lookUpClaims(v *lsm.Version) error {
	u.claims.Begin(u.c.unique, u.c.def.Replicated, u.key(nil), &u.epk)
	for i := range u.ops {
		switch op := &u.ops[i]; {
		case !op.final:
		case op.verb == verbDelete:
			u.claims.Delete(i, op.id())
		default:
			u.claims.Put(i, op.id(), op.body(), op.ttl)
		}
	}
	if err := u.claims.LookUp(v, u.now()); err != nil {
		return u.c.db.readError(err)
	}
	return nil
}

// checkClaimsLocked says whether the batch may make its changes of claims. A refusal
// depends on versions up to sequence rests. The commit lock is held.
func (u *commit) checkClaimsLocked(v *lsm.Version) (rests uint64, err error) {
	rests, err = u.claims.Check(v, u.now())
	if err == uniquekey.ErrChanged {
		return rests, errFilesChanged
	}
	taken, ok := errors.AsType[*uniquekey.TakenError](err)
	if !ok {
		return rests, err
	}
	err = &UniqueKeyError{Paths: taken.Paths, Holder: taken.Holder, ID: string(u.ops[taken.Op].id())}
	if u.tx == nil {
		err = &BatchError{Index: taken.Op, Op: verbNames[u.ops[taken.Op].verb], Err: err}
	}
	return rests, err
}

// claimBytes is an upper bound of the memory for the claims of the batch.
func (u *commit) claimBytes() (size int64) {
	if u.c.unique == nil {
		return 0
	}
	for i := range u.ops {
		size += u.c.unique.MostBytes(len(u.pk.Encoded()), u.ops[i].idLen)
	}
	return size
}
