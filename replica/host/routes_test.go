package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

const newRight = 1<<32 | 1<<20

// TestClientFollows: a group splits and both halves move away from all nodes but one, to one that
// the client has never heard of, while clients write and read in their sessions. Nothing that was
// acknowledged is lost, no read in a session goes back, and the client has the new map.
func TestClientFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		left := r.Cluster().Groups()[0].ID
		const writers = 8
		var tasks sync.WaitGroup
		var stop atomic.Bool
		var acked [writers]int
		key := func(w int) string { return fmt.Sprint("key", w) }
		for w := range writers {
			tasks.Go(func() {
				v := client.View{Client: c, Session: client.NewSession(), Level: protocol.Session}
				for n := 1; !stop.Load(); n++ {
					_, err := c.Upsert(within(30*time.Second), "items", engine.StringKey(key(w)), fmt.Appendf(nil, `{"id":"i","k":%q,"n":%d}`, key(w), n))
					if err != nil && !errors.Is(err, client.ErrResults) {
						t.Errorf("write %d of %s: %v", n, key(w), err)
						return
					}
					acked[w] = n
					if err := v.Session.Join(c.Session().Token()); err != nil {
						t.Error(err)
					}
					want := fmt.Sprintf(`{"id":"i","k":%q,"n":%d}`, key(w), n)
					if it, err := v.Read(within(30*time.Second), "items", engine.StringKey(key(w)), "i"); err != nil || string(it.Body) != want {
						t.Errorf("a read in a session sees %s, %v; want %s", it.Body, err, want)
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		must(t, r.Split(left, newRight))
		time.Sleep(time.Second)
		must(t, r.Start(4))
		for _, id := range []uint64{left, newRight} {
			must(t, c.Move(within(time.Minute), id, r.Leading(id).Node(), 4))
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(time.Second)
		stop.Store(true)
		tasks.Wait()
		halves := make(map[uint64]int)
		for w := range writers {
			halves[c.GroupOf("items", engine.StringKey(key(w)))]++
			want := fmt.Sprintf(`{"id":"i","k":%q,"n":%d}`, key(w), acked[w])
			for _, level := range []protocol.Level{protocol.Strong, protocol.Session} {
				if it, err := c.Read(within(30*time.Second), level, "items", engine.StringKey(key(w)), "i"); err != nil || string(it.Body) != want {
					t.Errorf("a read at the level %v sees %s, %v; want %s", level, it.Body, err, want)
				}
			}
		}
		if halves[left] == 0 || halves[newRight] == 0 || len(halves) != 2 {
			t.Errorf("the client has writers in the groups %v", halves)
		}
		for _, id := range []uint64{left, newRight} {
			if _, on := c.Descriptor(id).On(4); !on {
				t.Errorf("the client does not know that group %d is on node 4: %+v", id, c.Descriptor(id))
			}
		}
		c.Close()
		r.Close()
	})
}

// TestTokenAcrossSplit: a client that has not heard of a split gets a token with an entry of the
// right half, and asks where that is before it reads.
func TestTokenAcrossSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := host.NewRig(t, 1, serve.Client)
		r.Steady()
		var both [2]*client.Client
		for i := range both {
			both[i] = client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
			t.Cleanup(both[i].Close)
		}
		left := r.Cluster().Groups()[0].ID
		must(t, both[0].Split(within(time.Minute), left, newRight))
		key := ""
		for i := 0; both[0].GroupOf("items", engine.StringKey(key)) != newRight; i++ {
			key = fmt.Sprint("key", i)
		}
		doc := fmt.Sprintf(`{"id":"i","k":%q,"n":1}`, key)
		_, err := both[0].Upsert(within(20*time.Second), "items", engine.StringKey(key), []byte(doc))
		must(t, err)
		if got := both[1].GroupOf("items", engine.StringKey(key)); got != left {
			t.Fatalf("the other client knows of the split: %d", got)
		}
		must(t, both[1].Session().Join(both[0].Session().Token()))
		if it, err := both[1].Read(within(20*time.Second), protocol.Session, "items", engine.StringKey(key), "i"); err != nil || string(it.Body) != doc {
			t.Errorf("%s, %v", it.Body, err)
		}
		if got := both[1].GroupOf("items", engine.StringKey(key)); got != newRight {
			t.Errorf("the other client has not followed: %d", got)
		}
		for _, id := range []uint64{left, newRight} { // the first one has split it off before, and is to be divided once more
			if err := both[1].Split(within(time.Second), id, newRight); !errors.Is(err, engine.ErrExists) {
				t.Errorf("a split of group %d off which a group is to come that is there: %v", id, err)
			}
		}
		for _, c := range both {
			c.Close()
		}
		r.Close()
	})
}

// TestLostAcrossSplit: a client has not heard of a split, and gets no answer to a write to the right half. It repeats the write there,
// though it knows of more entries in the left half than there are in the right one.
func TestLostAcrossSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		left := r.Cluster().Groups()[0].ID
		must(t, r.Split(left, newRight))
		right := r.Leading(newRight).Group(newRight).Range
		var keys [2]string // of the halves
		for i := 0; keys[0] == "" || keys[1] == ""; i++ {
			half, k := 0, fmt.Sprint("key", i)
			if epk := engine.StringKey(k).EPK(); right.Contains(&epk) {
				half = 1
			}
			keys[half] = k
		}
		write := func(key string) error {
			_, err := c.Upsert(within(20*time.Second), "items", engine.StringKey(key), fmt.Appendf(nil, `{"id":"i","k":%q}`, key))
			return err
		}
		for range 50 {
			must(t, write(keys[0]))
		}
		if got := c.GroupOf("items", engine.StringKey(keys[1])); got != left {
			t.Fatalf("the client knows of the split: %d", got)
		}
		r.Network().Blackhole(clientAddress, true)
		time.AfterFunc(500*time.Millisecond, func() { r.Network().Blackhole(clientAddress, false) })
		if err := write(keys[1]); err != nil {
			t.Errorf("a write whose first request was lost: %v", err)
		}
		c.Close()
		r.Close()
	})
}

// TestClientAddress: a node has another address than the client's description says. The client learns it from the other nodes.
func TestClientAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := host.NewRig(t, 1, serve.Client)
		r.Steady()
		d := *r.Cluster()
		d.Nodes = slices.Clone(d.Nodes)
		d.Nodes[0].Address = "before:1"
		c := client.New(client.Config{Cluster: &d, Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		key := engine.StringKey(r.KeyIn(0))
		if h := r.Leading(r.Cluster().Groups()[0].ID); h.Node() != 1 {
			t.Fatalf("node %d leads", h.Node())
		}
		_, err := c.Upsert(within(20*time.Second), "items", key, fmt.Appendf(nil, `{"id":"i","k":%q}`, r.KeyIn(0)))
		must(t, err)
		c.Close()
		r.Close()
	})
}

// TestIntroduce: a node that does not answer does not keep the others from being told of one that joins.
func TestIntroduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		r.Kill(2)
		for id := uint64(11); id < 16; id++ {
			err := c.Introduce(within(time.Minute), id, fmt.Sprintf("node%d:1", id))
			if err == nil || !strings.Contains(err.Error(), "node 2 was not told") || strings.Contains(err.Error(), "node 1 was") || strings.Contains(err.Error(), "node 3 was") {
				t.Error(err)
			}
			for _, node := range []uint64{1, 3} {
				if !slices.ContainsFunc(r.Node(node).Peers(), func(p transport.PeerStatus) bool { return p.Node == id }) {
					t.Errorf("node %d does not know node %d", node, id)
				}
			}
		}
		c.Close()
		r.Close()
	})
}
