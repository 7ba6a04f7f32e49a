package engine

import (
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/expiry"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/lifetime"
)

// An item expires when its time to live has passed since it was written. Reads
// do not show an item that has expired by the clock at the time of the read
// (clock.go). internal/lifetime says which items that are, and internal/expiry when
// their space comes back.

// NoExpiry as ContainerDef.DefaultTTL: only items with a TTL of their own expire.
// NoExpiry as WriteOptions.TTL: the item never expires.
const NoExpiry time.Duration = definition.NoExpiry

// defaultExpiryGrace is how long an item stays on disk after it has expired, at
// least.
const defaultExpiryGrace = time.Hour

// ttlOf returns the time to live with which a document is written, as lifetime.Stored takes
// it. In a container with a fixed default that is 0 for a document that lives for ever.
func (c *Container) ttlOf(doc *jsondoc.Doc) int64 {
	if !doc.HasTTL {
		return c.defaultTTL()
	}
	return c.life.Own(doc.TTL * 1000)
}

// defaultTTL returns the time to live with which items are written that do not say it.
func (c *Container) defaultTTL() int64 { return c.life.Unsaid() }

// expires returns when an item expires, of which a version has these times; zero: never.
func (c *Container) expires(pk PartitionKey, modified, expires int64) time.Time {
	if !c.def.Replicated || !c.life.Follows() {
		return timeOf(c.life.Expires(modified, expires))
	}
	rt, epk := c.routing.Load(), pk.EPK()
	return timeOf(rt.parts[rt.table.Find(&epk)].Life.Expires(modified, expires))
}

// ttl returns the time to live with which an item is written. otherwise is that which its
// document or the container gives.
func (c *Container) ttl(o *WriteOptions, otherwise int64) (int64, error) {
	if o == nil || o.TTL == 0 {
		return otherwise, nil
	}
	if c.life.Default() == 0 && !(c.def.Replicated && c.life.Follows()) { // replicas may not know yet that the default has changed
		return 0, invalidf("WriteOptions.TTL: items of container %q do not expire: it has no DefaultTTL", c.name)
	}
	if o.TTL != NoExpiry && o.TTL < time.Millisecond {
		return 0, invalidf("WriteOptions.TTL %v: NoExpiry or at least a millisecond", o.TTL)
	}
	return c.life.Own(definition.Millis(o.TTL)), nil
}

// timeOf returns a time stamp as a time, the zero time for 0.
func timeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// removable says what a compaction of the partition may drop. In a replicated container that
// expired not later than the time of the partition's newest entry: the next entry may come
// with the same time, whatever the clock says.
func (p *partition) removable() lifetime.Past {
	opts, open := &p.db.opts, p.db.opts.elapsed()
	at, earliest := expiry.Purgeable(p.db.opened, opts.clock(), open, opts.ExpiryGrace), int64(0)
	if p.c.def.Replicated {
		_, entry := p.Newest()
		at = min(at, entry.Time)
	}
	if p.Life.Follows() {
		earliest = p.db.env.Pins.Earliest(opts.clock())
	}
	return p.Life.Removable(at, open, opts.ExpiryGrace, earliest)
}

// anyPurgeable says whether some run holds items that a compaction may drop.
func (db *DB) anyPurgeable() bool {
	return slices.ContainsFunc(db.partitions(), func(p *partition) bool {
		return p.Life.Hides() && p.Version.Load().AnyExpired(p.Purgeable())
	})
}
