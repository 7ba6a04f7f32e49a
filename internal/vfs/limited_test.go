package vfs

import (
	"errors"
	"syscall"
	"testing"
)

// TestLimited: what takes a descriptor or a mapping counts until it is given back, and
// fails past the limit.
func TestLimited(t *testing.T) {
	l := NewLimited(NewMem(), 2, 1)
	lock, err := l.Lock("lock", "me")
	check(t, err)
	f, err := l.Create("f")
	check(t, err)
	for name, call := range map[string]func() error{
		"create": func() error { _, err := l.Create("g"); return err },
		"open":   func() error { _, err := l.Open("f"); return err },
		"list":   func() error { _, err := l.List("."); return err },
		"sync":   func() error { return l.SyncDir(".") },
		"dir":    func() error { _, err := l.OpenDir("."); return err },
		"free":   func() error { _, err := l.Free(); return err },
		"lock":   func() error { _, err := l.Lock("other", "me"); return err },
	} {
		if err := call(); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, err := f.Map()
	check(t, err)
	if _, err := f.Map(); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("map: %v", err)
	}
	check(t, m.Unmap())
	check(t, f.Close())
	check(t, lock.Close())
	if files, maps := l.Used(); files != 0 || maps != 0 {
		t.Errorf("%d files, %d mappings are left", files, maps)
	}
	_, err = l.List(".")
	check(t, err)
}

// TestSparing: a call that finds no descriptor is made again for as long as one is spared.
func TestSparing(t *testing.T) {
	mem := NewMem()
	l := NewLimited(mem, 3, 1)
	var idle []File
	spared := 0
	s := Sparing(l, func() bool {
		if len(idle) == 0 {
			return false
		}
		check(t, idle[0].Close())
		idle = idle[1:]
		spared++
		return true
	})
	for _, name := range []string{"a", "b", "c"} {
		f, err := s.Create(name)
		check(t, err)
		idle = append(idle, f)
	}
	check(t, s.SyncDir("."))
	lock, err := s.Lock("lock", "me")
	check(t, err)
	f, err := s.OpenWrite("a")
	check(t, err)
	g, err := s.Open("a")
	check(t, err)
	if _, err := s.List("."); !errors.Is(err, syscall.EMFILE) || spared != 3 {
		t.Errorf("%d spared, then %v", spared, err)
	}
	for _, c := range []interface{ Close() error }{lock, f, g} {
		check(t, c.Close())
	}
	if _, err := s.Open("none"); err == nil || spared != 3 {
		t.Errorf("%d spared, then %v", spared, err)
	}
}
