package mergecut

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// row is a row of a part: its sort key is a value of one or two bytes, and the number of its part.
type row struct {
	value []byte
	part  int
}

func (r *row) key() []byte { return append(bytes.Clone(r.value), byte(r.part)) }

func compareRows(a, b row) int { return bytes.Compare(a.key(), b.key()) }

// tell makes the walk of a part that tells of about the first so many of its rows. With rough
// runs, those that tell only the first byte of a value, rows of several parts lie among each other.
func tell(rows []row, part, about int, rough bool) Walk {
	w := Walk{Behind: []byte{byte(part) + 1}}
	for i := 0; i < len(rows); {
		from, width := i, 2
		if rough {
			width = 1
		}
		key := rows[i].value[:width]
		if i >= about {
			w.End = key
			break
		}
		for i < len(rows) && bytes.HasPrefix(rows[i].value, key) {
			i++
		}
		w.Runs = append(w.Runs, Run{Key: key, N: i - from, Parted: !rough})
	}
	return w
}

// TestCutAgainstMerge: before the cut lie as many rows as are wanted, and where runs tell the
// values no more; in parts that are Short, rows may be missing.
func TestCutAgainstMerge(t *testing.T) {
	rng := randtest.New(t)
	for range 3000 {
		parts := make([][]row, 1+rng.IntN(5))
		var all []row
		values := 1 + rng.IntN(200)
		for p := range parts {
			for range rng.IntN(60) {
				v := rng.IntN(values)
				parts[p] = append(parts[p], row{[]byte{byte(v / 7), byte(v % 7)}, p})
			}
			slices.SortFunc(parts[p], compareRows)
			all = append(all, parts[p]...)
		}
		slices.SortFunc(all, compareRows)
		check(t, rng, parts, all, 1+rng.IntN(80))
	}
}

func check(t *testing.T, rng *rand.Rand, parts [][]row, all []row, want int) {
	t.Helper()
	walks := make([]Walk, len(parts))
	exact := true
	for p, rows := range parts {
		rough := rng.IntN(3) == 0
		exact = exact && !rough
		walks[p] = tell(rows, p, rng.IntN(2*want), rough)
	}
	c := Of(walks, want)
	short := false
	for p := range walks {
		if c.Short(&walks[p]) {
			short = true
			walks[p] = tell(parts[p], p, len(parts[p]), !walks[p].parted())
		}
	}
	if short {
		c = Of(walks, want)
	}
	before := func(rows []row) (n int) {
		for _, r := range rows {
			if c.End == nil || bytes.Compare(r.key(), c.End) < 0 {
				n++
			}
		}
		return n
	}
	n := before(all)
	if n < min(want, len(all)) {
		t.Fatalf("%d of %d rows before the cut, want %d", n, len(all), want)
	}
	if c.End != nil && exact {
		// All rows of the last run are before the cut.
		last := all[want-1]
		most := slices.IndexFunc(all, func(r row) bool { return compareRows(r, last) > 0 })
		if most >= 0 && n > most {
			t.Fatalf("%d rows before the cut, want at most %d", n, most)
		}
	}
	for p := range parts {
		if c.Short(&walks[p]) {
			t.Fatalf("part %d of %d is short although it has told of all rows", p, len(parts))
		}
		if got := before(parts[p]); c.Rows[p] < got || exact && c.Rows[p] != got {
			t.Fatalf("part %d has %d rows before the cut, told are %d", p, got, c.Rows[p])
		}
	}
}

// parted says whether the runs tell values, which is so if there are none.
func (w *Walk) parted() bool { return len(w.Runs) == 0 || w.Runs[0].Parted }

// TestCutOfNothing: parts without rows, or that tell of none, give no end.
func TestCutOfNothing(t *testing.T) {
	if c := Of(nil, 3); c.End != nil {
		t.Errorf("end %x of no parts", c.End)
	}
	w := Walk{End: []byte{1}}
	c := Of([]Walk{w, {}}, 3)
	if c.End != nil || !c.Short(&w) || c.Short(&Walk{}) {
		t.Errorf("end %x, short %t", c.End, c.Short(&w))
	}
}

// TestCutBehindTheLastGroup: runs whose keys cannot be exceeded, those of values that are
// missing in a falling order, are before the cut.
func TestCutBehindTheLastGroup(t *testing.T) {
	c := Of([]Walk{{Runs: []Run{{Key: []byte{0xFF}, N: 5}}}}, 3)
	if bytes.Compare(append([]byte{0xFF, 0xFF, 0xFF}, bytes.Repeat([]byte{0xFE}, 40)...), c.End) >= 0 {
		t.Errorf("end %x", c.End)
	}
}
