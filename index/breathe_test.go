package index

import (
	"errors"
	"fmt"
	"testing"
)

// TestBreathe: Breathe is called while terms are sorted and joined, and where what
// does not find place in memory is written; its error ends that.
func TestBreathe(t *testing.T) {
	c := mustCompile(t, All())
	errStop := errors.New("stop")
	const docs = 4000
	for _, limit := range []int64{0, 64 << 10} {
		calls, stopAt := 0, -1
		add := func() (*Builder, error) {
			b := NewBuilder(c, limit, newTempFiles().create)
			b.Breathe = func() error {
				if calls++; calls == stopAt {
					return errStop
				}
				return nil
			}
			for o := range docs {
				if err := b.Add(uint32(o), fmt.Appendf(nil, `{"a":%d,"b":"text %d","c":true}`, o, o%100)); err != nil {
					return b, err
				}
			}
			return b, nil
		}
		write := func(b *Builder) error {
			return b.WriteTo(func([]byte) error { return nil }, docs)
		}
		b, err := add()
		if err != nil {
			t.Fatal(err)
		}
		if (calls > 0) != (limit > 0) {
			t.Errorf("limit %d: %d calls by Add", limit, calls)
		}
		adding := calls
		if err := write(b); err != nil {
			t.Fatal(err)
		}
		b.Close()
		all := calls
		if all-adding < docs/breathWork+1 {
			t.Errorf("limit %d: %d calls by WriteTo", limit, all-adding)
		}
		for stopAt = 1; stopAt <= all; stopAt++ {
			calls = 0
			b, err := add()
			if err == nil {
				err = write(b)
			}
			if b.Close(); err != errStop {
				t.Fatalf("limit %d, call %d of %d: %v", limit, stopAt, all, err)
			}
		}
	}
}

// TestBreatheWhereFewIsTaken: Breathe is called while a builder goes over the terms of an index of whose versions the file
// takes over few. Its error ends that.
func TestBreatheWhereFewIsTaken(t *testing.T) {
	c := mustCompile(t, All())
	var docs []string
	for i := range 5000 {
		docs = append(docs, fmt.Sprintf(`{"a":%d}`, i))
	}
	b := NewBuilder(c, 0, nil)
	defer b.Close()
	errStop := errors.New("stop")
	b.Breathe = func() error { return errStop }
	b.Take(mustOpen(t, build(t, c, docs, 0, nil)), Remap{First: 4999, New: []uint32{0}})
	if err := b.WriteTo(func([]byte) error { return nil }, 1); err != errStop {
		t.Errorf("it goes on: %v", err)
	}
}
