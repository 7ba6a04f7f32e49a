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
