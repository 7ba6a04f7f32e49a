package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
)

// trial is a cluster of processes on this machine, in a directory of its own.
type trial struct {
	dir     string
	d       *cluster.Cluster
	client  *client.Client
	profile bool
	planned bool // an etcd runs within the nodes, and one of them plans
	nodes   map[uint64]*process
}

// process is a node that runs.
type process struct {
	cmd  *exec.Cmd
	log  *bytes.Buffer // what it has said, read after its end
	done chan struct{} // closed when it has ended
}

// newTrial makes a cluster of three nodes and starts them.
func newTrial(ctx context.Context, dir string, containers []cluster.Container, profile, planned bool) (_ *trial, err error) {
	t := &trial{dir: dir, profile: profile, planned: planned, nodes: make(map[uint64]*process)}
	addresses, err := freeAddresses(9)
	if err != nil {
		return nil, err
	}
	t.d = &cluster.Cluster{Containers: containers}
	var members []cluster.Member
	for i, a := range addresses[:3] {
		t.d.Nodes = append(t.d.Nodes, cluster.Node{ID: uint64(i + 1), Address: a})
		members = append(members, cluster.Member{Node: uint64(i + 1), Peer: addresses[3+i], Client: addresses[6+i]})
	}
	if planned {
		t.d.Metadata = &cluster.Metadata{Name: "demo", Members: members}
	}
	if err = makeCluster(dir, t.d); err != nil {
		return nil, err
	}
	if t.client, _, err = openClient(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	for _, n := range t.d.Nodes {
		if err = t.start(n.ID); err != nil {
			return nil, err
		}
	}
	return t, t.ready(ctx, time.Minute)
}

// start starts a node, with more flags than usual.
func (t *trial) start(node uint64, more ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"serve", nodeDir(t.dir, node)}
	if t.planned { // faster than otherwise, and without splits that nobody has asked for
		args = append(args, "--every", "200ms", "--split-rate", "1e9", "--grace", "10s")
	}
	if t.profile {
		args = append(args, "--profile", filepath.Join(t.dir, fmt.Sprintf("node%d.pprof", node)))
	}
	p := &process{cmd: exec.Command(self, append(args, more...)...), log: new(bytes.Buffer), done: make(chan struct{})}
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = tied()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.done)
	}()
	t.nodes[node] = p
	return nil
}

// signal sends a signal to a node. After one that ends it, it waits for the end.
func (t *trial) signal(node uint64, s syscall.Signal) error {
	p := t.nodes[node]
	if err := p.cmd.Process.Signal(s); err != nil {
		return err
	}
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		<-p.done
	}
	return nil
}

// running returns an error if a node has ended by itself.
func (t *trial) running() error {
	for node, p := range t.nodes {
		select {
		case <-p.done:
			return fmt.Errorf("node %d has ended: %v: %s", node, p.cmd.ProcessState, p.log)
		default:
		}
	}
	return nil
}

// ready waits until all nodes serve, each group has its preferred leader, and all replicas have
// come to the same entry.
func (t *trial) ready(ctx context.Context, most time.Duration) error {
	what := ""
	for end := time.Now().Add(most); time.Now().Before(end); {
		if err := errors.Join(ctx.Err(), t.running()); err != nil {
			return err
		}
		if what = t.missing(ctx); what == "" {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the cluster is not ready after %v: %s", most, what)
}

// missing says what is not ready; empty: nothing.
func (t *trial) missing(ctx context.Context) string {
	led, applied := make(map[uint64]bool), make(map[uint64]uint64)
	for _, s := range statusOf(ctx, t.client, t.d) {
		if s.Status == nil {
			return fmt.Sprintf("node %d: %s", s.Node, s.Error)
		}
		for _, g := range s.Status.Groups {
			if g.Leader == g.Replicas[0] && g.Leader == s.Node {
				led[g.ID] = true
			}
			if n, found := applied[g.ID]; found && n != g.Applied {
				return fmt.Sprintf("group %d: entries %d and %d", g.ID, n, g.Applied)
			}
			applied[g.ID] = g.Applied
		}
	}
	for _, g := range t.d.Groups() {
		if !led[g.ID] {
			return fmt.Sprintf("group %d is not led by node %d", g.ID, g.Replicas[0])
		}
	}
	return ""
}

// close ends the nodes.
func (t *trial) close() {
	if t.client != nil {
		t.client.Close()
	}
	var ended sync.WaitGroup
	for _, p := range t.nodes {
		ended.Go(func() {
			_ = p.cmd.Process.Signal(sigCont) // it may have been stopped
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.done:
			case <-time.After(10 * time.Second):
				_ = p.cmd.Process.Kill()
				<-p.done
			}
		})
	}
	ended.Wait()
}

// usage returns what the nodes have used of processors, and their resident memory in bytes.
func (t *trial) usage() (cpu time.Duration, resident int64, err error) {
	for node, p := range t.nodes {
		c, r, err := usageOf(p.cmd.Process.Pid)
		if err != nil {
			return 0, 0, fmt.Errorf("node %d: %w", node, err)
		}
		cpu, resident = cpu+c, resident+r
	}
	return cpu, resident, nil
}

// usageOf reads what Linux tells of a process.
func usageOf(pid int) (cpu time.Duration, resident int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name of the program, in parentheses, may have anything in it.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 22 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, bad := strconv.ParseInt(f, 10, 64)
		if bad != nil {
			return 0, 0, bad
		}
		ticks += n
	}
	pages, err := strconv.ParseInt(fields[21], 10, 64)
	return time.Duration(ticks) * (time.Second / 100), pages * int64(os.Getpagesize()), err
}
