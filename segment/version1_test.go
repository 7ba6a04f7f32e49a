package segment

import (
	"encoding/binary"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/payload"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestVersion1 reads files as they were written before there were LZ blocks, with
// S2 blocks against a dictionary, and one that a writer of today made of their
// payloads.
func TestVersion1(t *testing.T) {
	rng := randtest.New(t)
	dict := testDictionary(t)
	for name, m := range contents(rng) {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			f, err := fsys.Create("a")
			if err != nil {
				t.Fatal(err)
			}
			o := WriterOptions{Dictionary: dict, FileNumber: 42, StoreID: testStore, EPK: hashEPK, Levels: len(m[0].key.EPK) / 16}
			w, err := NewWriter(f, o)
			if err != nil {
				t.Fatal(err)
			}
			w.enc = payload.NewS2Encoder(dict)
			w.pend.seed = item.Seed{}
			fill(t, w, m)
			b := content(t, fsys, "a")
			clear(b[40:56])
			for _, part := range [][]byte{b[:headerLen], b[len(b)-footerLen:]} {
				binary.LittleEndian.PutUint32(part[8:], 1)
				binary.LittleEndian.PutUint32(part[len(part)-4:], checksum(part[:len(part)-4]))
			}
			replace(t, fsys, "a", b)
			r := open(t, fsys, "a", Mode(rng.IntN(2)))
			if v := r.Properties().FormatVersion; v != 1 {
				t.Errorf("format %d, not 1", v)
			}
			read := func(r *Reader) {
				checkWalk(t, r, m)
				checkGets(t, r, m, rng)
				checkStats(t, r, m)
				checkCursor(t, r, m, rng)
				checkVerify(t, r)
			}
			read(r)
			if f, err = fsys.Create("b"); err != nil {
				t.Fatal(err)
			}
			if w, err = NewWriter(f, o); err != nil {
				t.Fatal(err)
			}
			copied, walk := 0, r.Walk()
			for walk.Next() {
				if err := w.AddFrom(walk); err != nil {
					t.Fatal(err)
				}
				copied++
			}
			if walk.Err() != nil || copied != len(m) {
				t.Fatalf("%d of %d copied: %v", copied, len(m), walk.Err())
			}
			if _, err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			read(open(t, fsys, "b", Mode(rng.IntN(2))))
		})
	}
}
