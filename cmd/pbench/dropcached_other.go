//go:build !linux

package main

import "errors"

// dropCached is not possible on this system.
func dropCached(string) error { return errors.ErrUnsupported }
