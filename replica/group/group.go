// Package group makes a replica of a Raft group of a physical partition. It has a RawNode of
// go.etcd.io/raft, the log of the group (package raftlog), and the partition of a replicated
// container of a store (package engine).
//
// A Group does nothing by itself: it has no goroutine, clock or network. A host calls Tick
// at equal intervals, Step for messages that come, and after each call does what Ready
// returns. Ready tells what may be done at once and what must be durable first.
//
// # Invariants
//
//  1. A response to an append or to a request for a vote leaves after what it speaks of is
//     durable in the log.
//  2. The partition has applied no entry that the log has not had durably: raft hands out
//     committed entries only when they are stable here.
//  3. The log is truncated only up to an entry that the partition has durably.
//  4. A command is carried out at most once. See command.Command.After.
//  5. A linearizable read sees the partition after an entry that was committed when a quorum
//     confirmed the leader, after the read had begun. Each read has a request id of its own.
//  6. An installation never takes the partition back.
//  7. Raft goes by a change of the members only when the log has, durably, that it was
//     committed. So a replica never comes back with members of the past. What is known to be committed
//     when an entry is written is durable with it.
//  8. What this node has of the key space is what its replicas have: nothing is left of a
//     half that split off elsewhere, or of a replica that was removed. See split.go.
//  9. A replica takes part in a group only under an id that it has had from the beginning:
//     with its log, or empty if it has never had one.
//
// # After a crash
//
// Entries are applied with engine.Buffered, so the partition may come back at an earlier
// entry than it had applied. It has each entry up to the base of the log, durably. So the
// group begins with the state of the base and is given all entries behind it again. The
// partition skips those that it has. What it has applied was committed, so the commit of the
// log's hard state is raised to it.
package group

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/internal/mutant"
	"github.com/cleavestore/cleave/replica/raftlog"
	"github.com/cleavestore/cleave/wal"
)

// Errors, for errors.Is.
var (
	// ErrNotLeader says that this replica is not the leader: ask the one that Leader names.
	ErrNotLeader = errors.New("replica is not the leader of its group")
	// ErrBusy says that the leader takes no more proposals for now.
	ErrBusy = errors.New("leader takes no proposals for now")
	// ErrUnknown says that a command may or may not be carried out: the leader has changed.
	// Propose it again, with the same id and After.
	ErrUnknown = errors.New("outcome of the command is unknown")
	// ErrExpired says that a command was proposed too long, or too many commands, after its After. This proposal
	// has done nothing; an earlier one of the same command may have carried it out.
	ErrExpired = errors.New("command was proposed too late")
	// ErrFailed says that the group has stopped: close it and open it again.
	ErrFailed = errors.New("replica has stopped")
	// ErrBehind says that the partition has lost entries that it had durably.
	ErrBehind = errors.New("partition has lost entries")
	// ErrRetry says that an entry is ahead of this replica's clock: apply it later.
	ErrRetry = errors.New("entry is ahead of the clock")
	// ErrNoSnapshot says that no snapshot can be made now.
	ErrNoSnapshot = errors.New("snapshot is not available now")
)

// Bootstrap is the entry behind which the log of a new group begins.
const Bootstrap = 1

// FirstBase is the state with which each of the first replicas of a group begins, for
// raftlog.Store.Create. window is for how many entries a command is remembered, at most.
func FirstBase(voters []uint64, window uint64) raftlog.Base {
	return raftlog.Base{
		Index: Bootstrap, Term: 1,
		ConfState: &pb.ConfState{Voters: slices.Sorted(slices.Values(voters))}, State: newState(window),
	}
}

