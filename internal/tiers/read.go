package tiers

import (
	"iter"
	"math"
	"sync/atomic"
)

// Tiers are for writers: runs rest while they are few for those. But each scan seeks in all runs, and
// where scans are many it pays to compact runs earlier: when the seeks that a compaction would have
// spared took as long as it takes. So these compactions never take longer than the seeks that came before
// them (the "ski rental" rule). Pebble and RocksDB call such compactions read-triggered.
//
// Where compactions keep to a rate they take longer, and hold up those that writes need: that time counts
// too. Rates here are the bytes a second that all compactions may take together, +Inf without a limit.
const (
	seekBytes = 512                // bytes that are compacted in the time of a seek, 2.5 µs
	fullRate  = seekBytes / 2.5e-6 // bytes a second of a compaction that nothing slows
	callBytes = 1 << 20            // bytes that are compacted in the time that a compaction takes whatever its size, mostly for syncs
)

// byReads chooses among neighbouring runs of these sizes, newest first, in which scans have sought so
// often in addition to one seek each: the newest ones, as many as have become worth a compaction.
func byReads(sizes []int64, rate float64, seeks int64) (p Plan) {
	for n, worth := range worthwhile(sizes, rate) {
		if seeks >= worth {
			p.End = n
		}
	}
	return p
}

// SeeksUntil is the number of seeks from which byReads chooses some of the runs, if no rate slows compactions;
// if one does, it is more.
func SeeksUntil(sizes []int64) int64 {
	least := int64(math.MaxInt64)
	for _, worth := range worthwhile(sizes, fullRate) {
		least = min(least, worth)
	}
	return least
}

// worthwhile returns for each number of newest runs the seeks in all runs after which their compaction is
// worth it. It spares the part of them that lies in all these runs but one.
func worthwhile(sizes []int64, rate float64) iter.Seq2[int, int64] {
	return func(yield func(n int, seeks int64) bool) {
		slower := max(1, fullRate/rate)
		cost := float64(callBytes)
		for i, size := range sizes {
			cost += float64(size) * slower
			seeks := cost * float64(len(sizes)-1) / float64(i*seekBytes)
			if i > 0 && !yield(i+1, int64(min(math.Ceil(seeks), 1<<62))) {
				return
			}
		}
	}
}

// Seeks counts the seeks of scans in the runs of a partition, without one for each scan. Its methods may be
// called by any goroutine.
type Seeks struct{ n atomic.Int64 }

// seeksAgain is the number of seeks after which Pick is to be asked once more: the first time may have
// been missed by one that was under way.
const seeksAgain = 1024

// Add counts a scan that has sought in so many runs. due says that Pick is to be asked, since a compaction
// may be worth it from so many seeks on: see SeeksUntil.
func (s *Seeks) Add(runs int, until int64) (due bool) {
	more := int64(runs - 1)
	if more < 1 {
		return false
	}
	past := s.n.Add(more) - until
	return past >= 0 && (past < more || past/seeksAgain != (past-more)/seeksAgain)
}

// Pick is byReads with the seeks that were counted.
func (s *Seeks) Pick(sizes []int64, rate float64) Plan { return byReads(sizes, rate, s.n.Load()) }

// Use is Pick. If it chooses any runs, it forgets the seeks.
func (s *Seeks) Use(sizes []int64, rate float64) Plan {
	p := s.Pick(sizes, rate)
	if p.Len() > 0 {
		s.Forget()
	}
	return p
}

// Forget counts from 0 again.
func (s *Seeks) Forget() { s.n.Store(0) }
