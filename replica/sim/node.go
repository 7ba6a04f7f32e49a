package sim

import (
	"context"
	"errors"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/raftlog"
)

const (
	tick       = 100 * time.Millisecond
	firstGroup = 1
	logDir     = "raft"
)

// epoch is the time at which a run begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// node is a machine with replicas of several groups, which share a store and a log.
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
	lost    bool // its log or its store is lost: it does not come back
	flipped bool // bits of its disk were flipped
	far     bool // it is in the region of the readers
	away    bool // its region is lost: it does not come back by itself
	// incarnation is that of the cluster of which the machine has the description.
	incarnation int
	ticks       int

	failSync  bool          // the next sync fails
	fullUntil time.Duration // the disk is full
	broken    bool          // a call of the file system has failed in this life

	slow       time.Duration // mean time that it takes to apply entries
	clock      time.Duration // by which it is ahead
	stallUntil time.Duration

	db       *engine.DB
	c        *engine.Container
	log      *raftlog.Store
	replicas []*replica // by group

	appends []written // not durable
	syncing bool
}

// written is an append that is in the log, and whose it is.
type written struct {
	r *replica
	a *group.Append
}

func (w *world) newNode() *node {
	n := &node{w: w, id: uint64(len(w.nodes)) + 1}
	n.setDisk(vfs.NewMem())
	n.clock = time.Duration(w.rng.Int64N(int64(time.Second)))
	n.slow = []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}[w.rng.IntN(3)]
	n.incarnation = w.region.incarnation
	w.nodes = append(w.nodes, n)
	return n
}

// present reports whether the machine is of the present incarnation.
func (n *node) present() bool { return n.incarnation == n.w.region.incarnation }

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

func (n *node) setDisk(mem *vfs.Mem) {
	n.abandon()
	n.mem, n.disk, n.image, n.crashIn = mem, vfs.NewFaulty(mem), nil, 0
	n.failSync, n.broken = false, false
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
	o := &engine.Options{MemoryBudget: 16 << 20, LogFileBytes: 64 << 10, LogBytes: 512 << 10, FileBytes: 32 << 10, MaxPartitionBytes: -1}
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
	def := engine.ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Replicated: true, DefaultTTL: engine.NoExpiry, MutableTTL: n.w.defaults.change()}
	if n.c, err = n.db.EnsureContainer(ctx, "items", def); err != nil {
		return err
	}
	n.log, err = raftlog.Open(ctx, n.disk, logDir, raftlog.Options{FirstFileBytes: n.w.plan.logFile, MaxFileBytes: n.w.plan.logFile, MemoryBytes: n.w.plan.memory, Fresh: fresh})
	return err
}

// create makes the store and the log of a machine: with the first group, or with nothing.
func (n *node) create(voters []uint64) {
	err := n.openStores(true)
	if err == nil && len(voters) > 0 {
		_, err = n.log.Create(firstGroup, n.id, group.FirstBase(voters, n.w.plan.window))
	} else if err == nil {
		err = n.c.Evict(context.Background(), n.c.Partitions()[0].ID)
	}
	if err == nil {
		err = errors.Join(n.log.Close(), n.db.Close())
	}
	if err != nil {
		n.w.violated("node %d: create: %v", n.id, err)
	}
}

// start starts the machine.
func (n *node) start() {
	w := n.w
	n.life++
	n.up = true
	n.appends, n.syncing, n.replicas = nil, false, nil
	err := n.openStores(false)
	if err == nil {
		for _, log := range n.log.Groups() {
			if err = n.open(log.ID()); err != nil {
				break
			}
		}
	}
	if err != nil {
		n.check(err)
		return
	}
	w.note("node %d: start", n.id)
	w.counts["starts"]++
	n.plan(time.Duration(w.rng.Int64N(int64(tick))), n.tick)
	for _, r := range n.replicas {
		r.pump()
	}
}

// openGroup opens a group. It is a group.Opener.
func (n *node) openGroup(ctx context.Context, log *raftlog.Group) (*group.Group, error) {
	cfg := group.Config{
		Log: log, DB: n.db, Container: n.c, Now: n.now,
		ElectionTicks: 10, HeartbeatTicks: 3, KeepEntries: n.w.plan.keep, KeepBytes: n.w.plan.keepBytes,
	}
	if log.ID() == firstGroup && log.Base().Index > 0 {
		cfg.Max = "FF"
	}
	return group.Open(ctx, cfg)
}

// open opens a replica whose log is there.
func (n *node) open(gid uint64) error {
	w := n.w
	r := &replica{node: n, gid: gid, proposals: make(map[command.ID]func(group.Outcome)), reads: make(map[group.ReadID]func())}
	log := n.log.Group(gid)
	var err error
	r.group, err = n.openGroup(context.Background(), log)
	if errors.Is(err, raftlog.ErrRemoved) {
		w.note("node %d: group %d: its removal is complete", n.id, gid)
		return nil
	} else if err != nil {
		return err
	}
	r.id = log.Replica()
	n.replicas = append(n.replicas, r)
	w.note("node %d: group %d, replica %d: open, applied %d, held %d, log bytes %d", n.id, gid, r.id, r.group.Applied(), r.group.Held(), log.Bytes())
	if n.present() {
		w.oracle.members(r)
	}
	return nil
}

