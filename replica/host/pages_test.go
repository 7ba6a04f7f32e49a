package host_test

import (
	"fmt"
	"slices"
	"strconv"
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

// TestPagesOfNodes: each page of a query comes from another node, and each node indexes something else. Together the pages have each
// result once, in the order of the query.
func TestPagesOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := host.NewRig(t, 1, serve.Client)
		var near []*client.Client
		for id := uint64(1); id <= 3; id++ {
			c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(fmt.Sprint("client", id)), Near: id})
			t.Cleanup(c.Close)
			near = append(near, c)
		}
		policies := []engine.IndexPolicy{{}, engine.IndexAll(), {
			Include:   []string{"/m/?"},
			Composite: [][]engine.CompositePath{{{Path: "/m"}, {Path: "/n", Descending: true}}},
		}}
		notes := cluster.Container{Name: "notes", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Node(id).AddContainer(t.Context(), notes))
			notes.Index, notes.Revision = policies[id-1], id
			must(t, r.Node(id).AddContainer(t.Context(), notes))
			notes.Index, notes.Revision = engine.IndexPolicy{}, 0
		}
		const items = 60
		var all []int
		for i := range items {
			_, err := near[0].Upsert(within(20*time.Second), "notes", engine.StringKey("a"), fmt.Appendf(nil, `{"id":"i%d","k":"a","n":%d,"m":%d,"s":"%s"}`, i, i, i%5, strings.Repeat("x", i%3)))
			must(t, err)
			all = append(all, i)
		}
		time.Sleep(time.Second) // all nodes have all of them
		must(t, r.Node(2).DB().Flush(t.Context()))
		by := func(of func(int) []int) []int {
			out := slices.Clone(all)
			slices.SortStableFunc(out, func(x, y int) int { return slices.Compare(of(x), of(y)) })
			return out
		}
		for _, tc := range []struct {
			text string
			want []int
			free bool // of any order
		}{
			{"SELECT VALUE c.n FROM c ORDER BY c.n DESC", by(func(i int) []int { return []int{-i} }), false},
			{"SELECT VALUE c.n FROM c ORDER BY c.m, c.n DESC", by(func(i int) []int { return []int{i % 5, -i} }), false},
			{"SELECT VALUE c.n FROM c WHERE c.m = 3", slices.DeleteFunc(slices.Clone(all), func(i int) bool { return i%5 != 3 }), true},
			{"SELECT VALUE c.n FROM c WHERE c.m < 2 OR c.n > 40", slices.DeleteFunc(slices.Clone(all), func(i int) bool { return i%5 >= 2 && i <= 40 }), true},
			{"SELECT VALUE c.n FROM c WHERE STARTSWITH(c.s, 'xx') ORDER BY c.n", slices.DeleteFunc(slices.Clone(all), func(i int) bool { return i%3 != 2 }), false},
		} {
			for _, whole := range []bool{true, false} { // a logical partition, or the key space, which is one group
				for first := range near {
					q := client.Query{Container: "notes", Text: tc.text, Limit: 4, Range: partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}}
					if !whole {
						q.Key = engine.StringKey("a")
					}
					var got []int
					for page, done := first, false; !done && len(got) <= items; page++ {
						p, _, err := near[page%3].Query(within(20*time.Second), protocol.Eventual, &q)
						must(t, err)
						for _, row := range p.Rows {
							n, err := strconv.Atoi(string(row.Body))
							must(t, err)
							got = append(got, n)
						}
						q.Continue, done = p.Continue, p.Done
					}
					if tc.free {
						slices.Sort(got)
					}
					if !slices.Equal(got, tc.want) {
						t.Errorf("%s, of the whole %v, from node %d: %v, want %v", tc.text, whole, first+1, got, tc.want)
					}
				}
			}
		}
		for _, c := range near {
			c.Close()
		}
		r.Close()
	})
}
