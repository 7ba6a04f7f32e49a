package sim

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/raftlog"
)

const (
	tick    = 100 * time.Millisecond
	groupID = 1
	logDir  = "raft"
)

// epoch is the time at which a run begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// containerDef is that of the container.
var containerDef = engine.ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Replicated: true}

// node is a machine with one replica.
type node struct {
	w     *world
	id    uint64
	mem   *vfs.Mem
	disk  *vfs.Faulty // on mem
	image *vfs.Mem    // what a crash in the middle of things has left; nil: none came
	// crashIn is the number of changes of the disk until such a crash; 0: none is planned.
	crashIn int
	life    int // lives so far: what was planned for an earlier one does not happen
	up      bool
	lost    bool // its log is lost: it does not come back

	slow       time.Duration // mean time that it takes to apply entries
	clock      time.Duration // by which it is ahead
	stallUntil time.Duration

	db    *engine.DB
	c     *engine.Container
	log   *raftlog.Store
	group *group.Group

	appends  []*group.Append // written, not durable
	syncing  bool
	applies  []*group.Apply
	applying bool

	proposals map[command.ID]func(group.Outcome)
	reads     map[group.ReadID]func()
}

func (w *world) newNode(id uint64) *node {
	n := &node{w: w, id: id}
	n.setDisk(newDisk())
	n.clock = time.Duration(w.rng.Int64N(int64(time.Second)))
	n.slow = []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}[w.rng.IntN(3)]
	w.nodes = append(w.nodes, n)
	return n
}

