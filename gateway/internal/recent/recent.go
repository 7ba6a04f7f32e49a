// Package recent makes continuations as short as clients want them.
//
// A client can bound the size of a continuation, and @azure/cosmos always asks for 1 KB. A
// longer one is then replaced by a short one, in which hashes stand for long keys and
// values. For the pages that follow soon, the long one is remembered: with that the query goes
// on even if the result at which it stands was deleted.
package recent

import (
	"strconv"
	"strings"
	"sync"
)

// Continuations are long continuations by their short ones. It is safe for concurrent use, and its
// zero value is ready. Memory is bounded: the older half is
// forgotten when the newer one is full.
type Continuations struct {
	mu         sync.Mutex
	young, old map[string]string
	bytes      int // of young
}

const halfBytes = 1 << 20 // of each half

func (r *Continuations) put(short, long string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || r.bytes > halfBytes {
		r.young, r.old, r.bytes = make(map[string]string), r.young, 0
	}
	r.young[short] = long
	r.bytes += len(short) + len(long) + 64
}

// Long returns the long continuation of a short one, or what it is given if there is none.
func (r *Continuations) Long(short string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.young[short]; ok {
		return s
	}
	if s, ok := r.old[short]; ok {
		return s
	}
	return short
}

const (
	leastContinuation = 1 << 10
	mostContinuation  = 8 << 10 // unless the client says less: headers are bounded on the way
	ownContinuation   = 32      // what the gateway adds to that of the store, at most
)

// Result is a query that gives continuations.
type Result interface {
	Continue() string
	ShortContinue() string
}

// Fit returns the continuation of a result, as short as the client wants it: limit is
// how many KB it says, "" if it says nothing.
func (r *Continuations) Fit(limit string, of Result) string {
	most := mostContinuation
	if n, err := strconv.Atoi(strings.TrimSpace(limit)); err == nil && n > 0 && n < most>>10 {
		most = max(n<<10, leastContinuation)
	}
	long := of.Continue()
	if len(long)+ownContinuation <= most {
		return long
	}
	short := of.ShortContinue()
	r.put(short, long)
	return short
}
