package workload

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"math"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func newGenerator(t testing.TB, p Params) *Generator {
	t.Helper()
	g, err := NewGenerator(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func shapeNames() (names []string) {
	for _, s := range Shapes() {
		names = append(names, s.Name)
	}
	return names
}

// Every document is JSON without duplicate names, has the id and key that the
// generator says, and a size within the bounds of its shape.
func TestDocuments(t *testing.T) {
	bounds := map[string]struct{ low, high, mean float64 }{
		"food":  {800, 2048, 1400},
		"ycsb":  {1100, 1300, 1190},
		"small": {64, 96, 74},
		"sized": {200, 20 << 10, 3200}, // DefaultSizes
	}
	for _, info := range Shapes() {
		t.Run(info.Name, func(t *testing.T) {
			want := bounds[info.Name]
			g := newGenerator(t, Params{Shape: info.Name, Seed: 1, LogicalPartitions: 1000, Skew: 0.5})
			const n = 20_000
			var buf []byte
			total := 0
			for i := range int64(n) {
				buf = g.Append(buf[:0], i, uint64(i%3))
				size := float64(len(buf))
				total += len(buf)
				if size < want.low || size > want.high {
					t.Fatalf("document %d has %v bytes: %s", i, size, buf)
				}
				if i%50 != 0 {
					continue
				}
				var doc map[string]any
				if err := json.Unmarshal(buf, &doc); err != nil {
					t.Fatalf("document %d: %v: %s", i, err, buf)
				}
				id, key := string(g.AppendID(nil, i)), string(g.AppendKey(nil, g.Partition(i)))
				if doc["id"] != id || doc[g.KeyPath()[1:]] != key {
					t.Fatalf("document %d: want id %q, key %q: %s", i, id, key, buf)
				}
				if !IsDocument(buf, id) || IsDocument(buf, id[1:]) || IsDocument(buf, id+"x") || IsDocument(buf[:3], id) {
					t.Fatalf("document %d: IsDocument is wrong: %s", i, buf)
				}
				checkNames(t, buf)
			}
			if mean := float64(total) / n; math.Abs(mean/want.mean-1) > 0.02 {
				t.Errorf("mean size %.1f, want about %v", mean, want.mean)
			}
		})
	}
}

// checkNames fails on an object with two properties of one name.
func checkNames(t *testing.T, doc []byte) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(doc))
	var value func()
	value = func() {
		token, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		switch token {
		case json.Delim('{'):
			seen := map[any]bool{}
			for decoder.More() {
				name, _ := decoder.Token()
				if seen[name] {
					t.Fatalf("two properties %v: %s", name, doc)
				}
				seen[name] = true
				value()
			}
			decoder.Token()
		case json.Delim('['):
			for decoder.More() {
				value()
			}
			decoder.Token()
		}
	}
	value()
}

// A document depends on its parameters, index and version only.
func TestDocumentsAreAFunction(t *testing.T) {
	for _, name := range shapeNames() {
		p := Params{Shape: name, Seed: 7, LogicalPartitions: 100}
		a, b := newGenerator(t, p), newGenerator(t, p)
		p.Seed = 8
		other := newGenerator(t, p)
		backwards := make(map[int64][]byte)
		for i := int64(999); i >= 0; i-- {
			backwards[i] = b.Append(nil, i, 0)
		}
		differ := 0
		i := int64(0)
		for doc, err := range a.All(0, 1000) {
			if err != nil || !bytes.Equal(doc, backwards[i]) {
				t.Fatalf("%s: document %d depends on the order: %v", name, i, err)
			}
			if bytes.Equal(doc, a.Append(nil, i, 1)) {
				t.Fatalf("%s: versions 0 and 1 of document %d are equal", name, i)
			}
			if !bytes.Equal(doc, other.Append(nil, i, 0)) {
				differ++
			}
			i++
		}
		if i != 1000 || differ < 990 {
			t.Errorf("%s: %d documents, %d depend on the seed", name, i, differ)
		}
		var third []byte
		for doc := range a.All(3, 5) {
			third = bytes.Clone(doc)
			break
		}
		if !bytes.Equal(third, a.Append(nil, 3, 0)) {
			t.Errorf("%s: All does not begin where it was told to", name)
		}
	}
}

// The documents of a seed never change, so that figures can be compared.
func TestDocumentsAreFrozen(t *testing.T) {
	for name, want := range map[string]uint32{"food": 0x9ae5255c, "ycsb": 0xdeab797d, "small": 0x0f41eb5b} {
		g := newGenerator(t, Params{Shape: name, Seed: 1, LogicalPartitions: 1000, Skew: 0.5})
		sum := crc32.NewIEEE()
		for doc := range g.All(0, 1000) {
			sum.Write(doc)
		}
		if got := sum.Sum32(); got != want {
			t.Errorf("%s: %#08x, want %#08x; document 0: %s", name, got, want, g.Append(nil, 0, 0))
		}
	}
}

