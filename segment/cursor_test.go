package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/forge"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestNextFails: a cursor has no position after a movement that failed.
func TestNextFails(t *testing.T) {
	fsys := vfs.NewMem()
	var m model
	for i, pk := range []string{"a", "b", "c"} {
		m = append(m, entry{newKey(encodeKey(pk), "id"), item.Version{Seq: uint64(i + 1), Body: []byte("body")}})
	}
	m.sort()
	write(t, fsys, "a", m, WriterOptions{})
	wrong := string(m[1].key.PK)
	r, err := Open(fsys, "a", ReaderOptions{Mode: Pread, EPK: func(dst, pk []byte) []byte {
		if string(pk) == wrong {
			return append(dst, 1, 2, 3)
		}
		return hashEPK(dst, pk)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	c := r.Cursor(math.MaxUint64)
	if !c.First() {
		t.Fatal(c.Err())
	}
	if c.Next() || c.Err() == nil || c.Valid() {
		t.Errorf("valid: %t, %v", c.Valid(), c.Err())
	}
}

// TestBodyFails: where a body does not decode, a cursor that shows keys first shows the keys behind it too, and neither
// Complete nor Take gives that body.
func TestBodyFails(t *testing.T) {
	const docs, broken = 6, 3
	rng := randtest.New(t)
	fsys := vfs.NewMem()
	var m model
	for i := range docs {
		body := fmt.Sprintf(`{"id":"%d","k":"a","text":"`, i)
		for range 200 {
			body += fmt.Sprint("some words ", rng.IntN(1000))
		}
		body += `"}`
		m = append(m, entry{newKey(encodeKey("a"), fmt.Sprint(i)), item.Version{Seq: uint64(i + 1), Body: []byte(body)}})
	}
	write(t, fsys, "a", m, WriterOptions{Compression: Fast})
	good := open(t, fsys, "a", Pread)
	c := good.Cursor(math.MaxUint64)
	for ok := c.First(); ok && c.i+int(c.group) < broken; ok = c.Next() {
		continue
	}
	off, end := c.open.off, c.open.end()
	if c.open.g.count != 1 || c.Err() != nil {
		t.Fatalf("a group of %d, %v", c.open.g.count, c.Err())
	}
	image := content(t, fsys, "a")
	found := 0
	for at := end - 1; at > end-24; at-- {
		b := slices.Clone(image)
		b[at] ^= 0xFF
		forge.MendSegment(b)
		if err := fsys.WriteFile("b", b); err != nil {
			t.Fatal(err)
		}
		r, err := Open(fsys, "b", ReaderOptions{Mode: Pread, EPK: hashEPK})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Cursor(math.MaxUint64)
		n := 0
		for ok := c.First(); ok; ok = c.Next() {
			n++
		}
		if n == docs {
			r.Release()
			continue // another body, which decodes
		}
		found++
		c.KeysFirst(true)
		n = 0
		for ok := c.First(); ok; ok = c.Next() {
			if string(c.Key().ID) != fmt.Sprint(n) {
				t.Fatalf("byte %d: key %q, want %d", at, c.Key().ID, n)
			}
			n++
		}
		if n != docs || c.Err() != nil {
			t.Errorf("byte %d: %d keys, %v", at, n, c.Err())
		}
		fails := func() bool {
			corrupt := new(fault.CorruptionError)
			return errors.As(c.Err(), &corrupt) && corrupt.Offset == off && !c.Valid()
		}
		n = 0
		for ok := c.First(); ok && c.Complete(); ok = c.Next() {
			n++
		}
		if n != broken || !fails() {
			t.Errorf("byte %d: %d bodies, %v", at, n, c.Err())
		}
		if !c.First() {
			t.Fatal(c.Err())
		}
		_, taken := c.Take(&Wanted{Most: docs, Bytes: math.MaxInt}, nil, nil)
		if len(taken) != broken || !fails() {
			t.Errorf("byte %d: %d taken, %v", at, len(taken), c.Err())
		}
		r.Release()
	}
	if found == 0 {
		t.Error("no byte breaks the body")
	}
}

// TestNothingLargeKept: what is kept for reuse has no memory of the size of a large document.
func TestNothingLargeKept(t *testing.T) {
	fsys := vfs.NewMem()
	f, err := fsys.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{FileNumber: 1, StoreID: testStore, EPK: hashEPK, Levels: 1, Compression: Fast})
	if err != nil {
		t.Fatal(err)
	}
	const size = 3 << 20
	pk := encodeKey("p")
	var m model
	for i := range 9 {
		k := newKey(pk, fmt.Sprintf("id-%d", i))
		body := append(slices.Clone(k.ID), bytes.Repeat([]byte("0123456789abcdefghijklmnop"), size/26)...) // so that the id is decoded with it
		m = append(m, entry{k, item.Version{Seq: uint64(i + 1), Body: body}})
	}
	fill(t, w, m)
	for _, mode := range []Mode{Map, Pread} {
		r, err := Open(fsys, "a", ReaderOptions{Mode: mode, EPK: hashEPK})
		if err != nil {
			t.Fatal(err)
		}
		c, k := r.Cursor(math.MaxUint64), newKey(pk, "id-5x")
		if !c.SeekGE(&k) {
			t.Fatal(c.Err())
		}
		c.Reset(nil, 0)
		if kept := cap(c.own) + cap(c.buf) + cap(c.s.raw) + cap(c.s.group) + cap(c.s.cold); kept > scratchKeep {
			t.Errorf("mode %v: a cursor keeps %d bytes", mode, kept)
		}
		s := new(scratch)
		s.raw, s.open.g.payload, s.open.g.members = make([]byte, size), make([]byte, size), make([]byte, size)
		s.free()
		if s.raw != nil || s.open.g.payload != nil || s.open.g.members != nil {
			t.Errorf("mode %v: a scratch keeps a payload", mode)
		}
		r.Release()
	}
}
