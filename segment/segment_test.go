package segment

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// contents are kinds of random content.
func contents(rng *rand.Rand) map[string]model {
	large := func(rng *rand.Rand, pk, id []byte) []byte {
		if rng.IntN(3) > 0 {
			return document(rng, pk, id)
		}
		return noise(200<<10)(rng, pk, id)
	}
	levels := 1 + rng.IntN(3)
	return map[string]model{
		"documents":         maker{rng: rng, levels: levels, partitions: 20, ids: 40, versions: 4, body: document}.make(),
		"one version":       maker{rng: rng, levels: 1, partitions: 300, ids: 3, versions: 1, body: document}.make(),
		"many versions":     maker{rng: rng, levels: levels, partitions: 3, ids: 5, versions: 100, body: document}.make(),
		"one partition":     maker{rng: rng, levels: levels, partitions: 1, ids: 500, versions: 2, body: document}.make(),
		"noise":             maker{rng: rng, levels: levels, partitions: 5, ids: 40, versions: 2, body: noise(2000)}.make(),
		"large":             maker{rng: rng, levels: 1, partitions: 3, ids: 20, versions: 2, body: large}.make(),
		"small":             maker{rng: rng, levels: levels, partitions: 30, ids: 60, versions: 2, body: noise(12)}.make(),
		"one item":          maker{rng: rng, levels: levels, partitions: 1, ids: 1, versions: 1, body: document}.make(),
		"short ids, no key": shortKeys(rng),
		"equal hashes":      maker{rng: rng, levels: levels, partitions: 40, ids: 20, versions: 2, prefix: "=", body: document}.make(),
	}
}

// shortKeys has items with an empty id and keys of odd encodings.
func shortKeys(rng *rand.Rand) model {
	var m model
	for p, pk := range [][]byte{{}, {1}, {0, 0xEE}, encodeKey(""), {markerString, 'a'}, encodeKey("a", "b", "c", "d")} {
		for i, id := range []string{"", "\x00", "a", "aa", "ab", string(make([]byte, item.MaxID))} {
			k := newKey(pk, id)
			m = append(m, entry{k, item.Version{Seq: uint64(10*p + i + 1), Modified: -int64(i), Expires: int64(p), Body: noise(300)(rng, nil, nil)}})
		}
	}
	m.sort()
	return m
}

func TestRoundTrip(t *testing.T) {
	rng := randtest.New(t)
	for name, m := range contents(rng) {
		compressions := []Compression{Fast, Small, None}
		if raceEnabled {
			compressions = compressions[rng.IntN(3):][:1]
		}
		for _, compression := range compressions {
			dict := testDictionary(t)
			if rng.IntN(2) == 0 {
				dict = nil
			}
			mode := Mode(rng.IntN(2))
			t.Run(fmt.Sprintf("%s/%v/dictionary=%t/mode=%d", name, compression, dict != nil, mode), func(t *testing.T) {
				fsys := vfs.NewMem()
				p := write(t, fsys, "a", m, WriterOptions{Compression: compression, Dictionary: dict})
				r := open(t, fsys, "a", mode)
				if r.FooterCRC() != p.FooterCRC || r.Size() != p.FileBytes || r.Properties().Items != uint64(len(m)) {
					t.Errorf("properties %+v, writer's %+v", r.Properties(), p)
				}
				checkWalk(t, r, m)
				checkGets(t, r, m, rng)
				checkStats(t, r, m)
				for range 4 {
					checkCursor(t, r, m, rng)
				}
				checkVerify(t, r)
			})
		}
	}
}

func checkGets(t *testing.T, r *Reader, m model, rng *rand.Rand) {
	t.Helper()
	for i := range m {
		k := &m[i].key
		checkGet(t, r, m, k, math.MaxUint64)
		checkGet(t, r, m, k, m[i].ver.Seq)
		checkGet(t, r, m, k, m[i].ver.Seq-1)
		miss := m.someKey(rng)
		checkGet(t, r, m, &miss, math.MaxUint64)
	}
}

