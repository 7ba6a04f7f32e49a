package tiers

import (
	"slices"
	"testing"
)

// TestPick: eight runs of like size become one, wherever they are; with more than
// MaxRuns, the longest row of like ones does.
func TestPick(t *testing.T) {
	row := func(n int, size int64) []int64 { return slices.Repeat([]int64{size}, n) }
	for _, c := range []struct {
		name  string
		sizes []int64
		want  Plan
	}{
		{"none", nil, Plan{}},
		{"seven", row(7, 10), Plan{}},
		{"eight", row(8, 10), Plan{0, 8}},
		{"eight in front of larger ones", slices.Concat(row(8, 10), row(3, 80)), Plan{0, 8}},
		{"eight behind smaller ones", slices.Concat(row(3, 10), row(8, 80)), Plan{3, 11}},
		{"two tiers", slices.Concat(row(8, 10), row(8, 80)), Plan{0, 8}},
		{"a little larger", []int64{10, 11, 14, 20, 16, 13, 18, 12}, Plan{0, 8}},
		{"older ones are smaller", []int64{80, 20, 10, 5, 5, 1, 1, 1}, Plan{0, 8}},
		{"twelve of few tiers", slices.Concat(row(6, 10), row(6, 80)), Plan{}},
		{"thirteen", slices.Concat(row(6, 10), row(7, 80)), Plan{6, 13}},
		{"thirteen, the newer of two rows", slices.Concat(row(6, 10), row(6, 80), row(1, 640)), Plan{0, 6}},
		{"no two alike", []int64{1, 3, 9, 27, 81, 243, 729, 2187, 6561, 19683, 59049, 177147, 531441}, Plan{0, 3}},
		{"empty ones", row(8, 0), Plan{0, 8}},
	} {
		if got := Pick(c.sizes); got != c.want {
			t.Errorf("%s: of %v runs %+v, want %+v", c.name, c.sizes, got, c.want)
		}
	}
}

// TestFewest: one run is left, or two of which the older is far larger. What is left is left alone.
func TestFewest(t *testing.T) {
	for _, c := range []struct {
		name        string
		sizes, left []int64
	}{
		{"none", nil, nil},
		{"one", []int64{10}, []int64{10}},
		{"two alike", []int64{10, 10}, []int64{20}},
		{"a small one before a large one", []int64{10, 160}, []int64{10, 160}},
		{"one that is not small before it", []int64{10, 159}, []int64{169}},
		{"small ones before a large one", []int64{4, 6, 160}, []int64{10, 160}},
		{"not small together", []int64{5, 6, 160}, []int64{171}},
		{"a large one before small ones", []int64{160, 5, 5}, []int64{170}},
		{"empty ones", []int64{0, 0, 0}, []int64{0, 0}},
	} {
		got := slices.Clone(c.sizes)
		if p := Fewest(got, true); p.Len() > 0 {
			sum := int64(0)
			for _, n := range got[p.First:p.End] {
				sum += n
			}
			got = slices.Replace(got, p.First, p.End, sum)
		}
		if !slices.Equal(got, c.left) {
			t.Errorf("%s: of %v %v are left, want %v", c.name, c.sizes, got, c.left)
		}
		if p := Fewest(got, true); p != (Plan{}) {
			t.Errorf("%s: of %v, which were left, %+v are chosen once more", c.name, got, p)
		}
		want := Plan{0, max(0, len(c.sizes)-1)}
		if want.Len() < 2 {
			want = Plan{}
		}
		if p := Fewest(c.sizes, false); p != want {
			t.Errorf("%s: of %v but the oldest %+v are chosen, want %+v", c.name, c.sizes, p, want)
		}
	}
}

// TestTiers: with compactions that follow flushes, a version is written about once for each
// tier, and runs stay few, however much is written.
func TestTiers(t *testing.T) {
	var sizes []int64
	written, flushes := int64(0), int64(0)
	for _, step := range []struct {
		flushes int64
		most    float64 // how often compactions have written each byte
	}{{8, 1}, {64, 2}, {512, 3}, {4096, 5}} {
		for ; flushes < step.flushes; flushes++ {
			sizes = slices.Insert(sizes, 0, 1)
			for p := Pick(sizes); p.Len() > 0; p = Pick(sizes) {
				sum := int64(0)
				for _, n := range sizes[p.First:p.End] {
					sum += n
				}
				sizes = slices.Replace(sizes, p.First, p.End, sum)
				written += sum
			}
			if len(sizes) > MaxRuns {
				t.Fatalf("%d runs after %d flushes", len(sizes), flushes+1)
			}
		}
		if often := float64(written) / float64(flushes); often > step.most {
			t.Errorf("after %d flushes compactions have written each byte %.2f times, want at most %.0f", flushes, often, step.most)
		}
	}
}

// TestBacklog: it grows from where compactions rest to where writes slow down.
func TestBacklog(t *testing.T) {
	for runs, want := range map[int]float64{0: 0, Runs: 0, (Runs + ManyRuns) / 2: 0.5, ManyRuns: 1, MostRuns: 1} {
		if got := Backlog(runs); got != want {
			t.Errorf("with %d runs %v, want %v", runs, got, want)
		}
	}
}
