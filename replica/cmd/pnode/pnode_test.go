package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/transport"
)

// TestMain lets the program of the tests be the nodes that a trial starts, and an etcd.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		main()
	}
	if len(os.Args) == 5 && os.Args[1] == "etcd" {
		fmt.Fprintln(os.Stderr, serveEtcd(os.Args[2], os.Args[3], os.Args[4]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = execute(context.Background(), args, &environment{&out, &errs})
	return status, out.String(), errs.String()
}

// TestDemo: a leader that is killed loses nothing that was acknowledged, nor does a split, nor a
// node that joins and takes its share: of 5 groups with 3 replicas each, 3 or 4 replicas, as the planner says.
func TestDemo(t *testing.T) {
	status, out, errs := run(t, "demo", "--rounds", "1", "--stop", "0", "--all", "0", "--pause", "100ms", "--writers", "8", "--partitions", "4", "--dir", filepath.Join(t.TempDir(), "cluster"))
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	for _, want := range []string{`kill -9: gap p50 \d`, `SIGTERM: gap p50 \d`, `SIGTERM: pause of a group, while the node hands over and ends, p50 \d+m?s, max \d+m?s of 2; until it leads again p50 \d+m?s, max \d+m?s of 2; for as long afterwards.* max \d+m?s of 2\n`, `split +1 +1 `, `node joins +4 `, `node 4 took [34] replicas`, `writes acknowledged +[1-9]`, `that were stale +0\n`, `lost +0\n`, `never written +0\n`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}

// TestBench: each figure is measured, of a cluster with work and of an idle one.
func TestBench(t *testing.T) {
	status, out, errs := run(t, "bench", "--repeat", "1", "--time", "100ms", "--clients", "8", "--partitions", "4", "--dir", filepath.Join(t.TempDir(), "cluster"))
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	for _, want := range []string{"put", "strong", "eventual"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
	if runtime.GOOS != "linux" {
		return // only Linux tells of other processes in the way that bench reads
	}
	status, out, errs = run(t, "bench", "--idle", "--partitions", "4", "--time", "100ms", "--dir", filepath.Join(t.TempDir(), "idle"))
	if status != 0 || !strings.Contains(out, "4 idle groups: ") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// TestCatchUp: a node that was down gets what it lacks while clients write, and each part of that is measured.
func TestCatchUp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells of other processes in the way that bench reads")
	}
	status, out, errs := run(t, "bench", "--catch-up", "1MiB", "--time", "200ms", "--clients", "4", "--rate", "100", "--partitions", "4", "--dir", filepath.Join(t.TempDir(), "cluster"))
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	for _, want := range []string{`all nodes are there +\d`, `a node is down +\d`, `the node catches up +\d`, `all nodes are there again +\d`, `node 3 lacked 1\.\d+ MiB in 4 groups and caught up after \d`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}

// TestInitAndStatus: init makes what serve and status need, once; a node that does not run is
// an error that names it.
func TestInitAndStatus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	if status, out, errs := run(t, "init", dir, "--container", "orders:/tenant:4", "--addresses", "127.0.0.1:1,127.0.0.1:2"); status != 0 || !strings.Contains(out, "2 nodes, 4 groups") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	d, err := cluster.Load(filepath.Join(dir, descriptionName))
	if err != nil || d.Containers[0].Name != "orders" || d.Nodes[1].Address != "127.0.0.1:2" {
		t.Errorf("%+v, %v", d, err)
	}
	if status, _, errs := run(t, "init", dir); status != 1 || !strings.Contains(errs, "exists") {
		t.Errorf("again: status %d, %s", status, errs)
	}
	status, out, errs := run(t, "status", dir, "--json")
	if status != 1 || !strings.Contains(errs, "2 of 2 nodes do not answer") {
		t.Errorf("status %d: %s", status, errs)
	}
	var first nodeStatus
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &first); err != nil || first.Node != 1 || first.Error == "" {
		t.Errorf("%s: %v", out, err)
	}
	if status, _, errs := run(t, "serve", t.TempDir()); status != 1 || !strings.Contains(errs, "no node has been made here") {
		t.Errorf("a directory of no node: status %d, %s", status, errs)
	}
	if status, _, _ := run(t, "init", dir+"2", "--container", "orders"); status != 2 {
		t.Errorf("a container without a path: status %d", status)
	}
}

// TestStatusOfSilent: nodes that do not answer are waited for together.
func TestStatusOfSilent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	command(t, "init", dir, "--addresses", "127.0.0.1:1,127.0.0.1:2", "--etcd", "none")
	d, err := cluster.Load(filepath.Join(dir, descriptionName))
	must(t, err)
	creds, err := transport.LoadCredentials(filepath.Join(dir, clientDir))
	must(t, err)
	var dials sync.WaitGroup
	dials.Add(2)
	cl := client.New(client.Config{Cluster: d, Credentials: creds, Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		dials.Done()
		both := make(chan struct{})
		go func() {
			dials.Wait()
			close(both)
		}()
		select {
		case <-both:
			return nil, errors.New("both are dialed")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	defer cl.Close()
	for _, s := range statusOf(t.Context(), cl, d) {
		if !strings.Contains(s.Error, "both are dialed") {
			t.Errorf("node %d: %s", s.Node, s.Error)
		}
	}
}

// TestStatusOfStopped: the table says which replicas have stopped, and why, and which groups have no leader.
func TestStatusOfStopped(t *testing.T) {
	var out, errs strings.Builder
	printStatus(&environment{&out, &errs}, []nodeStatus{
		{Node: 1, Status: &host.Status{Groups: []host.GroupStatus{{ID: 7, Applied: 9}, {ID: 8, Leader: 2}}}},
		{Node: 2, Status: &host.Status{Groups: []host.GroupStatus{{ID: 7, Applied: 8, Error: "group 7: why"}, {ID: 8, Leader: 2}}}},
	})
	_, groups, _ := strings.Cut(out.String(), "\n\n")
	rows := strings.Split(groups, "\n")
	if !strings.Contains(rows[1], "none") || !strings.HasSuffix(rows[1], "9, node 2: 1, node 2 has stopped") || strings.Contains(rows[2], "stopped") || errs.String() != "node 2: group 7: why\n" {
		t.Errorf("%s%s", out.String(), errs.String())
	}
}

// TestFlagsOutOfRange: a flag whose value means nothing is refused before anything is begun.
func TestFlagsOutOfRange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	command(t, "init", dir, "--addresses", "127.0.0.1:1")
	node := filepath.Join(dir, "node1")
	for _, args := range [][]string{
		{"serve", node, "--lease=-1s"}, {"serve", node, "--lease=0"}, {"serve", node, "--grace=-1s"}, {"serve", node, "--split-rate=-1"}, {"serve", node, "--split-rate=NaN"}, {"serve", node, "--rate=-1"},
		{"status", dir, "--etcd-ca=x"}, {"drain", dir, "1", "--etcd-cert=x"},
		{"demo", "--writers=0"}, {"demo", "--rounds=-1"}, {"bench", "--clients=0"}, {"bench", "--repeat=0"}, {"bench", "--time=-1s"}, {"bench", "--only=xyz"},
	} {
		if status, _, errs := run(t, args...); status != 2 || !strings.Contains(errs, "--") {
			t.Errorf("%v: status %d, %s", args, status, errs)
		}
	}
}

// TestInitFlags: what cannot be a cluster is refused before a file is made, and each container is made as it is written.
func TestInitFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--regions has 2 values":    {"--regions", "eu,us"},
		"--zones has 4 values":      {"--zones", "a,b,c,d"},
		`no node is in region "us"`: {"--regions", "eu,eu,asia", "--readers", "us"},
		"none, or has URLs":         {"--etcd", "none", "--etcd", "http://e:1"},
		"that of node 2 too":        {"--addresses", "127.0.0.1:7000,127.0.0.1:7100,127.0.0.1:7300"},
		"has a slash":               {"--name", "a/b"},
		"begins with a slash":       {"--container", "orders:tenant:4"},
	} {
		dir := filepath.Join(t.TempDir(), "cluster")
		if status, _, errs := run(t, append([]string{"init", dir}, args...)...); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: status %d, %s", args, status, errs)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v: there are files", args)
		}
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	if status, _, errs := run(t, "init", dir, "--container", "full:/a,/b/c:2", "--container", "a:b:/x:y:1"); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	d, err := cluster.Load(filepath.Join(dir, descriptionName))
	if err != nil || len(d.Containers) != 2 || fmt.Sprint(d.Containers[0].PartitionKey) != "[/a /b/c]" || d.Containers[1].Name != "a:b" || d.Containers[1].PartitionKey[0] != "/x:y" || d.Containers[1].Partitions != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := parseIndex("{} {}"); err == nil {
		t.Error("two policies")
	}
}
