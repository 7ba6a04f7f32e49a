package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/internal/memnet"
	"github.com/cleavestore/cleave/replica/raftlog"
	"github.com/cleavestore/cleave/replica/transport"
	"github.com/cleavestore/cleave/wal"
)

// rig is a cluster in a bubble: real hosts and stores on disks and a network in memory.
type rig struct {
	t       testing.TB
	net     memnet.Network
	cluster *cluster.Cluster
	creds   map[uint64]*transport.Credentials
	disks   map[uint64]*vfs.Mem // without the stores
	stores  map[uint64]*vfs.Mem
	faulty  map[uint64]*vfs.Faulty
	hosts   map[uint64]*Host
	all     []*Host
	acked   map[string]int // newest number of each item that was acknowledged
	number  int
	serve   func(context.Context, *Host, *transport.Conn)
	stopAt  func(*vfs.Faulty)        // nil: no disk stops
	slow    map[uint64]*atomic.Int64 // by which time the clock of a node's store is behind
	ahead   map[uint64]*atomic.Int64 // by which time the wall clock of a node is ahead of its monotonic one
	clocks  map[uint64]time.Duration // by which time the clock of a node's commands is ahead; negative: behind

	keep      uint64 // what logs keep, see Config; 0: one entry, and the default
	keepBytes int64

	truncateBytes uint64
}

func address(id uint64) string { return fmt.Sprintf("node%d:1", id) }

// newRig starts a cluster of three nodes.
func newRig(t testing.TB, partitions int) *rig {
	t.Helper()
	return newServingRig(t, partitions, nil)
}

func newServingRig(t testing.TB, partitions int, serve func(context.Context, *Host, *transport.Conn)) *rig {
	t.Helper()
	r := &rig{t: t, serve: serve, creds: make(map[uint64]*transport.Credentials), disks: make(map[uint64]*vfs.Mem), stores: make(map[uint64]*vfs.Mem), faulty: make(map[uint64]*vfs.Faulty), hosts: make(map[uint64]*Host), acked: make(map[string]int), slow: make(map[uint64]*atomic.Int64), ahead: make(map[uint64]*atomic.Int64), clocks: make(map[uint64]time.Duration)}
	r.cluster = &cluster.Cluster{Containers: []cluster.Container{{Name: "items", PartitionKey: []string{"/k"}, Partitions: partitions}}}
	dir := t.TempDir()
	a, err := transport.NewAuthority(dir, time.Now())
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "client"), 0o700))
	must(t, a.IssueClient(filepath.Join(dir, "client"), time.Now()))
	r.creds[0], err = transport.LoadCredentials(filepath.Join(dir, "client"))
	must(t, err)
	for id := uint64(1); id <= 4; id++ {
		d := filepath.Join(dir, fmt.Sprint(id))
		must(t, os.Mkdir(d, 0o700))
		must(t, a.IssueNode(d, id, time.Now()))
		r.creds[id], err = transport.LoadCredentials(d)
		must(t, err)
		if id <= 3 { // the fourth one joins later
			r.cluster.Nodes = append(r.cluster.Nodes, cluster.Node{ID: id, Address: address(id)})
		}
		r.disks[id], r.stores[id], r.slow[id], r.ahead[id] = vfs.NewMem(), vfs.NewMem(), new(atomic.Int64), new(atomic.Int64)
		must(t, initOn(r.disks[id], id))
	}
	t.Cleanup(func() {
		for _, h := range r.all {
			if !h.closing.Load() {
				r.end(h)
			}
		}
	})
	for id := uint64(1); id <= 3; id++ {
		must(t, r.start(id))
	}
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts a node on its disk.
func (r *rig) start(id uint64) error {
	disk, store := vfs.NewFaulty(r.disks[id]), r.stores[id]
	r.faulty[id] = disk
	if r.stopAt != nil {
		r.stopAt(disk)
	}
	begun := time.Now()
	o := &engine.Options{MemoryBudget: 16 << 20, LogFileBytes: 256 << 10, LogBytes: 2 << 20, ExpiryGrace: time.Second}
	clock := func() time.Time { return time.Now().Add(-time.Duration(r.slow[id].Load())) }
	testenv.Put(o, &testenv.Env{
		FS: func() vfs.FS { return store }, Clock: clock, Steady: func() time.Duration { return time.Since(begun) }, Pause: func(time.Duration) {},
		Opened: func(testenv.Store) func() { return func() {} }, Watch: func(testenv.Store, string) func() func() { return nil },
	})
	peers := make(map[uint64]string)
	for o := range r.disks {
		if o != id {
			peers[o] = address(o)
		}
	}
	h, err := Open(context.Background(), Config{
		Node: id, Cluster: r.cluster, Dir: "store", Engine: o, Workers: 2, fs: disk, keepEntries: cmp.Or(r.keep, 1), keepBytes: r.keepBytes, keepFiles: 1, truncateBytes: r.truncateBytes, Client: r.serve,
		Clock: func() time.Time { return time.Now().Add(time.Duration(r.ahead[id].Load()) + r.clocks[id]) },
		Network: func(handler transport.Handler) (Network, error) {
			return transport.New(transport.Config{Node: id, Credentials: r.creds[id], Incarnation: r.cluster.Incarnation, Peers: peers, Listener: r.net.Listen(address(id)), Dial: r.net.Dialer(address(id)), Handler: handler}), nil
		},
	})
	if err == nil {
		r.hosts[id], r.all = h, append(r.all, h)
	}
	return err
}

