package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/topology"
)

const rightHalf = 1<<32 | 1000

// until waits until something is so.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("not so after a minute: ", what)
		}
	}
}

// leading waits for the leader of a group.
func (r *rig) leading(id uint64) (h *Host) {
	r.t.Helper()
	r.until("a leader", func() bool { h = r.leader(id); return h != nil })
	return h
}

// keysOf returns partition keys on both sides of a boundary.
func keysOf(spans ...topology.Group) (out []string) {
	for _, d := range spans {
		n := 0
		for i := 0; n < 3; i++ {
			k := "key" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			if epk := engine.StringKey(k).EPK(); d.Range.Contains(&epk) {
				out = append(out, k)
				n++
			}
		}
	}
	return out
}

func (r *rig) split(id, right uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return r.leading(id).Split(ctx, id, "", right)
}

// member returns the replica of a node, 0 if it has none.
func (r *rig) member(id, node uint64) (replica uint64, role topology.Role) {
	on, _ := r.leading(id).Group(id).On(topology.NodeID(node))
	return on.ID, on.Role
}

// move moves a replica from a node to another one.
func (r *rig) move(id, from, to uint64) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	added, err := r.leading(id).AddReplica(ctx, id, to)
	must(r.t, err)
	gone, _ := r.member(id, from)
	r.until("the move", func() bool {
		err := r.leading(id).Promote(ctx, id, added, gone)
		if err != nil && !errors.Is(err, ErrChange) && !errors.Is(err, group.ErrNotLeader) && !errors.Is(err, group.ErrBusy) {
			r.t.Fatal(err)
		}
		return err == nil
	})
}

// TestSplit: a group splits while it is written to. Each node has both halves, which go on after
// a restart of all, and what was acknowledged before and after is there.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.steady()
		left := r.cluster.Groups()[0].ID
		whole := r.hosts[1].Group(left)
		keys := keysOf(*whole)
		for _, k := range keys {
			r.put(k, time.Second)
		}
		must(t, r.split(left, rightHalf))
		r.until("all have the right half", func() bool {
			return !slices.ContainsFunc([]uint64{1, 2, 3}, func(n uint64) bool { return r.hosts[n].Group(rightHalf) == nil })
		})
		l, right := r.leading(left).Group(left), r.leading(rightHalf).Group(rightHalf)
		if l.Range.Min != whole.Range.Min || l.Range.Max != right.Range.Min || right.Range.Max != whole.Range.Max || l.Epoch != right.Epoch || l.Epoch <= whole.Epoch {
			t.Errorf("%+v split to %+v and %+v", whole, l, right)
		}
		keys = append(keys, keysOf(*l, *right)...)
		for _, k := range keys {
			r.put(k, 5*time.Second)
		}
		r.check()
		r.close()
		for id := range r.hosts {
			must(t, r.start(id))
		}
		for _, k := range keys {
			r.put(k, 5*time.Second)
		}
		r.check()
		if err := r.split(left, 2<<32|1); !errors.Is(err, group.ErrRange) {
			t.Errorf("a right half of another container: %v", err)
		}
		if err := r.split(left, rightHalf); err == nil {
			t.Error("the id of a group that is there was taken")
		}
		r.check()
		r.close()
	})
}

// TestSplitAgain: the entry of a split has no quorum yet. Another split that makes the same group is refused, of this group and of
// others, until that has come to its end. No key is in no group then.
func TestSplitAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		id := r.cluster.Groups()[0].ID
		h := r.leading(id)
		whole := h.Group(id).Range
		at := partmap.Midpoint(whole)
		r.net.Blackhole(address(h.Node()), true)
		for n, boundary := range []partmap.EPK{at, partmap.Midpoint(partmap.Range{Min: whole.Min, Max: at})} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err := h.Split(ctx, id, boundary.String(), rightHalf)
			cancel()
			if want := []error{context.DeadlineExceeded, group.ErrBusy}[n]; !errors.Is(err, want) {
				t.Errorf("split %d: %v", n+1, err)
			}
		}
		h.splits.Store(uint64(rightHalf+1), nil)
		if err := h.Split(t.Context(), id, "", rightHalf+1); !errors.Is(err, group.ErrBusy) {
			t.Errorf("a split off of a group that another call makes: %v", err)
		}
		r.net.Blackhole(address(h.Node()), false)
		r.until("the right half", func() bool { return r.leading(id).Group(rightHalf) != nil })
		if l, right := r.leading(id).Group(id).Range, r.leading(rightHalf).Group(rightHalf).Range; l.Max != at || right.Min != at || right.Max != whole.Max {
			t.Errorf("[%s, %s) and [%s, %s)", l.Min, l.Max, right.Min, right.Max)
		}
		r.close()
	})
}

