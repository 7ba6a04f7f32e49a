package prefetch

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoFault: memory that is not mapped or not readable may be asked for, and memory that
// is stays as it was.
func TestNoFault(t *testing.T) {
	page := unix.Getpagesize()
	m, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	want := bytes.Repeat([]byte{7}, page)
	copy(m, want)
	if err = unix.Mprotect(m[page:2*page], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, m[:0], m[:1], m[1:65], m[page-1 : page+1], m[page : 2*page], m[2*page:], m[:page]} {
		Lines(b)
	}
	if !bytes.Equal(m[:page], want) {
		t.Error("memory has changed")
	}
}
