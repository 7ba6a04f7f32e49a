package conflict

import (
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/partmap"
)

// written are the ids that a transaction writes in the logical partition "p".
type written []string

func (w written) Len() int               { return len(w) }
func (w written) ItemKey(i int) item.Key { return lsmtest.Key(partmap.String("p"), w[i]) }

// TestReads: what changed after the sequence of a transaction conflicts with it if the
// transaction wrote it or, if it is serializable, has read it. Check and CheckMemory agree
// on memtables, active and frozen.
func TestReads(t *testing.T) {
	pk := partmap.String("p")
	epk := pk.EPK()
	for _, tc := range []struct {
		name   string
		change string // id that another writer writes; "": it deletes the logical partition
		writes written
		read   string
		scan   *item.IDRange
		// want is whether there is a conflict under snapshot isolation, and whether there is
		// one if the transaction is serializable.
		want, serial bool
	}{
		{"the same item", "b", written{"b"}, "", nil, true, true},
		{"another item", "b", written{"a"}, "", nil, false, false},
		{"an item that was read", "b", written{"a"}, "b", nil, false, true},
		{"in a range", "b", written{"a"}, "", &item.IDRange{Lo: "a", Hi: "c"}, false, true},
		{"at the open ends of a range", "b", written{"a"}, "", &item.IDRange{Lo: "b", LoOpen: true}, false, false},
		{"at the other open end of a range", "b", written{"a"}, "", &item.IDRange{Hi: "b", HiOpen: true}, false, false},
		{"at the end of a range", "b", written{"a"}, "", &item.IDRange{Lo: "", Hi: "b"}, false, true},
		{"before a range", "b", written{"a"}, "", &item.IDRange{Lo: "c", Hi: ""}, false, false},
		{"behind a range", "b", written{"a"}, "", &item.IDRange{Lo: "", Hi: "a"}, false, false},
		{"the logical partition", "", written{"x"}, "", nil, true, true},
	} {
		for _, frozen := range []bool{false, true} {
			s := lsmtest.New(t, 16<<20)
			tree := s.Tree()
			for _, id := range []string{"a", "b", "c"} {
				s.Put(tree, pk, id, item.Version{Body: []byte("{}")})
			}
			for _, serializable := range []bool{false, true} {
				r := Reads{Serializable: serializable}
				r.Begin(3, lsmtest.Key(pk, ""), &epk)
				if tc.read != "" {
					r.Saw(tc.read, Sighting{Seq: 2, Exists: true})
				}
				if tc.scan != nil {
					r.Scanned(*tc.scan)
				}
				v := tree.Version.Load()
				if v.Active.MaxSeq() <= 3 && len(v.Frozen) == 0 {
					if changed, err := r.Check(t.Context(), v, tc.writes); changed || err != nil || r.CheckMemory(v, tc.writes) {
						t.Errorf("%s: nothing has changed, but %v, %v", tc.name, changed, err)
					}
					change := item.Version{Body: []byte("{}")}
					if tc.change == "" {
						change = item.Version{Flags: item.Tombstone}
					}
					s.Put(tree, pk, tc.change, change)
					if frozen {
						s.Freeze(tree)
					}
					v = tree.Version.Load()
				}
				want := tc.want
				if serializable {
					want = tc.serial
				}
				changed, err := r.Check(t.Context(), v, tc.writes)
				if err != nil {
					t.Fatal(err)
				}
				if inMemory := r.CheckMemory(v, tc.writes); changed != want || inMemory != want {
					t.Errorf("%s, serializable %v, frozen %v: conflict %v, in memory %v, want %v", tc.name, serializable, frozen, changed, inMemory, want)
				}
			}
		}
	}
}

// TestReset: a reused Reads knows nothing of the transaction before, and ids that it kept
// before it grew are still right.
func TestReset(t *testing.T) {
	pk := partmap.String("p")
	epk := pk.EPK()
	var r Reads
	for range 2 {
		r.Serializable = true
		r.Begin(1, lsmtest.Key(pk, ""), &epk)
		if _, ok := r.Seen("a"); ok || r.Ranges() != 0 {
			t.Error("something is left of the transaction before")
		}
		first := r.Keep([]byte("a"))
		for range 100 {
			r.Keep([]byte("another id"))
		}
		r.Saw(first, Sighting{Seq: 1, Exists: true})
		r.Scanned(item.IDRange{Lo: "a", Hi: "b"})
		if s, ok := r.Seen("a"); !ok || s.Seq != 1 || r.Ranges() != 1 {
			t.Errorf("%+v, %v", s, ok)
		}
		r.Reset()
	}
}
