package partmap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// tableOf returns the table with these inner boundaries, ids from 1 on.
func tableOf(t testing.TB, boundaries []EPK) *Table {
	t.Helper()
	entries := []Entry{{ID: 1, Range: Ranges(1)[0]}}
	for i, b := range boundaries {
		entries[i].Range.Max = b
		entries = append(entries, Entry{ID: PartitionID(i + 2), Range: Range{Min: b, Max: MaxEPK()}})
	}
	table, err := NewTable(entries)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestRefusedTables(t *testing.T) {
	e := func(id PartitionID, min, max string) Entry { return Entry{id, rangeOf(t, min, max)} }
	for name, tt := range map[string]struct {
		entries []Entry
		text    string
	}{
		"none":      {nil, "none"},
		"start":     {[]Entry{e(1, "10", "FF")}, "gap [,10) before partition 1"},
		"end":       {[]Entry{e(1, "", "3F")}, "gap [3F,FF) at the end"},
		"gap":       {[]Entry{e(1, "", "10"), e(2, "11", "FF")}, "gap [10,11) before partition 2"},
		"overlap":   {[]Entry{e(1, "", "12"), e(2, "11", "FF")}, "partitions 1 and 2 overlap in [11,12)"},
		"same":      {[]Entry{e(1, "", "FF"), e(2, "", "FF")}, "overlap"},
		"empty":     {[]Entry{e(1, "", "10"), e(2, "10", "1000"), e(3, "10", "FF")}, "partition 2 has the empty range"},
		"backwards": {[]Entry{e(1, "", "10"), e(2, "10", "08"), e(3, "08", "FF")}, "overlap"},
		"id":        {[]Entry{e(1, "", "10"), e(1, "10", "FF")}, "id 1 is used twice"},
	} {
		if _, err := NewTable(tt.entries); !errors.Is(err, ErrTiling) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTableSortsAndCopies(t *testing.T) {
	entries := []Entry{{7, rangeOf(t, "20", "FF")}, {9, rangeOf(t, "", "10")}, {8, rangeOf(t, "10", "20")}}
	table, err := NewTable(entries)
	if err != nil {
		t.Fatal(err)
	}
	clear(entries)
	for i, want := range []PartitionID{9, 8, 7} {
		if got := table.Entry(i).ID; got != want {
			t.Errorf("entry %d is partition %d, want %d", i, got, want)
		}
	}
	if table.Len() != 3 {
		t.Errorf("Len %d", table.Len())
	}
}

// shapes are sets of boundaries on which the directory works well, badly and
// not at all.
func shapes(rng *rand.Rand) map[string][]EPK {
	random := func(n, levels int) []EPK {
		var set []EPK
		for range n {
			k := make([]byte, 0, 64)
			for range levels {
				k = AppendNumber(k, rng.Float64())
			}
			set = append(set, HashEncoded(k))
		}
		return set
	}
	sorted := func(set []EPK) []EPK {
		slices.SortFunc(set, func(a, b EPK) int { return a.Compare(&b) })
		return slices.CompactFunc(set, func(a, b EPK) bool { return a.Compare(&b) == 0 })
	}
	// All boundaries below one first level: their heads are equal.
	prefix := random(1, 1)[0]
	below := random(300, 1)
	for i := range below {
		e := prefix
		copy(e.b[levelBytes:], below[i].Bytes())
		e.n = 2 * levelBytes
		below[i] = e
	}
	// A moving hot spot halves the last partition again and again.
	var halved []EPK
	for r := Ranges(1)[0]; len(halved) < 120; {
		r.Min = Midpoint(r)
		halved = append(halved, r.Min)
	}
	edge, _ := EPKFromBytes([]byte{0x80})
	return map[string][]EPK{
		"one": nil, "two": EvenBoundaries(2), "even": EvenBoundaries(1000), "even 1023": EvenBoundaries(1023),
		"random": sorted(random(777, 1)), "three levels": sorted(random(200, 3)), "one prefix": sorted(slices.Clone(below)),
		"prefix and its levels": sorted(append(below, prefix)), "halved": halved, "above all keys": {edge},
	}
}

// Find against a linear search, on the boundaries, around them and elsewhere.
func TestFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(randtest.Seed(t), 2))
	for name, boundaries := range shapes(rng) {
		table := tableOf(t, boundaries)
		points := slices.Clone(boundaries)
		for _, b := range boundaries {
			below, above := b, b
			for i := len(below.b) - 1; i >= 0; i-- {
				if below.b[i]--; below.b[i] != 0xFF {
					break
				}
			}
			above.b[len(above.b)-1]++
			points = append(points, below, above)
		}
		for range 300 {
			points = append(points, Number(rng.NormFloat64()).EPK(), join(t, Number(rng.Float64()), Null()).EPK())
		}
		points = append(points, MinEPK(), parseEPK(t, "40"), parseEPK(t, "FE"))
		for _, p := range points {
			want := 0
			for !table.Entry(want).Range.Contains(&p) {
				want++
			}
			if got := table.Find(&p); got != want {
				t.Fatalf("%s: Find(%v) = %d, want %d", name, p, got, want)
			}
		}
		if top := MaxEPK(); table.Find(&top) != table.Len()-1 {
			t.Errorf("%s: Find(MaxEPK) = %d", name, table.Find(&top))
		}
	}
}

func TestOverlapping(t *testing.T) {
	rng := rand.New(rand.NewPCG(randtest.Seed(t), 3))
	for name, boundaries := range shapes(rng) {
		table := tableOf(t, boundaries)
		for range 200 {
			pick := func() EPK {
				if len(boundaries) > 0 && rng.IntN(2) == 0 {
					return boundaries[rng.IntN(len(boundaries))]
				}
				return Number(rng.Float64()).EPK()
			}
			r := Range{Min: pick(), Max: pick()}
			if rng.IntN(8) == 0 {
				r.Max = MaxEPK()
			}
			lo, hi := table.Overlapping(r)
			if r.Empty() != (lo == hi) || lo > hi {
				t.Fatalf("%s: Overlapping(%v) = %d, %d", name, r, lo, hi)
			}
			for i := range table.Len() {
				if got := lo <= i && i < hi; got != table.Entry(i).Range.Overlaps(r) {
					t.Fatalf("%s: Overlapping(%v) = %d, %d; partition %d is %v", name, r, lo, hi, i, table.Entry(i).Range)
				}
			}
		}
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	table := tableOf(t, EvenBoundaries(1000))
	enc := String("tenant-0123456789").Encoded()
	if n := testing.AllocsPerRun(100, func() {
		e := HashEncoded(enc)
		table.Find(&e)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFind(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	points := make([]EPK, 4096)
	for i := range points {
		points[i] = Number(rng.Float64()).EPK()
	}
	run := func(name string, boundaries []EPK, points []EPK) {
		table := tableOf(b, boundaries)
		b.Run(fmt.Sprintf("%s-%d", name, table.Len()), func(b *testing.B) {
			b.ReportAllocs()
			i, sum := 0, 0
			for b.Loop() {
				sum += table.Find(&points[i&4095])
				i++
			}
		})
	}
	all := shapes(rng)
	run("even", EvenBoundaries(4), points)
	run("even", EvenBoundaries(1000), points)
	run("even", EvenBoundaries(10000), points)
	run("random", all["random"], points)
	run("halved", all["halved"], points)
	// The worst: all boundaries and all keys below one first level.
	below := all["one prefix"]
	inside := make([]EPK, len(points))
	for i := range inside {
		inside[i] = below[i%len(below)]
	}
	rng.Shuffle(len(inside), func(i, j int) { inside[i], inside[j] = inside[j], inside[i] })
	run("one prefix", below, inside)
}
