package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/internal/mutant"
	"github.com/cleavestore/cleave/replica/raftlog"
	"github.com/cleavestore/cleave/splitter"
)

// A split is entry i of a group, and carried out by each replica when it applies the entry:
//
//  1. The engine cuts the partition at the boundary. Afterwards both halves have every entry
//     up to i-1, durably.
//  2. The right half takes entry i, durably.
//  3. The log of the right group is made, durably. It begins behind entry i, with the members
//     and the memory of the whole group at i. This replica has its own id in it.
//  4. The left half takes entry i, durably: the commit point. From then on the right group
//     may be opened, and the log of the left one be truncated past i.
//
// A crash before 4 leaves the left half at i-1, so the entry is applied again. Each step finds
// what it has done. What a right group had before 4 it has again: it was in its log. It may have split
// since: then its range has several partitions, and is left alone. If its
// replica was removed from this node meanwhile, the range is absent, or the log refuses the
// id, and stays so.
//
// A replica that is not a member any more evicts the right half. A replica that gets a
// snapshot from behind entry i has not applied the split. It replaces its partition by the
// left half and evicts the right one, in one step of the engine. Then it makes an empty
// log of the right group, if it was a member at entry i: that one gets a snapshot too. It has
// never voted or answered in the right group, since its left half never came to i.
//
// If a crash has interrupted a split and a snapshot comes past entry i, the partition of the
// replica is the left half already, so the installation replaces no more than that. Then the right
// half goes by itself, before the installation counts as done. If its group was made (step 3), it is
// that group's and stays.
//
// If a crash has interrupted a split and the replica is then removed from the left group before it
// applies the entry again, the right half goes with the left one, unless the right group was made
// (step 3).
//
// A replica may also be removed from the left group before it has applied entry i. So a host
// that gets a message for a replica of its node of which it has no log makes an empty one:
// raftlog.Store.Create refuses the replicas that were here and are not to come back. If such
// a replica is there when the left half comes to i after all, step 3 gives its log the base
// that it would have made: it has voted, but had no entry. Nobody may evict the right half
// instead: it may be one of the last copies.

// ErrRange says that a key does not lie in the range of the group: another group has it. The
// command has done nothing. It matches engine.ErrInvalid.
var ErrRange = fmt.Errorf("%w: key lies outside of the range of the group", engine.ErrInvalid)

// ErrNoRoom says that a snapshot has a range of which this node has a part in other groups:
// they are to split, or to be removed, first.
var ErrNoRoom = errors.New("range of the snapshot is in use")

// ErrTaken says that an entry splits off a group whose id another group of this node has. The replica
// stops before the entry, and has its whole range.
var ErrTaken = errors.New("id of the right group is another group's")

// Range returns the range of the group, and its epoch: of two groups that name one range, the
// one with the higher epoch is right. Both are those of the newest applied entry.
func (g *Group) Range() (span partmap.Range, epoch uint64) {
	return g.state.span(), g.state.epoch + uint64(len(g.state.splits))
}

// ProposeSplit proposes to divide the range of the group at a boundary, an effective
// partition key in hexadecimal digits. What lies behind it becomes group right, an id that no
// group has had. Range tells when it was done; Work.Created names the new group. A split
// during a change of the members does nothing. Errors: ErrNotLeader, ErrBusy, ErrRange.
func (g *Group) ProposeSplit(at string, right uint64) error {
	if !g.IsLeader() {
		return ErrNotLeader
	}
	s := &command.Split{Right: right, At: at}
	b, err := g.boundary(s)
	if err != nil {
		return err
	}
	if err = splitter.AmongKeys(b); err != nil { // entries of older programs are not judged by that
		return fmt.Errorf("split of group %d at %.64s: %w: %w", g.cfg.Log.ID(), at, ErrRange, err)
	}
	return g.proposeControl(&command.Control{Split: s})
}

func (g *Group) proposeControl(c *command.Control) error {
	c.Time = g.cfg.Now()
	err := g.guard(func() error { return g.node.Propose(c.Append(nil)) })
	if errors.Is(err, raft.ErrProposalDropped) {
		return ErrBusy
	}
	return err
}

