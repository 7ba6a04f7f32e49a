package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/internal/workload"
)

// spreadStore returns a container with n documents of the cliffs in so many physical
// partitions, with a composite index too. The property "when" rises with the partition key,
// so that one physical partition has the first of its values.
func spreadStore(t *testing.T, n, partitions int) *Container {
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes, opts.FileBytes = 32<<20, 1<<20
	policy := IndexAll()
	policy.Composite = [][]CompositePath{{{Path: "/tenth"}, {Path: "/name", Descending: true}}}
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: partitions, Index: policy})
	keys := make([]int, 97)
	for i := range keys {
		keys[i] = i
	}
	slices.SortFunc(keys, func(a, b int) int {
		return cmp.Compare(epkText(fmt.Sprintf("k%d", a)), epkText(fmt.Sprintf("k%d", b)))
	})
	place := make([]int, len(keys))
	for at, key := range keys {
		place[key] = at
	}
	for i := range n {
		body := strings.TrimSuffix(string(workload.CliffDocument(nil, i, n)), "}") + fmt.Sprintf(`,"when":%d}`, place[i%97]*n+i)
		must(t, second(c.Upsert(t.Context(), []byte(body), nil)))
	}
	must(t, db.Compact(t.Context()))
	return c
}

// epkText returns the EPK of the logical partition with a string for its key.
func epkText(key string) string {
	epk := StringKey(key).EPK()
	return string(epk.Bytes())
}

// TestOrderSpread: the pages of an order by an index take as many documents, and little more
// of other work, of four physical partitions and of ten as of one: the first page and one far
// behind, in both directions, whether a filter decides, by one path, by two or by a composite
// index, and where one of the partitions has all the first results. The results are the same.
func TestOrderSpread(t *testing.T) {
	n := amount(20_000, 8_000, 4_000)
	one := spreadStore(t, n, 1)
	for _, partitions := range []int{4, 10} {
		many := spreadStore(t, n, partitions)
		for _, text := range []string{
			`SELECT * FROM c ORDER BY c.u`,
			`SELECT * FROM c ORDER BY c.u DESC`,
			`SELECT c.u FROM c ORDER BY c.name DESC`,
			`SELECT * FROM c ORDER BY c.when`,
			`SELECT * FROM c ORDER BY c.when DESC`,
			`SELECT * FROM c ORDER BY c.half`,
			`SELECT * FROM c ORDER BY c.note`,
			`SELECT * FROM c ORDER BY c.note DESC`,
			`SELECT * FROM c WHERE c.u > 500 ORDER BY c.u`,
			`SELECT * FROM c WHERE c.half = 1 ORDER BY c.u`,
			`SELECT * FROM c WHERE c.u % 2 = 1 ORDER BY c.u`,
			`SELECT * FROM c ORDER BY c.half, c.u`,
			`SELECT * FROM c ORDER BY c.half DESC, c.u DESC`,
			`SELECT * FROM c ORDER BY c.note DESC, c.u`,
			`SELECT * FROM c ORDER BY c.tenth, c.name DESC`,
			`SELECT * FROM c WHERE c.tenth = 3 ORDER BY c.name`,
		} {
			for _, limit := range []int{10, 100} {
				for _, skip := range []int{0, n / 40} {
					t.Run(fmt.Sprintf("%d/%s/%d behind %d", partitions, text, limit, skip), func(t *testing.T) {
						for range 12 { // at first it may learn something of the indexes
							pageOf(t, one, text, limit, skip)
							pageOf(t, many, text, limit, skip)
						}
						want, at := pageOf(t, one, text, limit, skip)
						got, in := pageOf(t, many, text, limit, skip)
						if !slices.Equal(got, want) {
							t.Errorf("%d results, want %d, or others", len(got), len(want))
						}
						if most := 1.1*float64(at.Documents) + 12; float64(in.Documents) > most {
							t.Errorf("%d documents, %d of one partition", in.Documents, at.Documents)
						}
						if most := 1.5*work(at) + float64(12+3*partitions); work(in) > most {
							t.Errorf("%.0f documents' worth of work, %.0f in one partition: %+v, %+v", work(in), work(at), in, at)
						}
						if most := 1.1*at.Charge + 12 + 2.3*float64(partitions*in.Passes); in.Charge > most {
							t.Errorf("%.0f RU, %.0f in one partition", in.Charge, at.Charge)
						}
					})
				}
			}
		}
	}
}

// pageOf returns the ids, or rows, of a page behind so many results, and what it cost.
func pageOf(t *testing.T, c *Container, text string, limit, skip int) (page []string, st QueryStats) {
	t.Helper()
	q, err := ParseQuery(text, nil)
	must(t, err)
	for _, q.Limit = range []int{skip, limit} {
		if q.Limit == 0 {
			continue
		}
		page = nil
		r := c.Query(t.Context(), AllPartitions(), q)
		for it, err := range r.All() {
			must(t, err)
			page = append(page, it.ID+" "+string(it.Body))
		}
		st, q.Continue = r.Stats(), r.Continue()
	}
	return page, st
}
