package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestPrefixBetween: the parts of a prefix have together what the prefix has, in queries, in aggregates and in feeds, and each page goes on in
// the part behind. Indexes and splits change nothing of that, and neither do keys with another beginning.
func TestPrefixBetween(t *testing.T) {
	for name, index := range map[string]IndexPolicy{"no index": {}, "indexed": IndexAll()} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/a", "/b"}, Index: index, MinPartitions: 3})
			var want []string
			var epks []string
			for i := range 40 {
				for _, a := range []string{"x", "y"} {
					doc := fmt.Appendf(nil, `{"id":"%s%d","a":%q,"b":"b%d","n":%d}`, a, i, a, i, i)
					_, err := c.Upsert(ctx, doc, nil)
					must(t, err)
				}
				key := JoinKeys(StringKey("x"), StringKey(fmt.Sprint("b", i)))
				epk := key.EPK()
				want, epks = append(want, fmt.Sprint("x", i)), append(epks, epk.String())
			}
			slices.Sort(want)
			slices.Sort(epks)
			bounds := []string{"", epks[7], epks[8], epks[30], ""}
			prefix := PrefixOf(StringKey("x"))
			check := func() {
				t.Helper()
				var found, fed []string
				sum, at := 0, ""
				for i := range len(bounds) - 1 {
					part, err := prefix.Between(bounds[i], bounds[i+1])
					must(t, err)
					for more := true; more; {
						r := c.Query(ctx, part, Query{Limit: 3, Continue: at})
						more = false
						for it, err := range r.All() {
							must(t, err)
							found, more, at = append(found, it.ID), true, r.Continue()
						}
					}
					q, err := ParseQuery("SELECT VALUE COUNT(1) FROM c WHERE c.n >= 0", nil)
					must(t, err)
					for it, err := range c.Query(ctx, part, q).All() {
						must(t, err)
						n := 0
						_, err = fmt.Sscan(string(it.Body), &n)
						must(t, err)
						sum += n
					}
					for ch, err := range c.Changes(ctx, part, FromStart(), nil) {
						must(t, err)
						fed = append(fed, ch.ID)
					}
				}
				slices.Sort(found)
				slices.Sort(fed)
				if !slices.Equal(found, want) || !slices.Equal(fed, want) || sum != len(want) {
					t.Errorf("queries find %v, feeds show %v, counts are %d, want %v", found, fed, sum, want)
				}
			}
			check()
			for _, p := range c.Partitions() {
				job, err := c.Split(ctx, p.ID, nil)
				must(t, err)
				must(t, job.Wait(ctx))
			}
			check()
		})
	}
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/a"}})
	for _, a := range []string{"x", "y", "z"} {
		_, err := c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"i","a":%q}`, a), nil)
		must(t, err)
		// A boundary that is longer than the keys of the container lies behind the key with which it begins.
		epk := StringKey(a).EPK()
		for bounds, want := range map[[2]string]string{{epk.String(), epk.String() + "FF"}: `["i"]`, {epk.String() + "01", epk.String() + "FF"}: "[]"} {
			within, err := OfRange(bounds[0], bounds[1])
			must(t, err)
			found, fed, scanned := []string{}, []string{}, []string{}
			for it, err := range c.Query(t.Context(), within, Query{}).All() {
				must(t, err)
				found = append(found, it.ID)
			}
			for ch, err := range c.Changes(t.Context(), within, FromStart(), nil) {
				must(t, err)
				fed = append(fed, ch.ID)
			}
			for it, err := range c.ScanAll(t.Context(), &ScanOptions{Within: within}) {
				must(t, err)
				scanned = append(scanned, it.ID)
			}
			if fmt.Sprintf("%q", found) != want || fmt.Sprintf("%q", fed) != want || fmt.Sprintf("%q", scanned) != want {
				t.Errorf("within %v: %v are found, %v fed, %v scanned, want %s", bounds, found, fed, scanned, want)
			}
		}
	}
	if _, err := OfBase(StringKey("x")).Between("", ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("a range of a base value: %v", err)
	}
}
