// Package keylimits has the limits of the logical partitions of a container: the request
// units (RU) a second that each may consume, and the bytes that it may hold. It counts
// what limited ones consume. Package engine stores the limits and refuses operations.
//
// A logical partition with a rate has a token bucket, which holds the unused rate of
// Depth. An operation is admitted while the balance is positive, and charged when its
// work is done. So the balance may fall below 0; then no operation is admitted until it
// is positive again.
//
// Invariants:
//
//  1. A logical partition without a bucket is one with a full bucket. So only those have
//     memory that have consumed of late, or whose consumption is still counted.
//  2. A shard has at most perShard buckets, with shardBytes of keys, and those of keys
//     with a limit of their own, which are never evicted. When it is full, the bucket that
//     is evicted is the fullest of a few, of full ones the one that was idle longest.
//  3. What a bucket has counted is all that its key has consumed since bucket.since: its
//     shard has evicted nothing between that moment and the making of the bucket.
//  4. If no logical partition has a rate, Admit and Charge load one pointer, and take no
//     lock. Otherwise each takes the lock of a shard for a moment, as the last lock. With a
//     bucket present they allocate nothing.
package keylimits

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Depth is how long a bucket takes to fill from empty.
const Depth = time.Second

const (
	shards     = 64
	perShard   = 1024
	shardBytes = 256 << 10
	looked     = 16 // buckets that are looked at to evict one
)

// Limit bounds one logical partition.
type Limit struct {
	Throughput float64 // RU/s; 0: unlimited
	Bytes      int64   // of its documents
}

// Rules are the limits of a container. They are not changed once they were Set.
type Rules struct {
	Default Limit
	Keys    map[string]Limit // by encoded partition key
	// Unmetered says that no throughput is limited, whatever the limits say.
	Unmetered bool
}

// of returns the limit of a logical partition.
func (r *Rules) of(pk []byte) Limit {
	if l, ok := r.Keys[string(pk)]; ok {
		return l
	}
	return r.Default
}

// metered says whether any logical partition has a rate.
func (r *Rules) metered() bool {
	if r.Unmetered || r.Default.Throughput > 0 {
		return !r.Unmetered
	}
	for _, l := range r.Keys {
		if l.Throughput > 0 {
			return true
		}
	}
	return false
}

// Limits are the limits of a container, with what its logical partitions have consumed.
// The methods are safe for concurrent use; now is the store's uptime.
type Limits struct {
	rules   atomic.Pointer[state]
	mu      sync.Mutex   // held while the rules change
	refused atomic.Int64 // operations of all logical partitions
}

// state is what Set has set.
type state struct {
	Rules
	leastBytes int64
	meters     *meters // nil: no logical partition has a rate
}

// Set replaces the limits. A debt stays the same number of RU.
func (l *Limits) Set(r Rules, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &state{Rules: Rules{Default: r.Default, Keys: maps.Clone(r.Keys), Unmetered: r.Unmetered}, leastBytes: r.Default.Bytes}
	for _, k := range r.Keys {
		next.leastBytes = min(next.leastBytes, k.Bytes)
	}
	old := l.rules.Load()
	if next.metered() {
		if old != nil && old.meters != nil {
			next.meters = old.meters
		} else {
			next.meters = newMeters(now)
		}
	}
	l.rules.Store(next)
	if next.meters != nil && old != nil && old.meters != nil {
		next.meters.changeRates(&old.Rules, &next.Rules, now)
	}
}

// Of returns the limit of a logical partition.
func (l *Limits) Of(pk []byte) Limit { return l.rules.Load().of(pk) }

// Rules returns the limits. The caller must not change them.
func (l *Limits) Rules() Rules { return l.rules.Load().Rules }

// Bytes returns the most bytes that the documents of a logical partition may have.
func (l *Limits) Bytes(pk []byte) int64 { return l.rules.Load().of(pk).Bytes }

// LeastBytes returns the smallest limit that a logical partition has.
func (l *Limits) LeastBytes() int64 { return l.rules.Load().leastBytes }

// Metered says whether Admit and Charge are to be called.
func (l *Limits) Metered() bool {
	s := l.rules.Load()
	return s != nil && s.meters != nil
}

// Admit returns 0 if an operation on a logical partition is admitted now. Otherwise it
// counts a refusal and returns how long until the next operation is admitted.
func (l *Limits) Admit(pk []byte, now time.Duration) time.Duration {
	wait := l.admit(pk, now, 1)
	if wait > 0 {
		l.refused.Add(1)
	}
	return wait
}

// Wait is Admit for an operation that waits then: it counts no refusal.
func (l *Limits) Wait(pk []byte, now time.Duration) time.Duration { return l.admit(pk, now, 0) }

func (l *Limits) admit(pk []byte, now time.Duration, refusals int64) time.Duration {
	s := l.rules.Load()
	if s == nil || s.meters == nil || s.of(pk).Throughput == 0 {
		return 0
	}
	return s.meters.admit(pk, now, refusals)
}

// Refused returns how many operations were not admitted.
func (l *Limits) Refused() int64 { return l.refused.Load() }

// Charge takes the cost of an operation from the bucket of its logical partition.
func (l *Limits) Charge(pk []byte, ru float64, now time.Duration) {
	s := l.rules.Load()
	if s == nil || s.meters == nil {
		return
	}
	if rate := s.of(pk).Throughput; rate > 0 {
		s.meters.charge(s, pk, rate, ru, now)
	}
}

