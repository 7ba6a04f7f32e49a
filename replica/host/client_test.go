package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/serve"
	"github.com/cleavestore/cleave/replica/transport"
)

const clientAddress = "client"

func open(t *testing.T, partitions int) (*host.Rig, *client.Client) {
	r := host.NewRig(t, partitions, serve.Client)
	c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
	t.Cleanup(c.Close)
	return r, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// TestClientTooLarge: a batch that no node reads is refused at once, and nobody else is disturbed.
func TestClientTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		key := engine.StringKey(r.KeyIn(0))
		_, err := c.Upsert(within(20*time.Second), "items", key, fmt.Appendf(nil, `{"id":"i","k":%q}`, r.KeyIn(0)))
		must(t, err)
		var tasks sync.WaitGroup
		tasks.Go(func() {
			for range 20 {
				time.Sleep(20 * time.Millisecond)
				if _, err := c.Batch(within(20*time.Second), "items", key, command.Operation{Kind: command.Check, ID: "none"}); err != nil {
					t.Errorf("another batch: %v", err)
				}
			}
		})
		if _, err = c.Upsert(within(500*time.Millisecond), "items", key, make([]byte, transport.MaxFrame)); !errors.Is(err, engine.ErrTooLarge) {
			t.Error(err)
		}
		tasks.Wait()
		c.Close()
		r.Close()
	})
}

// TestClientEnding: what a node was doing for a client when it ended fails there. The client asks another node, and is
// told of nothing.
func TestClientEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ending = 2
		var asked atomic.Bool
		r := host.NewRig(t, 1, func(ctx context.Context, h *host.Host, conn *transport.Conn) {
			if h.Node() == ending {
				over, end := context.WithCancel(ctx)
				end()
				ctx = over
				asked.Store(true)
			}
			serve.Client(ctx, h, conn)
		})
		r.Steady()
		key := engine.StringKey(r.KeyIn(0))
		dial := func(near uint64) *client.Client {
			c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress), Near: near})
			t.Cleanup(c.Close)
			return c
		}
		first := dial(0)
		_, err := first.Upsert(within(time.Minute), "items", key, fmt.Appendf(nil, `{"id":"i","k":%q}`, r.KeyIn(0)))
		must(t, err)
		r.Until("all replicas have it", func() bool {
			for node := range uint64(3) {
				items, err := r.Node(node + 1).DB().Container("items")
				must(t, err)
				if _, err = items.Read(t.Context(), key, "i"); err != nil {
					return false
				}
			}
			return true
		})
		c := dial(ending)
		if _, err = c.Read(within(time.Minute), protocol.Eventual, "items", key, "i"); err != nil {
			t.Errorf("read: %v", err)
		}
		if _, _, err = c.Scan(within(time.Minute), protocol.Eventual, "items", key, "", 10); err != nil {
			t.Errorf("scan: %v", err)
		}
		q := client.Query{Container: "items", Key: key, Text: "SELECT * FROM c"}
		if p, _, err := c.Query(within(time.Minute), protocol.Eventual, &q); err != nil || len(p.Rows) != 1 {
			t.Errorf("query: %+v, %v", p, err)
		}
		for p, err := range c.View(protocol.Eventual).Changes(within(time.Minute), "items", "", &client.ChangeOptions{Weak: true}) {
			if err != nil || len(p.Items) != 1 {
				t.Errorf("changes: %+v, %v", p, err)
			}
			break
		}
		if !asked.Load() {
			t.Error("the node that ends was not asked")
		}
		c.Close()
		first.Close()
		r.Close()
	})
}

// TestClientGone: what a node does for a client ends with the connection.
func TestClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		begun, ended := make(chan struct{}, 10), make(chan time.Time, 10)
		r.OnDrop(func(ctx context.Context, _ string, _ uint64) error {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- time.Now()
			return ctx.Err()
		})
		go func() { _ = c.DropContainer(within(time.Minute), "items") }()
		<-begun
		c.Close()
		gone := time.Now()
		if d := (<-ended).Sub(gone); d > time.Second {
			t.Errorf("it went on for %v", d)
		}
		r.Close()
	})
}

