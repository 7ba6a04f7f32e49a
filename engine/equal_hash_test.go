package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// forgeKey returns a string whose partition key has a chosen EPK of one level.
// MurmurHash3 can be computed backwards: after any first 16 bytes there is one
// block of 16 that leads to a given hash. First blocks are drawn until that one
// is valid UTF-8.
func forgeKey(rng *rand.Rand, head, tail uint64) string {
	const (
		c1, c2     = 0x87c37b91114253d5, 0x4cf5ad432745937f
		length     = 1 + 31 + 1 // marker, text, end
		endOfText  = 0xFF
		textMarker = 0x08
	)
	scramble1 := func(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
	scramble2 := func(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }
	h1, h2 := tail, head
	h2 -= h1
	h1 -= h2
	h1, h2 = unfinish(h1), unfinish(h2)
	h2 -= h1
	h1 -= h2
	h1, h2 = h1^length^scramble1(endOfText), h2^length
	// The block before: what it leads from is the state after the first one.
	from1, from2 := (h1-0x52dce729)*inverse(5), (h2-0x38495ab5)*inverse(5)-h1
	var text [32]byte
	text[0] = textMarker
	for {
		for i := 1; i < 16; i++ {
			text[i] = byte('a' + rng.IntN(26))
		}
		a1 := bits.RotateLeft64(scramble1(binary.LittleEndian.Uint64(text[:])), 27)*5 + 0x52dce729
		a2 := (bits.RotateLeft64(scramble2(binary.LittleEndian.Uint64(text[8:])), 31)+a1)*5 + 0x38495ab5
		s1, s2 := a1^bits.RotateLeft64(from1-a2, -27), a2^bits.RotateLeft64(from2, -31)
		binary.LittleEndian.PutUint64(text[16:], bits.RotateLeft64(s1*inverse(c2), -31)*inverse(c1))
		binary.LittleEndian.PutUint64(text[24:], bits.RotateLeft64(s2*inverse(c1), -33)*inverse(c2))
		if utf8.Valid(text[16:]) {
			return string(text[1:])
		}
	}
}

// inverse returns the multiplicative inverse of an odd number modulo 2^64.
func inverse(n uint64) uint64 {
	x := n
	for range 6 { // each step doubles the bits that are right, of 3 at first
		x *= 2 - n*x
	}
	return x
}

// unfinish undoes the last mixing step of the hash.
func unfinish(h uint64) uint64 {
	h ^= h >> 33
	h *= inverse(0xc4ceb9fe1a85ec53)
	h ^= h >> 33
	h *= inverse(0xff51afd7ed558ccd)
	return h ^ h>>33
}

// putKey writes an item of the logical partition of a string.
func (s *splitStore) putKey(k, id, text string) {
	s.t.Helper()
	quoted, err := json.Marshal(k)
	must(s.t, err)
	s.upsert(StringKey(k), `,"k":`+string(quoted), id, text)
}

// checkItems is check but for the logical partitions: tables do not tell those
// apart that agree in the head of their hash.
func (s *splitStore) checkItems() {
	s.t.Helper()
	n := 0
	for it, err := range s.c.ScanAll(context.Background(), nil) {
		must(s.t, err)
		n++
		if want := s.docs[itemID{"c", it.Key, it.ID}]; want != string(it.Body) {
			s.t.Fatalf("scan: %v/%s is %s, want %s", it.Key, it.ID, it.Body, want)
		}
	}
	if n != len(s.docs) {
		s.t.Fatalf("%d items, want %d", n, len(s.docs))
	}
	ofKey := make(map[PartitionKey]int)
	for id, want := range s.docs {
		ofKey[id.key]++
		it, err := s.c.Read(context.Background(), id.key, id.id)
		if err != nil || string(it.Body) != want {
			s.t.Fatalf("read %v/%s: %s, %v; want %s", id.key, id.id, it.Body, err, want)
		}
	}
	for key, want := range ofKey {
		for _, reverse := range []bool{false, true} {
			n := 0
			for it, err := range s.c.Scan(context.Background(), key, IDRange{}, &ScanOptions{Reverse: reverse}) {
				must(s.t, err)
				if it.Key != key {
					s.t.Fatalf("scan of %v gives %v", key, it.Key)
				}
				n++
			}
			if n != want {
				s.t.Fatalf("scan of %v, reverse %v: %d items, want %d", key, reverse, n, want)
			}
		}
	}
	s.verify()
}

// TestSplitEqualHashes has logical partitions with one hash: no cut divides
// them, and they are told apart everywhere.
func TestSplitEqualHashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	const head, tail = 0x1234_5678_9ABC_DEF0, 0x0F1E_2D3C_4B5A_6978
	keys := []string{forgeKey(rng, head, tail), forgeKey(rng, head, tail), forgeKey(rng, head, tail)}
	for _, k := range keys {
		if epk := StringKey(k).EPK(); epk.String() != fmt.Sprintf("%016X%016X", uint64(head), uint64(tail)) {
			t.Fatalf("EPK %s", epk.String())
		}
	}
	s := newSplitStore(t, byK, nil)
	ctx := context.Background()
	refused := func() {
		t.Helper()
		job, err := s.c.Split(ctx, s.ids()[0], nil)
		must(s.t, err)
		err = job.Wait(ctx)
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Reason != RefusedOneLogicalPartition {
			t.Fatalf("%v, want a refusal", err)
		}
	}
	for i := range 90 {
		s.putKey(keys[i%3], fmt.Sprint(i/3), "in memory")
	}
	refused()
	must(s.t, s.db.Flush(ctx))
	refused()
	for i := range 60 {
		s.putKey(keys[i%3], fmt.Sprint(i/2), "in memory and a file")
	}
	refused()
	s.checkItems()
	// With others beside them a cut goes around them.
	for i := range 200 {
		s.put(i%50, fmt.Sprint(i), "another logical partition")
	}
	must(s.t, s.db.Flush(ctx))
	s.split(0, nil)
	s.split(1, nil)
	s.split(0, nil)
	s.checkItems()
	for _, k := range keys {
		if partitionOf(s.c, StringKey(k)) != partitionOf(s.c, StringKey(keys[0])) {
			t.Error("equal hashes in different partitions")
		}
	}
	s.split(0, &SplitOptions{At: "04"})
	for i := range s.ids() { // cut right before them, and right behind
		p := s.db.partitions()[i]
		if p.ID != partitionOf(s.c, StringKey(keys[0])) {
			continue
		}
		s.split(i, &SplitOptions{At: fmt.Sprintf("%016X%016X", uint64(head), uint64(tail))})
		s.split(i+1, &SplitOptions{At: fmt.Sprintf("%016X%016X", uint64(head), uint64(tail)+1)})
		if n := s.c.Partitions()[i+1].Items; n > int64(len(s.docs)) || n == 0 {
			t.Errorf("%d items in the partition of one hash", n)
		}
		break
	}
	s.checkItems()
	s.reopen(s.mem.Kill())
	s.checkItems()
	must(s.t, s.db.Compact(ctx))
	s.checkItems()
	for len(s.ids()) > 1 {
		s.merge(0)
	}
	s.checkItems()
	must(s.t, s.db.Compact(ctx))
	s.checkItems()
}

