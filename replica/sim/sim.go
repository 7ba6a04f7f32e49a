// Package sim runs groups in one goroutine, on machines that it makes up: several replicas of
// different groups on each, with one store and one log. Raft, the logs, the groups and the
// stores are the real ones. Their disks are vfs.Mem, and one scheduler decides when a clock
// ticks, when a message comes, whether it is lost or comes twice, when a sync ends or fails,
// when a disk is full or decays, when a machine loses its power, when a group splits, and when
// a replica moves to another machine. All that it decides follows from a seed, so a run can be
// repeated by its number.
//
// # What is checked
//
//   - Applied entries: replicas that have applied an entry of one index have applied the
//     same entry.
//   - Answers: replicas at the same entry have the same digest of their content.
//   - Terms: no two replicas of a group lead in one term.
//   - Ranges: no machine has two replicas that claim one key. What a machine has of no group
//     is absent from its store: no stale half, and nothing of a replica that was removed.
//   - Registers: reads and writes of single items, by clients of all replicas, are
//     linearizable, across splits and moves. An item with a time to live may become absent
//     at any time, and does not come back. At the end every item is read once more, so a
//     write that was acknowledged and lost is found.
//   - Counters: an increment is carried out once if it was acknowledged, and at most once if
//     its outcome is unknown, however often it was proposed.
//   - Errors: no call fails without a fault that explains it, and no replica is refused whose
//     disk was not damaged.
//   - Defaults: each replica goes by the default time to live of the entries up to its own, see ttl.go.
//   - Promotion: what is lost with a region is no more than what was shown before, see region.go.
//   - Progress: when faults end, every client gets its answer, and all replicas come to the
//     same entry.
//
// # Randomness
//
// Raft takes its election timeouts from crypto/rand. So Run is the same for a seed only if
// the caller has made that the same too: testing/cryptotest.SetGlobalRandom.
package sim

import (
	"container/heap"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/group"
)

// Options choose what a run does. The zero value stands for the defaults.
type Options struct {
	// Trace, if not nil, gets a line for everything that happens.
	Trace func(line string)
}

// Result describes a run.
type Result struct {
	Events  int    // that the scheduler has carried out
	Trace   uint64 // hash of all that has happened
	Entries uint64 // that groups have applied
	// Counts says how often things have happened.
	Counts map[string]int
}

// Violation is something that must not be.
type Violation struct {
	Seed uint64
	What string
	At   time.Duration // virtual time
}

// Error implements error.
func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d, at %v: %s", v.Seed, v.At, v.What)
}

// event is something that will happen.
type event struct {
	at time.Duration
	n  uint64 // events of one time happen in the order in which they were planned
	do func()
}

type agenda []*event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].n < a[j].n
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(*event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	return e
}

// world is a run.
type world struct {
	seed    uint64
	opts    Options
	rng     *rand.Rand
	now     time.Duration
	agenda  agenda
	planned uint64
	calm    bool // no more faults
	plan    plan
	net     network
	nodes   []*node          // all that there ever were
	owner   map[uint64]*node // machine of each replica id; a replica has its id in all groups that split off
	clients []*client
	oracle  oracle
	counts  map[string]int
	trace   interface {
		Write([]byte) (int, error)
		Sum64() uint64
	}
	events   int
	admin    admin
	region   region
	defaults defaults

	nextReplica, nextGroup uint64
}

// plan is what kinds of faults a run has, and how often: each run another mixture.
type plan struct {
	drop, duplicate                                   float64       // of messages
	late                                              float64       // of messages: by seconds
	latency                                           time.Duration // mean
	syncTime                                          time.Duration // mean
	faultEvery                                        time.Duration // mean time between faults
	until                                             time.Duration // when faults end
	crash, cut, slow, clock, truncate, lose, transfer int           // weights
	split, move, failSync, full, decay                int           // weights
	clients, ops, groups, machines                    int
	far                                               int           // machines in another region, with readers
	promote                                           time.Duration // when the other region is lost; 0: never
	window                                            uint64
	keep                                              uint64
	keepBytes                                         int64
	logFile                                           int64
	memory                                            int64
}

// Run makes a run. The error is a *Violation.
func Run(seed uint64, o Options) (res Result, err error) {
	w := &world{seed: seed, opts: o, rng: rand.New(rand.NewPCG(seed, 0x5eed)), counts: make(map[string]int), trace: fnv.New64a(), owner: make(map[uint64]*node)}
	defer func() {
		for _, n := range w.nodes {
			n.abandon()
		}
		res = Result{Events: w.events, Trace: w.trace.Sum64(), Entries: w.oracle.entries(), Counts: w.counts}
		if r := recover(); r != nil {
			v, ok := r.(*Violation)
			if !ok {
				panic(r)
			}
			err = v
		}
	}()
	w.begin()
	for w.planned = 0; ; {
		if w.agenda.Len() == 0 {
			w.violated("nothing is left to happen")
		}
		e := heap.Pop(&w.agenda).(*event)
		w.now = e.at
		w.events++
		e.do()
		if w.finished() {
			break
		}
		if w.events > maxEvents {
			w.violated("no progress: %s", w.state())
		}
	}
	w.oracle.judge(w)
	return res, nil
}

