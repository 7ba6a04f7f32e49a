package latency

import (
	"sync/atomic"
	"time"
)

// Call is a kind of call.
type Call uint8

// The kinds of calls.
const (
	Read Call = iota
	Query
	Scan
	Write
	Batch
	Transaction
	calls
)

// AllCalls has the kinds of calls, in order.
var AllCalls = [calls]Call{Read, Query, Scan, Write, Batch, Transaction}

// String returns the name of the kind.
func (c Call) String() string {
	return [...]string{"read", "query", "scan", "write", "batch", "transaction"}[c]
}

// every says how many calls of a kind there are for one that is timed, a power of two. To
// time a call takes two readings of the clock; in scans and queries, more.
var every = [calls]uint32{Read: 32, Query: 8, Scan: 16, Write: 1, Batch: 1, Transaction: 1}

// Calls times the calls of a store. It is safe for concurrent use.
type Calls struct {
	slow  time.Duration // calls that take longer are slow; 0: none is
	skip  [calls]uint32 // one call in skip+1 is timed
	times [calls]Recorder
	slows [calls]atomic.Int64
}

// Init says from when on calls are slow; 0: none is. With slow calls all calls are timed.
func (c *Calls) Init(slow time.Duration) {
	c.slow = slow
	for i := range c.skip {
		if slow == 0 {
			c.skip[i] = every[i] - 1
		}
	}
}

// Timed says whether to time a call. draw is a random number, of which Timed looks at bits
// 16 to 20.
func (c *Calls) Timed(kind Call, draw uint32) bool { return draw>>16&c.skip[kind] == 0 }

// Ended counts a call that was timed and has done its work, and says whether it was slow.
func (c *Calls) Ended(kind Call, took time.Duration) (slow bool) {
	c.times[kind].Record(took, uint64(c.skip[kind])+1)
	return c.Slow(kind, took)
}

// Slow says whether a call that took so long was slow, and counts it if it was.
func (c *Calls) Slow(kind Call, took time.Duration) bool {
	if c.slow == 0 || took <= c.slow {
		return false
	}
	c.slows[kind].Add(1)
	return true
}

// Times returns how long calls of a kind took.
func (c *Calls) Times(kind Call) *Recorder { return &c.times[kind] }

// Slows returns how many calls of a kind were slow.
func (c *Calls) Slows(kind Call) int64 { return c.slows[kind].Load() }
