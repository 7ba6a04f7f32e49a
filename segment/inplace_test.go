package segment

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestInPlace: a cursor that leaves bodies in the mapping shows the same as the model, in both
// directions, also over groups that it has verified before.
func TestInPlace(t *testing.T) {
	rng := randtest.New(t)
	for _, compression := range []Compression{Fast, None} {
		fsys := vfs.NewMem()
		m := maker{rng: rng, levels: 1 + rng.IntN(3), partitions: 20, ids: 30, versions: 3, body: noise(6000)}.make()
		write(t, fsys, "a", m, WriterOptions{Compression: compression})
		r := open(t, fsys, "a", Map)
		mapped := 0
		for round := range 4 {
			maxSeq := m[rng.IntN(len(m))].ver.Seq
			want := m.visible(maxSeq)
			c := r.Cursor(maxSeq)
			c.InPlace()
			move, ok := c.Next, c.First()
			if round%2 == 1 {
				slices.Reverse(want)
				move, ok = c.Prev, c.Last()
			}
			for i := 0; ok || i < len(want); ok, i = move(), i+1 {
				if !ok || i == len(want) || item.Compare(c.Key(), &want[i].key) != 0 || !sameVersion(c.Version(), &want[i].ver) {
					t.Fatalf("%v, round %d, item %d of %d: %t, %v", compression, round, i, len(want), ok, c.Err())
				}
				if c.Mapped() {
					mapped++
				}
			}
			if c.Err() != nil {
				t.Fatal(c.Err())
			}
		}
		if mapped == 0 && compression == None {
			t.Error("no body was shown in the mapping")
		}
	}
}

// TestInPlaceVerifiesOnce: damage is found by the first cursor that comes to it in a mapping.
// What happens to the bytes after that goes unnoticed, but not by an ordinary cursor.
func TestInPlaceVerifiesOnce(t *testing.T) {
	fsys := vfs.NewMem()
	var m model
	for i := range 10 {
		k := newKey(encodeKey("a"), fmt.Sprintf("id-%05d", i))
		m = append(m, entry{k, item.Version{Seq: uint64(i + 1), Body: bytes.Repeat([]byte{byte('a' + i)}, 2000)}})
	}
	write(t, fsys, "a", m, WriterOptions{Compression: None})
	r := open(t, fsys, "a", Map)
	walk := func(inPlace bool) (shown []byte, err error) {
		c := r.Cursor(100)
		if inPlace {
			c.InPlace()
		}
		for ok := c.First(); ok; ok = c.Next() {
			shown = append(shown, c.Version().Body...)
		}
		return shown, c.Err()
	}
	data := r.file.View().Data
	at := bytes.Index(data, []byte("eeee")) + 1000
	data[at] = 'X'
	if _, err := walk(true); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("damage before the first cursor: %v", err)
	}
	data[at] = 'e'
	if _, err := walk(true); err != nil {
		t.Fatal(err)
	}
	data[at] = 'X'
	if shown, err := walk(true); err != nil || bytes.IndexByte(shown, 'X') < 0 {
		t.Errorf("damage after the first cursor: %v", err)
	}
	if _, err := walk(false); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("an ordinary cursor: %v", err)
	}
}
