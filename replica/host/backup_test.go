package host_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/serve"
	"github.com/cleavestore/cleave/replica/transport"
)

// TestExportLeavesNothing: a node keeps nothing of an export that the client has, though the client stays.
func TestExportLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		_, _, err := c.Export(within(time.Minute), r.Cluster().Groups()[0].ID, io.Discard)
		must(t, err)
		if left := r.Incoming(); len(left) > 0 {
			t.Errorf("the nodes have %v", left)
		}
		c.Close()
		r.Close()
	})
}

// TestExportTakesLong: a node is longer at an export than a client waits for one answer. The client hears that it goes on.
func TestExportTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		r.Kill(1)
		r.Kill(2)
		time.Sleep(10 * time.Second) // node 3 has nothing to write any more
		r.SlowExports(3, 90*time.Second)
		var content bytes.Buffer
		_, err := c.ExportAlone(within(time.Hour), 3, r.Cluster().Groups()[0].ID, &content)
		must(t, err)
		if _, err = transfer.NewReader(&content); err != nil {
			t.Error(err)
		}
		c.Close()
		r.Close()
	})
}

// TestExportOfSplit: a group splits when a client knows its description, and before a replica exports it. The client does not take the
// half for the whole.
func TestExportOfSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		split := make(chan struct{})
		r := host.NewRig(t, 1, func(ctx context.Context, h *host.Host, c *transport.Conn) {
			if h.Node() != 1 { // which describes the group, and is asked for its content last
				<-split
			}
			serve.Client(ctx, h, c)
		})
		r.Steady()
		id := r.Cluster().Groups()[0].ID
		c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		go func() {
			defer close(split)
			time.Sleep(2 * time.Second)
			if err := r.Split(id, newRight); err != nil {
				t.Error(err)
			}
		}()
		var content bytes.Buffer
		g, _, err := c.Export(within(time.Minute), id, &content)
		must(t, err)
		source, err := transfer.NewReader(&content)
		must(t, err)
		if now := r.Leading(id).Group(id).Range; source.Range != now || g.Range != now {
			t.Errorf("the content of %v is described as that of %v, and the group has %v", source.Range, g.Range, now)
		}
		c.Close()
		r.Close()
	})
}
