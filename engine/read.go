package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/trace"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// Read returns an item, or ErrNotFound with an Item of which only Charge is set.
func (c *Container) Read(ctx context.Context, pk PartitionKey, id string) (Item, error) {
	return c.read(ctx, pk, id, mayRefuse, nil)
}

// ReadInto is Read with the document appended to buf. Item.Body shares the memory of
// buf: nothing is allocated if buf has room.
func (c *Container) ReadInto(ctx context.Context, pk PartitionKey, id string, buf []byte) (Item, error) {
	return c.read(ctx, pk, id, mayRefuse, buf)
}

// ReadIf is Read, but if the item still has the etag not, it returns ErrNotModified and
// an Item without a Body.
func (c *Container) ReadIf(ctx context.Context, pk PartitionKey, id string, not ETag) (Item, error) {
	it, err := c.read(ctx, pk, id, mayRefuse, nil)
	if err == nil && it.ETag == not {
		return Item{Meta: it.Meta}, ErrNotModified
	}
	return it, err
}

var borrowed = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Borrow calls fn with an item whose Body is valid only until fn returns: its buffer is
// used again. No lock or file is held while fn runs. Borrow returns fn's error, or
// ErrNotFound without calling fn, which costs 1 RU.
func (c *Container) Borrow(ctx context.Context, pk PartitionKey, id string, fn func(Item) error) error {
	if fn == nil {
		return invalidf("Borrow: no function is given")
	}
	buf := borrowed.Get().(*[]byte)
	defer borrowed.Put(buf)
	it, err := c.read(ctx, pk, id, mayRefuse, (*buf)[:0])
	if err != nil {
		return err
	}
	if cap(it.Body) <= 256<<10 {
		*buf = it.Body[:0]
	}
	return fn(it)
}

// Read returns an item as of the snapshot, or ErrNotFound.
func (s *Snapshot) Read(ctx context.Context, pk PartitionKey, id string) (Item, error) {
	return s.ReadInto(ctx, pk, id, nil)
}

// ReadInto is Read with the document appended to buf.
func (s *Snapshot) ReadInto(ctx context.Context, pk PartitionKey, id string, buf []byte) (Item, error) {
	return s.read(ctx, pk, id, mayRefuse, buf)
}

func (s *Snapshot) read(ctx context.Context, pk PartitionKey, id string, how admission, buf []byte) (Item, error) {
	if err := s.check(); err != nil {
		return Item{}, err
	}
	pk = s.c.keys.Own(pk)
	epk := pk.EPK()
	at := s.view(pk)
	at.admission = max(at.admission, how)
	it, err := s.c.readAt(ctx, pk, &epk, id, at, buf)
	if closed := s.check(); closed != nil { // what was not found may be gone since
		return Item{}, closed
	}
	return it, err
}

func (c *Container) read(ctx context.Context, pk PartitionKey, id string, how admission, buf []byte) (Item, error) {
	if trace.IsEnabled() {
		return c.readTraced(ctx, pk, id, how, buf)
	}
	state, call, err := c.enterNewest(ctx)
	if err != nil {
		return Item{}, err
	}
	defer call.Leave()
	pk = state.keys.Own(pk)
	epk := pk.EPK()
	return state.readEntered(pk, &epk, id, view{at: lsm.MaxSequence, installEpoch: lsm.MaxSequence, admission: how}, buf)
}

// readTraced is read in a region of a trace, apart from read for the deferred call.
func (c *Container) readTraced(ctx context.Context, pk PartitionKey, id string, how admission, buf []byte) (Item, error) {
	defer trace.StartRegion(ctx, "cleave.read").End()
	state, call, err := c.enterNewest(ctx)
	if err != nil {
		return Item{}, err
	}
	defer call.Leave()
	pk = state.keys.Own(pk)
	epk := pk.EPK()
	return state.readEntered(pk, &epk, id, view{at: lsm.MaxSequence, installEpoch: lsm.MaxSequence, admission: how}, buf)
}

// enterNewest begins a call in the newest state of the store.
func (c *Container) enterNewest(ctx context.Context) (state *Container, call epoch.Guard, err error) {
	state = c.now()
	if call, err = state.db.enter(ctx); err == nil && !state.dropped.Load() {
		return state, call, nil
	}
	call, err = state.unlessDropped(call, err)
	for c.outlived(state, err) {
		state = c.now()
		call, err = state.enter(ctx)
	}
	return state, call, err
}

// view is the state of the store that a read sees.
type view struct {
	at           uint64        // sequence
	installEpoch uint64        // partition.installEpoch when at was taken: a higher one is ErrReplaced
	past         lifetime.Past // which items have expired; the zero Past: the present
	admission    admission
}