func TestIDsAreDistinctAndScattered(t *testing.T) {
	for _, name := range shapeNames() {
		g := newGenerator(t, Params{Shape: name, LogicalPartitions: 1})
		const n = 200_000
		ids := make([]string, n)
		rising := 0
		for i := range ids {
			ids[i] = string(g.AppendID(nil, int64(i)))
			if i > 0 && ids[i] > ids[i-1] {
				rising++
			}
		}
		slices.Sort(ids)
		if len(slices.Compact(ids)) != n {
			t.Errorf("%s: ids repeat", name)
		}
		if rising < n*4/10 || rising > n*6/10 {
			t.Errorf("%s: %d of %d ids are larger than the one before", name, rising, n)
		}
	}
}

// The sizes of logical partitions follow the skew.
func TestPartitionSizes(t *testing.T) {
	const partitions, n = 50, 200_000
	for _, skew := range []float64{0, 0.5, 0.99, 2} {
		g := newGenerator(t, Params{Shape: "small", Seed: 3, LogicalPartitions: partitions, Skew: skew})
		counts := make([]float64, partitions)
		for i := range int64(n) {
			counts[g.Partition(i)]++
		}
		shares := make([]float64, partitions)
		for i := range shares {
			shares[i] = math.Pow(float64(i+1), -skew)
		}
		checkShares(t, counts, shares)
	}
}

// checkShares compares counts with weights by a chi-square test whose bound is
// passed by chance about once in a million; seeds are fixed.
func checkShares(t *testing.T, counts, weights []float64) {
	t.Helper()
	total, sum := 0.0, 0.0
	for i := range counts {
		total += counts[i]
		sum += weights[i]
	}
	chi := 0.0
	for i, c := range counts {
		expected := total * weights[i] / sum
		if expected == 0 {
			if c != 0 {
				t.Errorf("choice %d has weight 0 and came %v times", i, c)
			}
			continue
		}
		chi += (c - expected) * (c - expected) / expected
	}
	degrees := float64(len(counts) - 1)
	if bound := degrees + 5*math.Sqrt(2*degrees) + 20; chi > bound {
		t.Errorf("chi-square %.1f, at most %.1f: counts %v", chi, bound, counts)
	}
}

func TestLogicalPartitionKeysAreDistinct(t *testing.T) {
	for _, name := range shapeNames() {
		g := newGenerator(t, Params{Shape: name, LogicalPartitions: 1})
		seen := map[string]bool{}
		for p := range 10_000 {
			key := string(g.AppendKey(nil, p))
			if seen[key] {
				t.Fatalf("%s: key %q repeats", name, key)
			}
			seen[key] = true
		}
	}
}

func TestBadParams(t *testing.T) {
	for _, p := range []Params{
		{Shape: "", LogicalPartitions: 1},
		{Shape: "foo", LogicalPartitions: 1},
		{Shape: "food"},
		{Shape: "food", LogicalPartitions: MaxLogicalPartitions + 1},
		{Shape: "food", LogicalPartitions: 1, Skew: -1},
		{Shape: "food", LogicalPartitions: 1, Skew: math.NaN()},
	} {
		if _, err := NewGenerator(p); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}

// Food documents compress like real ones: to less than half alone, much better
// in company.
func TestFoodCompresses(t *testing.T) {
	g := newGenerator(t, Params{Shape: "food", Seed: 1, LogicalPartitions: 1000})
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	var alone, raw int
	var block []byte
	for doc := range g.All(0, 500) {
		alone += len(encoder.EncodeAll(doc, nil))
		raw += len(doc)
		block = append(block, doc...)
	}
	a, b := float64(raw)/float64(alone), float64(raw)/float64(len(encoder.EncodeAll(block, nil)))
	if a < 2 || a > 2.6 || b < 5 || b > 9 {
		t.Errorf("ratio %.2f alone, %.2f in one block", a, b)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, name := range shapeNames() {
		b.Run(name, func(b *testing.B) {
			g := newGenerator(b, Params{Shape: name, Seed: 1, LogicalPartitions: 1000, Skew: 0.5})
			buf := make([]byte, 0, 4<<10)
			b.ReportAllocs()
			var i, bytes int64
			for b.Loop() {
				bytes += int64(len(g.Append(buf[:0], i, 0)))
				i++
			}
			b.SetBytes(bytes / i)
		})
	}
}
