package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/transport"
)

// refusedTicks is how long a group waits before it sends another snapshot to a node that has
// refused one.
const refusedTicks = 5

// errOne says that another snapshot is under way.
var errOne = errors.New("the node takes one snapshot at a time")

// sendSnapshot sends a snapshot in the place of a MsgSnap, unless one is being sent.
func (r *replica) sendSnapshot(m *pb.Message) {
	h, to := r.h, m.GetTo()
	report := func(reached bool) {
		r.do(func() { r.check(r.with(func() error { return r.g.ReportSnapshot(to, reached) })) })
	}
	select {
	case h.sending <- struct{}{}:
	default:
		time.AfterFunc(h.cfg.Tick, func() { report(false) }) // Raft asks again
		return
	}
	partition := r.g.Partition()
	h.tasks.Go(func() {
		defer func() { <-h.sending }()
		begun := time.Now()
		size := int64(0)
		err := h.net.SendSnapshot(h.ctx, nodeOf(to), r.def.ID, m.GetFrom(), to, func(w io.Writer) (*pb.Message, error) {
			c, err := h.db.Container(r.def.Container)
			if err != nil {
				return nil, err
			}
			p := &paced{ctx: h.ctx, w: w, rate: h.cfg.SnapshotBytesPerSecond, begun: begun, now: &r.status.term, term: m.GetTerm()}
			content, err := c.ExportPartition(h.ctx, partition, p)
			size = p.sent
			if err != nil {
				return nil, err
			}
			return r.snapshotAt(m, content.Index)
		})
		if err != nil {
			// Of ErrNoRoom, say: the node has a part of the range in a group that is to split first.
			time.AfterFunc(refusedTicks*h.cfg.Tick, func() { report(false) })
			h.cfg.Logger.Warn("a snapshot was not sent", "node", h.cfg.Node, "group", r.def.ID, "to", to, "err", err)
			return
		}
		report(true)
		h.cfg.Logger.Info("a snapshot was sent", "node", h.cfg.Node, "group", r.def.ID, "to", to, "bytes", size, "took", time.Since(begun))
	})
}

// snapshotAt asks the group for the message of a snapshot that was exported.
func (r *replica) snapshotAt(m *pb.Message, index uint64) (*pb.Message, error) {
	done := make(chan struct{})
	var made *pb.Message
	var refused error
	r.do(func() {
		defer close(done)
		if refused = r.failure; refused == nil {
			made, refused = r.g.SnapshotAt(m, index)
		}
	})
	select {
	case <-done:
		return made, refused
	case <-r.h.ctx.Done():
		return nil, ErrClosed
	}
}

// paced is a writer with a bound of bytes in a second. It refuses what is of an earlier term: Raft has no use for that, and neither node
// takes part in another snapshot meanwhile.
type paced struct {
	ctx   context.Context
	w     io.Writer
	rate  int
	begun time.Time
	sent  int64
	now   *atomic.Uint64 // term of the group
	term  uint64         // of the snapshot
}

func (p *paced) Write(b []byte) (int, error) {
	if now := p.now.Load(); now > p.term {
		return 0, fmt.Errorf("a snapshot of term %d in term %d: %w", p.term, now, group.ErrNotLeader)
	}
	n, err := p.w.Write(b)
	p.sent += int64(n)
	ahead := time.Duration(float64(p.sent)/float64(p.rate)*float64(time.Second)) - time.Since(p.begun)
	if err == nil && ahead > 10*time.Millisecond {
		select {
		case <-p.ctx.Done():
			return n, p.ctx.Err()
		case <-time.After(ahead):
		}
	}
	return n, err
}

// Snapshot implements transport.Handler: it keeps the stream in a file and has the group
// install it.
func (h *Host) Snapshot(_ context.Context, s *transport.Incoming) error {
	r := h.replicas.get(s.Group)
	if r == nil || s.To != r.log.Replica() || nodeOf(s.From) != s.Node {
		return fmt.Errorf("group %d: %w", s.Group, ErrNoGroup)
	}
	select {
	case h.receiving <- struct{}{}:
	default:
		return errOne
	}
	defer func() { <-h.receiving }()
	name := path.Join(incomingDir, fmt.Sprintf("%d-%d", s.Group, h.spools.Add(1)))
	defer func() { _ = h.fs.Remove(name) }() // the next start removes it otherwise
	if err := spool(h.fs, name, s); err != nil {
		return err
	}
	return r.install(s.Message(), func() (io.ReadCloser, error) { return openSpool(h.fs, name) })
}

// install gives the group a snapshot, and returns when it has installed it or has no use for it.
func (r *replica) install(m *pb.Message, open func() (io.ReadCloser, error)) error {
	done := make(chan error, 1)
	var err error // of the worker
	r.call(func() {
		if err = r.failure; err == nil {
			err = r.g.StepSnapshot(m, open)
			r.check(err)
		}
	}, func() {
		if err == nil {
			err = r.failure
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-r.h.stop:
		return ErrClosed
	}
}

// spool writes a stream to a file.
func spool(fs vfs.FS, name string, r io.Reader) (err error) {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if _, werr := f.WriteAt(buf[:n], off); werr != nil {
				return werr
			}
			off += int64(n)
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			if s, ok := r.(*transport.Incoming); ok && s.Message() == nil {
				return io.ErrUnexpectedEOF
			}
			return nil
		default:
			return err
		}
	}
}
