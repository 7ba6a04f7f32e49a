package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// ErrSuperseded says that a region was promoted after this node had replicas, and that these must not
// be run any more: others may have taken their groups over.
var ErrSuperseded = errors.New("node is of an earlier incarnation of its cluster")

// A node that is opened with the description of the next incarnation enters it before it opens a group
// to run it. Each step can be repeated after a crash, and finds what it has done:
//
//  1. The replicas with which groups are to go on here must all be here. If not, nothing was done.
//  2. All others go, as after a removal: they may have entries that the replica of their group does
//     not have. Empty ones stay until step 4, since the base of a right half may become theirs.
//     node.json then says, durably, that the incarnation is being entered: from there on, what has
//     entries on this node goes on.
//  3. The entries in the logs are adopted and applied, also those of right halves that this makes.
//  4. Empty replicas go. Each group is taken over: see package group.
//  5. node.json says, durably, that the node is of the incarnation.
//
// The node hears nobody before 5: its network is made afterwards. From then on it is of the new incarnation for
// others, and refuses nodes and clients with an older description; and it refuses to be opened with one.
//
// A node of the old incarnation that meets one of a later one notes that in node.json, durably, and ends.

// enter enters the incarnation of the description, if the node is of the one before. id is written
// when that is done, but for a node that was never started.
func (h *Host) enter(ctx context.Context, id *identity) error {
	d := h.description()
	switch {
	case id.Superseded > d.Incarnation:
		return fmt.Errorf("node %d has met a node of incarnation %d, and its description is of %d: %w. Give it the present description of the cluster", h.cfg.Node, id.Superseded, d.Incarnation, ErrSuperseded)
	case id.Entering > d.Incarnation:
		return fmt.Errorf("node %d has begun to enter incarnation %d of the cluster, and the description of %d is older: %w. Give it the present description", h.cfg.Node, id.Entering, d.Incarnation, cluster.ErrDescription)
	case id.Incarnation == d.Incarnation:
		return nil
	case !id.Started:
		id.Incarnation = d.Incarnation
		return nil
	case id.Incarnation > d.Incarnation:
		return fmt.Errorf("node %d is of incarnation %d of the cluster, and the description of %d is older: %w. Give it the present description", h.cfg.Node, id.Incarnation, d.Incarnation, cluster.ErrDescription)
	case id.Incarnation+1 < d.Incarnation:
		return fmt.Errorf("node %d is of incarnation %d of the cluster and has missed a promotion, the description is of %d: %w. Give the machine a new node id and an empty directory", h.cfg.Node, id.Incarnation, d.Incarnation, ErrSuperseded)
	}
	if id.Entering != d.Incarnation {
		if err := h.dropOthers(ctx, d.Promotion.On(h.cfg.Node)); err != nil {
			return err
		}
		id.Entering = d.Incarnation
		if err := writeIdentity(h.fs, *id); err != nil {
			return err
		}
	}
	taken, err := group.TakeOverAll(ctx, h.log, h.openAlone)
	if err != nil {
		return err
	}
	h.cfg.Logger.Info("the node has entered an incarnation of the cluster", "node", h.cfg.Node, "incarnation", d.Incarnation, "groups", taken)
	id.Incarnation, id.Entering, id.Superseded = d.Incarnation, 0, 0
	return writeIdentity(h.fs, *id)
}

// dropOthers removes the replicas that have entries but for those with which groups go on.
func (h *Host) dropOthers(ctx context.Context, stay map[uint64]uint64) error {
	for id, replica := range stay {
		log, last := h.log.Group(id), uint64(0)
		if log != nil && log.Replica() == replica {
			last, _ = log.LastIndex() // never fails
		}
		if last == 0 {
			return fmt.Errorf("group %d is to go on with replica %d on node %d, which does not have it: %w", id, replica, h.cfg.Node, ErrIdentity)
		}
	}
	return group.DropOthers(ctx, h.log, stay, h.openAlone)
}

// openAlone opens a group that is not to be run.
func (h *Host) openAlone(ctx context.Context, log *raftlog.Group) (*group.Group, error) {
	return h.openGroup(ctx, h.definition(log.ID()), log, nil)
}

// definition returns what the description says of a group, or of the container of one that a split has
// made.
func (h *Host) definition(id uint64) cluster.Group {
	d := h.description()
	for _, g := range d.Groups() {
		if g.ID == id {
			return g
		}
	}
	return cluster.Group{ID: id, Container: d.ContainerOf(id)}
}

// Superseded implements transport.Handler: this node must not go on.
func (h *Host) Superseded(incarnation uint64) {
	h.joining.Lock()
	defer h.joining.Unlock()
	if h.failure.Load() != nil {
		return
	}
	err := fmt.Errorf("node %d has met a node of incarnation %d, and is of %d: %w", h.cfg.Node, incarnation, h.description().Incarnation, ErrSuperseded)
	id, failed := h.identity()
	if failed == nil {
		id.Superseded = max(id.Superseded, incarnation)
		failed = writeIdentity(h.fs, id)
	}
	h.end("a region was promoted", errors.Join(err, failed))
}

// identity reads node.json.
func (h *Host) identity() (id identity, err error) {
	b, err := vfs.ReadFile(h.fs, identityName, identityBytes)
	if err != nil {
		return id, err
	}
	if err = json.Unmarshal(b, &id); err != nil || id.Format != 1 || id.Node != h.cfg.Node {
		return id, fmt.Errorf("%s: %w %d: it says %.200q", h.fs.Path(identityName), ErrIdentity, h.cfg.Node, b)
	}
	return id, nil
}

// firsts returns the groups of a description of which this node makes a replica from nothing.
func (h *Host) firsts(d *cluster.Cluster) (out []cluster.Group) {
	for _, g := range h.mine(d.Groups()) {
		if d.Begins(g.ID) {
			out = append(out, g)
		}
	}
	return out
}