// node returns the machine of a replica, nil if there is none.
func (w *world) node(id uint64) *node {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// abandon closes what a process that has died had open, on a disk that nobody sees any more.
func (n *node) abandon() {
	if n.db != nil {
		_ = n.db.Close()
	}
	if n.log != nil {
		_ = n.log.Close()
	}
	n.db, n.log = nil, nil
}

func newDisk() *vfs.Mem { return vfs.NewMem() }

func (n *node) setDisk(mem *vfs.Mem) {
	n.abandon()
	n.mem, n.disk, n.image, n.crashIn = mem, vfs.NewFaulty(mem), nil, 0
	life := n.disk
	life.SetHook(func(c vfs.Call) error {
		if n.disk != life {
			return vfs.ErrStopped // of a process that has died
		}
		return n.before(c)
	})
}

func (n *node) now() time.Time { return epoch.Add(n.w.now + n.clock) }

// openStores opens the store and the log.
func (n *node) openStores(fresh bool) error {
	o := &engine.Options{MemoryBudget: 16 << 20, LogFileBytes: 64 << 10, FileBytes: 32 << 10, MaxPartitionBytes: -1}
	testenv.Put(o, &testenv.Env{
		FS: func() vfs.FS { return n.disk }, Clock: n.now, Steady: func() time.Duration { return n.w.now },
		Pause: func(time.Duration) {}, Manual: true,
		Opened: func(testenv.Store) func() { return func() {} },
		Watch:  func(testenv.Store, string) func() func() { return nil },
	})
	ctx := context.Background()
	var err error
	if n.db, err = engine.Open(ctx, "store", o); err != nil {
		return err
	}
	if n.c, err = n.db.EnsureContainer(ctx, "items", containerDef); err != nil {
		return err
	}
	n.log, err = raftlog.Open(ctx, n.disk, logDir, raftlog.Options{FirstFileBytes: n.w.plan.logFile, MaxFileBytes: n.w.plan.logFile, MemoryBytes: n.w.plan.memory, Fresh: fresh})
	return err
}

// create makes the store and the log of a replica. Without voters it joins a group.
func (n *node) create(voters []uint64) {
	var base raftlog.Base
	if len(voters) > 0 {
		base = group.FirstBase(voters, n.w.plan.window)
	}
	err := n.openStores(true)
	if err == nil {
		_, err = n.log.Create(groupID, n.id, base)
	}
	if err == nil {
		err = errors.Join(n.log.Close(), n.db.Close())
	}
	if err != nil {
		n.w.violated("replica %d: create: %v", n.id, err)
	}
}

// start starts the machine.
func (n *node) start() {
	w := n.w
	n.life++
	n.up = true
	n.appends, n.applies, n.syncing, n.applying = nil, nil, false, false
	n.proposals, n.reads = make(map[command.ID]func(group.Outcome)), make(map[group.ReadID]func())
	err := n.openStores(false)
	if err == nil {
		p := n.c.Partitions()[0]
		n.group, err = group.Open(context.Background(), group.Config{
			Log: n.log.Group(groupID), DB: n.db, Container: n.c, Min: p.Min, Max: p.Max, Now: n.now,
			ElectionTicks: 10, HeartbeatTicks: 3, KeepEntries: w.plan.keep, KeepBytes: w.plan.keepBytes,
		})
	}
	if err != nil {
		n.group = nil
		n.check(err)
		return
	}
	w.note("replica %d: start, applied %d, held %d, log bytes %d", n.id, n.group.Applied(), n.group.Held(), n.log.Group(groupID).Bytes())
	w.counts["starts"]++
	n.plan(time.Duration(w.rng.Int64N(int64(tick))), n.tick)
	n.pump()
}

// plan plans something for this life of the machine.
func (n *node) plan(d time.Duration, do func()) {
	life := n.life
	n.w.after(d, func() {
		if n.up && n.life == life {
			do()
		}
	})
}

func (n *node) tick() {
	n.check(n.group.Tick())
	n.pump()
	// Clocks run fast and slow.
	n.plan(tick+time.Duration(n.w.rng.Int64N(int64(tick/10)))-tick/20, n.tick)
}

// check ends the run for an error that no fault explains. After one that a planned crash
// explains, the machine is down.
func (n *node) check(err error) {
	switch {
	case err == nil || !n.up:
	case n.image != nil:
		n.down(n.image)
	default:
		n.w.violated("replica %d: %v", n.id, err)
	}
}

// pump does what the group has to do.
func (n *node) pump() {
	for n.up {
		work, err := n.group.Ready()
		n.check(err)
		if err != nil || work == nil {
			break
		}
		n.do(work)
	}
	if n.up && n.group.IsLeader() {
		n.w.oracle.leads(n.w, n.group.Term(), n.id)
	}
}

func (n *node) do(work *group.Work) {
	for _, m := range work.Send {
		n.w.net.send(m, nil)
	}
	for _, m := range work.Snapshots {
		n.sendSnapshot(m)
	}
	for _, r := range work.Reads {
		if f := n.reads[r.ID]; f != nil {
			delete(n.reads, r.ID)
			f()
		}
	}
	for _, o := range work.Outcomes {
		if f := n.proposals[o.ID]; f != nil {
			delete(n.proposals, o.ID)
			f(o)
		}
	}
	for _, a := range work.Appends {
		if !n.up {
			return
		}
		n.check(n.group.Write(context.Background(), a))
		n.appends = append(n.appends, a)
	}
	n.applies = append(n.applies, work.Applies...)
	n.sync()
	n.apply()
}

// sendSnapshot makes a snapshot and sends it.
func (n *node) sendSnapshot(m *pb.Message) {
	var b bytes.Buffer
	out, err := n.group.Export(context.Background(), m, &b)
	if errors.Is(err, group.ErrNoSnapshot) {
		n.check(n.group.ReportSnapshot(m.GetTo(), false))
		return
	}
	n.check(err)
	if err == nil {
		n.w.net.send(out, b.Bytes())
	}
}

// sync makes appends durable: those that were written when it begins.
func (n *node) sync() {
	if n.syncing || len(n.appends) == 0 || !n.up {
		return
	}
	n.syncing = true
	some := n.appends
	n.appends = nil
	n.plan(max(n.w.about(n.w.plan.syncTime), n.stallUntil-n.w.now), func() {
		n.syncing = false
		for _, a := range some {
			err := n.log.Wait(a.Position)
			if err == nil {
				err = n.group.Written(a)
			}
			if n.check(err); !n.up {
				return
			}
		}
		n.pump()
		n.sync()
	})
}

// apply applies the next entries.
func (n *node) apply() {
	if n.applying || len(n.applies) == 0 || !n.up {
		return
	}
	n.applying = true
	n.plan(n.w.about(n.slow), func() {
		n.applying = false
		a := n.applies[0]
		err := n.group.Apply(context.Background(), a)
		if errors.Is(err, group.ErrRetry) {
			n.w.counts["clock skews"]++
			n.plan(tick, n.apply)
			return
		}
		n.check(err)
		if !n.up {
			return
		}
		n.applies = n.applies[1:]
		n.w.oracle.applied(n, a.Entries())
		n.pump()
		n.apply()
	})
}

func (n *node) truncate() {
	before, _ := n.log.Group(groupID).FirstIndex()
	n.check(n.group.Truncate(context.Background()))
	if n.up {
		after, _ := n.log.Group(groupID).FirstIndex()
		n.w.note("replica %d: truncate, first entry %d, was %d", n.id, after, before)
		n.w.counts["truncations"]++
		n.pump()
	}
}

// crashSomehow crashes the machine: now, or at one of its next calls of the file system.
func (n *node) crashSomehow() {
	if n.w.chance(0.5) {
		n.crashSoon()
		return
	}
	n.w.counts["crashes"]++
	n.down(n.remains())
}

// crashSoon has the machine crash at one of its next calls of the file system.
func (n *node) crashSoon() {
	at := 1 + n.w.rng.IntN(25)
	n.w.note("replica %d: will crash in %d changes of its disk", n.id, at)
	n.w.counts["crashes"]++
	n.crashIn = at
}

// before is called before each call of the file system. It counts those that change the
// disk: how often files are read may depend on caches. From a crash on all calls fail.
func (n *node) before(c vfs.Call) error {
	if n.image != nil {
		return vfs.ErrStopped
	}
	switch c.Op {
	case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename, vfs.OpLink, vfs.OpRemove, vfs.OpMkdir, vfs.OpTruncate, vfs.OpAllocate:
	default:
		return nil
	}
	if n.crashIn == 0 {
		return nil
	}
	if n.crashIn--; n.crashIn > 0 {
		return nil
	}
	n.image = n.remains()
	return vfs.ErrStopped
}

// remains returns what a crash leaves of the disk: of the process, or of the power.
func (n *node) remains() *vfs.Mem {
	w := n.w
	switch w.rng.IntN(4) {
	case 0:
		return n.mem.Kill()
	case 1:
		return n.mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
	}
	return n.mem.Crash(vfs.CrashOptions{Keep: vfs.KeepRandom, TornLast: w.chance(0.5), Seed: w.rng.Uint64()})
}

// down ends a life, and plans the next one on what is left.
func (n *node) down(image *vfs.Mem) {
	n.up = false
	n.setDisk(image)
	n.w.note("replica %d: down", n.id)
	life := n.life
	again := func() {
		if !n.up && !n.lost && n.life == life {
			n.start()
		}
	}
	if n.w.calm {
		n.w.after(0, again)
	} else {
		n.w.after(n.w.about(2*time.Second), again)
	}
}

// digest returns a hash of the partition.
func (n *node) digest() uint64 {
	h := fnv.New64a()
	if _, err := n.c.ExportPartition(context.Background(), n.group.Partition(), h); err != nil {
		n.check(err)
	}
	return h.Sum64()
}
