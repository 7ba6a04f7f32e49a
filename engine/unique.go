package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/uniquekey"
)

// compileUnique makes the unique keys of a definition ready; nil: there are none.
func compileUnique(d *ContainerDef) (*uniquekey.Keys, error) {
	if len(d.UniqueKeys) == 0 {
		return nil, nil
	}
	if d.Kind == Opaque {
		return nil, errors.New("unique keys: documents of an opaque container are not read")
	}
	return uniquekey.Compile(d.UniqueKeys)
}

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
}

// Error implements error.
func (e *UniqueKeyError) Error() string {
	return fmt.Sprintf("%v: item %q has these values at %s", ErrUniqueKey, e.Holder, strings.Join(e.Paths, ", "))
}

// Unwrap returns ErrUniqueKey.
func (e *UniqueKeyError) Unwrap() error { return ErrUniqueKey }
