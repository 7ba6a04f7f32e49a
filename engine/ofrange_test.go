package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestOfRange: a query, a count and a change feed in a range show what lies in it, wherever
// its ends are and whatever splits and merges do; and a query that was begun in one range
// goes on in its parts.
func TestOfRange(t *testing.T) {
	ctx := t.Context()
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/pk"}, MinPartitions: 2, Index: IndexAll()})
	where := map[string]string{} // id: EPK
	for i := range 200 {
		id := fmt.Sprint(i)
		key := fmt.Sprint(i % 60)
		m, err := c.Create(ctx, fmt.Appendf(nil, `{"id":%q,"pk":%q,"n":%d,"g":%d}`, id, key, 1000-i, i%3), nil)
		must(t, err)
		epk := m.Key.EPK()
		where[id] = epk.String()
		if i == 100 {
			must(t, db.Flush(ctx))
		}
	}
	inside := func(id, lo, hi string) bool { return where[id] >= lo && (hi == "" || where[id] < hi) }
	texts := map[string]string{
		"all": "SELECT * FROM c", "filter": "SELECT * FROM c WHERE c.n > 850", "order": "SELECT * FROM c ORDER BY c.n",
		"one key": "SELECT * FROM c WHERE c.pk = '7'", "keys": "SELECT * FROM c WHERE c.pk IN ('7','8','9','10','11')",
		"groups": "SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g",
	}
	run := func(scope Scope, text, from string, most int) (ids []string, rest string) {
		t.Helper()
		q, err := ParseQuery(text, nil)
		must(t, err)
		q.Continue = from
		r := c.Query(ctx, scope, q)
		for it, err := range r.All() {
			must(t, err)
			if ids = append(ids, it.ID); len(ids) == most {
				rest = r.Continue()
				break
			}
		}
		return ids, rest
	}
	check := func(lo, hi string) {
		t.Helper()
		scope, err := OfRange(lo, hi)
		must(t, err)
		for name, text := range texts {
			whole, _ := run(AllPartitions(), text, "", 0)
			got, _ := run(scope, text, "", 0)
			if name == "groups" {
				groups := map[int]bool{}
				for id := range where {
					if inside(id, lo, hi) {
						var n int
						fmt.Sscan(id, &n)
						groups[n%3] = true
					}
				}
				if len(got) != len(groups) {
					t.Errorf("%s in %s-%s: %d results, want %d", name, lo, hi, len(got), len(groups))
				}
				continue
			}
			want := slices.DeleteFunc(whole, func(id string) bool { return !inside(id, lo, hi) })
			if !slices.Equal(got, want) {
				t.Errorf("%s in %s-%s: %v, want %v", name, lo, hi, got, want)
			}
			// Begun in the whole range, gone on in two parts of it.
			first, rest := run(scope, text, "", 3)
			if rest == "" {
				continue
			}
			middle := "1800"
			if middle <= lo || hi != "" && middle >= hi {
				continue
			}
			left, err := OfRange(lo, middle)
			must(t, err)
			right, err := OfRange(middle, hi)
			must(t, err)
			a, _ := run(left, text, rest, 0)
			b, _ := run(right, text, rest, 0)
			all := slices.Concat(first, a, b)
			slices.Sort(all)
			slices.Sort(want)
			if !slices.Equal(all, want) {
				t.Errorf("%s in %s-%s, gone on in parts: %v, want %v", name, lo, hi, all, want)
			}
		}
		var want, got []string
		for id := range where {
			if inside(id, lo, hi) {
				want = append(want, id)
			}
		}
		n, err := c.Count(ctx, scope, Filter{})
		if err != nil || n != int64(len(want)) {
			t.Errorf("count in %s-%s: %d, want %d: %v", lo, hi, n, len(want), err)
		}
		var at ChangePosition
		for ch, err := range c.Changes(ctx, scope, FromStart(), &ChangeOptions{Progress: func(p ChangePosition) { at = p }}) {
			must(t, err)
			got = append(got, ch.ID)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("changes in %s-%s: %v, want %v", lo, hi, got, want)
		}
		// A position is good for a part of its range.
		if part, err := OfRange("", "1000"); lo == "" && hi >= "1000" {
			must(t, err)
			for ch, err := range c.Changes(ctx, part, at, nil) {
				t.Errorf("a change after the end: %s, %v", ch.ID, err)
			}
		}
	}
	ranges := [][2]string{{"", ""}, {"", "FF"}, {"", "2000"}, {"1000", "30"}, {"1FFF", "2001"}, {"0A", "0B"}, {"3FFFFFFF", "FF"}, {"", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"}}
	for _, r := range ranges {
		check(r[0], r[1])
	}
	job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	for _, r := range ranges {
		check(r[0], r[1])
	}
	for _, bad := range [][2]string{{"x", ""}, {"20", "10"}, {"10", "10"}, {"", "FF00"}, {"FF", ""}, {"123", ""}} {
		if _, err := OfRange(bad[0], bad[1]); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestOfRangeWithoutKeys: a query whose filter leaves no partition key of a range has no results,
// however it is asked, and counts nothing.
func TestOfRangeWithoutKeys(t *testing.T) {
	ctx := t.Context()
	for name, policy := range map[string]IndexPolicy{"no index": {}, "index": IndexAll()} {
		t.Run(name, func(t *testing.T) {
			_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Index: policy})
			must(t, second(c.Create(ctx, doc("a", "7", 1), nil)))
			epk := StringKey("7").EPK()
			lo, hi := "", "20"
			if epk.String() < hi {
				lo, hi = hi, ""
			}
			scope, err := OfRange(lo, hi)
			must(t, err)
			for text, want := range map[string]string{
				"SELECT * FROM c WHERE c.k = '7'":                                           "",
				"SELECT TOP 10 * FROM c WHERE c.k = '7'":                                    "",
				"SELECT TOP 10 VALUE c.n + 1 FROM c WHERE c.k = '7'":                        "",
				"SELECT * FROM c WHERE c.k = '7' ORDER BY c.n":                              "",
				"SELECT TOP 10 * FROM c WHERE c.k = '7' ORDER BY c.n":                       "",
				"SELECT TOP 10 VALUE c.n + 1 FROM c WHERE c.k = '7' ORDER BY c.n":           "",
				"SELECT c.n, COUNT(1) AS many FROM c WHERE c.k = '7' GROUP BY c.n LIMIT 10": "",
				"SELECT c.n, SUM(c.n) AS sum FROM c WHERE c.k = '7' GROUP BY c.n LIMIT 10":  "",
				"SELECT TOP 10 VALUE COUNT(1) FROM c WHERE c.k = '7'":                       "0",
			} {
				q, err := ParseQuery(text, nil)
				must(t, err)
				r := c.Query(ctx, scope, q)
				list, err := results(r)
				if got := strings.Join(list, ","); got != want || err != nil || r.Continue() != "" {
					t.Errorf("%s: %q, %v, and then %q, want %q", text, got, err, r.Continue(), want)
				}
				if _, err = c.Explain(ctx, scope, q); err != nil {
					t.Errorf("plan of %s: %v", text, err)
				}
			}
		})
	}
}

// TestScanWithin: scans of two ranges that meet show together, and in order, what a scan of
// all shows, in both directions, and a scan within one logical partition is refused.
func TestScanWithin(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/pk"}, MinPartitions: 3})
	for i := range 100 {
		_, err := c.Create(ctx, fmt.Appendf(nil, `{"id":"%d","pk":"%d"}`, i, i%40), nil)
		must(t, err)
	}
	scan := func(o ScanOptions) (ids []string) {
		for it, err := range c.ScanAll(ctx, &o) {
			must(t, err)
			ids = append(ids, it.ID)
		}
		return ids
	}
	for _, at := range []string{"15555555555555555555555555555555", "20", "2AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "3F"} {
		low, err := OfRange("", at)
		must(t, err)
		high, err := OfRange(at, "")
		must(t, err)
		for _, reverse := range []bool{false, true} {
			first, second := scan(ScanOptions{Within: low, Reverse: reverse}), scan(ScanOptions{Within: high, Reverse: reverse})
			if len(first) == 0 || at != "3F" && len(second) == 0 {
				t.Errorf("%s: %d and %d items", at, len(first), len(second))
			}
			if reverse {
				first, second = second, first
			}
			if got, want := slices.Concat(first, second), scan(ScanOptions{Reverse: reverse}); !slices.Equal(got, want) || len(got) != 100 {
				t.Errorf("%s, reverse %v: %v, want %v", at, reverse, got, want)
			}
		}
	}
	for _, err := range c.ScanAll(ctx, &ScanOptions{Within: OnePartition(StringKey("1"))}) {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("within one partition: %v", err)
		}
	}
}