// kill ends a node as kill -9 does: what it has not written is lost, nobody is told.
func (r *rig) kill(id uint64) {
	r.net.Kill(address(id))
	image, store := r.disks[id].Kill(), r.stores[id].Kill()
	h := r.hosts[id]
	delete(r.hosts, id)
	r.end(h)
	r.disks[id], r.stores[id] = image, store
}

// end ends a host without a word to anybody.
func (r *rig) end(h *Host) {
	h.closing.Store(true)
	h.net.Close()
	h.halt()
	for _, p := range h.replicas.all() {
		p.close()
	}
	_ = h.closeStores() // of a disk that nobody sees any more
}

func (r *rig) close() {
	for _, h := range r.hosts {
		if err := h.Close(); err != nil {
			r.t.Errorf("node %d: %v", h.Node(), err)
		}
	}
}

// groupOf returns the group of a key: of those that claim it, the one with the newest change.
func (r *rig) groupOf(key engine.PartitionKey) (id uint64) {
	epk, newest := key.EPK(), uint64(0)
	for _, h := range r.hosts {
		for _, g := range h.Groups() {
			if d := h.Group(g); d != nil && d.Range.Contains(&epk) && d.Epoch > newest {
				id, newest = g, d.Epoch
			}
		}
	}
	return id
}

// keyIn returns a partition key of the n-th group.
func (r *rig) keyIn(n int) string {
	want := r.cluster.Groups()[n].Range
	for i := 0; ; i++ {
		k := fmt.Sprint("key", i)
		if epk := engine.StringKey(k).EPK(); want.Contains(&epk) {
			return k
		}
	}
}

// leader returns the host that leads a group, nil if none does.
func (r *rig) leader(id uint64) *Host {
	for _, h := range r.hosts {
		if leads(h, id) {
			return h
		}
	}
	return nil
}

func leads(h *Host, id uint64) bool {
	leads, _ := h.Leads(id)
	return leads
}

