package engine

import (
	"context"
	"sync"

	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// Snapshot is a container at one commit point of the store: it shows every
// write that was acknowledged before it was taken and none that began after.
// It holds back the reclaiming of overwritten versions until it is closed. It
// is safe for concurrent use.
type Snapshot struct {
	c            *Container
	seq          uint64
	installEpoch uint64        // installations in the container when it was taken
	cuts         []cut         // one for each partition, in key-space order; nil: seq holds
	past         lifetime.Past // which items have expired; the zero Past: by the clock
	admission    admission     // mayPass: of a transaction, which was admitted when it began
	by           pins.Reader
	pin          pins.Pin // of seq, unless there are cuts
	closed       sync.Once
	done         chan struct{}
	unwatch      func() // tells package cleavetest that the snapshot is closed
}

// Snapshot takes a snapshot of the container. It waits for writes that have
// their place in the order and are not yet durable. In a store that has failed they
// never become so: there it sees each physical partition as reads saw it then.
func (c *Container) Snapshot(ctx context.Context) (*Snapshot, error) {
	begin := c.db.watch("snapshot", c.name)
	s, err := inNewest(c, func(c *Container) (*Snapshot, error) { return c.snapshot(ctx, pins.Snapshot) })
	if begin != nil && err == nil {
		s.unwatch = begin()
	}
	return s, err
}

// snapshot is Snapshot for a kind of reader.
func (c *Container) snapshot(ctx context.Context, by pins.Reader) (*Snapshot, error) {
	call, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	db := c.db
	s := &Snapshot{c: c, by: by, done: make(chan struct{})}
	if c.def.Replicated {
		return s.takeCuts(c.routing.Load())
	}
	newest := func() uint64 { return lsm.MaxSequence }
	if db.log != nil {
		newest = db.log.LastSeq
	}
	s.pin = db.env.Pins.Take(by, newest, db.opts.clock())
	if s.seq = s.pin.Seq; db.log == nil {
		return s, nil
	}
	// A writer takes its sequence under the lock of its partition. So once each lock was
	// free, all writes up to this sequence are applied and noted.
	var last, synced wal.Position
	parts := c.routing.Load().parts
	for _, p := range parts {
		newest, _ := p.Newest()
		last, synced = max(last, newest.Pos), max(synced, newest.Need)
	}
	err = db.env.Await(last, synced)
	for i := 0; i < len(parts) && err == nil; i++ {
		err = parts[i].Publish(s.seq)
	}
	if err == nil {
		return s, nil
	}
	db.env.Pins.Release(s.pin)
	if !s.ofFailed() {
		return nil, err
	}
	s.seq = 0
	return s.takeCuts(c.routing.Load())
}

// ofFailed says that it is of a store that has failed, and shows what is visible there. A copy needs
// more: all that has its place in the order.
func (s *Snapshot) ofFailed() bool { return s.by == pins.Snapshot && s.c.db.failure.Load() != nil }

// Seq returns the sequence of the newest write that the snapshot can show.
func (s *Snapshot) Seq() uint64 {
	if s.seq == lsm.MaxSequence { // of a store that is open read-only: all that it has
		return s.c.db.storeManifest.state.LastSeq
	}
	return s.seq
}

// Close releases the snapshot; later calls on it return ErrClosed, and so do those under way
// that would go on to read. It may be called more than once.
func (s *Snapshot) Close() error {
	s.closed.Do(func() {
		close(s.done)
		s.release()
		if s.unwatch != nil {
			s.unwatch()
		}
	})
	return nil
}

// release releases what the snapshot pins.
func (s *Snapshot) release() {
	if s.cuts == nil {
		s.c.db.env.Pins.Release(s.pin)
	}
	s.releaseCuts()
}

func (s *Snapshot) releaseCuts() {
	for _, cut := range s.cuts {
		s.c.db.env.Pins.Release(cut.pin)
	}
}

// cut is the sequence at which a snapshot sees a physical partition: of a replicated
// container, where each partition has its own sequences, or where not all that has its place in
// the order may be shown.
type cut struct {
	end          partmap.EPK // of its range
	pin          pins.Pin
	installEpoch uint64
}

// takeCuts takes a snapshot partition by partition, of those that the container has, or of those that have replaced them.
func (s *Snapshot) takeCuts(rt *routing) (*Snapshot, error) {
	for _, p := range rt.parts {
		c, _, err := p.takeCut(s.by)
		if err != nil && s.ofFailed() {
			c.pin = s.c.db.env.Pins.Take(s.by, p.Visible.Load, s.c.db.opts.clock())
		} else if err != nil {
			s.releaseCuts()
			return nil, err
		}
		s.cuts = append(s.cuts, c)
		if s.seq = max(s.seq, c.pin.Seq); p.Dropped.Load() { // before the cut was pinned its successors may have dropped what it sees
			s.releaseCuts()
			if s.cuts, s.seq = nil, 0; s.c.dropped.Load() {
				return nil, s.c.gone()
			}
			return s.takeCuts(s.c.routing.Load())
		}
	}
	return s, nil
}

// takeCut pins the newest sequence of the partition, waits until everything up to it may
// be shown, and returns the entry that it belongs to.
func (p *partition) takeCut(by pins.Reader) (cut, manifest.Applied, error) {
	db := p.db
	c := cut{end: p.Range.Max, installEpoch: p.InstallEpoch}
	// While a sequence is pinned, the versions that it sees are kept. What is newer comes after the lock.
	p.Commit.Lock()
	newest, at := p.NewestLocked(), p.Commit.Applied
	c.pin = db.env.Pins.Take(by, func() uint64 { return newest.Seq }, db.opts.clock())
	p.Commit.Unlock()
	err := p.Show(newest)
	if err != nil {
		db.env.Pins.Release(c.pin)
	}
	return c, at, err
}

// cutAt returns the sequence at which the snapshot sees the physical partition
// that begins at a place, and the installations in the container when it was
// taken.
func (s *Snapshot) cutAt(at *partmap.EPK) (seq, installEpoch uint64) {
	for i := range s.cuts {
		if at.Compare(&s.cuts[i].end) < 0 {
			return s.cuts[i].pin.Seq, s.cuts[i].installEpoch
		}
	}
	return s.seq, s.installEpoch
}

// view returns the view that the snapshot has of a logical partition.
func (s *Snapshot) view(pk PartitionKey) view {
	v := s.whole()
	if s.cuts != nil {
		epk := pk.EPK()
		v.at, v.installEpoch = s.cutAt(&epk)
	}
	return v
}

// whole is view where all partitions are seen at one sequence.
func (s *Snapshot) whole() view { return view{s.seq, s.installEpoch, s.past, s.admission} }

func (s *Snapshot) check() error {
	select {
	case <-s.done:
		return ErrClosed
	default:
		return nil
	}
}
