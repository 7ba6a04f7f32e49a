package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestOrderOfManyPages: the pages of an order that an index has go through a container of any number of
// documents, of several partitions, by reading little more than the results. The values are unique and
// rise with each document, as those of an order of creation do: a document that is replaced keeps its
// place. A split between two pages changes nothing.
func TestOrderOfManyPages(t *testing.T) {
	documents := amount(30_000, 12_000, 3_000)
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 3, Index: IndexPolicy{Include: []string{"/made/*"}}})
	write := func(at int, more string) {
		body := fmt.Sprintf(`{"id":"%d","k":%d,"made":"%09d"%s}`, at*7919%documents, at%101, at, more)
		must(t, second(c.Upsert(t.Context(), []byte(body), nil)))
	}
	for at := range documents {
		if write(at, ""); at == documents/2 {
			must(t, db.Flush(t.Context()))
		}
	}
	for at := 3; at < documents; at += 50 {
		write(at, `,"again":true`)
	}
	for _, test := range []struct {
		text string
		has  func(at int) bool
		most float64 // documents read for each document
	}{
		{"SELECT VALUE c.made FROM c ORDER BY c.made", func(int) bool { return true }, 3},
		{"SELECT VALUE c.made FROM c WHERE c.k % 2 = 1 ORDER BY c.made", func(at int) bool { return at%101%2 == 1 }, 4},
	} {
		q, err := ParseQuery(test.text, nil)
		must(t, err)
		q.Limit = 400
		var want, got []string
		for at := range documents {
			if test.has(at) {
				want = append(want, fmt.Sprintf(`"%09d"`, at))
			}
		}
		read := int64(0)
		for page := 0; page == 0 || q.Continue != ""; page++ {
			r := c.Query(t.Context(), AllPartitions(), q)
			list, err := results(r)
			must(t, err)
			got, read = append(got, list...), read+r.Stats().Documents
			q.Continue = r.Continue()
			if page == 2 {
				job, err := c.Split(t.Context(), c.Partitions()[0].ID, nil)
				must(t, err)
				must(t, job.Wait(t.Context()))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d results of %d, or in another order", test.text, len(got), len(want))
		}
		t.Logf("%s: %d documents read for %d results of %d", test.text, read, len(got), documents)
		if float64(read) > test.most*float64(documents) {
			t.Errorf("%s: %d documents were read", test.text, read)
		}
	}
}