// Config is what a replica is made of.
type Config struct {
	Log *raftlog.Group
	// Container is replicated. Min and Max are the range with which a group was made by
	// FirstBase, as engine.PartitionStats has them, and stay the same when it splits; groups
	// that were made by a split know their ranges.
	DB        *engine.DB
	Container *engine.Container
	Min, Max  string
	// Layout, if not nil, is a picture of the partitions of Container, of which none has been cut
	// or removed since. It makes the start of a node with many groups fast. Only Open uses it.
	Layout *Layout
	// Now is the clock that stamps commands.
	Now func() time.Time
	// ElectionTicks and HeartbeatTicks are those of raft.Config.
	ElectionTicks, HeartbeatTicks int
	// KeepEntries is how many applied entries a truncation leaves for slow followers, and
	// KeepBytes how many bytes of data the log has at most for them.
	KeepEntries uint64
	KeepBytes   int64
	// CatchUpBytes is how many bytes of data the log has at most for followers that are there and lack them, or get a
	// snapshot: without these they would need another one. Below KeepBytes: that.
	CatchUpBytes int64
	// TimeEvery is how far the time of the group, by which items expire, may be behind the
	// clock of the leader when it reads: it then makes an entry with the time first. 0: one
	// second; below 0: never. It does not concern containers whose items never expire.
	TimeEvery time.Duration
}

// Group is a replica of a group. One goroutine at a time may use it.
type Group struct {
	cfg       Config
	node      *raft.RawNode
	partition engine.PartitionID
	state     state
	levels    int    // of partition keys
	expires   bool   // items may
	revision  uint64 // of the newest change of the default time to live
	held      uint64 // entry that the partition has applied
	durable   uint64 // entry that it has durably
	term      uint64 // and
	vote      uint64 // that the log has
	committed uint64 // entry up to which the log knows, durably, what was committed
	failed    error

	proposals map[command.ID]uint64 // of this replica as the leader, without outcome; in which order
	proposed  uint64
	waiting   []*command.Command    // proposals that no entry has yet
	encoded   map[command.ID][]byte // of these
	bytes     int                   // in encoded
	hurry     bool                  // they do not wait for the outcome of others
	unwritten int                   // appends that were handed out and are not durable
	rises     *pb.HardState         // of term and vote, with a commit that no record has yet; nil: there is none
	reads     []*read
	boot      [8]byte // of read ids: another one for each Open
	readCount uint64
	streams   map[uint64]func() (io.ReadCloser, error) // of snapshots that came, by entry
	installs  int                                      // appends with a snapshot that were handed out and not written
	created   []uint64                                 // groups whose logs were made

	probes map[uint64]probe  // by replica
	sent   map[uint64]uint64 // by replica: the entry of the snapshot that it gets, see awaits
	ticks  uint64

	handing handover
	time    time.Time // newest of the entries since Open
	late    []func()  // reads of a leader that wait for the time
	passing bool      // an entry with the time was proposed

	send     []*pb.Message
	outcomes []Outcome
	done     []ReadDone
}

// Work is what a host has to do. Appends are done in order, and so are Applies: both by
// calls that say so. The rest in any order.
type Work struct {
	Send      []*pb.Message // to the replicas that their To names
	Snapshots []*pb.Message // see Group.Export
	Appends   []*Append
	Applies   []*Apply
	Outcomes  []Outcome
	Reads     []ReadDone
	// Created are groups whose logs this group has made on this node, by a split: Open them,
	// with a Config without Min and Max. One that is open already, as an empty replica, must be
	// dropped and opened again. After a restart raftlog.Store.Groups has them.
	Created []uint64
}

// Append is what is to be written to the log: Group.Write it, have raftlog.Store.Wait for
// its Position, then call Group.Written.
type Append struct {
	// Position is set by Write.
	Position wal.Position
	m        *pb.Message
}

// Apply is a row of committed entries.
type Apply struct {
	m    *pb.Message
	next int // the entry to begin with
}

