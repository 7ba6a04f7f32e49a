package engine

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/spacesaving"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

const (
	// heatSpan is the time constant of the decay: consumption counts e^(-t/heatSpan)
	// after the time t.
	heatSpan = time.Minute
	// heatSample: one operation in heatSample is looked at, a power of two.
	heatSample = 256
	// heatKeys is how many logical partitions of a container have a counter.
	heatKeys = 256
	// hotPause is how long a partition is not split for its load after a split found
	// no cut that divides it: the load was that of one hot key.
	hotPause = 10 * time.Minute
)

// heat estimates what the logical and physical partitions of a container have
// consumed of late, from a sample of the operations on single logical partitions.
// Operations do not wait for its lock: if it is taken, the sample is lost.
type heat struct {
	mu    sync.Mutex
	keys  *spacesaving.Sketch // weights in RU as of one; nil: there was no sample
	one   time.Duration       // uptime at which 1 RU weighs 1; a later RU weighs more
	begun time.Duration       // uptime of the first sample
}

// partitionHeat is what a physical partition has consumed of late. It is guarded by
// the lock of its container's heat.
type partitionHeat struct {
	units  float64       // RU, decayed
	at     time.Duration // uptime of the last sample
	begun  time.Duration // uptime of the first one
	rests  time.Duration // uptime until which it is not split for its load
	points *splitter.Histogram
	taken  int // samples in points
}

// sampled says whether to call sample for an operation.
func (db *DB) sampled() bool { return rand.Uint32()&db.unsampled == 0 }

// sample counts a sampled operation on a logical partition. It stands for heatSample
// operations.
func (p *partition) sample(pk []byte, ru float64) {
	h := &p.c.heat
	if !h.mu.TryLock() {
		return
	}
	defer h.mu.Unlock()
	now := p.db.uptime()
	ops := float64(p.db.unsampled + 1)
	if h.keys == nil {
		h.keys, h.one, h.begun = spacesaving.New(heatKeys), now, now
	}
	if now-h.one > 100*heatSpan { // before the weights overflow
		h.keys.Scale(decay(now - h.one))
		h.one = now
	}
	weigh := ops / decay(now-h.one)
	h.keys.Add(pk, spacesaving.Size{Items: weigh, Weight: weigh * ru})
	if p.heat.units == 0 {
		p.heat.begun = now
	}
	p.heat.units = p.heat.units*decay(now-p.heat.at) + ops*ru
	p.heat.at = now
	if p.heat.points != nil && p.heat.taken < splitter.LoadSamples {
		p.heat.points.Add(partmap.HashEncoded(pk), int64(ru*1000))
		p.heat.taken++
	}
}

// decay is what is left of 1 after a time.
func decay(t time.Duration) float64 { return math.Exp(-t.Seconds() / heatSpan.Seconds()) }

// perSecond returns the factor that turns a decayed sum into a rate per second. age
// is how long ago the sum began; less than a second counts as a second.
func perSecond(age time.Duration) float64 {
	return 1 / (heatSpan.Seconds() * (1 - decay(max(age, time.Second))))
}

// load returns the RU/s that the partition consumes. Its container's heat is
// locked.
func (p *partition) load(now time.Duration) float64 {
	return p.heat.units * decay(now-p.heat.at) * perSecond(now-p.heat.begun)
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
	c.heat.mu.Lock()
	var all []spacesaving.Heavy
	var scale float64
	if h := &c.heat; h.keys != nil {
		now := c.db.uptime()
		scale = decay(now-h.one) * perSecond(now-h.begun)
		all = h.keys.All()
	}
	c.heat.mu.Unlock()
	slices.SortFunc(all, func(a, b spacesaving.Heavy) int {
		return cmp.Or(cmp.Compare(b.Size.Weight, a.Size.Weight), cmp.Compare(a.Key, b.Key))
	})
	rt := c.routing.Load()
	var list []HotKey
	for _, h := range all[:max(0, min(n, len(all)))] {
		k := HotKey{Key: keyOf(h.Key), Ops: h.Size.Items * scale, Units: h.Size.Weight * scale, Error: h.Err.Weight * scale}
		epk := k.Key.EPK()
		k.Partition = rt.parts[rt.table.Find(&epk)].id
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
		if points := p.overloaded(policy, now); points != nil && !p.dropped.Load() && p.cutting.left() <= 0 {
			p.queueSplit(func(j *Job) { j.load = points })
		}
	}
}

// overloaded returns a histogram of the partition's load, nil unless the load is too
// high and enough of it was sampled.
func (p *partition) overloaded(policy splitter.Policy, now time.Duration) *splitter.Histogram {
	h := &p.c.heat
	h.mu.Lock()
	defer h.mu.Unlock()
	hot := now-p.heat.begun >= heatSpan && now >= p.heat.rests && policy.Hot(splitter.State{Load: p.load(now), Inherits: len(p.inherited()) > 0})
	switch {
	case !hot:
		p.heat.points, p.heat.taken = nil, 0
	case p.heat.points == nil:
		p.heat.points = new(splitter.Histogram)
	case p.heat.taken == splitter.LoadSamples:
		points := p.heat.points
		p.heat.points, p.heat.taken = nil, 0
		return points
	}
	return nil
}

// leaveHot notes that the load of the partition cannot be divided.
func (p *partition) leaveHot() {
	h := &p.c.heat
	h.mu.Lock()
	defer h.mu.Unlock()
	p.heat.rests = p.db.uptime() + hotPause
}