// boundary returns the boundary of a split, if the group can be divided there.
func (g *Group) boundary(s *command.Split) (partmap.EPK, error) {
	at, err := partmap.ParseEPK(s.At)
	if err == nil {
		at, err = splitter.Boundary(at, g.levels)
	}
	if span := g.state.span(); err == nil && (at.Compare(&span.Min) <= 0 || at.Compare(&span.Max) >= 0) {
		err = fmt.Errorf("the range is [%s, %s)", span.Min, span.Max)
	}
	if err == nil && (s.Right == 0 || s.Right == g.cfg.Log.ID()) {
		err = fmt.Errorf("the right group cannot have id %d", s.Right)
	}
	if err == nil && slices.ContainsFunc(g.state.splits, func(p splitAt) bool { return p.right == s.Right }) {
		err = fmt.Errorf("group %d has split off already", s.Right)
	}
	if err != nil {
		return at, fmt.Errorf("split of group %d at %.64s: %w: %w", g.cfg.Log.ID(), s.At, ErrRange, err)
	}
	return at, nil
}

// applyControl applies an entry that concerns the group.
func (g *Group) applyControl(ctx context.Context, e *pb.Entry) error {
	c, err := command.DecodeControl(e.GetData())
	if err != nil {
		return err
	}
	entry := engine.Entry{Index: e.GetIndex(), Time: c.Time}
	conf := g.state.confAt(e.GetIndex())
	if c.Split != nil && len(conf.GetVotersOutgoing()) == 0 {
		if at, refused := g.boundary(c.Split); refused == nil {
			members := slices.Sorted(slices.Values(slices.Concat(conf.GetVoters(), conf.GetLearners())))
			p := splitAt{index: e.GetIndex(), right: c.Split.Right, at: at, members: members}
			if p.index > g.held {
				if err = g.split(ctx, &p, e.GetTerm(), entry); err != nil {
					return fmt.Errorf("split at %s: %w", at, err)
				}
			}
			g.state.splits = append(g.state.splits, p)
			if err = g.noteTTL(); err != nil {
				return err
			}
			g.passed(c.Time)
			g.lateReads()
			return nil
		}
	}
	if c.TTL != nil && g.cfg.Container.Def().MutableTTL && (g.IsLeader() || !mutant.On(mutant.LeaderDefault)) {
		if mutant.On(mutant.StaleDefault) {
			c.TTL.Revision = max(c.TTL.Revision, g.revision+1)
		}
		entry.DefaultTTL = &engine.DefaultTTLChange{Revision: c.TTL.Revision, TTL: time.Duration(c.TTL.Seconds) * time.Second}
		if c.TTL.Seconds < 0 {
			entry.DefaultTTL.TTL = engine.NoExpiry
		}
	}
	if _, err = g.applyAt(ctx, entry); err == nil {
		err = g.noteTTL()
	}
	if err == nil {
		g.passed(c.Time)
		g.lateReads() // as fresh as when they were asked for
	}
	return err
}

// split carries a split out.
func (g *Group) split(ctx context.Context, p *splitAt, term uint64, entry engine.Entry) error {
	c, span := g.cfg.Container, g.state.span()
	behind := partmap.Range{Min: p.at, Max: span.Max}
	if err := g.taken(p.right, behind); err != nil {
		return err
	}
	if err := cut(ctx, c, span, p.at); err != nil { // step 1
		return err
	}
	left, err := partitionOf(c, partmap.Range{Min: span.Min, Max: p.at})
	if err != nil {
		return err
	}
	g.partition = left.ID
	right, err := partitionOf(c, behind)
	divided := false
	if errors.Is(err, engine.ErrNotFound) {
		divided, err = g.divided(behind)
	}
	if err != nil {
		return err
	}
	entry.Durability = engine.Synced
	switch {
	case divided: // a crash came behind step 3, and the right group has split since
	case right.Absent: // it was here and was removed
	case !slices.Contains(p.members, g.cfg.Log.Replica()):
		err = c.Evict(ctx, right.ID)
	default:
		err = g.beginRight(ctx, p, right.ID, behind, g.state.rightOf(p, term), entry)
	}
	if err != nil {
		return err
	}
	if _, err = c.ApplyAt(ctx, left.ID, entry); err == nil { // step 4
		g.held = entry.Index
	}
	return err
}