// TestCutInsideHead cuts between logical partitions whose hashes differ in the
// last 8 bytes only, of which the tables of files know nothing.
func TestCutInsideHead(t *testing.T) {
	seed := newSeed(t)
	for _, manyHeads := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(seed, 1))
		const head = 0x2222_3333_4444_5555
		s := newSplitStore(t, byK, func(o *Options) { o.keepInheritance = manyHeads })
		var keys []string
		for tail := range uint64(8) {
			keys = append(keys, forgeKey(rng, head, tail<<60|7))
		}
		at := func(tail uint64) string { return fmt.Sprintf("%016X%016X", uint64(head), tail<<60) }
		put := func(text string) {
			for i := range 160 {
				s.putKey(keys[i%8], fmt.Sprint(i), text)
				if manyHeads {
					s.put(i%20, fmt.Sprint(i), text)
				}
			}
		}
		put("old")
		must(s.t, s.db.Flush(context.Background()))
		put("new")
		s.split(0, &SplitOptions{At: at(4)})
		s.checkItems()
		s.split(1, &SplitOptions{At: at(6)})
		s.split(0, &SplitOptions{At: at(1)})
		s.checkItems()
		inHead := 0
		for _, p := range s.db.partitions() {
			for _, k := range keys {
				if epk := StringKey(k).EPK(); p.Range.Contains(&epk) {
					inHead++
				}
			}
		}
		if inHead != len(keys) {
			t.Errorf("%d keys in partitions, not %d", inHead, len(keys))
		}
		put("newest")
		s.reopen(s.mem.Kill())
		s.checkItems()
		s.move(1, at(3)) // it was at 4
		s.checkItems()
		must(s.t, s.db.Flush(context.Background()))
		for i := range s.ids() { // a partition inside a head finds a cut, or is refused
			job, err := s.c.Split(context.Background(), s.ids()[i], nil)
			must(s.t, err)
			if err := job.Wait(context.Background()); err != nil && !errors.Is(err, ErrRefused) {
				t.Fatal(err)
			}
			s.checkItems()
		}
		must(s.t, s.db.Compact(context.Background()))
		s.checkItems()
		for _, k := range keys[:5] {
			key := StringKey(k)
			for id := range s.docs {
				if id.key == key {
					must(s.t, s.c.Delete(context.Background(), key, id.id, nil))
					delete(s.docs, id)
				}
			}
		}
		s.merge(0)
		must(s.t, s.db.Compact(context.Background()))
		s.checkItems()
		s.reopen(s.mem.Crash(vfs.CrashOptions{}))
		s.checkItems()
		var last partmap.EPK
		for _, p := range s.db.partitions() {
			if p.Range.Min.Compare(&last) != 0 {
				t.Errorf("partition %d begins at %s, the one before ends at %s", p.ID, p.Range.Min.String(), last.String())
			}
			last = p.Range.Max
		}
	}
}
