package host_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// TestIndexPolicy: queries read few documents of what a container indexes, at each level, also after splits and moves. While
// nodes know different policies, and after restarts, results are right, and a continuation of one node is good at another one.
func TestIndexPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		orders := cluster.Container{
			Name: "orders", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3},
			Index: engine.IndexPolicy{Include: []string{"/n/?"}},
		}
		tell := func(nodes ...uint64) {
			t.Helper()
			for _, id := range nodes {
				must(t, r.Node(id).AddContainer(t.Context(), orders))
			}
		}
		tell(1, 2, 3)
		const items = 200
		for i := range items {
			k := fmt.Sprint("k", i%20)
			_, err := c.Upsert(within(20*time.Second), "orders", engine.StringKey(k), fmt.Appendf(nil, `{"id":"i%d","k":%q,"n":%d,"m":%d}`, i, k, i, i))
			must(t, err)
		}
		// query returns the results of a filter that five items fulfil, in pages of two, and how many documents were read.
		query := func(level protocol.Level, member string, between func()) (documents uint64) {
			t.Helper()
			q := client.Query{Container: "orders", Text: "SELECT VALUE c.n FROM c WHERE c." + member + " >= 100 AND c." + member + " < 105", Limit: 2}
			q.Range = partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
			var got []string
			for !q.Range.Empty() {
				p, end, err := c.Query(within(30*time.Second), level, &q)
				must(t, err)
				for _, row := range p.Rows {
					got = append(got, string(row.Body))
				}
				documents += p.Documents
				if q.Continue = p.Continue; p.Done {
					q.Range.Min = end
				}
				between()
			}
			slices.Sort(got)
			if fmt.Sprint(got) != "[100 101 102 103 104]" {
				t.Errorf("%v, %s: %v", level, member, got)
			}
			return documents
		}
		wants := func(when string, level protocol.Level, member string, most uint64) {
			t.Helper()
			if n := query(level, member, func() {}); n > most {
				t.Errorf("%s: a query by %s at level %v reads %d documents", when, member, level, n)
			}
		}
		for _, level := range []protocol.Level{protocol.Strong, protocol.Session, protocol.Eventual} {
			wants("at first", level, "n", 10)
		}
		if n := query(protocol.Strong, "m", func() {}); n < items {
			t.Errorf("a query by what is not indexed reads %d documents", n)
		}
		must(t, r.Split(orders.Number<<32|1, orders.Number<<32|100))
		wants("after a split", protocol.Strong, "n", 10)
		must(t, r.Start(4))
		tell(4)
		r.Move(orders.Number<<32|100, 3, 4)
		for _, level := range []protocol.Level{protocol.Strong, protocol.Eventual} {
			wants("after a split and a move", level, "n", 10)
		}

		// The nodes hear of another policy one after the other, between the pages of a query.
		orders.Index, orders.Revision = engine.IndexPolicy{Include: []string{"/m/?"}}, 1
		told := []uint64{2, 1, 4, 3}
		next := 0
		query(protocol.Eventual, "n", func() {
			if next < len(told) {
				tell(told[next])
				next++
			}
		})
		tell(told...)
		before := orders
		before.Index, before.Revision = engine.IndexPolicy{}, 0
		must(t, r.Node(1).AddContainer(t.Context(), before)) // an older one comes late
		check := func(when string) {
			t.Helper()
			for _, id := range told {
				in, err := r.Node(id).DB().Container("orders")
				must(t, err)
				if got := in.Def().Index; !slices.Equal(got.Include, orders.Index.Include) {
					t.Errorf("%s: node %d indexes %+v", when, id, got)
				}
				if got := r.Node(id).Status().Containers; len(got) != 1 || got[0].Revision != orders.Revision {
					t.Errorf("%s: node %d shows %+v", when, id, got)
				}
			}
		}
		check("after a change")
		query(protocol.Strong, "n", func() {})
		d, err := c.Definition(within(10*time.Second), "orders")
		if err != nil || d.Revision != 1 || !slices.Equal(d.Index.Include, orders.Index.Include) {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err = c.Definition(within(10*time.Second), "items"); err != nil || d.Number != 1 {
			t.Errorf("one of the description: %+v, %v", d, err)
		}
		if _, err = c.Definition(within(10*time.Second), "none"); !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("none: %v", err)
		}
		for _, id := range told {
			r.Kill(id)
			must(t, r.Start(id))
		}
		check("after a restart")
		r.Until("the indexes", func() bool { return query(protocol.Strong, "m", func() {}) <= 10 })

		other := orders
		other.DefaultTTL = 60
		if err = r.Node(1).AddContainer(t.Context(), other); !errors.Is(err, host.ErrChange) {
			t.Errorf("another default time to live: %v", err)
		}
		if err = c.SetIndexPolicy(within(10*time.Second), "orders", engine.IndexPolicy{}); !errors.Is(err, protocol.ErrChange) {
			t.Errorf("without a metadata store: %v", err)
		}
		c.Close()
		r.Close()
	})
}

// TestIndexOfDescribed: the index policy of a container that the description of the cluster has can be changed too.
func TestIndexOfDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		items := r.Cluster().Containers[0]
		items.Number, items.Index, items.Revision = 1, engine.IndexAll(), 1
		must(t, r.Node(2).AddContainer(t.Context(), items))
		r.Kill(2)
		must(t, r.Start(2))
		for id, want := range map[uint64]bool{1: false, 2: true} {
			in, err := r.Node(id).DB().Container("items")
			must(t, err)
			if got := in.Def().Index; (len(got.Include) > 0) != want {
				t.Errorf("node %d indexes %+v", id, got)
			}
		}
		if d, err := c.Definition(within(10*time.Second), "items"); err != nil || d.Revision != 1 {
			t.Errorf("%+v, %v", d, err)
		}
		c.Close()
		r.Close()
	})
}
