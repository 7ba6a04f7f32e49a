package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Export is the content of a group's partition in a file of this node, for a backup. It is for one
// goroutine.
type Export struct {
	Index uint64 // newest entry that it has
	Size  int64  // bytes
	fs    vfs.FS
	name  string
	file  vfs.File
}

// confirmTime bounds how long an export waits for a leader.
const confirmTime = 10 * time.Second

// Export writes the content of a group's partition to a file that Close removes. It has everything that
// was acknowledged before the call, unless alone is set: then no leader is asked, and what the replica
// has is written. It counts in written how many bytes that are so far. The node has room for that, or the error of its file system is
// returned. Error: ErrNoGroup, also if there is no leader.
func (h *Host) Export(ctx context.Context, id uint64, alone bool, written *atomic.Int64) (_ *Export, err error) {
	r := h.replicas.get(id)
	if r == nil {
		return nil, fmt.Errorf("group %d: %w", id, ErrNoGroup)
	}
	if !alone {
		if err = h.confirmed(ctx, id); err != nil {
			return nil, err
		}
	}
	return h.export(ctx, r, written)
}

// confirmed waits until the replica here has everything that was acknowledged before the call.
func (h *Host) confirmed(ctx context.Context, id uint64) (err error) {
	confirmed := make(chan error, 1)
	h.Confirm(id, func(err error) { confirmed <- err })
	select {
	case err = <-confirmed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-h.ctx.Done():
		err = ErrClosed
	case <-time.After(confirmTime):
		err = fmt.Errorf("group %d has no leader: %w", id, ErrNoGroup)
	}
	return err
}

// counting counts what is written.
type counting struct {
	io.Writer
	written *atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.written.Add(int64(n))
	return n, err
}

func (h *Host) export(ctx context.Context, r *replica, written *atomic.Int64) (*Export, error) {
	c, err := h.db.Container(r.def.Container)
	if err != nil {
		return nil, err
	}
	e := &Export{fs: h.fs, name: path.Join(incomingDir, fmt.Sprint("export", h.spools.Add(1)))}
	f, err := h.fs.Create(e.name)
	if err != nil {
		return nil, err
	}
	content, err := c.ExportPartition(ctx, engine.PartitionID(r.status.partition.Load()), &counting{io.NewOffsetWriter(f, 0), written})
	if err = errors.Join(err, f.Close()); err == nil {
		e.Index = content.Index
		e.file, err = h.fs.Open(e.name)
	}
	if err == nil {
		var info vfs.Info
		info, err = e.file.Stat()
		e.Size = info.Size
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// ReadAt reads a part of the content.
func (e *Export) ReadAt(p []byte, off int64) (int, error) {
	n, err := e.file.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Close removes the file.
func (e *Export) Close() error {
	var err error
	if e.file != nil {
		err = e.file.Close()
	}
	return errors.Join(err, e.fs.Remove(e.name))
}
