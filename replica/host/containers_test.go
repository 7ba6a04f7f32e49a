package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// TestAddContainer: a container that nodes are told of while they run takes writes of a client that
// has never heard of it, and is there after a node was killed and started; a second one of the same
// name and another number is refused.
func TestAddContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		if _, err := c.Read(within(10*time.Second), protocol.Strong, "orders", engine.StringKey("a"), "i"); !errors.Is(err, engine.ErrNoContainer) {
			t.Fatal("before: ", err)
		}
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 2, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		for id := uint64(1); id <= 3; id++ {
			for range 2 { // again does no harm
				must(t, r.Node(id).AddContainer(t.Context(), orders))
			}
		}
		write := func(n int) {
			t.Helper()
			for i := range 10 {
				k := fmt.Sprint("key", i)
				_, err := c.Upsert(within(20*time.Second), "orders", engine.StringKey(k), fmt.Appendf(nil, `{"id":"i","k":%q,"n":%d}`, k, n))
				must(t, err)
			}
		}
		write(1)
		for id := uint64(1); id <= 3; id++ {
			r.Kill(id)
			must(t, r.Start(id))
		}
		write(2)
		for i := range 10 {
			k := fmt.Sprint("key", i)
			it, err := c.Read(within(20*time.Second), protocol.Strong, "orders", engine.StringKey(k), "i")
			if err != nil || string(it.Body) != fmt.Sprintf(`{"id":"i","k":%q,"n":2}`, k) {
				t.Errorf("%s: %s, %v", k, it.Body, err)
			}
		}
		other := orders
		other.Number++
		if err := r.Node(1).AddContainer(t.Context(), other); !errors.Is(err, host.ErrChange) {
			t.Error("another number: ", err)
		}
		other = cluster.Container{Name: "more", PartitionKey: []string{"/k"}, Partitions: 1, Number: 2}
		if err := r.Node(1).AddContainer(t.Context(), other); !errors.Is(err, cluster.ErrDescription) {
			t.Error("a low number: ", err)
		}
		c.Close()
		r.Close()
	})
}

// TestContainerAway: a client that does not know a container yet waits for the nodes that have it, and is told that there is none
// of a name only if nodes say so.
func TestContainerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{3}}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Node(id).AddContainer(t.Context(), orders))
		}
		r.Kill(3)
		key := engine.StringKey("a")
		read := func(container string) error {
			_, err := c.Read(within(5*time.Second), protocol.Strong, container, key, "i")
			return err
		}
		if err := read("orders"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrNoContainer) {
			t.Error("the node that has it is down: ", err)
		}
		for _, err := range c.Changes(within(5*time.Second), "orders", "", nil) {
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrNoContainer) {
				t.Error("changes, the node that has it is down: ", err)
			}
		}
		if err := read("nothing"); !errors.Is(err, engine.ErrNoContainer) {
			t.Error("there is none: ", err)
		}
		r.Kill(1)
		r.Kill(2)
		if err := read("nothing"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrNoContainer) {
			t.Error("nobody answers: ", err)
		}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Start(id))
		}
		_, err := c.Upsert(within(20*time.Second), "orders", key, []byte(`{"id":"i","k":"a"}`))
		must(t, err)
		must(t, read("orders"))
		c.Close()
		r.Close()
	})
}

// TestSplitHalves: a group whose data is all in a small part of its range is split where it halves
// the data, not in the middle of the range; one that is a single logical partition is not split.
func TestSplitHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		id := r.Cluster().Groups()[0].ID
		one := r.KeyIn(0)
		pad := strings.Repeat("x", 500)
		put := func(k, item string) {
			t.Helper()
			_, err := c.Upsert(within(20*time.Second), "items", engine.StringKey(k), fmt.Appendf(nil, `{"id":%q,"k":%q,"pad":%q}`, item, k, pad))
			must(t, err)
		}
		for i := range 20 {
			put(one, fmt.Sprint("i", i))
		}
		if err := r.Split(id, newRight); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("one logical partition: %v", err)
		}
		var keys []string // all in the lowest sixteenth
		for i := 0; len(keys) < 40; i++ {
			k := fmt.Sprint("low", i)
			if epk := engine.StringKey(k).EPK(); epk.Bytes()[0] < 0x04 {
				keys = append(keys, k)
			}
		}
		for _, k := range keys {
			for i := range 5 {
				put(k, fmt.Sprint("i", i))
			}
		}
		must(t, r.Split(id, newRight))
		left := 0
		for _, k := range keys {
			epk := engine.StringKey(k).EPK()
			if d := r.Leading(id).Group(id); d.Range.Contains(&epk) {
				left++
			}
		}
		if left < 12 || left > 28 {
			t.Errorf("%d of %d keys are in the left half", left, len(keys))
		}
		c.Close()
		r.Close()
	})
}

