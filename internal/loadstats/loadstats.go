// Package loadstats estimates what the logical and physical partitions of a container
// have consumed of late, in request units (RU), from a sample of the operations on single
// logical partitions. Times are the store's uptime.
package loadstats

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/spacesaving"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

const (
	// Every is how many operations there are for one that is sampled, a power of two.
	Every = 256
	// Keys is how many logical partitions of a container have a counter.
	Keys = 256

	// span is the time constant of the decay: consumption counts e^(-t/span) after the
	// time t.
	span = time.Minute
	// pause is how long a partition is not overloaded after Rest.
	pause = 10 * time.Minute
)

// Container has the estimates of one container. The zero Container has seen nothing. Its
// methods are safe for concurrent use.
type Container struct {
	mu    sync.Mutex
	keys  *spacesaving.Sketch // weights in RU as of one; nil: there was no sample
	one   time.Duration       // uptime at which 1 RU weighs 1; a later RU weighs more
	begun time.Duration       // uptime of the first sample
}

// Partition has the estimate of one physical partition. The lock of its container guards
// it. The zero Partition has consumed nothing.
type Partition struct {
	units  float64       // RU, decayed
	at     time.Duration // uptime of the last sample
	begun  time.Duration // uptime of the first one
	rests  time.Duration // uptime until which it is not overloaded
	points *splitter.Histogram
	taken  int // samples in points
}

// Sample counts an operation of so many RU on a logical partition of p. It stands for as
// many operations as ops says. Operations do not wait for the lock: if it is taken, the
// sample is lost.
func (c *Container) Sample(p *Partition, pk []byte, ru, ops float64, now time.Duration) {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.keys == nil {
		c.keys, c.one, c.begun = spacesaving.New(Keys), now, now
	}
	if now-c.one > 100*span { // before the weights overflow
		c.keys.Scale(decay(now - c.one))
		c.one = now
	}
	weigh := ops / decay(now-c.one)
	c.keys.Add(pk, spacesaving.Size{Items: weigh, Weight: weigh * ru})
	if p.units == 0 {
		p.begun = now
	}
	p.units = p.units*decay(now-p.at) + ops*ru
	p.at = now
	if p.points != nil && p.taken < splitter.LoadSamples {
		p.points.Add(partmap.HashEncoded(pk), int64(ru*1000))
		p.taken++
	}
}

// decay is what is left of 1 after a time.
func decay(t time.Duration) float64 { return math.Exp(-t.Seconds() / span.Seconds()) }

// perSecond returns the factor that turns a decayed sum into a rate per second. age
// is how long ago the sum began; less than a second counts as a second.
func perSecond(age time.Duration) float64 {
	return 1 / (span.Seconds() * (1 - decay(max(age, time.Second))))
}

// Load returns the RU/s that a partition consumes.
func (c *Container) Load(p *Partition, now time.Duration) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.load(now)
}

func (p *Partition) load(now time.Duration) float64 {
	return p.units * decay(now-p.at) * perSecond(now-p.begun)
}

// Key is what a logical partition has consumed of late.
type Key struct {
	PK    string  // encoded partition key
	Ops   float64 // operations a second
	Units float64 // RU/s
	Error float64 // RU/s of Units that other keys may have consumed
}

// Hottest returns the logical partitions that consume the most, n at most, the hottest
// first.
func (c *Container) Hottest(n int, now time.Duration) []Key {
	c.mu.Lock()
	if c.keys == nil {
		c.mu.Unlock()
		return nil
	}
	scale := decay(now-c.one) * perSecond(now-c.begun)
	all := c.keys.All()
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b spacesaving.Heavy) int {
		return cmp.Or(cmp.Compare(b.Size.Weight, a.Size.Weight), cmp.Compare(a.Key, b.Key))
	})
	var list []Key
	for _, h := range all[:max(0, min(n, len(all)))] {
		list = append(list, Key{PK: h.Key, Ops: h.Size.Items * scale, Units: h.Size.Weight * scale, Error: h.Err.Weight * scale})
	}
	return list
}

// Overloaded returns a histogram of the partition's load, nil unless the load is too high
// by the policy and enough of it was sampled. It is asked again and again: samples go into
// the histogram from the first time on at which the load is too high. inherits says that
// the partition still needs the logs of its parents.
func (c *Container) Overloaded(p *Partition, policy splitter.Policy, inherits bool, now time.Duration) *splitter.Histogram {
	c.mu.Lock()
	defer c.mu.Unlock()
	hot := now-p.begun >= span && now >= p.rests && policy.Hot(splitter.State{Load: p.load(now), Inherits: inherits})
	switch {
	case !hot:
		p.points, p.taken = nil, 0
	case p.points == nil:
		p.points = new(splitter.Histogram)
	case p.taken == splitter.LoadSamples:
		points := p.points
		p.points, p.taken = nil, 0
		return points
	}
	return nil
}

// Rest notes that no cut divides the load of the partition: it is that of one hot key. For
// ten minutes Overloaded returns nil.
func (c *Container) Rest(p *Partition, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.rests = now + pause
}