// divided reports whether a range has several partitions, which have all of it. Error: engine.ErrNotFound.
func (g *Group) divided(span partmap.Range) (bool, error) {
	in, err := partitionsIn(g.cfg.Container, span)
	if err != nil {
		return false, err
	}
	if n := len(in); n < 2 || in[0].span.Min != span.Min || in[n-1].span.Max != span.Max {
		return false, fmt.Errorf("%q has no physical partitions with the range [%s, %s): %w", g.cfg.Container.Name(), span.Min, span.Max, engine.ErrNotFound)
	}
	return true, nil
}

// beginRight does steps 2 and 3.
func (g *Group) beginRight(ctx context.Context, p *splitAt, id engine.PartitionID, born partmap.Range, base raftlog.Base, entry engine.Entry) error {
	held, err := g.cfg.Container.AppliedIndex(id)
	if err == nil && held < p.index {
		_, err = g.cfg.Container.ApplyAt(ctx, id, entry)
	}
	if err != nil {
		return err
	}
	if err = g.create(p.right, born, base); errors.Is(err, raftlog.ErrRemoved) {
		// It was here as an empty one, and its group has removed it.
		return g.cfg.Container.Evict(ctx, id)
	}
	return err
}

// create makes the log of a right group to which this replica belongs, unless it is here. One that
// is empty gets the base. ErrRemoved: it was here, and its group has removed it, or there is
// another replica of the group. ErrTaken: that of a group which began with another range is here.
//
// It does not look for the log first: a message may have the host make an empty one at any
// moment, and it can be found only when it is durable.
func (g *Group) create(group uint64, born partmap.Range, base raftlog.Base) error {
	store := g.cfg.Log.Store()
	_, err := store.Create(group, g.cfg.Log.Replica(), base)
	if err == nil {
		g.created = append(g.created, group)
		return nil
	} else if !errors.Is(err, fault.ErrExists) {
		return err
	}
	if err = g.taken(group, born); err != nil {
		return err
	}
	log := store.Group(group)
	if log == nil || log.Replica() != g.cfg.Log.Replica() {
		return raftlog.ErrRemoved
	}
	if log.Base().Index == 0 && base.Index > 0 {
		g.created = append(g.created, group)
		return log.Begin(base)
	}
	return nil
}

// taken returns ErrTaken if this node has the log of a group that did not begin with a range. Ranges of
// groups are disjoint, so no other split can have made one that did. An empty log has no range yet.
func (g *Group) taken(group uint64, born partmap.Range) error {
	log := g.cfg.Log.Store().Group(group)
	if log == nil {
		return nil
	}
	var its state
	b := log.Base()
	if err := its.load(&b, partmap.Range{}); b.Index > 0 && (err != nil || its.born != born) {
		return fmt.Errorf("group %d, of which [%s, %s) is to be: %w", group, born.Min, born.Max, ErrTaken)
	}
	return nil
}

// cut splits the partition that a range has at a boundary inside of it, unless it is cut.
func cut(ctx context.Context, c *engine.Container, span partmap.Range, at partmap.EPK) error {
	p, err := partitionOf(c, span)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	job, err := c.Split(ctx, p.ID, &engine.SplitOptions{At: at.String()})
	if err != nil {
		return err
	}
	return job.Wait(ctx)
}

// partitionOf returns the physical partition with a range.
func partitionOf(c *engine.Container, span partmap.Range) (engine.PartitionStats, error) {
	lo, hi := span.Min.String(), span.Max.String()
	for _, p := range c.Partitions() {
		if p.Min == lo && p.Max == hi {
			return p, nil
		}
	}
	return engine.PartitionStats{}, fmt.Errorf("%q has no physical partition with the range [%s, %s): %w", c.Name(), lo, hi, engine.ErrNotFound)
}

