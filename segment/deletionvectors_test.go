package segment

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/cleavestore/cleave/internal/deletion"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// writeVectors writes a file with a few items and what set makes of its writer.
func writeVectors(t *testing.T, fsys vfs.FS, m model, set func(*Writer)) {
	t.Helper()
	f, err := fsys.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{FileNumber: 42, StoreID: testStore, EPK: hashEPK, Levels: len(m[0].key.EPK) / 16})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m {
		if err := w.Add(&m[i].key, &m[i].ver); err != nil {
			t.Fatal(err)
		}
	}
	set(w)
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

func TestDeletionVectors(t *testing.T) {
	rng := randtest.New(t)
	for name, m := range contents(rng) {
		fsys := vfs.NewMem()
		var want []deletion.FileVector
		for file := range rng.IntN(4) {
			s := deletion.FileVector{File: uint64(file) << rng.IntN(60), Vector: deletion.Vector{Ordinals: []uint32{}, Seqs: []uint64{}}}
			for o := uint32(0); rng.IntN(50) > 0; o += 1 + uint32(rng.IntN(1000)) {
				s.Ordinals, s.Seqs = append(s.Ordinals, o), append(s.Seqs, rng.Uint64()>>rng.IntN(64))
			}
			want = append(want, s)
		}
		writeVectors(t, fsys, m, func(w *Writer) { w.SetDeletionVectors(want) })
		for mode := range Mode(2) {
			r := open(t, fsys, "a", mode)
			got, ok, err := r.DeletionVectors()
			if err != nil || !ok || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %v, %t, %v; want %v", name, got, ok, err, want)
			}
			checkVerify(t, r)
		}
	}
}

// TestDamagedDeletionVectors reads sections that were written wrong: their checksums fit.
func TestDamagedDeletionVectors(t *testing.T) {
	rng := randtest.New(t)
	var m model
	for _, some := range contents(rng) {
		m = some
	}
	for name, section := range map[string][]byte{
		"files missing":    {2, 7, 0},
		"versions missing": {1, 7, 5, 1, 2},
		"too many files":   {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 1, 1},
		"too high":         {1, 7, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 2, 0, 2},
		"more than lists":  {1, 7, 0, 0},
		"endless number":   bytes.Repeat([]byte{0xFF}, 30),
	} {
		fsys := vfs.NewMem()
		writeVectors(t, fsys, m, func(w *Writer) { w.vectors = section })
		if got, _, err := open(t, fsys, "a", Map).DeletionVectors(); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func FuzzDeletionVectors(f *testing.F) {
	f.Add([]byte{1, 7, 2, 0, 2, 5, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, ok := deletion.Decode(b)
		if !ok {
			return
		}
		var w Writer
		w.SetDeletionVectors(all)
		if again, ok := deletion.Decode(w.vectors); !ok || !reflect.DeepEqual(again, all) {
			t.Fatalf("%v was written as %v", all, again)
		}
	})
}
