package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/meta"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command runs a command that is to succeed.
func command(t *testing.T, args ...string) string {
	t.Helper()
	status, out, errs := run(t, args...)
	if status != 0 {
		t.Fatalf("%v: status %d: %s%s", args, status, out, errs)
	}
	return out
}

// TestOperations: a container is made while the cluster runs, a backup of the cluster is restored into
// another one, a node joins, another one is drained, a replica is moved back, and a node whose log is
// lost is replaced by the command that its error names. Nothing that was written is missing.
func TestOperations(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "cluster")
	one, err := newTrial(ctx, dir, []cluster.Container{{Name: "items", PartitionKey: []string{"/k"}, Partitions: 2}}, false, true)
	must(t, err)
	defer one.close()
	if out := command(t, "container", dir, "orders:/k:2", "--index", `{"include":["/n/?"]}`, "--ttl=-1", "--unique", "/n,/u", "--unique", "/v"); !strings.Contains(out, "2 groups on the nodes [1 2 3]") {
		t.Error(out)
	}
	d, err := one.client.Definition(ctx, "orders")
	must(t, err)
	if d.DefaultTTL != cluster.NoExpiry || fmt.Sprint(d.UniqueKeys) != "[[/n /u] [/v]]" || fmt.Sprint(d.Index.Include) != "[/n/?]" {
		t.Errorf("%+v", d)
	}
	command(t, "index", dir, "orders", "all")
	command(t, "index", dir, "items", `{"include":["/n/?"]}`)
	for _, name := range []string{"orders", "items"} {
		if d, err = one.client.Definition(ctx, name); err != nil || d.Revision > 1 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if status, _, errs := run(t, "index", dir, "none", "all"); status != 1 || !strings.Contains(errs, "none") {
		t.Errorf("no such container: status %d, %s", status, errs)
	}
	if status, _, errs := run(t, "index", dir, "orders", `{"includes":[]}`); status == 0 || !strings.Contains(errs, "includes") {
		t.Errorf("a policy that is none: status %d, %s", status, errs)
	}
	if status, _, errs := run(t, "container", dir, "orders:/k:2"); status != 1 || !strings.Contains(errs, "already exists") && !strings.Contains(errs, "exists") {
		t.Errorf("a second one: status %d, %s", status, errs)
	}
	doc := func(i int) (engine.PartitionKey, string) {
		return engine.StringKey(fmt.Sprint("key", i)), fmt.Sprintf(`{"id":"i","k":"key%d","n":%d}`, i, i)
	}
	const docs = 100
	both := []string{"items", "orders"}
	for i := range docs {
		for _, name := range both {
			key, body := doc(i)
			_, err := one.client.Upsert(ctx, name, key, []byte(body))
			must(t, err)
		}
	}
	check := func(of *trial) {
		t.Helper()
		for i := range docs {
			for _, name := range both {
				key, body := doc(i)
				if it, err := of.client.Read(ctx, protocol.Strong, name, key, "i"); err != nil || string(it.Body) != body {
					t.Fatalf("item %d of %s: %s, %v", i, name, it.Body, err)
				}
			}
		}
	}
	saved := filepath.Join(t.TempDir(), "backup")
	if out := command(t, "backup", dir, saved); !strings.Contains(out, "4 groups of 2 containers") {
		t.Error(out)
	}
	free, err := freeAddresses(1)
	must(t, err)
	command(t, "add", dir, free[0])
	must(t, one.start(4))
	if out := command(t, "drain", dir, "1"); !strings.Contains(out, "node 1 has no replicas") {
		t.Error(out)
	}
	check(one)
	if status, _, errs := run(t, "drain", dir, "2"); status != 1 || !strings.Contains(errs, "Add a node first") {
		t.Errorf("a drain without room: status %d, %s", status, errs)
	}
	if out := command(t, "status", dir); !strings.Contains(out, "held, drained") || !strings.Contains(out, "plans") {
		t.Error(out)
	}
	command(t, "drain", dir, "1", "--undo")
	testMove(ctx, t, one)
	check(one)
	testDrop(ctx, t, one)

	two := filepath.Join(t.TempDir(), "other")
	other, err := newTrial(ctx, two, []cluster.Container{{Name: "items", PartitionKey: []string{"/k"}, Partitions: 3}}, false, true)
	must(t, err)
	defer other.close()
	if status, _, errs := run(t, "restore", saved, two); status != 1 || !strings.Contains(errs, "pnode container "+two+` orders:/k:2 --index '{"include":["/*"]}' --ttl=-1 --unique /n,/u --unique /v`) {
		t.Errorf("without the container: status %d, %s", status, errs)
	}
	command(t, "container", two, "orders:/k:2")
	if status, _, errs := run(t, "restore", saved, two); status != 1 || !strings.Contains(errs, "another definition, orders:/k:2. Drop it, and: pnode container "+two+" orders:/k:2 --index") {
		t.Errorf("without the unique keys: status %d, %s", status, errs)
	}
	command(t, "drop", two, "orders", "--yes")
	command(t, "container", two, "orders:/k:2", "--unique", "/n,/u", "--unique", "/v")
	if status, _, errs := run(t, "restore", saved, two); status != 1 || !strings.Contains(errs, "default time to live 0, and -1 in the backup: pnode ttl "+two+" -- orders -1") {
		t.Errorf("with another default time to live: status %d, %s", status, errs)
	}
	command(t, "ttl", two, "--", "orders", "-1")
	if out := command(t, "restore", saved, two); !strings.Contains(out, "200 items of 4 groups") {
		t.Error(out)
	}
	check(other)
	name := filepath.Join(saved, "group-4294967297")
	b, err := os.ReadFile(name)
	must(t, err)
	b[len(b)/2] ^= 1
	must(t, os.WriteFile(name, b, 0o600))
	if status, _, errs := run(t, "restore", saved, two); status != 1 || !strings.Contains(errs, "digest") {
		t.Errorf("a damaged backup: status %d, %s", status, errs)
	}

	must(t, other.signal(3, syscall.SIGTERM))
	must(t, os.RemoveAll(filepath.Join(nodeDir(two, 3), "raft")))
	status, _, errs := run(t, "serve", nodeDir(two, 3))
	if status != 1 || !strings.Contains(errs, "pnode add "+two+" --replaces 3") {
		t.Fatalf("a lost log: status %d, %s", status, errs)
	}
	delete(other.nodes, 3)
	command(t, "add", two, "--replaces", "3")
	if status, _, errs := run(t, "serve", nodeDir(two, 3)); status != 1 || !strings.Contains(errs, "gone for good") {
		t.Errorf("the old one: status %d, %s", status, errs)
	}
	must(t, other.start(4))
	for id := range other.d.Groups() {
		g := other.d.Groups()[id].ID
		other.wait(ctx, t, "a voter on the new node", func() bool {
			other.client.Refresh(ctx)
			d := other.client.Descriptor(g)
			if d == nil {
				return false
			}
			r, has := d.On(4)
			_, old := d.On(3)
			return has && !old && r.Role == 1
		})
	}
	check(other)
}

