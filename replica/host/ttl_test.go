package host_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// TestDefaultTTLChanged: the default time to live of a container changes while leaders are killed, one node has compacted its
// files and the others have not, and the group splits. Nodes agree, and what has expired does not come back.
func TestDefaultTTLChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		notes := cluster.Container{
			Name: "notes", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3},
			DefaultTTL: 20, MutableTTL: true,
		}
		tell := func() {
			t.Helper()
			for id := uint64(1); id <= 3; id++ {
				if r.Node(id) != nil {
					must(t, r.Node(id).AddContainer(t.Context(), notes))
				}
			}
		}
		tell()
		group := notes.Number<<32 | 1
		r.Until("the first node leads", func() bool { leads, _ := r.Node(1).Leads(group); return leads })
		write := func(id, rest string) {
			t.Helper()
			_, err := c.Upsert(within(20*time.Second), "notes", engine.StringKey("a"), fmt.Appendf(nil, `{"id":%q,"k":"a"%s}`, id, rest))
			must(t, err)
		}
		check := func(when string, want map[string]string) {
			t.Helper()
			for id, is := range want {
				if got := found(c, protocol.Strong, "notes", id); got != is {
					t.Errorf("%s: %s is %s, want %s", when, id, got, is)
				}
			}
			r.Until("the nodes agree", func() bool {
				for _, nodes := range digests(t, r, "notes", 1, 2, 3) {
					if len(nodes) != 3 {
						return false
					}
				}
				return true
			})
		}
		// retime changes the default, and waits until all replicas have it.
		retime := func(seconds int64) {
			t.Helper()
			changed, err := notes.Retime(seconds)
			if err != nil || !changed {
				t.Fatalf("a default of %d: %v, %v", seconds, changed, err)
			}
			tell()
			r.Until("the replicas have the default", func() bool {
				for id := uint64(1); id <= 3; id++ {
					if r.Node(id) != nil && !has(r, id, notes.TTLRevision) {
						return false
					}
				}
				return true
			})
		}
		write("plain", "")
		write("own", `,"ttl":15`)
		write("long", `,"ttl":300`)
		write("ever", `,"ttl":-1`)
		time.Sleep(25 * time.Second)
		check("by the first default", map[string]string{"plain": "gone", "own": "gone", "long": "there", "ever": "there"})
		must(t, r.Node(2).DB().Compact(t.Context()))

		r.Kill(r.Leading(group).Node()) // what another one leads by then has the change too
		retime(0)
		for id := uint64(1); id <= 3; id++ {
			if r.Node(id) == nil {
				must(t, r.Start(id))
			}
		}
		write("late", "")
		write("brief", `,"ttl":5`)
		time.Sleep(40 * time.Second)
		off := map[string]string{"plain": "gone", "own": "gone", "long": "there", "ever": "there", "late": "there", "brief": "there"}
		check("nothing expires", off)
		retime(30)
		on := map[string]string{"plain": "gone", "own": "gone", "long": "there", "ever": "there", "late": "gone", "brief": "gone"}
		check("30 s", on)
		must(t, r.Node(3).DB().Compact(t.Context()))
		retime(cluster.NoExpiry)
		check("only with a time of their own", on)
		write("after", "")
		time.Sleep(time.Minute)
		on["after"] = "there"
		check("only with a time of their own", on)

		for i := range 20 {
			key := fmt.Sprint("other", i)
			_, err := c.Upsert(within(20*time.Second), "notes", engine.StringKey(key), fmt.Appendf(nil, `{"id":"x","k":%q,"ttl":-1}`, key))
			must(t, err)
		}
		must(t, c.Split(within(20*time.Second), group, notes.Number<<32|2))
		retime(45)
		on["after"] = "gone"
		check("in two groups", on)
		write("after", "")
		on["after"] = "there"
		r.Kill(1)
		must(t, r.Start(1))
		check("after a restart", on)

		fixed := cluster.Container{Name: "fixed", DefaultTTL: 5}
		if changed, err := fixed.Retime(6); changed || err == nil {
			t.Errorf("without mutable_ttl: %v, %v", changed, err)
		}
	})
}

// has reports whether all partitions of a node go by a revision of the default time to live.
func has(r *host.Rig, node, revision uint64) bool {
	c, err := r.Node(node).DB().Container("notes")
	if err != nil {
		return false
	}
	for _, p := range c.Partitions() {
		if p.Absent {
			continue
		}
		if now, err := c.AppliedTTL(p.ID); err != nil || now.Revision < revision {
			return false
		}
	}
	return true
}
