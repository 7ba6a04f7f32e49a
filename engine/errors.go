package engine

import (
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/feed"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/pressure"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/trigger"
	"github.com/cleavestore/cleave/internal/writebatch"
)

// Errors of calls, for errors.Is.
var (
	// ErrNotFound: no such item, or it is deleted.
	ErrNotFound = fault.ErrNotFound
	// ErrExists: Create found an item with this key and id, or CreateContainer a
	// container with this name. Or EnsureContainer found a container with this name
	// and another definition: *DefinitionError.
	ErrExists = fault.ErrExists
	// ErrPrecondition: the etag given in IfMatch is not the item's, or the
	// condition of a patch is not true.
	ErrPrecondition = fault.ErrPrecondition
	// ErrUniqueKey: another item of the logical partition has the values of a
	// unique key: *UniqueKeyError.
	ErrUniqueKey = writebatch.ErrUniqueKey
	// ErrKeyMismatch: a document given to a batch or transaction, or with
	// WriteOptions.Key, belongs to another logical partition.
	ErrKeyMismatch = errors.New("partition key mismatch")
	// ErrRandomSuffix: the partition keys of the container have a random suffix,
	// so the call cannot tell the key of the item: see SyntheticKey.
	ErrRandomSuffix = errors.New("partition keys have a random suffix")
	// ErrReplicated: the container takes writes by ApplyAt only, and its physical
	// partitions split only at a boundary that the caller gives.
	ErrReplicated = errors.New("container is replicated")
	// ErrIndexGap: ApplyAt was given an entry that is not the next one.
	ErrIndexGap = writebatch.ErrIndexGap
	// ErrClockSkew: a time that was given to ApplyAt or InstallPartition lies more
	// than Options.MaxClockSkew ahead of the clock.
	ErrClockSkew = errors.New("time is ahead of the clock")
	// ErrReplaced: InstallPartition has replaced a physical partition that a
	// snapshot, scan or query was reading.
	ErrReplaced = errors.New("partition was replaced by an installed one")
	// ErrConflict: on every try of a transaction, another write changed an item
	// that it wrote, or, with Serializable, something that it read. Nothing was
	// written.
	ErrConflict = errors.New("conflict with another write")
	// ErrNestedUpdate: Update was called in the function of another Update.
	ErrNestedUpdate = errors.New("update inside of an update")
	// ErrNoTrigger: a write names a trigger that is not registered. It comes with ErrInvalid.
	ErrNoTrigger = trigger.ErrUnknown
	// ErrTriggerPanic: a trigger has panicked: *TriggerError. Nothing was written.
	ErrTriggerPanic = trigger.ErrPanic
	// ErrNotModified: ReadIf found the etag it was given.
	ErrNotModified = errors.New("not modified")
	// ErrNoContainer: the store has no container of this name.
	ErrNoContainer = errors.New("no such container")
	// ErrCopying: the container is an unfinished copy of another one, and takes
	// no writes yet: see Container.CopyTo.
	ErrCopying = errors.New("container is an unfinished copy")
	// ErrCopied: a copy took the place of the container, which takes no more
	// writes: see CopyJob.Finish.
	ErrCopied = errors.New("container was copied to another one")
	// ErrNotHere: the store does not have this range of a replicated container: see
	// Container.Evict.
	ErrNotHere = errors.New("range is not in this store")
	// ErrInvalid: an argument or a document is refused; the text says what and
	// where. A refused document carries a *DocumentError.
	ErrInvalid = fault.ErrInvalid
	// ErrTooLarge: a document, the body of an opaque item or an id that was
	// given as an argument is over its limit. An error inside a document, its
	// id and key included, is ErrInvalid.
	ErrTooLarge = fault.ErrTooLarge
	// ErrLogicalPartitionFull: the write would take a logical partition over
	// its size limit. Deletes are still accepted.
	ErrLogicalPartitionFull = keysizes.ErrFull
	// ErrClosed: the store, the container or the snapshot is closed or dropped.
	ErrClosed = errors.New("closed")
	// ErrReadOnly: the store was opened with ReadOnly.
	ErrReadOnly = errors.New("store is open read-only")
	// ErrBusy: the call waited for memory until its context ended, or until a
	// flush failed, for instance with ErrDiskFull; nothing was written.
	ErrBusy = pressure.ErrBusy
	// ErrNeedsScan: a query with NoScan would have to read documents one by one to
	// find its results.
	ErrNeedsScan = exec.ErrNeedsScan
	// ErrBadContinuation: the text is no continuation of this query over this
	// scope.
	ErrBadContinuation = exec.ErrBadContinuation
	// ErrPositionExpired: a change feed of all versions cannot go on from its
	// position: versions after it were dropped. See PositionExpiredError.
	ErrPositionExpired = feed.ErrExpired
	// ErrNotStore: the directory has files but is no store, or it is absent and
	// Options.ReadOnly is set.
	ErrNotStore = storedir.ErrNotStore
)

