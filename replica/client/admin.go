package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
)

// changeTime is how long a node is waited for that changes a group.
const changeTime = 20 * time.Second

// Descriptor returns a group as the nodes last described it, nil if it is not known.
func (c *Client) Descriptor(id uint64) *topology.Group {
	return c.routes.known.Group(topology.GroupID(id))
}

// Ranges returns the ranges of the groups of a container, in the order of the key space, as far as the client
// knows them; none: it does not know the container.
func (c *Client) Ranges(container string) (out []partmap.Range) {
	for _, g := range c.routes.now.Load().groups[container] {
		out = append(out, g.Range)
	}
	return out
}

// Descriptors returns the groups that the client knows, in the order of their ids.
func (c *Client) Descriptors() (out []*topology.Group) {
	for _, id := range c.routes.known.IDs() {
		if g := c.routes.known.Group(id); g != nil {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *topology.Group) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Split divides a group where that halves its bytes best. What lies behind it becomes group right, an
// id that no group has had, with the same upper half. It tries until the context ends. Errors: that
// of the context, with the last answer; engine.ErrNotFound if the group is not known;
// engine.ErrNoContainer if its container was dropped; engine.ErrExists if another group has or had the id.
func (c *Client) Split(ctx context.Context, id, right uint64) error {
	var whole partmap.Range
	return c.until(ctx, id, func(g *topology.Group) (*protocol.Change, error) {
		if whole.Empty() {
			whole = g.Range
		}
		switch d := c.Descriptor(right); {
		case d == nil:
			return &protocol.Change{Group: id, What: protocol.Split, First: right}, nil
		case right == id, !whole.Contains(&d.Range.Min):
			return nil, fmt.Errorf("group %d is there already, and not as a half of group %d: %w", right, id, engine.ErrExists)
		}
		return nil, nil
	})
}

// Move moves a replica of a group to a node that has none. It tries until the context ends; what
// an earlier try has left half done it completes. Errors: those of Split; engine.ErrInvalid for a replica
// that is a reader: the move would make it a voter.
func (c *Client) Move(ctx context.Context, id, from, to uint64) error {
	return c.until(ctx, id, func(g *topology.Group) (*protocol.Change, error) {
		in, there := g.On(topology.NodeID(to))
		out, left := g.On(topology.NodeID(from))
		switch {
		case out.Role == topology.Learner, in.Role == topology.Learner:
			return nil, fmt.Errorf("%w: of group %d one of the nodes %d and %d has a reader, which does not vote, and a move is one of a voter", engine.ErrInvalid, id, from, to)
		case !there:
			return &protocol.Change{Group: id, What: protocol.Add, First: to}, nil
		case in.Role != topology.Voter:
			return &protocol.Change{Group: id, What: protocol.Promote, First: in.ID, Second: out.ID}, nil
		case left:
			return &protocol.Change{Group: id, What: protocol.Remove, First: out.ID}, nil
		}
		return nil, nil
	})
}

// until asks the leader of a group for changes until there is none to ask for, or next refuses.
func (c *Client) until(ctx context.Context, id uint64, next func(*topology.Group) (*protocol.Change, error)) error {
	var last error
	t := try{c: c}
	for {
		var g *topology.Group
		if g, t.g = c.told(ctx, id); t.g == nil {
			return fmt.Errorf("group %d: %w", id, engine.ErrNotFound)
		}
		if g != nil && g.Epoch > 0 {
			q, refused := next(g)
			if q == nil {
				return refused
			}
			node, err := t.next(ctx)
			if err != nil {
				return giveUp(false, err, last)
			}
			r, _ := c.askFor(ctx, changeTime, node, protocol.Alter, q.Append)
			c.learn(t.g, &r)
			switch {
			case r.err != nil:
				last = r.err
				t.failed(node)
			case r.Err == nil:
			case errors.Is(r.Err, engine.ErrNoContainer):
				c.gone(t.g, &r)
				return r.Err
			case errors.Is(r.Err, engine.ErrExists):
				return r.Err
			case errors.Is(r.Err, group.ErrNotLeader), errors.Is(r.Err, protocol.ErrNoGroup):
				last = r.Err
				t.refused(node, &r)
			default: // in the end it may be so all the same: it may have been done by an earlier try
				last = r.Err
			}
		}
		t.count++
		t.pause()
		if err := t.sleep(ctx); err != nil {
			return giveUp(false, err, last)
		}
	}
}

// CreateContainer makes a container with a name, a key, partitions, an index policy and a default time to live, and returns
// when the client knows its groups. It tries until the context ends; the container may be made all the same. If an answer was lost it cannot tell
// whether it has made the container itself. Errors: engine.ErrExists if there is one with the name, or one is being dropped;
// engine.ErrInvalid; protocol.ErrChange if the cluster has no metadata store; that of the context, with the last answer.
func (c *Client) CreateContainer(ctx context.Context, t cluster.Container) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	q := &protocol.Change{What: protocol.Create, Text: string(text)}
	if err = c.anywhere(ctx, q, engine.ErrExists, engine.ErrInvalid); err != nil {
		return err
	}
	for look := (try{c: c}); !c.covers(t.Name); {
		look.count++
		look.pause()
		if err = look.sleep(ctx); err != nil {
			return fmt.Errorf("container %q is made, and its groups are not known yet: %w", t.Name, err)
		}
		c.Refresh(ctx)
	}
	return nil
}

// covers reports whether the client knows groups that have the whole key space of a container.
func (c *Client) covers(container string) bool {
	at := partmap.MinEPK()
	for _, g := range c.routes.now.Load().groups[container] {
		if g.Range.Min.Compare(&at) != 0 {
			return false
		}
		at = g.Range.Max
	}
	end := partmap.MaxEPK()
	return at.Compare(&end) == 0
}

// DropContainer drops a container with all its items, for good. It returns when no replica can
// acknowledge a write to it any more: the name may then be given to another container, which has
// nothing of this one. Nodes that are down remove what they have of it when they come back. It tries until
// the context ends, and may then be called again; the container may be dropped all the same. Errors:
// engine.ErrNoContainer; protocol.ErrChange if the cluster has no metadata store; that of the context,
// with the last answer.
func (c *Client) DropContainer(ctx context.Context, name string) error {
	number := c.numberOf(name)
	if number == 0 {
		c.Refresh(ctx)
		number = c.numberOf(name)
	}
	for {
		// An earlier try may have dropped the container, and another one may have the name since: the number tells them apart.
		err := c.anywhere(ctx, &protocol.Change{What: protocol.Drop, First: number, Text: name}, engine.ErrNoContainer)
		if number == 0 || !errors.Is(err, engine.ErrNoContainer) {
			return err
		}
		// No try has dropped it: what the client knows may be old.
		c.Refresh(ctx)
		before := number
		if number = c.numberOf(name); number == before || number == 0 {
			return err
		}
	}
}

// numberOf returns the number of a container, 0 if the client knows none with the name.
func (c *Client) numberOf(name string) uint64 {
	if groups := c.routes.now.Load().groups[name]; len(groups) > 0 {
		return groups[0].ID >> 32
	}
	return 0
}

// SetIndexPolicy changes the index policy of a container, and returns when the cluster has decided so. Nodes follow when they hear
// of it, and index their files in the background. Queries are right at all times, but read the documents of what
// is not indexed yet. It tries until the context ends; the policy may be changed all the same. Errors: engine.ErrNoContainer;
// engine.ErrInvalid; protocol.ErrChange if the cluster has no metadata store; that of the context, with the last answer.
func (c *Client) SetIndexPolicy(ctx context.Context, name string, index engine.IndexPolicy) error {
	text, err := json.Marshal(cluster.Container{Name: name, Index: index})
	if err != nil {
		return err
	}
	return c.anywhere(ctx, &protocol.Change{What: protocol.Redefine, Text: string(text)}, errNever, engine.ErrNoContainer, engine.ErrInvalid)
}

// SetDefaultTTL changes the default time to live of a container, in whole seconds: 0: no item expires, cluster.NoExpiry: only items
// with a time of their own do. It returns when the cluster has decided so. The leader of each group follows when its node
// hears of it, within moments if that reaches the metadata store; until then the group goes by the default before. What has
// expired by then does not come back. It tries until the context ends; the default may be changed all the same. Errors: those of
// SetIndexPolicy; engine.ErrInvalid too for a container that was made without mutable_ttl.
func (c *Client) SetDefaultTTL(ctx context.Context, name string, seconds int64) error {
	text, err := json.Marshal(cluster.Container{Name: name, DefaultTTL: seconds})
	if err != nil {
		return err
	}
	return c.anywhere(ctx, &protocol.Change{What: protocol.Retime, Text: string(text)}, errNever, engine.ErrNoContainer, engine.ErrInvalid)
}

// errNever is an error that no node answers.
var errNever = errors.New("never")

// anywhere has a node, whichever, make a change of the whole cluster. The first of final is what a node answers
// when an earlier try has made the change, and an error without such a try; the others are errors.
func (c *Client) anywhere(ctx context.Context, q *protocol.Change, final ...error) error {
	asked := false // an earlier try may have made it
	for t := (try{c: c}); ; {
		var last error
		nodes := slices.Sorted(maps.Keys(c.routes.now.Load().links))
		var silent []uint64
		nodes = slices.DeleteFunc(nodes, func(node uint64) bool {
			if c.answers(node) {
				return false
			}
			silent = append(silent, node)
			return true
		})
		for _, node := range append(nodes, silent...) { // a silent one would take all of the time
			r, sent := c.askFor(ctx, changeTime+c.cfg.TryTime, node, protocol.Alter, q.Append)
			last = errors.Join(r.err, r.Err)
			switch {
			case last == nil, asked && errors.Is(last, final[0]):
				c.Refresh(ctx)
				return nil
			case errors.Is(last, protocol.ErrChange), slices.ContainsFunc(final, func(e error) bool { return errors.Is(last, e) }):
				return last
			case ctx.Err() != nil:
				return giveUp(false, ctx.Err(), last)
			}
			asked = asked || sent && !errors.Is(last, group.ErrBusy)
		}
		if c.closed.Load() {
			return ErrClosed
		}
		t.count++
		t.pause()
		if err := t.sleep(ctx); err != nil {
			return giveUp(false, err, last)
		}
	}
}

// Dropped returns the numbers of the containers that were dropped, as far as the client has heard, in no
// order.
func (c *Client) Dropped() []uint64 { return slices.Collect(maps.Keys(c.routes.now.Load().dropped)) }

// Introduce tells all nodes that are there of a node that joins. A node that is started later has
// it from its description of the cluster. The error says which nodes were not told; the others were.
func (c *Client) Introduce(ctx context.Context, node uint64, address string) error {
	q := &protocol.Change{What: protocol.Introduce, First: node, Text: address}
	c.routes.update([]protocol.Peer{{Node: node, Address: address}}, nil)
	others := slices.Sorted(maps.Keys(c.routes.now.Load().links))
	errs := make([]error, len(others))
	var tasks sync.WaitGroup
	places := make(chan struct{}, mostAsked)
	for i, other := range others {
		if other == node {
			continue
		}
		places <- struct{}{}
		tasks.Go(func() {
			defer func() { <-places }()
			c.reach(ctx, other)
			if r, _ := c.ask(ctx, other, protocol.Alter, q.Append); r.err != nil || r.Err != nil {
				errs[i] = fmt.Errorf("node %d was not told of node %d: %w", other, node, errors.Join(r.err, r.Err))
			}
		})
	}
	tasks.Wait()
	return errors.Join(errs...)
}
