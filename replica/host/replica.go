package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/raftlog"
	"github.com/cleavestore/cleave/replica/topology"
)

// replica is a replica of a group.
type replica struct {
	h   *Host
	def cluster.Group

	in struct {
		sync.Mutex
		batch
		scheduled bool
	}

	// Of the worker that serves the group:
	spare    batch
	g        *group.Group // nil: it has failed
	log      *raftlog.Group
	failure  error
	applies  []*group.Apply
	waiters  map[command.ID]func(group.Outcome)
	reads    reads
	reader   int                    // ticks, of a reader
	follows  uint64                 // replica that it knew as the leader when it looked last
	orphan   int                    // ticks for which it looks for a leader in the place of one that has died
	wait     int                    // ticks until it asks to be elected
	held     map[uint64]*pb.Message // messages that wait for a moment, by replica
	late     bool                   // and the host will have them sent
	waits    uint64                 // for what commands were found to wait last, see group.Group.Waiting
	lates    int                    // how often in a row
	hand     *handover              // that is under way; nil: none
	deaf     uint64                 // replica that has left one without an answer
	chosen   uint64                 // term in which this replica leads because it was chosen, if it does
	succeeds int                    // ticks for which another replica may be about to lead
	parked   []func()               // who is told when that one is known
	balance  int                    // ticks until it may hand over to the preferred leader

	told    int64           // tick of the host up to which it was told of them
	rested  int64           // for how many it was left alone then
	led     int             // ticks since it leads
	idle    int             // ticks since it has heard of a leader
	heard   uint64          // replica that the newest message was from
	telling map[uint64]bool // replicas that the leader is about to tell that they were removed
	gone    bool            // it was destroyed

	due atomic.Int64 // tick of the host at which it is woken

	status struct {
		described                                 atomic.Pointer[topology.Group] // nil: it waits for a snapshot
		lacks                                     atomic.Uint64                  // entries that the incoming replica lacks, and one more; 0: not known
		leading                                   atomic.Bool
		succeeded                                 atomic.Bool // it has handed over, and does not know yet who leads
		leader, term, applied, held, logged, kept atomic.Uint64
		partition                                 atomic.Uint64          // of the store; 0: there is none
		known                                     atomic.Uint64          // newest entry of the log
		time                                      atomic.Int64           // of the newest entry that was applied, in ms since 1970; 0: not known
		confirmed                                 atomic.Pointer[moment] // when the newest round of reads began that was confirmed
		ttl                                       atomic.Uint64          // revision of the default time to live
		silent                                    atomic.Int64           // ticks since it has heard of a leader
		failed                                    atomic.Pointer[error]
	}
}

// batch is what has come for a group.
type batch struct {
	woken     bool // since ticks have passed
	messages  []*pb.Message
	proposals []proposal
	bytes     int // of the proposals
	confirms  []func(error)
	written   []written
	calls     []call
}

type proposal struct {
	c    *command.Command
	done func(group.Outcome)
}

// written is an append that is durable.
type written struct {
	g *group.Group
	a *group.Append
}

// call is something to be done with the group. after is called when what the group has to do
// then is done; it may be nil.
type call struct{ do, after func() }

// reads are linearizable reads. One round is under way at a time; reads that come meanwhile
// are of the next one.
type reads struct {
	waiting, round []func(error)
	id             group.ReadID
	age            int // ticks since the round was begun
}

const (
	// maxInbox bounds what lies in an inbox of each kind, and maxInboxBytes the commands there: the worker may wait for the store, and
	// clients ask again meanwhile.
	maxInbox      = 1 << 16
	maxInboxBytes = 64 << 20
	// roundTicks is how long a round of reads waits for its confirmation.
	roundTicks = 3
	// reopenTime is how long a replica that has failed stays closed.
	reopenTime = time.Second
)

func (h *Host) openReplica(ctx context.Context, def cluster.Group, layout *group.Layout) (*replica, error) {
	r := &replica{h: h, def: def, log: h.log.Group(def.ID), told: h.ticks.Load(), rested: 1, waiters: make(map[command.ID]func(group.Outcome)), held: make(map[uint64]*pb.Message), telling: make(map[uint64]bool)}
	if err := r.open(ctx, layout); err != nil {
		return nil, err
	}
	r.publish()
	return r, nil
}

func (r *replica) open(ctx context.Context, layout *group.Layout) (err error) {
	r.g, err = r.h.openGroup(ctx, r.def, r.log, layout)
	return err
}

