package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/internal/workload"
)

// cliffStore returns a container with n documents of the cliffs, all indexed, in one
// physical partition and one run.
func cliffStore(t *testing.T, n int, policy IndexPolicy) *Container {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes, opts.FileBytes = 32<<20, 1<<20
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: policy})
	for i := range n {
		if _, err := c.Upsert(ctx, workload.CliffDocument(nil, i, n), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// work is what a query costs, in documents: those that it reads, and the terms that it
// looks at, of which about twenty take as long.
func work(st QueryStats) float64 { return float64(st.Documents) + float64(st.Terms)/20 }

// firstTime is the share of a scan that a query may cost more when its file is new, or what
// queries have learnt from it was forgotten: it looks at each term of a path once.
const firstTime = 0.055

// TestQueryCliffs bounds the work of queries that an index answers with little, by counting
// it. Each is asked twice: the first time it may have to learn something of the indexes. Orders of several paths are
// asked again where a composite index has them.
func TestQueryCliffs(t *testing.T) {
	n := amount(20_000, 8_000, 4_000)
	shapes := workload.Cliffs(n)
	t.Run("all", func(t *testing.T) { boundCliffs(t, cliffStore(t, n, IndexAll()), n, shapes) })
	t.Run("composite", func(t *testing.T) {
		policy := IndexAll()
		var some []workload.Cliff
		for _, shape := range shapes {
			if shape.Composite == "" {
				continue
			}
			paths, err := index.ParseComposite(shape.Composite)
			if err != nil {
				t.Fatal(err)
			}
			policy.Composite = append(policy.Composite, paths)
			shape.Share = 2
			some = append(some, shape)
		}
		if len(some) < 4 {
			t.Fatalf("%d shapes name a composite index", len(some))
		}
		boundCliffs(t, cliffStore(t, n, policy), n, some)
	})
}

// boundCliffs asks n documents for shapes.
func boundCliffs(t *testing.T, c *Container, n int, shapes []workload.Cliff) {
	ctx := context.Background()
	read := func(q Query) (results int, spent float64) {
		t.Helper()
		r := c.Query(ctx, AllPartitions(), q)
		for _, err := range r.All() {
			if err != nil {
				t.Fatal(err)
			}
			results++
		}
		return results, work(r.Stats())
	}
	for _, shape := range shapes {
		t.Run(shape.Name, func(t *testing.T) {
			q, err := ParseQuery(shape.Text, nil)
			if err != nil {
				t.Fatal(err)
			}
			all, whole := read(q)
			if shape.Page == 0 {
				_, again := read(q)
				if most := shape.Share * float64(n); whole > most+firstTime*float64(n) || again > most {
					t.Errorf("%.0f documents' worth of work for %d results, then %.0f, want at most %.0f", whole, all, again, most)
				}
				return
			}
			var pages int
			var paged float64
			got := 0
			q.Limit = shape.Page
			for {
				r := c.Query(ctx, AllPartitions(), q)
				for _, err := range r.All() {
					if err != nil {
						t.Fatal(err)
					}
					got++
				}
				pages++
				paged += work(r.Stats())
				if q.Continue = r.Continue(); q.Continue == "" {
					break
				}
				if len(q.Continue) > 1<<10 {
					t.Errorf("a continuation of %d bytes", len(q.Continue))
				}
			}
			if most := shape.Share*whole + float64(2*pages); got != all || paged > most {
				t.Errorf("%d of %d results in %d pages: %.0f documents' worth of work, want at most %.0f; all at once take %.0f", got, all, pages, paged, most, whole)
			}
		})
	}
}

// TestQueryManyValues: an IN of many values counts and finds what has one of them, in
// several files of a run, whatever their order, and those that are there twice once.
func TestQueryManyValues(t *testing.T) {
	const n = 3000
	c := cliffStore(t, n, IndexAll())
	var values []any
	for u := n + 100; u > 0; u -= 7 {
		values = append(values, u, u)
	}
	want := 0
	for u := n + 100; u > 0; u -= 7 {
		if u < n {
			want++
		}
	}
	f := In("/u", values...)
	if got, err := c.Count(t.Context(), AllPartitions(), f); err != nil || got != int64(want) {
		t.Errorf("%d documents, want %d: %v", got, want, err)
	}
	seen := make(map[string]bool)
	q := Query{Where: f, Limit: 10}
	for more := true; more; more = q.Continue != "" {
		r := c.Query(t.Context(), AllPartitions(), q)
		for it, err := range r.All() {
			if err != nil {
				t.Fatal(err)
			}
			seen[it.ID] = true
		}
		q.Continue = r.Continue()
	}
	for i := range n {
		if id, in := fmt.Sprintf("%06d", i), (n+100-i*7919%n)%7 == 0 && i*7919%n > 0; seen[id] != in {
			t.Errorf("%s is found: %t", id, !in)
		}
	}
}

// TestQueryContains: with CONTAINS a query reads the documents whose string has the text, or
// is too long for a term to tell; so do its negation, its pages, and its order.
func TestQueryContains(t *testing.T) {
	ctx := t.Context()
	opts := testOptions(vfs.NewMem())
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexAll()})
	const n = 3000
	pad := func(length int) string { return strings.Repeat("·", length/2) } // two bytes each
	var has, long int
	for i := range n {
		s := fmt.Sprintf(`"s%d"`, i)
		switch {
		case i%100 == 7:
			s = `["needle"]` // no string
		case i%100 == 8:
			s = `"a n\u0065edle"`
			has++
		case i%500 == 9:
			s = `"` + pad(58) + `needle"` // 64 bytes: as long as a term may be
			has++
		case i%500 == 10:
			s = `"` + pad(60) + `needle"` // behind the cut, and over it
			has, long = has+1, long+1
		case i%500 == 11:
			s = `"` + pad(90) + `"`
			long++
		}
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":%d,"u":%d,"s":%s,"tags":[%s,1]}`, i, i%7, i*7919%n, s, s), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text       string
		want, read int
	}{
		{`SELECT * FROM c WHERE CONTAINS(c.s, 'needle')`, has, has + long - n/500},
		{`SELECT * FROM c WHERE CONTAINS(c.tags[], 'needle')`, has, has + long - n/500},
		{`SELECT * FROM c WHERE NOT CONTAINS(c.s, 'needle')`, n - n/100 - has, n - n/100},
		{`SELECT * FROM c WHERE CONTAINS(c.s, '')`, n - n/100, n - n/100},
		{`SELECT VALUE COUNT(1) FROM c WHERE CONTAINS(c.s, 'needle')`, 1, has + long - n/500},
		{`SELECT * FROM c WHERE CONTAINS(c.s, 'needle') ORDER BY c.u`, has, has + long - n/500},
	} {
		q, err := ParseQuery(test.text, nil)
		if err != nil {
			t.Fatal(err)
		}
		read := func(limit int) (results int, documents int64) {
			q.Limit, q.Continue = limit, ""
			for more := true; more; more = q.Continue != "" {
				r := c.Query(ctx, AllPartitions(), q)
				for _, err := range r.All() {
					if err != nil {
						t.Fatal(err)
					}
					results++
				}
				q.Continue = r.Continue()
				documents += r.Stats().Documents
			}
			return results, documents
		}
		if got, documents := read(0); got != test.want || documents != int64(test.read) {
			t.Errorf("%s: %d results of %d documents, want %d of %d", test.text, got, documents, test.want, test.read)
		}
		if got, _ := read(5); got != test.want {
			t.Errorf("%s: %d results in pages, want %d", test.text, got, test.want)
		}
	}
}

