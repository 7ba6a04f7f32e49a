package vfs

import (
	"errors"
	"slices"
)

// InUse reports whether a name was not removed or changed because the file is mapped or
// open, under this name or another: it can be when that has ended. It is false
// for nil.
func InUse(err error) bool {
	return slices.ContainsFunc(inUse, func(e error) bool { return errors.Is(err, e) })
}
