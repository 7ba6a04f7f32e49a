package measure

import (
	"time"

	"github.com/cleavestore/cleave/internal/workload"
)

// Tally counts operations of one kind. The zero value has counted none. It is
// for one goroutine.
type Tally struct {
	Busy   time.Duration // the sum of the service times
	Errors int64         // operations that failed; they have no latency
	Bytes  int64         // of documents read or written
	// Throttled counts operations that ended with ErrThrottled; they have no
	// latency.
	Throttled int64
	// Expired counts reads, of those without an error, that found their document expired.
	Expired int64

	// Places counts successes by the place of their partition key in the key space; nil: they
	// are not counted. Operations on all partitions are not in it.
	Places *Places

	Service  Latencies // of successes, from the call to its return
	Response Latencies // from the moment the operation was due; of an open loop only
	Lag      Latencies // how late the clock woke the worker, with two digits; of an open loop only
}

// prepare takes the memory for counting.
func (t *Tally) prepare(open bool) {
	t.Service.prepare()
	if open {
		t.Lag.coarse = true
		t.Response.prepare()
		t.Lag.prepare()
	}
}

// Record counts an operation of a closed loop that succeeded.
func (t *Tally) Record(d time.Duration) {
	t.Busy += d
	t.Service.Record(d)
}

// RecordDue counts an operation of an open loop that succeeded.
func (t *Tally) RecordDue(service, response, lag time.Duration) {
	t.Record(service)
	t.Response.Record(response)
	t.Lag.Record(lag)
}

// Add adds what another tally counted.
func (t *Tally) Add(other *Tally) {
	t.Busy += other.Busy
	t.Errors += other.Errors
	t.Throttled += other.Throttled
	t.Expired += other.Expired
	t.Bytes += other.Bytes
	if other.Places != nil {
		if t.Places == nil {
			t.Places = new(Places)
		}
		for i, n := range other.Places {
			t.Places[i] += n
		}
	}
	t.Service.Add(&other.Service)
	t.Response.Add(&other.Response)
	t.Lag.Add(&other.Lag)
}

// Reset forgets what was counted.
func (t *Tally) Reset() {
	t.Busy, t.Errors, t.Bytes, t.Throttled, t.Expired = 0, 0, 0, 0, 0
	if t.Places != nil {
		*t.Places = Places{}
	}
	t.Service.Reset()
	t.Response.Reset()
	t.Lag.Reset()
}

// Successes is the number of operations without error.
func (t *Tally) Successes() int64 { return t.Service.Count() }

// Ended is the number of operations that were begun and are over.
func (t *Tally) Ended() int64 { return t.Successes() + t.Errors + t.Throttled }

// Micros returns a percentile of the service times in microseconds, 0 if there
// are none.
func (t *Tally) Micros(percentile float64) float64 { return t.Service.Micros(percentile) }

// Latencies returns the latencies that a caller sees: the response times if
// operations were due, else the service times.
func (t *Tally) Latencies() *Latencies {
	if t.Response.Count() > 0 {
		return &t.Response
	}
	return &t.Service
}

// Memory is what the tally takes, in bytes.
func (t *Tally) Memory() int64 { return t.Service.Memory() + t.Response.Memory() + t.Lag.Memory() }

// Tallies count operations by their kind.
type Tallies [workload.NumOps]Tally

// prepared returns tallies for the operations of a mix, which count places if they are to.
func prepared(mix workload.Mix, open, places bool) *Tallies {
	t := new(Tallies)
	for op, share := range mix {
		if share > 0 {
			t[op].prepare(open)
			if places {
				t[op].Places = new(Places)
			}
		}
	}
	return t
}

// All returns the tallies of all operations together.
func (t *Tallies) All() (all Tally) {
	for op := range t {
		all.Add(&t[op])
	}
	return all
}

// Add adds what others counted.
func (t *Tallies) Add(other *Tallies) {
	for op := range t {
		t[op].Add(&other[op])
	}
}

// Reset forgets what was counted.
func (t *Tallies) Reset() {
	for op := range t {
		t[op].Reset()
	}
}

// Memory is what the tallies take, in bytes.
func (t *Tallies) Memory() (n int64) {
	for op := range t {
		n += t[op].Memory()
	}
	return n
}
