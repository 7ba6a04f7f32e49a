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
		size, index, chunk, err := s.chunk(&kept)
		<-s.export.turn // a client that has the answer may ask for the next part
		if err != nil {
			s.refuse(&kept, err)
			return
		}
		s.answer(&kept, func(h *protocol.Head, dst []byte) []byte { return h.AppendExport(dst, size, index, chunk) })
	}()
}

// chunk returns a part of the content. The last one ends the export: the node has no more use for its file.
func (s *session) chunk(q *protocol.Request) (size, index uint64, chunk []byte, err error) {
	x := &s.export
	if q.Offset == 0 {
		x.close()
		if x.e, err = s.h.Export(s.ctx, q.Group, q.Alone); err != nil {
			return 0, 0, nil, err
		}
		x.group = q.Group
	}
	if x.e == nil || x.group != q.Group || q.Offset > uint64(x.e.Size) {
		return 0, 0, nil, fmt.Errorf("%w: group %d is not being exported, or not so long", protocol.ErrInvalid, q.Group)
	}
	size, index = uint64(x.e.Size), x.e.Index
	chunk = make([]byte, min(protocol.ExportChunk, size-q.Offset))
	n, err := x.e.ReadAt(chunk, int64(q.Offset))
	if q.Offset+uint64(n) == size {
		x.close()
	}
	return size, index, chunk[:n], err
}

// close removes what was exported.
func (x *export) close() {
	if x.e != nil {
		_ = x.e.Close() // the next start of the node removes it otherwise
	}
	x.e = nil
}

// endExport removes what is left when the connection has ended.
func (s *session) endExport() {
	s.export.turn <- struct{}{}
	s.export.close()
}
