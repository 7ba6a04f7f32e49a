package segment

import (
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestSequences finds the versions above a sequence, of which large parts of a file
// have none.
func TestSequences(t *testing.T) {
	rng := randtest.New(t)
	all := contents(rng)
	large := maker{rng: rng, levels: 1, partitions: 20, ids: 100, versions: 1, body: document}.make()
	for i := range large {
		large[i].ver.Seq = uint64(1+i) << 36 // rising with the keys, and wide apart
	}
	all["rising"] = large
	for name, m := range all {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			p := write(t, fsys, "a", m, WriterOptions{})
			for _, mode := range []Mode{Map, Pread} {
				r := open(t, fsys, "a", mode)
				for range 30 {
					after := m[rng.IntN(len(m))].ver.Seq - uint64(rng.IntN(2))
					lo := uint32(rng.IntN(len(m)))
					hi := lo + uint32(rng.IntN(len(m)))
					at := lo
					next := func() (uint32, bool) {
						for ; at < min(hi, uint32(len(m))); at++ {
							if m[at].ver.Seq > after {
								return at, true
							}
						}
						return 0, false
					}
					if err := r.Sequences(lo, hi, after, func(ordinal uint32, seq uint64) {
						want, ok := next()
						if !ok || ordinal != want || seq != m[want].ver.Seq {
							t.Fatalf("above %d, from %d to %d: ordinal %d with sequence %d, want %d", after, lo, hi, ordinal, seq, want)
						}
						at++
					}); err != nil {
						t.Fatal(err)
					}
					if want, ok := next(); ok {
						t.Fatalf("above %d, from %d to %d: ordinal %d is missing, of %d", after, lo, hi, want, p.Items)
					}
				}
			}
		})
	}
}

// TestSequencesDamaged meets damage in groups and in the table.
func TestSequencesDamaged(t *testing.T) {
	rng := randtest.New(t)
	m := smallModel(rng)
	fsys := vfs.NewMem()
	p := write(t, fsys, "a", m, WriterOptions{})
	good := content(t, fsys, "a")
	f := Footer{Sections: p.Sections}
	for _, kind := range []SectionKind{SectionGroups, SectionOffsets} {
		s := f.section(kind)
		for i := s.Off; i < s.end(); i += 1 + int64(rng.IntN(8)) {
			bad := append([]byte(nil), good...)
			bad[i] ^= 1 << rng.IntN(8)
			replace(t, fsys, "a", bad)
			r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK})
			if err != nil {
				isDamage(t, err, int64(len(good)))
				continue
			}
			err = r.Sequences(0, uint32(len(m)), 0, func(uint32, uint64) {})
			if err == nil {
				t.Fatalf("%v: byte %d: not found", kind, i-s.Off)
			}
			isDamage(t, err, int64(len(good)))
			r.Release()
		}
	}
}