// readAt is read with a view, that of a reader under way.
func (c *Container) readAt(ctx context.Context, pk PartitionKey, epk *partmap.EPK, id string, at view, buf []byte) (Item, error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "cleave.read").End()
	}
	call, err := c.enterAgain(ctx)
	if err != nil {
		return Item{}, err
	}
	defer call.Leave()
	return c.readEntered(pk, epk, id, at, buf)
}

// readWaiting is readAt for a call that was admitted: it waits where it would be refused.
func (c *Container) readWaiting(ctx context.Context, pk PartitionKey, epk *partmap.EPK, id string, at view, buf []byte) (it Item, err error) {
	at.admission = max(at.admission, mayWait)
	err = c.db.patiently(ctx, func() (err error) {
		it, err = c.readAt(ctx, pk, epk, id, at, buf)
		return err
	})
	return it, err
}

// get looks up the newest version of a key that is visible at or below maxSeq.
func (p *partition) get(k *item.Key, epk *partmap.EPK, maxSeq uint64, dst []byte, out *item.Version) ([]byte, bool, error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	// The version is loaded before the sequence: a visible write that this version does
	// not have was made after the version was loaded.
	v := p.Version.Load()
	return v.Lookup(k, epk, min(maxSeq, p.Visible.Load()), dst, false, out)
}

// readEntered reads an item. epk is the EPK of pk. The caller has entered the
// container.
func (c *Container) readEntered(pk PartitionKey, epk *partmap.EPK, id string, as view, buf []byte) (Item, error) {
	if epk.Levels() != c.levels() { // also for the zero key
		return Item{}, c.checkPartitionKey(pk)
	}
	if err := c.checkID(id); err != nil {
		return Item{}, err
	}
	db := c.db
	draw := rand.Uint32()
	var watch stopwatch
	if db.times.calls.Timed(latency.Read, draw) {
		watch = db.start()
	}
	encoded := pk.Encoded()
	k := item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: encoded, ID: bytesOf(id)}
	var ver item.Version
	var out []byte
	var err error
	n := len(buf)
	found := false
	var p *partition
	for routed := false; !routed; {
		if p, err = c.route(encoded, epk, as.admission); err != nil {
			return Item{}, err
		}
		if out, found, err = p.get(&k, epk, as.at, buf, &ver); err != nil {
			return Item{}, db.readError(err)
		}
		// Others that have replaced the partition may not show yet what it shows, or its version may be empty.
		if routed = !p.Replaced() && (found || !p.Dropped.Load()); !routed && c.dropped.Load() {
			return Item{}, c.gone()
		}
	}
	if p.InstallEpoch > as.installEpoch {
		return Item{}, ErrReplaced
	}
	db.counters.reads.Add(1)
	gone := !found || !ver.IsDocument()
	if !gone && (ver.Expires != 0 || as.past.Before != 0 || p.Life.Ages()) {
		past := as.past
		if past == (lifetime.Past{}) {
			past = p.Past()
		}
		gone = past.Gone(&ver)
	}
	if gone {
		if err := p.here(); err != nil {
			return Item{}, err
		}
		p.spendDrawn(encoded, cost.Failed, draw)
		if watch.runs {
			c.ended(latency.Read, watch, p, epk, waits{}, ErrNotFound)
		}
		return Item{Meta: Meta{Charge: cost.Failed}}, ErrNotFound
	}
	charge := cost.Read(len(out) - n)
	p.spendDrawn(encoded, charge, draw)
	if watch.runs {
		c.ended(latency.Read, watch, p, epk, waits{}, nil)
	}
	return Item{
		Meta: Meta{Key: pk, ID: id, ETag: ETag(ver.Seq), Seq: ver.Seq, Modified: time.UnixMilli(ver.Modified), Expires: c.expires(pk, ver.Modified, ver.Expires), Charge: charge},
		Body: out[n:],
	}, nil
}

// readError reports an error of the storage layers that a read met.
func (db *DB) readError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrThrottled) {
		return err // the stored data are not at fault
	}
	if _, ok := errors.AsType[*LimitError](err); ok {
		return err
	}
	db.counters.readErrors.Add(1)
	db.opts.Logger.Error("read failed", "error", err)
	notify(db, db.opts.Events.CorruptionFound, err)
	if errors.Is(err, ErrCorrupt) {
		db.env.CompactSoon() // if an index is damaged, its file is written anew
	}
	return fmt.Errorf("read: %w", err)
}
