package item

import (
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestHostileIDs: ids that collide in the hash without a seed do not in that with
// one.
func TestHostileIDs(t *testing.T) {
	epk := []byte("0123456789abcdef")
	k := Key{Hash: HashOf(epk), EPK: epk, PK: []byte("key")}
	plain, seeded := make(map[uint64]bool), make(map[uint64]bool)
	seed := NewSeed()
	const n = 1000
	for _, k.ID = range randtest.HostileIDs(epk, n) {
		plain[k.ItemHash()] = true
		seeded[seed.Hash(&k)] = true
	}
	if len(plain) > 4 {
		t.Errorf("%d hashes without a seed of %d ids: they are not hostile", len(plain), n)
	}
	if len(seeded) != n {
		t.Errorf("%d hashes of %d ids", len(seeded), n)
	}
}

// TestSeedHash: the hash is part of the segment format, and depends on all of
// partition key and id, and on where one ends.
func TestSeedHash(t *testing.T) {
	seed := Seed{0x243f6a8885a308d3, 0x13198a2e03707344}
	seen := make(map[uint64]string)
	text := "the quick brown fox jumps over the lazy dog"
	for pk := range len(text) {
		for id := range len(text) {
			k := Key{PK: []byte(text[:pk]), ID: []byte(text[len(text)-id:])}
			h := seed.Hash(&k)
			what := string(k.PK) + "|" + string(k.ID)
			if other, ok := seen[h]; ok {
				t.Fatalf("%q and %q have one hash", what, other)
			}
			seen[h] = what
		}
	}
	k := Key{PK: []byte("\x08tenant\xff"), ID: []byte("0a1b2c3d-4e5f")}
	if got, want := seed.Hash(&k), uint64(0x1322272c0e5067af); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}

func BenchmarkHash(b *testing.B) {
	epk := []byte("0123456789abcdef")
	k := Key{Hash: HashOf(epk), EPK: epk, PK: []byte("\x08tenant-0001\xff"), ID: []byte("0a1b2c3d-4e5f-6071")}
	seed := NewSeed()
	var sum uint64
	b.Run("seeded", func(b *testing.B) {
		for b.Loop() {
			sum += seed.Hash(&k)
		}
	})
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			sum += k.ItemHash()
		}
	})
	_ = sum
}

// TestLookup: a Lookup gives the hash of each seed it is asked for, in whatever order.
func TestLookup(t *testing.T) {
	k := Key{EPK: []byte("0123456789abcdef"), PK: []byte("key"), ID: []byte("id")}
	a, b := NewSeed(), NewSeed()
	l := k.Lookup()
	for _, seed := range []Seed{{}, a, a, b, a, {}, b} {
		if got, want := l.Hash(&seed), seed.Hash(&k); got != want {
			t.Errorf("seed %x: hash %x, want %x", seed, got, want)
		}
	}
	if got, want := l.Hash(new(Seed)), k.ItemHash(); got != want {
		t.Errorf("without a seed: hash %x, want %x", got, want)
	}
}
