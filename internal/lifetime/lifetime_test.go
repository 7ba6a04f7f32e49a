package lifetime

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
)

func life(follows bool, ttl int64) *Life {
	l := new(Life)
	l.Init(follows, ttl)
	return l
}

// TestPast goes through the table of docs/ttl.md: which versions that were written at 1,000
// have expired at a time, and when they expire.
func TestPast(t *testing.T) {
	const modified = 1000
	for _, tc := range []struct {
		follows      bool
		ttl, own     int64 // own: as Stored takes it
		expires      int64 // 0: never
		before, from int64 // there at, gone at; 0: never gone
	}{
		{true, 0, 0, 0, 1 << 40, 0},
		{true, 0, Ever, 0, 1 << 40, 0},
		{true, 0, 50, 0, 1 << 40, 0},
		{true, -1, 0, 0, 1 << 40, 0},
		{true, -1, Ever, 0, 1 << 40, 0},
		{true, -1, 50, 1050, 1049, 1050},
		{true, 70, 0, 1070, 1069, 1070},
		{true, 70, Ever, 0, 1 << 40, 0},
		{true, 70, 50, 1050, 1049, 1050},
		{true, 1, 0, 1001, 1000, 1001},
		{false, 0, 0, 0, 1 << 40, 0},
		{false, 70, 0, 0, 1 << 40, 0},
		{false, 70, 50, 1050, 1049, 1050},
	} {
		l := life(tc.follows, tc.ttl)
		v := item.Version{Modified: modified, Expires: Stored(modified, tc.own)}
		if got := l.Expires(v.Modified, v.Expires); got != tc.expires {
			t.Errorf("%+v: expires %d", tc, got)
		}
		if past := l.Past(tc.before); past.Gone(&v) || past.At(tc.before).Gone(&v) {
			t.Errorf("%+v: gone too early", tc)
		}
		if tc.from == 0 {
			continue
		}
		if !l.Past(tc.from).Gone(&v) || !l.Past(tc.from+9).At(tc.from).Gone(&v) || l.Past(tc.from+9).At(tc.before).Gone(&v) {
			t.Errorf("%+v: gone too late, or not by At", tc)
		}
		if (Past{}).Gone(&v) || Nothing.Gone(&v) || Nothing.At(1<<40).Gone(&v) {
			t.Errorf("%+v: gone by no time", tc)
		}
	}
}

// TestRemovable: nothing is removed for the grace period after a change, nor as long as there is a reader that began before.
func TestRemovable(t *testing.T) {
	const grace = 10 * time.Second
	l := life(true, 5)
	aged := item.Version{Modified: 100}
	removes := func(purge int64, open time.Duration, earliest int64) bool {
		past := l.Removable(purge, open, grace, earliest)
		return past.Gone(&aged)
	}
	if removes(0, time.Hour, 1000) || !removes(1000, time.Hour, 1000) || removes(104, time.Hour, 1000) {
		t.Error("before a change")
	}
	l.Set(7, time.Hour, 2000)
	for _, tc := range []struct {
		open     time.Duration
		earliest int64
		want     bool
	}{
		{time.Hour + grace - 1, 2001, false},
		{time.Hour + grace, 2000, false},
		{time.Hour + grace, 2001, true},
	} {
		if got := removes(1000, tc.open, tc.earliest); got != tc.want {
			t.Errorf("%+v after a change: %v", tc, got)
		}
	}
	if l.Changes() != 2 || l.Default() != 7 || !l.Ages() {
		t.Errorf("%d changes, default %d", l.Changes(), l.Default())
	}
	fixed := life(false, 5)
	if past := fixed.Removable(1000, time.Hour, grace, 0); past != (Past{Expired: 1000}) || past.Gone(&aged) || fixed.Ages() {
		t.Errorf("a fixed default: %+v", past)
	}
}

