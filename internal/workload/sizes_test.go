package workload

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func sized(t *testing.T, sizes string, compressible float64) *Generator {
	t.Helper()
	g, err := NewGenerator(Params{Shape: SizedShape, Seed: 1, LogicalPartitions: 10, Sizes: sizes, Compressible: compressible})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSizes: documents have exactly the sizes that are drawn, in the bounds and with the
// median of their distribution, and are JSON.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		text             string
		min, max, median int
	}{
		{"1KiB", 1024, 1024, 1024}, {"200..20k", 200, 20 << 10, 10_340}, {"uniform:200..1000", 200, 1000, 600},
		{"lognormal:200..20k", 200, 20 << 10, 2024}, {"zipf:200..20k", 200, 20 << 10, 330},
	} {
		g := sized(t, c.text, 0.5)
		var lengths []int
		var buf []byte
		for i := range int64(4000) {
			buf = g.Append(buf[:0], i, 0)
			lengths = append(lengths, len(buf))
			if i < 100 && !json.Valid(buf) {
				t.Fatalf("%s: %s", c.text, buf)
			}
			if want := g.lengthOf(i, 0); len(buf) != want {
				t.Fatalf("%s: document %d has %d bytes, not %d", c.text, i, len(buf), want)
			}
		}
		slices.Sort(lengths)
		if lengths[0] < c.min || lengths[len(lengths)-1] > c.max {
			t.Errorf("%s: %d to %d bytes", c.text, lengths[0], lengths[len(lengths)-1])
		}
		if m := float64(lengths[len(lengths)/2]); math.Abs(m/float64(c.median)-1) > 0.2 {
			t.Errorf("%s: a median of %v bytes, want about %d", c.text, m, c.median)
		}
	}
	for _, text := range []string{"", "x", "99", "3MiB", "20k..200", "200..", "normal:200..300", "zipf:300", "1..2..3"} {
		if _, err := parseSizes(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// lengthOf draws the length of a version as Append does.
func (g *Generator) lengthOf(i int64, version uint64) int {
	var rng rand.PCG
	rng.Seed(g.params.Seed^bodyStream, scramble(uint64(i), 64)+version)
	return g.lengths.draw(&rng)
}

// TestCompressible: what is left of documents after compression follows from the part that
// is the same in all.
func TestCompressible(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	last := 2.0
	for _, part := range []float64{0, 0.25, 0.5, 0.75, 1} {
		var all bytes.Buffer
		g := sized(t, "16KiB", part)
		for i := range int64(20) {
			all.Write(g.Append(nil, i, 0))
		}
		left := float64(len(z.EncodeAll(all.Bytes(), nil))) / float64(all.Len())
		// Random characters have 6.5 of 8 bits, which a compressor may leave as they are.
		if random := 1 - part; left < 0.8*random || left > 1.05*random+0.02 || left >= last {
			t.Errorf("compressible %v: %v is left", part, left)
		}
		last = left
	}
}

func TestSizedParams(t *testing.T) {
	for _, p := range []Params{
		{Shape: "food", LogicalPartitions: 1, Sizes: "1k"}, {Shape: "food", LogicalPartitions: 1, Compressible: 0.5},
		{Shape: SizedShape, LogicalPartitions: 1, Sizes: "1k", Compressible: 1.5},
	} {
		if _, err := NewGenerator(p); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}
