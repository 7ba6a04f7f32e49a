package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// A split is carried out by the groups: see package group, which also says what a crash leaves
// between its steps. What the host adds is in memory only: it opens the right group when the
// left one has the split durably. After a crash before that, each log that is here is opened at
// the start, the right group's too; the left one then applies the split again.

// Split divides a group at a boundary, an effective partition key in hexadecimal digits; empty:
// at the one that halves the bytes best, or in the middle of the range if there is too little
// to tell. What lies behind it becomes group right, an id that no group has
// had, and with the container of this one in its upper half. Split returns when this node, which
// leads the group, has carried it out. Errors: ErrNoGroup, group.ErrNotLeader, group.ErrBusy,
// group.ErrRange; ErrChange if it has come to nothing; engine.ErrRefused if one logical partition is
// nearly all that the group has; engine.ErrExists if another group has or had the id; that of ctx, after
// which it may be carried out later.
func (h *Host) Split(ctx context.Context, id uint64, at string, right uint64) error {
	c := h.description()
	if c.ContainerOf(right) != c.ContainerOf(id) {
		return fmt.Errorf("group %d cannot be the right half of group %d: it is of another container: %w", right, id, group.ErrRange)
	}
	if slices.ContainsFunc(c.Groups(), func(g cluster.Group) bool { return g.ID == right }) {
		return fmt.Errorf("group %d is one with which its container has begun: %w", right, engine.ErrExists)
	}
	// Two entries that split off one group stop replicas, or do nothing. So an earlier one comes to its end first.
	if _, under := h.splits.LoadOrStore(right, nil); under {
		return fmt.Errorf("group %d is being split off: %w", right, group.ErrBusy)
	}
	defer h.splits.Delete(right)
	for _, r := range h.replicas.all() {
		if group.WillSplitOff(r.log, r.status.applied.Load(), right) {
			return fmt.Errorf("group %d is to split off group %d: %w", r.def.ID, right, group.ErrBusy)
		}
	}
	if at == "" {
		var err error
		if at, err = h.halfway(ctx, id); err != nil {
			return err
		}
	}
	if h.cfg.Claim != nil {
		if err := h.cfg.Claim(ctx, id, right); err != nil {
			return err
		}
	}
	var before partmap.Range
	return h.change(ctx, id, func(r *replica) error {
		before, _ = r.g.Range()
		if h.log.Group(right) != nil {
			return fmt.Errorf("group %d is there already: %w", right, ErrChange)
		}
		if at == "" {
			span, _ := r.g.Range()
			at = partmap.Midpoint(span).String()
		}
		return r.g.ProposeSplit(at, right)
	}, func(r *replica) bool {
		span, _ := r.g.Range()
		return span != before && h.replicas.get(right) != nil
	})
}

// smallBytes is what a group has at least if its data tells where it is to be split.
const smallBytes = 4 << 10

// halfway returns the boundary that halves the bytes of a group best, "" if there is too little to
// tell. It reads tables of files, and so it is called by no worker.
func (h *Host) halfway(ctx context.Context, id uint64) (string, error) {
	r := h.replicas.get(id)
	if r == nil {
		return "", fmt.Errorf("group %d: %w", id, ErrNoGroup)
	}
	c, err := h.db.Container(r.def.Container)
	if err != nil {
		return "", err
	}
	partition := engine.PartitionID(r.status.partition.Load())
	for _, p := range c.Partitions() {
		if p.ID == partition && p.FileBytes+p.MemtableBytes >= smallBytes {
			cut, err := c.PreviewSplit(ctx, partition, nil)
			if errors.Is(err, engine.ErrNotFound) {
				return "", fmt.Errorf("group %d: %w", id, group.ErrBusy) // it has another partition by now
			} else if err != nil {
				return "", fmt.Errorf("group %d: %w", id, err)
			}
			return cut.At, nil
		}
	}
	return "", nil
}

// began opens the groups that a split has made.
func (r *replica) began(created []uint64) {
	for _, id := range created {
		lead := r.g != nil && r.g.IsLeader()
		r.h.joining.Lock()
		if r.h.WasDropped(id) {
			r.h.joining.Unlock()
			return
		}
		right, err := r.h.replicas.get(id), error(nil)
		if right != nil { // an empty one, or one that a message has had opened since the log is there
			right.do(right.renew)
		} else if right, err = r.h.openReplica(context.Background(), cluster.Group{ID: id, Container: r.def.Container}, nil); err == nil {
			err = r.h.replicas.add(right)
		}
		r.h.joining.Unlock()
		if err != nil {
			// Its log is here, so a message or the next start opens it.
			r.h.cfg.Logger.Error("the right half of a split was not opened", "node", r.h.cfg.Node, "group", id, "err", err)
			continue
		}
		// What a quorum had confirmed of the whole group was of before the split: nothing was written to
		// the right one then. A read whose index is behind the split has its confirmation after this, and says
		// nothing of the right one.
		right.status.confirmed.CompareAndSwap(nil, r.status.confirmed.Load())
		r.h.cfg.Logger.Info("a group has split", "node", r.h.cfg.Node, "group", r.def.ID, "right", id)
		right.do(func() {
			if lead && right.g != nil {
				right.check(right.g.Campaign())
			}
		})
	}
}

// renew opens an empty replica again, whose log has got a base by a split.
func (r *replica) renew() {
	if r.g == nil {
		return // it is opened again soon
	}
	r.g, r.failure, r.applies = nil, group.ErrUnknown, nil
	r.refuse(group.ErrUnknown)
	r.reopen()
}

// join opens a replica for which a message has come: one whose log is here, or an empty one. One
// that was removed, or replaced by another one, stays so.
func (h *Host) join(id, as, heard uint64) {
	if h.closing.Load() {
		return
	}
	h.joining.Lock()
	defer h.joining.Unlock()
	container := h.description().ContainerOf(id)
	if container == "" || h.replicas.get(id) != nil {
		return
	}
	_, err := h.log.Create(id, as, raftlog.Base{})
	if errors.Is(err, fault.ErrExists) {
		err = nil // a split has made it, and may be about to open it; or that has failed
		if log := h.log.Group(id); log == nil || log.Replica() != as {
			return
		}
	}
	if err == nil {
		var r *replica
		if r, err = h.openReplica(h.ctx, cluster.Group{ID: id, Container: container}, nil); err == nil {
			r.heard = heard
			err = h.replicas.add(r)
		}
	}
	switch {
	case errors.Is(err, raftlog.ErrRemoved):
	case err != nil:
		h.cfg.Logger.Error("a replica was not made", "node", h.cfg.Node, "group", id, "err", err)
	}
}

// joinLoop makes replicas for which messages have come.
func (h *Host) joinLoop() {
	for {
		select {
		case <-h.ctx.Done():
			return
		case j := <-h.joins:
			h.join(j[0], j[1], j[2])
		}
	}
}