func (h *Host) openGroup(ctx context.Context, def cluster.Group, log *raftlog.Group, layout *group.Layout) (*group.Group, error) {
	c, err := h.db.Container(def.Container)
	if err != nil {
		return nil, err
	}
	return group.Open(ctx, group.Config{
		Log: log, DB: h.db, Container: c, Min: def.Range.Min.String(), Max: def.Range.Max.String(), Layout: layout, Now: h.cfg.Clock,
		ElectionTicks: electionTicks, HeartbeatTicks: heartbeatTicks, KeepEntries: h.cfg.keepEntries, KeepBytes: h.cfg.keepBytes, CatchUpBytes: catchUpBytes,
	})
}

// put changes the inbox and has a worker look at it. False: add has refused.
func (r *replica) put(add func(*batch) bool) bool {
	r.in.Lock()
	ok := add(&r.in.batch)
	schedule := ok && !r.in.scheduled
	if schedule {
		r.in.scheduled = true
	}
	r.in.Unlock()
	if schedule {
		r.h.queue <- r // it has a place for each group
	}
	return ok
}

func (r *replica) message(m *pb.Message) {
	r.put(func(b *batch) bool {
		if len(b.messages) >= maxInbox {
			return false // Raft repeats it
		}
		b.messages = append(b.messages, m)
		return true
	})
}

func (r *replica) propose(c *command.Command, done func(group.Outcome)) bool {
	size := c.Size()
	return r.put(func(b *batch) bool {
		if len(b.proposals) >= maxInbox || b.bytes >= maxInboxBytes {
			return false
		}
		b.bytes += size
		b.proposals = append(b.proposals, proposal{c, done})
		return true
	})
}

func (r *replica) confirm(done func(error)) bool {
	return r.put(func(b *batch) bool {
		if len(b.confirms) >= maxInbox {
			return false
		}
		b.confirms = append(b.confirms, done)
		return true
	})
}

func (r *replica) wake() {
	r.put(func(b *batch) bool { b.woken = true; return true })
}

// do has a worker call f.
func (r *replica) do(f func()) { r.call(f, nil) }

func (r *replica) call(f, after func()) {
	r.put(func(b *batch) bool { b.calls = append(b.calls, call{f, after}); return true })
}

// run does what has come.
func (r *replica) run() {
	r.in.Lock()
	b := r.in.batch
	r.in.batch = r.spare
	r.in.Unlock()
	r.process(&b)
	b.clear()
	r.spare = b
	r.in.Lock()
	more := r.in.batch.any()
	r.in.scheduled = more
	r.in.Unlock()
	if more {
		r.h.queue <- r
	}
}

func (b *batch) any() bool {
	return b.woken || len(b.messages)+len(b.proposals)+len(b.confirms)+len(b.written)+len(b.calls) > 0
}

func (b *batch) clear() {
	b.woken, b.bytes = false, 0
	b.messages, b.proposals, b.confirms = emptied(b.messages), emptied(b.proposals), emptied(b.confirms)
	b.written, b.calls = emptied(b.written), emptied(b.calls)
}

func emptied[T any](s []T) []T {
	if cap(s) > 1024 {
		return nil
	}
	clear(s)
	return s[:0]
}

func (r *replica) process(b *batch) {
	passed := r.passTicks()
	for _, m := range b.messages {
		r.step(m)
	}
	if !passed { // else Raft may have forgotten, at a tick, who has answered lately
		r.prefer()
	}
	for _, w := range b.written {
		if w.g == r.g && r.g != nil {
			r.check(r.g.Written(w.a))
		}
	}
	for _, c := range b.calls {
		c.do()
	}
	for _, p := range b.proposals {
		r.take(p)
	}
	r.restartRound()
	r.reads.wait(b.confirms)
	if r.g == nil && r.failure != nil {
		r.refuse(r.failure) // others have what this one may not have for long
	}
	r.beginRound()
	r.pump()
	r.watch()
	for _, c := range b.calls {
		if c.after != nil {
			c.after()
		}
	}
	r.publish()
	r.rest()
}

// with calls f unless the replica has failed.
func (r *replica) with(f func() error) error {
	if r.g == nil {
		return nil
	}
	return f()
}

