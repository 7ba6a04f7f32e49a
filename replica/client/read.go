package client

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/transport"
)

// View reads and writes in a session. Its methods are safe for concurrent use.
type View struct {
	Client  *Client
	Session *Session
	Level   protocol.Level
	Bounds  protocol.Bounds // of Bounded; Age 0: those of the client
	// Also, if not nil, is another session of which the view is a part: what one has written or seen the
	// other sees.
	Also *Session
}

// View returns a view in the client's own session, in which its other methods are too.
func (c *Client) View(level protocol.Level) View {
	return View{Client: c, Session: c.own, Level: level}
}

// Read returns an item, in the session of the client. Its error is engine.ErrNotFound if
// there is none.
func (c *Client) Read(ctx context.Context, level protocol.Level, container string, key engine.PartitionKey, id string) (engine.Item, error) {
	return c.View(level).Read(ctx, container, key, id)
}

// Scan returns a page of the items of a logical partition whose ids are higher than after, in
// the order of their ids, and whether there are more.
func (c *Client) Scan(ctx context.Context, level protocol.Level, container string, key engine.PartitionKey, after string, limit int) (items []engine.Item, more bool, err error) {
	return c.View(level).Scan(ctx, container, key, after, limit)
}

// Batch is Client.Batch in the session of the view.
func (v View) Batch(ctx context.Context, container string, key engine.PartitionKey, ops ...command.Operation) ([]engine.Meta, error) {
	return v.Client.batch(ctx, v.note, container, key, ops)
}

// saw is note for the answer to a read that demanded an entry of the session: see demand.
func (v View) saw(demanded, group, index uint64) {
	if index < demanded {
		v.Session.lacking(group, index)
	}
	v.note(group, index)
}

// note notes that an entry of a group was written or seen.
func (v View) note(group, index uint64) {
	v.Session.note(group, index)
	if v.Also != nil {
		v.Also.note(group, index)
	}
}

// Read is Client.Read at the level and in the session of the view.
func (v View) Read(ctx context.Context, container string, key engine.PartitionKey, id string) (engine.Item, error) {
	r, err := v.read(ctx, protocol.Read, &protocol.ReadRequest{Container: container, Key: key, ID: id})
	if err != nil {
		return engine.Item{}, err
	}
	it, err := r.Item()
	it.Key = key
	return it, err
}

// Scan is Client.Scan at the level and in the session of the view.
func (v View) Scan(ctx context.Context, container string, key engine.PartitionKey, after string, limit int) (items []engine.Item, more bool, err error) {
	r, err := v.read(ctx, protocol.Scan, &protocol.ReadRequest{Container: container, Key: key, ID: after, Limit: uint64(max(limit, 1))})
	if err != nil {
		return nil, false, err
	}
	items, more, err = r.Items()
	for i := range items {
		items[i].Key = key
	}
	return items, more, err
}

// demand sets what the read demands of a replica of a group. It returns the entry of the session that it demands. Only
// this one is lost if the answer is older: another call may bring the session farther meanwhile.
func (v View) demand(ctx context.Context, q *protocol.ReadRequest, g *groupState) (entry uint64) {
	q.Group, q.Level = g.ID, v.Level
	switch v.Level {
	case protocol.Session:
		if v.Session.stranger(v.Client.hasGroup) {
			v.Client.Refresh(ctx)
		}
		if v.Session.stranger(v.Client.hasGroup) {
			q.Level = protocol.Strong
			return 0
		}
		entry = v.Session.of(g.ID)
		if q.Index = entry; v.Also != nil {
			q.Index = max(q.Index, v.Also.of(g.ID))
		}
	case protocol.Bounded:
		if q.Bounds = v.Bounds; q.Bounds.Age == 0 {
			q.Bounds = v.Client.cfg.Bounds
		}
		known := g.applied.Load()
		q.Index = known - min(known, q.Bounds.Entries)
	}
	return entry
}

func (v View) read(ctx context.Context, kind transport.Kind, q *protocol.ReadRequest) (*reply, error) {
	c := v.Client
	epk, most := q.Query.Range.Min, c.cfg.TryTime
	var err error
	if kind == protocol.Query {
		most = max(most, queryTime)
	}
	if kind != protocol.Query {
		if epk, err = placeOf(q.Key); err != nil {
			return nil, err
		}
	}
	t, err := c.begin(ctx, q.Container, epk)
	if err != nil {
		return nil, err
	}
	wanted := q.Query.Range
	g := t.g
	demanded := v.demand(ctx, q, g)
	q.Query.Range = within(wanted, g)
	var last error
	t.near = q.Level != protocol.Strong
	for {
		node, err := t.next(ctx)
		if err != nil {
			return nil, giveUp(false, err, last)
		}
		r, _ := c.askFor(ctx, most, node, kind, func(dst []byte, number uint64) []byte { return q.Append(dst, kind, number) })
		c.learn(g, &r)
		c.gone(g, &r)
		switch {
		case r.err != nil:
			last = r.err
			t.failed(node)
		case r.Err == nil:
			v.saw(demanded, g.ID, r.Applied)
			return &r, nil
		case elsewhere(r.Err):
			last = r.Err
			t.refused(node, &r)
			if g, err = t.reroute(ctx, q.Container, epk); err != nil {
				return nil, giveUp(false, err, last)
			}
			demanded = v.demand(ctx, q, g)
			q.Query.Range = within(wanted, g)
			t.near = q.Level != protocol.Strong
		case errors.Is(r.Err, group.ErrBusy), errors.Is(r.Err, group.ErrUnknown), errors.Is(r.Err, group.ErrFailed):
			last = r.Err
			t.refused(node, &r)
		case errors.Is(r.Err, engine.ErrNotFound):
			v.saw(demanded, g.ID, r.Applied) // who has seen that there is none has seen something
			return nil, r.Err
		default:
			return nil, r.Err
		}
	}
}

// nearest chooses a node of which any will do. It passes over those that are not expected to answer, unless none is.
func (t *try) nearest() uint64 {
	near := t.c.cfg.Near
	if t.count == 1 && (slices.Contains(t.g.Replicas, near) || slices.Contains(t.g.Readers, near)) && t.c.answers(near) {
		return near
	}
	if local := t.g.local; near == 0 && t.count <= len(local) {
		t.at = int(t.c.turn.Add(1) % uint64(len(local)))
		for i := range local {
			if n := local[(t.at+i)%len(local)]; (n != t.avoid || len(local) == 1) && t.c.answers(n) {
				return n
			}
		}
	}
	if t.count == 1 || near != 0 && t.count == 2 {
		t.at = int(t.c.turn.Add(1) % uint64(len(t.g.Replicas)))
	}
	for i := range t.g.Replicas {
		if n := t.g.Replicas[(t.at+1+i)%len(t.g.Replicas)]; n != t.avoid && t.c.answers(n) {
			t.at += 1 + i
			return n
		}
	}
	t.at++
	if n := t.g.Replicas[t.at%len(t.g.Replicas)]; n != t.avoid {
		return n
	}
	t.at++
	return t.g.Replicas[t.at%len(t.g.Replicas)]
}

// hasGroup reports whether the client knows a group, or that there is none any more.
func (c *Client) hasGroup(id uint64) bool {
	p := c.routes.now.Load()
	_, known := p.byID[id]
	return known || p.dropped[id>>32]
}
