package sim

import (
	"errors"
	"path"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/internal/mutant"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// admin replaces a replica whose log is lost by a new one with another id: it adds the new
// one as a learner, waits until that has come as far as the leader was, and then makes it a
// voter and removes the old one in one change.
type admin struct {
	w        *world
	gone     uint64 // the replica that is being replaced; 0: none
	coming   uint64
	reach    uint64 // entry that the new one must come to
	happened bool
}

func (a *admin) busy() bool { return a.gone != 0 }

func (a *admin) describe() any { return []uint64{a.gone, a.coming, a.reach} }

// lose destroys the log of a replica. A group of three survives one such loss at a time.
func (a *admin) lose(w *world, n *node) {
	if a.busy() || a.happened || n.lost || w.now > w.plan.until*3/4 {
		return
	}
	a.w, a.happened = w, true
	w.counts["losses"]++
	if n.up {
		n.up = false
		n.setDisk(n.mem.Kill())
	}
	names := n.mem.Names()
	manifest := path.Join(logDir, "MANIFEST")
	onlyManifest := w.chance(0.5)
	for _, name := range names {
		if path.Dir(name) == logDir && (name == manifest || !onlyManifest) {
			if err := n.mem.Remove(name); err != nil {
				w.violated("%v", err)
			}
		}
	}
	w.note("replica %d: its log is lost", n.id)
	if mutant.On(mutant.ReusedReplicaID) {
		n.life++
		n.setDisk(newDisk())
		n.create(nil)
		n.start()
		return
	}
	if err := n.openStores(false); !errors.Is(err, raftlog.ErrLost) {
		w.violated("replica %d: opened without its log: %v", n.id, err)
	}
	n.lost = true
	a.gone = n.id
	a.coming = uint64(len(w.nodes)) + 1
	joined := w.newNode(a.coming)
	joined.create(nil)
	joined.start()
	a.step()
}

// step does what is next, again and again until it is done.
func (a *admin) step() {
	w := a.w
	w.after(300*time.Millisecond+w.about(200*time.Millisecond), func() {
		if !a.busy() {
			return
		}
		defer a.step()
		for _, n := range w.nodes {
			if n.up && n.group.IsLeader() {
				a.ask(n)
			}
		}
	})
}

// ask has a leader make the next change.
func (a *admin) ask(n *node) {
	conf := n.group.Config()
	change := new(pb.ConfChangeV2)
	single := func(kind pb.ConfChangeType, id uint64) {
		change.Changes = append(change.Changes, &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
	}
	joined := a.w.node(a.coming)
	switch {
	case len(conf.GetVotersOutgoing()) > 0:
		return // the joint configuration ends by itself
	case slices.Contains(conf.GetVoters(), a.coming) && !slices.Contains(conf.GetVoters(), a.gone):
		a.w.note("replica %d has replaced %d", a.coming, a.gone)
		a.gone = 0
		return
	case !slices.Contains(conf.GetLearners(), a.coming):
		single(pb.ConfChangeAddLearnerNode, a.coming)
		a.reach = n.group.Applied()
	case !joined.up || joined.group.Applied() < a.reach || a.reach == 0:
		a.reach = max(a.reach, 1)
		return
	default:
		single(pb.ConfChangeAddNode, a.coming)
		single(pb.ConfChangeRemoveNode, a.gone)
	}
	if err := n.group.ProposeChange(change); err != nil && !errors.Is(err, group.ErrNotLeader) && !errors.Is(err, group.ErrBusy) {
		n.check(err)
		return
	}
	a.w.counts["changes"]++
	n.pump()
}
