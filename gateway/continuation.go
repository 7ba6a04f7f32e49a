package gateway

import (
	"strconv"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/engine"
)

// A client can bound the size of a continuation, and @azure/cosmos always asks for 1 KB. A
// longer one is then replaced by a short one, in which hashes stand for long keys and values. For
// the pages that follow soon, the gateway remembers the long one: with that the query goes on
// even if the result at which it stands was deleted.

// recent are long continuations by their short ones. Memory is bounded: the older half is
// forgotten when the newer one is full.
type recent struct {
	mu         sync.Mutex
	young, old map[string]string
	bytes      int // of young
}

const recentBytes = 1 << 20 // of each half

func (r *recent) put(short, long string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || r.bytes > recentBytes {
		r.young, r.old, r.bytes = make(map[string]string), r.young, 0
	}
	r.young[short] = long
	r.bytes += len(short) + len(long) + 64
}

// long returns the long continuation of a short one, or what it is given if there is none.
func (r *recent) long(short string) string {
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

// continuationOf returns the continuation of a result, as short as the client wants it.
func (c *call) continuationOf(r *engine.QueryResult) string {
	most := mostContinuation
	if n, err := strconv.Atoi(strings.TrimSpace(c.r.Header.Get("X-Ms-Documentdb-Responsecontinuationtokenlimitinkb"))); err == nil && n > 0 && n < most>>10 {
		most = max(n<<10, leastContinuation)
	}
	long := r.Continue()
	if len(long)+ownContinuation <= most {
		return long
	}
	short := r.ShortContinue()
	c.recent.put(short, long)
	return short
}
