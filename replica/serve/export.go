package serve

import (
	"fmt"

	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// export is what a connection has exported: one group at a time.
type export struct {
	turn  chan struct{} // held while it is used
	group uint64
	e     *host.Export // nil: there is none
}

// exportPart answers with a part of the content of a group.
func (s *session) exportPart(q *protocol.Request) {
	kept := *q
	select {
	case s.export.turn <- struct{}{}:
	default:
		s.refuse(&kept, fmt.Errorf("another export of this client is under way: %w", group.ErrBusy))
		return
	}
	go func() { // not on the goroutine that reads the connection: it waits for the disk
		defer func() { <-s.export.turn }()
		chunk, err := s.chunk(&kept)
		if err != nil {
			s.refuse(&kept, err)
			return
		}
		e := s.export.e
		s.answer(&kept, func(h *protocol.Head, dst []byte) []byte { return h.AppendExport(dst, uint64(e.Size), e.Index, chunk) })
	}()
}

func (s *session) chunk(q *protocol.Request) ([]byte, error) {
	x := &s.export
	if q.Offset == 0 {
		if x.e != nil {
			if err := x.e.Close(); err != nil {
				return nil, err
			}
			x.e = nil
		}
		e, err := s.h.Export(s.ctx, q.Group, q.Alone)
		if err != nil {
			return nil, err
		}
		x.group, x.e = q.Group, e
	}
	if x.e == nil || x.group != q.Group || q.Offset > uint64(x.e.Size) {
		return nil, fmt.Errorf("%w: group %d is not being exported, or not so long", protocol.ErrInvalid, q.Group)
	}
	chunk := make([]byte, min(protocol.ExportChunk, x.e.Size-int64(q.Offset)))
	n, err := x.e.ReadAt(chunk, int64(q.Offset))
	return chunk[:n], err
}

// endExport removes what is left when the connection has ended.
func (s *session) endExport() {
	s.export.turn <- struct{}{}
	if s.export.e != nil {
		_ = s.export.e.Close() // the next start of the node removes it otherwise
	}
}
