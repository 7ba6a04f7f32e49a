package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
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
)

// consumer takes a feed in and checks it: of each logical partition the items that only one client makes, one after the
// other, come in their order, each once.
type consumer struct {
	t    *testing.T
	what string
	next map[string]int    // of each key: the item that is to come
	seq  map[string]uint64 // of each key
	at   string
}

func (c *consumer) take(p client.ChangePage) {
	c.t.Helper()
	for _, it := range p.Items {
		var doc struct {
			ID, K string
			N     int
		}
		if err := json.Unmarshal(it.Body, &doc); err != nil || doc.ID != it.ID || it.Key != engine.StringKey(doc.K) || it.ETag == 0 || it.Modified.IsZero() {
			c.t.Errorf("%s: %+v, %v", c.what, it, err)
		}
		if it.Seq <= c.seq[doc.K] {
			c.t.Errorf("%s: %s of %s has the sequence %d, behind %d", c.what, it.ID, doc.K, it.Seq, c.seq[doc.K])
		}
		c.seq[doc.K] = it.Seq
		if doc.ID == "hot" {
			continue // is written again and again
		}
		if doc.N != c.next[doc.K] {
			c.t.Errorf("%s: item %d of %s came in the place of %d", c.what, doc.N, doc.K, c.next[doc.K])
		}
		c.next[doc.K] = doc.N + 1
	}
	c.at = p.Position
}

func consume(t *testing.T, what string) *consumer {
	return &consumer{t: t, what: what, next: make(map[string]int), seq: make(map[string]uint64)}
}

// TestChanges: while clients write, a group splits, its halves move, and leaders are killed. A feed that follows shows
// each item once and in the order of its logical partition. So do many short feeds of clients that end, each of which goes
// on where the one before has stored its position, at the leader and at any replica.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		left := r.Cluster().Groups()[0].ID
		const writers = 6
		key := func(w int) string { return fmt.Sprint("key", w) }
		var work, feeds sync.WaitGroup
		stop := make(chan struct{})
		stopped := func() bool {
			select {
			case <-stop:
				return true
			default:
				return false
			}
		}
		var made [writers]int
		for w := range writers {
			work.Go(func() {
				write := func(what string, kind command.Kind) error {
					_, err := c.Batch(within(time.Minute), "items", engine.StringKey(key(w)), command.Operation{Kind: kind, Body: fmt.Appendf(nil, `{"id":%q,"k":%q,"n":%d}`, what, key(w), made[w])})
					return err
				}
				for ; !stopped(); made[w]++ {
					for _, err := range []error{write(fmt.Sprint("i", made[w]), command.Create), write("hot", command.Upsert)} {
						if err != nil && !errors.Is(err, client.ErrResults) {
							t.Errorf("write %d of %s: %v", made[w], key(w), err)
							return
						}
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		follows := consume(t, "a feed that follows")
		ctx, cancel := context.WithCancel(t.Context())
		feeds.Go(func() {
			for p, err := range c.Changes(ctx, "items", "start", &client.ChangeOptions{Follow: true, Limit: 7}) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				follows.take(p)
			}
		})
		short := []*consumer{consume(t, "short feeds"), consume(t, "short feeds of any replica")}
		for i, s := range short {
			feeds.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					other := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer("other"), Near: uint64(n%3 + 1)})
					pages := 0
					for p, err := range other.Changes(within(time.Minute), "items", s.at, &client.ChangeOptions{Weak: i == 1, Limit: 5}) {
						if err != nil {
							t.Errorf("%s: %v", s.what, err)
							break
						}
						s.take(p)
						if pages++; pages > n%4 {
							break
						}
					}
					other.Close()
					time.Sleep(30 * time.Millisecond)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		must(t, r.Split(left, newRight))
		time.Sleep(300 * time.Millisecond)
		must(t, r.Start(4))
		for _, id := range []uint64{left, newRight} {
			must(t, c.Move(within(time.Minute), id, r.Leading(id).Node(), 4))
			time.Sleep(200 * time.Millisecond)
		}
		for _, id := range []uint64{left, newRight} {
			node := r.Leading(id).Node()
			r.Kill(node)
			time.Sleep(2 * time.Second)
			must(t, r.Start(node))
		}
		close(stop)
		work.Wait()
		// What was acknowledged before a feed that asks leaders begins, that one shows.
		time.Sleep(time.Second)
		cancel()
		feeds.Wait()
		last := func(s *consumer, o client.ChangeOptions) {
			for p, err := range c.Changes(within(time.Minute), "items", s.at, &o) {
				must(t, err)
				s.take(p)
			}
			for w := range writers {
				if s.next[key(w)] != made[w] {
					t.Errorf("%s has shown %d of %d items of %s", s.what, s.next[key(w)], made[w], key(w))
				}
			}
		}
		for _, s := range append(short, follows, consume(t, "a feed from the start")) {
			last(s, client.ChangeOptions{})
		}
		for p, err := range c.Changes(within(time.Minute), "items", "now", nil) {
			must(t, err)
			if len(p.Items) > 0 || !p.CaughtUp {
				t.Errorf("a feed from now shows %+v", p)
			}
		}
		if made[0] < 50 {
			t.Errorf("%d items were made", made[0])
		}
		c.Close()
		r.Close()
	})
}

