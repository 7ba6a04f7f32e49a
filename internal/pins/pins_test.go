package pins

import (
	"slices"
	"testing"
	"time"
)

// TestSet pins sequences for several readers and gives them back.
func TestSet(t *testing.T) {
	var s Set
	start := time.UnixMilli(1_000_000)
	at := func(seq uint64) func() uint64 { return func() uint64 { return seq } }
	if got := s.Earliest(start); got != start.UnixMilli() || len(s.Live()) > 0 || len(s.Held()) > 0 {
		t.Errorf("an empty set: %v, %v, %v", got, s.Live(), s.Held())
	}
	backup := s.Take(Backup, at(Newest), start)
	scan := s.Take(Scan, at(7), start.Add(time.Second))
	s.Take(Scan, at(7), start.Add(-time.Second)) // the clock was set back
	query := s.Take(Query, at(7), start.Add(2*time.Second))
	newer := s.Take(Scan, at(9), start.Add(3*time.Second))
	if newer.Seq != 9 {
		t.Errorf("pinned %d", newer.Seq)
	}
	if live := s.Live(); !slices.Equal(live, []uint64{9, 7}) {
		t.Errorf("live: %v", live)
	}
	now := start.Add(10 * time.Second)
	if readers, oldest := s.Age(now); readers != 4 || oldest != 9*time.Second {
		t.Errorf("%d readers, the oldest for %v", readers, oldest)
	}
	if got := s.Earliest(now); got != start.Add(-time.Second).UnixMilli() {
		t.Errorf("the earliest time: %v", got)
	}
	want := []Held{
		{By: Backup, Count: 1, Since: start},
		{By: Scan, Count: 3, Since: start.Add(time.Second), Seq: 7},
		{By: Query, Count: 1, Since: start.Add(2 * time.Second), Seq: 7},
	}
	if held := s.Held(); !slices.Equal(held, want) {
		t.Errorf("held by %v, want %v", held, want)
	}
	s.Again(query)
	s.Release(query)
	s.Release(scan)
	s.Release(query)
	if live := s.Live(); !slices.Equal(live, []uint64{9, 7}) {
		t.Errorf("live with one of two scans left: %v", live)
	}
	s.Release(scan)
	s.Release(newer)
	s.Release(backup)
	if len(s.Held()) > 0 {
		t.Errorf("held by %v in the end", s.Held())
	}
}

// TestFollowing: readers at one sequence that follow each other without a gap are as old as the oldest that is there.
func TestFollowing(t *testing.T) {
	var s Set
	now := time.UnixMilli(1_000_000)
	take := func() Pin { return s.Take(Scan, func() uint64 { return 7 }, now) }
	before := take()
	for range 100 {
		now = now.Add(45 * time.Second)
		next := take()
		s.Release(before)
		before = next
		if _, oldest := s.Age(now); oldest > 90*time.Second || s.Earliest(now) < now.Add(-90*time.Second).UnixMilli() {
			t.Fatalf("the oldest is %v old", oldest)
		}
	}
	s.Release(before)
	if held := s.Held(); len(held) > 0 {
		t.Errorf("held by %v in the end", held)
	}
}
