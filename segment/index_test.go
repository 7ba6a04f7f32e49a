package segment

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestOrdinals goes to versions by their ordinals, and from keys to ordinals.
func TestOrdinals(t *testing.T) {
	rng := randtest.New(t)
	for name, m := range contents(rng) {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			write(t, fsys, "a", m, WriterOptions{})
			r := open(t, fsys, "a", Mode(rng.IntN(2)))
			c := r.Cursor(math.MaxUint64)
			at := 0
			for range 300 {
				if at++; at >= len(m) || rng.IntN(3) == 0 {
					at = rng.IntN(len(m))
				}
				if !c.SeekOrdinal(uint32(at)) {
					t.Fatalf("ordinal %d of %d: %v", at, len(m), c.Err())
				}
				e := &m[at]
				if item.Compare(c.Key(), &e.key) != 0 || !sameVersion(c.Version(), &e.ver) {
					t.Fatalf("ordinal %d: %s, not %s", at, show(c.Key(), c.Version()), show(&e.key, &e.ver))
				}
				if o, err := c.Ordinal(); err != nil || int(o) != at {
					t.Fatalf("ordinal %d says that it is %d: %v", at, o, err)
				}
				older := at > 0 && item.Compare(&m[at-1].key, &e.key) == 0
				if c.Older() != older {
					t.Fatalf("ordinal %d is older: %t", at, c.Older())
				}
				first, versions := m.lowerBound(&e.key), 0
				for first+versions < len(m) && item.Compare(&m[first+versions].key, &e.key) == 0 {
					versions++
				}
				if o, n, err := r.Lookup(e.key.Lookup()); err != nil || int(o) != first || int(n) != versions {
					t.Fatalf("%d versions from %d on, not %d from %d: %v", n, o, versions, first, err)
				}
			}
			if c.SeekOrdinal(uint32(len(m))) || c.Err() != nil {
				t.Errorf("an ordinal beyond the last: %v", c.Err())
			}
			none := newKey(m[0].key.PK, "no such id, surely")
			if len(none.EPK) == len(m[0].key.EPK) {
				if _, n, err := r.Lookup(none.Lookup()); n != 0 || err != nil {
					t.Errorf("%d versions of a key that is not there: %v", n, err)
				}
			}
			walk := r.Walk()
			for o := uint32(0); walk.Next(); o++ {
				if walk.Ordinal() != o {
					t.Fatalf("walk: ordinal %d, not %d", walk.Ordinal(), o)
				}
			}
		})
	}
}

// TestIndexSection writes an index section, reads parts of it and damages it.
func TestIndexSection(t *testing.T) {
	rng := randtest.New(t)
	m := maker{rng: rng, levels: 1, partitions: 3, ids: 200, versions: 2, body: document}.make()
	content := make([]byte, 3*pageLen+100)
	for i := range content {
		content[i] = byte(rng.Uint32())
	}
	fsys := vfs.NewMem()
	f, err := fsys.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{FileNumber: 1, Levels: 1, EPK: hashEPK})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m {
		if err := w.Add(&m[i].key, &m[i].ver); err != nil {
			t.Fatal(err)
		}
	}
	w.SetIndex(func(emit func([]byte) error) error {
		return errors.Join(emit(content[:100]), emit(content[100:]))
	})
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	var at int64
	for _, mode := range []Mode{Map, Pread} {
		r := open(t, fsys, "a", mode)
		checkVerify(t, r)
		checkWalk(t, r, m)
		for _, read := range []bool{false, true} {
			x, ok := r.Index(read)
			if !ok || x.Size() != int64(len(content)) {
				t.Fatalf("index of %d bytes, %t", x.Size(), ok)
			}
			var damage *fault.CorruptionError
			errors.As(x.Corrupt(0, errRange), &damage)
			at = damage.Offset
			for range 50 {
				off := rng.IntN(len(content))
				n := 1 + rng.IntN(len(content)-off)
				if err := r.Guard(func() error {
					b, err := x.View(int64(off), int64(n))
					if err == nil && !bytes.Equal(b, content[off:off+n]) {
						err = errors.New("other bytes")
					}
					return err
				}); err != nil {
					t.Fatalf("%d bytes at %d: %v", n, off, err)
				}
			}
			if _, err := x.View(int64(len(content)), 1); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("beyond the section: %v", err)
			}
		}
	}
	data, err := fsys.ReadFile("a")
	if err != nil {
		t.Fatal(err)
	}
	data[at+pageLen+5] ^= 1
	if err := fsys.WriteFile("a", data); err != nil {
		t.Fatal(err)
	}
	r := open(t, fsys, "a", Map)
	x, _ := r.Index(false)
	for page := range int64(3) {
		_, err := x.View(page*pageLen, 10)
		if (page == 1) != errors.Is(err, fault.ErrCorrupt) || page != 1 && err != nil {
			t.Errorf("page %d: %v", page, err)
		}
	}
	checkGet(t, r, m, &m[0].key, math.MaxUint64)
	// A writer returns the error that the index builder has returned.
	f, err = fsys.Create("b")
	if err != nil {
		t.Fatal(err)
	}
	if w, err = NewWriter(f, WriterOptions{FileNumber: 1, Levels: 1, EPK: hashEPK}); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(&m[0].key, &m[0].ver); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no index")
	w.SetIndex(func(func([]byte) error) error { return failure })
	if _, err := w.Finish(); !errors.Is(err, failure) {
		t.Errorf("finish: %v", err)
	}
}
