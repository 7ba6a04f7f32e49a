package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
)

// TestRegionLost: the planner gives each group a reader in another region, also those of a container
// that was made while the cluster ran. The main region is lost while clients write. What the reader has
// is backed up and restored in a new cluster. What is missing there was acknowledged within the time
// that the backup has shown. Then the region is promoted: it has what the backup has, takes writes, and
// nodes that join get voters. Nodes of before that come back end.
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
	command(t, "container", one.dir, "made:/k:1", "--readers", "us")
	one.wait(ctx, t, "readers of three groups", func() bool {
		one.client.Refresh(ctx)
		groups := one.client.Descriptors()
		for _, g := range groups {
			if on, _ := g.On(4); on.Role != topology.Learner || g.Voters() != 3 {
				return false
			}
		}
		s, err := one.client.Status(ctx, 4)
		return err == nil && len(groups) == 3 && !slices.ContainsFunc(s.Groups, func(g host.GroupStatus) bool { return g.Confirmed == nil })
	})
	key := func(i int) engine.PartitionKey { return engine.StringKey(fmt.Sprint("key", i)) }
	var acked []time.Time
	for begun := time.Now(); time.Since(begun) < 2*time.Second; {
		_, err := one.client.Upsert(ctx, "items", key(len(acked)), fmt.Appendf(nil, `{"id":"i","k":"key%d"}`, len(acked)))
		must(t, err)
		acked = append(acked, time.Now())
	}
	_, err = one.client.Upsert(ctx, "made", key(0), []byte(`{"id":"i","k":"key0"}`))
	must(t, err)
	one.wait(ctx, t, "the reader of the other container", func() bool {
		_, failed := one.client.Read(ctx, protocol.Strong, "made", key(0), "i")
		s, gone := one.client.Status(ctx, 4)
		must(t, errors.Join(failed, gone))
		at := make(map[uint64]uint64) // entries that node 4 has
		for _, g := range s.Groups {
			at[g.ID] = g.Applied
		}
		leader, gone := one.client.Status(ctx, one.leader(ctx, t, one.client.GroupOf("made", key(0))))
		must(t, gone)
		return slices.ContainsFunc(leader.Groups, func(g host.GroupStatus) bool { return g.Container == "made" && g.Applied == at[g.ID] })
	})
	if status, _, errs := run(t, "promote", one.dir, "--region", "us", "--yes"); status != 1 || !strings.Contains(errs, "not lost") {
		t.Errorf("promoted while voters answer: status %d, %s", status, errs)
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
	for _, m := range regexp.MustCompile(`group (\d+) of items: node 4 .*Missing can be what was acknowledged in the last ([0-9.]+) s`).FindAllStringSubmatch(out, -1) {
		id, err := strconv.ParseUint(m[1], 10, 64)
		must(t, err)
		s, err := strconv.ParseFloat(m[2], 64)
		must(t, err)
		shown[id] = time.Duration(s * float64(time.Second))
	}
	if len(shown) != 2 { // those of items
		t.Fatal(out)
	}
	two, err := newTrial(ctx, filepath.Join(t.TempDir(), "other"), []cluster.Container{
		{Name: "items", PartitionKey: []string{"/k"}, Partitions: 2}, {Name: "made", PartitionKey: []string{"/k"}, Partitions: 1},
	}, false, false)
	must(t, err)
	defer two.close()
	command(t, "restore", saved, two.dir)
	_, err = two.client.Read(ctx, protocol.Strong, "made", key(0), "i")
	must(t, err)
	missing, there := 0, make(map[int]bool)
	for i, at := range acked {
		_, err := two.client.Read(ctx, protocol.Strong, "items", key(i), "i")
		switch {
		case err == nil:
			there[i] = true
		case !errors.Is(err, engine.ErrNotFound):
			t.Fatal(err)
		default:
			missing++
			if bound := asked.Add(-shown[one.client.GroupOf("items", key(i))]); at.Before(bound) {
				t.Errorf("item %d was acknowledged %v before the time that was shown, and is missing", i, bound.Sub(at))
			}
		}
	}
	t.Logf("%d of %d acknowledged writes are missing", missing, len(acked))
	if missing == len(acked) {
		t.Error("nothing was saved")
	}
	one.promote(ctx, t)
	for i := range acked {
		if _, err := one.client.Read(ctx, protocol.Strong, "items", key(i), "i"); err != nil && (there[i] || !errors.Is(err, engine.ErrNotFound)) {
			t.Errorf("item %d, which the backup has: %v: %v", i, there[i], err)
		}
	}
	_, err = one.client.Read(ctx, protocol.Strong, "made", key(0), "i")
	must(t, err)
	one.grow(ctx, t)
}

