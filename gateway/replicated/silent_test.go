package replicated

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
)

// TestRangesBesideSilentNode: who asks for the ranges of a container does not wait for nodes, which are asked all the same: each request
// asks for them, to name the range of its key.
func TestRangesBesideSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		d := &cluster.Cluster{
			Nodes:      []cluster.Node{{ID: 1, Address: "a"}, {ID: 2, Address: "b"}},
			Containers: []cluster.Container{{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 2, Nodes: []uint64{1, 2}}},
		}
		c := client.New(client.Config{Cluster: d, Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		it := &items{s: &Store{c: c}, name: "orders", ranges: &ranges{}}
		for round := range int64(3) {
			begun := time.Now()
			for range 10 {
				if parts := it.Ranges(); len(parts) != 2 {
					t.Fatal(parts)
				}
			}
			if waited := time.Since(begun); waited > 0 {
				t.Errorf("round %d waited %v", round, waited)
			}
			synctest.Wait()
			if n := dials.Load(); n != 2*(round+1) {
				t.Errorf("round %d: %d dials, want one of each node in each round", round, n)
			}
			time.Sleep(time.Minute)
		}
		c.Close()
	})
}