// Open starts a replica. A host opens all groups of a node before it runs one. Errors:
// raftlog.ErrLost and ErrBehind, after which the replica must be removed from its group;
// raftlog.ErrRemoved if a Destroy was interrupted, which is complete now; those of the log and
// of the partition.
func Open(ctx context.Context, cfg Config) (*Group, error) {
	g := &Group{cfg: cfg, proposals: make(map[command.ID]uint64), encoded: make(map[command.ID][]byte), streams: make(map[uint64]func() (io.ReadCloser, error)), probes: make(map[uint64]probe), sent: make(map[uint64]uint64)}
	rand.Read(g.boot[:]) // never fails
	def := cfg.Container.Def()
	g.levels = max(1, len(def.PartitionKey))
	if g.cfg.TimeEvery == 0 {
		g.cfg.TimeEvery = time.Second
	}
	first, err := g.firstRange()
	if err != nil {
		return nil, err
	}
	if in := cfg.Log.Installing(); in != nil {
		if err = g.endInstall(ctx, in); err != nil {
			return nil, err
		}
	}
	base := cfg.Log.Base()
	if err = g.state.load(&base, first); err != nil {
		return nil, err
	}
	if err = g.findPartition(); err != nil {
		return nil, err
	}
	if g.held == 0 && base.Index == Bootstrap {
		if err = g.applyEmpty(ctx, Bootstrap); err != nil {
			return nil, err
		}
	}
	if err = cfg.Log.Check(g.held); err != nil {
		return nil, err
	}
	if g.held < base.Index {
		return nil, fmt.Errorf("group %d: the partition is at entry %d, its log begins behind %d: %w", cfg.Log.ID(), g.held, base.Index, ErrBehind)
	}
	g.durable = base.Index
	hard, _, err := cfg.Log.InitialState()
	if err != nil {
		return nil, err
	}
	g.term, g.vote, g.committed = hard.GetTerm(), hard.GetVote(), cfg.Log.Committed()
	if hard.GetCommit() > g.committed {
		g.rises = hard // Check may have raised it
	}
	err = g.guard(func() error {
		node, refusal := raft.NewRawNode(&raft.Config{
			ID: cfg.Log.Replica(), ElectionTick: cfg.ElectionTicks, HeartbeatTick: cfg.HeartbeatTicks,
			Storage: storage{cfg.Log, g}, Applied: base.Index, AsyncStorageWrites: true,
			MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: 4 << 20, MaxUncommittedEntriesSize: 64 << 20,
			// What other groups send to a replica that is behind waits behind this.
			MaxInflightMsgs: 256, MaxInflightBytes: 4 << 20,
			CheckQuorum: true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe, DisableProposalForwarding: true,
			StepDownOnRemoval: true, Logger: logger{},
		})
		g.node = node
		return refusal
	})
	if err != nil {
		return nil, err
	}
	return g, g.noteTTL()
}

// firstRange returns the range of Config.
func (g *Group) firstRange() (r partmap.Range, err error) {
	var errMin, errMax error
	r.Min, errMin = partmap.ParseEPK(g.cfg.Min)
	r.Max, errMax = partmap.ParseEPK(g.cfg.Max)
	if err = errors.Join(errMin, errMax); err != nil {
		err = fmt.Errorf("group %d: range [%s, %s): %w", g.cfg.Log.ID(), g.cfg.Min, g.cfg.Max, err)
	}
	return r, err
}

// endInstall ends an installation that was interrupted: it is done if the partition has the
// snapshot.
func (g *Group) endInstall(ctx context.Context, in *raftlog.Base) error {
	var next state
	if err := next.load(in, partmap.Range{}); err != nil {
		return err
	}
	var held uint64
	p, err := partitionOf(g.cfg.Container, next.span())
	if err == nil && !p.Absent {
		held, err = g.cfg.Container.AppliedIndex(p.ID)
	}
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	done := held >= in.Index
	if done {
		// Up to its base the replica had applied all splits; the logs of later ones that it
		// had applied are here, or were.
		before := g.cfg.Log.Base().Index
		if err := g.dropHalf(ctx, before, &next); err != nil {
			return err
		}
		if err := g.beginSkipped(before, &next); err != nil {
			return err
		}
	}
	return g.cfg.Log.EndInstall(done)
}

