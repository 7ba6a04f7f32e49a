package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/forge"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// TestScanOfForged: of a file whose checksums are right and whose bytes are not, scans show no document that cannot be
// decoded, also where they leave out bodies because a newer file has other versions.
func TestScanOfForged(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	db, c := openStore(t, opts)
	put := func(i, version int) {
		t.Helper()
		words := strings.Repeat(fmt.Sprint("some words of ", i, " in ", version, ", "), 60)
		must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%02d","k":"a","text":%q}`, i, words), nil)))
	}
	const docs, newer = 24, 5 // at each end
	for i := range docs {
		put(i, 1)
	}
	must(t, db.Flush(ctx))
	for i := range newer {
		put(i, 2)
		put(docs-1-i, 2)
	}
	must(t, db.Flush(ctx))
	must(t, db.Close())
	name, good := firstSegment(t, mem)
	groups := forge.Sections(good)[0]
	stopped, found := 0, 0
	for at := int64(0); at < groups.Len; at += 7 {
		image := mem.Clone()
		b := slices.Clone(good)
		b[groups.Off+at] ^= 0xFF
		forge.MendSegment(b)
		writeForged(t, image, name, b)
		r, err := segment.Open(image, name, segment.ReaderOptions{EPK: lsm.AppendEPK})
		must(t, err)
		walk, n := r.Walk(), 0
		for walk.Next() {
			n++
		}
		wrong := "" // the document that is not to be decoded, if only the old file has it
		if walk.Err() != nil && n >= newer && n < docs-newer {
			wrong = fmt.Sprintf("%02d", n)
			found++
		}
		r.Release()
		o := testOptions(image)
		o.ReadOnly = true
		db, err := Open(ctx, "mem", o)
		must(t, err)
		c, err := db.Container("c")
		must(t, err)
		for _, reverse := range []bool{false, true} {
			for it, err := range c.Scan(ctx, StringKey("a"), IDRange{}, &ScanOptions{Reverse: reverse, Borrow: true}) {
				if err != nil {
					if !errors.Is(err, ErrCorrupt) {
						t.Errorf("byte %d: %v", at, err)
					}
					stopped++
					break
				}
				if it.ID == wrong {
					t.Errorf("byte %d, reverse %t: the scan shows %q as %.40q", at, reverse, it.ID, it.Body)
				}
			}
		}
		must(t, db.Close())
	}
	if stopped == 0 || found == 0 {
		t.Errorf("%d scans stopped, %d documents were not to be decoded", stopped, found)
	}
}
