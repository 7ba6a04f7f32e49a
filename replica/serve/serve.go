// Package serve answers the requests of clients, on the connections of a node.
package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/transport"
)

// maxScanBytes bounds the bodies in an answer to a scan; the last one may go past it.
const maxScanBytes = 4 << 20

// Client serves a client until its connection ends. It is a host.Config.Client.
func Client(ctx context.Context, h *host.Host, c *transport.Conn) {
	ctx, gone := context.WithCancel(ctx)
	s := &session{ctx: ctx, h: h, c: c, changing: make(chan struct{}, 1)}
	s.export.turn = make(chan struct{}, 1)
	s.queries.turns, s.queries.ends = make(chan struct{}, queriesAtOnce), make(map[uint64]context.CancelFunc)
	defer s.endExport()
	defer gone() // what is under way is for nobody
	for {
		kind, payload, err := c.Read()
		if err != nil {
			return
		}
		q, err := protocol.DecodeRequest(kind, payload)
		if err != nil {
			s.refuse(&q, err)
			continue
		}
		if id := max(q.Group, q.Change.Group); id != 0 && h.WasDropped(id) {
			s.refuse(&q, fmt.Errorf("group %d: its container was dropped: %w", id, engine.ErrNoContainer))
			continue
		}
		switch kind {
		case protocol.Propose:
			s.propose(&q)
		case protocol.Read, protocol.Scan, protocol.Query:
			s.read(kind, &q)
		case protocol.Status:
			s.status(&q)
		case protocol.Routes:
			s.routes(&q)
		case protocol.Alter:
			s.change(&q)
		case protocol.Export:
			s.exportPart(&q)
		case protocol.Changes:
			s.changes(&q)
		case protocol.Cancel:
			s.queries.cancel(q.Number)
		}
	}
}

type session struct {
	ctx context.Context
	h   *host.Host
	c   *transport.Conn

	changing chan struct{} // one change of a group at a time
	queries  queries
	export   export
}

// answer sends an answer, or engine.ErrTooLarge in place of one that no client would take. If too much
// waits already, the connection is closed: a client that does not read gets no more, and asks elsewhere.
func (s *session) answer(q *protocol.Request, fill func(h *protocol.Head, dst []byte) []byte) {
	head := protocol.Head{Number: q.Number}
	if q.Group != 0 {
		head.Leader, head.Applied = s.h.Leader(q.Group)
	}
	if !s.c.Send(protocol.Answer, func(dst []byte) []byte {
		b := fill(&head, dst)
		if n := len(b) - len(dst); n > transport.MaxFrame {
			return head.AppendError(dst, fmt.Errorf("answer of %d bytes, at most %d can be sent: %w", n, transport.MaxFrame, engine.ErrTooLarge))
		}
		return b
	}) {
		s.c.Close()
	}
}

func (s *session) refuse(q *protocol.Request, err error) {
	err = s.told(err)
	s.answer(q, func(h *protocol.Head, dst []byte) []byte { return h.AppendError(dst, err) })
}

// told returns an error as the client is told it.
func (s *session) told(err error) error {
	switch {
	case s.ctx.Err() != nil, errors.Is(err, host.ErrClosed): // another node can do it
		return fmt.Errorf("node %d ends: %w: %w", s.h.Node(), group.ErrUnknown, err)
	case errors.Is(err, host.ErrNoGroup):
		return fmt.Errorf("node %d: %w", s.h.Node(), protocol.ErrNoGroup)
	case errors.Is(err, host.ErrChange):
		return fmt.Errorf("%w: %w", protocol.ErrChange, err)
	}
	return err
}

func (s *session) propose(q *protocol.Request) {
	c, err := command.Decode(bytes.Clone(q.Command))
	if err != nil {
		s.refuse(q, err)
		return
	}
	for i := range c.Batches {
		if !s.h.Has(q.Group, q.Container, c.Batches[i].Key) {
			s.refuse(q, host.ErrNoGroup) // the client has another description of the cluster
			return
		}
	}
	kept := *q
	kept.Command = nil
	s.h.Propose(q.Group, c, func(o group.Outcome) {
		if o.Err != nil {
			s.refuse(&kept, o.Err)
			return
		}
		s.answer(&kept, func(h *protocol.Head, dst []byte) []byte { return h.AppendOutcome(dst, &o) })
	})
}