// Errors of the storage layers; all name the file, and the offset if there is
// one. See also CorruptionError and IOError.
var (
	ErrCorrupt        = fault.ErrCorrupt        // damaged bytes: *CorruptionError
	ErrIO             = fault.ErrIO             // a file-system call failed: *IOError
	ErrDiskFull       = fault.ErrDiskFull       // no space: nothing was written; never with ErrOutcomeUnknown or ErrFailed
	ErrResource       = fault.ErrResource       // out of files, maps or memory
	ErrMissing        = fault.ErrMissing        // a manifest or segment file that must exist does not; a log file: ErrCorrupt
	ErrOutcomeUnknown = fault.ErrOutcomeUnknown // the write may or may not survive: a file write or sync failed, or the record waits for disk space
	ErrFailed         = fault.ErrFailed         // no writes until the store is reopened
	ErrTooNew         = fault.ErrTooNew         // written by a newer program
	ErrLocked         = fault.ErrLocked         // another owner has the store open
)

// CorruptionError reports damaged bytes in a file. It comes as a *CorruptionError, and
// matches ErrCorrupt.
//
//	File   string // path, as it was opened
//	Offset int64  // byte at which the damaged structure begins
//	Err    error  // cause
type CorruptionError = fault.CorruptionError

// IOError reports a file-system call that failed. It comes as an *IOError, and matches
// ErrDiskFull, ErrResource or ErrMissing if that is the cause, else ErrIO.
//
//	Op     string // name of the call
//	File   string // path
//	Offset int64  // -1: the call has none
//	Err    error  // cause
type IOError = fault.IOError

// LimitError reports a size over its limit. It comes as a *LimitError. A JSON document that
// is too large is a *DocumentError instead.
//
//	What  string // what was measured
//	Size  int64
//	Limit int64
//	Unit  string // of Size and Limit; "": bytes
//	Kind  error  // ErrTooLarge or ErrLogicalPartitionFull, which it matches
type LimitError = fault.LimitError

// DocumentError says why a document was refused. It comes as a *DocumentError.
//
//	Offset int    // byte of the document at which the trouble is
//	Path   string // of the value or member there, as in "/tags/3/name"; "": the root
//	Kind   error  // what is wrong in general
//	Msg    string // what exactly
type DocumentError = jsondoc.Error

// TriggerError says which trigger has failed; nothing was written. It comes as a
// *TriggerError, and matches what Err matches.
//
//	Name  string // of the trigger
//	Type  TriggerType
//	Err   error  // what Run returned, or ErrTriggerPanic with the value of the panic
//	Stack []byte // of a panic
type TriggerError = trigger.Error

// PositionExpiredError says that a feed of all versions cannot go on from its position. It
// comes as a *PositionExpiredError, and matches ErrPositionExpired.
//
//	Oldest ChangePosition // the oldest one after which no version was dropped yet
type PositionExpiredError = feed.ExpiredError

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
