package lifetime

import (
	"math/bits"

	"github.com/cleavestore/cleave/internal/item"
)

// Tally gathers when the versions of a run expire, for its Summary. The zero Tally is that of none.
type Tally struct {
	all     int64      // versions
	own     [64]Spread // of those with a time of their own, by how long they live: by the bits of its milliseconds
	written Spread     // Summary.Default
}

// Note counts a version. follows says that it goes by the default of its container if it has
// no time of its own.
func (t *Tally) Note(v *item.Version, follows bool) {
	t.all++
	switch {
	case v.Deleted(), v.Expires == Never: // it does not expire
	case v.Expires != 0:
		t.own[bits.Len64(uint64(max(0, v.Expires-v.Modified)))].join(Spread{First: v.Expires, Last: v.Expires}, 1)
	case follows:
		t.written.join(Spread{First: v.Modified, Last: v.Modified}, 1)
	}
}

// farther is the difference of the bits of two times to live of which one is eight times the other or more.
const farther = 4

// Summary returns the summary of what was noted. If those that expire soon are half of all versions, it counts none that
// lives many times longer: an even spread would say for most of the time that next to none has expired. A
// compaction that drops the half makes a summary of the others. First is that of all.
func (t *Tally) Summary() Summary {
	s := Summary{Default: t.written}
	longest, enough := 0, false
	for n := range t.own {
		if t.own[n].Items == 0 {
			continue
		}
		if enough = enough || n-longest >= farther && 2*s.Own.Items >= t.all; enough {
			s.Own.First = min(s.Own.First, t.own[n].First)
			continue
		}
		s.Own.join(t.own[n], t.own[n].Items)
		longest = n
	}
	return s
}