// TestSplitClaimed: two nodes that lead one group each split off the same group at the same moment. One of the splits is refused,
// since the other one has claimed the id, and no replica stops.
func TestSplitClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.steady()
		var claims sync.Map
		for _, h := range r.hosts {
			h.cfg.Claim = func(_ context.Context, left, right uint64) error {
				if by, claimed := claims.LoadOrStore(right, left); claimed && by != left {
					return engine.ErrExists
				}
				return nil
			}
		}
		answers := make(chan error, 2)
		for _, g := range r.cluster.Groups() {
			h := r.leading(g.ID)
			go func() { answers <- h.Split(t.Context(), g.ID, "", rightHalf) }()
		}
		a, b := <-answers, <-answers
		// The node may have heard of the entry of the other one already.
		if no := cmp.Or(a, b); (a == nil) == (b == nil) || !errors.Is(no, engine.ErrExists) && !errors.Is(no, group.ErrBusy) {
			t.Errorf("the splits: %v; %v", a, b)
		}
		synctest.Wait()
		for node, h := range r.hosts {
			for _, g := range h.Status().Groups {
				if g.Error != "" {
					t.Errorf("node %d: group %d: %s", node, g.ID, g.Error)
				}
			}
		}
		for _, g := range r.cluster.Groups() {
			if err := r.split(g.ID, r.cluster.Groups()[0].ID); !errors.Is(err, engine.ErrExists) {
				t.Errorf("a right half with the id of a group of the description: %v", err)
			}
		}
		r.close()
	})
}

// TestPublishedInOrder: a read, which takes the partition of a replica first and then its range, does not find the partition of a
// half beside the range of the whole. Then it would answer for keys of the other half.
func TestPublishedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		o := r.hosts[1].replicas.get(r.cluster.Groups()[0].ID)
		var phase, found atomic.Int64 // odd: it is published
		var tasks sync.WaitGroup
		o.await(func() {
			half, whole := o.status.partition.Load(), *o.status.described.Load()
			whole.Epoch = 0
			tasks.Go(func() {
				for {
					n := phase.Load()
					if n < 0 {
						return
					}
					partition, d := o.status.partition.Load(), o.status.described.Load()
					if n%2 == 1 && partition == half && d == &whole && phase.Load() == n {
						found.Add(1)
					}
				}
			})
			for range 5000 {
				o.status.partition.Store(half + 1)
				o.status.described.Store(&whole)
				phase.Add(1)
				o.publish()
				phase.Add(1)
			}
			phase.Store(-1)
		})
		tasks.Wait()
		if found.Load() > 0 {
			t.Errorf("a read has found that %d times", found.Load())
		}
		r.close()
	})
}

// TestConfirmedBehindSplit: a replica has a read confirmed that waits for a split. That says nothing of the right half, to which
// others have written meanwhile: it is not as fresh as bounded staleness may demand.
func TestConfirmedBehindSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		left := r.cluster.Groups()[0].ID
		r.put(r.keyIn(0), time.Second)
		time.Sleep(time.Second)
		lagging := r.hosts[3]
		r.slow[3].Store(int64(time.Hour)) // it waits with what comes
		must(t, r.split(left, rightHalf))
		d := r.leading(rightHalf).Group(rightHalf)
		r.put(keysOf(*d)[0], 5*time.Second)
		written := lagging.moment()
		time.Sleep(10 * time.Second)
		confirmed := make(chan error, 1)
		lagging.Confirm(left, func(err error) { confirmed <- err })
		time.Sleep(lagging.cfg.Tick)
		for id := uint64(1); id <= 2; id++ { // it hears of nothing more
			r.net.Cut(address(id), address(3), true)
		}
		r.slow[3].Store(0)
		must(t, <-confirmed)
		synctest.Wait()
		right := lagging.replicas.get(rightHalf)
		if right == nil {
			t.Fatal("it has no right half")
		}
		if at := right.status.confirmed.Load(); at != nil && at.steady >= written.steady {
			t.Errorf("the right half counts as confirmed at %v, and lacks what was written at %v", at.steady, written.steady)
		}
		answered := make(chan error, 1)
		lagging.Await(rightHalf, Fresh{Age: 5 * time.Second, Entries: 1 << 40}, func(err error) { answered <- err })
		select {
		case err := <-answered:
			if err == nil {
				t.Error("it answers a read that is to see all that is older than five seconds")
			}
		default:
		}
		for id := uint64(1); id <= 2; id++ {
			r.net.Cut(address(id), address(3), false)
		}
		r.check()
		r.close()
	})
}

