package control

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/internal/pageapi"
)

// Fault is what a test plants: an answer for some of the requests, in the place of theirs, or a
// latency. Requests are counted that all of Operations, Database, Container and Partition
// allow.
type Fault struct {
	// ID is given by the server.
	ID int64 `json:"id,omitzero"`
	// Status is one of 408, 410, 429, 449, 500 and 503; 0: there is only a latency. 410 meets
	// only requests that name a physical partition.
	Status int `json:"status,omitzero"`
	// SubStatus of the answer. 0: 1002 for 410, 3200 for 429, none for others.
	SubStatus int `json:"substatus,omitzero"`
	// RetryAfter is what an answer with status 429 says, in milliseconds.
	RetryAfter float64 `json:"retry_after_ms,omitzero"`
	// Latency is added before the request is carried out or answered, in milliseconds.
	Latency float64 `json:"latency_ms,omitzero"`
	// After: the request is carried out, and the client does not learn its outcome.
	After bool `json:"after,omitempty"`
	// Operations are the kinds that are met: see gateway.Kinds. None: all.
	Operations []string `json:"operations,omitempty"`
	// Database, Container and Partition, the id of a physical partition that the request
	// names, are met. "": all.
	Database  string `json:"database,omitempty"`
	Container string `json:"container,omitempty"`
	Partition string `json:"partition,omitempty"`
	// Skip is how many requests are let through first.
	Skip int64 `json:"skip,omitzero"`
	// Count is how many requests are met; 0: no bound. Then the fault has ended.
	Count int64 `json:"count,omitzero"`
	// Share of the requests that is met, above 0 and at most 1; 0: all. Seed chooses which:
	// the same ones in each run that has the same requests in the same order.
	Share float64 `json:"share,omitzero"`
	Seed  uint64  `json:"seed,omitzero"`

	// Seen and Met count requests, so far.
	Seen int64 `json:"seen"`
	Met  int64 `json:"met"`
	// Ended says that Count requests were met.
	Ended bool `json:"ended"`
}

// Bounds of faults.
const (
	mostFaults  = 1000
	mostLatency = 10 * time.Minute
)

// faults are those that are planted.
type faults struct {
	mu   sync.Mutex
	last int64
	all  []*Fault // in the order in which they were planted
}

// check validates a fault and fills in defaults.
func (f *Fault) check() error {
	switch f.Status {
	case 0:
		if f.Latency <= 0 {
			return pageapi.BadRequest("a fault has a status, a latency_ms, or both")
		}
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusServiceUnavailable, 449:
	case http.StatusGone:
		if f.SubStatus == 0 {
			f.SubStatus = 1002
		}
	case http.StatusTooManyRequests:
		if f.SubStatus == 0 {
			f.SubStatus = 3200
		}
	default:
		return pageapi.BadRequest("status: want 408, 410, 429, 449, 500 or 503, or 0 for a latency alone")
	}
	switch {
	case !(f.Share >= 0 && f.Share <= 1):
		return pageapi.BadRequest("share: want a number from 0 to 1")
	case !(f.Latency >= 0 && f.Latency <= float64(mostLatency.Milliseconds())):
		return pageapi.BadRequest("latency_ms: want a number from 0 to " + strconv.FormatInt(mostLatency.Milliseconds(), 10))
	case !(f.RetryAfter >= 0 && f.RetryAfter <= float64(mostLatency.Milliseconds())):
		return pageapi.BadRequest("retry_after_ms: want a number from 0 to " + strconv.FormatInt(mostLatency.Milliseconds(), 10))
	case f.Skip < 0 || f.Count < 0 || f.SubStatus < 0:
		return pageapi.BadRequest("skip, count and substatus are not negative")
	case f.Container != "" && f.Database == "":
		return pageapi.BadRequest("container: the database is missing")
	}
	for _, kind := range f.Operations {
		if !slices.Contains(gateway.Kinds(), kind) {
			return pageapi.BadRequest(fmt.Sprintf("operations: %q is none of %v", kind, gateway.Kinds()))
		}
	}
	return nil
}

func (s *faults) plant(f Fault) (Fault, error) {
	f.Seen, f.Met, f.Ended = 0, 0, false
	if err := f.check(); err != nil {
		return f, err
	}
	f.Operations = slices.Clone(f.Operations)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= mostFaults {
		return f, pageapi.Failure{Status: http.StatusConflict, Kind: "refused", Text: fmt.Sprintf("there are %d faults already: remove some", mostFaults)}
	}
	s.last++
	f.ID = s.last
	s.all = append(s.all, &f)
	return f, nil
}

func (s *faults) list() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Fault, len(s.all))
	for i, f := range s.all {
		all[i] = *f
	}
	return all
}

// remove removes a fault, or all with id 0, and returns how many there were.
func (s *faults) remove(id int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.all)
	s.all = slices.DeleteFunc(s.all, func(f *Fault) bool { return id == 0 || f.ID == id })
	return before - len(s.all)
}

// before implements gateway.Options.Before. The latencies of all faults that a request meets
// add up; the first one with a status answers.
func (s *faults) before(ctx context.Context, o gateway.Operation) (*gateway.Fault, error) {
	var wait time.Duration
	var answer *gateway.Fault
	s.mu.Lock()
	for _, f := range s.all {
		if f.Ended || !f.allows(&o) || answer != nil && f.Status != 0 || !f.meets() {
			continue
		}
		wait += time.Duration(f.Latency * float64(time.Millisecond))
		if f.Status != 0 {
			answer = &gateway.Fault{
				Status: f.Status, SubStatus: f.SubStatus, RetryAfter: time.Duration(f.RetryAfter * float64(time.Millisecond)),
				Message: fmt.Sprintf("fault %d of the control port", f.ID), After: f.After,
			}
		}
	}
	s.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(min(wait, mostLatency))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return answer, nil
}

func (f *Fault) allows(o *gateway.Operation) bool {
	return (len(f.Operations) == 0 || slices.Contains(f.Operations, o.Kind)) &&
		(f.Database == "" || f.Database == o.Database) && (f.Container == "" || f.Container == o.Container) &&
		(f.Partition == "" || f.Partition == o.Range) && (f.Status != http.StatusGone || o.Range != "")
}

// meets counts a request and says whether it is met.
func (f *Fault) meets() bool {
	n := f.Seen
	f.Seen++
	if n < f.Skip || f.Share > 0 && f.Share < 1 && chance(f.Seed, uint64(n)) >= f.Share {
		return false
	}
	f.Met++
	f.Ended = f.Count > 0 && f.Met >= f.Count
	return true
}

// chance returns a number from 0 to 1, the n-th of a seed: splitmix64.
func chance(seed, n uint64) float64 {
	x := seed + (n+1)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return float64((x^x>>31)>>11) / (1 << 53)
}
