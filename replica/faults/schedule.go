package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/topology"
)

// mostWrong is by how much the clock of a node is wrong at most: less than half of what the engine allows
// times from elsewhere to be ahead.
const mostWrong = 2 * time.Minute

// moveTime is how long a move may take after the faults of its time have ended.
const moveTime = 40 * time.Second

// wrongClocks returns by how much the clocks of nodes are wrong, one after the other.
func wrongClocks(seed uint64) func() time.Duration {
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	return func() time.Duration {
		return time.Duration(rng.Int64N(int64(2*mostWrong/time.Millisecond)))*time.Millisecond - mostWrong
	}
}

// move is a replica that moves to another node.
type move struct {
	what   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done
}

// begin has a replica of a group move to the node that has none.
func (s *nodeSet) begin(node, other uint64) error {
	cl := s.client(0)
	ctx, cancel := context.WithTimeout(context.Background(), moveTime)
	cl.Refresh(ctx)
	groups := cl.Descriptors()
	if len(groups) == 0 {
		cancel()
		cl.Close()
		return fmt.Errorf("no node has told of its groups: %w", client.ErrUnknown)
	}
	g := groups[int(node+other)%len(groups)]
	from, to := g.Replicas[int(other)%len(g.Replicas)].Node, topology.NodeID(0)
	for _, id := range s.ids {
		if _, there := g.On(topology.NodeID(id)); !there {
			to = topology.NodeID(id)
		}
	}
	m := &move{what: fmt.Sprintf("a replica of group %d moves from node %d to node %d", g.ID, from, to), cancel: cancel, done: make(chan struct{})}
	s.move = m
	go func() {
		defer close(m.done)
		defer cl.Close()
		defer cancel()
		m.err = cl.Move(ctx, uint64(g.ID), uint64(from), uint64(to))
	}()
	return nil
}

// inNamespaces returns the faults that need namespaces, and what this system does not have.
func (s *nodeSet) inNamespaces() (out []fault, skipped []string) {
	out = []fault{
		{"node %d is a blackhole", func(s *nodeSet, node, _ uint64, on bool) error { return s.net.blackhole(node, on) }},
		{"a replica moves, node %d is killed, node %d is cut off", func(s *nodeSet, node, other uint64, on bool) error {
			if on {
				if err := s.begin(node, other); err != nil {
					return err
				}
				s.signal(node, syscall.SIGKILL)
			}
			return s.deaf(other, true, on)
		}},
	}
	add := func(there bool, name string, d disturbance, lacks string) {
		if !there {
			skipped = append(skipped, lacks)
			return
		}
		out = append(out, fault{name, func(s *nodeSet, node, _ uint64, on bool) error { return s.net.disturb(node, d, on) }})
	}
	add(s.net.loss, "one in ten packets of node %d is lost", lossy, "lost packets: the system has no filters by BPF (cls_bpf)")
	add(s.net.limit, "the link of node %d carries 2 Mbit/s", slow, "a slow link: the system has no token bucket (sch_tbf)")
	add(s.net.netem, "packets of node %d are late and out of order", late, "late packets in another order: the system has no netem (sch_netem)")
	if s.disk == nil {
		return out, append(skipped, "a disk that stalls: it needs mkfs.ext4, fsfreeze and a loop device")
	}
	return append(out, fault{"the disk of node 2 stalls", func(s *nodeSet, _, _ uint64, on bool) error { return s.disk.stall(on) }}), skipped
}