// TestSplitCrash kills one node at each of its changes of the disk during a split, in turn; it
// comes back and has both halves.
func TestSplitCrash(t *testing.T) {
	for _, victim := range []uint64{1, 2} {
		for at := 1; at <= 24; at++ {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.steady()
				left := r.cluster.Groups()[0].ID
				keys := keysOf(*r.hosts[1].Group(left))
				for _, k := range keys {
					r.put(k, time.Second)
				}
				stopped := make(chan struct{})
				count := 0
				r.faulty[victim].SetHook(func(c vfs.Call) error {
					switch c.Op {
					case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename, vfs.OpLink:
						if count++; count == at {
							close(stopped)
						}
						if count >= at {
							return vfs.ErrStopped
						}
					}
					return nil
				})
				leader := r.leading(left)
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				go func() {
					defer cancel()
					_ = leader.Split(ctx, left, "", rightHalf) // its node may die
				}()
				select {
				case <-stopped:
				case <-time.After(4 * time.Second):
				}
				<-ctx.Done()
				r.kill(victim)
				must(t, r.start(victim))
				if r.groupOf(engine.StringKey(keys[0])) != rightHalf && r.leading(left).replicas.get(rightHalf) == nil {
					must(t, r.split(left, rightHalf))
				}
				r.until("all have the right half", func() bool {
					for _, h := range r.hosts {
						if h.Group(rightHalf) == nil || h.Group(left).Range.Max != h.Group(rightHalf).Range.Min {
							return false
						}
					}
					return true
				})
				for _, k := range keys {
					r.put(k, 10*time.Second)
				}
				r.check()
				r.close()
			})
		}
	}
}

// TestMove: replicas move to a node that joins, one of them that of the leader, and back; the
// nodes that they leave destroy theirs, and nothing that was acknowledged is lost.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.steady()
		must(t, r.start(4))
		if n := len(r.hosts[4].Groups()); n > 0 {
			t.Fatalf("a node that joins has %d groups", n)
		}
		ids := []uint64{r.cluster.Groups()[0].ID, r.cluster.Groups()[1].ID}
		for i := range 10 {
			r.put(r.keyIn(i%2), time.Second)
		}
		leader := r.leading(ids[0]).Node()
		r.move(ids[0], leader, 4)
		r.put(r.keyIn(0), 5*time.Second)
		r.until("the replica is destroyed", func() bool { return r.hosts[leader].Group(ids[0]) == nil })
		if d := r.leading(ids[0]).Group(ids[0]); d.Voters() != 3 || len(d.Replicas) != 3 {
			t.Errorf("%+v", d)
		}
		r.move(ids[1], 2, 4)
		r.until("the other one too", func() bool { return r.hosts[2].Group(ids[1]) == nil })
		r.check()
		first, _ := r.member(ids[0], 4)
		r.move(ids[0], 4, leader)
		r.until("destroyed at node 4", func() bool { return r.hosts[4].Group(ids[0]) == nil })
		r.move(ids[0], leader, 4)
		if again, _ := r.member(ids[0], 4); again == first {
			t.Errorf("the node has replica %d again", again)
		}
		r.put(r.keyIn(0), 5*time.Second)
		// Restarted, all have what they had.
		r.until("destroyed once more", func() bool { return r.hosts[leader].Group(ids[0]) == nil })
		for id := range r.hosts {
			r.kill(id)
			must(t, r.start(id))
		}
		r.put(r.keyIn(0), 10*time.Second)
		r.put(r.keyIn(1), 10*time.Second)
		r.check()
		if r.hosts[leader].Group(ids[0]) != nil {
			t.Error("a replica that was destroyed is back")
		}
		r.close()
	})
}

