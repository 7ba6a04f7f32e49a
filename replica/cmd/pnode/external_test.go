package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/protocol"
)

// serveEtcd is an etcd of one member that is a process of its own: what an operator runs who has one. Its
// arguments are its directory and the URLs for clients and members.
func serveEtcd(dir, forClients, forPeers string) error {
	c := embed.NewConfig()
	c.Dir, c.LogLevel = dir, "error"
	for text, to := range map[string][2]*[]url.URL{
		forClients: {&c.ListenClientUrls, &c.AdvertiseClientUrls}, forPeers: {&c.ListenPeerUrls, &c.AdvertisePeerUrls},
	} {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		*to[0], *to[1] = []url.URL{*u}, []url.URL{*u}
	}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	return <-e.Err()
}

// startEtcd starts serveEtcd as a process.
func startEtcd(t *testing.T, args ...string) *process {
	self, err := os.Executable()
	must(t, err)
	p := &process{cmd: exec.Command(self, append([]string{"etcd"}, args...)...), log: new(bytes.Buffer), done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.SysProcAttr = p.log, tied()
	must(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.done)
	}()
	return p
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	must(t, p.cmd.Process.Kill())
	<-p.done
}

// TestExternalEtcd: the map of a cluster is in an etcd that is a process of its own. It is killed: writes and
// reads go on, a node ends and starts again without it, and status says what is amiss. When it runs again, so does
// what needs it, and it has what it had.
func TestExternalEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	free, err := freeAddresses(5)
	must(t, err)
	args := []string{filepath.Join(t.TempDir(), "etcd"), "http://" + free[3], "http://" + free[4]}
	etcd := startEtcd(t, args...)
	defer func() { etcd.kill(t) }()
	c := &trial{dir: filepath.Join(t.TempDir(), "cluster"), planned: true, nodes: make(map[uint64]*process)}
	c.d = &cluster.Cluster{
		Containers: []cluster.Container{{Name: "items", PartitionKey: []string{"/k"}, Partitions: 1}},
		Metadata:   &cluster.Metadata{Name: "test", Endpoints: args[1:2]},
	}
	for i := range 3 {
		c.d.Nodes = append(c.d.Nodes, cluster.Node{ID: uint64(i + 1), Address: free[i]})
	}
	must(t, makeCluster(c.dir, c.d))
	c.client, _, err = openClient(c.dir)
	must(t, err)
	defer c.close()
	for _, n := range c.d.Nodes {
		must(t, c.start(n.ID))
	}
	command(t, "container", c.dir, "first:/k:2")
	n := 0
	write := func(containers ...string) {
		t.Helper()
		for _, name := range containers {
			n++
			key := engine.StringKey(fmt.Sprint("key", n))
			_, err := c.client.Upsert(ctx, name, key, fmt.Appendf(nil, `{"id":"i","k":"key%d"}`, n))
			must(t, err)
			_, err = c.client.Read(ctx, protocol.Strong, name, key, "i")
			must(t, err)
		}
	}
	write("items", "first")
	etcd.kill(t)
	write("items", "first")
	must(t, c.signal(2, syscall.SIGTERM))
	must(t, c.start(2))
	write("items", "first")
	if status, out, errs := run(t, "status", c.dir); !strings.Contains(errs, "has not answered") || !strings.Contains(out, "serves") {
		t.Errorf("status %d without etcd: %s%s", status, out, errs)
	}
	etcd = startEtcd(t, args...)
	command(t, "container", c.dir, "second:/k:1")
	write("items", "first", "second")
	o, err := newOperator(c.dir, new(etcdFlags))
	must(t, err)
	defer o.close()
	c.wait(ctx, t, "the map is whole", func() bool {
		p, err := o.picture(ctx)
		return err == nil && len(p.Containers) == 2 && len(p.Nodes) == 3 && len(p.Groups) == 4
	})
}
