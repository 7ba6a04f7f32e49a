package seqtime

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
)

// TestMarks adds marks for a day and asks which sequences are how old: the answer is never
// too high, and late by a sixteenth at most.
func TestMarks(t *testing.T) {
	var m Marks
	const shortest, longest = time.Hour, 12 * time.Hour
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli()
	now := start
	written := func(at int64) uint64 { return uint64(at-start)/100 + 1 } // ten sequences a second
	for ; now < start+(24*time.Hour).Milliseconds(); now += 1000 {
		m.Add(now, written(now), shortest, longest)
	}
	if m.Add(now, written(now-1000), shortest, longest) {
		t.Error("a mark, though nothing was written")
	}
	for _, ago := range []time.Duration{time.Hour, 2 * time.Hour, 5 * time.Hour, 12 * time.Hour} {
		at := now - ago.Milliseconds()
		got := m.At(at)
		if got > written(at) || got < written(at-ago.Milliseconds()/16-2*time.Minute.Milliseconds()) {
			t.Errorf("%v ago: %d, written were %d", ago, got, written(at))
		}
	}
	if n := len(m.All()); n > 300 {
		t.Errorf("%d marks", n)
	}
	if seq := m.At(start - 1); seq != 0 {
		t.Errorf("before the first mark: %d", seq)
	}
}

// TestClockBehind opens marks that are ahead of the clock: what is written then does not
// look older than it is.
func TestClockBehind(t *testing.T) {
	var m Marks
	m.Open([]manifest.Mark{{Time: 1_000_000, Seq: 10}}, 400_000)
	if seq := m.At(400_000); seq != 10 {
		t.Errorf("at the opening: %d", seq)
	}
	if !m.Add(460_000, 20, time.Minute, time.Minute) {
		t.Error("no mark after a minute")
	}
	if seq := m.At(459_999); seq != 10 {
		t.Errorf("before the second mark: %d", seq)
	}
	if all := m.All(); all[len(all)-1] != (manifest.Mark{Time: 1_060_000, Seq: 20}) {
		t.Errorf("marks %v", all)
	}
}

// TestMarksFarAhead opens marks of a clock that was wrong by more than a century: they are set
// back, with the time between them.
func TestMarksFarAhead(t *testing.T) {
	var m Marks
	m.Open([]manifest.Mark{{Time: 9_000_000_000_000, Seq: 10}, {Time: 9_000_000_060_000, Seq: 20}}, 400_000)
	if seq := m.At(399_999); seq != 10 {
		t.Errorf("before the opening: %d", seq)
	}
	if !m.Add(460_000, 30, time.Minute, time.Minute) {
		t.Error("no mark after a minute")
	}
	if all := m.All(); all[len(all)-1] != (manifest.Mark{Time: 460_000, Seq: 30}) {
		t.Errorf("marks %v", all)
	}
}