// TestClient: what a client has written it reads, at both levels and page by page, and refusals
// are those of the engine.
func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 3)
		key := engine.StringKey(r.KeyIn(1))
		for i := range 25 {
			m, err := c.Upsert(within(10*time.Second), "items", key, fmt.Appendf(nil, `{"id":"i%02d","k":%q}`, i, r.KeyIn(1)))
			must(t, err)
			if m.ETag == 0 || m.Seq == 0 {
				t.Errorf("%+v", m)
			}
		}
		it, err := c.Read(within(time.Second), protocol.Strong, "items", key, "i07")
		must(t, err)
		if want := fmt.Sprintf(`{"id":"i07","k":%q}`, r.KeyIn(1)); string(it.Body) != want || it.ID != "i07" {
			t.Errorf("%+v", it)
		}
		seen := 0
		for after, more := "", true; more; {
			var items []engine.Item
			items, more, err = c.Scan(within(time.Second), protocol.Strong, "items", key, after, 10)
			must(t, err)
			for _, it := range items {
				if it.ID != fmt.Sprintf("i%02d", seen) {
					t.Errorf("item %d is %s", seen, it.ID)
				}
				seen++
				after = it.ID
			}
		}
		if seen != 25 {
			t.Errorf("%d items", seen)
		}
		_, err = c.Read(within(time.Second), protocol.Eventual, "items", key, "none")
		if !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("an item that is not there: %v", err)
		}
		_, err = c.Batch(within(time.Second), "items", key, command.Operation{Kind: command.Create, Body: it.Body})
		if !errors.Is(err, engine.ErrExists) {
			t.Errorf("an item that is there: %v", err)
		}
		_, err = c.Upsert(within(time.Second), "items", key, []byte(`{"id":"i","k":"another"}`))
		if !errors.Is(err, engine.ErrKeyMismatch) {
			t.Errorf("a document of another key: %v", err)
		}
		_, err = c.Upsert(within(time.Second), "nothing", key, it.Body)
		if !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("no container: %v", err)
		}
		s, err := c.Status(within(time.Second), 2)
		if err != nil || s.Node != 2 || len(s.Groups) != 3 {
			t.Errorf("%+v, %v", s, err)
		}
		c.Close()
		if _, err = c.Read(within(time.Second), protocol.Strong, "items", key, "i07"); !errors.Is(err, client.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		r.Close()
	})
}

// TestOnce: increments are carried out once each, though leaders are killed and connections
// break while clients wait for answers, so that commands are proposed again.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 2)
		const workers, each = 6, 40
		keys := [2]string{r.KeyIn(0), r.KeyIn(1)}
		for _, k := range keys {
			_, err := c.Upsert(within(20*time.Second), "items", engine.StringKey(k), fmt.Appendf(nil, `{"id":"n","k":%q,"n":0}`, k))
			must(t, err)
		}
		r.Steady()
		var tasks sync.WaitGroup
		var mu sync.Mutex
		lost := 0
		for range workers {
			tasks.Go(func() {
				for i := range each {
					edit := command.Edit{Kind: command.EditIncrement, Path: "/n", By: 1}
					_, err := c.Batch(within(time.Minute), "items", engine.StringKey(keys[i%2]), command.Operation{Kind: command.Patch, ID: "n", Edits: []command.Edit{edit}})
					if errors.Is(err, client.ErrResults) {
						mu.Lock()
						lost++ // only how it went, not the increment
						mu.Unlock()
					} else if err != nil {
						t.Error(err)
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		done := make(chan struct{})
		go func() { tasks.Wait(); close(done) }()
		for round := uint64(0); ; round++ {
			select {
			case <-done:
			case <-time.After(300 * time.Millisecond):
				r.Network().Kill(clientAddress)
				if round%4 == 1 {
					r.Kill(round%3 + 1)
					time.Sleep(500 * time.Millisecond)
					must(t, r.Start(round%3+1))
				}
				continue
			}
			break
		}
		for _, k := range keys {
			it, err := c.Read(within(20*time.Second), protocol.Strong, "items", engine.StringKey(k), "n")
			must(t, err)
			if want := fmt.Sprintf(`"n":%d}`, workers*each/2); string(it.Body[len(it.Body)-len(want):]) != want {
				t.Errorf("%s, want %s; %d results were lost", it.Body, want, lost)
			}
		}
		c.Close()
		r.Close()
	})
}

// TestWrongCluster: a client with another description is refused, not misled.
func TestWrongCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, right := open(t, 2)
		key := engine.StringKey(r.KeyIn(0))
		_, err := right.Upsert(within(20*time.Second), "items", key, fmt.Appendf(nil, `{"id":"n","k":%q}`, r.KeyIn(0)))
		must(t, err)
		d := *r.Cluster()
		d.Containers = []cluster.Container{{Name: "more", PartitionKey: []string{"/k"}, Partitions: 1}, {Name: "items", PartitionKey: []string{"/k"}, Partitions: 2}}
		wrong := client.New(client.Config{Cluster: &d, Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		if _, err = wrong.Read(within(time.Second), protocol.Strong, "items", key, "n"); !errors.Is(err, protocol.ErrNoGroup) {
			t.Errorf("a group that is not there: %v", err)
		}
		_, err = wrong.Upsert(within(time.Second), "more", key, fmt.Appendf(nil, `{"id":"other","k":%q}`, r.KeyIn(0)))
		if !errors.Is(err, protocol.ErrNoGroup) {
			t.Errorf("a write to another container's group: %v", err)
		}
		wrong.Close()
		right.Close()
		r.Close()
	})
}
