package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/internal/mutant"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// storage is the log as raft sees it. A snapshot is only announced here: Export makes it.
type storage struct {
	*raftlog.Group
	g *Group
}

// Snapshot implements raft.Storage.
func (s storage) Snapshot() (*pb.Snapshot, error) {
	term, err := s.g.present()
	if err != nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	at := s.g.held
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(at), Term: new(term), ConfState: s.g.state.confAt(at)}}, nil
}

// present returns the term of the newest entry. The state is that of the partition too.
func (g *Group) present() (term uint64, err error) {
	if g.held != g.state.applied || g.held == 0 {
		return 0, ErrNoSnapshot
	}
	return g.cfg.Log.Term(g.held)
}

// Export writes a snapshot for a MsgSnap of Work.Snapshots to w. It returns the message to
// be sent in its place, with the stream. The host then calls ReportSnapshot. Error:
// ErrNoSnapshot; those of w and of engine.ExportPartition.
//
// A host that must not wait calls engine.ExportPartition elsewhere, and SnapshotAt afterwards.
func (g *Group) Export(ctx context.Context, m *pb.Message, w io.Writer) (*pb.Message, error) {
	if _, err := g.present(); err != nil {
		return nil, err
	}
	content, err := g.cfg.Container.ExportPartition(ctx, g.partition, w)
	if err != nil {
		return nil, err
	}
	return g.SnapshotAt(m, content.Index)
}

// SnapshotAt returns the message that is to be sent in the place of a MsgSnap, with a stream
// of the partition as of an entry. ErrNoSnapshot: the log does not have the entry any more,
// or not yet.
func (g *Group) SnapshotAt(m *pb.Message, index uint64) (*pb.Message, error) {
	if g.failed != nil {
		return nil, g.failed
	}
	if index == 0 || index > g.state.applied || index < g.cfg.Log.Base().Index {
		return nil, fmt.Errorf("exported entry %d, the group is at %d: %w", index, g.state.applied, ErrNoSnapshot)
	}
	term, err := g.cfg.Log.Term(index)
	if err != nil {
		return nil, err
	}
	g.awaits(m.GetTo(), index)
	b := g.state.at(index, term)
	out := proto.CloneOf(m)
	out.Snapshot = &pb.Snapshot{Data: b.State, Metadata: &pb.SnapshotMetadata{Index: new(b.Index), Term: new(b.Term), ConfState: b.ConfState}}
	return out, nil
}

// ReportSnapshot tells whether a snapshot has reached a replica.
func (g *Group) ReportSnapshot(to uint64, reached bool) error {
	status := raft.SnapshotFailure
	if reached {
		status = raft.SnapshotFinish
	}
	delete(g.probes, to)
	return g.guard(func() error { g.node.ReportSnapshot(to, status); return nil })
}

// install replaces the partition by a snapshot. See package raftlog for what a crash leaves.
func (g *Group) install(ctx context.Context, hard *pb.HardState, s *pb.Snapshot) error {
	meta := s.GetMetadata()
	b := raftlog.Base{Index: meta.GetIndex(), Term: meta.GetTerm(), ConfState: proto.CloneOf(meta.GetConfState()), State: s.GetData()}
	g.installs--
	open := g.streams[b.Index]
	delete(g.streams, b.Index)
	if open == nil {
		return fmt.Errorf("a snapshot of entry %d without a stream", b.Index)
	}
	if b.Index <= g.held {
		return fmt.Errorf("a snapshot of entry %d, the partition is at %d", b.Index, g.held)
	}
	var next state
	if err := next.load(&b, partmap.Range{}); err != nil {
		return err
	}
	if err := g.room(next.span()); err != nil {
		return err
	}
	held := g.held
	if err := g.cfg.Log.BeginInstall(hard, b); err != nil {
		return err
	}
	if err := g.installStream(ctx, next.span(), open); err != nil {
		return err // the next Open finds out whether it is there
	}
	if g.held != b.Index {
		return fmt.Errorf("installed entry %d, the snapshot is of %d", g.held, b.Index)
	}
	if err := g.dropHalf(ctx, held, &next); err != nil {
		return err
	}
	if err := g.beginSkipped(held, &next); err != nil {
		return err
	}
	if err := g.cfg.Log.EndInstall(true); err != nil {
		return err
	}
	g.durable, g.state = b.Index, next
	return g.noteTTL()
}