// findPartition finds the physical partition of the group and its entry. A replica that waits
// for its first snapshot need not have one.
func (g *Group) findPartition() error {
	base, span := g.cfg.Log.Base(), g.state.span()
	if base.Index == 0 && span.Empty() {
		return nil
	}
	layout := g.cfg.Layout
	g.cfg.Layout = nil
	if layout == nil {
		var err error
		if layout, err = NewLayout(g.cfg.Container); err != nil {
			return err
		}
	}
	in := layout.in(span)
	if base.Index == 0 && (len(in) != 1 || in[0].absent || in[0].span != span) {
		return nil
	}
	// The entry of a split that was interrupted finds the halves.
	if len(in) == 0 || in[0].span.Min.Compare(&span.Min) != 0 || in[len(in)-1].span.Max.Compare(&span.Max) != 0 {
		return fmt.Errorf("group %d: %q has no physical partition with the range [%s, %s): %w",
			g.cfg.Log.ID(), g.cfg.Container.Name(), span.Min, span.Max, engine.ErrNotFound)
	}
	if in[0].absent {
		return errors.Join(g.cfg.Log.Store().Remove(g.cfg.Log.ID()), raftlog.ErrRemoved)
	}
	g.partition = in[0].id
	var err error
	g.held, err = g.cfg.Container.AppliedIndex(g.partition)
	return err
}

// guard calls f, which calls the node, and turns a panic of it into the failure of the group.
func (g *Group) guard(f func() error) (err error) {
	if g.failed != nil {
		return g.failed
	}
	defer func() {
		if r := recover(); r != nil {
			err = g.fail(fmt.Errorf("raft: %v", r))
		}
	}()
	return f()
}

// fail stops the group.
func (g *Group) fail(cause error) error {
	if g.failed == nil {
		g.failed = fmt.Errorf("group %d: %w: %w", g.cfg.Log.ID(), ErrFailed, cause)
	}
	return g.failed
}

// Tick tells the group that one interval of time has passed.
func (g *Group) Tick() error {
	g.ticks++
	if err := g.guard(func() error { g.node.Tick(); return nil }); err != nil {
		return err
	}
	return g.passHandover()
}

// Step gives the group a message of another replica. The message must not be changed
// afterwards.
func (g *Group) Step(m *pb.Message) error {
	if m.GetType() == pb.MsgSnap {
		return fmt.Errorf("a snapshot comes with a stream: %w", engine.ErrInvalid)
	}
	return g.guard(func() error {
		if m.GetType() == pb.MsgReadIndex {
			g.readIndex(func() { g.node.Step(m) })
			return nil
		}
		if m.GetType() == pb.MsgAppResp {
			delete(g.probes, m.GetFrom())
			g.installed(m)
		}
		g.step(m)
		return nil
	})
}

// StepSnapshot gives the group a MsgSnap of Export. open opens the stream that came with it,
// which must have come whole. The group may call it until the next Ready; if that returns an
// append, until Write of it has returned. ErrNoRoom: the snapshot was not taken, and may be
// sent again later.
func (g *Group) StepSnapshot(m *pb.Message, open func() (io.ReadCloser, error)) error {
	index := m.GetSnapshot().GetMetadata().GetIndex()
	var next state
	if err := next.load(&raftlog.Base{Index: index, ConfState: m.GetSnapshot().GetMetadata().GetConfState(), State: m.GetSnapshot().GetData()}, partmap.Range{}); err != nil {
		return g.fail(err)
	}
	if index > g.held {
		if err := g.room(next.span()); err != nil {
			return err
		}
	}
	if mutant.On(mutant.InstallBackwards) && index < g.held && next.span() == g.state.span() {
		if err := g.installStream(context.Background(), next.span(), open); err != nil {
			return g.fail(err)
		}
	}
	g.streams[index] = open
	return g.guard(func() error { g.node.Step(m); return nil })
}

// Applied returns the newest entry that this replica has applied since it was opened, or the
// base of its log.
func (g *Group) Applied() uint64 { return g.state.applied }

// Held returns the entry that the partition has applied; until the entries of the log are
// applied again after a restart it may be above Applied.
func (g *Group) Held() uint64 { return g.held }

// Time returns the time of the newest entry with commands that this replica has applied since it was
// opened; zero if there was none.
func (g *Group) Time() time.Time { return g.time }

// Partition returns the physical partition.
func (g *Group) Partition() engine.PartitionID { return g.partition }

