package throughput

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

func pointers(parts []manifest.Partition) func(yield func(*manifest.Partition) bool) {
	return func(yield func(*manifest.Partition) bool) {
		for i := range parts {
			if !yield(&parts[i]) {
				return
			}
		}
	}
}

// TestRates: partitions without shares have equal parts; no part is above the limit or 0;
// parents that are still in use have the weights of their children.
func TestRates(t *testing.T) {
	parts := []manifest.Partition{{ID: 1}, {ID: 2, Share: 3}, {ID: 4, Share: 1, Parents: []uint32{3}}, {ID: 5, Share: 2, Parents: []uint32{3}}}
	shares := SharesOf(pointers(parts))
	if shares[1] != 1 || shares[2] != 3 || shares[3] != 3 || shares[5] != 2 {
		t.Errorf("%v", shares)
	}
	for _, tc := range []struct {
		id               partmap.PartitionID
		perSecond, limit float64
		want             float64
	}{{1, 700, 1000, 100}, {2, 700, 1000, 300}, {2, 7000, 1000, 1000}, {9, 700, 1000, leastRate}} {
		if got := shares.Rate(tc.id, tc.perSecond, 7, tc.limit); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// TestRedistribute: targets get what they ask for, sources pay for it in equal parts, and
// the sum stays; what cannot be is refused.
func TestRedistribute(t *testing.T) {
	fresh := func() []manifest.Partition { return []manifest.Partition{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}} }
	type ids = []partmap.PartitionID
	type rates = map[partmap.PartitionID]float64
	for _, tc := range []struct {
		perSecond float64
		targets   rates
		sources   ids
		want      []float64 // nil: an error
	}{
		{400, rates{1: 150}, ids{3}, []float64{150, 100, 50, 100}},
		{400, rates{1: 150, 2: 50}, ids{3, 4, 3}, []float64{150, 50, 100, 100}},
		{400, rates{1: 40}, ids{3, 4}, []float64{40, 100, 130, 130}},
		{0, rates{1: 40}, ids{3}, nil},
		{400, rates{1: 40}, nil, nil},
		{400, rates{1: 0}, ids{3}, nil},
		{400, rates{1: math.NaN()}, ids{3}, nil},
		{400, rates{1: 1001}, ids{2, 3, 4}, nil},
		{400, rates{1: 199.5}, ids{3}, nil}, // less than 1 would be left
		{400, rates{1: 150}, ids{1, 3}, nil},
	} {
		parts := fresh()
		err := Redistribute(parts, tc.perSecond, 1000, tc.targets, tc.sources)
		var got []float64
		for i := range parts {
			got = append(got, parts[i].Share)
		}
		if (err == nil) != (tc.want != nil) || err == nil && !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %v, %v", tc, got, err)
		}
	}
	for _, tc := range []struct {
		targets rates
		sources ids
	}{{rates{9: 10}, ids{1}}, {rates{1: 10}, ids{9}}} {
		err := Redistribute(fresh(), 400, 1000, tc.targets, tc.sources)
		if missing, ok := errors.AsType[MissingError](err); !ok || missing != 9 {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// TestCheck has the bounds of a throughput, and how many partitions it takes.
func TestCheck(t *testing.T) {
	for perSecond, ok := range map[float64]bool{0: true, 1: true, 0.5: false, -1: false, 400: true, 401: false, math.NaN(): false, math.Inf(1): false} {
		if err := Check(perSecond, 100, 4); (err == nil) != ok {
			t.Errorf("%v: %v", perSecond, err)
		}
	}
	for perSecond, want := range map[float64]int{0: 0, 1: 1, 100: 1, 101: 2} {
		if got := Partitions(perSecond, 100); got != want {
			t.Errorf("%v: %d", perSecond, got)
		}
	}
}