// passTick tells the group that time has passed.
func (r *replica) passTick() {
	if r.g == nil {
		return
	}
	r.check(r.g.Tick())
	if r.g == nil {
		return
	}
	if r.led++; !r.g.IsLeader() {
		r.led = 0
	}
	if len(r.applies) > 0 {
		r.apply() // an entry that was ahead of the clock
	}
	if len(r.reads.round) > 0 {
		if r.reads.age++; r.reads.age >= roundTicks {
			r.endRound()
		}
	}
	if r.balance > 0 {
		r.balance--
	}
	r.seekLeader()
	r.keepConfirmed()
	r.passHandover()
	r.wonder()
}

// take proposes a command.
func (r *replica) take(p proposal) {
	err := r.failure
	if err == nil && r.h.closing.Load() && !(r.g.IsLeader() && len(r.voters()) > 1) {
		err = fmt.Errorf("%w: %w", group.ErrNotLeader, ErrClosed)
	}
	if err == nil {
		err = r.g.Propose(p.c)
	}
	if err != nil {
		r.tell(p.done, group.Outcome{ID: p.c.ID, Err: err})
		r.check(err)
		return
	}
	if before := r.waiters[p.c.ID]; before != nil { // the same command once more
		done := p.done
		p.done = func(o group.Outcome) { before(o); done(o) }
	}
	r.waiters[p.c.ID] = p.done
}

// wait has reads wait for the next round. While there is no leader none comes, and who asks again and again must not pile up:
// those that are too many are told so.
func (q *reads) wait(some []func(error)) {
	room := min(len(some), max(maxInbox-len(q.waiting)-len(q.round), 0))
	q.waiting = append(q.waiting, some[:room]...)
	for _, done := range some[room:] {
		done(group.ErrBusy)
	}
}

// beginRound begins a round of reads, if there is none.
func (r *replica) beginRound() {
	q := &r.reads
	if len(q.round) > 0 || len(q.waiting) == 0 || r.g == nil {
		return
	}
	id, err := r.g.Read()
	if r.check(err); r.g == nil {
		return
	}
	q.round, q.waiting, q.id, q.age = q.waiting, q.round, id, 0
}

// restartRound gives a round up whose leader is none any more: nobody would answer it.
func (r *replica) restartRound() {
	if r.g == nil {
		return
	}
	leader := r.g.Leader()
	if leader == r.follows {
		return
	}
	r.follows = leader
	if leader != 0 && len(r.reads.round) > 0 {
		r.endRound()
	}
}

// endRound gives a round up; its reads are of the next one.
func (r *replica) endRound() {
	q := &r.reads
	r.g.EndRead(q.id)
	q.waiting = append(q.waiting, q.round...)
	q.round = emptied(q.round)
	r.beginRound()
}

// pump does what the group has to do.
func (r *replica) pump() {
	for r.g != nil {
		w, err := r.g.Ready()
		if err != nil {
			r.check(err)
			return
		}
		if w == nil {
			return
		}
		r.carryOut(w)
	}
}

func (r *replica) carryOut(w *group.Work) {
	for _, m := range w.Send {
		r.send(m)
	}
	for _, m := range w.Snapshots {
		r.sendSnapshot(m)
	}
	r.began(w.Created) // before the reads: see there
	for _, d := range w.Reads {
		if q := &r.reads; d.ID == q.id {
			for _, done := range q.round {
				done(nil)
			}
			q.round = emptied(q.round)
			r.beginRound()
		}
	}
	for _, o := range w.Outcomes {
		if done := r.waiters[o.ID]; done != nil {
			delete(r.waiters, o.ID)
			r.tell(done, o)
		}
	}
	for _, a := range w.Appends {
		if r.g == nil {
			return
		}
		if a.Installs() {
			r.write(a)
			continue
		}
		if err := r.g.Write(context.Background(), a); err != nil {
			r.check(err)
			return
		}
		r.h.sync.add(r, r.g, a)
	}
	r.applies = append(r.applies, w.Applies...)
	r.apply()
}

// write writes an append that installs a snapshot. Another worker serves other groups meanwhile.
func (r *replica) write(a *group.Append) {
	stop := make(chan struct{})
	defer close(stop)
	r.h.workers.Go(func() { r.h.work(stop) })
	begun := time.Now()
	if err := r.g.Write(r.h.ctx, a); err != nil {
		r.check(err)
		return
	}
	r.h.cfg.Logger.Info("a snapshot was installed", "node", r.h.cfg.Node, "group", r.def.ID, "took", time.Since(begun))
	r.h.sync.add(r, r.g, a)
}

// apply applies committed entries.
func (r *replica) apply() {
	for len(r.applies) > 0 && r.g != nil {
		err := r.g.Apply(context.Background(), r.applies[0])
		if errors.Is(err, group.ErrRetry) {
			return // at the next tick
		}
		if r.check(err); err != nil {
			return
		}
		r.applies = slices.Delete(r.applies, 0, 1)
	}
}

