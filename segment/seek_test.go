package segment

import (
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestSeekAgain seeks keys that are there and keys that are not, again and again, so that
// searches rely on what those before them have found. The logical partitions with "=" have
// one entry in the table of partitions, though their ids overlap.
func TestSeekAgain(t *testing.T) {
	rng := randtest.New(t)
	for _, prefix := range []string{"", "="} {
		for range randtest.Lone(3) {
			m := maker{rng: rng, levels: 1, partitions: 8, ids: 800, versions: 2, prefix: prefix, body: document}.make()
			fsys := vfs.NewMem()
			write(t, fsys, "a", m, WriterOptions{Dictionary: testDictionary(t)})
			r := open(t, fsys, "a", Map)
			c := r.Cursor(math.MaxUint64)
			seen := m.visible(math.MaxUint64)
			for n := range randtest.Lone(6000) {
				k := m[rng.IntN(len(m))].key.Clone()
				switch rng.IntN(4) {
				case 0:
					k.ID = append(k.ID, 'x')
				case 1:
					k.ID = k.ID[:rng.IntN(len(k.ID)+1)]
				case 2: // of a partition that may not be there
					k = maker{levels: 1, prefix: prefix}.key(rng.IntN(12), rng.IntN(900))
				}
				at := seen.lowerBound(&k)
				ok := c.SeekGE(&k)
				if c.Err() != nil || ok != (at < len(seen)) || ok && item.Compare(c.Key(), &seen[at].key) != 0 {
					t.Fatalf("seek %d, at or after %q of %q: %t, %q, %v", n, k.ID, k.PK, ok, c.Key().ID, c.Err())
				}
				ok = c.SeekLT(&k)
				if c.Err() != nil || ok != (at > 0) || ok && item.Compare(c.Key(), &seen[at-1].key) != 0 {
					t.Fatalf("seek %d, before %q of %q: %t, %q, %v", n, k.ID, k.PK, ok, c.Key().ID, c.Err())
				}
			}
		}
	}
}
