package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/scancache"
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
			m := plainly(rng, maker{rng: rng, levels: 1 + rng.IntN(3), partitions: 10, ids: 80, versions: versions, body: noise(30)})
			fsys := vfs.NewMem()
			write(t, fsys, "a", m, WriterOptions{Compression: compression})
			r := open(t, fsys, "a", Map)
			for round := range 8 {
				together += checkTake(t, r, m, rng, round, false)
			}
		}
	}
	if together == 0 {
		t.Error("no documents were taken together")
	}
}

// TestHeld: a cursor shows the same of stretches that are held decoded, of files with groups of
// all sizes, where many fit into the cache and where few do, and where bodies may stay in place.
func TestHeld(t *testing.T) {
	rng := randtest.New(t)
	held := 0
	for _, size := range []int64{2 * scancache.MostBytes, 8 << 20} {
		for _, compression := range []Compression{Fast, Small, None} {
			for _, versions := range []int{1, 3} {
				m := plainly(rng, maker{rng: rng, levels: 1 + rng.IntN(3), partitions: 6, ids: 80, versions: versions, body: noise(1 + rng.IntN(4000))})
				if v := &m[rng.IntN(len(m))].ver; v.Flags == 0 {
					v.Body = make([]byte, scancache.MostBytes)
				}
				fsys := vfs.NewMem()
				write(t, fsys, "a", m, WriterOptions{Compression: compression, Dictionary: testDictionary(t)})
				hot := scancache.New(size)
				r, err := Open(fsys, "a", ReaderOptions{Mode: Mode(rng.IntN(2)), EPK: hashEPK, ScanCache: hot, Warm: true})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Release()
				for round := range 12 {
					checkCursor(t, r, m, rng)
					checkTake(t, r, m, rng, round, round%3 == 0)
				}
				n := hot.Bytes()
				if n > size {
					t.Errorf("%v, %d versions: %d bytes are held of %d", compression, versions, n, size)
				}
				held += min(int(n), 1)
			}
		}
	}
	if held < 6 {
		t.Errorf("something is held of %d files of 12", held)
	}
}

// TestHeldDamage: a group that does not verify is met by each cursor that comes to it, and by no other, however
// often. What is held of the groups around it is right.
func TestHeldDamage(t *testing.T) {
	fsys, rng := vfs.NewMem(), randtest.New(t)
	var m model
	for len(m) < 300 {
		m = maker{rng: rng, levels: 1, partitions: 20, ids: 100, versions: 1, body: noise(1500)}.make()
	}
	write(t, fsys, "a", m, WriterOptions{Compression: None})
	m = m.visible(math.MaxUint64)
	r := open(t, fsys, "a", Map)
	c := r.Cursor(math.MaxUint64)
	broken := len(m) / 2
	if !c.SeekGE(&m[broken].key) {
		t.Fatal(c.Err())
	}
	off, first, last := c.open.off, broken-c.i, broken-c.i+c.open.g.count
	b := content(t, fsys, "a")
	b[off+int64(c.open.g.size)-1] ^= 1
	replace(t, fsys, "a", b)
	hot := scancache.New(8 << 20)
	r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK, ScanCache: hot, Warm: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for range 20 {
		for _, reverse := range []bool{false, true} {
			c := r.Cursor(math.MaxUint64)
			n, want := 0, first
			move, ok := c.Next, c.First()
			if reverse {
				move, ok, want = c.Prev, c.Last(), len(m)-last
			}
			for ; ok; ok = move() {
				n++
			}
			corrupt := new(fault.CorruptionError)
			if n != want || !errors.As(c.Err(), &corrupt) || corrupt.Offset != off {
				t.Fatalf("reverse %t: %d keys before the damaged group, not %d; %v", reverse, n, want, c.Err())
			}
		}
	}
	if hot.Bytes() == 0 {
		t.Errorf("nothing is held of %d bytes, %d documents", r.Size(), len(m))
	}
}