// Apply applies entries to the partition and tells the node. ErrRetry: call it again later,
// with the same Apply, before any other. After another error the group has stopped.
func (g *Group) Apply(ctx context.Context, a *Apply) error {
	if g.failed != nil {
		return g.failed
	}
	for ; a.next < len(a.m.GetEntries()); a.next++ {
		err := g.applyEntry(ctx, a.m.GetEntries()[a.next])
		if errors.Is(err, engine.ErrClockSkew) {
			return fmt.Errorf("%w: %w", ErrRetry, err)
		} else if err != nil {
			return g.fail(fmt.Errorf("apply entry %d: %w", a.m.GetEntries()[a.next].GetIndex(), err))
		}
	}
	return g.answer(a.m)
}

func (g *Group) applyEntry(ctx context.Context, e *pb.Entry) error {
	index := e.GetIndex()
	switch {
	case index <= g.state.applied:
		return nil // a snapshot has come past it
	case index != g.state.applied+1:
		return fmt.Errorf("the entry before it is %d", g.state.applied)
	}
	var err error
	switch {
	case e.GetType() != pb.EntryNormal:
		err = g.applyChange(ctx, e)
	case len(e.GetData()) == 0:
		err = g.applyEmpty(ctx, index)
	case command.IsControl(e.GetData()):
		err = g.applyControl(ctx, e)
	default:
		err = g.applyCommands(ctx, e)
	}
	if err == nil {
		g.state.applied = index
	}
	return err
}

// applyEmpty applies an entry that has no effect on items.
func (g *Group) applyEmpty(ctx context.Context, index uint64) error {
	// The time counts as equal to that of the entry before.
	_, err := g.applyAt(ctx, engine.Entry{Index: index, Time: time.UnixMilli(1)})
	return err
}

// applyAt applies an entry to the partition, unless that has it.
func (g *Group) applyAt(ctx context.Context, e engine.Entry) (engine.Applied, error) {
	if e.Index <= g.held {
		return engine.Applied{Skipped: true}, nil
	}
	e.Durability = engine.Buffered
	out, err := g.cfg.Container.ApplyAt(ctx, g.partition, e)
	if err == nil {
		g.held = e.Index
	}
	return out, err
}

// applyChange applies a change of the members. Raft goes by it from then on, and must not
// forget it: after a crash this replica could be elected by members that are none any more,
// beside a leader of the present ones. So the log first has, durably, that the entry was
// committed; a replica does not ask for votes before it has applied what it knows so.
func (g *Group) applyChange(ctx context.Context, e *pb.Entry) error {
	var change pb.ConfChangeI
	if e.GetType() == pb.EntryConfChange {
		c := new(pb.ConfChange)
		if err := proto.Unmarshal(e.GetData(), c); err != nil {
			return err
		}
		change = c
	} else {
		c := new(pb.ConfChangeV2)
		if err := proto.Unmarshal(e.GetData(), c); err != nil {
			return err
		}
		change = c
	}
	if err := g.applyEmpty(ctx, e.GetIndex()); err != nil {
		return err
	}
	if index := e.GetIndex(); index > g.committed {
		if err := g.cfg.Log.Commit(index); err != nil {
			return err
		}
		g.committed = index
	}
	return g.guard(func() error {
		conf := g.node.ApplyConfChange(change)
		g.state.confs = append(g.state.confs, confAt{e.GetIndex(), proto.CloneOf(conf)})
		return nil
	})
}

