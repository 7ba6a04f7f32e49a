package partmap

import (
	"errors"
	"fmt"
)

// Sentinels, matched with errors.Is.
var (
	// ErrInvalid: text, bytes or a value that is no partition key.
	ErrInvalid = errors.New("invalid partition key")
	// ErrTooLong: a string over MaxString, or a key over MaxEncoded.
	ErrTooLong = errors.New("partition key too long")
	// ErrLevels: a key of no level or of more than MaxLevels.
	ErrLevels = errors.New("wrong number of partition key levels")
	// ErrEPK: text or bytes that are no effective partition key.
	ErrEPK = errors.New("invalid effective partition key")
	// ErrTiling: ranges that do not tile the key space, or an id used twice.
	ErrTiling = errors.New("partitions do not tile the key space")
)

// Error reports text or bytes that were refused.
type Error struct {
	Kind   error  // one of the sentinels
	Offset int    // byte of the text or of the encoding at which the fault is
	Detail string // what is wrong there
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%v: offset %d: %s", e.Kind, e.Offset, e.Detail)
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Kind }

func refuse(kind error, offset int, format string, args ...any) error {
	return &Error{Kind: kind, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}