// TestHeldTogether: cursors of several goroutines fill a cache that is too small and read from it.
func TestHeldTogether(t *testing.T) {
	rng := randtest.New(t)
	m := plainly(rng, maker{rng: rng, levels: 1, partitions: 6, ids: 80, versions: 1, body: noise(2000)})
	fsys := vfs.NewMem()
	write(t, fsys, "a", m, WriterOptions{Dictionary: testDictionary(t)})
	r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK, ScanCache: scancache.New(2 * scancache.MostBytes), Warm: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var wg sync.WaitGroup
	for range 4 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 1))
		wg.Go(func() {
			want := m.visible(math.MaxUint64)
			for range 20 {
				c := r.Cursor(math.MaxUint64)
				at := rng.IntN(len(want))
				for ok := c.SeekGE(&want[at].key); ok; ok = c.Next() {
					_, taken := c.Take(&Wanted{Most: 1 + rng.IntN(30), Bytes: math.MaxInt}, nil, nil)
					if at += max(len(taken)-1, 0); item.Compare(c.Key(), &want[at].key) != 0 {
						t.Errorf("key %v, want %v", c.Key(), &want[at].key)
						return
					}
					at++
				}
				if at != len(want) || c.Err() != nil {
					t.Errorf("%d of %d keys, %v", at, len(want), c.Err())
				}
			}
		})
	}
	wg.Wait()
}

// TestHeldSize: what is held takes at most 1.2 times the size of documents of 1.4 KB, and twice that of documents of 100
// bytes (docs/sizing.md).
func TestHeldSize(t *testing.T) {
	for _, c := range []struct {
		body  int
		times float64
	}{{1400, 1.2}, {100, 2}} {
		var m model
		for i := range 1 << 20 / c.body {
			id := fmt.Sprintf("%08d", i)
			body := bytes.Repeat([]byte("x"), c.body)
			copy(body, `{"id":"`+id+`","pk":"p"`)
			m = append(m, entry{newKey(encodeKey("p"), id), item.Version{Seq: uint64(i + 1), Modified: 1700000000000, Body: body}})
		}
		fsys := vfs.NewMem()
		write(t, fsys, "a", m, WriterOptions{Dictionary: testDictionary(t)})
		hot := scancache.New(64 << 20)
		r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK, ScanCache: hot, Warm: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		for range 5 {
			cur := r.Cursor(math.MaxUint64)
			for ok := cur.First(); ok; ok = cur.Next() {
			}
		}
		raw := float64(r.props.RawBytes)
		if n := float64(hot.Bytes()); n < raw || n > c.times*raw {
			t.Errorf("documents of %d bytes: what is held takes %.2f times their size, at most %.2f are promised", c.body, n/raw, c.times)
		}
	}
}

// plainly makes a model in which groups with nothing but documents are frequent, if keys have one version each.
func plainly(rng *rand.Rand, of maker) model {
	m := of.make()
	for i := range m {
		if v := &m[i].ver; of.versions == 1 && rng.IntN(100) > 0 {
			v.Flags, v.Expires = 0, 0
		}
	}
	return m
}

