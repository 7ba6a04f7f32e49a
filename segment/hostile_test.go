package segment

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// hostileWriter returns the writer of a file "a" with keys that are placed by epk.
func hostileWriter(t testing.TB, mem *vfs.Mem, epk func(dst, pk []byte) []byte) *Writer {
	t.Helper()
	f, err := mem.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{FileNumber: 1, StoreID: testStore, EPK: epk, Levels: 1})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// hostileFile writes items with these ids in a logical partition.
func hostileFile(t testing.TB, ids [][]byte) (*Reader, model) {
	t.Helper()
	fsys := vfs.NewMem()
	w := hostileWriter(t, fsys, hashEPK)
	var m model
	pk := encodeKey("partition")
	for i, id := range ids {
		m = append(m, entry{newKey(pk, string(id)), item.Version{Seq: uint64(i + 1), Body: bytes.Repeat([]byte{byte(i)}, 300)}})
	}
	m.sort()
	fill(t, w, m)
	return open(t, fsys, "a", Pread), m
}

// groupsOpened returns how many buckets are looked at and groups opened to get
// each item once.
func groupsOpened(t *testing.T, ids [][]byte) (opened int) {
	r, m := hostileFile(t, ids)
	var s scratch
	for i := range m {
		k := &m[i].key
		ix, err := r.index()
		if err != nil {
			t.Fatal(err)
		}
		p := probe{r: r, chunk: ix.chunks.find(k), hash: r.seed.Hash(k)}
		for {
			off, err := p.next(&s)
			if err != nil || off == 0 {
				t.Fatalf("%x is not found: %v", k.ID, err)
			}
			opened++
			if err := r.openKeys(&s, off); err != nil {
				t.Fatal(err)
			}
			if s.open.find(0, k, p.hash) >= 0 {
				break
			}
		}
		opened += int(p.chunk.count - 1 - p.left)
		var v item.Version
		if ok, _, err := r.Get(k.Lookup(), math.MaxUint64, nil, &v); !ok || err != nil {
			t.Fatalf("get of %x: %v", k.ID, err)
		}
	}
	return opened
}

// TestHostileIDs: ids that somebody has chosen cost no more than twice as much as
// random ones.
func TestHostileIDs(t *testing.T) {
	const n = 3000
	rng := randtest.New(t)
	random := make([][]byte, n)
	for i := range random {
		random[i] = make([]byte, 16)
		for j := range random[i] {
			random[i][j] = byte(rng.Uint32())
		}
	}
	usual := groupsOpened(t, random)
	if hostile := groupsOpened(t, randtest.HostileIDs(newKey(encodeKey("partition"), "").EPK, n)); hostile > 2*usual {
		t.Errorf("%d groups and buckets for hostile ids, %d for random ones", hostile, usual)
	}
}

// TestManyPartitionsOfOneHash: logical partitions that the table of partitions
// cannot tell apart, which anybody can make, cost a search, not a walk.
func TestManyPartitionsOfOneHash(t *testing.T) {
	const n = 2000
	epk := func(dst, pk []byte) []byte { return append(dst, "0123456789abcdef"...) }
	fsys := vfs.NewMem()
	w := hostileWriter(t, fsys, epk)
	var m model
	for i := range n {
		k := item.Key{EPK: epk(nil, nil), PK: encodeKey(fmt.Sprint("partition ", i)), ID: []byte("id")}
		k.Hash = item.HashOf(k.EPK)
		m = append(m, entry{k, item.Version{Seq: uint64(i + 1), Body: bytes.Repeat([]byte{byte(i)}, i%50)}})
	}
	m.sort()
	fill(t, w, m)
	r, err := Open(fsys, "a", ReaderOptions{Mode: Pread, EPK: epk})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var s scratch
	ix, err := r.index()
	if err != nil {
		t.Fatal(err)
	}
	opened, hashes := 0, make(map[uint64]bool)
	for i := range m {
		k := &m[i].key
		if i%50 == 0 {
			items, raw, ok, err := r.PartitionStats(k)
			if items != 1 || raw != uint64(len(m[i].ver.Body)) || !ok || err != nil {
				t.Fatalf("%s: %d items of %d bytes, %v, %v", k.PK, items, raw, ok, err)
			}
		}
		hashes[r.seed.Hash(k)] = true
		for p := (probe{r: r, chunk: ix.chunks.find(k), hash: r.seed.Hash(k)}); ; {
			off, err := p.next(&s)
			if err != nil || off == 0 {
				t.Fatal(off, err)
			}
			opened++
			if err := r.openKeys(&s, off); err != nil {
				t.Fatal(err)
			}
			if s.open.find(0, k, p.hash) >= 0 {
				break
			}
		}
	}
	if len(hashes) != n || opened > 2*n {
		t.Errorf("%d hashes of %d keys, %d groups opened", len(hashes), n, opened)
	}
	none := m[0].key.Clone()
	none.PK = slices.Concat(none.PK[:len(none.PK)-1], []byte("x"), none.PK[len(none.PK)-1:])
	if _, _, ok, err := r.PartitionStats(&none); ok || err != nil {
		t.Error(ok, err)
	}
}

// BenchmarkHostileIDs gets ids that somebody has chosen.
func BenchmarkHostileIDs(b *testing.B) {
	r, m := hostileFile(b, randtest.HostileIDs(newKey(encodeKey("partition"), "").EPK, 3000))
	buf := make([]byte, 0, 1024)
	var v item.Version
	for i := 0; b.Loop(); i++ {
		k := &m[i%len(m)].key
		r.Get(k.Lookup(), math.MaxUint64, buf, &v)
	}
}

// TestTwinsSeek: of two logical partitions that the table cannot tell apart, a seek in the second does not walk through
// the first, also when the first keys of groups are remembered.
func TestTwinsSeek(t *testing.T) {
	epk := func(dst, pk []byte) []byte { return append(append(dst, "01234567"...), fmt.Sprintf("%08d", pk[1])...) }
	const n = 2000
	mem := vfs.NewMem()
	fsys := vfs.NewFaulty(mem)
	w := hostileWriter(t, mem, epk)
	keyOf := func(pk string, id int) item.Key {
		k := item.Key{PK: encodeKey(pk), ID: fmt.Appendf(nil, "id-%08d", id)}
		k.EPK = epk(nil, k.PK)
		k.Hash = item.HashOf(k.EPK)
		return k
	}
	var m model
	for i := range n + 100 {
		k := keyOf("a", i)
		if i >= n {
			k = keyOf("b", 2*(i-n))
		}
		m = append(m, entry{k, item.Version{Seq: uint64(i + 1), Body: bytes.Repeat([]byte{byte(i)}, 300)}})
	}
	fill(t, w, m)
	r, err := Open(fsys, "a", ReaderOptions{Mode: Pread, EPK: epk})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	c := r.Cursor(math.MaxUint64)
	for range 30 { // by then all first keys are remembered that a search comes to
		for _, id := range []int{-1, 1, 51, 199} {
			k, want := keyOf("b", id), keyOf("b", id+1)
			if id < 0 {
				k.ID = nil
			}
			calls := fsys.Calls()
			found := c.SeekGE(&k)
			if calls = fsys.Calls() - calls; calls > 100 {
				t.Fatalf("a seek for %s has read %d times", k.ID, calls)
			}
			if last := id == 199; found == last || found && item.Compare(c.Key(), &want) != 0 || c.Err() != nil {
				t.Fatalf("a seek for %s found %t, %s, %v", k.ID, found, c.Key().ID, c.Err())
			}
		}
	}
}
