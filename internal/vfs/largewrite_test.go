package vfs

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"
)

// TestLargeWrites: what is written is the same whatever a write costs. A dear one is
// followed by pieces, and later by another whole one.
func TestLargeWrites(t *testing.T) {
	var spent, cost time.Duration
	var sizes []int
	file := make([]byte, 4<<20)
	l := largeWrites{used: func() time.Duration { return spent }}
	failing := 0
	write := func(p []byte, off int64) (int, error) {
		if failing > 0 {
			if failing--; failing == 0 {
				return copy(file[off:], p[:10]), errors.New("full")
			}
		}
		spent += cost
		sizes = append(sizes, len(p))
		return copy(file[off:], p), nil
	}
	content := make([]byte, 2<<20+5)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	put := func(n int, want ...int) {
		t.Helper()
		clear(file)
		sizes = nil
		if got, err := l.write(content[:n], 3, write); got != n || err != nil || !bytes.Equal(file[3:3+n], content[:n]) {
			t.Fatalf("%d bytes of %d: %v", got, n, err)
		}
		if !slices.Equal(sizes, want) {
			t.Fatalf("%d bytes were written as %d, want %d", n, sizes, want)
		}
	}
	cost = 2 * time.Millisecond
	put(2<<20, 2<<20)
	put(2<<20, 2<<20) // not dear
	cost += time.Microsecond
	put(2<<20, 2<<20)
	put(2<<20+5, 512<<10, 512<<10, 512<<10, 512<<10, 5)

	failing = 2
	if n, err := l.write(content, 0, write); n != 512<<10+10 || err == nil {
		t.Errorf("a write that failed in the second piece: %d, %v", n, err)
	}
	for range 1<<30/(2<<20) - 2 {
		if _, err := l.write(content[:2<<20], 0, write); err != nil {
			t.Fatal(err)
		}
	}
	cost = 0
	put(2<<20, 2<<20) // a GiB later
	put(2<<20, 2<<20) // and it was cheap
}
