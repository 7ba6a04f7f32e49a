package host_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/protocol"
)

// TestSilentNode: who reads below strong does not wait for a node that says nothing, again and again. When it speaks it is asked
// again, and a request that is for this node alone waits for the connection.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		key := engine.StringKey(r.KeyIn(0))
		_, err := c.Upsert(within(20*time.Second), "items", key, fmt.Appendf(nil, `{"id":"i","k":%q}`, r.KeyIn(0)))
		must(t, err)
		r.Until("all replicas have it", func() bool {
			for id := uint64(1); id <= 3; id++ {
				items, err := r.Node(id).DB().Container("items")
				must(t, err)
				if _, err = items.Read(t.Context(), key, "i"); err != nil {
					return false
				}
			}
			return true
		})
		for id := uint64(1); id <= 3; id++ { // the client is connected with all
			_, err := c.Status(within(20*time.Second), id)
			must(t, err)
		}
		silent := r.Leading(r.Cluster().Groups()[0].ID).Node()%3 + 1
		address := fmt.Sprintf("node%d:1", silent)
		reads := func(n int) time.Duration {
			t.Helper()
			begun := time.Now()
			for range n {
				_, err := c.Read(within(20*time.Second), protocol.Prefix, "items", key, "i")
				must(t, err)
			}
			return time.Since(begun)
		}
		reads(30)
		r.Network().Blackhole(address, true)
		first := reads(30)
		time.Sleep(10 * time.Second) // the connection has ended, and the client may dial
		second := reads(3)           // the first dial after it
		third := reads(30)
		t.Log(first, second, third)
		if third > time.Second {
			t.Errorf("30 reads beside a node that says nothing: %v", third)
		}
		r.Network().Blackhole(address, false)
		time.Sleep(5 * time.Second) // dials of before have ended
		if _, err = c.Status(within(20*time.Second), silent); err != nil {
			t.Errorf("the node speaks again: %v", err)
		}
		c.Close()
		r.Close()
	})
}
