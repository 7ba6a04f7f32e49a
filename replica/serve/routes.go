package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
)

// changeTime bounds how long a node tries a change of a group.
const changeTime = 20 * time.Second

// routes answers which nodes this one is told of, and which groups it has a replica of.
func (s *session) routes(q *protocol.Request) {
	var peers []protocol.Peer
	for _, p := range s.h.Peers() {
		peers = append(peers, protocol.Peer{Node: p.Node, Address: p.Address})
	}
	var groups []*topology.Group
	for _, id := range s.h.Groups() {
		if g := s.h.Group(id); g != nil && g.Epoch > 0 && g.Voters() > 0 {
			groups = append(groups, g)
		}
	}
	var dropped []uint64
	for _, d := range s.h.Dropped() {
		dropped = append(dropped, d.Number)
	}
	s.answer(q, func(h *protocol.Head, dst []byte) []byte { return h.AppendRoutes(dst, peers, groups, dropped) })
}

// change changes a group that this node leads. A connection has one change under way.
func (s *session) change(q *protocol.Request) {
	kept := *q
	kept.Group = q.Change.Group
	select {
	case s.changing <- struct{}{}:
	default:
		s.refuse(&kept, fmt.Errorf("another change of this client is under way: %w", group.ErrBusy))
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(s.ctx, changeTime)
		defer cancel()
		added, err := alter(ctx, s.h, &kept.Change)
		<-s.changing // a client that has the answer may ask for the next change
		if err != nil {
			s.refuse(&kept, err)
			return
		}
		s.answer(&kept, func(h *protocol.Head, dst []byte) []byte { return h.AppendNumber(dst, added) })
	}()
}

func alter(ctx context.Context, h *host.Host, c *protocol.Change) (added uint64, err error) {
	switch c.What {
	case protocol.Split:
		return 0, h.Split(ctx, c.Group, c.Text, c.First)
	case protocol.Add:
		return h.AddReplica(ctx, c.Group, c.First)
	case protocol.Promote:
		return 0, h.Promote(ctx, c.Group, c.First, c.Second)
	case protocol.Remove:
		return 0, h.RemoveReplica(ctx, c.Group, c.First)
	case protocol.Drop:
		return 0, h.DropEverywhere(ctx, c.Text, c.First)
	case protocol.Create, protocol.Redefine, protocol.Retime:
		var t cluster.Container
		if err := json.Unmarshal([]byte(c.Text), &t); err != nil {
			return 0, fmt.Errorf("%w: container: %w", protocol.ErrInvalid, err)
		}
		if c.What == protocol.Redefine {
			return 0, h.RedefineEverywhere(ctx, t.Name, t.Index)
		}
		if c.What == protocol.Retime {
			return 0, h.RetimeEverywhere(ctx, t.Name, t.DefaultTTL)
		}
		return 0, h.CreateEverywhere(ctx, cluster.Container{Name: t.Name, PartitionKey: t.PartitionKey, Partitions: t.Partitions, Index: t.Index, DefaultTTL: t.DefaultTTL, MutableTTL: t.MutableTTL, UniqueKeys: t.UniqueKeys})
	case protocol.Introduce:
		if _, _, err := net.SplitHostPort(c.Text); err != nil || c.First == 0 || c.First > uint64(topology.MaxNode) {
			return 0, fmt.Errorf("%w: node %d at %q", protocol.ErrInvalid, c.First, c.Text)
		}
		h.SetPeer(c.First, c.Text)
		return 0, nil
	}
	return 0, fmt.Errorf("%w: change %d", protocol.ErrInvalid, c.What)
}
