package engine

import (
	"math/rand/v2"

	"github.com/cleavestore/cleave/splitter"
)

// sampled says whether to call Sample for an operation.
func (db *DB) sampled() bool { return rand.Uint32()&db.unsampled == 0 }

// Sample counts a sampled operation on a logical partition.
func (p *partition) Sample(pk []byte, ru float64) {
	p.c.loadStats.Sample(&p.loadStats, pk, ru, float64(p.db.unsampled+1), p.db.uptime())
}

// HotKey is a logical partition that has consumed much of late.
type HotKey struct {
	Key       PartitionKey
	Partition PartitionID // in which it lies
	Ops       float64     // operations a second
	Units     float64     // RU/s
	// Error is how much of Units other keys may have consumed, in RU/s. Sampling adds
	// an error of about Units / √(Ops / 2).
	Error float64
}

// Hot returns the logical partitions of the container that consume the most, n
// at most, the hottest first. The figures are a mean in which the last minute
// counts most, estimated from one operation in 256: reads, writes, and scans of
// one logical partition. One that has more than 1/256 of the load is not missed.
func (c *Container) Hot(n int) []HotKey {
	c = c.now()
	rt := c.routing.Load()
	var list []HotKey
	for _, h := range c.loadStats.Hottest(n, c.db.uptime()) {
		k := HotKey{Key: keyOf(h.PK), Ops: h.Ops, Units: h.Units, Error: h.Error}
		epk := k.Key.EPK()
		k.Partition = rt.parts[rt.table.Find(&epk)].ID
		list = append(list, k)
	}
	return list
}

// splitHot queues splits of partitions that consume more than
// Options.MaxPartitionThroughput. Before that, it has their load sampled to find
// the cut.
func (db *DB) splitHot() {
	policy := splitter.Policy{MaxLoad: db.opts.MaxPartitionThroughput}
	if policy.MaxLoad == 0 {
		return
	}
	now := db.uptime()
	for _, p := range db.partitions() {
		points := p.c.loadStats.Overloaded(&p.loadStats, policy, len(p.Inherited()) > 0, now)
		if points != nil && !p.Dropped.Load() && p.cutting.Left() <= 0 {
			p.queueSplit(func(j *ReshapeJob) { j.load = points })
		}
	}
}
