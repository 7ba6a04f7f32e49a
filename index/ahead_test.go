package index

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// viewed is a source that counts what is asked of it, and has a byte that cannot be read.
type viewed struct {
	Memory
	views, bytes, bad int64
}

var errBad = errors.New("a byte that cannot be read")

func (v *viewed) View(off, n int64) ([]byte, error) {
	v.views++
	v.bytes += n
	if v.bad >= off && v.bad < off+n {
		return nil, errBad
	}
	return v.Memory.View(off, n)
}

// TestAhead: a reader that reads ahead has the terms of the index, and reads it in large pieces.
// Each place of a sample that cannot be read costs no term before it, and is told.
func TestAhead(t *testing.T) {
	c := mustCompile(t, All())
	var docs []string
	for i := range 20_000 {
		docs = append(docs, fmt.Sprintf(`{"few":%d,"id":"document %d","many":%d}`, i%7, i, i%3000))
	}
	src := &viewed{Memory: build(t, c, docs, 0, nil), bad: -1}
	plain, err := Open(src)
	if err != nil {
		t.Fatal(err)
	}
	want := content(t, mustOpen(t, src.Memory))
	src.views, src.bytes = 0, 0
	if got := content(t, plain.ahead()); !maps.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("%d terms, want %d", len(got), len(want))
	}
	if pieces := src.Size() / aheadBytes; src.views > 2*pieces+4 || src.bytes > 2*src.Size() {
		t.Errorf("%d views of %d bytes, of an index of %d pieces and %d bytes", src.views, src.bytes, pieces, src.Size())
	}

	// terms walks to the end or an error.
	terms := func(r *Reader) (n int, err error) {
		cur := r.Cursor()
		for ok := cur.First(); ok; ok = cur.Next() {
			if _, err := cur.Posting().AppendTo(nil); err != nil {
				return n, err
			}
			n++
		}
		return n, cur.Err()
	}
	for src.bad = 0; src.bad < plain.policy; src.bad += 997 {
		n, err := terms(plain)
		got, gotErr := terms(plain.ahead())
		if got != n || !errors.Is(gotErr, err) {
			t.Errorf("byte %d: %d terms and %v, without reading ahead %d and %v", src.bad, got, gotErr, n, err)
		}
	}
}
