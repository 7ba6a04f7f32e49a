package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestQueryMeta: a result says of its item what a read of it says, in any order.
func TestQueryMeta(t *testing.T) {
	ctx := t.Context()
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry, Index: IndexPolicy{Include: []string{"/n/?"}}})
	for i := range 60 {
		o := new(WriteOptions)
		if i%3 == 0 {
			o.TTL = time.Duration(i+1) * time.Hour
		}
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"i%d","k":%d,"n":%d,"s":"text %d"}`, i, i%5, i, i%7), o); err != nil {
			t.Fatal(err)
		}
		if i == 30 {
			if err := db.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, order := range [][]QueryOrder{nil, {{Path: "/n"}}, {{Path: "/s"}}} {
		for _, limit := range []int{0, 50, 5000} {
			n := 0
			for it, err := range c.Query(ctx, AllPartitions(), Query{OrderBy: order, Limit: limit}).All() {
				if err != nil {
					t.Fatal(err)
				}
				want, err := c.Read(ctx, it.Key, it.ID)
				if err != nil {
					t.Fatal(err)
				}
				if it.Charge <= 0 {
					t.Errorf("order %v, limit %d: %s charges %v", order, limit, it.ID, it.Charge)
				}
				it.Charge = want.Charge
				if it.Meta != want.Meta {
					t.Errorf("order %v, limit %d: %+v, read %+v", order, limit, it.Meta, want.Meta)
				}
				n++
			}
			if n < 50 {
				t.Errorf("order %v, limit %d: %d results", order, limit, n)
			}
		}
	}
}

// TestQueryErrors: what is wrong with a query is told, and nothing is held.
func TestQueryErrors(t *testing.T) {
	c := queryStore(t, IndexPolicy{Include: []string{"/n/?"}})
	ctx := context.Background()
	all := AllPartitions()
	good := c.Query(ctx, all, Query{Where: Eq("/s", "text 1"), Limit: 3})
	if _, err := results(good); err != nil {
		t.Fatal(err)
	}
	next := good.Continue()
	for name, test := range map[string]struct {
		scope Scope
		q     Query
		want  error
	}{
		"no scope":           {Scope{}, Query{}, ErrInvalid},
		"bad key":            {OnePartition(JoinKeys(NumberKey(1), NumberKey(2))), Query{}, ErrInvalid},
		"bad path":           {all, Query{Where: Eq("n", 1)}, ErrInvalid},
		"bad value":          {all, Query{Where: Eq("/n", []int{1})}, ErrInvalid},
		"bounds":             {all, Query{Where: Range("/n", Incl(1), Excl("x"))}, ErrInvalid},
		"no bound":           {all, Query{Where: Range("/n", Unbounded(), Unbounded())}, ErrInvalid},
		"order of many":      {all, Query{OrderBy: []QueryOrder{{Path: "/t/[]"}}}, ErrInvalid},
		"order of groups":    {all, Query{GroupBy: []string{"/n"}, Fields: []QueryField{{Path: "/n"}}, OrderBy: []QueryOrder{{Path: "/n", Desc: true}}}, ErrInvalid},
		"negative":           {all, Query{Limit: -1}, ErrInvalid},
		"needs a scan":       {all, Query{Where: Eq("/s", "text 1"), NoScan: true}, ErrNeedsScan},
		"order needs a scan": {all, Query{OrderBy: []QueryOrder{{Path: "/s"}}, NoScan: true}, ErrNeedsScan},
		"no continuation":    {all, Query{Continue: "x"}, ErrBadContinuation},
		"other query":        {all, Query{Where: Eq("/s", "text 2"), Continue: next}, ErrBadContinuation},
		"other scope":        {PrefixOf(NumberKey(1)), Query{Where: Eq("/s", "text 1"), Continue: next}, ErrBadContinuation},
		"changed":            {all, Query{Where: Eq("/s", "text 1"), Continue: next[:10] + "A" + next[11:]}, ErrBadContinuation},
	} {
		if list, err := results(c.Query(ctx, test.scope, test.q)); !errors.Is(err, test.want) || len(list) > 0 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
	for _, q := range []Query{{NoScan: true}, {Where: Eq("/n", 5), NoScan: true}} {
		if list, err := results(c.Query(ctx, all, q)); err != nil || len(list) == 0 {
			t.Errorf("%v: %v", q.Where, err)
		}
	}
	// A condition on text is found by no index, though one says which are strings.
	if _, err := c.SetIndexPolicy(ctx, IndexAll()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		where Filter
		want  error
	}{
		{Contains("/s", "text 1"), ErrNeedsScan},
		{Not(Contains("/s", "text 1")), ErrNeedsScan},
		{Or(Eq("/n", 5), Contains("/s", "text 1")), ErrNeedsScan},
		{And(Range("/n", Incl(5), Unbounded()), Contains("/s", "text 1")), nil},
		{And(HasPrefix("/s", "text"), Not(Contains("/s", "text 1"))), nil},
	} {
		if list, err := results(c.Query(ctx, all, Query{Where: test.where, NoScan: true})); !errors.Is(err, test.want) || err == nil && len(list) == 0 {
			t.Errorf("%v: %d results, %v", test.where, len(list), err)
		}
	}
	if _, err := c.db.CreateContainer(ctx, "bytes", ContainerDef{Kind: Opaque}); err != nil {
		t.Fatal(err)
	}
	opaque, _ := c.db.Container("bytes")
	if _, err := results(opaque.Query(ctx, all, Query{})); !errors.Is(err, ErrInvalid) {
		t.Errorf("query of an opaque container: %v", err)
	}
	var bad *QuerySyntaxError
	if _, err := ParseQuery("SELECT * FROM", nil); !errors.Is(err, ErrInvalid) || !errors.As(err, &bad) || bad.Column != 14 {
		t.Errorf("%v", err)
	}
	if pinned := c.db.env.Pins.Live(); len(pinned) > 0 {
		t.Errorf("sequences are pinned: %v", pinned)
	}
}

// TestQueryCancelled: a query ends with its context, and a loop that is left
// holds nothing.
func TestQueryCancelled(t *testing.T) {
	c := queryStore(t, IndexAll())
	for name, q := range map[string]Query{
		"by key":  {Where: Contains("/s", "text")},
		"ordered": {OrderBy: []QueryOrder{{Path: "/s"}}},
		"groups":  {GroupBy: []string{"/k"}, Fields: []QueryField{{Path: "/k"}, {Path: "/n", Aggregate: AggregateSum}}},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := results(c.Query(ctx, AllPartitions(), q)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		r := c.Query(context.Background(), AllPartitions(), q)
		for _, err := range r.All() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if r.Continue() == "" || r.Stats().Results != 1 {
			t.Errorf("%s: %q after a break, %+v", name, r.Continue(), r.Stats())
		}
		if pinned := c.db.env.Pins.Live(); len(pinned) > 0 {
			t.Errorf("%s: sequences are pinned: %v", name, pinned)
		}
	}
}

// TestQueryRouting: a filter that pins the key asks one partition, and a
// snapshot shows what it showed.
func TestQueryRouting(t *testing.T) {
	c := queryStore(t, IndexAll())
	ctx := context.Background()
	snapshot, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	r := c.Query(ctx, AllPartitions(), Query{Where: And(Eq("/k", 3), Range("/n", Incl(100), Unbounded()))})
	list, err := results(r)
	if err != nil || len(list) != 15 || r.Stats().Partitions != 1 {
		t.Errorf("%d results, %v, %+v", len(list), err, r.Stats())
	}
	if err := c.Delete(ctx, NumberKey(3), "i003", nil); err != nil {
		t.Fatal(err)
	}
	now, err1 := c.Count(ctx, OnePartition(NumberKey(3)), Filter{})
	then, err2 := snapshot.Count(ctx, OnePartition(NumberKey(3)), Filter{})
	if now != 19 || then != 20 || err1 != nil || err2 != nil {
		t.Errorf("%d now, %d then: %v, %v", now, then, err1, err2)
	}
	plan, err := c.Explain(ctx, AllPartitions(), Query{Where: Eq("/k", 3)})
	if err != nil || len(plan.Partitions) != 1 || plan.Scope != "partition [3]" && plan.Scope != "partition 3" || plan.Partitions[0].NoIndex {
		t.Errorf("%+v, %v", plan, err)
	}
}

// TestOrderInPasses: an order that does not fit into memory is found in several
// passes.
func TestOrderInPasses(t *testing.T) {
	c := queryStore(t, IndexPolicy{})
	old := exec.Limits.OrderMemory
	exec.Limits.OrderMemory = 4 << 10
	defer func() { exec.Limits.OrderMemory = old }()
	r := c.Query(context.Background(), AllPartitions(), Query{OrderBy: []QueryOrder{{Path: "/s"}, {Path: "/n", Desc: true}}, Fields: []QueryField{{Path: "/n"}}, Value: true})
	list, err := results(r)
	if err != nil || len(list) != 400 || r.Stats().Passes < 5 || r.Continue() != "" {
		t.Fatalf("%d results, %v, %+v", len(list), err, r.Stats())
	}
	for i, at := 0, 0; i < 7; i++ {
		for n := 399; n >= 0; n-- {
			if n%7 == i {
				if list[at] != fmt.Sprint(n) {
					t.Fatalf("result %d is %s, want %d", at, list[at], n)
				}
				at++
			}
		}
	}
}

// TestNoScanOfText: a query whose groups, order or rows are made of the documents reads all of
// them for its first result. NoScan refuses it, and Explain says so.
func TestNoScanOfText(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	for i := range 20 {
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"i%d","k":%d,"n":%d,"s":"text %d","t":[1,2]}`, i, i%5, i, i%7), nil)))
	}
	const scanned, all = "every document in scope is read", "every document in scope is a result"
	for text, want := range map[string]struct {
		method, order string
		err           error
	}{
		"SELECT DISTINCT LOWER(c.s) AS s FROM c":                {scanned, "sorted", ErrNeedsScan},
		"SELECT c.n FROM c ORDER BY LOWER(c.s)":                 {scanned, "sorted", ErrNeedsScan},
		"SELECT COUNT(1) AS n FROM c GROUP BY LOWER(c.s)":       {scanned, "sorted", ErrNeedsScan},
		"SELECT VALUE t FROM c JOIN t IN c.t WHERE t > 1":       {scanned, "by key", ErrNeedsScan},
		"SELECT VALUE t FROM c JOIN t IN c.t":                   {all, "by key", nil},
		"SELECT c.n + 1 AS m FROM c":                            {all, "by key", nil},
		"SELECT c.n FROM c WHERE c.n = 3 ORDER BY LOWER(c.s)":   {"found in indexes", "sorted", nil},
		"SELECT t FROM c JOIN t IN c.t WHERE c.n = 3 AND t = 1": {"found in indexes", "by key", nil},
	} {
		q, err := ParseQuery(text, nil)
		must(t, err)
		plan, err := c.Explain(t.Context(), AllPartitions(), q)
		if err != nil || plan.Method != want.method || plan.Order != want.order {
			t.Errorf("%s: %q, order %q: %v", text, plan.Method, plan.Order, err)
		}
		q.NoScan, q.Limit = true, 1
		if _, err := results(c.Query(t.Context(), AllPartitions(), q)); !errors.Is(err, want.err) {
			t.Errorf("%s, with NoScan: %v", text, err)
		}
	}
}

