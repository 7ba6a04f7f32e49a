package feed

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

func epkOf(t *testing.T, b ...byte) partmap.EPK {
	t.Helper()
	epk, err := partmap.EPKFromBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	return epk
}

// TestPositionText: users store positions, so their text stays as it is.
func TestPositionText(t *testing.T) {
	all := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
	for text, p := range map[string]Position{
		"start":                         {},
		"now":                           FromNow(),
		"time:2024-02-29T12:00:00.123Z": FromTime(time.UnixMilli(1709208000123)),
		"AQcAABaF0uE":                   {kind: positionAt, container: 7},
		"AQEJAM4o1b4":                   {kind: positionAt, container: 1, since: -5},
		"AQcAAQAB_4CAgICAIA0i9JU":       {kind: positionAt, container: 7, entries: []entry{{all, 1 << 40}}},
		"Af____8P9tniy75jAwEBAgIDrAL_AQkFAgruAf8A-n7dmw": {
			kind: positionAt, container: 1<<32 - 1, since: 1709208000123, entries: []entry{
				{partmap.Range{Min: epkOf(t, 1), Max: epkOf(t, 2, 3)}, 300},
				{partmap.Range{Min: epkOf(t, 2, 3), Max: epkOf(t, 9)}, 5},
				{partmap.Range{Min: epkOf(t, 10, 0xEE), Max: partmap.MaxEPK()}, 0},
			},
		},
	} {
		if got := p.String(); got != text {
			t.Errorf("%+v: %s, want %s", p, got, text)
		}
		if got, err := ParsePosition(text); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		for i := range text {
			if got, err := ParsePosition(text[:i]); err == nil && got.String() != text[:i] {
				t.Errorf("the first %d characters of %s are read as %s", i, text, got)
			}
		}
	}
	for _, text := range []string{"", "end", "time:", "time:yesterday", "AQ", "AQcAABaF0uI", "AgcAABaF0uE", "AQcAABaF0uE="} {
		var wrong PositionError
		if _, err := ParsePosition(text); !errors.As(err, &wrong) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestPositionWithin: a position is good for a narrower range, not for a wider one, nor
// where it has a gap.
func TestPositionWithin(t *testing.T) {
	span := func(lo, hi byte) partmap.Range { return partmap.Range{Min: epkOf(t, lo), Max: epkOf(t, hi)} }
	p := Position{kind: positionAt, entries: []entry{{span(1, 3), 10}, {span(3, 5), 20}, {span(6, 9), 30}}}
	for _, test := range []struct {
		lo, hi byte
		want   []entry // nil: refused
	}{
		{1, 5, []entry{{span(1, 3), 10}, {span(3, 5), 20}}},
		{2, 4, []entry{{span(2, 3), 10}, {span(3, 4), 20}}},
		{3, 4, []entry{{span(3, 4), 20}}},
		{7, 8, []entry{{span(7, 8), 30}}},
		{0, 2, nil},
		{4, 7, nil},
		{8, 10, nil},
		{20, 21, nil},
	} {
		got, err := p.within(span(test.lo, test.hi))
		if !reflect.DeepEqual(got, test.want) || (err != nil) != (test.want == nil) {
			t.Errorf("%d to %d: %v, %v", test.lo, test.hi, got, err)
		}
	}
	if p.entries[0].rng != span(1, 3) {
		t.Error("the position was changed")
	}
}

func TestJoined(t *testing.T) {
	span := func(lo, hi byte) partmap.Range { return partmap.Range{Min: epkOf(t, lo), Max: epkOf(t, hi)} }
	apart := []entry{{span(1, 2), 7}, {span(2, 3), 7}, {span(3, 4), 8}, {span(5, 6), 8}, {span(6, 7), 8}}
	want := []entry{{span(1, 3), 7}, {span(3, 4), 8}, {span(5, 7), 8}}
	if got := joined(apart); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if apart[0].rng != span(1, 2) {
		t.Error("the entries were changed")
	}
}

func TestSuccessor(t *testing.T) {
	last := partmap.MaxEPK()
	for _, test := range [][2]partmap.EPK{
		{epkOf(t, 1), epkOf(t, 2)},
		{epkOf(t, 1, 0xFF), epkOf(t, 2, 0)},
		{epkOf(t, 0x10, 0xFF, 0xFF), epkOf(t, 0x11, 0, 0)},
	} {
		if got := successor(test[0]); got != test[1] || got.Compare(&last) > 0 {
			t.Errorf("after %s comes %s, want %s", test[0], got, test[1])
		}
	}
}

// TestPositionOfAnyTime: the text of a position by a time is read again, also of a time that no version can have.
func TestPositionOfAnyTime(t *testing.T) {
	for _, tc := range []struct {
		at    time.Time
		since int64
	}{
		{time.UnixMilli(5), 5},
		{time.Time{}, 0},
		{time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), 0},
		{time.Unix(-1<<60, 0), 0},
		{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), item.MaxTime},
		{time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), item.MaxTime},
		{time.Unix(1<<60, 0), item.MaxTime},
	} {
		p := FromTime(tc.at)
		got, err := ParsePosition(p.String())
		if p.since != tc.since || err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%v: since %d, want %d; %s is read as %+v, %v", tc.at, p.since, tc.since, p, got, err)
		}
	}
}
