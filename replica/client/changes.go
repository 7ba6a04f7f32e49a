package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/protocol"
)

// ErrHistory says that a feed cannot go on from a position, since the changes behind it are not those that it was
// followed by: the position is of another cluster, or of before a promotion, which may have lost what
// the feed had shown, or of a container that was dropped, whose name another one has. The caller begins at the start.
var ErrHistory = errors.New("the history that the position is of is gone")

// ChangeOptions choose what Changes shows. The zero value is the default.
type ChangeOptions struct {
	// Follow says that the feed waits for further changes, until its context ends.
	Follow bool
	// Every is how long a feed that has shown everything waits before it asks again. 0: 200 ms.
	Every time.Duration
	// Weak has any replica asked, and not the leader. It shows what that has; a later page comes from another one
	// perhaps, which shows nothing until it is past the position.
	Weak bool
	// Limit is how many changes a page has at most. 0, or too many: protocol.MaxScan.
	Limit int
	// Within are the keys that the feed is about, the zero range: all. A position is about all keys, and of the others it stays
	// where it was.
	Within partmap.Range
}

// ChangePage is a part of a feed.
type ChangePage struct {
	// Items are items that were written, with Key, ID, ETag, Seq and Modified. They are the caller's.
	Items []engine.Item
	// Position is behind the page: a feed from there goes on with the next change.
	Position string
	// CaughtUp says that everything was shown which was acknowledged before the round of questions that ends here
	// began; with ChangeOptions.Weak, everything that the replicas had which were asked.
	CaughtUp bool
	// Charge is what the nodes have done for the page, and for pages without changes before it, in request units.
	Charge float64
}

// everyDefault is the default of ChangeOptions.Every.
const everyDefault = 200 * time.Millisecond

// pageTries is how many times Config.TryTime a node may take for a page.
const pageTries = 5

// Changes returns the items of a container that were written since a position, in pages: the feed of latest versions
// of engine.Container.Changes, over all groups. from is the Position of a page, or "" or "start": everything, or
// "now", or "time:" and a time by RFC 3339.
//
// Each item comes in its newest state, and once only unless it is written again; deletes and expiries do not come.
// Within a logical partition items come in the order of their sequences. Between logical partitions there is no order.
// The feed goes on through splits, moves and changes of leaders, and so does a later one from a position. What
// was shown was committed, and no crash takes it back. A caller that stores the position of a page together with what it has
// made of the page sees no change twice; one that stores it afterwards, and fails in between, gets the
// page again, or newer states of its items: at least once.
//
// One error may come, as the last pair: ErrHistory; engine.ErrInvalid for a position that is none; engine.ErrNoContainer;
// ErrClosed; that of the context, with the last answer.
func (c *Client) Changes(ctx context.Context, container, from string, o *ChangeOptions) iter.Seq2[ChangePage, error] {
	return c.View(protocol.Strong).Changes(ctx, container, from, o)
}

// Changes is Client.Changes, and the session of the view has seen what is shown.
func (v View) Changes(ctx context.Context, container, from string, o *ChangeOptions) iter.Seq2[ChangePage, error] {
	return func(yield func(ChangePage, error) bool) {
		f := feed{view: v, container: container}
		if o != nil {
			f.o = *o
		}
		if f.o.Every <= 0 {
			f.o.Every = everyDefault
		}
		if f.o.Limit <= 0 || f.o.Limit > protocol.MaxScan {
			f.o.Limit = protocol.MaxScan
		}
		err := f.begin(from)
		for more := true; more && err == nil; {
			more, err = f.round(ctx, func(p ChangePage) bool { return yield(p, nil) })
		}
		if err != nil {
			yield(ChangePage{}, err)
		}
	}
}

// feed is a loop over changes.
type feed struct {
	view      View
	container string
	o         ChangeOptions
	now       position
	begun     bool    // a round has ended
	charge    float64 // of what was not shown yet
}

// begin begins at a position.
func (f *feed) begin(from string) error {
	if err := f.read(from); err != nil {
		return err
	}
	if !f.o.Within.Empty() {
		f.now.divide(f.o.Within.Min)
		f.now.divide(f.o.Within.Max)
	}
	return nil
}

// read reads a position.
func (f *feed) read(from string) error {
	authority := f.view.Client.cfg.Credentials.Authority()
	if from == "" {
		from = engine.FromStart().String()
	}
	if _, err := engine.ParsePosition(from); err == nil && (from == engine.FromStart().String() || from == engine.FromNow().String() || from[0] == 't') {
		all := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
		f.now = position{authority: authority, incarnation: f.view.Client.cfg.Cluster.Incarnation, places: []place{{keys: all, at: from}}}
		return nil
	}
	p, err := parsePosition(from)
	switch {
	case err != nil:
		return err
	case p.authority != authority:
		return fmt.Errorf("%w: it is of another cluster", ErrHistory)
	case p.incarnation != f.view.Client.cfg.Cluster.Incarnation:
		return fmt.Errorf("%w: a region was promoted: the position is of incarnation %d, the client of %d", ErrHistory, p.incarnation, f.view.Client.cfg.Cluster.Incarnation)
	}
	f.now = *p
	return nil
}

