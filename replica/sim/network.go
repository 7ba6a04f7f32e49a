package sim

import (
	"bytes"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/replica/group"
)

// network carries messages between machines.
type network struct {
	w    *world
	cuts map[[2]uint64]int // from, to: nothing passes while it is above 0
}

func (n *network) begin(w *world) { n.w, n.cuts = w, make(map[[2]uint64]int) }

func (n *network) heal() { clear(n.cuts) }

// cut cuts a machine off for a while: in one direction, or both, from one or all others.
func (n *network) cut(id uint64) {
	w := n.w
	way, only := w.rng.IntN(3), uint64(0)
	if w.chance(0.3) {
		only = w.nodes[w.rng.IntN(len(w.nodes))].id
	}
	var made [][2]uint64
	for _, o := range w.nodes {
		if o.id == id || only != 0 && o.id != only {
			continue
		}
		if way != 1 {
			made = append(made, [2]uint64{id, o.id})
		}
		if way != 2 {
			made = append(made, [2]uint64{o.id, id})
		}
	}
	for _, c := range made {
		n.cuts[c]++
	}
	d := w.about(3 * time.Second)
	w.note("node %d: cut off, way %d, only %d, for %v", id, way, only, d)
	w.counts["cuts"]++
	w.after(d, func() {
		for _, c := range made {
			n.cuts[c] = max(0, n.cuts[c]-1)
		}
	})
}

// severed reports whether messages of one replica do not reach another one.
func (n *network) severed(m *pb.Message) bool {
	from, to := n.w.owner[m.GetFrom()], n.w.owner[m.GetTo()]
	return from == nil || to == nil || n.cuts[[2]uint64{from.id, to.id}] > 0
}

// send sends a message of a group. stream is that of a snapshot.
func (n *network) send(gid uint64, m *pb.Message, stream []byte) {
	w := n.w
	times := 1
	if !w.calm && w.chance(w.plan.duplicate) {
		times = 2
	}
	for range times {
		dropped := n.severed(m) || !w.calm && w.chance(w.plan.drop)
		delay := w.about(w.plan.latency)
		if !w.calm && w.chance(w.plan.late) {
			delay += w.about(2 * time.Second)
		}
		if dropped {
			w.counts["dropped"]++
			n.report(gid, m, false)
			continue
		}
		incarnation := 0
		if from := w.owner[m.GetFrom()]; from != nil {
			incarnation = from.incarnation
		}
		w.after(delay, func() { n.deliver(gid, m, stream, incarnation) })
	}
}

// report tells the sender of a snapshot what became of it.
func (n *network) report(gid uint64, m *pb.Message, reached bool) {
	if m.GetType() != pb.MsgSnap {
		return
	}
	n.w.after(n.w.plan.latency, func() {
		if s := n.w.replica(gid, m.GetFrom()); s != nil {
			s.check(s.group.ReportSnapshot(m.GetTo(), reached))
			s.pump()
		}
	})
}

// deliver delivers a message that was sent in an incarnation.
func (n *network) deliver(gid uint64, m *pb.Message, stream []byte, sent int) {
	if !n.severed(m) && !n.w.region.meet(n.w.owner[m.GetFrom()], n.w.owner[m.GetTo()], sent) {
		n.w.counts["dropped"]++
		n.report(gid, m, false)
		return
	}
	to := n.w.replica(gid, m.GetTo())
	if to == nil && !n.severed(m) {
		to = n.w.owner[m.GetTo()].join(gid, m.GetTo())
	}
	if to == nil || n.severed(m) {
		n.w.counts["dropped"]++
		n.report(gid, m, false)
		return
	}
	n.w.counts["messages"]++
	m = proto.CloneOf(m)
	if m.GetType() != pb.MsgSnap {
		to.check(to.group.Step(m))
	} else {
		n.w.note("node %d: group %d: snapshot of %d from %d", to.node.id, gid, m.GetSnapshot().GetMetadata().GetIndex(), m.GetFrom())
		n.w.counts["snapshots"]++
		if !n.w.calm && n.w.chance(0.2) {
			to.crashSoon() // in the middle of the installation, maybe
		}
		err := to.group.StepSnapshot(m, func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(stream)), nil
		})
		if errors.Is(err, group.ErrNoRoom) {
			n.w.counts["no room"]++
			n.report(gid, m, false)
			return
		}
		to.check(err)
		n.report(gid, m, true)
	}
	to.pump()
}
