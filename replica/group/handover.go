package group

// A leader hands over in two steps, so that no command is left without an outcome that is known:
//
//  1. It makes no entries of commands that come: they wait. Those that are under way get their
//     outcomes, which takes as long as one write does.
//  2. Raft transfers the leadership. The other replica has all entries by then, so it asks for votes
//     at once, past the promises of followers to the present leader. When this replica hears that, the
//     commands that wait get ErrNotLeader: nothing was done for them.
//
// If step 1 takes longer than drainTicks, the rest goes with what is under way, which gets ErrUnknown. If
// nothing has come of step 2 after handTicks, this replica goes on: it is still the leader.

const (
	drainTicks = 1
	handTicks  = 3
)

// handover is a step from one leader to another one that is under way. to is 0 if none is.
type handover struct {
	to    uint64
	ticks int  // since it was begun, or since raft was told
	sent  bool // raft was told
}

// HandOver has this replica, which leads, hand over to another one. Commands wait meanwhile. With drain
// those that are under way come first. HandingOver tells when it is over, IsLeader whether it has come
// to nothing: then the other replica did not come in a few ticks. Errors: ErrNotLeader; ErrBusy if
// another handover is under way.
func (g *Group) HandOver(to uint64, drain bool) error {
	switch {
	case !g.IsLeader():
		return ErrNotLeader
	case to == g.cfg.Log.Replica():
		return nil
	case g.handing.to != 0:
		return ErrBusy
	}
	g.handing = handover{to: to}
	if drain && len(g.proposals) > 0 {
		return nil
	}
	return g.transfer()
}

// HandingOver reports whether a handover is under way.
func (g *Group) HandingOver() bool { return g.handing.to != 0 && g.IsLeader() }

// transfer tells raft to hand over.
func (g *Group) transfer() error {
	g.handing.sent, g.handing.ticks = true, 0
	return g.guard(func() error { g.node.TransferLeader(g.handing.to); return nil })
}

// passHandover is called at each tick.
func (g *Group) passHandover() error {
	h := &g.handing
	if h.to == 0 {
		return nil
	}
	h.ticks++
	switch {
	case !g.IsLeader():
		*h = handover{}
	case !h.sent && h.ticks > drainTicks:
		return g.transfer()
	case h.sent && h.ticks > handTicks:
		*h = handover{}
		// To raft a transfer to the leader itself is the end of another one.
		return g.guard(func() error { g.node.TransferLeader(g.cfg.Log.Replica()); return nil })
	}
	return nil
}

// drained goes on with a handover that has waited for outcomes.
func (g *Group) drained() error {
	if g.handing.to == 0 || g.handing.sent || len(g.proposals) > 0 || !g.IsLeader() {
		return nil
	}
	return g.transfer()
}
