package engine

import (
	"context"
	"hash/crc32"

	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/feed"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keyscope"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// beginFeed begins a loop over changes. It ends with feeds.End.
func (c *Container) beginFeed(ctx context.Context, s Scope, from ChangePosition, options *ChangeOptions) (*feed.Running, error) {
	call, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	var o ChangeOptions
	if options != nil {
		o = *options
	}
	if o.AllVersions && c.def.ChangeRetention == 0 {
		return nil, invalidf("AllVersions: container %q has no ChangeRetention", c.name)
	}
	if o.Follow && c.db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	scope, err := s.check(c)
	if err != nil {
		return nil, err
	}
	if scope.Kind == keyscope.Base {
		// A position is for a range of the key space, and these keys are none.
		return nil, invalidf("Changes: %s has several partition keys; take a feed of each, or of all partitions", s)
	}
	rng, err := scope.Bounds()
	if err != nil {
		return nil, err
	}
	f := new(feed.Running)
	shows := feed.Options{
		Container: c.name, ID: c.feedID(), Levels: c.levels(), Range: rng, Charged: o.Charge,
		Wants:       func(k *item.Key) bool { return !c.isClaim(k) && scope.HoldsEncoded(k.PK) },
		AllVersions: o.AllVersions, MostOrdered: c.db.opts.feedOrder,
		CaughtUp: func() {
			f.Whole(c.db.opts.clock())
			if o.Progress != nil {
				o.Progress(f.Position())
			}
		},
	}
	if o.Follow {
		shows.Followers = &c.family.Followers
	}
	if f.Feed, err = feed.New(ctx, containerFeed{c}, from, shows); err != nil {
		return nil, err
	}
	began := c.db.opts.clock()
	f.Whole(began)
	f.Stats = FeedStats{Container: c.name, Scope: scope.String(), AllVersions: o.AllVersions, Follow: o.Follow, Since: began}
	c.feeds.Add(f)
	return f, nil
}

// feedID identifies the container in positions. For a replicated container it is
// made from the name: all replicas have the same sequences, so a position of one is
// good for the others.
func (c *Container) feedID() uint32 {
	if c.def.Replicated {
		return crc32.Checksum([]byte(c.name), crc32.MakeTable(crc32.Castagnoli))
	}
	return c.id
}

// appendFeeds appends the running feeds of the container.
func (c *Container) appendFeeds(all []FeedStats) []FeedStats {
	return c.feeds.Append(all, c.db.opts.clock())
}

// containerFeed is a container as its feeds see it.
type containerFeed struct{ c *Container }

func (s containerFeed) Enter(ctx context.Context) (epoch.Guard, error) { return s.c.enterAgain(ctx) }
func (s containerFeed) Routing() feed.Routing                          { return s.c.routing.Load() }
func (s containerFeed) Closing() <-chan struct{}                       { return s.c.db.work.Context().Done() }
func (s containerFeed) SequenceAt(millis int64) uint64                 { return s.c.db.marks.At(millis) }
func (s containerFeed) Wait(ctx context.Context, err error) error {
	return s.c.db.untilAdmitted(ctx, err)
}
func (s containerFeed) ReadError(err error) error { return s.c.db.readError(err) }

func (s containerFeed) Sync(to wal.Position) error {
	if err := s.c.db.log.Wait(to, true); err != nil {
		return s.c.db.uncertain(err)
	}
	return nil
}

func (s containerFeed) Ended() error {
	if s.c.dropped.Load() {
		return s.c.gone()
	}
	if err := s.c.db.writable(); err != nil {
		return err
	}
	if s.c.db.draining.Load() { // it has shown everything, and would wait
		return ErrClosed
	}
	return nil
}

func (rt *routing) Table() *partmap.Table          { return rt.table }
func (rt *routing) Partition(i int) feed.Partition { return partitionFeed{rt.parts[i]} }

// partitionFeed is a partition as feeds see it.
type partitionFeed struct{ p *partition }

func (s partitionFeed) Tree() *lsm.Tree     { return &s.p.Tree }
func (s partitionFeed) Past() lifetime.Past { return s.p.Past() }
func (s partitionFeed) MarksExpiry() bool   { return s.p.c.life.Follows() }
func (s partitionFeed) Here() error         { return s.p.here() }

func (s partitionFeed) Durable() (seq uint64, lazy wal.Position) {
	p := s.p
	visible := p.Visible.Load()
	if p.db.log == nil {
		return visible, 0
	}
	// Writes that asked for a sync become visible after it.
	p.Commit.Lock()
	lazy = p.Commit.Lazy
	p.Commit.Unlock()
	if p.db.log.Synced() >= lazy {
		return visible, lazy
	}
	return p.Install.FlushedSeq.Load(), lazy
}

func (s partitionFeed) Admit() error { return s.p.Admit(nil, true) }

func (s partitionFeed) Charge(units float64) {
	s.p.Charge(nil, units)
}
