package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cleavestore/cleave/internal/deletion"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/forge"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/scancache"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Forged files have right checksums and wrong bytes below them. What is read of
// one is wrong or an error, but nothing panics, nothing goes on for ever, and
// nothing takes memory out of proportion to the file.

// forgedModel is content with groups of one and of many members, shared keys and
// ids, chains of versions, tombstones and partitions that agree in their prefix.
func forgedModel(rng *rand.Rand) model {
	m := maker{rng: rng, levels: 1, partitions: 5, ids: 30, versions: 3, body: document}.make()
	m = append(m, maker{rng: rng, levels: 1, partitions: 6, ids: 2, versions: 2, prefix: "=", body: document}.make()...)
	k := newKey(encodeKey("large"), "large")
	m = append(m, entry{k, item.Version{Seq: 1, Body: noise(700)(rng, nil, nil)}})
	for i := range 3 {
		m = append(m, entry{newKey(encodeKey("same"), fmt.Sprint("id", i)), item.Version{Seq: 9, Body: document(rng, encodeKey("same"), fmt.Append(nil, "id", i))}})
	}
	m.sort()
	return m
}

// forgedFile returns the bytes of a file with all sections but the index, of which
// the bytes have no meaning here.
func forgedFile(t testing.TB, m model, dict *Dictionary) []byte {
	t.Helper()
	fsys := vfs.NewMem()
	f, err := fsys.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{Dictionary: dict, FileNumber: 42, StoreID: testStore, EPK: hashEPK, Levels: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.SetDeletionVectors([]deletion.FileVector{{File: 7, Vector: deletion.Vector{Ordinals: []uint32{0, 1, 200}, Seqs: []uint64{9, 9, 8}}}})
	fill(t, w, m)
	return content(t, fsys, "a")
}

// forgedLimit is what reading a forged file of a few KB may allocate in all.
const forgedLimit = 64 << 20

// readForged reads all of a forged file in all ways. keys are those of the file
// that it was made of.
func readForged(t testing.TB, b []byte, m model) {
	t.Helper()
	readForgedBy(t, b, m, nil)
	readForgedBy(t, b, m, scancache.New(1<<20))
}

func readForgedBy(t testing.TB, b []byte, m model, hot *scancache.Cache) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fsys := vfs.NewMem()
	if err := fsys.WriteFile("a", b); err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrTooNew) {
			t.Fatal(err)
		}
	}
	r, err := Open(fsys, "a", ReaderOptions{Mode: Pread, EPK: hashEPK, MaxRaw: 64 << 10, ScanCache: hot, Warm: true})
	if err != nil {
		check(err)
		return
	}
	defer r.Release()
	p := r.Properties()
	// No movement shows more than there are bytes in the file.
	bound := len(b)
	step := func(n *int) {
		t.Helper()
		if *n++; *n > bound {
			t.Fatalf("more than %d steps", bound)
		}
	}
	if p.Items > uint64(len(b)) || p.Groups > uint64(len(b)) {
		t.Fatalf("%d versions in %d groups of a file of %d bytes", p.Items, p.Groups, len(b))
	}
	n := 0
	w := r.Walk()
	for w.Next() {
		step(&n)
	}
	check(w.Err())
	n = 0
	pw := r.WalkPartitions()
	for pw.Next() {
		step(&n)
		_, err := pw.AppendKey(nil)
		check(err)
	}
	check(pw.Err())
	_, _, err = r.DeletionVectors()
	check(err)
	check(r.Sequences(0, uint32(p.Items), 0, func(ordinal uint32, _ uint64) {
		if uint64(ordinal) >= p.Items {
			t.Fatalf("ordinal %d of %d", ordinal, p.Items)
		}
	}))
	n = 0
	check(r.Verify(t.Context(), func(Finding) { step(&n) }))
	for _, maxSeq := range []uint64{math.MaxUint64, 1500} {
		c := r.Cursor(maxSeq)
		n = 0
		for ok := c.First(); ok; ok = c.Next() {
			step(&n)
			_, err := c.Ordinal()
			check(err)
		}
		check(c.Err())
		n = 0
		c.KeysFirst(true)
		for ok := c.First(); ok && c.Complete(); ok = c.Next() {
			step(&n)
		}
		check(c.Err())
		n = 0
		var text []byte
		var taken []Taken
		for ok := c.First(); ok; ok = c.Next() {
			text, taken = c.Take(&Wanted{Most: 100, Bytes: 4 << 10}, text[:0], taken[:0])
			for i := range taken {
				step(&n)
				taken[i].Body.Of(text)
			}
			if last := len(taken) - 1; last >= 0 && !bytes.Equal(c.Key().ID, taken[last].ID.Of(text)) {
				t.Fatal("Take does not move to the last that it gives")
			}
			step(&n)
		}
		check(c.Err())
		c.KeysFirst(false)
		n = 0
		for ok := c.Last(); ok; ok = c.Prev() {
			step(&n)
		}
		check(c.Err())
		for i := 0; i < len(m); i += 1 + len(m)/12 {
			k := &m[i].key
			if c.SeekGE(k) && item.Compare(c.Key(), k) < 0 {
				t.Fatal("SeekGE goes before its key")
			}
			check(c.Err())
			if c.SeekLT(k) && item.Compare(c.Key(), k) >= 0 {
				t.Fatal("SeekLT does not go before its key")
			}
			check(c.Err())
			c.Next()
			// After an error too the cursor can be used.
			if c.SeekOrdinal(uint32(i)) {
				c.Next()
			}
			c.SeekOrdinal(uint32(i + 1))
			check(c.Err())
			first := *k
			first.ID = nil
			if c.SeekLT(&first) && item.Compare(c.Key(), &first) >= 0 {
				t.Fatal("SeekLT does not leave the partition")
			}
			check(c.Err())
			var v item.Version
			_, _, err := r.Get(k.Lookup(), maxSeq, nil, &v)
			check(err)
			ordinal, versions, err := r.Lookup(k.Lookup())
			check(err)
			if uint64(ordinal)+uint64(versions) > p.Items {
				t.Fatalf("ordinals %d+%d of %d", ordinal, versions, p.Items)
			}
			_, _, _, err = r.PartitionStats(k)
			check(err)
			lo, hi, _, err := r.PartitionOrdinals(k)
			check(err)
			if err == nil && (lo > hi || uint64(hi) > p.Items) {
				t.Fatalf("ordinals from %d to %d of %d", lo, hi, p.Items)
			}
			_, err = r.Span(k.EPK, m[len(m)-1].key.EPK)
			check(err)
			from := r.WalkKeysFrom(k.EPK)
			for steps := 0; from.Next(); {
				step(&steps)
			}
			check(from.Err())
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > forgedLimit {
		t.Fatalf("%d bytes for a file of %d", took, len(b))
	}
}

// TestForged changes the bytes of small files one by one, in several ways, makes
// the checksums right and reads.
func TestForged(t *testing.T) {
	for name, dict := range map[string]*Dictionary{"plain": nil, "dictionary": testDictionary(t)} {
		t.Run(name, func(t *testing.T) {
			rng := randtest.New(t)
			m := forgedModel(rng)
			good := forgedFile(t, m, dict)
			readForged(t, good, m)
			mended := append([]byte(nil), good...)
			if forge.MendSegment(mended); string(mended) != string(good) {
				t.Fatal("a file that was not forged is mended")
			}
			places := []int{}
			for i := range good {
				places = append(places, i)
			}
			if dict != nil {
				// Of the bytes of dictionaries any is like any other.
				s := forge.Sections(good)[0]
				places = append(places[:s.Off+16:s.Off+16], places[s.Off+s.Len:]...)
			}
			// All of them take minutes; FuzzForged goes on.
			for range randtest.Lone(len(places) / 32) {
				i := rng.IntN(len(places))
				b := append([]byte(nil), good...)
				forge.Change(b, places[i], byte(rng.Uint32()), rng.Uint64())
				forge.MendSegment(b)
				readForged(t, b, m)
			}
		})
	}
}

// FuzzForged changes bytes of a small file where the input says, makes the
// checksums right and reads.
func FuzzForged(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := forgedModel(rng)
	good := forgedFile(f, m, nil)
	f.Add([]byte{0, 100, 1, 1, 0, 2})
	f.Fuzz(func(t *testing.T, changes []byte) {
		b := append([]byte(nil), good...)
		seed := uint64(len(changes))
		for ; len(changes) >= 3; changes = changes[3:] {
			at := int(changes[0])<<8 | int(changes[1])
			seed = seed*31 + uint64(changes[2])
			forge.Change(b, at%len(b), changes[2], seed*0x9e3779b97f4a7c15)
		}
		forge.MendSegment(b)
		readForged(t, b, m)
	})
}

// TestForgedCounts: what a file says that it holds is bounded by its bytes.
func TestForgedCounts(t *testing.T) {
	m := forgedModel(randtest.New(t))
	good := forgedFile(t, m, nil)
	for _, s := range forge.Sections(good) {
		if SectionKind(s.Kind) != SectionProperties {
			continue
		}
		for _, items := range []uint64{math.MaxUint32, uint64(len(good)) / 2} {
			b := append([]byte(nil), good...)
			binary.LittleEndian.PutUint64(b[s.Off:], items)
			forge.MendSegment(b)
			fsys := vfs.NewMem()
			if err := fsys.WriteFile("a", b); err != nil {
				t.Fatal(err)
			}
			if r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK}); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%d versions in a file of %d bytes: %v", items, len(b), err)
				if err == nil {
					r.Release()
				}
			}
		}
	}
}

// TestSharedIDBehindPart: an id at the same place as that of the member before,
// which lies behind the end of its own part.
func TestSharedIDBehindPart(t *testing.T) {
	members := []byte{
		0, 40, 30, 0, 0, 0, 0, // an empty id at 30 of a body of 40, an empty key
		memberSameID | memberSamePK, 5,
	}
	g := group{count: 2, members: members}
	var first, m member
	pos, err := g.next(&first, nil, 0, maxPart)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = g.next(&m, &first, pos, maxPart); err == nil {
		m.id(make([]byte, 45)) // panics
		t.Error("accepted")
	}
}
