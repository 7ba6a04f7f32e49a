package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// alikeDocument returns a document whose url begins as those of many others do, with more than an
// index tells of it, or as few do.
func alikeDocument(rng *rand.Rand, id int) string {
	head := strings.Repeat("https://example.com/", 3) + "b/yn"
	var url string
	switch rng.IntN(20) {
	case 0:
		url = `,"url":7`
	case 1:
		url = ""
	case 2:
		url = `,"url":"` + head + `"`
	case 3:
		url = fmt.Sprintf(`,"url":"%s%d"`, strings.Repeat("another ", 10), rng.IntN(50))
	case 4:
		url = fmt.Sprintf(`,"url":"%s\u0000%d"`, head, rng.IntN(4))
	case 5, 6, 7, 8:
		url = fmt.Sprintf(`,"url":"%sthe rest of these/%s%d"`, head, strings.Repeat("x", rng.IntN(20)), rng.IntN(9))
	default:
		url = fmt.Sprintf(`,"url":"%sthe rest of them%d"`, head, rng.IntN(500))
	}
	return fmt.Sprintf(`{"id":"%05d","k":"k%d","half":%d,"u":%d,"name":"%d"%s}`, id, id%3, rng.IntN(2), rng.IntN(100), rng.IntN(1000), url)
}

// TestOrderAlike: orders by strings that an index does not tell apart are the same, in pages and
// at once, as without an index, whatever was learnt of them before: beside changes, in files that
// come and go, on snapshots older than that, and for filters that select some of them.
func TestOrderAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 1))
	ctx := t.Context()
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes, opts.FileBytes = 32<<20, 128<<10
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Index: IndexAll()})
	plain, err := db.CreateContainer(ctx, "plain", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1})
	must(t, err)
	n := amount(3_000, 2_000, 2_000)
	change := func(id int) {
		if rng.IntN(6) == 0 {
			for _, c := range []*Container{c, plain} {
				if err := c.Delete(ctx, StringKey(fmt.Sprintf("k%d", id%3)), fmt.Sprintf("%05d", id), nil); !errors.Is(err, ErrNotFound) {
					must(t, err)
				}
			}
			return
		}
		body := []byte(alikeDocument(rng, id))
		for _, c := range []*Container{c, plain} {
			must(t, second(c.Upsert(ctx, body, nil)))
		}
	}
	for id := range n {
		change(id)
	}
	must(t, db.Compact(ctx))
	texts := []string{
		`SELECT * FROM c ORDER BY c.url`,
		`SELECT * FROM c ORDER BY c.url DESC`,
		`SELECT * FROM c ORDER BY c.half, c.url`,
		`SELECT * FROM c ORDER BY c.half DESC, c.url DESC`,
		`SELECT * FROM c ORDER BY c.url, c.u DESC`,
		`SELECT * FROM c WHERE c.half = 1 ORDER BY c.url`,
		`SELECT * FROM c WHERE c.u < 70 ORDER BY c.url DESC, c.u`,
		`SELECT * FROM c WHERE CONTAINS(c.name, '7') ORDER BY c.url`,
		`SELECT * FROM c WHERE c.k = 'k2' ORDER BY c.url`,
		`SELECT VALUE c.url FROM c ORDER BY c.url DESC`,
	}
	type queried interface {
		Query(context.Context, Scope, Query) *QueryResult
	}
	of := [][2]queried{{c, plain}}
	for round := range amount(16, 6, 6) {
		for range rng.IntN(200) {
			change(rng.IntN(n))
		}
		switch rng.IntN(4) {
		case 0:
			must(t, db.Flush(ctx))
		case 1:
			must(t, db.Compact(ctx))
		case 2:
			if len(of) < 3 {
				old, err := c.Snapshot(ctx)
				must(t, err)
				defer old.Close()
				oldPlain, err := plain.Snapshot(ctx)
				must(t, err)
				defer oldPlain.Close()
				of = append(of, [2]queried{old, oldPlain})
			}
		}
		text := texts[rng.IntN(len(texts))]
		limit := []int{30, 100, 400}[rng.IntN(3)]
		rows := func(c queried, limit int) (list []string) {
			q, err := ParseQuery(text, nil)
			must(t, err)
			for q.Limit = limit; ; {
				r := c.Query(ctx, AllPartitions(), q)
				for it, err := range r.All() {
					must(t, err)
					list = append(list, it.ID+string(it.Body))
				}
				if q.Continue = r.Continue(); q.Continue == "" {
					return list
				}
			}
		}
		pair := of[rng.IntN(len(of))]
		want, got := rows(pair[1], 0), rows(pair[0], limit)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d, %s, %d a page: %d results, want %d, or others", round, text, limit, len(got), len(want))
		}
	}
}

// TestOrderAlikeOfOne: what an order has learnt of the documents that have one long string says nothing of those
// whose strings only begin as that does.
func TestOrderAlikeOfOne(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes, opts.FileBytes = 32<<20, 1<<20
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexAll()})
	const n = 900
	head := strings.Repeat("x", 70)
	var want []string
	for i := range n {
		url := fmt.Sprintf("%s%03d", head, i)
		if i%3 == 0 {
			url = head + "one"
		}
		want = append(want, `"`+url+`"`)
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"i%d","k":%d,"url":%q}`, i, i%7, url), nil)))
	}
	must(t, db.Compact(t.Context()))
	slices.Sort(want)
	for _, order := range []string{"ASC", "DESC"} {
		one, err := ParseQuery("SELECT TOP 5 VALUE c.url FROM c WHERE c.url = @one ORDER BY c.url "+order, map[string]any{"one": head + "one"})
		must(t, err)
		if got, err := results(c.Query(t.Context(), AllPartitions(), one)); err != nil || len(got) != 5 {
			t.Fatalf("%s: %d of one string: %v", order, len(got), err)
		}
		q, err := ParseQuery("SELECT VALUE c.url FROM c ORDER BY c.url "+order, nil)
		must(t, err)
		var got []string
		for q.Limit = 100; ; {
			r := c.Query(t.Context(), AllPartitions(), q)
			page, err := results(r)
			must(t, err)
			got = append(got, page...)
			if q.Continue = r.Continue(); q.Continue == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d results, want %d, or others", order, len(got), len(want))
		}
		slices.Reverse(want)
	}
}

// TestOrderAlikeByTurns: pages of one logical partition read no more documents where those of another one, in the same
// file, come in between.
func TestOrderAlikeByTurns(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes, opts.FileBytes = 32<<20, 1<<20
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Index: IndexAll()})
	for i := range 600 {
		body := fmt.Appendf(nil, `{"id":"i%d","k":"k%d","url":"%s%03d"}`, i, i%2, strings.Repeat("x", 70), i*7%600)
		must(t, second(c.Upsert(t.Context(), body, nil)))
	}
	must(t, db.Compact(t.Context()))
	q, err := ParseQuery("SELECT * FROM c ORDER BY c.url", nil)
	must(t, err)
	q.Limit = 10
	var next [2]string
	for page := range 3 {
		for k := range next {
			q.Continue = next[k]
			r := c.Query(t.Context(), OnePartition(StringKey(fmt.Sprintf("k%d", k))), q)
			list, err := results(r)
			if n := r.Stats().Documents; err != nil || len(list) != q.Limit || page > 0 && n > 30 {
				t.Errorf("page %d of k%d: %d results of %d documents: %v", page, k, len(list), n, err)
			}
			next[k] = r.Continue()
		}
	}
}
