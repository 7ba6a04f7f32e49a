package host

import (
	"errors"
	"io"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// janitorTime is how often logs are looked at.
const janitorTime = time.Second

// janitor truncates the logs when they have grown, and vouches for a log that is idle.
func (h *Host) janitor() {
	t := time.NewTicker(janitorTime)
	defer t.Stop()
	kept, appends, vouched := uint64(0), uint64(0), uint64(0)
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
		if h.logged() >= kept+truncateBytes {
			if err := h.truncate(); err != nil && h.ctx.Err() == nil {
				h.cfg.Logger.Error("the Raft logs were not truncated", "node", h.cfg.Node, "err", err)
			}
			kept = h.logged()
		}
		before := appends
		if appends = h.sync.count(); appends == before && vouched != appends {
			if err := h.log.Vouch(); err != nil {
				h.cfg.Logger.Error("the Raft log was not vouched for", "node", h.cfg.Node, "err", err)
			}
			vouched = appends
		}
	}
}

// logged returns the size of the data of all logs, in bytes.
func (h *Host) logged() (sum uint64) {
	for _, r := range h.ordered {
		sum += r.status.logged.Load()
	}
	return sum
}

// truncate drops what the logs need not have any more: one flush and one manifest for all.
func (h *Host) truncate() error {
	held := make([]uint64, len(h.ordered))
	for i, r := range h.ordered {
		held[i] = r.status.held.Load()
	}
	if err := h.db.Flush(h.ctx); err != nil {
		return err
	}
	for i, r := range h.ordered {
		if r.status.logged.Load() == 0 {
			continue
		}
		done := make(chan struct{})
		r.call(func() { r.check(r.with(func() error { return r.g.TruncateFlushed(held[i]) })) }, func() { close(done) })
		select {
		case <-done:
		case <-h.ctx.Done():
			return nil
		}
	}
	err := h.log.Note()
	if errors.Is(err, fault.ErrOutcomeUnknown) {
		h.fail(err)
	}
	return err
}

// openSpool opens a file with a stream.
func openSpool(fs vfs.FS, name string) (io.ReadCloser, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, info.Size), f}, nil
}
