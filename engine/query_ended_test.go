package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/value"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestQueriesEnd: the work on the index of one partition and on its documents looks at the
// context, and what ends it is no damage of the store.
func TestQueriesEnd(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	var damage atomic.Int64
	opts.Events = &EventListener{CorruptionFound: func(error) { damage.Add(1) }}
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	var list []string
	for i := range 2000 {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":1,"u":"%d","t":["%d"]}`, i, i, i), nil); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("'%d'", i))
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`SELECT c.u, COUNT(1) FROM c GROUP BY c.u`,
		`SELECT SUM(c.u) FROM c`,
		`SELECT COUNT(1) FROM c WHERE c.u IN (` + strings.Join(list, ",") + `) OR c.u = 'x'`,
		`SELECT TOP 1500 c.u FROM c ORDER BY c.u`,
		`SELECT * FROM c WHERE LOWER(c.u) = '7'`,
	} {
		q, err := ParseQuery(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := results(c.Query(&randtest.AskedContext{Context: ctx, Left: 100}, AllPartitions(), q)); !errors.Is(err, context.Canceled) {
			t.Errorf("%.60s: %v", text, err)
		}
		if all, err := results(c.Query(ctx, AllPartitions(), q)); err != nil || len(all) == 0 {
			t.Errorf("%.60s: %d results, %v", text, len(all), err)
		}
	}
	if damage.Load() > 0 || db.Stats().ReadErrors > 0 {
		t.Errorf("%d events of damage, %+v", damage.Load(), db.Stats().ReadErrors)
	}
}

// TestLongDocumentsEnd: what a query computes of one document ends with its context, in its filter and in
// its results.
func TestLongDocumentsEnd(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1})
	must(t, second(c.Upsert(t.Context(), []byte(`{"id":"a","k":1,"a":[`+strings.Repeat("1,", 399)+`1]}`), nil)))
	others := make([]string, 500)
	for i := range others {
		others[i] = fmt.Sprint("c.a[] = ", i+2)
	}
	for _, text := range []string{
		`SELECT VALUE COUNT(1) FROM c JOIN p IN c.a JOIN q IN c.a`,
		`SELECT * FROM c WHERE NOT EXISTS(SELECT VALUE 1 FROM p IN c.a JOIN q IN c.a WHERE p + q = 3)`,
		`SELECT * FROM c WHERE NOT (` + strings.Join(others, " OR ") + `)`,
	} {
		q, err := ParseQuery(text, nil)
		must(t, err)
		if _, err := results(c.Query(&randtest.AskedContext{Context: t.Context(), Left: 100}, AllPartitions(), q)); !errors.Is(err, context.Canceled) {
			t.Errorf("%.60s: %v", text, err)
		}
		if all, err := results(c.Query(t.Context(), AllPartitions(), q)); err != nil || len(all) != 1 {
			t.Errorf("%.60s: %d results, %v", text, len(all), err)
		}
	}
}

// TestContinueAfterError: when a query has ended with an error, its continuation goes on behind
// the latest result that was given, and before the first one it passes over as many as the query
// wants. It ends between the batches of a scan, and in a document.
func TestContinueAfterError(t *testing.T) {
	const n, few = 400, 60
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexAll()})
	for i := range n {
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"%03d","k":1,"n":%d,"t":[%d,%d]}`, i, i, i, i+1), nil)))
	}
	bad := -1 // the document in which it ends
	tell := eval.UDF(func(args []value.Value) (value.Value, error) {
		if f, _ := args[0].Number(); int(f) == bad {
			return value.Value{}, errors.New("ended")
		}
		return args[0], nil
	})
	for _, text := range []string{
		`SELECT * FROM c OFFSET 300 LIMIT 60`,
		`SELECT VALUE udf.tell(c.n) FROM c OFFSET 300 LIMIT 60`,
		`SELECT udf.tell(c.n) AS n FROM c OFFSET 300 LIMIT 60`,
		`SELECT VALUE udf.tell(c.n) + t FROM c JOIN t IN c.t OFFSET 601 LIMIT 60`,
		`SELECT VALUE udf.tell(c.n) + t FROM c JOIN t IN c.t ORDER BY c.n OFFSET 601 LIMIT 60`,
		`SELECT VALUE udf.tell(c.n) FROM c ORDER BY c.n DESC OFFSET 300 LIMIT 60`,
		`SELECT VALUE udf.tell(c.n) FROM c ORDER BY c.n * 2 OFFSET 300 LIMIT 60`,
		`SELECT DISTINCT VALUE udf.tell(c.n) FROM c OFFSET 300 LIMIT 60`,
	} {
		q, err := ParseQuery(text, map[string]any{"udf.tell": tell})
		must(t, err)
		want, err := results(c.Query(t.Context(), AllPartitions(), q))
		must(t, err)
		if len(want) != few {
			t.Fatalf("%s: %d results", text, len(want))
		}
		goesOn := func(ended *QueryResult, got []string) {
			t.Helper()
			rest := q
			rest.Continue, rest.Limit = ended.Continue(), few-len(got)
			more, err := results(c.Query(t.Context(), AllPartitions(), rest))
			if all := slices.Concat(got, more); err != nil || !slices.Equal(all, want) {
				t.Errorf("%s: %d results and then %d, %v, want %d, or others", text, len(got), len(more), err, len(want))
			}
		}
		for bad = 0; bad < n; bad += lone(7) {
			r := c.Query(t.Context(), AllPartitions(), q)
			got, err := results(r)
			if now := bad; err != nil {
				bad = -1
				goesOn(r, got)
				bad = now
			}
		}
		bad = -1
		for left := int(newSeed(t) % uint64(lone(5))); ; left += lone(5) {
			r := c.Query(&randtest.AskedContext{Context: t.Context(), Left: left}, AllPartitions(), q)
			got, err := results(r)
			if err == nil {
				break
			}
			goesOn(r, got)
		}
	}
}

// TestContinueAfterPasses: so it is behind each of the passes in which an order that has no room is made.
func TestContinueAfterPasses(t *testing.T) {
	withOrderMemory(t, 2<<10)
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1})
	for i := range 30 {
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"%03d","k":1,"n":%d}`, i, i), nil)))
	}
	left := -1 // calls until it fails; below 0: it does not
	tell := eval.UDF(func(args []value.Value) (value.Value, error) {
		if left--; left == 0 {
			return value.Value{}, errors.New("ended")
		}
		return args[0], nil
	})
	for _, text := range []string{`SELECT VALUE udf.tell(c.n) FROM c ORDER BY c.n * -1`, `SELECT DISTINCT VALUE udf.tell(c.n) % 20 FROM c`} {
		q, err := ParseQuery(text, map[string]any{"udf.tell": tell})
		must(t, err)
		want, err := results(c.Query(t.Context(), AllPartitions(), q))
		must(t, err)
		parts := 0 // queries that have ended between two results
		for calls := 1; ; calls += 3 {
			left = calls
			r := c.Query(t.Context(), AllPartitions(), q)
			got, err := results(r)
			if err == nil {
				break
			}
			rest := q
			if rest.Continue = r.Continue(); len(got) > 0 {
				parts++
			}
			more, err := results(c.Query(t.Context(), AllPartitions(), rest))
			if all := slices.Concat(got, more); err != nil || !slices.Equal(all, want) {
				t.Fatalf("%s: %d results and then %d, %v, want %d, or others", text, len(got), len(more), err, len(want))
			}
		}
		if parts == 0 {
			t.Errorf("%s: no query has ended between two results", text)
		}
		left = -1
	}
}
