package engine

import (
	"time"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/expiry"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// An item expires when its time to live has passed since it was written. Reads
// do not show an item that has expired by the clock at the time of the read
// (clock.go). internal/expiry says when its space comes back.

// NoExpiry as ContainerDef.DefaultTTL: only items with a TTL of their own expire.
// NoExpiry as WriteOptions.TTL: the item never expires.
const NoExpiry time.Duration = definition.NoExpiry

// defaultExpiryGrace is how long an item stays on disk after it has expired, at
// least.
const defaultExpiryGrace = time.Hour

// ttlOf returns the milliseconds for which a document lives, 0 for ever.
func (c *Container) ttlOf(doc *jsondoc.Doc) int64 {
	switch {
	case c.def.DefaultTTL == 0:
		return 0
	case !doc.HasTTL:
		return c.defaultTTL()
	}
	return max(0, doc.TTL*1000)
}

// defaultTTL returns the milliseconds for which items live that do not say it, 0 for
// ever.
func (c *Container) defaultTTL() int64 { return max(0, c.def.DefaultTTL.Milliseconds()) }

// ttl returns the milliseconds for which an item lives, 0 for ever. otherwise is
// the time to live that its document or the container gives.
func (c *Container) ttl(o *WriteOptions, otherwise int64) (int64, error) {
	if o == nil || o.TTL == 0 {
		return otherwise, nil
	}
	if c.def.DefaultTTL == 0 {
		return 0, invalidf("WriteOptions.TTL: items of container %q do not expire: it has no DefaultTTL", c.name)
	}
	if o.TTL < 0 {
		return 0, nil
	}
	if o.TTL < time.Millisecond {
		return 0, invalidf("WriteOptions.TTL %v: at least a millisecond", o.TTL)
	}
	return o.TTL.Milliseconds(), nil
}

// timeOf returns a time stamp as a time, the zero time for 0.
func timeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// purgeable returns a time stamp: a compaction may drop the items that expired at or
// before it. 0: none.
func (db *DB) purgeable() int64 {
	return expiry.Purgeable(db.opened, db.opts.clock(), db.opts.elapsed(), db.opts.ExpiryGrace)
}

// purgeableAt is DB.purgeable for a partition. In a replicated container it is not
// later than the time of the partition's newest entry: the next entry may come with
// the same time, whatever the clock says.
func (p *partition) purgeableAt() int64 {
	at := p.db.purgeable()
	if p.c.def.Replicated {
		_, entry := p.Newest()
		at = min(at, entry.Time)
	}
	return at
}

// anyPurgeable says whether some run holds items that a compaction may drop.
func (db *DB) anyPurgeable() bool {
	for _, p := range db.partitions() {
		if p.c.def.DefaultTTL == 0 {
			continue
		}
		if p.Version.Load().AnyExpired(p.Purgeable()) {
			return true
		}
	}
	return false
}
