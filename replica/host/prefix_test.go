package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/serve"
)

// TestQueryPrefix: a query of the first level of keys has what the groups have of it, each result once, while groups split between
// and within its keys. What other groups of the same nodes have of it each group leaves out, so counts add up.
func TestQueryPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := host.NewRig(t, 1, serve.Client)
		c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		pairs := cluster.Container{Name: "pairs", PartitionKey: []string{"/a", "/b"}, Partitions: 2, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Node(id).AddContainer(t.Context(), pairs))
		}
		const each = 40
		x := engine.StringKey("x")
		var want []string
		for i := range each {
			for _, a := range []string{"x", "y", "z"} {
				key := engine.JoinKeys(engine.StringKey(a), engine.StringKey(fmt.Sprint("b", i)))
				_, err := c.Upsert(within(20*time.Second), "pairs", key, fmt.Appendf(nil, `{"id":"i","a":%q,"b":"b%d","n":%d,"s":%q}`, a, i, i, strings.Repeat(a, 1+3000*strings.Count(a, "x"))))
				must(t, err)
			}
			want = append(want, fmt.Sprint(i))
		}
		slices.Sort(want)
		keys, err := x.Range()
		must(t, err)
		// pages returns the results of a query of a key, and of how many groups they come.
		pages := func(key engine.PartitionKey, rng partmap.Range, text string, between func()) (rows []string, groups int) {
			t.Helper()
			q := client.Query{Container: "pairs", Key: key, Range: rng, Text: text, Limit: 7}
			for more := true; more; between() {
				p, end, err := c.Query(within(30*time.Second), protocol.Strong, &q)
				must(t, err)
				for _, row := range p.Rows {
					rows = append(rows, string(row.Body))
				}
				if q.Continue = p.Continue; p.Done {
					groups++
					more = end.Compare(&rng.Max) < 0
					q.Range.Min = end
				}
			}
			return rows, groups
		}
		nothing := func() {}
		check := func(least int) {
			t.Helper()
			rows, _ := pages(x, keys, "SELECT VALUE c.n FROM c", nothing)
			slices.Sort(rows)
			if !slices.Equal(rows, want) {
				t.Errorf("%d results: %v", len(rows), rows)
			}
			counts, groups := pages(x, keys, "SELECT VALUE COUNT(1) FROM c", nothing)
			sum := 0
			for _, text := range counts {
				n := 0
				_, err := fmt.Sscan(text, &n)
				must(t, err)
				sum += n
			}
			if sum != each || groups < least {
				t.Errorf("%d groups count %v", groups, counts)
			}
		}
		check(1)
		id := c.GroupOf("pairs", engine.JoinKeys(x, engine.StringKey("b0")))
		rows, _ := pages(x, keys, "SELECT VALUE c.n FROM c WHERE c.n < 12 ORDER BY c.n DESC", nothing)
		if fmt.Sprint(rows) != "[11 10 9 8 7 6 5 4 3 2 1 0]" {
			t.Errorf("in an order: %v", rows)
		}
		must(t, r.Split(id, id>>32<<32|100))
		check(2)
		steps := 0
		rows, _ = pages(x, keys, "SELECT VALUE c.n FROM c", func() {
			if steps++; steps == 2 {
				must(t, r.Split(id, id>>32<<32|101))
				must(t, r.Split(id>>32<<32|100, id>>32<<32|102))
			}
		})
		slices.Sort(rows)
		if !slices.Equal(rows, want) {
			t.Errorf("while groups split, %d results: %v", len(rows), rows)
		}
		check(3)
		all := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
		for _, rng := range []partmap.Range{all, {Min: partmap.MinEPK(), Max: keys.Max}} { // wider than the keys
			if rows, _ := pages(x, rng, "SELECT VALUE c.n FROM c", nothing); len(rows) != each {
				t.Errorf("within %v: %d results", rng, len(rows))
			}
		}
		key := engine.JoinKeys(x, engine.StringKey("b7"))
		for _, rng := range []partmap.Range{{}, all} {
			q := client.Query{Container: "pairs", Key: key, Range: rng, Text: "SELECT VALUE c.n FROM c", Limit: 7}
			if p, _, err := c.Query(within(20*time.Second), protocol.Strong, &q); err != nil || len(p.Rows) != 1 || string(p.Rows[0].Body) != "7" || !p.Done {
				t.Errorf("a whole key within %v: %+v, %v", rng, p, err)
			}
		}
		outside := client.Query{Container: "pairs", Key: key, Range: partmap.Range{Min: keys.Max, Max: partmap.MaxEPK()}, Text: "SELECT VALUE c.n FROM c"}
		if p, end, err := c.Query(within(20*time.Second), protocol.Strong, &outside); err != nil || len(p.Rows) != 0 || !p.Done || end != outside.Range.Max {
			t.Errorf("a key outside of the range: %+v, %v", p, err)
		}
		c.Close()
		r.Close()
	})
}