// someKey returns a key that is in the model, or near one that is.
func (m model) someKey(rng *rand.Rand) item.Key {
	k := m[rng.IntN(len(m))].key.Clone()
	switch rng.IntN(8) {
	case 0:
		k.ID = append(k.ID, 0)
	case 1:
		k.ID = k.ID[:len(k.ID)/2]
	case 2:
		k.ID = nil
	case 3:
		k.ID = make([]byte, item.MaxID+1)
		for i := range k.ID {
			k.ID[i] = 0xFF
		}
	case 4:
		k.EPK[rng.IntN(len(k.EPK))] ^= 1 << rng.IntN(8)
		k.Hash = item.HashOf(k.EPK)
		k.PK = append(k.PK[:0], "other"...)
	case 5:
		k.EPK[rng.IntN(8)] = byte(rng.Uint32())
		k.Hash = item.HashOf(k.EPK)
		k.PK = append(k.PK[:0], "other"...)
	}
	return k
}

// checkStats compares what the file says of its logical partitions.
func checkStats(t *testing.T, r *Reader, m model) {
	t.Helper()
	w := r.WalkPartitions()
	for i := 0; i < len(m); {
		k := &m[i].key
		var items, raw uint64
		for ; i < len(m) && item.ComparePartition(&m[i].key, k) == 0; i++ {
			items++
			raw += uint64(len(m[i].ver.Body))
		}
		gotItems, gotRaw, ok, err := r.PartitionStats(k)
		if gotItems != items || gotRaw != raw || !ok || err != nil {
			t.Fatalf("partition %x: %d items, %d bytes, %t, %v, want %d, %d", k.PK, gotItems, gotRaw, ok, err, items, raw)
		}
		if !w.Next() || w.Items() != items || w.RawBytes() != raw || !bytes.Equal(w.EPK(), k.EPK[:len(k.EPK)-8]) {
			t.Fatalf("partition %x: the walk is at another one: %v", k.PK, w.Err())
		}
		if pk, err := w.AppendKey([]byte("x")); err != nil || string(pk[1:]) != string(k.PK) {
			t.Fatalf("partition %x: key %x, %v", k.PK, pk, err)
		}
		absent := *k
		absent.PK = append([]byte("no such key"), k.PK...)
		if _, _, ok, err := r.PartitionStats(&absent); ok || err != nil {
			t.Fatalf("partition %x: %t, %v", absent.PK, ok, err)
		}
	}
	if w.Next() || w.Err() != nil {
		t.Fatalf("the walk goes on behind the last partition: %v", w.Err())
	}
}

// cursors go from file to file.
var cursors = sync.Pool{New: func() any { return new(Cursor) }}

// checkCursor moves a cursor at random and compares it with the model.
func checkCursor(t *testing.T, r *Reader, m model, rng *rand.Rand) {
	t.Helper()
	maxSeq := uint64(math.MaxUint64)
	switch rng.IntN(4) {
	case 0:
		maxSeq = m[rng.IntN(len(m))].ver.Seq
	case 1:
		maxSeq = rng.Uint64N(r.Properties().MaxSeq + 2)
	}
	want := m.visible(maxSeq)
	c := cursors.Get().(*Cursor)
	defer cursors.Put(c)
	c.Reset(r, maxSeq)
	at := -1 // where the cursor must be
	check := func(op string, ok bool, to int) {
		t.Helper()
		at = to
		if valid := to >= 0 && to < len(want); ok != valid || c.Valid() != valid || c.Err() != nil {
			t.Fatalf("cursor at %d, %s: %t, valid %t, %v, want position %d of %d", maxSeq, op, ok, c.Valid(), c.Err(), to, len(want))
		} else if !valid {
			at = -1
			if c.Next() || c.Prev() || c.Valid() {
				t.Fatal("a cursor moved that had no position")
			}
			return
		}
		e := &want[to]
		if item.Compare(c.Key(), &e.key) != 0 || c.Key().Hash != e.key.Hash || c.Version().Seq != e.ver.Seq {
			t.Fatalf("cursor at %d, %s: %s, want %s", maxSeq, op, show(c.Key(), c.Version()), show(&e.key, &e.ver))
		}
		// The body may come later, or not at all.
		if rng.IntN(4) > 0 && (!c.Complete() || !sameVersion(c.Version(), &e.ver) || item.Compare(c.Key(), &e.key) != 0) {
			t.Fatalf("cursor at %d, %s: %v, %s, want %s", maxSeq, op, c.Err(), show(c.Key(), c.Version()), show(&e.key, &e.ver))
		}
		c.KeysFirst(rng.IntN(2) == 0)
	}
	check("First", c.First(), 0)
	for at >= 0 {
		check("Next", c.Next(), at+1)
	}
	check("Last", c.Last(), len(want)-1)
	for at >= 0 {
		check("Prev", c.Prev(), at-1)
	}
	for range 200 {
		switch n := rng.IntN(8); {
		case n == 0:
			k := m.someKey(rng)
			check(fmt.Sprintf("SeekGE %x/%q", k.PK, k.ID), c.SeekGE(&k), want.lowerBound(&k))
		case n == 1:
			k := m.someKey(rng)
			check(fmt.Sprintf("SeekLT %x/%q", k.PK, k.ID), c.SeekLT(&k), want.lowerBound(&k)-1)
		case n == 2 && rng.IntN(20) == 0:
			check("First", c.First(), 0)
		case n == 2 && rng.IntN(20) == 0:
			check("Last", c.Last(), len(want)-1)
		case at < 0:
		case n < 5:
			check("Next", c.Next(), at+1)
		default:
			check("Prev", c.Prev(), at-1)
		}
	}
}

