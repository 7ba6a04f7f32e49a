package sim

import (
	"bytes"
	"io"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// network carries messages between replicas.
type network struct {
	w    *world
	cuts map[[2]uint64]bool // from, to: nothing passes
}

func (n *network) begin(w *world) { n.w, n.cuts = w, make(map[[2]uint64]bool) }

func (n *network) heal() { clear(n.cuts) }

// cut cuts a replica off for a while: in one direction, or both, from one or all others.
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
		n.cuts[c] = true
	}
	d := w.about(3 * time.Second)
	w.note("replica %d: cut off, way %d, only %d, for %v", id, way, only, d)
	w.counts["cuts"]++
	w.after(d, func() {
		for _, c := range made {
			delete(n.cuts, c)
		}
	})
}

// send sends a message. stream is that of a snapshot.
func (n *network) send(m *pb.Message, stream []byte) {
	w := n.w
	times := 1
	if !w.calm && w.chance(w.plan.duplicate) {
		times = 2
	}
	for range times {
		dropped := n.cuts[[2]uint64{m.GetFrom(), m.GetTo()}] || !w.calm && w.chance(w.plan.drop)
		delay := w.about(w.plan.latency)
		if !w.calm && w.chance(w.plan.late) {
			delay += w.about(2 * time.Second)
		}
		if dropped {
			w.counts["dropped"]++
			n.report(m, false)
			continue
		}
		w.after(delay, func() { n.deliver(m, stream) })
	}
}

// report tells the sender of a snapshot what became of it.
func (n *network) report(m *pb.Message, reached bool) {
	if m.GetType() != pb.MsgSnap {
		return
	}
	n.w.after(n.w.plan.latency, func() {
		if s := n.w.node(m.GetFrom()); s != nil && s.up {
			s.check(s.group.ReportSnapshot(m.GetTo(), reached))
			s.pump()
		}
	})
}

func (n *network) deliver(m *pb.Message, stream []byte) {
	to := n.w.node(m.GetTo())
	if to == nil || !to.up || n.cuts[[2]uint64{m.GetFrom(), m.GetTo()}] {
		n.w.counts["dropped"]++
		n.report(m, false)
		return
	}
	n.w.counts["messages"]++
	m = proto.CloneOf(m)
	if m.GetType() != pb.MsgSnap {
		to.check(to.group.Step(m))
	} else {
		n.w.note("replica %d: snapshot of %d from %d", to.id, m.GetSnapshot().GetMetadata().GetIndex(), m.GetFrom())
		n.w.counts["snapshots"]++
		if !n.w.calm && n.w.chance(0.2) {
			to.crashSoon() // in the middle of the installation, maybe
		}
		to.check(to.group.StepSnapshot(m, func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(stream)), nil
		}))
		n.report(m, true)
	}
	to.pump()
}
