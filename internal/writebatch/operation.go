package writebatch

import (
	"fmt"

	"github.com/cleavestore/cleave/internal/docpatch"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
)

// Verb is a kind of operation.
type Verb uint8

// Verbs.
const (
	Create Verb = iota
	Upsert
	Replace
	Put
	Delete
	Patch
	Expire // the deletion of an item that has expired, by the expirer
	Check  // a condition: of errors only
)

var verbNames = [...]string{"create", "upsert", "replace", "put", "delete", "patch", "expire", "check"}

// String returns the name of the verb.
func (v Verb) String() string { return verbNames[v] }

// Precondition returns what the verb requires of the present version.
func (v Verb) Precondition() Precondition {
	switch v {
	case Create:
		return Absent
	case Replace, Delete, Patch:
		return Present
	case Expire:
		return Stale
	}
	return Anything
}

// Error names the operation because of which a batch was not carried out.
type Error struct {
	Index int    // of the operation in the batch, from 0; of a condition among the conditions
	Op    string // name of its verb
	Err   error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Op == Check.String() {
		return fmt.Sprintf("condition %d of the batch: %v", e.Index+1, e.Err)
	}
	return fmt.Sprintf("operation %d of the batch, %s: %v", e.Index+1, e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Op is an operation of a batch.
type Op struct {
	Verb     Verb
	IfMatch  uint64          // sequence that the present version must have; 0: any
	TTL      int64           // see lifetime.Stored
	GivenTTL bool            // TTL was given for this write: the document does not change it
	Patch    *docpatch.Patch // of the verb Patch; the body is its result, once that is known

	failed  error  // why the patch cannot be applied
	data    []byte // the id, then the body
	idLen   int
	earlier int32 // operation before it on the same item, -1 if there is none
	final   bool  // no operation after it is on the same item
}

// ID returns the id of the item.
func (op *Op) ID() []byte { return op.data[:op.idLen] }

// Body returns the document or body that the operation writes.
func (op *Op) Body() []byte { return op.data[op.idLen:] }

// Deletes says whether the operation deletes its item.
func (op *Op) Deletes() bool { return op.Verb == Delete || op.Verb == Expire }

// Conditional says whether the operation depends on the present version of its item.
func (op *Op) Conditional() bool { return op.Verb.Precondition() != Anything || op.IfMatch != 0 }

// Check tests what the operation requires against the present version.
func (op *Op) Check(v *item.Version, exists bool, past lifetime.Past) error {
	return op.Verb.Precondition().Check(op.IfMatch, v, exists, past)
}

// Charge returns the RU of the operation if the batch succeeds.
func (op *Op) Charge() float64 {
	return op.Verb.Precondition().Charge(op.IfMatch, op.Deletes(), len(op.Body()))
}

// Expires returns the expiry of a version that is written at modified, as it is stored.
func (op *Op) Expires(modified int64) int64 { return lifetime.Stored(modified, op.TTL) }

// outdated says that a patch was applied to another version than the present one.
func (op *Op) outdated(was, is *item.Version) bool { return op.Verb == Patch && was.Seq != is.Seq }
