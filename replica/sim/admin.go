package sim

import (
	"encoding/binary"
	"errors"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/internal/mutant"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// admin looks after the members of groups. It replaces replicas of machines that are lost,
// and moves others: it makes an empty replica with a new id on another machine, has the group
// add it as a learner, waits until that has come as far as the leader was, and then makes it
// a voter and removes the old one in one change. What a group has removed it destroys.
type admin struct {
	w        *world
	happened bool              // a machine was lost, or its disk has decayed
	coming   map[uint64]uint64 // by group: a replica that was made and is no member yet
	instead  map[uint64]uint64 // by replica that comes: the one in whose place
	reach    map[[2]uint64]uint64
	known    map[[2]uint64]bool // group and replica: a quorum knows that it was removed
	asked    uint64             // commands that were made to find that out
}

func (a *admin) begin(w *world) {
	a.w, a.coming, a.instead, a.reach = w, make(map[uint64]uint64), make(map[uint64]uint64), make(map[[2]uint64]uint64)
	a.known = make(map[[2]uint64]bool)
	a.step()
}

func (a *admin) describe() any { return []any{a.coming, a.instead} }

// lose destroys the Raft logs of a machine. Groups of three survive one such loss at a time.
func (a *admin) lose(n *node) {
	w := a.w
	if a.happened || n.lost || w.now > w.plan.until*3/4 {
		return
	}
	a.happened = true
	w.counts["losses"]++
	type had struct{ gid, replica uint64 }
	var replicas []had
	for _, r := range n.replicas {
		replicas = append(replicas, had{r.gid, r.id})
	}
	n.up = false
	n.setDisk(n.mem.Kill())
	manifest := path.Join(logDir, "MANIFEST")
	onlyManifest := w.chance(0.5)
	for _, name := range n.mem.Names() {
		if path.Dir(name) == logDir && (name == manifest || !onlyManifest) {
			if err := n.mem.Remove(name); err != nil {
				w.violated("%v", err)
			}
		}
	}
	w.note("node %d: its log is lost", n.id)
	if mutant.On(mutant.ReusedReplicaID) {
		n.life++
		n.setDisk(n.w.emptyDisk())
		n.create(nil)
		if err := n.openStores(false); err != nil {
			w.violated("%v", err)
		}
		for _, r := range replicas {
			if _, err := n.log.Create(r.gid, r.replica, raftlog.Base{}); err != nil {
				w.violated("%v", err)
			}
		}
		n.abandon()
		n.start()
		return
	}
	if err := n.openStores(false); !errors.Is(err, raftlog.ErrLost) && n.image == nil && !n.broken {
		w.violated("node %d: opened without its log: %v", n.id, err)
	}
	n.giveUp()
}

// decay flips bits of a machine's disk, after a crash.
func (a *admin) decay(n *node) {
	if a.happened || n.lost || a.w.now > a.w.plan.until*3/4 {
		return
	}
	a.happened = true
	if n.up {
		n.down(n.remains())
	}
	n.flip()
}

// step does what is next, again and again.
func (a *admin) step() {
	w := a.w
	w.after(300*time.Millisecond+w.about(200*time.Millisecond), func() {
		defer a.step()
		for _, gid := range w.oracle.gids() {
			if l := w.leader(gid); l != nil {
				a.lead(l)
				w.defaults.propose(l)
			}
		}
		for _, n := range w.nodes {
			for _, r := range slices.Clone(n.replicas) {
				if !n.up || !n.present() || r.gone() || !w.oracle.removed(r.gid, r.id) {
					continue
				}
				if a.known[[2]uint64{r.gid, r.id}] {
					r.destroy()
				} else if l := w.leader(r.gid); l != nil {
					a.tell(l, r.id)
				}
			}
		}
	})
}

// tell has a quorum know that a replica was removed: a leader that knows it carries out a
// command.
func (a *admin) tell(l *replica, gone uint64) {
	conf := l.group.Config()
	if slices.Contains(slices.Concat(conf.GetVoters(), conf.GetLearners(), conf.GetVotersOutgoing(), conf.GetLearnersNext()), gone) {
		return
	}
	a.asked++
	c := &command.Command{After: l.group.Applied()}
	binary.BigEndian.PutUint64(c.ID[:], math.MaxUint64)
	binary.BigEndian.PutUint64(c.ID[8:], a.asked)
	if err := l.group.Propose(c); err != nil {
		return
	}
	l.proposals[c.ID] = func(out group.Outcome) {
		if out.Err == nil {
			a.known[[2]uint64{l.gid, gone}] = true
		}
	}
	l.pump()
}

// lead has a leader make the next change of its group.
func (a *admin) lead(l *replica) {
	w, conf := a.w, l.group.Config()
	if len(conf.GetVotersOutgoing()) > 0 {
		return // the joint configuration ends by itself
	}
	change := new(pb.ConfChangeV2)
	single := func(kind pb.ConfChangeType, id uint64) {
		change.Changes = append(change.Changes, &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
	}
	voters, learners := conf.GetVoters(), a.voting(conf.GetLearners())
	coming := a.coming[l.gid]
	if coming != 0 && (slices.Contains(voters, coming) || slices.Contains(conf.GetLearners(), coming) || w.owner[coming].lost) {
		delete(a.coming, l.gid)
		coming = 0
	}
	switch {
	case len(learners) > 0:
		id := learners[0]
		joined := w.replica(l.gid, id)
		key := [2]uint64{l.gid, id}
		if a.reach[key] == 0 {
			a.reach[key] = l.group.Applied()
		}
		gone := a.instead[id]
		switch {
		case w.owner[id].lost:
			single(pb.ConfChangeRemoveNode, id)
		case joined == nil || joined.group.Held() < a.reach[key]:
			return
		case !slices.Contains(voters, gone) && len(voters) >= 3:
			single(pb.ConfChangeRemoveNode, id) // another one has come
		default:
			single(pb.ConfChangeAddNode, id)
			if slices.Contains(voters, gone) {
				single(pb.ConfChangeRemoveNode, gone)
			}
		}
	case coming != 0:
		single(pb.ConfChangeAddLearnerNode, coming)
	default:
		for _, id := range voters {
			if w.owner[id].lost {
				a.bring(l, id, nil)
				return
			}
		}
		if to := a.reader(l); to != nil {
			a.bring(l, 0, to)
		} else if len(voters) < 3 { // of a region that was promoted
			a.bring(l, 0, nil)
		}
		return
	}
	if err := l.group.ProposeChange(change); err != nil && !errors.Is(err, group.ErrNotLeader) && !errors.Is(err, group.ErrBusy) {
		l.check(err)
		return
	}
	w.counts["changes"]++
	l.pump()
}

// move moves a replica of a group to another machine.
func (a *admin) move(l *replica) {
	conf := l.group.Config()
	if a.coming[l.gid] != 0 || len(a.voting(conf.GetLearners()))+len(conf.GetVotersOutgoing()) > 0 || len(conf.GetVoters()) == 0 {
		return
	}
	voters := conf.GetVoters()
	if slices.ContainsFunc(voters, func(id uint64) bool { return a.w.owner[id].lost }) {
		return // that one first
	}
	if fit := a.fitting(l); len(fit) > 0 {
		a.bring(l, voters[a.w.rng.IntN(len(voters))], fit[a.w.rng.IntN(len(fit))])
	}
}

// fitting returns the machines that have no part of a group's range.
func (a *admin) fitting(l *replica) (fit []*node) {
	span, _ := l.group.Range()
	for _, n := range a.w.nodes {
		if n.up && !n.far && n.present() && n.free(l.gid, span) {
			fit = append(fit, n)
		}
	}
	return fit
}

// bring makes an empty replica of a group, which is to come into the place of another one; on
// some machine if to is nil.
func (a *admin) bring(l *replica, gone uint64, to *node) {
	w := a.w
	if to == nil {
		fit := a.fitting(l)
		if len(fit) == 0 {
			there, down := 0, false
			for _, n := range w.nodes {
				if n.present() && !n.far && (!n.lost || n.incarnation == 0) {
					there, down = there+1, down || !n.up && !n.lost
				}
			}
			if !down && there < 6 {
				n := w.newNode()
				n.create(nil)
				n.start()
			}
			return
		}
		to = fit[0]
	}
	id := w.nextReplica
	w.nextReplica++
	w.owner[id] = to
	_, err := to.log.Create(l.gid, id, raftlog.Base{})
	if errors.Is(err, fault.ErrExists) {
		return
	}
	if to.check(err); err != nil || !to.up {
		return
	}
	a.coming[l.gid], a.instead[id] = id, gone
	w.counts["moves"]++
	w.note("group %d: replica %d on node %d comes for %d", l.gid, id, to.id, gone)
	err = to.open(l.gid)
	if to.check(err); err == nil && to.up {
		a.lead(l)
	}
}

// split divides the range of a group.
func (a *admin) split(l *replica) {
	w := a.w
	if len(w.oracle.gids()) >= w.plan.groups {
		return
	}
	at := l.boundary()
	if at == "" {
		return
	}
	w.nextGroup++
	err := l.group.ProposeSplit(at, w.nextGroup)
	if errors.Is(err, group.ErrNotLeader) || errors.Is(err, group.ErrBusy) {
		return
	}
	l.check(err)
	w.note("node %d: group %d splits at %s, the right group is %d", l.node.id, l.gid, at, w.nextGroup)
	w.counts["splits"]++
	l.pump()
}

// settled reports whether the groups have the members and the default that they should, and machines no
// replicas besides.
func (a *admin) settled() bool {
	w := a.w
	for _, gid := range w.oracle.gids() {
		l := w.leader(gid)
		if l == nil || a.coming[gid] != 0 {
			return false
		}
		conf := l.group.Config()
		if len(a.voting(conf.GetLearners()))+len(conf.GetVotersOutgoing()) > 0 || len(conf.GetVoters()) != 3 || l.group.TTLRevision() != w.defaults.newest().Revision {
			return false
		}
		for _, id := range conf.GetVoters() {
			r := w.replica(gid, id)
			if r == nil || r.group.Applied() != w.oracle.newest(gid) || r.group.Held() != r.group.Applied() {
				return false
			}
		}
	}
	for _, n := range w.nodes {
		for _, r := range n.replicas {
			if n.up && n.present() && w.oracle.removed(r.gid, r.id) {
				return false
			}
		}
	}
	return true
}

// absent checks that machines have nothing but what their replicas have. One of an incarnation before, which has met none
// of the present one, may wait for ever to apply a split that a crash interrupted.
func (a *admin) absent() {
	for _, n := range a.w.nodes {
		if !n.up || !n.present() {
			continue
		}
		for _, p := range n.c.Partitions() {
			held, err := n.c.AppliedIndex(p.ID)
			owned := slices.ContainsFunc(n.replicas, func(r *replica) bool { return r.group.Partition() == p.ID })
			if owned == p.Absent || owned && (err != nil || held == 0) || !owned && !errors.Is(err, engine.ErrNotHere) {
				a.w.violated("node %d: partition %d, [%s, %s): absent %v, of a replica %v, entry %d, %v; replicas %s", n.id, p.ID, p.Min, p.Max, p.Absent, owned, held, err, n.describe())
			}
		}
	}
}

// describe describes the replicas of a machine.
func (n *node) describe() string {
	var b strings.Builder
	for _, r := range n.replicas {
		b.WriteString(r.describe())
	}
	return b.String()
}
