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

// TestOrderRanked: pages of an order by three paths, of which a page wants some of the
// documents with one value at the first two, read about one document for each result once they
// have read as many for nothing as it takes to learn the order of all values at the third path.
// That path may have no value in a document, or one that others have, and files may be several.
func TestOrderRanked(t *testing.T) {
	const n, page = 6000, 10
	type row struct {
		a, b, u int
		id      string
	}
	rng := randtest.New(t)
	for _, files := range []int{1, 3} {
		opts := testOptions(vfs.NewMem())
		opts.memtableBytes = 32 << 20
		db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexAll()})
		var rows []row
		for i := range n {
			r := row{i % 10, i / 10 % 12, i * 7919 % n, fmt.Sprintf("%05d", i)}
			u := ""
			switch rng.IntN(8) {
			case 0:
				r.u = -1
			case 1:
				r.u = i * 7919 % 3
				fallthrough
			default:
				u = fmt.Sprintf(`,"u":%d`, r.u)
			}
			rows = append(rows, r)
			must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":%q,"k":1,"a":%d,"b":%d%s}`, r.id, r.a, r.b, u), nil)))
			if files > 1 && i%(n/files) == n/files-1 {
				must(t, db.Flush(t.Context()))
			}
		}
		if files == 1 {
			must(t, db.Compact(t.Context()))
		}
		for _, falling := range []bool{false, true} {
			slices.SortFunc(rows, func(a, b row) int {
				u := cmp.Compare(a.u, b.u)
				if falling {
					u = -u
				}
				return cmp.Or(cmp.Compare(a.a, b.a), cmp.Compare(a.b, b.b), u, cmp.Compare(a.id, b.id))
			})
			q := Query{OrderBy: []QueryOrder{{Path: "/a"}, {Path: "/b"}, {Path: "/u", Desc: falling}}, Limit: page}
			var ids []string
			var documents, terms int64
			for more := true; more; more = q.Continue != "" {
				r := c.Query(t.Context(), AllPartitions(), q)
				for it, err := range r.All() {
					must(t, err)
					ids = append(ids, it.ID)
				}
				q.Continue = r.Continue()
				documents, terms = documents+r.Stats().Documents, terms+r.Stats().Terms
			}
			for i, r := range rows {
				if i >= len(ids) || ids[i] != r.id {
					t.Fatalf("%d files, falling %t: result %d of %d is not %s", files, falling, i, len(ids), r.id)
				}
			}
			worth := n/exec.Limits.TermsPerDocument + 200
			if most := int64(float64(n)*1.3*float64(min(files, 2))) + worth; documents > most {
				t.Errorf("%d files, falling %t: %d documents for %d results in pages of %d, want at most %d; %d terms", files, falling, documents, n, page, most, terms)
			}
		}
	}
}