// maxEvents ends a run that comes to no end.
const maxEvents = 400_000

// violated ends the run.
func (w *world) violated(format string, args ...any) {
	panic(&Violation{Seed: w.seed, At: w.now, What: fmt.Sprintf(format, args...)})
}

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	if w.opts.Trace == nil {
		fmt.Fprintf(w.trace, "%d ", w.now)
		fmt.Fprintf(w.trace, format, args...)
		return
	}
	line := fmt.Sprintf(format, args...)
	fmt.Fprintf(w.trace, "%d ", w.now)
	w.trace.Write([]byte(line))
	w.opts.Trace(fmt.Sprintf("%12v %s", w.now, line))
}

// after plans something.
func (w *world) after(d time.Duration, do func()) {
	w.planned++
	heap.Push(&w.agenda, &event{at: w.now + max(d, 0), n: w.planned, do: do})
}

// about returns a random duration with a mean.
func (w *world) about(mean time.Duration) time.Duration {
	return time.Duration(w.rng.ExpFloat64() * float64(mean))
}

// chance returns true with a probability.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// oneOf returns one of n things, by their weights.
func (w *world) oneOf(weights ...int) int {
	sum := 0
	for _, n := range weights {
		sum += n
	}
	at := w.rng.IntN(max(sum, 1))
	for i, n := range weights {
		if at -= n; at < 0 {
			return i
		}
	}
	return 0
}

func (w *world) begin() {
	r := w.rng
	pick := func(of ...float64) float64 { return of[r.IntN(len(of))] }
	w.plan = plan{
		drop: pick(0, 0, 0.01, 0.1), duplicate: pick(0, 0.1, 0.5), late: pick(0.01, 0.05, 0.3),
		latency: time.Duration(pick(1, 5, 20) * float64(time.Millisecond)), syncTime: time.Duration(pick(0.5, 5, 30) * float64(time.Millisecond)),
		faultEvery: time.Duration(pick(0.2, 0.5, 1, 3) * float64(time.Second)), until: time.Duration(pick(10, 20, 30) * float64(time.Second)),
		crash: r.IntN(4), cut: r.IntN(4), slow: r.IntN(5), clock: r.IntN(2), truncate: r.IntN(6), lose: r.IntN(2), transfer: r.IntN(2),
		clients: 2 + r.IntN(4), ops: 20 + r.IntN(80),
		window: uint64(pick(20, 100, 1000)), keep: uint64(pick(0, 0, 5, 50)), keepBytes: int64(pick(0, 1<<20)), logFile: 64 << 10, memory: int64(pick(1, 1000, 1<<20)),
	}
	w.plan.split, w.plan.move, w.plan.groups, w.plan.machines = r.IntN(4), r.IntN(3), 1+r.IntN(5), 3+r.IntN(3)
	w.plan.failSync, w.plan.full, w.plan.decay = r.IntN(2), r.IntN(2), r.IntN(2)
	if w.chance(0.3) {
		w.plan.far = 1 + r.IntN(2)
		w.plan.promote = w.plan.until/4 + time.Duration(r.Int64N(int64(w.plan.until/2)))
	}
	w.region.w, w.region.parents = w, make(map[uint64]parent)
	w.net.begin(w)
	w.defaults.begin(w)
	voters := []uint64{1, 2, 3}
	w.nextReplica, w.nextGroup = 4, firstGroup
	for range w.plan.machines {
		n := w.newNode()
		if len(w.nodes) <= len(voters) {
			w.owner[n.id] = n
			n.create(voters)
		} else {
			n.create(nil)
		}
	}
	for range w.plan.far {
		n := w.newNode()
		n.far = true
		n.create(nil)
	}
	w.oracle.begin()
	for _, n := range w.nodes {
		n.start()
	}
	w.admin.begin(w)
	first := w.newClient(w.plan.clients)
	first.makeCounters(0, func() {
		for i := range w.plan.clients {
			c := w.newClient(i)
			w.after(w.about(time.Second), c.next)
		}
	})
	w.planFault()
	if w.plan.promote > 0 {
		w.after(w.plan.promote, w.loseRegion)
	}
	w.after(w.plan.until, w.quiet)
}

func (w *world) emptyDisk() *vfs.Mem { return vfs.NewMem() }

