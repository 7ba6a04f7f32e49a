package writebatch

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUniqueKey is matched by every UniqueKeyError.
var ErrUniqueKey = errors.New("unique key is taken")

// UniqueKeyError tells which unique key is taken, and by which item.
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