// join makes an empty replica, for which a message has come; nil if it must not be made.
func (n *node) join(gid, id uint64) *replica {
	if !n.up || n.log.Group(gid) != nil {
		return nil
	}
	_, err := n.log.Create(gid, id, raftlog.Base{})
	if errors.Is(err, raftlog.ErrRemoved) {
		return nil
	}
	if n.check(err); err != nil {
		return nil
	}
	n.w.counts["joins"]++
	err = n.open(gid)
	n.check(err)
	return n.w.replica(gid, id)
}

// replicaOf returns the replica of a group, nil if there is none.
func (n *node) replicaOf(gid uint64) *replica {
	for _, r := range n.replicas {
		if n.up && r.gid == gid {
			return r
		}
	}
	return nil
}

// covering returns the replica that has a key, as far as it knows; nil: none has it. After a
// restart, until it has applied its entries again, a group may claim what has split off.
func (n *node) covering(key engine.PartitionKey) (found *replica) {
	epk, highest := key.EPK(), uint64(0)
	for _, r := range n.replicas {
		span, epoch := r.group.Range()
		if r.group.Held() == 0 || !span.Contains(&epk) {
			continue
		}
		if found != nil && found.caughtUp() && r.caughtUp() {
			n.w.violated("node %d: replicas of groups %d and %d have %s", n.id, found.gid, r.gid, key)
		}
		if epoch > highest {
			found, highest = r, epoch
		}
	}
	return found
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
	for _, r := range n.replicas {
		if !n.up {
			return
		}
		n.check(r.group.Tick())
		r.group.Hurry()
		r.pump()
	}
	if n.far {
		n.confirm()
	}
	// Clocks run fast and slow.
	n.plan(tick+time.Duration(n.w.rng.Int64N(int64(tick/10)))-tick/20, n.tick)
}

// check ends the run for an error that no fault explains. After one that a planned fault
// explains, the machine is down, or lost if its disk has decayed.
func (n *node) check(err error) {
	switch {
	case err == nil || !n.up:
	case n.image != nil:
		n.down(n.image)
	case n.flipped && !n.broken:
		n.w.note("node %d: lost: %v", n.id, err)
		n.giveUp()
	case n.broken:
		n.w.note("node %d: fails: %v", n.id, err)
		n.down(n.remains())
	default:
		n.w.violated("node %d: %v", n.id, err)
	}
}

// giveUp takes the machine out for good.
func (n *node) giveUp() {
	n.up, n.lost = false, true
	n.w.counts["lost"]++
	n.setDisk(n.mem.Kill())
}

// sync makes appends durable: those that were written when it begins, of all groups.
func (n *node) sync() {
	if n.syncing || len(n.appends) == 0 || !n.up {
		return
	}
	n.syncing = true
	some := n.appends
	n.appends = nil
	n.plan(max(n.w.about(n.w.plan.syncTime), n.stallUntil-n.w.now), func() {
		n.syncing = false
		for _, x := range some {
			if x.r.gone() {
				continue
			}
			err := n.log.Wait(x.a.Position)
			if err == nil {
				err = x.r.group.Written(x.a)
			}
			if n.check(err); !n.up {
				return
			}
		}
		for _, x := range some {
			x.r.pump()
		}
		n.sync()
	})
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
	n.w.note("node %d: will crash in %d changes of its disk", n.id, at)
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
	case vfs.OpSync, vfs.OpSyncDir:
		if n.failSync {
			n.failSync, n.broken = false, true
			n.w.counts["failed syncs"]++
			return syscall.EIO
		}
	case vfs.OpCreate, vfs.OpWrite, vfs.OpLink, vfs.OpMkdir, vfs.OpAllocate:
		if n.fullUntil > n.w.now {
			n.broken = true
			n.w.counts["calls on a full disk"]++
			return syscall.ENOSPC
		}
	case vfs.OpRename, vfs.OpRemove, vfs.OpTruncate:
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
	n.w.note("node %d: down", n.id)
	life := n.life
	again := func() {
		if !n.up && !n.lost && !n.away && n.life == life {
			n.start()
		}
	}
	if n.w.calm {
		n.w.after(0, again)
	} else {
		n.w.after(n.w.about(2*time.Second), again)
	}
}

// flip flips bits of files, of a machine that is down. It leaves the newest file of the Raft
// log alone: decay at the end of that cannot be told from a torn write (package raftlog).
func (n *node) flip() {
	w := n.w
	var names []string
	newest := ""
	for _, name := range n.mem.Names() {
		if strings.HasSuffix(name, "LOCK") {
			continue
		}
		if path.Dir(name) == logDir && strings.HasSuffix(name, ".log") {
			if newest != "" {
				names = append(names, newest)
			}
			newest = name
			continue
		}
		names = append(names, name)
	}
	n.flipped = true
	w.counts["flips"]++
	for range []int{1, 2, 20}[w.rng.IntN(3)] {
		name := names[w.rng.IntN(len(names))]
		b, err := n.mem.ReadFile(name)
		if err != nil {
			w.violated("%v", err)
		}
		if len(b) == 0 {
			continue
		}
		at := w.rng.IntN(len(b))
		b[at] ^= 1 << w.rng.IntN(8)
		if err := n.mem.WriteFile(name, b); err != nil {
			w.violated("%v", err)
		}
		w.note("node %d: %s: byte %d is flipped", n.id, name, at)
	}
}