// put writes an item until it is acknowledged, for at most some time.
func (r *rig) put(key string, most time.Duration) {
	r.t.Helper()
	r.number++
	c := command.Command{Batches: []command.Batch{{Key: engine.StringKey(key), Operations: []command.Operation{
		{Kind: command.Upsert, Body: fmt.Appendf(nil, `{"id":"i","k":%q,"n":%d}`, key, r.number)},
	}}}}
	rand.Read(c.ID[:])
	var last error
	for begun := time.Now(); time.Since(begun) < most; {
		id := r.groupOf(engine.StringKey(key))
		h := r.leader(id)
		if h == nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if c.After == 0 {
			_, c.After = h.Leader(id)
		}
		done := make(chan group.Outcome, 1)
		again := c
		h.Propose(id, &again, func(o group.Outcome) { done <- o })
		o := <-done
		if o.Err == nil {
			if !o.Duplicate && o.Results[0].Err != nil {
				r.t.Fatalf("%+v", o)
			}
			r.acked[key] = r.number
			return
		}
		last = o.Err
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("%s was not written in %v: %v", key, most, last)
}

// check reads every acknowledged write, linearizably, at every node that has a replica.
func (r *rig) check() {
	r.t.Helper()
	for node, h := range r.hosts {
		c, err := h.DB().Container("items")
		must(r.t, err)
		for key, n := range r.acked {
			id := r.groupOf(engine.StringKey(key))
			if h.Group(id) == nil {
				continue
			}
			done := make(chan error, 1)
			h.Confirm(id, func(err error) { done <- err })
			select {
			case err := <-done:
				must(r.t, err)
			case <-time.After(30 * time.Second):
				r.t.Fatalf("node %d: a read of %s is not confirmed", node, key)
			}
			it, err := c.Read(context.Background(), engine.StringKey(key), "i")
			if want := fmt.Sprintf(`{"id":"i","k":%q,"n":%d}`, key, n); err != nil || string(it.Body) != want {
				r.t.Errorf("node %d: %s is %s, %v, want %s", node, key, it.Body, err, want)
			}
		}
	}
}

// steady waits until each group is led by its preferred node.
func (r *rig) steady() {
	r.t.Helper()
	for range 600 {
		missing := 0
		for _, g := range r.cluster.Groups() {
			if h := r.leader(g.ID); h == nil || h.Node() != g.Replicas[0] {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.t.Fatal("leaders have not come to their nodes")
}

// TestWritesAndReads: writes to all groups are seen by reads at all nodes, also after a restart
// of all, and each group comes to its preferred leader.
func TestWritesAndReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		for i := range 4 {
			r.put(r.keyIn(i), 5*time.Second)
		}
		r.check()
		r.steady()
		for i := range 20 {
			r.put(r.keyIn(i%4), time.Second)
		}
		r.check()
		r.close()
		for id := range r.hosts {
			must(t, r.start(id))
		}
		r.put(r.keyIn(1), 5*time.Second)
		r.check()
		for _, h := range r.hosts {
			s := h.Status()
			if len(s.Groups) != 4 || s.Leaderless != 0 || len(s.Peers) != 3 || !s.Peers[0].Connected || s.Failure != "" {
				t.Errorf("%+v", s)
			}
		}
		r.close()
	})
}

// TestFollowersHear: what was committed last is told to the followers without a later write, long
// before a heartbeat would tell it.
func TestFollowersHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		for range 5 {
			r.put(r.keyIn(0), time.Second)
			time.Sleep(3 * lateTime)
			id := r.cluster.Groups()[0].ID
			_, want := r.leader(id).Leader(id)
			for node, h := range r.hosts {
				if _, applied := h.Leader(id); applied != want {
					t.Errorf("node %d has applied entry %d, the leader %d", node, applied, want)
				}
			}
		}
		r.close()
	})
}

// TestKillOfLeader: all groups of a node that is killed write again within a second. The node
// comes back and has everything.
func TestKillOfLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 6)
		r.steady()
		for round := range uint64(3) {
			for i := range 6 {
				r.put(r.keyIn(i), 5*time.Second)
			}
			victim := round + 1
			r.kill(victim)
			begun := time.Now()
			for i := range 6 {
				r.put(r.keyIn(i), 5*time.Second)
			}
			if d := time.Since(begun); d > time.Second {
				t.Errorf("node %d: writes again after %v", victim, d)
			}
			must(t, r.start(victim))
			r.check()
			r.steady()
		}
		r.close()
	})
}

// TestBlackhole: a node that the others do not hear any more is replaced as the leader within
// four seconds, though its connections are open.
func TestBlackhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.steady()
		first := r.hosts[1]
		r.net.Blackhole(address(1), true)
		begun := time.Now()
		delete(r.hosts, 1) // it takes itself for the leader for a while
		for i := range 3 {
			r.put(r.keyIn(i), 4*time.Second)
		}
		if d := time.Since(begun); d > 4*time.Second {
			t.Errorf("writes again after %v", d)
		}
		// What it answers from now on it must have asked the others for, so it answers nothing.
		confirmed := make(chan error, 1)
		first.Confirm(r.groupOf(engine.StringKey(r.keyIn(0))), func(err error) { confirmed <- err })
		select {
		case err := <-confirmed:
			t.Errorf("a node that hears nobody confirms a read: %v", err)
		case <-time.After(5 * time.Second):
		}
		r.net.Blackhole(address(1), false)
		r.hosts[1] = first
		r.check()
		r.close()
	})
}