func (s *session) read(kind transport.Kind, q *protocol.Request) {
	kept := *q
	ctx, end := s.ctx, func() {}
	if kind == protocol.Query {
		ctx, end = s.queries.begin(s.ctx, q.Number)
	}
	do := func() {
		defer end()
		switch kind {
		case protocol.Read:
			s.readItem(&kept)
		case protocol.Scan:
			s.scan(&kept)
		default:
			s.query(ctx, &kept)
		}
	}
	weak := q.Read.Level == protocol.Eventual || q.Read.Level == protocol.Prefix
	if weak && kind == protocol.Read {
		do()
		return
	} else if weak {
		go do()
		return
	}
	confirmed := func(err error) {
		if err != nil {
			end()
			s.refuse(&kept, err)
			return
		}
		go do() // the caller must not wait for the disk
	}
	if q.Read.Level == protocol.Strong {
		s.h.Confirm(q.Group, confirmed)
		return
	}
	s.h.Await(q.Group, host.Fresh{Index: q.Read.Index, Age: q.Read.Bounds.Age, Entries: q.Read.Bounds.Entries}, confirmed)
}

// look is a read of a partition.
type look struct {
	c    *engine.Container
	hold host.Hold
}

// look begins a read. The group must be here.
func (s *session) look(q *protocol.Request) (l look, err error) {
	// The partition first: if the key is still the group's then, it is in that partition.
	if l.hold, err = s.h.Hold(q.Group); err != nil {
		return l, err
	}
	if !s.h.Has(q.Group, q.Read.Container, q.Read.Key) {
		return l, host.ErrNoGroup
	}
	l.c, err = s.h.DB().Container(q.Read.Container)
	return l, err
}

// seen answers a read that has seen the partition: its items, or with err that there is none.
func (s *session) seen(q *protocol.Request, l look, err error, fill func(h *protocol.Head, dst []byte) []byte) {
	index, failed := l.hold.Index()
	switch {
	case failed != nil:
		s.refuse(q, failed)
		return
	case errors.Is(err, engine.ErrNotHere), errors.Is(err, engine.ErrClosed): // the latter: it is being dropped
		s.refuse(q, fmt.Errorf("%w: %w", group.ErrBusy, err))
		return
	case err != nil:
		err = s.told(err)
		fill = func(h *protocol.Head, dst []byte) []byte { return h.AppendError(dst, err) }
	}
	s.answer(q, func(h *protocol.Head, dst []byte) []byte {
		h.Applied = index
		return fill(h, dst)
	})
}

func (s *session) readItem(q *protocol.Request) {
	l, err := s.look(q)
	if err != nil {
		s.refuse(q, err)
		return
	}
	it, err := l.c.Read(s.ctx, q.Read.Key, q.Read.ID)
	s.seen(q, l, err, func(h *protocol.Head, dst []byte) []byte { return h.AppendItem(dst, &it) })
}

func (s *session) scan(q *protocol.Request) {
	l, err := s.look(q)
	if err != nil {
		s.refuse(q, err)
		return
	}
	limit := int(min(max(q.Read.Limit, 1), protocol.MaxScan))
	var items []engine.Item
	size, more := 0, false
	for it, failed := range l.c.Scan(s.ctx, q.Read.Key, engine.IDRange{After: q.Read.ID}, &engine.ScanOptions{Limit: limit + 1}) {
		if err = failed; err != nil {
			break
		}
		if len(items) == limit || size > maxScanBytes {
			more = true
			break
		}
		items = append(items, it)
		size += len(it.Body)
	}
	s.seen(q, l, err, func(h *protocol.Head, dst []byte) []byte { return h.AppendItems(dst, items, more) })
}

func (s *session) status(q *protocol.Request) {
	b, err := json.Marshal(s.h.Status())
	if err != nil {
		s.refuse(q, err)
		return
	}
	s.answer(q, func(h *protocol.Head, dst []byte) []byte { return h.AppendText(dst, b) })
}