// TestSuggestOddNames: what Explain suggests is a pattern of a policy, whatever the name of the property is, and
// with it the query is answered as Explain says.
func TestSuggestOddNames(t *testing.T) {
	for _, name := range []string{"plain", "a b", "a/b", `a"b\c`, "", "?", "[]", "line\nfeed", "bell\a", "nul\x00", "one\x01", "\u2028", "<&>", "a\n/b"} {
		_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, Index: IndexPolicy{Include: []string{"/other/?"}}})
		text, err := json.Marshal(name)
		must(t, err)
		q, err := ParseQuery("SELECT * FROM c WHERE c["+string(text)+"] = 1", nil)
		must(t, err)
		plan, err := c.Explain(t.Context(), AllPartitions(), q)
		must(t, err)
		if len(plan.Suggest) != 1 || plan.Suggested != "found in indexes" {
			t.Errorf("%q: suggests %q, with which documents are %q", name, plan.Suggest, plan.Suggested)
			continue
		}
		_, c = openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, Index: IndexPolicy{Include: plan.Suggest}})
		if plan, err = c.Explain(t.Context(), AllPartitions(), q); err != nil || plan.Method != "found in indexes" {
			t.Errorf("%q: with %q: %q: %v", name, plan.Suggest, plan.Method, err)
		}
	}
}
