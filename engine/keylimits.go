package engine

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/keylimits"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/manifest"
)

// KeyLimits bound one logical partition: all items of one partition key, with all of its
// levels. A write that would take its documents over Bytes fails with
// ErrLogicalPartitionFull, a call while its throughput is consumed with a *ThrottledError
// that has its Key; calls on other logical partitions are not refused then. Up to a second
// of unused throughput is saved.
type KeyLimits struct {
	Throughput float64 `json:"throughput_ru_per_s,omitzero"` // RU/s, at least 1; negative: unlimited
	Bytes      int64   `json:"bytes,omitzero"`               // of its documents, ids not counted
}

// SetDefaultKeyLimits changes Limits.LogicalPartitionThroughput, where 0 is unlimited too,
// and Limits.LogicalPartitionBytes, where 0 is 20 GiB, of the container. They hold for
// logical partitions without limits of their own. The change is durable when the call
// returns nil, and holds at once. Errors are those of SetThroughput.
func (c *Container) SetDefaultKeyLimits(ctx context.Context, l KeyLimits) error {
	return c.changeKeyLimits(ctx, keylimits.Limit(l), func(m *manifest.Container) { definition.SetDefaultKeyLimit(m, keylimits.Limit(l)) })
}

// SetKeyLimits gives a logical partition limits of its own. A field that is 0 stands for
// the container's default; zero KeyLimits remove the limits. At most 1,024 logical
// partitions of a container may have limits of their own, and 16,384 of all containers.
// The change is durable when the call returns nil, and holds at once. Errors are those of
// SetThroughput, ErrInvalid where there are too many.
func (c *Container) SetKeyLimits(ctx context.Context, pk PartitionKey, l KeyLimits) error {
	pk = c.keys.Own(pk)
	if err := c.checkPartitionKey(pk); err != nil {
		return err
	}
	return c.changeKeyLimits(ctx, keylimits.Limit(l), func(m *manifest.Container) { definition.SetKeyLimit(m, pk.Encoded(), keylimits.Limit(l)) })
}

func (c *Container) changeKeyLimits(ctx context.Context, l keylimits.Limit, change func(*manifest.Container)) error {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	if err := definition.CheckKeyLimit(l); err != nil {
		return invalidf("%v", err)
	}
	return c.change(func(m *manifest.Container) error {
		change(m)
		next := c.db.storeManifest.state.Clone()
		*next.Container(c.id) = *m
		if err := next.CheckKeyLimits(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil
	})
}

// limitKeys takes over the limits of logical partitions from the manifest of the
// container. A store that is open read-only limits no throughput.
func (c *Container) limitKeys(m *manifest.Container) {
	r := definition.KeyRules(m)
	r.Unmetered = c.db.opts.ReadOnly
	c.limits.Set(r, c.db.uptime())
}

// LimitedKeys returns the logical partitions that have limits of their own, with the
// limits that hold for them, in the order of their encoded keys.
func (c *Container) LimitedKeys() iter.Seq2[PartitionKey, KeyLimits] {
	keys := c.now().limits.Rules().Keys
	return func(yield func(PartitionKey, KeyLimits) bool) {
		for _, pk := range slices.Sorted(maps.Keys(keys)) {
			if !yield(keyOf(pk), KeyLimits(keys[pk])) {
				return
			}
		}
	}
}

// KeyUsage tells what a logical partition holds and consumes.
type KeyUsage struct {
	// Versions and Bytes are what files and memtables hold, overwritten and deleted
	// versions included until a compaction drops them: upper bounds. With
	// UsageOptions.Exact they are the documents that readers see, and their bytes.
	Versions int64 `json:"versions"`
	Bytes    int64 `json:"bytes"`
	// LastWrite is when the newest document that readers see was written; only with
	// UsageOptions.Exact. Zero: there is none, or it is not known.
	LastWrite time.Time `json:"last_write,omitzero"`
	// Limits are those that hold. Throughput 0: unlimited.
	Limits KeyLimits `json:"limits"`
	// Units are the request units that calls on this logical partition have consumed
	// since Since, and Throttled how many calls were refused. They are exact. They are
	// counted in memory, and only while the throughput of the logical partition is limited.
	// Since is zero while they are not counted.
	Units     float64   `json:"units"`
	Throttled int64     `json:"throttled"`
	Since     time.Time `json:"since,omitzero"`
	// RetryAfter is until the next call is admitted.
	RetryAfter time.Duration `json:"retry_after_ns,omitzero"`
}

// UsageOptions are the options of Usage. Nil means none.
type UsageOptions struct {
	// Exact reads the logical partition: its time is that of a scan.
	Exact bool
}

// Usage tells what a logical partition holds and consumes. Without UsageOptions.Exact it
// reads no document: its time grows with the number of runs, and with the versions in
// write buffers. It is not charged, and never throttled. Errors: those of a Read.
func (c *Container) Usage(ctx context.Context, pk PartitionKey, o *UsageOptions) (u KeyUsage, err error) {
	pk = c.keys.Own(pk)
	if err = c.checkPartitionKey(pk); err != nil {
		return KeyUsage{}, err
	}
	c, call, err := c.enterNewest(ctx)
	if err != nil {
		return KeyUsage{}, err
	}
	defer call.Leave()
	var held keysizes.Tally
	for settled, epk := false, pk.EPK(); !settled; {
		rt := c.routing.Load()
		p := rt.parts[rt.table.Find(&epk)]
		if err = p.here(); err != nil {
			return KeyUsage{}, err
		}
		if held, err = p.sizes.Tally(ctx, pk.Encoded(), o != nil && o.Exact); err != nil {
			return KeyUsage{}, c.db.readError(err)
		}
		if settled = !p.Dropped.Load(); !settled && c.dropped.Load() {
			return KeyUsage{}, c.gone()
		}
	}
	u = KeyUsage{Versions: held.Versions, Bytes: held.Bytes, Limits: KeyLimits(c.limits.Of(pk.Encoded()))}
	if held.Newest > 0 {
		u.LastWrite = time.UnixMilli(held.Newest)
	}
	if n, ok := c.limits.Consumed(pk.Encoded(), c.db.uptime()); ok {
		u.Units, u.Throttled, u.Since, u.RetryAfter = n.Units, n.Refused, c.db.opened.Add(n.Since), n.Wait
	}
	return u, nil
}
