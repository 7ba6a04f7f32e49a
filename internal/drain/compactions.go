package drain

import (
	"math"
	"time"
)

// BeginNested is Begin for a compaction, which may be nested in one under way. behind is how
// many bytes the runs have that it reads, and all that are older.
func (m *Meter) BeginNested(bytes, runs, behind int64) *Job {
	j := m.Begin(bytes, runs)
	m.mu.Lock()
	defer m.mu.Unlock()
	j.behind = behind
	return j
}

// Runs are the runs of a partition.
type Runs struct {
	Bytes int64 // of all
	Each  int64 // bytes of a run that a flush writes
	Tier  int   // runs of one size that become one run
}

// PaceRuns returns how many nanoseconds each byte that flushes write now must take, so that
// each compaction under way ends before the runs in front of its inputs are as large as they
// are. It resumes when those nested in it have ended, and more of them will come: each byte is
// merged in every tier below the inputs. 0: no compaction is under way.
func (m *Meter) PaceRuns(r Runs) (pace float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	write, finish := m.costs()
	last := 0.0
	for i := len(m.jobs) - 1; i >= 0; i-- { // the innermost ends first
		j := m.jobs[i]
		last += j.left(now, write, finish)
		inFront := r.Bytes - j.behind
		room := max(j.bytes-inFront, r.Each, 1) // less is over before the next flush
		tiers := math.Log(float64(j.bytes)/float64(max(r.Each, 1)))/math.Log(float64(r.Tier)) - 1
		pace = max(pace, last/float64(room)+max(tiers, 0)*write)
	}
	return pace
}