// TestReadsWithoutLeader: reads that are asked for again and again while there is no leader do not pile up. Those that wait
// are answered when there is one.
func TestReadsWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		r.kill(1)
		r.kill(2)
		h, id := r.hosts[3], r.cluster.Groups()[0].ID
		o := h.replicas.get(id)
		r.until("no leader", func() bool { return o.status.leader.Load() == 0 })
		var done, busy atomic.Int64
		ask := func() {
			h.Confirm(id, func(err error) {
				done.Add(1)
				if errors.Is(err, group.ErrBusy) {
					busy.Add(1)
				}
			})
		}
		const asked = 3 * maxInbox
		for n := range asked {
			if ask(); n%(maxInbox/2) == 0 {
				time.Sleep(2 * h.cfg.Tick)
			}
		}
		held := 0
		o.await(func() { held = len(o.reads.waiting) + len(o.reads.round) })
		if held > maxInbox || busy.Load() != int64(asked-held) || done.Load() != busy.Load() {
			t.Errorf("%d reads wait, %d of %d were told that they are too many", held, busy.Load(), asked)
		}
		must(t, r.start(2))
		r.until("all are answered", func() bool { return done.Load() == asked })
		if busy.Load() != int64(asked-held) {
			t.Errorf("%d were told that they are too many", busy.Load())
		}
		must(t, r.start(1))
		r.close()
	})
}

// TestStalledDisk: a node whose Raft log takes long for a sync gives its leaderships away.
func TestStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.steady()
		until := time.Now().Add(20 * time.Second)
		r.faulty[1].SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpSync && strings.HasPrefix(c.Name, logDir+"/") {
				time.Sleep(time.Until(until))
			}
			return nil
		})
		begun := time.Now()
		for i := range 3 {
			r.put(r.keyIn(i), 4*time.Second)
		}
		if d := time.Since(begun); d > 4*time.Second {
			t.Errorf("writes again after %v", d)
		}
		time.Sleep(time.Until(until))
		r.check()
		r.close()
	})
}

// TestFailedLog: a Raft log that fails while nobody waits for it ends the node when it is needed next. The node may be started
// again.
func TestFailedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		r.put(r.keyIn(0), time.Second)
		synctest.Wait()
		r.faulty[2].SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpSync && strings.HasPrefix(c.Name, logDir+"/") {
				return syscall.EIO
			}
			return nil
		})
		time.Sleep(5 * janitorTime) // it vouches for the log
		r.faulty[2].SetHook(nil)
		select {
		case <-r.hosts[2].Failed():
			t.Error("it has ended, though nobody has waited for its log")
		default:
		}
		r.put(r.keyIn(0), time.Second)
		select {
		case <-r.hosts[2].Failed():
		case <-time.After(10 * time.Second):
			t.Error("it goes on without a log")
		}
		r.kill(2)
		must(t, r.start(2))
		r.put(r.keyIn(0), 5*time.Second)
		r.check()
		r.close()
	})
}

// TestPlannedClose: a node that is closed hands its groups over, and no write waits long.
func TestPlannedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 6)
		r.steady()
		leaving := r.hosts[1]
		done := make(chan error)
		go func() { done <- leaving.Close() }()
		for i := range 60 {
			r.put(r.keyIn(i%6), 200*time.Millisecond)
		}
		must(t, <-done)
		if leaving.leads() {
			t.Error("it still leads")
		}
		leaving.Propose(r.cluster.Groups()[0].ID, new(command.Command), func(o group.Outcome) {
			if o.Err == nil {
				t.Error("it takes proposals")
			}
		})
		delete(r.hosts, 1)
		r.check()
		r.close()
	})
}

// truncate truncates the logs of all nodes, once they wait no more, by the time of the bubble, for one that is away.
func (r *rig) truncate() {
	r.t.Helper()
	time.Sleep(3 * time.Second)
	for _, h := range r.hosts {
		must(r.t, h.truncate(h.replicas.all()))
	}
}

// TestCatchUp: a node that was away while the others truncated their logs gets snapshots.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.steady()
		r.kill(3)
		for i := range 30 {
			r.put(r.keyIn(i%3), 5*time.Second)
		}
		r.truncate()
		must(t, r.start(3))
		r.check()
		for _, p := range r.hosts[3].replicas.all() {
			if first := r.hosts[3].log.Group(p.def.ID).Base().Index; first <= group.Bootstrap {
				t.Errorf("group %d: its log begins at %d, so it has got no snapshot", p.def.ID, first)
			}
		}
		synctest.Wait() // what received the snapshots removes its files
		if names, err := r.disks[3].List(incomingDir); err != nil || len(names) > 0 {
			t.Errorf("left: %v, %v", names, err)
		}
		r.close()
	})
}