// testMove moves a replica by hand, and shows what a move refuses. It waits until the planner has given
// each node its share: until then the planner may move the same replica.
func testMove(ctx context.Context, t *testing.T, one *trial) {
	t.Helper()
	one.wait(ctx, t, "each node has its share", func() bool {
		one.client.Refresh(ctx)
		held := make(map[topology.NodeID]int)
		for _, g := range one.client.Descriptors() {
			for _, r := range g.Replicas {
				if r.Role != topology.Voter {
					return false
				}
				held[r.Node]++
			}
		}
		return held[1] == 3 && held[2] == 3 && held[3] == 3 && held[4] == 3
	})
	g := one.client.Descriptors()[0]
	from, to := g.Replicas[0].Node, topology.NodeID(0)
	for id := topology.NodeID(1); id <= 4; id++ {
		if _, on := g.On(id); !on {
			to = id
		}
	}
	id := fmt.Sprint(g.ID)
	if status, _, errs := run(t, "move", one.dir, id, fmt.Sprint(from), "9"); status != 1 || !strings.Contains(errs, "node 9 holds no lease") {
		t.Errorf("to a node that is not there: status %d, %s", status, errs)
	}
	if status, _, errs := run(t, "move", one.dir, id, fmt.Sprint(to), "9"); status != 1 || !strings.Contains(errs, "no replica on node") {
		t.Errorf("from a node without one: status %d, %s", status, errs)
	}
	out := command(t, "move", one.dir, id, fmt.Sprint(from), fmt.Sprint(to))
	if !strings.Contains(out, fmt.Sprintf("group %s is on node %d, and not on node %d", id, to, from)) {
		t.Error(out)
	}
	t.Log(out)
}

