package partmap

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

func rangeOf(t testing.TB, min, max string) Range {
	t.Helper()
	return Range{Min: parseEPK(t, min), Max: parseEPK(t, max)}
}

func TestRangeRelations(t *testing.T) {
	for _, tt := range []struct {
		aMin, aMax, bMin, bMax string
		overlaps, adjacent     bool
	}{
		{"", "FF", "10", "20", true, false},
		{"", "10", "10", "20", false, true},
		{"", "10", "1000", "20", false, true}, // equal when padded
		{"", "10", "11", "20", false, false},
		{"", "1001", "10", "20", true, false},
		{"10", "20", "10", "20", true, false},
		{"10", "10", "", "FF", false, false}, // empty
		{"10", "1000", "10", "20", false, false},
		{"20", "10", "", "FF", false, false},
	} {
		a, b := rangeOf(t, tt.aMin, tt.aMax), rangeOf(t, tt.bMin, tt.bMax)
		for range 2 {
			if got := a.Overlaps(b); got != tt.overlaps {
				t.Errorf("%v overlaps %v: %v", a, b, got)
			}
			if got := a.Adjacent(b); got != tt.adjacent {
				t.Errorf("%v adjacent to %v: %v", a, b, got)
			}
			a, b = b, a
		}
	}
}

func TestRangeContains(t *testing.T) {
	r := rangeOf(t, "10", "20")
	for text, want := range map[string]bool{"": false, "0FFF": false, "10": true, "1000": true, "1FFF": true, "20": false, "2000": false, "FF": false} {
		if e := parseEPK(t, text); r.Contains(&e) != want {
			t.Errorf("%v contains %s: %v", r, text, !want)
		}
	}
	if r.String() != "[10,20)" || Ranges(1)[0].String() != "[,FF)" {
		t.Errorf("%v, %v", r, Ranges(1)[0])
	}
	top := MaxEPK()
	if all := Ranges(1)[0]; all.Contains(&top) || all.Empty() {
		t.Errorf("%v", all)
	}
}

func TestRangesTile(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 2, 3, 5, 100} {
		ranges := Ranges(n)
		if len(ranges) != max(n, 1) {
			t.Fatalf("Ranges(%d) has %d", n, len(ranges))
		}
		var entries []Entry
		for i, r := range ranges {
			entries = append(entries, Entry{ID: PartitionID(i), Range: r})
		}
		if _, err := NewTable(entries); err != nil {
			t.Errorf("Ranges(%d): %v", n, err)
		}
	}
}

func TestMidpoint(t *testing.T) {
	f, zero := strings.Repeat("F", 30), strings.Repeat("0", 30)
	level := "22E342F38A486A088463DFF7838A5963"
	for _, tt := range []struct{ min, max, want string }{
		{"", "FF", "1F" + f},
		{"00", "40", "1F" + f},
		{"10", "20", "18" + zero},
		{"1F" + f, "FF", "2F" + f},
		{"10" + zero, "10" + zero[1:] + "1", "10" + zero},      // one point: nothing between
		{level, level + "FF", level + "1F" + f},                // below one first level
		{level + "3F" + f, level[:31] + "4", level + "3F" + f}, // the same, its last point
		{"10" + zero + "30" + zero, "10" + zero[1:] + "1" + "10" + zero, "10" + zero[1:] + "1" + "00" + zero}, // carries into level 1
		{"40", "50", "40"}, // no key lies here
		{"20", "10", "20"}, // empty
	} {
		if got := Midpoint(rangeOf(t, tt.min, tt.max)).String(); got != tt.want {
			t.Errorf("Midpoint[%s,%s) = %s, want %s", tt.min, tt.max, got, tt.want)
		}
	}
}

// Cut at midpoints, everything stays tiled, however deep.
func TestMidpointsTile(t *testing.T) {
	seed := randtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	entries := []Entry{{Range: Ranges(1)[0]}}
	for id := range PartitionID(500) {
		i := rng.IntN(len(entries))
		if rng.IntN(2) == 0 {
			i = len(entries) - 1 // deep at one end
		}
		r := entries[i].Range
		mid := Midpoint(r)
		if mid == r.Min {
			continue
		}
		entries[i].Range.Max = mid
		entries = append(entries, Entry{ID: id + 1, Range: Range{Min: mid, Max: r.Max}})
	}
	if len(entries) < 300 {
		t.Errorf("only %d partitions", len(entries))
	}
	if _, err := NewTable(entries); err != nil {
		t.Error(err)
	}
}
