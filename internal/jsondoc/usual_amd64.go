package jsondoc

import "unsafe"

// hasUsual says that usual does something.
const hasUsual = true

// usual goes on with a scan where that is, p, in the state next, as long as what comes is
// usual, and returns what comes then. What it leaves to its caller is
//
//   - what begins behind doc[limit],
//   - a name or string that is not the one at pairs[p.q],
//   - a name with escapes, and one for which there is no room; from the 33rd on those of an
//     object,
//   - a number with an exponent or of more than 15 bytes behind its sign,
//   - a container in frames[deepest], and the closing bracket of the root and of an object
//     of over 32 members,
//   - what is not JSON.
//
// limit is at least spareBytes before the end of doc. It writes in p, names[:room] and
// frames[:deepest+1]. Tables is the length of Scanner.table; escapes says whether names may
// have escapes. AtFlaw means that two names have the same hash.
//
//go:noescape
func usual(p *progress, next state, doc *byte, limit int, pairs *uint32, names *name, room int, frames *frame, deepest, tables int, escapes bool) state

// The assembly shifts by these sizes.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(name{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(frame{})-32]
)