// TestAllLeftWhileAway: a node was down while its replica was removed, and after it all others that this one knows. When it is
// back it learns of that all the same, and the group can come to it again.
func TestAllLeftWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		must(t, r.start(4))
		id := r.cluster.Groups()[0].ID
		r.put(r.keyIn(0), time.Second)
		r.kill(3)
		r.move(id, 1, 4)
		for _, gone := range []uint64{3, 2} {
			r.until("removed", func() bool { return r.leading(id).RemoveReplica(t.Context(), id, gone) == nil })
		}
		r.until("they have destroyed theirs", func() bool { return len(r.hosts[1].Groups())+len(r.hosts[2].Groups()) == 0 })
		must(t, r.start(3))
		r.until("it has destroyed its own", func() bool { return len(r.hosts[3].Groups()) == 0 })
		r.put(r.keyIn(0), 5*time.Second)
		_, err := r.leading(id).AddReplica(t.Context(), id, 3)
		must(t, err)
		r.until("it has one again", func() bool { return r.hosts[3].Group(id) != nil })
		r.check()
		r.close()
	})
}

// TestRemovedWhileAway: a node whose replica was removed while it was down destroys it when it is
// back. Another one, which was removed before it had its snapshot, goes too.
func TestRemovedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		must(t, r.start(4))
		id := r.cluster.Groups()[0].ID
		r.put(r.keyIn(0), time.Second)
		away := uint64(3)
		if r.leading(id).Node() == away {
			away = 2
		}
		r.kill(away)
		r.move(id, away, 4)
		r.put(r.keyIn(0), 5*time.Second)
		must(t, r.start(away))
		r.until("it has destroyed its replica", func() bool { return len(r.hosts[away].Groups()) == 0 })
		r.check()
		ctx := context.Background()
		added, err := r.leading(id).AddReplica(ctx, id, away)
		must(t, err)
		r.until("it has an empty one", func() bool { return len(r.hosts[away].Groups()) == 1 })
		r.until("removed", func() bool { return r.leading(id).RemoveReplica(ctx, id, added) == nil })
		r.until("it has destroyed that", func() bool { return len(r.hosts[away].Groups()) == 0 })
		if err := r.leading(id).Promote(ctx, id, added, 0); !errors.Is(err, ErrChange) {
			t.Errorf("a replica that was removed is to vote: %v", err)
		}
		r.put(r.keyIn(0), 5*time.Second)
		r.check()
		r.close()
	})
}

// TestSuspended: a machine was suspended, so that its monotonic clock stood still. What a replica there has had confirmed before is as
// old as the wall clock says; and as old as the monotonic clock says if the other one was set back.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		id, h := r.cluster.Groups()[0].ID, r.hosts[3]
		fresh := func() bool { // without a question to the others
			synctest.Wait() // nothing else runs meanwhile
			status := &h.replicas.get(id).status
			leader := status.leader.Swap(0) // so it has no one to ask
			defer status.leader.Store(leader)
			answer := errors.New("it waits")
			h.Await(id, Fresh{Age: 5 * time.Second, Entries: 1 << 40}, func(err error) { answer = err })
			return answer == nil
		}
		confirmed := func() {
			t.Helper()
			done := make(chan error, 1)
			h.Confirm(id, func(err error) { done <- err })
			must(t, <-done)
			if !fresh() {
				t.Error("just after a confirmation it is too old")
			}
		}
		confirmed()
		r.ahead[3].Store(int64(time.Hour))
		if fresh() {
			t.Error("after an hour's sleep it answers a read that is to see all that is older than five seconds")
		}
		for _, g := range h.Status().Groups {
			if *g.Confirmed < 3600 {
				t.Errorf("status: confirmed %v s ago", *g.Confirmed)
			}
		}
		time.Sleep(time.Second)
		confirmed()
		r.ahead[3].Store(0)
		if !fresh() {
			t.Error("after the clock was set back what was just confirmed is too old")
		}
		time.Sleep(6 * time.Second)
		if fresh() {
			t.Error("the clock was set back, and what was confirmed six seconds ago is not too old")
		}
		r.close()
	})
}