// room returns why a snapshot of a range cannot be installed; ErrNoRoom. What this replica
// has itself, and what is absent, is room.
func (g *Group) room(span partmap.Range) error {
	if g.partition != 0 {
		if own := g.state.span(); own.Min.Compare(&span.Min) <= 0 && own.Max.Compare(&span.Max) >= 0 {
			return nil
		}
		return fmt.Errorf("group %d: a snapshot of [%s, %s): %w", g.cfg.Log.ID(), span.Min, span.Max, ErrNoRoom)
	}
	in, err := partitionsIn(g.cfg.Container, span)
	for _, p := range in {
		if err == nil && !p.absent {
			err = fmt.Errorf("group %d: partition %d: %w", g.cfg.Log.ID(), p.id, ErrNoRoom)
		}
	}
	return err
}

// installStream puts a snapshot of a range into the place of the partition, or into an absent
// range.
func (g *Group) installStream(ctx context.Context, span partmap.Range, open func() (io.ReadCloser, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	c := g.cfg.Container
	var content engine.PartitionContent
	if g.partition != 0 {
		if own := g.state.span(); mutant.On(mutant.StaleRightHalf) && own.Max.Compare(&span.Max) > 0 {
			if err = cut(ctx, c, own, span.Max); err != nil {
				return err
			}
			content, err = c.InstallPartition(ctx, r)
		} else {
			content, err = c.ReplacePartition(ctx, g.partition, r)
		}
	} else {
		for _, at := range []partmap.EPK{span.Min, span.Max} {
			in, listErr := partitionsIn(c, span)
			if listErr != nil {
				return listErr
			}
			for _, p := range in {
				if at.Compare(&p.span.Min) > 0 && at.Compare(&p.span.Max) < 0 {
					if err = cut(ctx, c, p.span, at); err != nil {
						return err
					}
				}
			}
		}
		content, err = c.InstallPartition(ctx, r)
	}
	if err != nil {
		return err
	}
	g.partition, g.held = content.Partition, content.Index
	return nil
}

// beginSkipped makes the logs of the groups that split off in entries which this replica has
// not applied, and never will: a snapshot has come past them.
func (g *Group) beginSkipped(held uint64, next *state) error {
	for i := range next.splits {
		p := &next.splits[i]
		if p.index > held && slices.Contains(p.members, g.cfg.Log.Replica()) {
			if err := g.create(p.right, next.half(i), raftlog.Base{}); err != nil && !errors.Is(err, raftlog.ErrRemoved) {
				return err
			}
		}
	}
	return nil
}

// dropHalf removes the right half that is left of a split which a crash has interrupted and a
// snapshot has come past. before is an entry that the replica had then, or an earlier one.
func (g *Group) dropHalf(ctx context.Context, before uint64, next *state) error {
	for i := range next.splits {
		p, span := &next.splits[i], next.half(i)
		if p.index <= before || g.made(p.right, span) {
			continue
		}
		q, err := partitionOf(g.cfg.Container, span)
		if errors.Is(err, engine.ErrNotFound) || err == nil && q.Absent {
			continue
		} else if err != nil {
			return err
		}
		// What a later group has in this range is behind the split.
		held, err := g.cfg.Container.AppliedIndex(q.ID)
		if err != nil {
			return err
		}
		if held <= p.index {
			if err = g.cfg.Container.Evict(ctx, q.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// made reports whether this node has the log of a right group, and not as an empty one.
func (g *Group) made(group uint64, born partmap.Range) bool {
	log := g.cfg.Log.Store().Group(group)
	return log != nil && log.Base().Index > 0 && g.taken(group, born) == nil
}

// Removed reports whether the replica was removed from its group, as far as it has applied.
func (g *Group) Removed() bool {
	conf, id := g.state.confs[len(g.state.confs)-1].conf, g.cfg.Log.Replica()
	return g.state.applied > 0 && !slices.Contains(conf.GetVoters(), id) && !slices.Contains(conf.GetLearners(), id) && !slices.Contains(conf.GetVotersOutgoing(), id)
}

// Destroy removes the replica from this node: its partition becomes absent, then its log goes.
// The Group must not be used afterwards, and the id never again.
//
// The group must have removed the replica, and its members must know. Raft goes by a change of
// members when it is applied, so one that knows less may need the replica for an election,
// and if the leader is lost there is no other way for it to learn. So first have a leader that
// has applied the removal, which Config tells, carry out one more command, an empty one for
// instance. Then a quorum knows.
// A crash in between leaves a replica of which the next
// Open says ErrRemoved. Error: ErrBusy if entries are to be applied first.
func (g *Group) Destroy(ctx context.Context) error {
	if g.state.applied < g.held {
		return ErrBusy
	}
	if g.partition != 0 {
		in, err := partitionsIn(g.cfg.Container, g.state.span())
		if err != nil {
			return err
		}
		half, err := g.interrupted(len(in))
		if err != nil {
			return err
		}
		// The first one is evicted last: while it is there, the group is.
		for _, p := range slices.Backward(in) {
			if half != nil && p.span.Min.Compare(&half.at) >= 0 {
				others, err := g.ofOthers(&p, half)
				if err != nil {
					return err
				}
				if others {
					continue
				}
			}
			if err := g.cfg.Container.Evict(ctx, p.id); err != nil {
				return err
			}
		}
	}
	_ = g.fail(raftlog.ErrRemoved)
	return g.cfg.Log.Store().Remove(g.cfg.Log.ID())
}

// interrupted returns the split that a crash has interrupted, of a replica whose range has a number of
// partitions; nil if there is none. Its entry is the next one behind those that the partition has, and
// the replica has not applied it again.
func (g *Group) interrupted(partitions int) (*splitAt, error) {
	next := g.held + 1
	last, err := g.cfg.Log.LastIndex()
	if err != nil || partitions < 2 || next > last {
		return nil, err
	}
	entries, err := g.cfg.Log.Entries(next, next+1, 0)
	if err != nil {
		return nil, err
	}
	s, err := splitIn(entries[0])
	if err != nil || s == nil {
		return nil, err
	}
	at, err := g.boundary(s)
	if err != nil {
		return nil, nil // such a split does nothing
	}
	return &splitAt{index: next, right: s.Right, at: at}, nil
}

// splitIn returns the split that an entry is, nil if it is none.
func splitIn(e *pb.Entry) (*command.Split, error) {
	if !command.IsControl(e.GetData()) {
		return nil, nil
	}
	c, err := command.DecodeControl(e.GetData())
	if err != nil {
		return nil, err
	}
	return c.Split, nil
}

// WillSplitOff reports whether a log has an entry behind those that were applied which splits off a group.
func WillSplitOff(log *raftlog.Group, applied, right uint64) bool {
	last, _ := log.LastIndex() // never fails
	for next := max(applied, log.Base().Index) + 1; next <= last; {
		entries, err := log.Entries(next, last+1, 1<<20)
		if err != nil {
			return false // they were truncated or replaced
		}
		for _, e := range entries {
			if s, err := splitIn(e); err == nil && s != nil && s.Right == right {
				return true
			}
		}
		next += uint64(len(entries))
	}
	return false
}

// ofOthers reports whether a partition behind the boundary of an interrupted split is another group's:
// the right group was made, or a later one has what is there.
func (g *Group) ofOthers(p *partition, half *splitAt) (bool, error) {
	if p.absent || g.made(half.right, partmap.Range{Min: half.at, Max: g.state.span().Max}) {
		return true, nil
	}
	held, err := g.cfg.Container.AppliedIndex(p.id)
	return held > half.index, err
}

// passed notes the time of an entry with commands.
func (g *Group) passed(t time.Time) {
	if t.After(g.time) {
		g.time = t
	}
	if len(g.late) > 0 && g.fresh() {
		g.lateReads()
	}
}

// fresh reports whether the time of the group is not far behind the clock.
func (g *Group) fresh() bool {
	return !g.expires || g.cfg.TimeEvery < 0 || g.cfg.Now().Sub(g.time) <= g.cfg.TimeEvery
}

// readIndex hands a read to raft: at the leader, when the time of the group is fresh. An item
// that has expired for longer than that is not read any more.
func (g *Group) readIndex(step func()) {
	if !g.IsLeader() || g.fresh() {
		step()
		return
	}
	g.late = append(g.late, step)
	if !g.passing && g.proposeControl(new(command.Control)) == nil {
		g.passing = true
	}
}

// lateReads hands over the reads that have waited for the time.
func (g *Group) lateReads() {
	late := g.late
	g.late, g.passing = nil, false
	for _, step := range late {
		_ = g.guard(func() error { step(); return nil }) // a failure is that of the group
	}
}