// TestChangesRefused: a position that is none, of another cluster, of before a promotion, or of a container that was dropped is
// refused, each with its error.
func TestChangesRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 2)
		r.Steady()
		_, err := c.Upsert(within(20*time.Second), "items", engine.StringKey("a"), []byte(`{"id":"i","k":"a","n":1}`))
		must(t, err)
		end := func(c *client.Client, container, from string) (position string, items int, err error) {
			for p, failed := range c.Changes(within(10*time.Second), container, from, nil) {
				position, items, err = p.Position, items+len(p.Items), failed
			}
			return position, items, err
		}
		at, items, err := end(c, "items", "")
		if err != nil || items != 1 {
			t.Fatalf("%d items, %v", items, err)
		}
		if _, items, err = end(c, "items", at); err != nil || items != 0 {
			t.Errorf("behind it: %d items, %v", items, err)
		}
		for n := range at {
			if _, _, err = end(c, "items", at[:n]); n > 0 && !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("the first %d characters of a position: %v", n, err)
			}
		}
		if _, _, err = end(c, "others", ""); !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("no container: %v", err)
		}
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 2, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		of := make(map[uint64]string)
		for range 2 { // what goes on behind the position of the first one is of the second one
			for id := uint64(1); id <= 3; id++ {
				must(t, r.Node(id).AddContainer(t.Context(), orders))
			}
			if of[orders.Number], _, err = end(c, "orders", ""); err != nil {
				t.Fatal(err)
			}
			for number, from := range of {
				if _, _, err = end(c, "orders", from); (number == orders.Number) != (err == nil) || err != nil && !errors.Is(err, client.ErrHistory) {
					t.Errorf("container %d, a position of %d: %v", orders.Number, number, err)
				}
			}
			for id := uint64(1); id <= 3; id++ {
				must(t, r.Node(id).DropContainer(t.Context(), orders.Number, "orders"))
			}
			if _, _, err = end(c, "orders", of[orders.Number]); !errors.Is(err, engine.ErrNoContainer) {
				t.Errorf("a container that was dropped: %v", err)
			}
			orders.Number++
		}
		d := *r.Cluster()
		d.Incarnation++
		promoted := client.New(client.Config{Cluster: &d, Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		if _, _, err = end(promoted, "items", at); !errors.Is(err, client.ErrHistory) {
			t.Errorf("of before a promotion: %v", err)
		}
		promoted.Close()
		second := host.NewRig(t, 2, serve.Client)
		other := client.New(client.Config{Cluster: second.Cluster(), Credentials: second.Credentials(), Dial: second.Network().Dialer(clientAddress)})
		if _, _, err = end(other, "items", at); !errors.Is(err, client.ErrHistory) {
			t.Errorf("of another cluster: %v", err)
		}
		other.Close()
		second.Close()
		q := protocol.ChangesRequest{}
		if _, err = protocol.DecodeRequest(protocol.Changes, q.Append(nil, 1)); !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("an empty range: %v", err)
		}
		c.Close()
		r.Close()
	})
}

// TestChangesOfAll: a group that is written faster than a feed reads it does not keep back what the other groups have.
func TestChangesOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 2)
		r.Steady()
		written := make(map[string]int)
		write := func(key string) {
			written[key]++
			body := fmt.Appendf(nil, `{"id":"i%d","k":%q}`, written[key], key)
			_, err := c.Upsert(within(20*time.Second), "items", engine.StringKey(key), body)
			must(t, err)
		}
		busy, quiet := r.KeyIn(0), r.KeyIn(1)
		for range 3 {
			write(busy)
		}
		write(quiet)
		pages, seen := 0, 0
		for p, err := range c.Changes(within(time.Hour), "items", "start", &client.ChangeOptions{Follow: true, Limit: 1, Every: 1}) {
			must(t, err)
			for _, it := range p.Items {
				if it.Key == engine.StringKey(quiet) {
					seen++
					write(quiet)
				} else {
					write(busy)
					write(busy)
				}
			}
			if p.CaughtUp {
				t.Error("it says that everything was shown")
			}
			if pages++; pages == 20 {
				break
			}
		}
		if seen < 9 {
			t.Errorf("%d of %d pages are of the quiet group", seen, pages)
		}
		c.Close()
		r.Close()
	})
}
