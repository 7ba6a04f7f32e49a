package keyadvice

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/partmap"
)

func numberedKey(i int) []byte { return partmap.AppendNumber(nil, float64(i)) }

// fill adds n documents whose keys are skewed, and returns the truth.
func fill(rng *rand.Rand, n, keys int, add func(key []byte, t tally)) map[string]tally {
	truth := make(map[string]tally)
	for range n {
		key := numberedKey(int(float64(keys) * math.Pow(rng.Float64(), 3)))
		more := tally{1, 1 + rng.Int64N(100)}
		add(key, more)
		sum := truth[string(key)]
		sum.add(more)
		truth[string(key)] = sum
	}
	return truth
}

func TestCounterExact(t *testing.T) {
	c := newCounter(10_000, 10)
	truth := fill(randtest.New(t), 20_000, 5000, func(key []byte, more tally) { c.add(key, hashOf(key), more) })
	if !c.exact() || c.keys() != int64(len(truth)) || c.relativeError() != 0 {
		t.Fatalf("%d keys, exact %v, want %d", c.keys(), c.exact(), len(truth))
	}
	last := int64(math.MaxInt64)
	for i, l := range c.largest(100) {
		if l.size != truth[l.key] || l.size.bytes > last || l.err != (tally{}) {
			t.Errorf("largest %d: %+v, want %+v", i, l, truth[l.key])
		}
		last = l.size.bytes
	}
	var most int64
	for _, sum := range truth {
		most = max(most, sum.documents)
	}
	if got := c.ranks(0, 1); got[0] != 1 || got[1] != most {
		t.Errorf("ranks %v, want 1 and %d", got, most)
	}
}

// With more keys than are kept the number is near the truth, and so are the
// ranks; no large key is missed, and each size is within its error.
func TestCounterEstimates(t *testing.T) {
	const limit, heavyMax = 2000, 200
	c := newCounter(limit, heavyMax)
	var bytes int64
	truth := fill(randtest.New(t), 200_000, 60_000, func(key []byte, more tally) {
		c.add(key, hashOf(key), more)
		bytes += more.bytes
	})
	if c.exact() || len(c.kept) > limit {
		t.Fatalf("exact %v, %d keys kept", c.exact(), len(c.kept))
	}
	if off := math.Abs(float64(c.keys())/float64(len(truth)) - 1); off > 6*c.relativeError() {
		t.Errorf("%d keys, want %d: off by %.3f, standard error %.3f", c.keys(), len(truth), off, c.relativeError())
	}
	for key, sum := range c.kept {
		if *sum != truth[key] {
			t.Fatalf("a kept key has %+v, want %+v", *sum, truth[key])
		}
	}
	found := make(map[string]bool)
	for _, l := range c.largest(heavyMax) {
		want := truth[l.key]
		if want.bytes > l.size.bytes || want.bytes < l.size.bytes-l.err.bytes ||
			want.documents < l.size.documents-l.err.documents || l.err.bytes > bytes/heavyMax {
			t.Errorf("%x: %+v within %+v, want %+v", l.key, l.size, l.err, want)
		}
		found[l.key] = true
	}
	for key, sum := range truth {
		if sum.bytes > bytes/heavyMax && !found[key] {
			t.Errorf("%x with %d of %d bytes is missed", key, sum.bytes, bytes)
		}
	}
}

// Long keys count for more, so that memory is bounded.
func TestCounterBoundsKeyBytes(t *testing.T) {
	c := newCounter(1000, 10)
	for i := range 1000 {
		key := partmap.AppendString(nil, fmt.Appendf(nil, "%01000d", i))
		c.add(key, hashOf(key), tally{1, 1})
	}
	sum := 0
	for key := range c.kept {
		sum += len(key)
	}
	if sum != c.keyBytes || sum > 1000*meanKeyBytes {
		t.Errorf("%d bytes of keys kept, %d noted", sum, c.keyBytes)
	}
}
