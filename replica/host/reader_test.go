package host_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
)

// TestReader: a replica in another region that does not vote takes part in no quorum, answers a client
// of its region at the levels that ask for no leader when all others are dead, and in a session what
// the session has written.
func TestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		id := r.Cluster().Groups()[0].ID
		must(t, r.Start(4))
		_, err := r.Leading(id).AddReader(within(20*time.Second), id, 4)
		must(t, err)
		r.Until("the reader", func() bool { return r.Node(4).Group(id) != nil })
		if on, _ := r.Leading(id).Group(id).On(4); on.Role != topology.Learner || r.Leading(id).Group(id).Voters() != 3 {
			t.Fatalf("%+v", r.Leading(id).Group(id))
		}
		d := *r.Cluster()
		d.Joined = []cluster.Node{{ID: 4, Address: "node4:1", Region: "there"}}
		there := client.New(client.Config{Cluster: &d, Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress), Region: "there"})
		t.Cleanup(there.Close)
		there.Refresh(within(20 * time.Second))
		time.Sleep(time.Second)
		there.Refresh(within(20 * time.Second))
		key := engine.StringKey(r.KeyIn(0))
		doc := ""
		for n := range 20 {
			doc = fmt.Sprintf(`{"id":"i","k":%q,"n":%d}`, r.KeyIn(0), n)
			_, err = there.Upsert(within(20*time.Second), "items", key, []byte(doc))
			must(t, err)
			if it, err := there.Read(within(20*time.Second), protocol.Session, "items", key, "i"); err != nil || string(it.Body) != doc {
				t.Fatalf("in the session: %s, %v", it.Body, err)
			}
		}
		time.Sleep(time.Second)
		for node := uint64(1); node <= 3; node++ {
			r.Kill(node)
		}
		for _, level := range []protocol.Level{protocol.Eventual, protocol.Prefix, protocol.Session} {
			if it, err := there.Read(within(20*time.Second), level, "items", key, "i"); err != nil || string(it.Body) != doc {
				t.Errorf("at the level %v, without the voters: %s, %v", level, it.Body, err)
			}
		}
		c.Close()
		there.Close()
		r.Close()
	})
}
