package serve

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// export is what a connection has exported: one group at a time.
type export struct {
	turn    chan struct{} // held while it is used
	group   uint64
	going   chan struct{} // closed when the export that is under way has ended; nil: none is
	e       *host.Export  // nil: there is none
	err     error         // why there is none
	written atomic.Int64  // bytes, by the export that is under way
	told    int64         // of these, when the client was last told that it is
}

// exportEvery is how often a client is told that an export is under way, if that has written something. It waits for twice as long.
const exportEvery = 100 * time.Second

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
	switch {
	case q.Offset == 0:
		if err = s.beginExport(q); err != nil {
			return 0, 0, nil, err
		}
	case q.Offset == protocol.StillExporting:
		q.Offset = 0
	}
	if x.going != nil && x.group == q.Group && q.Offset == 0 {
		if !x.await() {
			return 0, 0, nil, nil
		}
		if x.err != nil {
			return 0, 0, nil, x.err
		}
	}
	if x.going != nil || x.e == nil || x.group != q.Group || q.Offset > uint64(x.e.Size) {
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

// beginExport begins the export of a group.
func (s *session) beginExport(q *protocol.Request) error {
	x := &s.export
	if x.going != nil {
		select {
		case <-x.going: // the client has not waited for it
		default:
			return fmt.Errorf("another export of this client is under way: %w", group.ErrBusy)
		}
	}
	x.close()
	going := make(chan struct{})
	x.group, x.going, x.told = q.Group, going, 0
	x.written.Store(0)
	go func() {
		defer close(going)
		x.e, x.err = s.h.Export(s.ctx, q.Group, q.Alone, &x.written)
	}()
	return nil
}

// await waits until the export that is under way has ended. False: it has not, and the client is to be told so.
func (x *export) await() bool {
	tick := time.NewTicker(exportEvery)
	defer tick.Stop()
	for {
		select {
		case <-x.going:
			x.going = nil
			return true
		case <-tick.C:
			if n := x.written.Load(); n > x.told {
				x.told = n
				return false
			}
		}
	}
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
	if s.export.going != nil {
		<-s.export.going
	}
	s.export.close()
}
