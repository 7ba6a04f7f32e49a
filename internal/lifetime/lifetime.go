// Package lifetime says when items expire. Reads, conditions, claims, feeds, statistics,
// compactions and the expirer all ask it.
//
// A version has a time of writing, Modified, and a time Expires of its own: 0 says that it
// has none, Never that it lives for ever. A container has a default time to live. There are
// two kinds of containers:
//
//   - In one whose default is fixed, the engine computes Expires when it writes, from the
//     default too. Then 0 says that the version lives for ever.
//   - In one whose default can be changed, Expires comes from the document or the write
//     alone. A version without one lives for the present default after Modified. While the
//     default is 0, nothing expires; while it is negative, only versions with a time of
//     their own expire.
//
// So a change of the default is one number, which the manifest of the store has, and no
// version is written for it. A claim on a unique key is written whenever its item is, so
// that both have the same times, and expire together under each default.
//
// Invariants:
//
//  1. A Past is what one reader goes by: the present and the default of one moment. A
//     change of the default is seen by a reader wholly or not at all.
//  2. What a compaction or the expirer removes has expired under the default that holds
//     when the removal is shown. A change makes the default durable, then puts it into use
//     (Set) while the sets of files of all partitions and their writes are locked. So a
//     compaction under way has shown its result before, or finds out and begins again; and a
//     write, which judges what has expired too, is made wholly before or after. A reader
//     never sees an item come back and vanish again by an older default.
//  3. After a change nothing is removed before the grace period is over, by a clock that
//     does not jump, and as long as a reader may go by the default before. So a change can
//     be undone within the grace period without loss.
//  4. What was removed stays gone, whatever the default becomes.
//
// The partitions of a replicated container each have a Life of their own, which changes at an
// entry of their log, and what has expired does not come back: see Rule.
//
// A crash before the manifest of the store has the new default leaves the old one, and
// nothing was removed meanwhile by the new one. After it, the next open goes by the new
// default; it removes nothing before the store has been open for the grace period.
package lifetime

import (
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/item"
)

const (
	// Never is the Expires of a version that lives for ever by its own choice. It lies behind
	// all times of clocks.
	Never = item.MaxExpires
	// Ever is the time to live, in milliseconds, of a write whose version lives for ever.
	Ever = -1
)

// Stored returns the Expires of a version that is written at modified with a time to live in
// milliseconds: 0: none of its own, Ever: for ever.
func Stored(modified, ttl int64) int64 {
	switch {
	case ttl == 0:
		return 0
	case ttl < 0:
		return Never
	}
	return modified + ttl
}

// Tombstone returns the tombstone of an item that has expired. In a container that follows its
// default it has Never as a mark: the default may have changed when a feed shows it.
func Tombstone(modified int64, follows bool) item.Version {
	v := item.Version{Modified: modified, Flags: item.Tombstone}
	if follows {
		v.Expires = Never
	}
	return v
}

// Past says which versions have expired. By the zero Past none has.
type Past struct {
	Expired int64 // versions whose own time is at or before it have expired, milliseconds
	Before  int64 // versions without a time of their own that were written before it have
}

// Nothing is a Past by which no version has expired. It is not the zero Past, which readers
// take for the present one.
var Nothing = Past{Expired: 1}

// Gone says whether a document or a claim has expired.
func (p Past) Gone(v *item.Version) bool {
	if v.Expires != 0 {
		return v.Expires <= p.Expired
	}
	return v.Modified < p.Before
}

// At returns the Past of another time under the same default.
func (p Past) At(now int64) Past {
	if p.Expired <= Nothing.Expired {
		return p
	}
	if p.Before != 0 {
		p.Before = max(0, p.Before-(p.Expired-now))
	}
	p.Expired = now
	return p
}

// Life is the default of a container, or of a partition of a replicated one. The zero Life is that of a container whose default is
// fixed. Its methods are safe for concurrent use, but one change at a time is under way.
type Life struct {
	follows bool
	ttl     atomic.Int64         // milliseconds; 0: nothing expires, negative: what has a time of its own
	gone    atomic.Pointer[Past] // of a partition whose default was changed by an entry: what stays gone

	revision uint64 // of the rule that it goes by; 0: none

	changes atomic.Uint64 // rises by 2 with each change; odd while Set is at work
	since   atomic.Int64  // when the last change was, a time.Duration since the store was opened
	clock   atomic.Int64  // the same by the system's clock, milliseconds
}