// applyCommands applies the commands of an entry, and tells the proposers that are here.
func (g *Group) applyCommands(ctx context.Context, e *pb.Entry) error {
	commands, err := command.DecodeEntry(e.GetData())
	if err != nil {
		return err
	}
	index := e.GetIndex()
	outs := make([]Outcome, len(commands))
	rows := make([][]*engine.Batch, len(commands)) // of the commands that are carried out
	carried := make(map[command.ID]bool, len(commands))
	entry := engine.Entry{Index: index, Time: time.UnixMilli(1)}
	for i, c := range commands {
		outs[i].ID = c.ID
		if err = g.inRange(c); err != nil {
			// It has done nothing here, and never will: another group may carry it out.
			outs[i].Err = err
			continue
		}
		before, refused := g.state.judge(c, index)
		if mutant.On(mutant.DoubleApply) {
			before = 0
		} else if before == 0 && carried[c.ID] {
			before = index
		}
		if refused != nil || before != 0 {
			outs[i].Err, outs[i].Index, outs[i].Duplicate = refused, before, refused == nil
			continue
		}
		carried[c.ID] = true
		if c.Time.After(entry.Time) {
			entry.Time = c.Time
		}
		if index <= g.held {
			outs[i].Index, outs[i].Duplicate = index, true
			continue
		}
		// If the container refuses a command, it does so in every replica.
		if err = g.belongs(c); err == nil {
			rows[i], err = c.Build(g.cfg.Container)
		}
		if err != nil && !deterministic(err) {
			return err
		} else if err != nil {
			outs[i].Err, rows[i] = err, nil
			continue
		}
		outs[i].Index = index
		entry.Batches = append(entry.Batches, rows[i]...)
	}
	applied, err := g.applyAt(ctx, entry)
	if err != nil && !deterministic(err) {
		return err
	} else if err != nil {
		for i := range outs {
			if len(rows[i]) > 0 {
				outs[i].Err, outs[i].Index = err, 0
			}
		}
		if err = g.applyEmpty(ctx, index); err != nil {
			return err
		}
		applied.Results = nil
	}
	g.passed(entry.Time)
	results := applied.Results
	for i, c := range commands {
		if n := len(rows[i]); n > 0 && len(results) >= n {
			outs[i].Results, results = results[:n:n], results[n:]
		}
		if carried[c.ID] {
			// Also one that the container has refused: an entry that the partition had before
			// a restart does not say.
			g.state.note(c.ID, index)
			delete(carried, c.ID)
		}
		if _, mine := g.proposals[c.ID]; mine {
			delete(g.proposals, c.ID)
			g.outcomes = append(g.outcomes, outs[i])
		}
	}
	return nil
}

// deterministic reports whether an error depends on the command only.
func deterministic(err error) bool {
	for _, e := range []error{engine.ErrInvalid, engine.ErrKeyMismatch, engine.ErrTooLarge} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Truncate makes durable what the partition has applied, and drops entries of the log that
// are not needed any more, if that is worthwhile. An error may leave the log truncated; after an error that matches
// engine.ErrOutcomeUnknown the replica must be opened again.
func (g *Group) Truncate(ctx context.Context) error {
	if g.failed != nil {
		return g.failed
	}
	if g.partition == 0 {
		return nil
	}
	held := g.held
	if !mutant.On(mutant.TruncatePastDurable) {
		var err error
		if held, err = g.cfg.Container.FlushPartition(ctx, g.partition); err != nil {
			return err
		}
	}
	return g.truncate(held, 0, g.cfg.Log.Truncate)
}

// TruncateFlushed is Truncate for a host with many groups: it has flushed the store itself
// since Held has returned held, and calls raftlog.Store.Note afterwards. Entries up to old are not kept,
// for slow followers or as too few: the files of the log that have them are those of all groups.
func (g *Group) TruncateFlushed(held, old uint64) error {
	return g.truncate(held, old, g.cfg.Log.Cut)
}

func (g *Group) truncate(held, old uint64, cut func(raftlog.Base) error) error {
	if g.failed != nil {
		return g.failed
	}
	g.durable = max(g.durable, held)
	most, base := min(g.durable, g.state.applied), g.cfg.Log.Base()
	to, size := most, g.cfg.Log.Bytes()
	if size <= g.cfg.KeepBytes {
		to -= min(to, g.cfg.KeepEntries)
	}
	if leads := g.IsLeader(); size <= max(g.cfg.KeepBytes, g.cfg.CatchUpBytes) {
		g.node.WithProgress(func(id uint64, _ raft.ProgressType, pr trackerProgress) {
			wants := pr.Match // entries behind it
			if pr.State == tracker.StateSnapshot || pr.State == tracker.StateProbe && size > g.cfg.KeepBytes {
				wants = pr.Next - 1 // behind the snapshot that it gets, or has got just now
			}
			// One that needs a snapshot anyway wants nothing of a long log, and who does not lead knows of nobody.
			if at := g.sent[id]; at > 0 && leads && at >= base.Index {
				to = min(to, at)
			}
			if pr.RecentActive && id != g.cfg.Log.Replica() && (size <= g.cfg.KeepBytes || leads && wants >= base.Index) {
				to = min(to, wants)
			}
		})
		to = max(to, min(old, most))
	}
	if to <= base.Index || old <= base.Index && !g.cfg.Log.Worthwhile(to) {
		return nil
	}
	term, err := g.cfg.Log.Term(to)
	if err != nil {
		return err
	}
	if err := cut(g.state.at(to, term)); err != nil {
		return g.fail(err)
	}
	g.state.forget(to)
	return nil
}

// Entries returns the entries. They must not be changed.
func (a *Apply) Entries() []*pb.Entry { return a.m.GetEntries() }
