package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/value"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestQueryOfNothing: TOP 0 is a query that has no results and reads nothing, also
// of aggregates, and without an index.
func TestQueryOfNothing(t *testing.T) {
	for _, policy := range []IndexPolicy{{}, IndexAll()} {
		c := queryStore(t, policy)
		for _, text := range []string{
			`SELECT TOP 0 * FROM c WHERE c.n > 1`, `SELECT TOP 0 COUNT(1) FROM c`, `SELECT TOP 0 VALUE MAX(c.n) FROM c`,
			`SELECT c.k, COUNT(1) FROM c GROUP BY c.k LIMIT 0`, `SELECT DISTINCT c.k FROM c OFFSET 2 LIMIT 0`, `SELECT TOP 0 c.n FROM c ORDER BY c.n`,
		} {
			q, err := ParseQuery(text, nil)
			if err != nil {
				t.Fatal(err)
			}
			q.NoScan = true
			r := c.Query(context.Background(), AllPartitions(), q)
			list, err := results(r)
			if st := r.Stats(); err != nil || len(list) != 0 || r.Continue() != "" || st.Documents != 0 {
				t.Errorf("%s: %v, %v, continue %q, %+v", text, list, err, r.Continue(), st)
			}
			if _, err := c.Explain(context.Background(), AllPartitions(), q); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// TestSubqueryOfSeveral: a subquery in an expression that has two results for a document is a fault of the query.
func TestSubqueryOfSeveral(t *testing.T) {
	c := queryStore(t, IndexPolicy{})
	must(t, second(c.Upsert(t.Context(), []byte(`{"id":"two","k":1,"list":[1,2]}`), nil)))
	const sub = `(SELECT VALUE x FROM x IN c.list)`
	for _, text := range []string{
		`SELECT VALUE ` + sub + ` FROM c`, `SELECT * FROM c WHERE c.n = ` + sub, `SELECT VALUE c.n FROM c ORDER BY ` + sub,
		`SELECT COUNT(1) AS n FROM c GROUP BY ` + sub, `SELECT VALUE COUNT(1) FROM c JOIN y IN c.list WHERE y = ` + sub,
	} {
		q, err := ParseQuery(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		var where *QuerySyntaxError
		if _, err = results(c.Query(context.Background(), AllPartitions(), q)); !errors.Is(err, ErrInvalid) || !errors.As(err, &where) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestFailedConditionEnds: a condition that cannot be tested for a document ends the query. No other document is
// tested.
func TestFailedConditionEnds(t *testing.T) {
	broken, tested := errors.New("broken"), 0
	fails := eval.UDF(func([]value.Value) (value.Value, error) {
		tested++
		return value.Value{}, broken
	})
	for _, policy := range []IndexPolicy{{}, IndexAll()} {
		db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: policy})
		for i := range 50 {
			must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"i%02d","k":1,"n":%d,"t":[%d]}`, i, i, i), nil)))
		}
		must(t, db.Flush(t.Context()))
		for _, text := range []string{
			`SELECT * FROM c WHERE udf.fails(c.n)`, `SELECT TOP 5 c.n FROM c WHERE udf.fails(c.n)`, `SELECT c.n + 1 AS m FROM c WHERE udf.fails(c.n)`,
			`SELECT c.n FROM c WHERE udf.fails(c.n) ORDER BY c.n`, `SELECT TOP 5 * FROM c WHERE udf.fails(c.n) ORDER BY c.n DESC`,
			`SELECT t FROM c JOIN t IN c.t WHERE udf.fails(c.n) ORDER BY t`, `SELECT VALUE LOWER(c.id) FROM c WHERE udf.fails(c.n) ORDER BY LOWER(c.id)`,
			`SELECT VALUE COUNT(1) FROM c WHERE udf.fails(c.n)`, `SELECT c.n, COUNT(1) AS many FROM c WHERE udf.fails(c.n) GROUP BY c.n`,
		} {
			q, err := ParseQuery(text, map[string]any{"udf.fails": fails})
			must(t, err)
			tested = 0
			if list, err := results(c.Query(t.Context(), AllPartitions(), q)); !errors.Is(err, broken) || len(list) > 0 || tested != 1 {
				t.Errorf("%s: %d results, %d documents are tested, error %v", text, len(list), tested, err)
			}
		}
	}
}

// TestOrderOfGroups: groups may be asked for in the order that they have.
func TestOrderOfGroups(t *testing.T) {
	c := queryStore(t, IndexAll())
	for text, want := range map[string]string{
		`SELECT DISTINCT VALUE c.s FROM c ORDER BY c.s`:                            `"text 0" "text 1" "text 2" "text 3" "text 4" "text 5" "text 6"`,
		`SELECT DISTINCT c.k, c.s FROM c WHERE c.n < 3 ORDER BY c.k`:               `{"k":0,"s":"text 0"} {"k":1,"s":"text 1"} {"k":2,"s":"text 2"}`,
		`SELECT c.k k2, COUNT(1) n FROM c WHERE c.k < 2 GROUP BY c.k ORDER BY c.k`: `{"k2":0,"n":20} {"k2":1,"n":20}`,
	} {
		q, err := ParseQuery(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for q.Limit = 2; ; {
			r := c.Query(context.Background(), AllPartitions(), q)
			list, err := results(r)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, list...)
			if q.Continue = r.Continue(); q.Continue == "" {
				break
			}
		}
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestQueryErrorsAreShort: an error does not repeat what somebody has written in
// full.
func TestQueryErrorsAreShort(t *testing.T) {
	c := queryStore(t, IndexPolicy{})
	long := strings.Repeat("x", 1<<20)
	for _, q := range []Query{
		{Where: Eq("/s", long), NoScan: true}, {Where: Eq("/"+long, 1), NoScan: true}, {Where: Eq(long, 1)}, {Where: Eq("/"+long, []int{1})}, {Where: Eq("/s", long+long+long)},
		{Where: And(Eq("/s", long+"1"), Eq("/s", long))}, {OrderBy: []QueryOrder{{Path: "/" + long + "/[]"}}}, {Fields: []QueryField{{Path: "/a", As: long}, {Path: "/b", As: long}}},
		{Where: HasPrefix("/"+long, "x"), Fields: []QueryField{{Path: "/" + long}, {Aggregate: AggregateCount}}}, {Continue: long}, {Where: Range("/"+long, Incl(1), Incl("x"))},
	} {
		_, err := results(c.Query(context.Background(), AllPartitions(), q))
		if err == nil || len(err.Error()) > 400 {
			t.Errorf("an error of %d bytes: %.200s", len(err.Error()), err)
		}
		if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrNeedsScan) && !errors.Is(err, ErrBadContinuation) {
			t.Errorf("%.200v", err)
		}
	}
	if _, err := ParseETag(long); err == nil || len(err.Error()) > 400 {
		t.Error("an etag")
	}
	if _, err := ParseKey(`["` + long); err == nil || len(err.Error()) > 400 {
		t.Errorf("a partition key: %d bytes", len(err.Error()))
	}
}
