package host_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/serve"
	"github.com/cleavestore/cleave/replica/transport"
)

// TestSilentNode: one read below strong waits for a node that says nothing, and then none does. When it speaks, a request that is
// for this node alone waits for the connection, and reads come to it again.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silent = 1
		var conns atomic.Int64 // of clients with the node
		r := host.NewRig(t, 1, func(ctx context.Context, h *host.Host, conn *transport.Conn) {
			if h.Node() == silent {
				conns.Add(1)
			}
			serve.Client(ctx, h, conn)
		})
		c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		t.Cleanup(c.Close)
		r.Steady()
		r.OnDrop(func(context.Context, string, uint64) error { return nil })
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
		if d := reads(30); d > 1500*time.Millisecond {
			t.Errorf("30 reads beside a node that says nothing, of which one may wait for it: %v", d)
		}
		must(t, c.DropContainer(within(3*time.Second), "items")) // whichever node can do it
		time.Sleep(10 * time.Second)                             // its connection has ended
		for range 2 {
			begun := time.Now()
			c.Refresh(within(20 * time.Second))
			if d := time.Since(begun); d > 0 {
				t.Errorf("nodes are asked for groups for %v", d)
			}
			if d := reads(30); d > 0 {
				t.Errorf("30 reads beside a node that is known to say nothing: %v", d)
			}
			time.Sleep(time.Minute)
		}
		r.Network().Blackhole(address, false)
		time.Sleep(5 * time.Second) // dials of before have ended
		if _, err = c.Status(within(20*time.Second), silent); err != nil {
			t.Errorf("the node speaks again: %v", err)
		}
		r.Kill(silent)
		reads(3)
		must(t, r.Start(silent))
		before := conns.Load()
		time.Sleep(time.Second)
		reads(3)
		synctest.Wait()
		if conns.Load() == before {
			t.Error("no read has the client connect with the node again")
		}
		c.Close()
		r.Close()
	})
}