// pad writes an item with text to a group.
func (r *rig) pad(id uint64, key, text string) {
	r.t.Helper()
	c := command.Command{Batches: []command.Batch{{Key: engine.StringKey(key), Operations: []command.Operation{
		{Kind: command.Upsert, Body: fmt.Appendf(nil, `{"id":"pad","k":%q,"pad":%q}`, key, text)},
	}}}}
	rand.Read(c.ID[:])
	h := r.leading(id)
	_, c.After = h.Leader(id)
	done := make(chan group.Outcome, 1)
	h.Propose(id, &c, func(o group.Outcome) { done <- o })
	must(r.t, (<-done).Err)
}

// TestIdleGroupKeepsNoFiles: a group that is not written to any more does not keep the log files of the others, though
// its log is short.
func TestIdleGroupKeepsNoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.keep, r.keepBytes = defaultKeep, 128<<10
		r.close()
		for id := uint64(1); id <= 3; id++ {
			must(t, r.start(id))
		}
		idle, busy := r.keyIn(0), r.keyIn(1)
		for range 3 {
			r.put(idle, 5*time.Second)
		}
		pad := strings.Repeat("x", 64<<10)
		id := r.groupOf(engine.StringKey(busy))
		for round := 1; round <= 10*allRounds; round++ {
			r.pad(id, busy, pad)
			time.Sleep(10 * time.Millisecond) // the others have applied it
			for _, h := range r.hosts {
				must(t, h.truncate(h.grown(round)))
			}
		}
		for node, disk := range r.disks {
			names, err := disk.List(logDir)
			if node == 4 {
				continue
			}
			must(t, err)
			first := slices.IndexFunc(names, func(name string) bool { n, ok := wal.ParseFileName(name); return ok && n <= 2 })
			if first >= 0 {
				t.Errorf("node %d has the log files %v", node, names)
			}
		}
		r.check()
		for id := range r.hosts {
			r.kill(id)
			must(t, r.start(id))
		}
		r.put(idle, 5*time.Second)
		r.check()
		r.close()
	})
}

// TestLostLog: a node that has been started does not come back without its log, and a
// directory without its mark is not a node's.
func TestLostLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.put(r.keyIn(0), 5*time.Second)
		r.kill(2)
		disk := r.disks[2].Clone()
		for _, name := range disk.Names() {
			if strings.HasPrefix(name, logDir+"/") {
				must(t, r.disks[2].Remove(name))
			}
		}
		if err := r.start(2); !errors.Is(err, raftlog.ErrLost) || !strings.Contains(err.Error(), "new node id") {
			t.Errorf("without a log: %v", err)
		}
		r.disks[2] = disk.Clone()
		must(t, r.disks[2].Remove(identityName))
		if err := r.start(2); !errors.Is(err, ErrIdentity) {
			t.Errorf("without a mark: %v", err)
		}
		must(t, initOn(r.disks[2], 3))
		if err := r.start(2); !errors.Is(err, ErrIdentity) {
			t.Errorf("with the mark of another node: %v", err)
		}
		r.disks[2] = disk
		must(t, r.start(2))
		r.check()
		r.close()
	})
}

// TestReopenFails: a replica that has failed and cannot be opened again refuses writes and reads in such a way that clients ask the
// other ones.
func TestReopenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		id := r.cluster.Groups()[0].ID
		o := r.hosts[1].replicas.get(id)
		o.log.Base().State[0] = 99 // as of a newer program
		o.await(func() { o.fail(fmt.Errorf("%w: a test", group.ErrFailed)) })
		time.Sleep(3 * reopenTime)
		if failed := o.status.failed.Load(); failed == nil || !errors.Is(*failed, engine.ErrTooNew) {
			t.Fatal("it was opened again")
		}
		done := make(chan group.Outcome, 1)
		c := r.hosts[1].emptyCommand(1)
		r.hosts[1].Propose(id, c, func(out group.Outcome) { done <- out })
		if out := <-done; !errors.Is(out.Err, group.ErrFailed) || !errors.Is(out.Err, engine.ErrTooNew) {
			t.Errorf("%v", out.Err)
		}
		read := make(chan error, 1)
		r.hosts[1].Confirm(id, func(err error) { read <- err })
		select {
		case err := <-read:
			if !errors.Is(err, group.ErrFailed) {
				t.Errorf("a read: %v", err)
			}
		case <-time.After(time.Second):
			t.Error("a read waits")
		}
		r.put(r.keyIn(0), 20*time.Second)
		r.close()
	})
}
