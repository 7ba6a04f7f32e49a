package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestOrderTiesInsideOneValue: among candidates with one value at the first path, which are
// walked by the second one, the last place may be tied between files. Files that do not have
// that value, and had ties at an earlier one, keep all that they have given.
func TestOrderTiesInsideOneValue(t *testing.T) {
	old := exec.Limits
	t.Cleanup(func() { exec.Limits = old })
	exec.Limits.Inside = 1
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexAll()})
	type row struct {
		n, m int
		id   string
	}
	var rows []row
	rng := randtest.New(t)
	for i := range 240 {
		r := row{rng.IntN(60), rng.IntN(4), fmt.Sprintf("%03d", i)}
		rows = append(rows, r)
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":%q,"k":1,"n":%d,"m":%d}`, r.id, r.n, r.m), nil)))
		if i%30 == 29 {
			must(t, db.Flush(t.Context()))
		}
	}
	for _, second := range []string{"/n", "/m"} {
		slices.SortFunc(rows, func(a, b row) int {
			if second == "/m" {
				return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.m, b.m), cmp.Compare(a.id, b.id))
			}
			return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.id, b.id))
		})
		for _, page := range []int{1, 2, 3, 5} {
			q := Query{OrderBy: []QueryOrder{{Path: "/n"}, {Path: second}}, Limit: page}
			got := idsInPages(t, c, q)
			for i, r := range rows {
				if i >= len(got) || got[i] != r.id {
					t.Fatalf("order by /n, %s in pages of %d: result %d of %d is not %s", second, page, i, len(got), r.id)
				}
			}
		}
	}
}

// TestOrderBehindCutString: a page ends at a string that its term has only the beginning of.
// The next one goes on among such strings, not among those that are this beginning, whose
// rows have all been given, or, falling, come afterwards.
func TestOrderBehindCutString(t *testing.T) {
	old := exec.Limits
	t.Cleanup(func() { exec.Limits = old })
	exec.Limits.Inside = 2
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexAll()})
	type row struct {
		s  string
		n  int
		id string
	}
	var rows []row
	rng := randtest.New(t)
	beginning := strings.Repeat("p", index.MaxString)
	for i := range 240 {
		r := row{beginning + []string{"", "", "a", "b"}[rng.IntN(4)], rng.IntN(60), fmt.Sprintf("%03d", i)}
		rows = append(rows, r)
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":%q,"k":1,"s":%q,"n":%d}`, r.id, r.s, r.n), nil)))
		if i%80 == 79 {
			must(t, db.Flush(t.Context()))
		}
	}
	for _, falling := range []bool{false, true} {
		slices.SortFunc(rows, func(a, b row) int {
			s := cmp.Compare(a.s, b.s)
			if falling {
				s = -s
			}
			return cmp.Or(s, cmp.Compare(a.n, b.n), cmp.Compare(a.id, b.id))
		})
		for _, page := range []int{1, 2, 5} {
			q := Query{OrderBy: []QueryOrder{{Path: "/s", Desc: falling}, {Path: "/n"}}, Limit: page}
			got := idsInPages(t, c, q)
			for i, r := range rows {
				if i >= len(got) || got[i] != r.id {
					t.Fatalf("falling %v in pages of %d: result %d of %d is not %s", falling, page, i, len(got), r.id)
				}
			}
		}
	}
}
