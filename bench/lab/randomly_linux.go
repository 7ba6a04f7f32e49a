package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// readsRandomly tells the system that a file is read at random places.
func readsRandomly(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM)
}
