package lsm

import (
	"cmp"
	"time"

	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/tiers"
)

// share returns the share of a processor that the output should get.
func (o *output) share() float64 {
	d := pacing.Debts{Files: o.rewrites}
	if o.compacts {
		d.Runs = tiers.Backlog(o.t.Version.Load().Ages())
	} else {
		d.Buffers = float64(o.t.Env.Pool.Used()) / float64(o.t.Env.Pool.Limit())
	}
	return d.Share()
}

// piece is what an output has done since it last yielded.
type piece struct {
	items int
	from  int64 // size of the present file at its beginning
	even  bool
}

// pieceBytes bounds a piece of large items, and how long they keep others waiting: 64 documents
// of 16 KiB take milliseconds to write.
const pieceBytes = 128 << 10

// Step is called before each item that is read. It yields after a piece of work, and a compaction
// keeps to its pace.
func (o *output) Step() error {
	size := int64(0)
	if o.w != nil {
		size = o.w.Size()
	}
	if o.piece.items++; o.piece.items < pacing.Piece && size-o.piece.from < pieceBytes {
		return nil
	}
	o.piece.items, o.piece.from, o.piece.even = 0, size, !o.piece.even
	if err := o.yield(); err != nil || !o.compacts || !o.piece.even {
		return err
	}
	return o.pace()
}

// yield pauses the output, so that other work can run, and lets nested compactions in. It
// returns ErrMoved if the partition was dropped, the context's error if that has ended.
func (o *output) yield() error {
	o.pacer.Pause(o.share())
	o.letIn()
	if o.t.Dropped.Load() {
		return ErrMoved
	}
	return o.ctx.Err()
}

// pace pauses a compaction while flushes are behind, and keeps it to its rate. It
// returns ErrMoved if the partition was dropped.
func (o *output) pace() error {
	for !o.pacer.Behind(o.share()) && o.t.Env.Crowded() {
		if err := pacing.Sleep(o.ctx, giveWay); err != nil {
			return err
		}
		if o.t.Dropped.Load() {
			return ErrMoved
		}
	}
	rate := cmp.Or(o.rate, o.t.Env.CompactionRate)
	if rate == nil || o.w == nil {
		return nil
	}
	written := float64(o.w.Size() - o.paced)
	o.paced = o.w.Size()
	for written > 0 {
		taken, until := rate.Take(written)
		if err := pacing.Sleep(o.ctx, time.Until(until)); err != nil {
			return err
		}
		written -= taken
		o.letIn()
		if o.t.Dropped.Load() {
			return ErrMoved
		}
	}
	return nil
}

// giveWay is how long a compaction pauses at a time while flushes need the processors, and it is
// not behind its share. It checks for that after every other piece.
const giveWay = time.Millisecond
