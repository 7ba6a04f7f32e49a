package segment

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestMayHave: no key of a file is ruled out, in batches of any size, and most others are.
func TestMayHave(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	m := maker{rng: rng, levels: 1, partitions: 40, ids: 200, versions: 2, body: document}.make()
	fsys := vfs.NewMem()
	write(t, fsys, "a", m, WriterOptions{})
	for _, mode := range []Mode{Map, Pread} {
		r := open(t, fsys, "a", mode)
		absent, may := 0, 0
		for at := 0; at < len(m); {
			n := min(1+rng.IntN(ManyKeys), len(m)-at)
			if at == 0 {
				n = ManyKeys
			}
			var keys, others []item.Lookup
			for i := range n {
				k := m[at+i].key
				keys = append(keys, *k.Lookup())
				other := newKey(k.PK, fmt.Sprintf("no such id %d", at+i))
				others = append(others, *other.Lookup())
			}
			if got, want := r.MayHave(keys), uint64(1)<<n-1; got != want {
				t.Fatalf("mode %v: %d keys from %d on: %b", mode, n, at, got)
			}
			absent += n
			may += bits.OnesCount64(r.MayHave(others))
			at += n
		}
		if may == 0 || may > absent/8 {
			t.Errorf("mode %v: %d of %d absent keys may be there", mode, may, absent)
		}
		if got := r.MayHave(nil); got != 0 {
			t.Errorf("mode %v: no keys: %b", mode, got)
		}
	}
}

func BenchmarkMayHave(b *testing.B) {
	benchReaders(b, func(b *testing.B, r *Reader, c *corpus) {
		l := c.lookups(r, "-")
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n = (n + ManyKeys) % (len(l.keys) - ManyKeys)
			r.MayHave(l.keys[n : n+ManyKeys])
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*ManyKeys), "ns/key")
	})
}
