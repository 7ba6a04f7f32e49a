package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestScanBounds scans with every kind of bound, in both directions, and compares with the
// words of IDRange. TestModel does the same at random, between all other operations.
func TestScanBounds(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{Kind: Opaque})
	ids := []string{"\x00", "a", "a\x00", "aa", "ab", "a\xfe", "a\xff", "a\xffb", "b", "b/c", "c", "\xfe", "\xff", "\xff\xff", "\xff\xffz"}
	pk := StringKey("k")
	for i, id := range ids {
		for _, key := range []PartitionKey{StringKey("j"), pk, StringKey("l")} { // neighbours, some of them
			_, err := c.Put(ctx, key, id, []byte(id), nil)
			must(t, err)
		}
		if i%5 == 4 {
			must(t, db.Flush(ctx))
		}
	}
	bounds := append([]string{""}, ids...)
	check := func(r IDRange) {
		t.Helper()
		for _, reverse := range []bool{false, true} {
			var want, got []string
			for _, id := range ids {
				if inRange(r, id) {
					want = append(want, id)
				}
			}
			if reverse {
				slices.Reverse(want)
			}
			for it, err := range c.Scan(ctx, pk, r, &ScanOptions{Reverse: reverse}) {
				must(t, err)
				got = append(got, it.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, reverse %v: %q, want %q", r, reverse, got, want)
			}
		}
	}
	for _, a := range bounds {
		check(IDRange{Prefix: a})
		for _, b := range bounds {
			check(IDRange{From: a, To: b})
			check(IDRange{From: a, Before: b})
			check(IDRange{After: a, To: b})
			check(IDRange{After: a, Before: b})
			check(IDRange{After: a, Prefix: b})
			check(IDRange{Before: a, Prefix: b})
			check(IDRange{From: a, After: b})
			check(IDRange{To: a, Before: b})
		}
	}
}

// TestScanPages reads a logical partition page by page, in both directions.
func TestScanPages(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	for i := range 25 {
		upsert(t, c, fmt.Sprintf("%02d", i), 10)
	}
	for _, reverse := range []bool{false, true} {
		var got []string
		for page, more := (IDRange{Prefix: "1"}), true; more; {
			more = false
			for it, err := range c.Scan(ctx, StringKey("a"), page, &ScanOptions{Limit: 3, Reverse: reverse}) {
				must(t, err)
				got = append(got, it.ID)
				if more = true; reverse {
					page.Before = it.ID
				} else {
					page.After = it.ID
				}
			}
		}
		want := strings.Fields("10 11 12 13 14 15 16 17 18 19")
		if reverse {
			slices.Reverse(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("reverse %v: %v", reverse, got)
		}
	}
}

// TestScanStopsAtBounds: what a scan reads from files does not grow with what lies outside of
// its bounds, be it items, deleted ones, deleted logical partitions, or items that were
// written after the snapshot.
func TestScanStopsAtBounds(t *testing.T) {
	ctx := context.Background()
	for _, outside := range []struct {
		name  string
		write func(t *testing.T, c *Container, n int)
		late  bool // after the snapshot
	}{
		{name: "items", write: func(t *testing.T, c *Container, n int) { fillIDs(t, c, n) }},
		{name: "items of a later time", late: true, write: func(t *testing.T, c *Container, n int) { fillIDs(t, c, n) }},
		{name: "deleted items", write: func(t *testing.T, c *Container, n int) {
			fillIDs(t, c, n)
			for _, id := range fillers(n) {
				must(t, c.Delete(ctx, StringKey("a"), id, nil))
			}
		}},
		{name: "deleted logical partitions", write: func(t *testing.T, c *Container, n int) {
			for i := range n {
				_, err := c.Upsert(ctx, smallDocument("x", fmt.Sprint("other", i), 300), nil)
				must(t, err)
			}
			must(t, c.db.Flush(ctx))
			for i := range n {
				must(t, c.DeleteLogicalPartition(ctx, StringKey(fmt.Sprint("other", i)), nil))
			}
		}},
	} {
		t.Run(outside.name, func(t *testing.T) {
			var few int64
			for _, n := range []int{100, 2000} {
				faulty := vfs.NewFaulty(vfs.NewMem())
				opts := testOptions(faulty)
				opts.ReadMode, opts.Durability, opts.memtableBytes = ReadPositioned, Buffered, 8<<20
				db, c := openStore(t, opts)
				for i := range 10 {
					upsert(t, c, fmt.Sprint("m", i), 300)
				}
				if !outside.late {
					outside.write(t, c, n)
				}
				snapshot, err := c.Snapshot(ctx)
				must(t, err)
				defer snapshot.Close()
				if outside.late {
					outside.write(t, c, n)
				}
				must(t, db.Flush(ctx))
				if outside.name != "deleted logical partitions" {
					must(t, db.Compact(ctx))
				}
				var reads int64
				faulty.SetHook(func(call vfs.Call) error {
					if call.Op == vfs.OpRead && strings.HasSuffix(call.Name, ".seg") {
						reads++
					}
					return nil
				})
				for _, reverse := range []bool{false, true} {
					for round := range 2 { // the first one opens files
						reads = 0
						found := 0
						for _, err := range snapshot.Scan(ctx, StringKey("a"), IDRange{Prefix: "m"}, &ScanOptions{Reverse: reverse}) {
							must(t, err)
							found++
						}
						if found != 10 {
							t.Fatalf("found %d items", found)
						}
						switch {
						case round == 0:
						case n == 100:
							few = max(few, reads)
						case reads > 2*few: // a search among twenty times as many takes a few steps more
							t.Errorf("%d reads beside %d items, %d beside 100", reads, n, few)
						}
					}
				}
			}
		})
	}
}

// fillers returns n ids before and as many after the ids that begin with m.
func fillers(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("b%06d", i), fmt.Sprintf("x%06d", i))
	}
	return ids
}

func fillIDs(t *testing.T, c *Container, n int) {
	for _, id := range fillers(n) {
		upsert(t, c, id, 300)
	}
}