// round shows what there is once. It asks each place for one page at a time: a group that is written faster than it is
// read must not keep back what the others have. more says that the feed goes on.
func (f *feed) round(ctx context.Context, show func(ChangePage) bool) (more bool, err error) {
	for i := range f.now.places {
		f.now.places[i].done = time.Time{}
	}
	shown := false
	for rest := true; rest; {
		rest = false
		for i := 0; i < len(f.now.places); i++ { // a page may divide the place
			s := &f.now.places[i]
			if !f.o.Within.Empty() && !f.o.Within.Contains(&s.keys.Min) {
				continue
			}
			if !s.done.IsZero() && (!f.o.Follow || time.Since(s.done) < f.o.Every) {
				continue
			}
			var p protocol.ChangesPage
			if p, err = f.page(ctx, i); err != nil {
				return false, err
			}
			if p.More {
				rest = true
			} else {
				f.now.places[i].done = time.Now()
			}
			if f.charge += p.Charge; len(p.Items) == 0 {
				continue
			}
			shown = true
			if !show(f.shown(p.Items)) {
				return false, nil
			}
		}
	}
	if (shown || !f.begun) && !show(f.shown(nil)) || !f.o.Follow {
		return false, nil
	}
	if f.begun = true; !shown {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(f.o.Every):
		}
	}
	return true, nil
}

// shown returns what is shown now; without items the feed has caught up.
func (f *feed) shown(items []engine.Item) ChangePage {
	p := ChangePage{Items: items, Position: f.now.String(), CaughtUp: items == nil, Charge: f.charge}
	f.charge = 0
	return p
}

// page gets the next page of a place from a group, and notes how far that is. If the group has the first part of the place
// only, the place is divided.
func (f *feed) page(ctx context.Context, i int) (p protocol.ChangesPage, err error) {
	c, s := f.view.Client, f.now.places[i]
	t := try{c: c, near: f.o.Weak}
	var last error
	for err = f.find(ctx, &t, &s.keys.Min); err == nil; {
		node, failed := t.next(ctx)
		if failed != nil {
			return p, giveUp(false, failed, last)
		}
		keys := s.keys
		if g := t.g; !g.Range.Contains(&keys.Min) { // the client has heard of a split meanwhile
			err = f.find(ctx, &t, &keys.Min)
			continue
		} else if g.Range.Max.Compare(&keys.Max) < 0 {
			keys.Max = g.Range.Max
		}
		demanded := uint64(0)
		if f.view.Level == protocol.Session && !f.o.Weak { // a weak answer may be older
			demanded = f.view.Session.of(t.g.ID)
		}
		q := protocol.ChangesRequest{Group: t.g.ID, Strong: !f.o.Weak, Container: f.container, Range: keys, Position: s.at, Limit: uint64(f.o.Limit)}
		r, _ := c.askFor(ctx, pageTries*c.cfg.TryTime, node, protocol.Changes, q.Append)
		c.learn(t.g, &r)
		c.gone(t.g, &r)
		switch {
		case r.err != nil:
			last = r.err
			t.failed(node)
		case r.Err == nil:
			if p, err = r.Changes(); err != nil {
				return p, err
			}
			f.view.saw(demanded, t.g.ID, r.Applied)
			f.now.places[i] = place{keys: keys, at: p.Position}
			if keys.Max != s.keys.Max {
				f.now.places = slices.Insert(f.now.places, i+1, place{keys: partmap.Range{Min: keys.Max, Max: s.keys.Max}, at: s.at})
			}
			return p, nil
		case elsewhere(r.Err):
			last = r.Err
			t.refused(node, &r)
			c.Refresh(ctx)
			err = f.find(ctx, &t, &keys.Min)
		case errors.Is(r.Err, group.ErrNotLeader), errors.Is(r.Err, group.ErrBusy), errors.Is(r.Err, group.ErrUnknown), errors.Is(r.Err, group.ErrFailed):
			last = r.Err
			t.refused(node, &r)
		case errors.Is(r.Err, engine.ErrNoContainer):
			err = f.find(ctx, &t, &keys.Min)
		default:
			return p, r.Err
		}
	}
	return p, giveUp(false, err, last)
}

// find finds the group of a key of the container that the feed is of.
func (f *feed) find(ctx context.Context, t *try, key *partmap.EPK) error {
	asked := false
	for {
		if f.view.Client.closed.Load() {
			return ErrClosed
		}
		p := f.view.Client.routes.now.Load()
		g, known := p.find(f.container, key)
		switch {
		case !known && asked && f.view.Client.lacks(ctx, f.container):
			return fmt.Errorf("container %q: %w", f.container, engine.ErrNoContainer)
		case g == nil: // it is looked for
		case f.now.number == 0, g.ID>>32 == f.now.number:
			f.now.number = g.ID >> 32
			if t.g == nil || t.g.ID != g.ID {
				t.wait, t.avoid, t.count = 0, 0, 0
			}
			t.g = g
			return nil
		case g.ID>>32 > f.now.number:
			return fmt.Errorf("%w: the container was dropped, and another one has the name %q", ErrHistory, f.container)
		}
		f.view.Client.Refresh(ctx)
		if known || asked {
			t.count++
			t.pause()
		}
		asked = true
		if err := t.sleep(ctx); err != nil {
			return err
		}
	}
}
