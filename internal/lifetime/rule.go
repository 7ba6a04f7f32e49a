package lifetime

import "math"

// Rule is what a partition of a replicated container goes by from the entry on that changed
// its default. The zero Rule is that of a partition whose default was never changed: it goes
// by the definition of its container.
//
// Replicas compact at different times. An item that has expired may be there still on one and
// be removed on another, so a change must not bring it back. What the rule before let expire
// up to the time of the change stays gone, for good: Gone is that Past, joined to the one that
// the rule before had. So
//
//  1. what is gone on a replica at an entry is gone there at all later entries, whatever the
//     default becomes, and
//  2. what a compaction removes by the rule of an entry is gone for every reader and every
//     later entry, on this replica and on those that have it still.
//
// A rule is a function of the entries of the partition. It is stored with the newest entry
// (manifest.Applied), in the same record and the same manifest, so a crash leaves both or
// neither. Revision only rises in the history of a partition.
type Rule struct {
	Revision uint64 `json:"revision"`             // counts the changes, from 1 on; gaps are allowed
	Default  int64  `json:"default_ttl"`          // milliseconds, as Life.Default
	Own      int64  `json:"gone_own,omitzero"`    // Past.Expired of what stays gone
	Unsaid   int64  `json:"gone_unsaid,omitzero"` // Past.Before of what stays gone
}

// MaxDefault is the longest default of a Rule, in milliseconds.
const MaxDefault = math.MaxInt64 / 1_000_000 // the longest time.Duration

// Valid says whether a rule, of an entry of the time now, can be: each change leaves gone at most what
// had expired by its own time.
func (r Rule) Valid(now int64) bool {
	if r.Revision == 0 {
		return r == Rule{}
	}
	return r.Default >= Ever && r.Default <= MaxDefault && r.Own >= 0 && r.Own <= now && r.Unsaid >= 0 && r.Unsaid <= now
}

// Or returns the rule, and that of a definition with a default if the rule is zero.
func (r Rule) Or(ttl int64) Rule {
	if r.Revision == 0 {
		return Rule{Default: ttl}
	}
	return r
}

// Past returns what has expired at the time now, in milliseconds.
func (r Rule) Past(now int64) Past {
	past := under(r.Default, now)
	return Past{Expired: max(past.Expired, r.Own), Before: max(past.Before, r.Unsaid)}
}

// Change returns the rule after a change of the default at the time now.
func (r Rule) Change(revision uint64, ttl, now int64) Rule {
	gone := r.Past(now)
	if gone.Expired == Nothing.Expired {
		gone.Expired = 0
	}
	return Rule{Revision: revision, Default: ttl, Own: gone.Expired, Unsaid: gone.Before}
}

// under returns what has expired at the time now under a default.
func under(ttl, now int64) Past {
	switch {
	case ttl == 0:
		return Nothing
	case ttl > 0:
		return Past{Expired: now, Before: max(0, now-ttl+1)}
	}
	return Past{Expired: now}
}
