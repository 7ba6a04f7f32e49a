package segment

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestTake: a cursor that takes the documents of groups together, as many of them as are wanted,
// shows the same as the model. What it takes are documents without an expiry of their own that were
// not written before the time that is given.
func TestTake(t *testing.T) {
	rng := randtest.New(t)
	together := 0
	for _, versions := range []int{1, 1, 3} {
		for _, compression := range []Compression{Fast, None} {
			fsys := vfs.NewMem()
			m := maker{rng: rng, levels: 1 + rng.IntN(3), partitions: 10, ids: 80, versions: versions, body: noise(30)}.make()
			if versions == 1 {
				// Groups without anything else are frequent.
				for i := range m {
					if v := &m[i].ver; rng.IntN(100) > 0 {
						v.Flags, v.Expires = 0, 0
					}
				}
			}
			write(t, fsys, "a", m, WriterOptions{Compression: compression})
			r := open(t, fsys, "a", Map)
			for round := range 8 {
				maxSeq, written := m[rng.IntN(len(m))].ver.Seq, m[rng.IntN(len(m))].ver.Modified-4e5
				if round%2 > 0 {
					maxSeq = r.props.MaxSeq
				}
				if round/2%2 == 1 {
					written = 0
				}
				want := m.visible(maxSeq)
				c := r.Cursor(maxSeq)
				var got model
				var text []byte
				var taken []Taken
				for ok := c.First(); ok; ok = c.Next() {
					k, w := c.Key().Clone(), Wanted{Written: written, Most: 1 + rng.IntN(200), Bytes: 1 + rng.IntN(20_000)}
					c.KeysFirst(rng.IntN(2) == 0)
					if rng.IntN(3) == 0 {
						w.Edge = want[rng.IntN(len(want))].key.ID
					}
					if text, taken = c.Take(&w, text[:rng.IntN(1+len(text))], taken[:0]); len(taken) == 0 {
						c.Complete()
						got = append(got, entry{k, *c.Version()})
						got[len(got)-1].ver.Body = bytes.Clone(c.Version().Body)
						continue
					}
					if len(taken) > w.Most {
						t.Fatalf("%d were taken, %d were wanted", len(taken), w.Most)
					}
					for _, d := range taken {
						k.ID = d.ID.Of(text)
						if d.Modified < written || d.Expires != 0 || w.Edge != nil && bytes.Compare(k.ID, w.Edge) >= 0 {
							t.Fatalf("%q was taken: written %d, expires %d; %+v was wanted", k.ID, d.Modified, d.Expires, w)
						}
						got = append(got, entry{k.Clone(), item.Version{Seq: d.Seq, Modified: d.Modified, Body: bytes.Clone(d.Body.Of(text))}})
					}
					if item.Compare(c.Key(), &got[len(got)-1].key) != 0 {
						t.Fatalf("the cursor is at %v, not at the last that it has given, %v", c.Key(), got[len(got)-1].key)
					}
					together += len(taken)
					if len(got) == 1 || rng.IntN(20) > 0 {
						continue
					}
					if !c.Prev() || item.Compare(c.Key(), &got[len(got)-2].key) != 0 {
						t.Fatalf("the cursor is not at the key before the last that it has given: %v", c.Err())
					}
					c.Next()
				}
				if c.Err() != nil {
					t.Fatal(c.Err())
				}
				if !slices.EqualFunc(got, want, func(a, b entry) bool {
					return item.Compare(&a.key, &b.key) == 0 && sameVersion(&a.ver, &b.ver)
				}) {
					t.Fatalf("%v, %d versions of a key: %d shown, want %d", compression, versions, len(got), len(want))
				}
			}
		}
	}
	if together == 0 {
		t.Error("no documents were taken together")
	}
}