// Files of several chunks, of one logical partition and of many.
func TestChunks(t *testing.T) {
	rng := randtest.New(t)
	for _, c := range []struct {
		name                string
		n, per, size, looks int
	}{
		{"one partition", 3 * chunkKeys, 3 * chunkKeys, 3, 1000},
		{"many partitions", 3 * chunkKeys, 100, 3, 1000},
		{"long groups", 50, 7, 1 << 20, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m model
			body := make([]byte, c.size)
			for i := range c.n {
				k := newKey(encodeKey(fmt.Sprintf("%d", i/c.per)), fmt.Sprintf("%07d", i))
				m = append(m, entry{k, item.Version{Seq: uint64(i + 1), Body: body}})
			}
			m.sort()
			fsys := vfs.NewMem()
			write(t, fsys, "a", m, WriterOptions{Compression: None})
			r := open(t, fsys, "a", Map)
			ix, err := r.index()
			if err != nil {
				t.Fatal(err)
			}
			if n := len(ix.chunks.chunks); n < 3 {
				t.Fatalf("%d chunks", n)
			}
			for range c.looks {
				k := m.someKey(rng)
				checkGet(t, r, m, &k, math.MaxUint64)
			}
			cur := r.Cursor(math.MaxUint64)
			for range c.looks {
				k := m.someKey(rng)
				at := m.lowerBound(&k)
				if ok := cur.SeekGE(&k); ok != (at < len(m)) || ok && item.Compare(cur.Key(), &m[at].key) != 0 {
					t.Fatalf("SeekGE %x/%q: %t, %v", k.PK, k.ID, ok, cur.Err())
				}
				if ok := cur.SeekLT(&k); ok != (at > 0) || ok && item.Compare(cur.Key(), &m[at-1].key) != 0 {
					t.Fatalf("SeekLT %x/%q: %t, %v", k.PK, k.ID, ok, cur.Err())
				}
			}
			checkVerify(t, r)
		})
	}
}

// Calls of several goroutines on one reader do not disturb each other.
func TestConcurrentReads(t *testing.T) {
	rng := randtest.New(t)
	m := maker{rng: rng, levels: 1, partitions: 20, ids: 40, versions: 2, body: document}.make()
	fsys := vfs.NewMem()
	write(t, fsys, "a", m, WriterOptions{Compression: Small, Dictionary: testDictionary(t)})
	for _, mode := range []Mode{Map, Pread} {
		r, err := Open(fsys, "a", ReaderOptions{Mode: mode, EPK: hashEPK, Cold: openfile.NewColdReads(1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("mode=%d", mode), func(t *testing.T) {
			for g := range 4 {
				r.Acquire()
				seed := rng.Uint64()
				t.Run(fmt.Sprint(g), func(t *testing.T) {
					t.Parallel()
					defer r.Release()
					rng := rand.New(rand.NewPCG(seed, 1))
					for range 2000 {
						k := m.someKey(rng)
						checkGet(t, r, m, &k, math.MaxUint64)
					}
					checkCursor(t, r, m, rng)
				})
			}
		})
		r.Release()
	}
}