// replica returns a replica of a group that runs, nil if it does not.
func (w *world) replica(gid, id uint64) *replica {
	n := w.owner[id]
	if n == nil {
		return nil
	}
	if r := n.replicaOf(gid); r != nil && r.id == id {
		return r
	}
	return nil
}

// leader returns the replica that leads a group, of several that claim it the newest; nil:
// none does.
func (w *world) leader(gid uint64) (found *replica) {
	for _, n := range w.nodes {
		if r := n.replicaOf(gid); r != nil && n.present() && r.group.IsLeader() && (found == nil || r.group.Term() > found.group.Term()) {
			found = r
		}
	}
	return found
}

// quiet ends the faults: machines run, the network delivers.
func (w *world) quiet() {
	w.calm = true
	w.note("calm")
	w.net.heal()
	for _, n := range w.nodes {
		n.stallUntil, n.fullUntil = w.now, w.now
		n.crashIn, n.failSync = 0, false
		if !n.up && !n.lost && !n.away {
			n.start()
		}
	}
}

// finished reports whether all is done: the clients, the members, and each replica has come
// to the newest entry of its group.
func (w *world) finished() bool {
	if !w.calm || w.events%16 != 0 {
		return false
	}
	for _, c := range w.clients {
		if !c.finished {
			return false
		}
	}
	for _, n := range w.nodes {
		if !n.up && !n.lost {
			return false
		}
	}
	return w.region.settled() && w.admin.settled()
}

// describe describes a replica, for messages.
func (r *replica) describe() string {
	span, epoch := r.group.Range()
	return fmt.Sprintf("group %d replica %d [%.8s, %.8s) epoch %d applied %d held %d leader %d term %d config %v; ",
		r.gid, r.id, span.Min, span.Max, epoch, r.group.Applied(), r.group.Held(), r.group.Leader(), r.group.Term(), r.group.Config())
}

// state describes the run, for messages.
func (w *world) state() string {
	var b strings.Builder
	for _, n := range w.nodes {
		fmt.Fprintf(&b, "node %d up %v lost %v: ", n.id, n.up, n.lost)
		if n.up {
			b.WriteString(n.describe())
		}
		b.WriteString("\n")
	}
	for _, c := range w.clients {
		fmt.Fprintf(&b, "client %d finished %v; ", c.id, c.finished)
	}
	fmt.Fprintf(&b, "admin %+v", w.admin.describe())
	return b.String()
}

// planFault plans the next fault.
func (w *world) planFault() {
	w.after(w.about(w.plan.faultEvery), func() {
		if w.calm {
			return
		}
		w.fault()
		w.planFault()
	})
}

func (w *world) fault() {
	p := &w.plan
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	gids := w.oracle.gids()
	l := w.leader(gids[w.rng.IntN(len(gids))])
	if l != nil && w.chance(0.4) { // what happens to a leader tells more
		n = l.node
	}
	if w.region.deciding {
		return
	}
	kind := w.oneOf(p.crash, p.cut, p.slow, p.clock, p.truncate, p.lose, p.transfer, p.split, p.move, p.failSync, p.full, p.decay)
	switch kind {
	case 0:
		if n.up {
			n.crashSomehow()
		}
	case 1:
		w.net.cut(n.id)
	case 2:
		if n.up {
			n.stallUntil = w.now + w.about(time.Second)
			w.note("node %d: disk stalls until %v", n.id, n.stallUntil)
			w.counts["stalls"]++
		}
	case 3:
		n.clock = time.Duration(w.rng.Int64N(int64(4*time.Minute))) - 2*time.Minute
		w.note("node %d: clock is set to %v", n.id, n.clock)
		w.counts["clocks"]++
	case 4:
		for _, r := range n.replicas {
			if n.up && !r.gone() {
				r.truncate()
			}
		}
	case 5:
		if !n.far && w.region.incarnation == 0 { // later groups may have one replica
			w.admin.lose(n)
		}
	case 6:
		if l != nil {
			conf := l.group.Config().GetVoters()
			if len(conf) == 0 {
				break
			}
			to := conf[w.rng.IntN(len(conf))]
			w.note("group %d: replica %d hands over to %d", l.gid, l.id, to)
			w.counts["transfers"]++
			if err := l.group.HandOver(to, w.chance(0.7)); !errors.Is(err, group.ErrBusy) {
				l.check(err)
			}
			l.pump()
		}
	case 7:
		if l != nil {
			w.admin.split(l)
		}
	case 8:
		if l != nil {
			w.admin.move(l)
		}
	case 9:
		w.note("node %d: its next sync fails", n.id)
		n.failSync = true
	case 10:
		n.fullUntil = w.now + w.about(2*time.Second)
		w.note("node %d: its disk is full until %v", n.id, n.fullUntil)
		w.counts["full disks"]++
	case 11:
		if !n.far && w.region.incarnation == 0 { // later groups may have one replica
			w.admin.decay(n)
		}
	}
}
