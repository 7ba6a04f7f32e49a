package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
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

// TestOrderSpread: the pages of an order by an index read as many documents of four physical
// partitions and of ten as of one, and walk as many terms, but for a few to look up values of
// the filter in each: the first page and one far behind, in both directions, whether a filter decides, by one path, by two or by a composite
// index, and where one of the partitions has all the first results. The results are the same.
func TestOrderSpread(t *testing.T) {
	n, seed := amount(20_000, 8_000, 4_000), newSeed(t)
	one := spreadStore(t, n, 1)
	for _, partitions := range []int{4, 10} {
		many := spreadStore(t, n, partitions)
		for i, text := range []string{
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
			if (uint64(i)+seed)%uint64(lone(1)) != 0 {
				continue
			}
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
						if in.Documents > at.Documents+2 {
							t.Errorf("%d documents, %d of one partition", in.Documents, at.Documents)
						}
						// A look at the terms of one partition after the other would take as many of each.
						if most := at.Terms + int64(6*partitions); in.Terms > most {
							t.Errorf("%d terms, %d of one partition", in.Terms, at.Terms)
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

// changing is a context that calls change whenever an execution asks for its end between two
// steps over its partitions, outside of calls on the store.
type changing struct {
	context.Context
	change func()
}

func (c *changing) Err() error {
	if pc, _, _, ok := runtime.Caller(1); ok && strings.HasSuffix(runtime.FuncForPC(pc).Name(), ".(*Execution).each") {
		c.change()
	}
	return c.Context.Err()
}

// TestOrderWhilePartitionsChange: pages of an order are right while files are replaced and
// partitions split between the choice of the candidates and the reading of their documents.
func TestOrderWhilePartitionsChange(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	n := 1200
	c := spreadStore(t, n, 3)
	changes := 0
	var more []func()
	ctx := &changing{Context: t.Context()}
	ctx.change = func() {
		changes++
		if len(more) == 0 {
			return
		}
		next := more[0]
		more = more[1:]
		next()
	}
	write := func() {
		for i := 0; i < n; i += 7 {
			body := strings.TrimSuffix(string(workload.CliffDocument(nil, i, n)), "}") + `,"when":1}`
			must(t, second(c.Upsert(t.Context(), []byte(body), nil)))
		}
	}
	compact := func() { must(t, c.db.Compact(t.Context())) }
	split := func() {
		parts := c.Partitions()
		job, err := c.Split(t.Context(), parts[changes%len(parts)].ID, nil)
		must(t, err)
		if err := job.Wait(t.Context()); !errors.Is(err, ErrRefused) {
			must(t, err)
		}
	}
	for _, text := range []string{
		`SELECT VALUE c.u FROM c ORDER BY c.u`,
		`SELECT VALUE c.u FROM c ORDER BY c.u DESC`,
		`SELECT VALUE c.u FROM c WHERE c.u % 2 = 1 ORDER BY c.u`,
		`SELECT VALUE c.u FROM c ORDER BY c.half, c.u`,
		`SELECT VALUE c.u FROM c ORDER BY c.tenth, c.name DESC`,
		`SELECT VALUE c.u FROM c ORDER BY c.note`,
	} {
		q, err := ParseQuery(text, nil)
		must(t, err)
		q.Limit = 50
		pages := func(ctx context.Context) (rows []string) {
			for q.Continue = ""; len(rows) == 0 || q.Continue != ""; {
				r := c.Query(ctx, AllPartitions(), q)
				for it, err := range r.All() {
					must(t, err)
					rows = append(rows, string(it.Body))
				}
				q.Continue = r.Continue()
			}
			return rows
		}
		want := pages(t.Context())
		changes, more = 0, []func(){write, compact, split, write, compact}
		if got := pages(ctx); !slices.Equal(got, want) {
			t.Errorf("%s: %d results, want %d, or others", text, len(got), len(want))
		}
		if len(more) > 0 {
			t.Fatalf("%s: %d changes were made", text, changes)
		}
	}
}
