package engine

import (
	"context"
	"math"
	"slices"

	"github.com/cleavestore/cleave/internal/manifest"
)

// Redistribute sets the RU/s of the targets, which are physical partitions of the
// container. The sources give up in equal parts what the targets gain, or get what the
// targets lose. Without targets all partitions have equal parts again. The change holds
// at once, and is durable when Redistribute returns nil. The proportions stay:
// SetThroughput multiplies the parts, and children of a split share the part of their
// parent.
//
// Errors: ErrNotFound if a partition does not exist; ErrInvalid if the container has no
// throughput, if a partition is target and source, or if a partition would have less
// than 1 RU/s or be given more than Limits.PartitionThroughput; those of
// SetThroughput.
func (c *Container) Redistribute(ctx context.Context, targets map[PartitionID]float64, sources ...PartitionID) error {
	call, err := c.db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	return c.provide(func(e *manifest.Edit) error {
		for m := range c.listedLocked() {
			e.Partitions = append(e.Partitions, *m)
		}
		parts := make(map[PartitionID]*manifest.Partition, len(e.Partitions))
		for i := range e.Partitions {
			parts[PartitionID(e.Partitions[i].ID)] = &e.Partitions[i]
		}
		if len(targets) == 0 {
			for _, p := range parts {
				p.Share = 0
			}
			return nil
		}
		return c.shift(parts, targets, sources)
	})
}

// shift moves parts of the throughput from the sources to the targets.
func (c *Container) shift(parts map[PartitionID]*manifest.Partition, targets map[PartitionID]float64, sources []PartitionID) error {
	perSecond := math.Float64frombits(c.throughput.Load())
	if perSecond == 0 {
		return invalidf("container %q has no throughput to redistribute", c.name)
	}
	all := 0.0
	for _, p := range parts {
		all += p.ShareOr1()
	}
	for _, p := range parts {
		p.Share = p.ShareOr1() / all * perSecond
	}
	most := c.def.Limits.PartitionThroughput
	wanted := 0.0
	for id, rate := range targets {
		p := parts[id]
		if p == nil {
			return c.noPartition(id)
		}
		if !(rate >= 1 && rate <= most) {
			return invalidf("%v RU/s for physical partition %d: between 1 and %v", rate, id, most)
		}
		wanted += rate - p.Share
		p.Share = rate
	}
	sources = slices.Compact(slices.Sorted(slices.Values(sources)))
	if len(sources) == 0 {
		return invalidf("no sources to redistribute throughput from")
	}
	for _, id := range sources {
		p := parts[id]
		if p == nil {
			return c.noPartition(id)
		}
		if _, both := targets[id]; both {
			return invalidf("physical partition %d is target and source", id)
		}
		rate := p.Share - wanted/float64(len(sources))
		if rate < 1 || rate > max(most, p.Share) {
			return invalidf("physical partition %d would have %v RU/s: between 1 and %v", id, rate, most)
		}
		p.Share = rate
	}
	return nil
}