// TestDropContainer: a container is dropped while clients write to it, one of its groups splits and a
// replica moves, and one node is down. Clients are told that there is no such container. The node that
// was down drops its part later. A container of the same name has nothing of the one before, for
// clients and sessions of before either.
func TestDropContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 2, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Node(id).AddContainer(t.Context(), orders))
		}
		key := func(i int) engine.PartitionKey { return engine.StringKey(fmt.Sprint("key", i)) }
		doc := func(i int) []byte { return fmt.Appendf(nil, `{"id":"i","k":"key%d"}`, i) }
		for i := range 20 {
			_, err := c.Upsert(within(20*time.Second), "orders", key(i), doc(i))
			must(t, err)
		}
		token := c.Session().Token()
		r.Kill(3)
		ended := make(chan error)
		const writers = 6
		for w := range writers {
			go func() {
				for i := w; ; i++ {
					if _, err := c.Upsert(within(time.Minute), "orders", key(i%20), doc(i%20)); err != nil {
						ended <- err
						return
					}
					time.Sleep(time.Millisecond) // the time of the bubble passes only when nobody is busy
				}
			}()
		}
		group := orders.Number<<32 | 1
		changes := make(chan error, 2)
		go func() { changes <- c.Split(within(time.Minute), group, orders.Number<<32|9) }()
		go func() { changes <- c.Move(within(time.Minute), group+1, 3, 4) }() // there is no node 4: it comes to nothing
		time.Sleep(20 * time.Millisecond)
		begun := time.Now()
		for id := uint64(1); id <= 2; id++ {
			must(t, r.Node(id).DropContainer(t.Context(), orders.Number, "orders"))
		}
		for range writers {
			if err := <-ended; !errors.Is(err, engine.ErrNoContainer) {
				t.Errorf("a writer: %v", err)
			}
		}
		for range 2 {
			if err := <-changes; err != nil && !errors.Is(err, engine.ErrNoContainer) && !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("a change: %v", err)
			}
		}
		if d := time.Since(begun); d > 5*time.Second { // by the clock of the bubble
			t.Errorf("clients were told after %v", d)
		}
		if _, err := c.Read(within(5*time.Second), protocol.Eventual, "orders", key(1), "i"); !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("a read: %v", err)
		}
		must(t, r.Start(3))
		time.Sleep(10 * time.Second) // its replicas look for the others
		if groups := r.Node(3).Groups(); len(groups) < 3 {
			t.Errorf("node 3 has heard of nothing, and has the groups %v", groups)
		}
		for id := uint64(1); id <= 2; id++ {
			if groups := r.Node(id).Groups(); len(groups) != 1 {
				t.Errorf("node %d has the groups %v", id, groups)
			}
		}
		must(t, r.Node(3).DropContainer(t.Context(), orders.Number, "orders"))
		if groups := r.Node(3).Groups(); len(groups) != 1 {
			t.Errorf("node 3 has the groups %v", groups)
		}
		again := orders
		again.Number++
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Node(id).AddContainer(t.Context(), again))
		}
		late := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		must(t, late.Session().Join(token))
		for _, who := range []*client.Client{c, late} {
			for _, level := range []protocol.Level{protocol.Strong, protocol.Session} {
				for i := range 20 {
					if _, err := who.Read(within(20*time.Second), level, "orders", key(i), "i"); !errors.Is(err, engine.ErrNotFound) {
						t.Fatalf("%v: key %d of the next container: %v", level, i, err)
					}
				}
			}
		}
		_, err := c.Upsert(within(20*time.Second), "orders", key(3), doc(3))
		must(t, err)
		for id := uint64(1); id <= 3; id++ { // it is there after a restart, and the other one is not
			r.Kill(id)
			must(t, r.Start(id))
		}
		if _, err = late.Read(within(20*time.Second), protocol.Strong, "orders", key(3), "i"); err != nil {
			t.Error(err)
		}
		late.Close()
		c.Close()
		r.Close()
	})
}

// TestDropAgain: a client whose answer is lost asks for the drop again. By then the name may be that of another container, which
// stays.
func TestDropAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		now, calls := uint64(1), 0 // the number that the cluster has for the name
		r.OnDrop(func(_ context.Context, _ string, number uint64) error {
			calls++
			if number != 0 && number != now {
				return engine.ErrNoContainer
			}
			now++ // somebody makes another container of the name at once
			if calls == 1 {
				r.Network().Kill(clientAddress)
			}
			return nil
		})
		if err := c.DropContainer(within(20*time.Second), "items"); err != nil || now != 2 || calls < 2 {
			t.Errorf("%v; after %d calls the name is that of number %d", err, calls, now)
		}
		c.Close()
		r.Close()
	})
}

// TestDropDescribed: a container of the description is dropped, and stays so when a node starts again
// with the description.
func TestDropDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 2)
		key := engine.StringKey(r.KeyIn(0))
		_, err := c.Upsert(within(20*time.Second), "items", key, fmt.Appendf(nil, `{"id":"i","k":%q}`, r.KeyIn(0)))
		must(t, err)
		if err = c.DropContainer(within(20*time.Second), "items"); !errors.Is(err, protocol.ErrChange) {
			t.Errorf("without a metadata store: %v", err)
		}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Node(id).DropContainer(t.Context(), 1, "items"))
			r.Kill(id)
			must(t, r.Start(id))
			if groups := r.Node(id).Groups(); len(groups) != 0 {
				t.Errorf("node %d has the groups %v", id, groups)
			}
		}
		if _, err = c.Read(within(20*time.Second), protocol.Strong, "items", key, "i"); !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("a read: %v", err)
		}
		again := cluster.Container{Name: "items", PartitionKey: []string{"/other"}, Partitions: 1, Number: cluster.FirstNumber + 3, Nodes: []uint64{1, 2, 3}}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Node(id).AddContainer(t.Context(), again))
		}
		_, err = c.Upsert(within(20*time.Second), "items", engine.StringKey("x"), []byte(`{"id":"i","other":"x"}`))
		must(t, err)
		c.Close()
		r.Close()
	})
}
