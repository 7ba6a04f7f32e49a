package sim

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
)

// replica is a replica of a group on a machine.
type replica struct {
	*node
	gid   uint64
	id    uint64
	group *group.Group

	applies   []*group.Apply
	applying  bool
	proposals map[command.ID]func(group.Outcome)
	reads     map[group.ReadID]func()

	confirmed time.Duration // of a reader: everything is here that was acknowledged before; 0: not known
}

// caughtUp reports whether the group has applied again what its partition has. Of a split that a
// crash has interrupted the right group may be open already, before the left one has applied it.
func (r *replica) caughtUp() bool { return r.group.Applied() >= r.group.Held() && r.whole() }

// pump does what the group has to do.
func (r *replica) pump() {
	for r.up && !r.gone() {
		work, err := r.group.Ready()
		r.check(err)
		if err != nil || work == nil {
			break
		}
		r.do(work)
	}
	if r.up && !r.gone() && r.group.IsLeader() && r.present() {
		r.w.oracle.leads(r.w, r.gid, r.group.Term(), r.id)
	}
}

// gone reports whether the replica is none of the machine's any more.
func (r *replica) gone() bool {
	for _, o := range r.replicas {
		if o == r {
			return false
		}
	}
	return true
}

func (r *replica) do(work *group.Work) {
	for _, m := range work.Send {
		r.w.net.send(r.gid, m, nil)
	}
	for _, m := range work.Snapshots {
		r.sendSnapshot(m)
	}
	for _, d := range work.Reads {
		if f := r.reads[d.ID]; f != nil {
			delete(r.reads, d.ID)
			f()
		}
	}
	for _, o := range work.Outcomes {
		if f := r.proposals[o.ID]; f != nil {
			delete(r.proposals, o.ID)
			f(o)
		}
	}
	for _, a := range work.Appends {
		if !r.up {
			return
		}
		r.check(r.group.Write(context.Background(), a))
		r.appends = append(r.appends, written{r, a})
	}
	if !r.up {
		return
	}
	if r.present() {
		r.w.oracle.members(r)
	}
	r.began(work.Created)
	r.applies = append(r.applies, work.Applies...)
	r.sync()
	r.apply()
}

// began opens the groups that a split has made.
func (r *replica) began(created []uint64) {
	for _, gid := range created {
		if !r.up {
			return
		}
		r.w.counts["right groups"]++
		if old := r.replicaOf(gid); old != nil {
			r.w.counts["begun late"]++
			old.leave()
		}
		err := r.open(gid)
		if r.check(err); err != nil || !r.up {
			return
		}
		right := r.replicaOf(gid)
		if right != nil && right.confirmed == 0 {
			right.confirmed = r.confirmed // of before the split
		}
		if right != nil && r.group.IsLeader() {
			r.check(right.group.Campaign())
		}
		if right != nil {
			right.pump()
		}
	}
}

// sendSnapshot makes a snapshot and sends it.
func (r *replica) sendSnapshot(m *pb.Message) {
	var b bytes.Buffer
	out, err := r.group.Export(context.Background(), m, &b)
	if errors.Is(err, group.ErrNoSnapshot) {
		r.check(r.group.ReportSnapshot(m.GetTo(), false))
		return
	}
	r.check(err)
	if err == nil {
		r.w.net.send(r.gid, out, b.Bytes())
	}
}

// apply applies the next entries.
func (r *replica) apply() {
	if r.applying || len(r.applies) == 0 || !r.up {
		return
	}
	r.applying = true
	r.plan(r.w.about(r.slow), func() {
		r.applying = false
		if r.gone() {
			return
		}
		a := r.applies[0]
		if !r.w.calm && splits(a.Entries()) && r.w.chance(0.3) {
			r.crashSoon()
		}
		err := r.group.Apply(context.Background(), a)
		if errors.Is(err, group.ErrRetry) {
			r.w.counts["clock skews"]++
			r.plan(tick, r.apply)
			return
		}
		r.check(err)
		if !r.up {
			return
		}
		r.applies = r.applies[1:]
		if r.present() {
			r.w.oracle.applied(r, a.Entries())
		}
		r.pump()
		if r.up && !r.gone() {
			r.apply()
		}
	})
}

// splits reports whether one of the entries is a split.
func splits(entries []*pb.Entry) bool {
	return slices.ContainsFunc(entries, func(e *pb.Entry) bool {
		c := controlOf(e)
		return c != nil && c.Split != nil
	})
}

// controlOf returns what an entry has that concerns its group, nil if it has none.
func controlOf(e *pb.Entry) *command.Control {
	if e.GetType() != pb.EntryNormal || !command.IsControl(e.GetData()) {
		return nil
	}
	c, err := command.DecodeControl(e.GetData())
	if err != nil {
		return nil
	}
	return c
}

func (r *replica) truncate() {
	log := r.log.Group(r.gid)
	before, _ := log.FirstIndex()
	err := r.group.Truncate(context.Background())
	r.check(err)
	if r.up && err == nil {
		after, _ := log.FirstIndex()
		r.w.note("node %d: group %d: truncate, first entry %d, was %d", r.node.id, r.gid, after, before)
		r.w.counts["truncations"]++
		r.pump()
	}
}

// destroy removes a replica that its group has removed.
func (r *replica) destroy() {
	if !r.w.calm && r.w.chance(0.3) {
		r.crashSoon()
	}
	err := r.group.Destroy(context.Background())
	if errors.Is(err, group.ErrBusy) {
		return
	}
	if r.check(err); !r.up || err != nil {
		return
	}
	r.w.note("node %d: group %d, replica %d: destroyed", r.node.id, r.gid, r.id)
	r.w.counts["destroyed"]++
	r.leave()
}

// leave takes the replica from its machine.
func (r *replica) leave() {
	r.node.replicas = slices.DeleteFunc(slices.Clone(r.node.replicas), func(o *replica) bool { return o == r })
}

// whole reports whether the partition has the range of the group. After a crash in a split it was
// cut already, and has the range that the group will have.
func (r *replica) whole() bool {
	span, _ := r.group.Range()
	for _, p := range r.c.Partitions() {
		if p.ID == r.group.Partition() {
			return p.Min == span.Min.String() && p.Max == span.Max.String()
		}
	}
	return false
}

// digest returns a digest of the partition.
func (r *replica) digest() (uint64, [32]byte) {
	at, sum, err := r.c.DigestPartition(context.Background(), r.group.Partition())
	r.check(err)
	return at, sum
}

// boundary returns a boundary that divides the range of the group, empty if there is none:
// mostly between two keys in use.
func (r *replica) boundary() string {
	span, _ := r.group.Range()
	if r.w.chance(0.1) {
		return partmap.Midpoint(span).String()
	}
	var inside []string
	for _, key := range keys {
		if epk := key.EPK(); span.Contains(&epk) && epk.Compare(&span.Min) > 0 {
			inside = append(inside, epk.String())
		}
	}
	if len(inside) == 0 {
		return ""
	}
	return inside[r.w.rng.IntN(len(inside))]
}
