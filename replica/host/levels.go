package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/topology"
)

// Fresh is what a read demands of a replica.
type Fresh struct {
	// Index is an entry that the partition must have.
	Index uint64
	// Age, if above 0, is how long before the call the newest write may have been acknowledged
	// that the read does not see, and Entries how many entries the partition may lack of those
	// that the replica has in its log.
	Age     time.Duration
	Entries uint64
}

// Hold is the partition of a replica while it is read.
type Hold struct {
	c  *engine.Container
	id engine.PartitionID
}

// Hold returns the partition of a group's replica here. Call it before a read, and Index
// behind it. group.ErrBusy: the replica is new here, and has no
// partition before its first snapshot.
func (h *Host) Hold(id uint64) (Hold, error) {
	r := h.replicas.get(id)
	if r == nil {
		return Hold{}, ErrNoGroup
	}
	c, err := h.db.Container(r.def.Container)
	if err != nil {
		return Hold{}, err
	}
	p := engine.PartitionID(r.status.partition.Load())
	if p == 0 {
		return Hold{}, fmt.Errorf("group %d has no partition here yet: %w", id, group.ErrBusy)
	}
	return Hold{c, p}, nil
}

// Index returns an entry up to which a read may have seen the partition, at most: it has seen
// nothing of a later one. group.ErrBusy: the partition has been split or replaced since Hold, so
// it is not known of which group the read has seen what.
func (o Hold) Index() (uint64, error) {
	at, err := o.c.AppliedIndex(o.id)
	if errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrNotHere) || errors.Is(err, engine.ErrClosed) {
		err = fmt.Errorf("the partition has changed during the read: %w", group.ErrBusy)
	}
	return at, err
}

// Await calls done when the replica here is as fresh as a read demands. It must not wait. What
// the replica lacks it gets by a round of Confirm; if it knows no leader, done gets group.ErrBusy.
func (h *Host) Await(id uint64, f Fresh, done func(error)) {
	r := h.replicas.get(id)
	if r == nil {
		done(ErrNoGroup)
		return
	}
	held := r.status.held.Load()
	fresh := held >= f.Index
	if f.Age > 0 {
		since := r.status.confirmed.Load()
		fresh = fresh && since != nil && h.age(since) <= f.Age && r.status.known.Load() <= held+f.Entries
	}
	switch {
	case fresh:
		done(nil)
	case r.status.leader.Load() == 0:
		done(fmt.Errorf("the replica knows no leader: %w", group.ErrBusy))
	default:
		h.Confirm(id, done)
	}
}

// moment is a time of this machine, by two clocks. The monotonic one stands still while the machine is suspended, and the wall clock
// may be set back.
type moment struct {
	steady time.Duration // since the host was opened
	wall   time.Time
}

func (h *Host) moment() moment { return moment{time.Since(h.began), h.cfg.Clock().Round(0)} }

// age returns how long ago a moment was, by the clock that says more.
func (h *Host) age(m *moment) time.Duration {
	now := h.moment()
	return max(now.steady-m.steady, now.wall.Sub(m.wall))
}

// confirmTicks is how often a reader has a quorum confirm that it has everything.
const confirmTicks = 20

// keepConfirmed is called at each tick. A replica that is a reader knows so, and tells, how much of what was
// acknowledged it may lack: if the voters are lost, that is what is lost with them. That it hears of
// its leader does not tell that: of heartbeats it hears while it waits for a snapshot too.
func (r *replica) keepConfirmed() {
	if r.g == nil || !topology.IsReader(r.g.Replica()) || r.g.IsLeader() || r.g.Applied() == 0 {
		return
	}
	if r.reader++; r.reader%confirmTicks == 0 && len(r.reads.round)+len(r.reads.waiting) == 0 {
		r.reads.waiting = append(r.reads.waiting, r.noting(func(error) {}))
	}
}

// noting returns done, which also notes that the partition has all that was acknowledged until
// now.
func (r *replica) noting(done func(error)) func(error) {
	begun := r.h.moment()
	return func(err error) {
		if err == nil {
			for {
				before := r.status.confirmed.Load()
				if before != nil && begun.steady <= before.steady || r.status.confirmed.CompareAndSwap(before, &begun) {
					break
				}
			}
		}
		done(err)
	}
}
