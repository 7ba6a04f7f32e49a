package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/continuation"
	"github.com/cleavestore/cleave/internal/vfs"
)

// longStore has documents whose keys, ids and values are as long as they may be, and begin
// alike, beside short ones.
func longStore(t *testing.T, levels int, policy IndexPolicy) *Container {
	def := ContainerDef{PartitionKey: []string{"/p", "/q"}[:levels], MinPartitions: 2, Index: policy}
	db, c := openStore(t, testOptions(vfs.NewMem()), def)
	for i := range 40 {
		long := func(n, size int) string {
			return strings.Repeat("x", size*min(1, i%4)-3*min(1, i%4)) + fmt.Sprintf("%03d", n)
		}
		body := fmt.Sprintf(`{"id":%q,"p":%q,"q":%q,"s":%q,"n":%d,"t":[{"v":%d,"w":%q},{"v":2}]}`,
			long(i, 1023), long(i%5, 2046/levels), long(i%3, 900), long(i%7, 2048), i%4, i%6, long(i%11, 1500))
		_, err := c.Create(t.Context(), []byte(body), nil)
		must(t, err)
		if i == 25 {
			must(t, db.Flush(t.Context()))
		}
	}
	return c
}

// TestShortContinue: with keys, ids and values of 2 KB no continuation of any shape of query
// is longer than 1 KB, and pages of every size have together the results that the query
// has in one go.
func TestShortContinue(t *testing.T) {
	pages, leastHashed, deepest := []int{1, 7, 39}, 100, 2
	if raceEnabled && testing.Short() {
		pages, leastHashed, deepest = []int{7}, 20, 1
	}
	for levels := 1; levels <= deepest; levels++ {
		for _, policy := range []IndexPolicy{{}, IndexAll()} {
			c := longStore(t, levels, policy)
			hashed := 0
			for _, text := range []string{
				"SELECT * FROM c", "SELECT VALUE c.id FROM c", "SELECT VALUE UPPER(c.id) FROM c", "SELECT * FROM c WHERE c.n > 1",
				"SELECT * FROM c ORDER BY c.s", "SELECT VALUE c.id FROM c ORDER BY c.s DESC", "SELECT VALUE c.id FROM c ORDER BY c.n, c.s DESC, c.p",
				"SELECT VALUE c.id FROM c WHERE c.n > 0 ORDER BY c.s", "SELECT VALUE LOWER(c.id) FROM c ORDER BY c.s, c.n",
				"SELECT VALUE c.id FROM c ORDER BY CONCAT(c.s, c.p)", "SELECT VALUE c.id FROM c ORDER BY LENGTH(c.s) DESC",
				"SELECT c.id, t.v FROM c JOIN t IN c.t", "SELECT c.id, t.v FROM c JOIN t IN c.t ORDER BY t.v", "SELECT c.id, t.v FROM c JOIN t IN c.t ORDER BY c.s DESC",
				"SELECT DISTINCT c.s FROM c", "SELECT DISTINCT VALUE CONCAT(c.s, c.p) FROM c", "SELECT DISTINCT c.s, c.p FROM c ORDER BY c.s, c.p", "SELECT DISTINCT t.w FROM c JOIN t IN c.t",
				"SELECT c.s, COUNT(1) AS n FROM c GROUP BY c.s", "SELECT c.s, c.p, MAX(c.n) AS n FROM c GROUP BY c.s, c.p", "SELECT UPPER(c.s) AS u, COUNT(1) AS n FROM c GROUP BY UPPER(c.s)",
				"SELECT VALUE x FROM x IN c.t", "SELECT VALUE COUNT(1) FROM c",
			} {
				q, err := ParseQuery(text, nil)
				must(t, err)
				whole := inPages(t, c, q, 0)
				for _, page := range pages {
					var list []any
					for q.Continue = ""; ; {
						q.Limit = page
						r := c.Query(t.Context(), AllPartitions(), q)
						for it, err := range r.All() {
							must(t, err)
							list = append(list, decoded(t, it.Body))
						}
						if q.Continue = r.ShortContinue(); len(q.Continue) > continuation.MaxShort {
							t.Fatalf("%s: a continuation of %d characters", text, len(q.Continue))
						}
						if q.Continue == "" {
							break
						}
						if q.Continue != r.Continue() {
							hashed++
						}
						if len(list) > len(whole)+1 {
							t.Fatalf("%s: pages of %d do not end", text, page)
						}
					}
					if !reflect.DeepEqual(canonical(t, list), canonical(t, whole)) {
						t.Errorf("%s: pages of %d have %d results, the whole has %d", text, page, len(list), len(whole))
					}
				}
			}
			if hashed < leastHashed {
				t.Errorf("%d continuations had hashes", hashed)
			}
		}
	}
}

// TestShortContinueGone: a place that is a hash and is not there any more is an error, and
// Continue itself goes on without it.
func TestShortContinueGone(t *testing.T) {
	for text, most := range map[string]int{
		"SELECT VALUE c.n FROM c WHERE c.n = 3": 9, "SELECT VALUE c.n FROM c ORDER BY c.s": 39, "SELECT c.s, COUNT(1) AS n FROM c GROUP BY c.s": 10,
		"SELECT VALUE c.n FROM c ORDER BY CONCAT(c.s, c.p)": 39, "SELECT DISTINCT VALUE CONCAT(c.s, c.p) FROM c": 30,
		"SELECT VALUE t.w FROM c JOIN t IN c.t ORDER BY t.w, c.n": 39, "SELECT UPPER(c.s) AS s FROM c GROUP BY UPPER(c.s)": 10,
	} {
		c := longStore(t, 1, IndexAll())
		q, err := ParseQuery(text, nil)
		must(t, err)
		q.Limit = most
		r := c.Query(t.Context(), AllPartitions(), q)
		for _, err := range r.All() {
			must(t, err)
		}
		long, short := r.Continue(), r.ShortContinue()
		if short == long {
			t.Fatalf("%s: the place is not long", text)
		}
		for it, err := range c.ScanAll(t.Context(), nil) {
			must(t, err)
			must(t, c.Delete(t.Context(), it.Key, it.ID, nil))
		}
		q.Continue = short
		if _, err := results(c.Query(t.Context(), AllPartitions(), q)); !errors.Is(err, ErrBadContinuation) {
			t.Errorf("%s: error %v", text, err)
		}
		q.Continue = long
		if n, err := results(c.Query(t.Context(), AllPartitions(), q)); len(n) != 0 || err != nil {
			t.Errorf("%s: %d results, error %v", text, len(n), err)
		}
	}
}

func decoded(t *testing.T, text []byte) (v any) {
	must(t, json.Unmarshal(text, &v))
	return v
}
