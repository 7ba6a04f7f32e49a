//go:build linux && !race

package vfs

import "testing"

// TestCached: what was just written is in memory, a hole is not.
func TestCached(t *testing.T) {
	fsys, err := OpenRoot(t.TempDir())
	check(t, err)
	f := create(t, fsys, "a", "")
	defer f.Close()
	_, err = f.WriteAt(make([]byte, 300<<10), 1<<20)
	check(t, err)
	m, err := f.Map()
	check(t, err)
	defer m.Unmap()
	for _, c := range []struct {
		off, n int64
		want   bool
	}{
		{1 << 20, maxCached, true}, {1<<20 + 40<<10 + 1, maxCached, true}, {1<<20 + 300<<10 - 1, 1, true},
		{0, maxCached, false}, {1<<20 - 128<<10, maxCached, false},
		{1 << 20, 0, false}, {-1, 1, false}, {1 << 20, maxCached + 1, false}, {1<<20 + 299<<10, 2 << 10, false},
	} {
		if got := m.Cached(c.off, c.n); got != c.want {
			t.Errorf("%d bytes at %d: %t", c.n, c.off, got)
		}
	}
}
