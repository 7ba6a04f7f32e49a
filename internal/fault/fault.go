// Package fault holds the errors that the layers share. An error says what went wrong, in
// which file and at which offset, or which limit was exceeded.
//
// Callers match the sentinels with errors.Is and the concrete types with errors.As. Only
// decoders of on-disk bytes make a CorruptionError; only the callers of the file system make
// an IOError. The engine exports all of them under the same names.
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Sentinels.
var (
	// ErrCorrupt matches every CorruptionError.
	ErrCorrupt = errors.New("corrupt data")
	// ErrIO matches an IOError that no narrower sentinel describes.
	ErrIO = errors.New("input/output error")
	// ErrDiskFull matches an IOError caused by a full disk, a quota or a file
	// size limit.
	ErrDiskFull = errors.New("disk full")
	// ErrResource matches an IOError caused by a limit of the process or of the
	// system: open files, memory, maps.
	ErrResource = errors.New("out of system resources")
	// ErrMissing matches an IOError for a file that does not exist.
	ErrMissing = errors.New("file missing")
	// ErrOutcomeUnknown says that a write may or may not survive: a write or a
	// sync failed. It never comes with ErrDiskFull; see Outcome.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrFailed says that the store accepts no writes until it is reopened.
	ErrFailed = errors.New("store failed; reopen it to write")
	// ErrTooNew says that a file has a format newer than this program.
	ErrTooNew = errors.New("format is newer than this program: update it")
	// ErrLocked says that another owner has the store open for writing.
	ErrLocked = errors.New("store is locked")
	// ErrExists says that what was to be made is there already.
	ErrExists = errors.New("already exists")
	// ErrNotFound says that there is no such item.
	ErrNotFound = errors.New("item not found")
	// ErrPrecondition says that the present version of an item is not as a write requires.
	ErrPrecondition = errors.New("precondition failed")
	// ErrInvalid says that an argument or a document is refused.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge matches a LimitError of something that a caller gave or asked for.
	ErrTooLarge = errors.New("too large")
)

// Of returns an error that has the text of cause and also matches a sentinel.
func Of(sentinel, cause error) error { return of{sentinel, cause} }

type of struct{ sentinel, cause error }

// Error implements error.
func (e of) Error() string { return e.cause.Error() }

// Unwrap returns the cause and the sentinel.
func (e of) Unwrap() []error { return []error{e.cause, e.sentinel} }

// CorruptionError reports bytes that a decoder refused. File is the path as
// opened, Offset the byte at which the damaged structure begins.
type CorruptionError struct {
	File   string
	Offset int64
	Err    error
}

// Corrupt returns a *CorruptionError whose cause is the formatted text.
func Corrupt(file string, offset int64, format string, args ...any) error {
	return &CorruptionError{File: file, Offset: offset, Err: fmt.Errorf(format, args...)}
}

// outcome is a sentinel with its cause.
type outcome struct{ sentinel, cause error }

// Outcome returns an error that matches sentinel, ErrOutcomeUnknown or ErrFailed, and
// all that cause matches but ErrDiskFull: that promises that nothing was written
// and that the call succeeds when there is space.
func Outcome(sentinel, cause error) error { return &outcome{sentinel, cause} }

// Error implements error.
func (e *outcome) Error() string { return e.sentinel.Error() + ": " + e.cause.Error() }

// Is reports whether the sentinel or the cause match target.
func (e *outcome) Is(target error) bool {
	return target != ErrDiskFull && (target == e.sentinel || errors.Is(e.cause, target))
}

// As finds the first error of the cause that fits target.
func (e *outcome) As(target any) bool { return errors.As(e.cause, target) }

// Error implements error.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s: offset %d: corrupt: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptionError) Unwrap() error { return e.Err }

// Is reports whether target is ErrCorrupt.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorrupt }

// IOError reports a file-system call that failed. Offset is -1 where the call
// has none.
type IOError struct {
	Op     string
	File   string
	Offset int64
	Err    error
}

// IO wraps err, the result of calling op on file; nil stays nil, and an error
// that already is an IOError or a CorruptionError is returned as it is.
func IO(op, file string, offset int64, err error) error {
	if err == nil {
		return nil
	}
	var ioErr *IOError
	var corruption *CorruptionError
	if errors.As(err, &ioErr) || errors.As(err, &corruption) {
		return err
	}
	// A PathError repeats the operation and the path: keep its cause only.
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return &IOError{Op: op, File: file, Offset: offset, Err: err}
}

// Error implements error.
func (e *IOError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s %s: %v", e.Op, e.File, e.Err)
	}
	return fmt.Sprintf("%s %s: offset %d: %v", e.Op, e.File, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *IOError) Unwrap() error { return e.Err }

// Is matches the sentinel that describes the cause: ErrDiskFull, ErrResource,
// ErrMissing, or else ErrIO.
func (e *IOError) Is(target error) bool {
	switch target {
	case ErrDiskFull:
		return isDiskFull(e.Err)
	case ErrResource:
		return isResource(e.Err)
	case ErrMissing:
		return errors.Is(e.Err, fs.ErrNotExist)
	case ErrIO:
		return !isDiskFull(e.Err) && !isResource(e.Err) && !errors.Is(e.Err, fs.ErrNotExist)
	}
	return false
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func isResource(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
