package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCountDead counts by long postings, of which a few versions are overwritten or
// deleted in a newer file and in the memtable.
func TestCountDead(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, t.TempDir(), &Options{Durability: Buffered})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[int]int)
	put := func(i, v int) {
		values[i] = v
		doc := fmt.Appendf(nil, `{"id":"%d","k":"%d","a":%t,"b":%t,"v":%d}`, i, i%3, v%2 == 0, v%3 == 0, v)
		if _, err := c.Upsert(ctx, doc, nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for _, scope := range []int{-1, 0, 1} {
			var both, high, all, even int64
			for i, v := range values {
				if scope >= 0 && i%3 != scope {
					continue
				}
				all++
				if v%2 == 0 {
					even++
				}
				if v%6 == 0 {
					both++
				}
				if v >= 1000 && v < 2500 {
					high++
				}
			}
			in := AllPartitions()
			if scope >= 0 {
				in = OnePartition(StringKey(fmt.Sprint(scope)))
			}
			for _, q := range []struct {
				f    Filter
				want int64
			}{
				{Eq("/a", true), even},
				{And(Eq("/a", true), Eq("/b", true)), both},
				{Range("/v", Incl(1000), Excl(2500)), high},
				{Filter{}, all},
			} {
				if n, err := c.Count(ctx, in, q.f); n != q.want || err != nil {
					t.Errorf("%s, partition %d, %v: %d, %v, not %d", when, scope, q.f, n, err, q.want)
				}
			}
		}
	}
	for i := range 4000 {
		put(i, i)
	}
	settle := func() {
		if err := db.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	check("flushed")
	for round := range 2 {
		for i := round; i < 4000; i += 501 {
			put(i, values[i]+1)
		}
		delete(values, 600+round)
		if err := c.Delete(ctx, StringKey(fmt.Sprint((600+round)%3)), fmt.Sprint(600+round), nil); err != nil {
			t.Fatal(err)
		}
		check("overwritten")
		settle()
		check("flushed again")
	}
}

// TestCountOfOnePartition: a count by a condition that an index answers, in one of many logical
// partitions, looks at no more documents and terms than one that scans the logical partition,
// where versions are overwritten in newer files and in the memtable.
func TestCountOfOnePartition(t *testing.T) {
	ctx := t.Context()
	const keys, each = 150, 40
	fill := func(policy IndexPolicy) *Container {
		opts := testOptions(vfs.NewMem())
		opts.memtableBytes, opts.FileBytes = 32<<20, 1<<20
		db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: policy})
		put := func(i, round int) {
			doc := fmt.Appendf(nil, `{"id":"%d","k":"%d","n":%d,"u":%d,"s":"text %d"}`, i, i%keys, (i/keys+round)%4, 10*i+round, i)
			must(t, second(c.Upsert(ctx, doc, nil)))
		}
		for i := range keys * each {
			put(i, 0)
		}
		must(t, db.Flush(ctx))
		for round := 1; round < 4; round++ {
			for i := round; i < keys*each; i += 7 {
				put(i, round)
			}
			if round < 3 {
				must(t, db.Flush(ctx))
			}
		}
		return c
	}
	indexed, plain := fill(IndexAll()), fill(IndexPolicy{})
	for _, f := range []Filter{
		{}, Eq("/n", 1), Ne("/n", 1), In("/n", 1, 2), And(Eq("/n", 1), Exists("/s")), Or(Eq("/n", 1), Eq("/u", 10)),
		Range("/u", Incl(100), Excl(50_000)), And(Eq("/n", 1), Range("/u", Incl(100), Excl(50_000))), HasPrefix("/s", "text 1"),
	} {
		for _, key := range []string{"0", "17", "149"} {
			in := OnePartition(StringKey(key))
			want, scan, err := plain.CountStats(ctx, in, f)
			must(t, err)
			got, st, err := indexed.CountStats(ctx, in, f)
			if err != nil || got != want {
				t.Errorf("%v in %s: %d, %v, want %d", f, key, got, err, want)
			}
			if st.Documents > scan.Documents || work(st) > work(scan) {
				t.Errorf("%v in %s: %d documents and %d terms, a scan looks at %d documents", f, key, st.Documents, st.Terms, scan.Documents)
			}
		}
	}
}
