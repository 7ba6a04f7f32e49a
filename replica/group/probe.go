package group

import pb "go.etcd.io/raft/v3/raftpb"

// A leader probes a follower that has come back: it sends it the entries that it may lack, up to a MiB of them, and
// waits for the answer. Since that message may be lost, raft sends it again when the follower answers a heartbeat. But
// rounds of reads are heartbeats too, hundreds a second, and a follower that has come back takes a while for its first
// answer. All that it lacked was encoded, sent and decoded dozens of times over, which held up all groups of both nodes.
//
// probe is the message with entries that a follower was sent last and has not answered. It is not sent again before
// repeatTicks have passed, unless the follower answers or is reported as unreachable.
type probe struct {
	index uint64 // of the entry before those of the message
	tick  uint64
}

const repeatTicks = 3

// repeats reports whether a message is the one that its follower was sent a moment ago. If it is not, it is noted.
func (g *Group) repeats(m *pb.Message) bool {
	if m.GetType() != pb.MsgApp || len(m.GetEntries()) == 0 {
		return false
	}
	if p, sent := g.probes[m.GetTo()]; sent && p.index == m.GetIndex() && g.ticks-p.tick < repeatTicks {
		return true
	}
	g.probes[m.GetTo()] = probe{m.GetIndex(), g.ticks}
	return false
}
