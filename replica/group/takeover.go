package group

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/replica/raftlog"
)

// When the voters of a group are lost for good, one of its other replicas may take the group over: it
// becomes the only member. That can lose what it has not heard of, so it is for a command of a person.
//
// # What is decided, and how it survives a crash
//
//  1. Adopt: every entry in the replica's log counts as committed. The lost leader may have
//     acknowledged any of them, and none that is in another log matters any more. It is one record,
//     the hard state with a higher commit. Once it is durable, it is what a leader's message with
//     that commit would have been: raft applies the entries, in whichever order crashes come.
//  2. Replay: all of them are applied, changes of the members and splits too. So nothing that is
//     decided below rests on a state which an entry would change afterwards. A split makes the log
//     of its right group, with the members of before: that group is to be taken over too.
//  3. TakeOver: one record gets the changes that make this replica the only member, as entries of the
//     next term, and the hard state that says they are committed and that this replica has voted for
//     itself in that term. A record is there whole or not at all. Without it nothing was decided;
//     with it, everything is: an Open finds the entries committed and applies them before the replica
//     asks to be elected.
//
// Each step finds what it has done and may be repeated. TakeOver of a group that was taken over
// does nothing.
//
// # Why there is no second leader
//
// Entries, votes and snapshots of the members of before could undo all of this: their terms may be
// higher. Nothing in package group keeps them away. The transport does: the replica must not be run
// before its node has another incarnation than theirs, and connections between two incarnations are
// refused. Empty replicas that join later get their members with a snapshot, or with these entries.

// errTakenOver says that a Group must be opened again.
var errTakenOver = errors.New("group was taken over")

// Adopt has all entries in a log count as committed, durably. The group is not open. An installation
// that was interrupted must have been ended, which Open does.
func Adopt(log *raftlog.Group) error {
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	return log.Commit(last)
}

// Replay applies all entries of which the log knows that they were committed. It sends nothing, and
// the group must not have been run before. ErrRetry: an entry is ahead of the clock of this node.
func (g *Group) Replay(ctx context.Context) error {
	for {
		w, err := g.Ready()
		if err != nil {
			return err
		}
		if w == nil {
			return nil
		}
		for _, a := range w.Appends {
			if err = g.Write(ctx, a); err != nil {
				return err
			}
			if err = g.cfg.Log.Store().Wait(a.Position); err != nil {
				return err
			}
			if err = g.Written(a); err != nil {
				return err
			}
		}
		for _, a := range w.Applies {
			if err = g.Apply(ctx, a); err != nil {
				return err
			}
		}
	}
}

// TakeOver makes this replica the only member of its group, durably. Adopt and Replay come first:
// ErrBusy if entries are to be applied. The Group must not be used afterwards: open it again.
func (g *Group) TakeOver() error {
	if g.failed != nil {
		return g.failed
	}
	last, err := g.cfg.Log.LastIndex()
	if err != nil {
		return err
	}
	if last == 0 || g.state.applied != last {
		return fmt.Errorf("group %d: entry %d of %d is applied: %w", g.cfg.Log.ID(), g.state.applied, last, ErrBusy)
	}
	changes := onlyMember(g.Config(), g.Replica())
	if len(changes) == 0 {
		return nil
	}
	hard, _, err := g.cfg.Log.InitialState()
	if err != nil {
		return err
	}
	term := hard.GetTerm() + 1
	var entries []*pb.Entry
	for _, c := range changes {
		last++
		data, failed := proto.Marshal(c)
		if failed != nil {
			return failed
		}
		entries = append(entries, &pb.Entry{Type: pb.EntryConfChangeV2.Enum(), Term: new(term), Index: new(last), Data: data})
	}
	_ = g.fail(errTakenOver)
	pos, err := g.cfg.Log.Append(&pb.HardState{Term: &term, Vote: new(g.Replica()), Commit: &last}, entries)
	if err != nil {
		return err
	}
	return g.cfg.Log.Store().Wait(pos)
}

// onlyMember returns the changes after which a replica is the only member. Each changes one voter, so
// that none needs a quorum of two sets of members.
func onlyMember(conf *pb.ConfState, self uint64) (out []*pb.ConfChangeV2) {
	if len(conf.GetVotersOutgoing()) > 0 {
		out = append(out, new(pb.ConfChangeV2)) // leaves the joint members
	}
	change := func(kind pb.ConfChangeType, id uint64) {
		out = append(out, &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: kind.Enum(), NodeId: &id}}})
	}
	if !slices.Contains(conf.GetVoters(), self) {
		change(pb.ConfChangeAddNode, self)
	}
	others := slices.Concat(conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(), conf.GetLearnersNext())
	slices.Sort(others)
	for _, id := range slices.Compact(others) {
		if id != self {
			change(pb.ConfChangeRemoveNode, id)
		}
	}
	return out
}
