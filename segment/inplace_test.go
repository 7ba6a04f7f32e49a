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

// TestInPlaceVerifiesSmall: a group that is too small to be remembered is verified each time,
// also if the group after it begins within the same 256 bytes and was verified.
func TestInPlaceVerifiesSmall(t *testing.T) {
	for _, lead := range []int{0, 1, 17, 33, 49, 65, 81, 97, 113, 129, 145, 161, 177, 193, 209, 225, 241, 251, 252, 253, 254, 255} {
		fsys := vfs.NewMem()
		var m model
		add := func(id string, body []byte) {
			m = append(m, entry{newKey(encodeKey("a"), id), item.Version{Seq: uint64(len(m) + 1), Body: body}})
		}
		if lead > 0 { // so that the small group has several places
			add("a", bytes.Repeat([]byte{'x'}, 9000+lead))
		}
		add("small", []byte("needle"))
		add("t", bytes.Repeat([]byte{'y'}, 9000))
		write(t, fsys, "a", m, WriterOptions{Compression: None})
		r := open(t, fsys, "a", Map)
		walk := func(last bool) error {
			c := r.Cursor(100)
			c.InPlace()
			if last {
				c.Last()
				return c.Err()
			}
			for ok := c.First(); ok; ok = c.Next() {
			}
			return c.Err()
		}
		if err := walk(true); err != nil {
			t.Fatal(err)
		}
		data := r.file.View().Data
		at := bytes.Index(data, []byte("needle"))
		data[at] = 'X'
		if err := walk(false); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d bytes before it: damage of a small group: %v", lead, err)
		}
	}
}
