package quotes

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestFinderStaysInside looks at texts before which, and behind which, no memory is: a
// byte read outside ends the test.
func TestFinderStaysInside(t *testing.T) {
	if !Available {
		t.Log("the processor has not the instructions")
		return
	}
	page := unix.Getpagesize()
	size := (4*window + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	for _, guard := range [][]byte{m[:page], m[page+size:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	m = m[page : page+size]
	r := randtest.New(t)
	var f Finder
	for n := MinLen; n < 3*window; n += 1 + r.IntN(12) {
		text := randomText(r, n, r.IntN(2))
		if len(text) > size {
			continue
		}
		compare(t, &f, append(m[:0], text...))
		end := m[size-len(text):]
		copy(end, text)
		compare(t, &f, end)
	}
}
