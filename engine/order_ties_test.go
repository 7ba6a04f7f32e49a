package engine

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

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