// TestSummary: a summary counts what expires and what ages, and of a share of it knows still
// when the first was written.
func TestSummary(t *testing.T) {
	var tally Tally
	for n := range int64(10) {
		tally.Note(&item.Version{Modified: 100 + n}, true)
		tally.Note(&item.Version{Modified: 100, Expires: 500 + n}, true)
		tally.Note(&item.Version{Modified: 1, Flags: item.Tombstone, Expires: Never}, true)
		tally.Note(&item.Version{Modified: 1, Expires: Never}, true)
	}
	s := tally.Summary()
	if s.Own != (Spread{10, 500, 509}) || s.Default != (Spread{10, 100, 109}) {
		t.Errorf("%+v", s)
	}
	if s.Gone(Past{Expired: 509}) != 10 || s.Gone(Past{Expired: 509, Before: 110}) != 20 || s.Gone(Nothing) != 0 {
		t.Error("counts")
	}
	if apart := (Summary{Own: Spread{Items: 10, First: 500, Last: Never}}); apart.Gone(Past{Expired: 500}) != 1 || apart.Gone(Past{Expired: 499}) != 0 {
		t.Error("counts of those that expire far apart")
	}
	if !s.Aged(Past{Expired: 1000, Before: 101}) || s.Aged(Past{Expired: 1000, Before: 100}) || s.Aged(Nothing) {
		t.Error("the first one")
	}
	var part Summary
	part.Join(&s, 0)
	if part.Own.Items != 0 || !part.Aged(Past{Before: 101}) {
		t.Errorf("no share: %+v", part)
	}
	var plain Tally
	plain.Note(&item.Version{Modified: 100}, false)
	fixed := plain.Summary()
	part = Summary{}
	if part.Join(&fixed, 1); part != (Summary{}) {
		t.Errorf("a fixed default: %+v", part)
	}
}

// TestTally: what lives many times longer than half of the versions is not in their summary, in whatever order they come.
func TestTally(t *testing.T) {
	const soon, later, last = 1000, 5000, 1 << 40 // times to live
	for name, tc := range map[string]struct {
		ttls map[int64]int
		want Spread
	}{
		"all soon":           {map[int64]int{soon: 10}, Spread{10, soon, soon}},
		"one lasts":          {map[int64]int{soon: 10, last: 1}, Spread{10, soon, soon}},
		"half lasts":         {map[int64]int{soon: 10, last: 10}, Spread{10, soon, soon}},
		"most last":          {map[int64]int{soon: 10, last: 11}, Spread{21, soon, last}},
		"with those of ever": {map[int64]int{soon: 10, last: 1, 0: 10}, Spread{11, soon, last}},
		"not much later":     {map[int64]int{soon: 10, later: 10}, Spread{20, soon, later}},
		"one after another":  {map[int64]int{soon: 10, later: 10, last: 10}, Spread{20, soon, later}},
		"all last":           {map[int64]int{last: 3}, Spread{3, last, last}},
		"none expires":       {map[int64]int{0: 3}, Spread{}},
	} {
		for _, backwards := range []bool{false, true} {
			ttls := slices.Sorted(maps.Keys(tc.ttls))
			if backwards {
				slices.Reverse(ttls)
			}
			var tally Tally
			for _, ttl := range ttls {
				for range tc.ttls[ttl] {
					tally.Note(&item.Version{Expires: ttl}, false)
				}
			}
			if s := tally.Summary(); s != (Summary{Own: tc.want}) {
				t.Errorf("%s: %+v, want %+v", name, s.Own, tc.want)
			}
		}
	}
}

// TestTallyFirst: whatever a summary leaves out, it tells when the first version of all expires.
func TestTallyFirst(t *testing.T) {
	const month, hour = 30 * 24 * 3600 * 1000, 3600 * 1000
	var tally Tally
	for range 10 {
		tally.Note(&item.Version{Modified: month - 2, Expires: month - 2 + hour}, false)
	}
	tally.Note(&item.Version{Modified: 1, Expires: month + 1}, false)
	s := tally.Summary()
	for at, want := range map[int64]int64{month: 0, month + 1: 1, month - 3 + hour: 9, month - 2 + hour: 10} {
		if got := s.Gone(Past{Expired: at}); got != want {
			t.Errorf("at %d: %d have expired, want %d", at, got, want)
		}
	}
}
