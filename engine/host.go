package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/keylimits"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/partmap"
)

// host is a Container as queries and scans see it.
type host Container

func (c *Container) host() *host { return (*host)(c) }

func (h *host) container() *Container { return (*Container)(h) }

// Enter begins a call.
func (h *host) Enter(ctx context.Context) (exec.Call, error) {
	call, err := h.container().enterAgain(ctx)
	if err != nil {
		return exec.Call{}, err
	}
	return exec.Call{Store: call, State: h.db.env.Epoch.Enter()}, nil
}

// Find returns the partition that has a place of the key space.
func (h *host) Find(at partmap.EPK) exec.Part {
	rt := h.routing.Load()
	return rt.parts[rt.table.Find(&at)]
}

// FindBefore returns the partition that has the places just before end.
func (h *host) FindBefore(end partmap.EPK) exec.Part {
	rt := h.routing.Load()
	i := rt.table.Find(&end)
	if rt.parts[i].Range.Min.Compare(&end) >= 0 {
		i-- // the end does not belong to the range
	}
	return rt.parts[i]
}

// Parts returns the number of physical partitions.
func (h *host) Parts() int { return len(h.routing.Load().parts) }

// Levels returns the number of levels of partition keys.
func (h *host) Levels() int { return h.keys.Levels }

// Policy says what is indexed.
func (h *host) Policy() *index.Compiled { return h.family.Indexing.Load() }

// Pasts says which items of the partitions have expired now.
func (h *host) Pasts() func(partmap.EPK) lifetime.Past {
	past := h.life.Past(h.db.clockMillis())
	if !h.def.Replicated {
		return func(partmap.EPK) lifetime.Past { return past }
	}
	rt := h.routing.Load()
	var pasts []lifetime.Past
	for _, p := range rt.parts {
		pasts = append(pasts, p.Past())
	}
	return func(at partmap.EPK) lifetime.Past { return pasts[rt.table.Find(&at)] }
}

// PinAgain takes a pin once more.
func (h *host) PinAgain(at pins.Pin) { h.db.env.Pins.Again(at) }

// Unpin releases a pin.
func (h *host) Unpin(at pins.Pin) { h.db.env.Pins.Release(at) }

// Read reads an item as of a sequence.
func (h *host) Read(ctx context.Context, pk PartitionKey, id string, at, installEpoch uint64) (exec.Row, bool, error) {
	epk := pk.EPK()
	it, err := h.container().readWaiting(ctx, pk, &epk, id, view{at: at, installEpoch: installEpoch}, nil)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return exec.Row{}, false, err
	}
	row := exec.Row{Key: pk, ID: id, Seq: it.Seq, Modified: it.Modified.UnixMilli(), Charge: it.Charge, Body: it.Body}
	switch { // give leaves a time of its own as it is
	case !it.Expires.IsZero():
		row.Expires = it.Expires.UnixMilli()
	case h.life.Follows():
		row.Expires = lifetime.Never
	}
	return row, true, nil
}

// Sampled says whether to call Sample for an operation.
func (h *host) Sampled() bool { return h.db.sampled() }

// Wait waits as long as a *ThrottledError says.
func (h *host) Wait(ctx context.Context, err error) error { return h.db.untilAdmitted(ctx, err) }

// ReadError reports an error of the storage layers.
func (h *host) ReadError(err error) error { return h.db.readError(err) }

// Pin pins the newest visible sequence.
func (p *partition) Pin(by pins.Reader) (at pins.Pin, installEpoch uint64, ok bool) {
	at = p.db.env.Pins.Take(by, p.Visible.Load, p.db.opts.clock())
	if (p.Replaced() || p.Dropped.Load()) && !p.c.dropped.Load() {
		p.db.env.Pins.Release(at)
		return at, 0, false
	}
	return at, p.InstallEpoch, true
}

// Load returns the present version.
func (p *partition) Load(installEpoch uint64) (*lsm.Version, error) {
	v := p.Version.Load()
	if p.Dropped.Load() {
		return nil, p.gone() // v may be the empty version that retire put there
	}
	if err := p.here(); err != nil {
		return nil, err
	}
	if p.InstallEpoch > installEpoch {
		return nil, ErrReplaced
	}
	return v, nil
}

// Hold returns the present version and keeps its files readable until release is called.
func (p *partition) Hold() (*lsm.Version, func(), error) {
	v, release := p.PinVersion()
	if p.Dropped.Load() {
		release() // v may be empty
		return nil, nil, p.gone()
	}
	if err := p.here(); err != nil {
		release()
		return nil, nil, err
	}
	return v, release, nil
}

// Admit refuses a call while the balance of the partition, or of the logical partition
// pk, is overdrawn. A call on more than one has a nil pk. One that waits then is not counted.
func (p *partition) Admit(pk []byte, waits bool) error {
	ofKey := (*keylimits.Limits).Admit
	if waits {
		ofKey = (*keylimits.Limits).Wait
	}
	if pk != nil && p.c.limits.Metered() {
		if wait := ofKey(&p.c.limits, pk, p.db.uptime()); wait > 0 {
			return &ThrottledError{Partition: p.ID, Key: keyOf(string(pk)), RetryAfter: wait}
		}
	}
	if m := p.meter.Load(); m != nil {
		if wait := m.Wait(p.db.uptime()); wait > 0 {
			if !waits {
				p.c.throttled.Add(1)
				p.refused.Add(1)
			}
			return &ThrottledError{Partition: p.ID, RetryAfter: wait}
		}
	}
	return nil
}

// Charge takes the cost of a call from the meters of the partition and of the logical
// partition.
func (p *partition) Charge(pk []byte, ru float64) {
	if pk != nil && p.c.limits.Metered() {
		p.c.limits.Charge(pk, ru, p.db.uptime())
	}
	if m := p.meter.Load(); m != nil {
		m.Charge(p.db.uptime(), ru)
		p.consumed.Add(int64(ru*1000 + 0.5))
	}
}

// snapshotCut is a Snapshot as queries and scans see it.
type snapshotCut Snapshot

// cutOf returns what a query or scan sees of a snapshot, nil for nil.
func cutOf(s *Snapshot) exec.Snapshot {
	if s == nil {
		return nil
	}
	return (*snapshotCut)(s)
}

// Check returns an error if the snapshot was closed.
func (s *snapshotCut) Check() error { return (*Snapshot)(s).check() }

// Cut returns the sequence at which the snapshot sees a partition.
func (s *snapshotCut) Cut(at partmap.EPK) (seq, installEpoch uint64) {
	return (*Snapshot)(s).cutAt(&at)
}

// Past says which items have expired; the zero Past: by the clock.
func (s *snapshotCut) Past() lifetime.Past { return s.past }

// give gives a row of the container to yield as an item, which it makes where yield takes it.
// A function that returned the item, or one that gave it, would cost a copy or an allocation.
func give(c *Container, yield func(Item, error) bool, r *exec.Row) bool {
	return yield(Item{
		Meta: Meta{Key: r.Key, ID: r.ID, ETag: ETag(r.Seq), Seq: r.Seq, Modified: time.UnixMilli(r.Modified), Expires: c.expires(r.Key, r.Modified, r.Expires), Charge: r.Charge},
		Body: r.Body,
	}, nil)
}