// asked counts how often the end of a context is asked for: with each block of terms, and with
// each version, that a query looks at.
type asked struct {
	context.Context
	times int
}

func (c *asked) Err() error {
	c.times++
	return c.Context.Err()
}

// TestQueryAmongExpired: a query, and a count, in one logical partition looks at no more of an
// index where many items of other logical partitions have expired, each at a time of its own.
func TestQueryAmongExpired(t *testing.T) {
	n := amount(30_000, 30_000, 8000)
	keys := n / 4
	for name, def := range map[string]ContainerDef{"fixed": {}, "mutable": {MutableTTL: true}} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions(vfs.NewMem())
			opts.memtableBytes, opts.FileBytes = 32<<20, 32<<20
			clock := newTestClock(opts)
			def.PartitionKey, def.MinPartitions, def.DefaultTTL, def.Index = []string{"/k"}, 1, time.Hour, IndexAll()
			db, c := openStore(t, opts, def)
			for i := range n {
				clock.pass(time.Millisecond)
				must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"%d","k":%d,"n":%d}`, i, i%keys, i%10), nil)))
			}
			must(t, db.Flush(t.Context()))
			in := OnePartition(NumberKey(float64(keys - 1)))
			look := func() (results, times int) {
				ctx := &asked{Context: t.Context()}
				for _, err := range c.Query(ctx, in, Query{Where: Eq("/n", 9)}).All() {
					must(t, err)
					results++
				}
				count, err := c.Count(ctx, in, Eq("/n", 9))
				must(t, err)
				if int(count) != results {
					t.Errorf("%d results, and a count of %d", results, count)
				}
				return results, ctx.times
			}
			before, times := look()
			clock.pass(time.Hour - time.Duration(n/2)*time.Millisecond)
			after, again := look()
			if before != 4 || after != 2 || again > times+20 {
				t.Errorf("%d results, and of half of the items %d, looked at with %d and %d steps", before, after, times, again)
			}
		})
	}
}
