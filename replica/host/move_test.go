package host_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/serve"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

// TestMoveReader: a move makes no voter of a reader.
func TestMoveReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		id := r.Cluster().Groups()[0].ID
		must(t, r.Start(4))
		h := r.Leading(id)
		gone := uint64(0)
		for _, o := range h.Group(id).Replicas {
			if uint64(o.Node) != h.Node() {
				gone = o.ID
			}
		}
		_, err := h.AddReader(within(time.Minute), id, 4)
		must(t, err)
		must(t, h.RemoveReplica(within(time.Minute), id, gone))
		r.Steady()
		free := uint64(topology.NodeOf(gone)) // node without a replica
		before := h.Group(id).Replicas
		for _, way := range [][2]uint64{{4, free}, {h.Node(), 4}} {
			if err = c.Move(within(time.Minute), id, way[0], way[1]); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("from node %d to node %d: %v", way[0], way[1], err)
			}
		}
		if now := r.Leading(id).Group(id).Replicas; !slices.Equal(now, before) {
			t.Errorf("%+v, and before %+v", now, before)
		}
		c.Close()
		r.Close()
	})
}

// TestOneNodeTells: the first node that tells a new client of its groups does not have the one that is to be changed or exported. The
// client hears the others before it says that there is no such group.
func TestOneNodeTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := host.NewRig(t, 1, func(ctx context.Context, h *host.Host, c *transport.Conn) {
			if h.Node() != 1 {
				time.Sleep(100 * time.Millisecond)
			}
			serve.Client(ctx, h, c)
		})
		r.Steady()
		must(t, r.Split(r.Cluster().Groups()[0].ID, newRight))
		must(t, r.Start(4))
		r.Move(newRight, 1, 4)
		r.Until("node 1 does not have the group", func() bool { return r.Node(1).Group(newRight) == nil })
		for i, f := range []func(*client.Client) error{
			func(c *client.Client) error {
				_, _, err := c.Export(within(time.Minute), newRight, io.Discard)
				return err
			},
			func(c *client.Client) error { return c.Split(within(time.Minute), newRight, newRight+1) },
			func(c *client.Client) error { return c.Move(within(time.Minute), newRight+1, 4, 1) },
		} {
			c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
			if err := f(c); err != nil {
				t.Errorf("call %d: %v", i+1, err)
			}
			c.Close()
		}
		r.Close()
	})
}