// Ready returns what is to be done, nil if there is nothing.
func (g *Group) Ready() (*Work, error) {
	var w *Work
	if err := errors.Join(g.drained(), g.gather()); err != nil {
		return nil, err
	}
	err := g.guard(func() error {
		for g.node.HasReady() {
			if w == nil {
				w = new(Work)
			}
			g.take(g.node.Ready(), w)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if g.installs == 0 {
		clear(g.streams) // raft has no use for them
	}
	g.finishReads()
	if len(g.send)+len(g.outcomes)+len(g.done)+len(g.created) > 0 {
		if w == nil {
			w = new(Work)
		}
		w.Send, w.Outcomes, w.Reads = append(w.Send, g.send...), append(w.Outcomes, g.outcomes...), append(w.Reads, g.done...)
		w.Created = append(w.Created, g.created...)
		g.send, g.outcomes, g.done, g.created = nil, nil, nil, nil
	}
	return w, nil
}

// take sorts what the node has to do.
func (g *Group) take(rd raft.Ready, w *Work) {
	if rd.SoftState != nil && rd.SoftState.RaftState != raft.StateLeader {
		g.handing = handover{}
		clear(g.probes)
		clear(g.sent)
		g.giveUp()
	}
	for _, s := range rd.ReadStates {
		for _, r := range g.reads {
			if r.index == 0 && string(r.ctx[:]) == string(s.RequestCtx) {
				r.index = s.Index
				break
			}
		}
	}
	for _, m := range rd.Messages {
		switch {
		case m.GetTo() == raft.LocalAppendThread:
			w.Appends = append(w.Appends, &Append{m: m})
			g.unwritten++
			if m.GetSnapshot() != nil {
				g.installs++
			}
		case m.GetTo() == raft.LocalApplyThread:
			w.Applies = append(w.Applies, &Apply{m: m})
		case m.GetType() == pb.MsgSnap:
			w.Snapshots = append(w.Snapshots, m)
		case g.repeats(m):
		default:
			w.Send = append(w.Send, m)
		}
	}
}

// Write writes an append to the log, not durably, or installs a snapshot. After an error the
// group has stopped.
func (g *Group) Write(ctx context.Context, a *Append) error {
	if g.failed != nil {
		return g.failed
	}
	m := a.m
	var hard *pb.HardState
	if m.GetTerm() != 0 {
		hard = &pb.HardState{Term: new(m.GetTerm()), Vote: new(m.GetVote()), Commit: new(m.GetCommit())}
	}
	if m.GetSnapshot() != nil {
		if err := g.install(ctx, hard, m.GetSnapshot()); err != nil {
			return g.fail(err)
		}
	}
	if len(m.GetEntries()) == 0 && (hard == nil || hard.GetTerm() == g.term && hard.GetVote() == g.vote) {
		// What it answers for was written before, and waited for in order. A commit that
		// rises need not be durable: the next record has it. Raft does not say it again.
		g.rises = cmp.Or(hard, g.rises)
		return nil
	}
	hard, g.rises = cmp.Or(hard, g.rises), nil
	pos, err := g.cfg.Log.Append(hard, m.GetEntries())
	if err != nil {
		return g.fail(err)
	}
	if hard != nil {
		g.term, g.vote = hard.GetTerm(), hard.GetVote()
	}
	a.Position = pos
	if entries := len(m.GetEntries()) > 0; mutant.On(mutant.AckBeforeSync) && entries || mutant.On(mutant.VoteUnsynced) && !entries {
		a.Position = 0
	}
	return nil
}

// Written tells the group that an append is durable.
func (g *Group) Written(a *Append) error {
	g.unwritten--
	return g.answer(a.m)
}

// Installs reports whether Write of the append installs a snapshot, which takes long.
func (a *Append) Installs() bool { return a.m.GetSnapshot() != nil }

// answer delivers the responses of a message to the log or the partition.
func (g *Group) answer(m *pb.Message) error {
	return g.guard(func() error {
		for _, r := range m.GetResponses() {
			if r.GetTo() != g.cfg.Log.Replica() {
				g.send = append(g.send, r)
			} else if err := g.node.Step(r); err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) {
				return g.fail(err) // the other error says that this replica was removed
			}
		}
		return nil
	})
}
