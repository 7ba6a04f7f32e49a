package item

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

func key(hash uint64, pk, id string) Key {
	epk := binary.BigEndian.AppendUint64(nil, hash)
	epk = append(epk, make([]byte, 8)...)
	return Key{Hash: hash, EPK: epk, PK: []byte(pk), ID: []byte(id)}
}

// Compare must order keys as their concatenated bytes would be ordered when no
// part is a prefix of another.
func TestCompareOrder(t *testing.T) {
	f := func(name string, a, b Key, want int) {
		t.Helper()
		if got := Compare(&a, &b); got != want {
			t.Errorf("%s: Compare = %d, want %d", name, got, want)
		}
		if got := Compare(&b, &a); got != -want {
			t.Errorf("%s: reversed Compare = %d, want %d", name, got, -want)
		}
	}
	f("equal", key(1, "a", "x"), key(1, "a", "x"), 0)
	f("hash first", key(1, "z", "z"), key(2, "a", "a"), -1)
	f("key before id", key(1, "a", "z"), key(1, "b", "a"), -1)
	f("id last", key(1, "a", "x"), key(1, "a", "y"), -1)
	f("high hash is unsigned", key(1, "a", "x"), key(1<<63, "a", "x"), -1)

	low, high := key(7, "a", "x"), key(7, "a", "x")
	high.EPK[15] = 1
	f("tail of the EPK", low, high, -1)
}

func TestHashOfPadsWithZeros(t *testing.T) {
	if got := HashOf([]byte{0x12}); got != 0x12<<56 {
		t.Errorf("HashOf(12) = %x", got)
	}
	if got := HashOf([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}); got != 0x0102030405060708 {
		t.Errorf("HashOf of nine bytes = %x", got)
	}
	if got := HashOf(nil); got != 0 {
		t.Errorf("HashOf(nil) = %x", got)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	k := key(3, "pk", "id")
	c := k.Clone()
	for _, b := range [][]byte{k.EPK, k.PK, k.ID} {
		for i := range b {
			b[i] ^= 0xff
		}
	}
	want := key(3, "pk", "id")
	if Compare(&c, &want) != 0 {
		t.Errorf("clone changed with its original: %+v", c)
	}
	_ = append(c.EPK, 'x')
	if !bytes.Equal(c.PK, []byte("pk")) {
		t.Error("appending to one part of a clone overwrote the next")
	}
}

// The item hash is in the segment format: these values never change.
func TestItemHashIsFrozen(t *testing.T) {
	ids := []string{"", "a", "1234567", "12345678", "0123456789abcdef", "0123456789abcdefg", string(bytes.Repeat([]byte("x"), 100))}
	want := []uint64{0xd4a4a6c9d21dbc4b, 0x137b080021faa4d0, 0xb0cb93a0ec16f714, 0x4eca072d1c465ed8, 0x1b8fd2091e3d9dd, 0x5bd47d6c604a57b3, 0xb46df8ca3a059e1d}
	for i, id := range ids {
		k := key(0x0123456789abcdef, "pk", id)
		if got := k.ItemHash(); got != want[i] {
			t.Errorf("ItemHash(%d bytes of id) = %#x, want %#x", len(id), got, want[i])
		}
	}
}

func TestItemHashSpreads(t *testing.T) {
	const seed, n = 1, 1 << 16
	rng := rand.New(rand.NewPCG(seed, seed))
	hash := rng.Uint64()
	var buckets [256]int
	seen := make([]uint64, 0, n)
	for i := range n {
		k := key(hash, "pk", fmt.Sprintf("item-%08d", i))
		h := k.ItemHash()
		buckets[h>>56]++
		seen = append(seen, h)
	}
	slices.Sort(seen)
	if len(slices.Compact(seen)) != n {
		t.Errorf("seed %d: two of %d neighbouring ids have one hash", seed, n)
	}
	for b, count := range buckets {
		if count < n/256/2 || count > n/256*2 {
			t.Errorf("seed %d: bucket %d holds %d of %d", seed, b, count, n)
		}
	}
	// One flipped bit of the id changes about half of the hash.
	k := key(hash, "pk", "item-00000000")
	base, total := k.ItemHash(), 0
	for i := range 8 * len(k.ID) {
		k.ID[i/8] ^= 1 << (i % 8)
		total += bits.OnesCount64(base ^ k.ItemHash())
		k.ID[i/8] ^= 1 << (i % 8)
	}
	if mean := total / (8 * len(k.ID)); mean < 28 || mean > 36 {
		t.Errorf("a flipped bit changes %d bits of the hash in the mean", mean)
	}
}

func BenchmarkItemHash(b *testing.B) {
	k := key(0x0123456789abcdef, "pk", "item-00000000-0000")
	b.ReportAllocs()
	var sum uint64
	for b.Loop() {
		sum += k.ItemHash()
	}
	_ = sum
}
