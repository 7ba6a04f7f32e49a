package host

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// janitorTime is how often logs are looked at.
const janitorTime = time.Second

// janitor truncates the logs when they have grown, vouches for a log that is idle, and has groups take over a default time to live.
func (h *Host) janitor() {
	t := time.NewTicker(janitorTime)
	defer t.Stop()
	kept, appends, vouched, round := uint64(0), uint64(0), uint64(0), 0
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
		logged := h.logged()
		kept = min(kept, logged) // some logs may have gone since, or have become shorter
		if logged >= kept+h.cfg.truncateBytes {
			round++
			if err := h.truncate(h.grown(round)); err != nil && h.ctx.Err() == nil {
				h.cfg.Logger.Error("the Raft logs were not truncated", "node", h.cfg.Node, "err", err)
			}
			kept = h.logged()
		}
		h.proposeTTLs()
		before := appends
		if appends = h.sync.count(); appends == before && vouched != appends {
			if err := h.log.Vouch(); err != nil {
				h.cfg.Logger.Error("the Raft log was not vouched for", "node", h.cfg.Node, "err", err)
			}
			vouched = appends
		}
	}
}

// spareLoop makes log files ahead. Without it a worker would make each one while its group waits,
// and most syncs would have to write the journal of the file system too.
func (h *Host) spareLoop() {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-h.log.SpareWanted():
		}
		if err := h.log.MakeSpare(h.ctx); err != nil && h.ctx.Err() == nil {
			h.cfg.Logger.Error("the next file of the Raft log was not made ahead", "node", h.cfg.Node, "err", err)
		}
	}
}

// logged returns the size of the data of all logs, in bytes.
func (h *Host) logged() (sum uint64) {
	for _, r := range h.replicas.all() {
		sum += r.status.logged.Load()
	}
	return sum
}

// grown returns the replicas whose logs hold most of what all have grown by since they were
// truncated: few have to be flushed then. Every allRounds-th time it returns all that have
// grown, or have entries that are old: a log file goes when no group needs it.
func (h *Host) grown(round int) (out []*replica) {
	sum, all := uint64(0), round%allRounds == 0
	for _, r := range h.replicas.all() {
		if n := r.growth(); n > 0 || all && r.log.Old(h.cfg.keepFiles) > 0 {
			out = append(out, r)
			sum += n
		}
	}
	if all {
		return out
	}
	slices.SortFunc(out, func(a, b *replica) int { return cmp.Compare(b.growth(), a.growth()) })
	most := uint64(0)
	for i, r := range out {
		if most += r.growth(); most >= sum-sum/4 {
			return out[:i+1]
		}
	}
	return out
}

const allRounds = 8

// growth returns by how much the log has grown since it was truncated, in bytes.
func (r *replica) growth() uint64 {
	now, kept := r.status.logged.Load(), r.status.kept.Load()
	return now - min(now, kept)
}

// truncate drops what the logs need not have any more: each group's partition is flushed, and one
// manifest is written for all.
func (h *Host) truncate(some []*replica) error {
	var errs []error
	for _, r := range some {
		errs = append(errs, h.truncateOne(r))
	}
	err := h.log.Note()
	if errors.Is(err, fault.ErrOutcomeUnknown) {
		h.fail(err)
	}
	return errors.Join(append(errs, err)...)
}

func (h *Host) truncateOne(r *replica) error {
	var partition engine.PartitionID
	if !r.await(func() { partition = r.g.Partition() }) || partition == 0 {
		return nil
	}
	c, err := h.db.Container(r.def.Container)
	if errors.Is(err, engine.ErrNoContainer) {
		return nil // it was dropped
	} else if err != nil {
		return err
	}
	held, err := c.FlushPartition(h.ctx, partition)
	if errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrNotHere) || errors.Is(err, engine.ErrClosed) {
		return nil // it has split, or is not here any more
	} else if err != nil {
		return fmt.Errorf("group %d: %w", r.def.ID, err)
	}
	// If the partition was replaced by a snapshot meanwhile, the log begins behind that.
	// A group that is hardly written to must not keep all log files since its first entry.
	r.await(func() { r.check(r.g.TruncateFlushed(held, r.log.Old(h.cfg.keepFiles))) })
	r.status.kept.Store(r.status.logged.Load())
	return nil
}

// await has a worker call f, and returns when what the group has to do then is done. False: the
// replica has failed, or the host closes.
func (r *replica) await(f func()) (ok bool) {
	done := make(chan bool, 1)
	called := false
	r.call(func() {
		if called = r.g != nil; called {
			f()
		}
	}, func() { done <- called })
	select {
	case ok = <-done:
		return ok
	case <-r.h.ctx.Done():
		return false
	}
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