// checkTake compares what a cursor shows and takes with the model, and returns how many it takes.
func checkTake(t *testing.T, r *Reader, m model, rng *rand.Rand, round int, inPlace bool) (together int) {
	t.Helper()
	maxSeq, written := m[rng.IntN(len(m))].ver.Seq, m[rng.IntN(len(m))].ver.Modified-4e5
	if round%2 > 0 {
		maxSeq = r.props.MaxSeq
	}
	if round/2%2 == 1 {
		written = 0
	}
	want := m.visible(maxSeq)
	c := r.Cursor(maxSeq)
	if inPlace {
		r.Pin()
		defer r.Unpin()
		c.InPlace()
	}
	var got model
	var text []byte
	var taken []Taken
	for ok := c.First(); ok; ok = c.Next() {
		k, w := c.Key().Clone(), Wanted{Written: written, Most: 1 + rng.IntN(200), Bytes: 1 + rng.IntN(20_000), InPlace: inPlace}
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
		for i, d := range taken {
			var body []byte
			if i < len(w.Bodies) {
				body = w.Bodies[i]
			}
			if body == nil {
				body = d.Body.Of(text)
			}
			k.ID = d.ID.Of(text)
			if d.Modified < written || d.Expires != 0 || w.Edge != nil && bytes.Compare(k.ID, w.Edge) >= 0 {
				t.Fatalf("%q was taken: written %d, expires %d; %+v was wanted", k.ID, d.Modified, d.Expires, w)
			}
			got = append(got, entry{k.Clone(), item.Version{Seq: d.Seq, Modified: d.Modified, Body: bytes.Clone(body)}})
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
		t.Fatalf("%d shown, want %d", len(got), len(want))
	}
	return together
}

// TestReleased: what searches made of a file goes with the last reference, also while the caller has the Reader.
func TestReleased(t *testing.T) {
	fsys, rng := vfs.NewMem(), randtest.New(t)
	m := plainly(rng, maker{rng: rng, levels: 1, partitions: 2, ids: 200, versions: 1, body: noise(1000)})
	write(t, fsys, "a", m, WriterOptions{Compression: None})
	r, err := Open(fsys, "a", ReaderOptions{Mode: Map, EPK: hashEPK})
	if err != nil {
		t.Fatal(err)
	}
	kept := func() []bool { return []bool{r.firsts.Load() != nil, r.ix.loaded.Load() != nil} }
	var c Cursor
	c.Reset(r, math.MaxUint64)
	for i := range m {
		k := m[i].key
		k.ID = append(slices.Clone(k.ID), 0) // which the locator does not know
		c.SeekGE(&k)
	}
	c.Reset(nil, 0)
	if slices.Contains(kept(), false) {
		t.Fatalf("searches made nothing: %v", kept())
	}
	r.Release()
	if slices.Contains(kept(), true) {
		t.Errorf("a released reader keeps what searches made: %v", kept())
	}
}

// TestTakeBehind: documents that are stored as they are, one a group, are taken together up to the end of their logical
// partition, with or without copies; those before damage are given.
func TestTakeBehind(t *testing.T) {
	const partitions, ids = 3, 40
	fsys := vfs.NewMem()
	var m model
	for p := range partitions {
		for i := range ids {
			k := newKey(encodeKey(string(rune('a'+p))), fmt.Sprintf("id-%05d", i))
			m = append(m, entry{k, item.Version{Seq: uint64(len(m) + 1), Modified: 1, Body: bytes.Repeat([]byte{byte(i)}, 600+10*i)}})
		}
	}
	m.sort()
	write(t, fsys, "a", m, WriterOptions{Compression: None})
	take := func(r *Reader, inPlace bool, w Wanted) (sizes []int, err error) {
		t.Helper()
		c := r.Cursor(math.MaxUint64)
		if w.InPlace = inPlace; inPlace {
			c.InPlace()
		}
		for ok := c.First(); ok; ok = c.Next() {
			_, taken := c.Take(&w, nil, nil)
			if sizes = append(sizes, len(taken)); w.Edge != nil {
				return sizes, c.Err()
			}
		}
		return sizes, c.Err()
	}
	r := open(t, fsys, "a", Map)
	verify := r.Cursor(math.MaxUint64)
	verify.InPlace()
	for ok := verify.First(); ok; ok = verify.Next() {
	}
	for _, inPlace := range []bool{false, true} {
		for want, w := range map[string]Wanted{
			"[40 40 40]":          {Most: 1000, Bytes: 1 << 20},
			"[25 15 25 15 25 15]": {Most: 25, Bytes: 1 << 20},
			"[7]":                 {Most: 1000, Bytes: 1 << 20, Edge: []byte("id-00007")},
			"[1]":                 {Most: 1000, Bytes: 1 << 20, Edge: []byte("id-00001")},
			"[0]":                 {Most: 1000, Bytes: 1 << 20, Edge: []byte("id-00000")},
			"[40]":                {Most: 1000, Bytes: 1 << 20, Edge: []byte("z")},
		} {
			sizes, err := take(r, inPlace, w)
			if got := fmt.Sprint(sizes); got != want || err != nil {
				t.Errorf("in place %t, up to %d, %q: %s taken, want %s; %v", inPlace, w.Most, w.Edge, got, want, err)
			}
		}
	}
	c := r.Cursor(math.MaxUint64)
	if !c.SeekGE(&m[ids+5].key) {
		t.Fatal(c.Err())
	}
	b := content(t, fsys, "a")
	b[c.open.off+100] ^= 1
	replace(t, fsys, "a", b)
	for _, inPlace := range []bool{false, true} {
		sizes, err := take(open(t, fsys, "a", Map), inPlace, Wanted{Most: 1000, Bytes: 1 << 20})
		want := []int{40, 5}
		if inPlace {
			want = slices.Repeat([]int{1}, 45) // each is verified before it is shown
		}
		var corrupt *fault.CorruptionError
		if !slices.Equal(sizes, want) || !errors.As(err, &corrupt) || corrupt.Offset != c.open.off {
			t.Errorf("in place %t, damage at %d, in document 5 of the second logical partition: %v taken, %v", inPlace, c.open.off, sizes, err)
		}
	}
}
