package spacesaving

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// key returns one of some keys, the first ones far more often than the last.
func key(rng *rand.Rand, keys int) []byte {
	n := int(math.Pow(float64(keys), rng.Float64()))
	return fmt.Appendf(nil, "%0*d", 1+n%40, n)
}

// TestInvariants compares the counters with the truth.
func TestInvariants(t *testing.T) {
	rng := randtest.New(t)
	const limit = 50
	s := New(limit)
	truth := make(map[string]*Size)
	all := 0.0
	for i := range 50_000 {
		k, more := key(rng, 5000), Size{1, float64(1 + rng.IntN(100))}
		s.Add(k, more)
		if truth[string(k)] == nil {
			truth[string(k)] = new(Size)
		}
		truth[string(k)].add(more)
		all += more.Weight
		if i%10_000 == 0 {
			s.Scale(0.5)
			for _, size := range truth {
				size.scale(0.5)
			}
			all /= 2
		}
	}
	const little = 1e-6
	found := make(map[string]bool)
	for _, h := range s.All() {
		want := truth[h.Key]
		if want == nil {
			t.Fatalf("%q was never added", h.Key)
		}
		if want.Weight > h.Size.Weight+little || want.Weight < h.Size.Weight-h.Err.Weight-little ||
			want.Items < h.Size.Items-h.Err.Items-little || h.Err.Weight > all/limit {
			t.Errorf("%q: %+v, truth %+v", h.Key, h, want)
		}
		found[h.Key] = true
	}
	if len(found) != limit {
		t.Errorf("%d keys", len(found))
	}
	for k, size := range truth {
		if size.Weight > all/limit && !found[k] {
			t.Errorf("%q with %v of %v is missed", k, size.Weight, all)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	rng := randtest.New(b)
	s := New(256)
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = key(rng, 100_000)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s.Add(keys[i&(1<<16-1)], Size{1, 1})
		i++
	}
}
