package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
)

// TestRegionLost: the planner gives each group a reader in another region. The main region is lost
// while clients write. What the reader has is backed up and restored in a new cluster. What is missing
// there was acknowledged within the time that the backup has shown.
func TestRegionLost(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	free, err := freeAddresses(6)
	must(t, err)
	one := &trial{dir: filepath.Join(t.TempDir(), "cluster"), planned: true, nodes: make(map[uint64]*process)}
	one.d = &cluster.Cluster{
		Containers: []cluster.Container{{Name: "items", PartitionKey: []string{"/k"}, Partitions: 2, Regions: []string{"us"}}},
		Joined:     []cluster.Node{{ID: 4, Address: free[3], Region: "us"}},
		Metadata:   &cluster.Metadata{Name: "test", Members: []cluster.Member{{Node: 1, Peer: free[4], Client: free[5]}}},
	}
	for i := range 3 {
		one.d.Nodes = append(one.d.Nodes, cluster.Node{ID: uint64(i + 1), Address: free[i], Region: "eu"})
	}
	must(t, makeCluster(one.dir, one.d))
	one.client, _, err = openClient(one.dir)
	must(t, err)
	defer one.close()
	for _, n := range one.d.All() {
		must(t, one.start(n.ID))
	}
	for ready := false; !ready; time.Sleep(100 * time.Millisecond) {
		must(t, errors.Join(ctx.Err(), one.running()))
		one.client.Refresh(ctx)
		ready = true
		for _, g := range one.client.Descriptors() {
			on, _ := g.On(4)
			ready = ready && on.Role == topology.Learner && g.Voters() == 3
		}
	}
	key := func(i int) engine.PartitionKey { return engine.StringKey(fmt.Sprint("key", i)) }
	var acked []time.Time
	for begun := time.Now(); time.Since(begun) < 2*time.Second; {
		_, err := one.client.Upsert(ctx, "items", key(len(acked)), fmt.Appendf(nil, `{"id":"i","k":"key%d"}`, len(acked)))
		must(t, err)
		acked = append(acked, time.Now())
	}
	for node := uint64(1); node <= 3; node++ {
		must(t, one.signal(node, syscall.SIGKILL))
		delete(one.nodes, node)
	}
	asked := time.Now()
	saved := filepath.Join(t.TempDir(), "backup")
	if status, _, _ := run(t, "backup", one.dir, saved+"-none", "--region", "asia"); status != 1 {
		t.Errorf("a region without nodes: status %d", status)
	}
	out := command(t, "backup", one.dir, saved, "--region", "us")
	shown := make(map[uint64]time.Duration) // by group
	for _, m := range regexp.MustCompile(`group (\d+) of items: node 4 .* in the last ([0-9.]+) s and`).FindAllStringSubmatch(out, -1) {
		id, err := strconv.ParseUint(m[1], 10, 64)
		must(t, err)
		s, err := strconv.ParseFloat(m[2], 64)
		must(t, err)
		shown[id] = time.Duration(s * float64(time.Second))
	}
	if len(shown) != 2 {
		t.Fatal(out)
	}
	two, err := newTrial(ctx, filepath.Join(t.TempDir(), "other"), []cluster.Container{{Name: "items", PartitionKey: []string{"/k"}, Partitions: 2}}, false, false)
	must(t, err)
	defer two.close()
	command(t, "restore", saved, two.dir)
	missing := 0
	for i, at := range acked {
		_, err := two.client.Read(ctx, protocol.Strong, "items", key(i), "i")
		switch {
		case err == nil:
		case !errors.Is(err, engine.ErrNotFound):
			t.Fatal(err)
		default:
			missing++
			// The moment before: a tick, and the time in which a message comes.
			if bound := asked.Add(-shown[one.client.GroupOf("items", key(i))] - time.Second); at.Before(bound) {
				t.Errorf("item %d was acknowledged %v before the time that was shown, and is missing", i, bound.Sub(at))
			}
		}
	}
	t.Logf("%d of %d acknowledged writes are missing", missing, len(acked))
	if missing == len(acked) {
		t.Error("nothing was saved")
	}
}