// TestOthers: a node is drained if its region has nodes for what it has: voters, or a reader of each group.
func TestOthers(t *testing.T) {
	o := &operator{d: &cluster.Cluster{Replicas: 3}}
	p := &meta.Picture{Draining: map[topology.NodeID]bool{7: true}}
	for id, region := range []string{"eu", "eu", "eu", "eu", "us", "us", "us"} {
		n := meta.Node{ID: topology.NodeID(id + 1), Region: region}
		o.d.Nodes = append(o.d.Nodes, cluster.Node{ID: uint64(n.ID), Region: region})
		p.Nodes = append(p.Nodes, n)
	}
	p.Nodes[1].ID, p.Nodes[5].ID = 9, 10 // 2 and 6 are away, and others have joined
	for node, want := range map[topology.NodeID][2]int{1: {3, 3}, 2: {4, 3}, 9: {3, 3}, 5: {1, 1}, 6: {2, 1}, 7: {2, 1}, 10: {1, 1}} {
		if others, least := o.others(p, node); [2]int{others, least} != want {
			t.Errorf("node %d: %d other nodes, at least %d, want %v", node, others, least, want)
		}
	}
}

// TestGroupsOn: of each group the newest description counts, and what only the metadata store knows is there too.
func TestGroupsOn(t *testing.T) {
	all := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
	group := func(id topology.GroupID, epoch uint64, nodes ...topology.NodeID) *topology.Group {
		g := topology.New(id, "c", all, nodes...)
		g.Epoch = epoch
		return g
	}
	told := []*topology.Group{group(1, 3, 1, 2), group(2, 1, 1, 5), group(3, 2, 5)}
	stored := []*topology.Group{group(1, 2, 1, 5), group(2, 4, 1, 2), group(4, 1, 4, 5, 6)}
	var ids []topology.GroupID
	for _, g := range groupsOn(5, told, stored) {
		ids = append(ids, g.ID)
	}
	if !slices.Equal(ids, []topology.GroupID{3, 4}) {
		t.Errorf("groups %v", ids)
	}
	steps := []placement.Step{{Kind: placement.Add, Group: 1, Node: 5}, {Kind: placement.Reader, Group: 4, Node: 5}, {Kind: placement.Transfer, Group: 2, Node: 5}, {Kind: placement.Add, Group: 2, Node: 1}}
	left := remaining(5, told, &meta.Picture{Groups: stored, Steps: steps})
	if !slices.Equal(left, []string{"group 3", "group 4", "group 1 is about to come"}) {
		t.Errorf("%q", left)
	}
}

// TestShowDrop: a drop shows the groups of which no node that answers has a replica too.
func TestShowDrop(t *testing.T) {
	all := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
	var out strings.Builder
	showDrop(&environment{stdout: &out}, 7, "c", []nodeStatus{{Node: 1, Status: &host.Status{Groups: []host.GroupStatus{{ID: 7<<32 | 1, Bytes: 3000}, {ID: 8<<32 | 1, Bytes: 1 << 30}}}}, {Node: 2}},
		[]*topology.Group{topology.New(7<<32|1, "c", all, 1, 2), topology.New(7<<32|2, "c", all, 2), topology.New(8<<32|1, "d", all, 2)})
	for _, want := range []string{"2 groups with 2.93 KiB", "What 1 of the groups have is not known"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("without %q: %s", want, out.String())
		}
	}
}

// TestReplacedTwice: one node takes the place of another one, not two.
func TestReplacedTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	command(t, "init", dir, "--addresses", "127.0.0.1:1,127.0.0.1:2")
	command(t, "add", dir, "127.0.0.1:3", "--replaces", "2")
	if status, _, errs := run(t, "add", dir, "127.0.0.1:4", "--replaces", "2"); status != 1 || !strings.Contains(errs, "node 2 was replaced before") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestMoveRefused: what cannot be moved is refused before anything is changed.
