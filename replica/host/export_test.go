package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/internal/memnet"
	"github.com/cleavestore/cleave/replica/transport"
)

// Rig is the cluster of the tests for tests of what serves clients.
type Rig struct{ r *rig }

// NewRig starts a cluster of three nodes that serve clients.
func NewRig(t testing.TB, partitions int, serve func(context.Context, *Host, *transport.Conn)) *Rig {
	return &Rig{newServingRig(t, partitions, serve)}
}

func (r *Rig) Steady()                             { r.r.steady() }
func (r *Rig) Kill(node uint64)                    { r.r.kill(node) }
func (r *Rig) Start(node uint64) error             { return r.r.start(node) }
func (r *Rig) Close()                              { r.r.close() }
func (r *Rig) Cluster() *cluster.Cluster           { return r.r.cluster }
func (r *Rig) Network() *memnet.Network            { return &r.r.net }
func (r *Rig) Credentials() *transport.Credentials { return r.r.creds[0] }
func (r *Rig) KeyIn(n int) string                  { return r.r.keyIn(n) }
func (r *Rig) Node(id uint64) *Host                { return r.r.hosts[id] }

// SlowSyncs has each sync of a Raft log take some time.
func (r *Rig) SlowSyncs(d time.Duration) {
	for _, f := range r.r.faulty {
		f.SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpSync && strings.HasPrefix(c.Name, logDir+"/") {
				time.Sleep(d)
			}
			return nil
		})
	}
}

// Incoming returns the files of snapshots and exports that the nodes have.
func (r *Rig) Incoming() (all []string) {
	for _, disk := range r.r.disks {
		names, _ := disk.List(incomingDir) // a node that was never started has no directory
		all = append(all, names...)
	}
	return all
}

// SlowExports has each write of an export of a node take some time.
func (r *Rig) SlowExports(node uint64, d time.Duration) {
	r.r.faulty[node].SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpWrite && strings.HasPrefix(c.Name, incomingDir+"/") {
			time.Sleep(d)
		}
		return nil
	})
}

// OnDrop has all nodes drop containers for clients.
func (r *Rig) OnDrop(drop func(ctx context.Context, name string, number uint64) error) {
	for _, h := range r.r.hosts {
		h.cfg.Drop = drop
	}
}

// SetClock has the clock of a node's commands be ahead by some time, from its next start on.
func (r *Rig) SetClock(node uint64, ahead time.Duration) { r.r.clocks[node] = ahead }

// CloseNode closes a node as a SIGTERM does.
func (r *Rig) CloseNode(node uint64) error {
	h := r.r.hosts[node]
	delete(r.r.hosts, node)
	return h.Close()
}

func (r *Rig) Split(id, right uint64) error      { return r.r.split(id, right) }
func (r *Rig) Move(id, from, to uint64)          { r.r.move(id, from, to) }
func (r *Rig) Until(what string, is func() bool) { r.r.until(what, is) }
func (r *Rig) Leading(id uint64) *Host           { return r.r.leading(id) }
