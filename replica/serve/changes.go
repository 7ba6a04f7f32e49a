package serve

import (
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// changes answers with a page of changes.
func (s *session) changes(q *protocol.Request) {
	kept := *q
	if !kept.Changes.Strong {
		go s.readChanges(&kept)
		return
	}
	s.h.Confirm(kept.Group, func(err error) {
		if err != nil {
			s.refuse(&kept, err)
			return
		}
		go s.readChanges(&kept) // the caller must not wait for the disk
	})
}

func (s *session) readChanges(q *protocol.Request) {
	r := &q.Changes
	from, err := engine.ParsePosition(r.Position)
	if err != nil {
		s.refuse(q, err)
		return
	}
	scope, err := engine.OfRange(r.Range.Min.String(), r.Range.Max.String())
	if err != nil {
		s.refuse(q, err)
		return
	}
	var l look
	if l.hold, err = s.h.Hold(q.Group); err == nil && !s.h.HasRange(q.Group, r.Container, r.Range) {
		err = host.ErrNoGroup // the group has been split, or the client has another description of the cluster
	}
	if err == nil {
		l.c, err = s.h.DB().Container(r.Container)
	}
	if err != nil {
		s.refuse(q, err)
		return
	}
	limit := int(min(max(r.Limit, 1), protocol.MaxScan))
	var p protocol.ChangesPage
	size, at := 0, from
	for ch, failed := range l.c.Changes(s.ctx, scope, from, &engine.ChangeOptions{Charge: &p.Charge, Progress: func(now engine.ChangePosition) { at = now }}) {
		if err = failed; err != nil {
			break
		}
		p.Items = append(p.Items, ch.Item)
		if size += len(ch.Body); len(p.Items) == limit || size > maxScanBytes {
			p.More, at = true, ch.Position()
			break
		}
	}
	p.Position = at.String()
	s.seen(q, l, err, func(h *protocol.Head, dst []byte) []byte { return h.AppendChanges(dst, &p) })
}