// Consumption is what a logical partition has consumed.
type Consumption struct {
	Units   float64       // RU
	Refused int64         // operations
	Since   time.Duration // uptime from which on all of it is counted
	Wait    time.Duration // until the next operation is admitted; 0: one is
}

// Consumed returns what a logical partition has consumed. ok is false if it has no rate:
// then nothing is counted.
func (l *Limits) Consumed(pk []byte, now time.Duration) (c Consumption, ok bool) {
	s := l.rules.Load()
	if s == nil || s.meters == nil || s.of(pk).Throughput == 0 {
		return Consumption{}, false
	}
	return s.meters.consumed(pk, now), true
}

// meters are the buckets of a container.
type meters struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex
	buckets map[string]*bucket // by encoded partition key
	bytes   int                // of their keys
	evicted time.Duration      // uptime of the last eviction, at first of the beginning
	_       [64]byte           // shards do not share a cache line
}

// bucket keeps only the moment at which its credit is, or was, 0. The credit grows as
// time passes; a charge moves the moment forward.
type bucket struct {
	zero     time.Duration // uptime
	used     time.Duration // uptime of the last operation
	since    time.Duration // uptime: see invariant 3
	consumed float64       // RU
	refused  int64
}

func newMeters(now time.Duration) *meters {
	m := &meters{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].evicted = now
	}
	return m
}

func (m *meters) shard(pk []byte) *shard { return &m.shards[maphash.Bytes(m.seed, pk)%shards] }

// admit counts so many refusals if the operation is not admitted.
func (m *meters) admit(pk []byte, now time.Duration, refusals int64) time.Duration {
	s := m.shard(pk)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[string(pk)]
	if b == nil {
		return 0
	}
	wait := b.wait(now)
	if wait > 0 {
		b.refused += refusals
		b.used = now
	}
	return wait
}

func (m *meters) charge(of *state, pk []byte, rate, ru float64, now time.Duration) {
	s := m.shard(pk)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[string(pk)]
	if b == nil {
		b = s.add(of, pk, now)
	}
	b.consumed += ru
	b.used = now
	b.zero = max(b.zero, now-Depth) + span(ru, rate)
}

func (m *meters) consumed(pk []byte, now time.Duration) Consumption {
	s := m.shard(pk)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[string(pk)]
	if b == nil {
		return Consumption{Since: s.evicted}
	}
	return Consumption{Units: b.consumed, Refused: b.refused, Since: b.since, Wait: b.wait(now)}
}

// add makes a bucket, which is full. The lock is held.
func (s *shard) add(of *state, pk []byte, now time.Duration) *bucket {
	for len(s.buckets) >= perShard || s.bytes+len(pk) > shardBytes {
		if !s.evict(of, now) {
			break
		}
	}
	if s.buckets == nil {
		s.buckets = make(map[string]*bucket)
	}
	b := &bucket{zero: now - Depth, since: s.evicted}
	s.buckets[string(pk)] = b
	s.bytes += len(pk)
	return b
}

// evict removes a bucket. It returns false if there is none to remove. The lock is held.
func (s *shard) evict(of *state, now time.Duration) bool {
	var key string
	var victim *bucket
	n := 0
	for k, b := range s.buckets {
		if n++; n > looked && victim != nil {
			break
		}
		if _, own := of.Keys[k]; !own && (victim == nil || b.before(victim, now)) {
			key, victim = k, b
		}
	}
	if victim == nil {
		return false
	}
	delete(s.buckets, key)
	s.bytes -= len(key)
	s.evicted = now
	return true
}

// before says whether b is evicted before o: it has more credit or, if both are full, was
// idle longer.
func (b *bucket) before(o *bucket, now time.Duration) bool {
	full := now - Depth
	if b.zero <= full && o.zero <= full {
		return b.used < o.used
	}
	return b.zero < o.zero
}

// wait returns how long until an operation is admitted; 0: one is now.
func (b *bucket) wait(now time.Duration) time.Duration { return max(0, b.zero-now+1) }

// span returns the time in which the rate gives so many RU.
func span(ru, rate float64) time.Duration { return time.Duration(ru / rate * float64(time.Second)) }

// changeRates keeps the balances in RU where rates have changed.
func (m *meters) changeRates(from, to *Rules, now time.Duration) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		if from.Default.Throughput == 0 && to.Default.Throughput > 0 {
			s.evicted = now // what was consumed before was not counted
		}
		for k, b := range s.buckets {
			before, after := from.of([]byte(k)).Throughput, to.of([]byte(k)).Throughput
			switch {
			case after == 0:
				// What is counted of it until now will not be all.
				delete(s.buckets, k)
				s.bytes -= len(k)
				s.evicted = now
			case before == 0:
				b.since = now
			case before != after && b.zero > now:
				b.zero = now + span((b.zero-now).Seconds()*before, after)
			}
		}
		s.mu.Unlock()
	}
	for k, l := range from.Keys {
		if pk := []byte(k); l.Throughput == 0 && to.of(pk).Throughput > 0 {
			s := m.shard(pk)
			s.mu.Lock()
			s.evicted = now
			s.mu.Unlock()
		}
	}
	for k, l := range to.Keys {
		if pk := []byte(k); l.Throughput > 0 && from.of(pk).Throughput == 0 {
			s := m.shard(pk)
			s.mu.Lock()
			s.evicted = now
			s.mu.Unlock()
		}
	}
}
