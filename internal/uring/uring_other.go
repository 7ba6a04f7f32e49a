//go:build !linux

package uring

import "os"

// Rings are none.
type Rings struct{}

// ReadAt returns false: the system has no io_uring.
func (*Rings) ReadAt(*os.File, []byte, int64) bool { return false }
