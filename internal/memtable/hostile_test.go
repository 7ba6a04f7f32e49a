package memtable

import (
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
)

// probes returns how many slots are looked at to find a key.
func (t *Table) probes(k *item.Key) (n int) {
	s := slots(t.slots.Load())
	base, mask := t.at(s.link()), uint32(s.count()-1)
	tag := t.tagOf(k.Lookup())
	for i := tag >> (32 - s.log()); ; i = (i + 1) & mask {
		n++
		slot := loadWord(slotAt(base, i))
		if slot == 0 || uint32(slot>>32) == tag && t.node(uint32(slot)).equals(k, packLengths(k)) {
			return n
		}
	}
}

// fillProbes puts ids of a logical partition and returns how many slots that, and
// getting them, looks at.
func fillProbes(t *testing.T, ids [][]byte) (puts, gets int) {
	table := newTable(t, len(ids))
	k := makeKey(scatter(1), "partition", "")
	for i, id := range ids {
		k.ID = id
		if i > 0 {
			puts += table.probes(&k)
		}
		mustPut(t, table, &k, &item.Version{Seq: uint64(i + 1), Body: []byte("x")})
	}
	for _, k.ID = range ids {
		gets += table.probes(&k)
		var v item.Version
		if !table.Get(k.Lookup(), ^uint64(0), &v) {
			t.Fatalf("%x is not found", k.ID)
		}
	}
	return puts, gets
}

// TestHostileIDs: ids that somebody has chosen cost no more than twice as much as
// random ones.
func TestHostileIDs(t *testing.T) {
	const n = 4000
	k := makeKey(scatter(1), "partition", "")
	hostile := randtest.HostileIDs(k.EPK, n)
	rng := randtest.New(t)
	random := make([][]byte, n)
	for i := range random {
		random[i] = make([]byte, 16)
		for j := range random[i] {
			random[i][j] = byte(rng.Uint32())
		}
	}
	puts, gets := fillProbes(t, random)
	hostilePuts, hostileGets := fillProbes(t, hostile)
	if hostilePuts > 2*puts || hostileGets > 2*gets {
		t.Errorf("%d slots for puts and %d for gets of hostile ids, %d and %d of random ones", hostilePuts, hostileGets, puts, gets)
	}
}

// BenchmarkHostileIDs gets ids that somebody has chosen.
func BenchmarkHostileIDs(b *testing.B) {
	k := makeKey(scatter(1), "partition", "")
	ids := randtest.HostileIDs(k.EPK, 4000)
	table := newTable(b, len(ids))
	for i := range ids {
		k.ID = ids[i]
		mustPut(b, table, &k, &item.Version{Seq: uint64(i + 1), Body: []byte("x")})
	}
	var v item.Version
	for i := 0; b.Loop(); i++ {
		k.ID = ids[i%len(ids)]
		table.Get(k.Lookup(), ^uint64(0), &v)
	}
}