// Init makes the Life ready. follows says that the default can be changed.
func (l *Life) Init(follows bool, ttl int64) {
	l.follows = follows
	l.ttl.Store(ttl)
}

// Follows says that versions without a time of their own go by the present default.
func (l *Life) Follows() bool { return l != nil && l.follows }

// Unsaid returns the time to live, as Stored takes it, of a write that does not say it.
func (l *Life) Unsaid() int64 {
	if l.follows {
		return 0
	}
	return max(0, l.ttl.Load())
}

// Own returns the time to live, as Stored takes it, of a write that says it, in milliseconds;
// negative: for ever.
func (l *Life) Own(ttl int64) int64 {
	switch {
	case l.follows:
		return max(Ever, ttl)
	case l.ttl.Load() == 0:
		return 0
	}
	return max(0, ttl)
}

// Default returns the default in milliseconds. 0: nothing expires, negative: only what has a
// time of its own does.
func (l *Life) Default() int64 { return l.ttl.Load() }

// Ages says that versions without a time of their own expire now, or that some have for good.
func (l *Life) Ages() bool {
	if !l.Follows() {
		return false
	}
	gone := l.gone.Load()
	return l.ttl.Load() > 0 || gone != nil && gone.Before > 0
}

// Hides says that some versions may have expired.
func (l *Life) Hides() bool { return l.ttl.Load() != 0 || l.gone.Load() != nil }

// Past returns what has expired at the time now, in milliseconds.
func (l *Life) Past(now int64) Past {
	if !l.follows {
		return Past{Expired: now}
	}
	past := under(l.ttl.Load(), now) // before gone is read: see Take
	if gone := l.gone.Load(); gone != nil {
		past = Past{Expired: max(past.Expired, gone.Expired), Before: max(past.Before, gone.Before)}
	}
	return past
}

// Expires returns when a version expires under the present default, 0: never.
func (l *Life) Expires(modified, expires int64) int64 {
	if !l.Follows() {
		return expires
	}
	switch ttl := l.ttl.Load(); {
	case ttl == 0 || expires == Never:
		return 0
	case expires == 0 && ttl > 0:
		return modified + ttl
	}
	return expires
}

// Removable returns what may be removed, where a container with a fixed default may lose what
// had expired by purge; 0: nothing. The store has been open for open, its grace period is
// grace, and earliest is the earliest time by which a reader goes, in milliseconds.
func (l *Life) Removable(purge int64, open, grace time.Duration, earliest int64) Past {
	if purge == 0 {
		return Past{}
	}
	if !l.follows {
		return Past{Expired: purge}
	}
	changes := l.changes.Load()
	past := l.Past(purge)
	young := changes > 0 && (open-time.Duration(l.since.Load()) < grace || earliest <= l.clock.Load())
	if young || changes%2 != 0 || changes != l.changes.Load() {
		return Past{}
	}
	return past
}

// Changes returns a number that rises with each change.
func (l *Life) Changes() uint64 {
	if l == nil {
		return 0
	}
	return l.changes.Load()
}

// Set changes the default. The store has been open for open, and clock is the time of the
// system's clock in milliseconds.
func (l *Life) Set(ttl int64, open time.Duration, clock int64) {
	l.changes.Add(1)
	l.since.Store(int64(open))
	l.clock.Store(clock)
	l.ttl.Store(ttl)
	l.changes.Add(1)
}

// Take has a partition of a replicated container go by the rule of its newest entry. The caller
// has its commit lock, or is the only user of the partition. Unlike Set it needs no lock of the files: what
// is gone by the rule before is gone by this one. A reader that asks meanwhile must not find less gone than before the change,
// so what stays gone is in use before the default is.
func (l *Life) Take(r Rule, open time.Duration, clock int64) {
	if r.Revision == 0 || r.Revision == l.revision {
		return
	}
	l.revision = r.Revision
	l.gone.Store(&Past{Expired: r.Own, Before: r.Unsaid})
	l.Set(r.Default, open, clock)
}