// wait waits until something is so. It asks again and again, since the nodes are processes of their
// own; how long that takes decides nothing, and the context bounds it.
func (one *trial) wait(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		if err := errors.Join(ctx.Err(), one.running()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// leader returns the node that leads a group.
func (one *trial) leader(ctx context.Context, t *testing.T, group uint64) (node uint64) {
	t.Helper()
	one.wait(ctx, t, "a leader", func() bool {
		for _, s := range statusOf(ctx, one.client, one.d) {
			if s.Status != nil && slices.ContainsFunc(s.Status.Groups, func(g host.GroupStatus) bool { return g.ID == group && g.Leads }) {
				node = s.Node
			}
		}
		return node != 0
	})
	return node
}

// promote promotes the region of node 4, starts the node again, and writes there. Then nodes of before
// come back.
func (one *trial) promote(ctx context.Context, t *testing.T) {
	name := filepath.Join(one.dir, descriptionName)
	before, err := os.ReadFile(name)
	must(t, err)
	shown := command(t, "promote", one.dir, "--region", "us")
	if !regexp.MustCompile(`(?s)group \d+ of items: node 4 has it up to entry \d+, the newest of 20.*group \d+ of made: node 4.*3 groups can go on in region "us".*nodes \[1 2 3\] are given up.*Nothing was changed`).MatchString(shown) {
		t.Error(shown)
	}
	if now, failed := os.ReadFile(name); failed != nil || string(now) != string(before) {
		t.Fatalf("the description has changed: %v: %s", failed, now)
	}
	t.Log(command(t, "promote", one.dir, "--region", "us", "--yes"))
	must(t, one.signal(4, syscall.SIGTERM))
	must(t, one.start(4))
	one.client.Close()
	one.client, one.d, err = openClient(one.dir)
	must(t, err)
	for _, c := range []string{"items", "made"} {
		_, err = one.client.Upsert(ctx, c, engine.StringKey("after"), []byte(`{"id":"i","k":"after"}`))
		must(t, err)
	}
	old := filepath.Join(one.dir, "cluster-0.json")
	for _, more := range [][]string{{"--cluster", old}, {"--cluster", old}, nil} { // it ends; is refused; is given up
		for node := uint64(1); node <= 3; node++ {
			must(t, one.start(node, more...))
		}
		for node := uint64(1); node <= 3; node++ {
			p := one.nodes[node]
			delete(one.nodes, node)
			select {
			case <-p.done:
			case <-ctx.Done():
				t.Fatalf("node %d goes on", node)
			}
			if want := "earlier incarnation|gone for good"; p.cmd.ProcessState.ExitCode() != 1 || !regexp.MustCompile(want).MatchString(p.log.String()) {
				t.Errorf("node %d has ended: %v: %s", node, p.cmd.ProcessState, p.log)
			}
		}
	}
	must(t, one.running())
}

// grow adds a node to the promoted region, and waits until it has voters of all groups: the metadata store
// that the region has now knows the map.
func (one *trial) grow(ctx context.Context, t *testing.T) {
	free, err := freeAddresses(1)
	must(t, err)
	d, n, err := addNode(one.dir, cluster.Node{Address: free[0]}, 0)
	must(t, err)
	if n.ID != 5 || n.Region != "us" {
		t.Errorf("%+v", n)
	}
	one.d = d
	must(t, one.start(n.ID))
	one.wait(ctx, t, "two voters of each group", func() bool {
		one.client.Refresh(ctx)
		return !slices.ContainsFunc(one.client.Descriptors(), func(g *topology.Group) bool { return g.Voters() != 2 })
	})
}
