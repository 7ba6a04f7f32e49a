//go:build !linux

package measure

import "errors"

// DropCached is not possible on this system.
func DropCached(string) error { return errors.ErrUnsupported }