func TestMoveRefused(t *testing.T) {
	g, err := topology.New(9, "c", partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, 1, 2, 3).Add(4, topology.Learner)
	must(t, err)
	for way, want := range map[[2]uint64]string{{1, 5}: "", {5, 6}: "no replica on node 5", {4, 5}: "on node 4 is a reader", {1, 4}: "has a replica on node 4 already", {1, 2}: "has a replica on node 2 already"} {
		err := (&moveCommand{Dir: "d", Group: 9, From: way[0], To: way[1]}).allowed(g)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v", way, err)
		}
	}
}

// TestBackupOfUnknown: a backup of a cluster of which no node has told of its groups says so, and which nodes
// do not answer, and is none.
func TestBackupOfUnknown(t *testing.T) {
	dir, target := filepath.Join(t.TempDir(), "cluster"), filepath.Join(t.TempDir(), "backup")
	command(t, "init", dir, "--container", "orders:/tenant:4", "--addresses", "127.0.0.1:1,127.0.0.1:2", "--etcd", "none")
	status, _, errs := run(t, "backup", dir, target, "--wait", "0s")
	for _, want := range []string{"told of some groups", `container "orders"`, "node 1 does not answer", "node 2 does not answer"} {
		if status != 1 || !strings.Contains(errs, want) {
			t.Errorf("status %d, without %q: %s", status, want, errs)
		}
	}
	if status, _, errs = run(t, "restore", target, dir); status != 1 || !strings.Contains(errs, "no complete backup") {
		t.Errorf("a backup that is none: status %d, %s", status, errs)
	}
}

// testDrop drops a container by the command while clients write to it and a node is down, and one of the
// description through a client. Both are made again, with nothing of the ones before. The node that was
// down removes what it had.
func testDrop(ctx context.Context, t *testing.T, one *trial) {
	t.Helper()
	if out := command(t, "drop", one.dir, "orders"); !strings.Contains(out, "2 groups") || !strings.Contains(out, "Nothing was changed") {
		t.Error(out)
	}
	if status, _, errs := run(t, "drop", one.dir, "none", "--yes"); status != 1 || !strings.Contains(errs, engine.ErrNoContainer.Error()) {
		t.Errorf("no container: status %d, %s", status, errs)
	}
	must(t, one.signal(2, syscall.SIGTERM))
	down := one.nodes[2]
	delete(one.nodes, 2)
	key := engine.StringKey("key1")
	ended := make(chan error)
	const writers = 4
	for range writers {
		go func() {
			for {
				if _, err := one.client.Upsert(ctx, "orders", key, []byte(`{"id":"i","k":"key1","n":2}`)); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	if out := command(t, "drop", one.dir, "orders", "--yes"); !strings.Contains(out, "its name is free") || !strings.Contains(out, "[2] have not heard") {
		t.Error(out)
	}
	for range writers {
		if err := <-ended; !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("a writer: %v", err)
		}
	}
	must(t, one.client.DropContainer(ctx, "items"))
	if err := one.client.DropContainer(ctx, "items"); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("once more: %v", err)
	}
	for _, name := range []string{"orders", "items"} {
		command(t, "container", one.dir, name+":/k:1")
		if _, err := one.client.Read(ctx, protocol.Strong, name, key, "i"); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s has what was dropped: %v", name, err)
		}
		_, err := one.client.Upsert(ctx, name, key, []byte(`{"id":"i","k":"key1","n":3}`))
		must(t, err)
	}
	must(t, one.start(2))
	<-down.done
	one.wait(ctx, t, "node 2 has heard of both drops", func() bool {
		s, err := one.client.Status(ctx, 2)
		return err == nil && len(s.Dropped) == 2 && !slices.ContainsFunc(s.Groups, func(g host.GroupStatus) bool { return slices.Contains(s.Dropped, g.ID>>32) })
	})
	if out := command(t, "backup", one.dir, filepath.Join(t.TempDir(), "later")); !strings.Contains(out, "2 groups of 2 containers") {
		t.Error(out)
	}
}