// check closes the replica after an error that it cannot go on after, and opens it again later.
func (r *replica) check(err error) {
	if err == nil || r.g == nil || !errors.Is(err, group.ErrFailed) {
		return
	}
	r.fail(err)
}

// fail closes the replica.
func (r *replica) fail(err error) {
	r.g, r.failure, r.applies = nil, err, nil
	r.h.cfg.Logger.Error("a replica has failed", "node", r.h.cfg.Node, "group", r.def.ID, "err", err)
	r.refuse(group.ErrUnknown)
	r.reopenLater(err)
}

// reopenLater has the replica, which has failed, opened again. That is of no use if the log or the store takes nothing more.
func (r *replica) reopenLater(err error) {
	r.status.failed.Store(&err)
	if errors.Is(err, fault.ErrFailed) {
		r.h.fail(err)
	}
	if !r.h.closing.Load() {
		time.AfterFunc(reopenTime, func() { r.do(r.reopen) })
	}
}

// reopen opens a replica that has failed.
func (r *replica) reopen() {
	if r.g != nil || r.gone || r.h.closing.Load() {
		return
	}
	// The group takes all that its log has for durable.
	err := r.h.log.Vouch()
	if err == nil {
		err = r.open(context.Background(), nil)
	}
	if errors.Is(err, raftlog.ErrRemoved) {
		r.leave()
		return
	}
	if err != nil {
		r.g = nil
		r.h.cfg.Logger.Error("a replica was not opened again", "node", r.h.cfg.Node, "group", r.def.ID, "err", err)
		err = fmt.Errorf("%w: %w", group.ErrFailed, err) // clients ask the other replicas
		r.failure = err
		r.reopenLater(err)
		return
	}
	r.failure = nil
	r.status.failed.Store(nil)
}

// refuse answers everybody who waits.
func (r *replica) refuse(err error) {
	for id, done := range r.waiters {
		done(group.Outcome{ID: id, Err: err})
	}
	clear(r.waiters)
	for _, done := range append(r.reads.round, r.reads.waiting...) {
		done(err)
	}
	r.reads = reads{}
}

// close answers everybody who waits, and those whom no worker has seen.
func (r *replica) close() {
	r.refuse(group.ErrUnknown)
	for _, tell := range r.parked {
		tell()
	}
	r.in.Lock()
	b := r.in.batch
	r.in.batch = batch{}
	r.in.Unlock()
	for _, p := range b.proposals {
		p.done(group.Outcome{ID: p.c.ID, Err: ErrClosed})
	}
	for _, done := range b.confirms {
		done(ErrClosed)
	}
}

// publish tells others what has become of the group.
func (r *replica) publish() {
	s := &r.status
	if r.g == nil {
		s.leading.Store(false)
		s.leader.Store(0)
		r.lookAtHandover()
		return
	}
	v := r.g.View()
	leader := nodeOf(v.Leader)
	changed := s.leading.Swap(v.Leads) != v.Leads
	changed = s.leader.Swap(leader) != leader || changed
	s.term.Store(v.Term)
	s.applied.Store(r.g.Applied())
	s.silent.Store(int64(r.idle))
	s.held.Store(r.g.Held())
	s.ttl.Store(r.g.TTLRevision())
	last, _ := r.log.LastIndex() // never fails
	s.known.Store(last)
	if at := r.g.Time(); !at.IsZero() {
		s.time.Store(at.UnixMilli())
	}
	logged := uint64(r.log.Bytes())
	s.logged.Store(logged)
	if s.kept.Load() > logged { // a snapshot was installed
		s.kept.Store(logged)
	}
	if d := s.described.Load(); r.g.Applied() > 0 && (d == nil || d.Epoch < r.g.ChangedAt()) {
		s.described.Store(r.describe())
		changed = true
	}
	// A read takes the partition first. It must not find that of a half beside the range of the whole.
	s.partition.Store(uint64(r.g.Partition()))
	r.follow()
	r.lookAtHandover()
	if changed && r.h.cfg.Changed != nil {
		r.h.cfg.Changed(r.def.ID)
	}
}

// emptyCommand makes a command that does nothing.
func (h *Host) emptyCommand(after uint64) *command.Command {
	c := &command.Command{After: after, Time: time.UnixMilli(0)}
	rand.Read(c.ID[:]) // never fails
	return c
}
