package splitter

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/partmap"
)

// epk returns an EPK of whole levels.
func epk(heads ...uint64) partmap.EPK {
	var b []byte
	for _, h := range heads {
		b = append(binary.BigEndian.AppendUint64(b, h), make([]byte, 8)...)
	}
	e, err := partmap.EPKFromBytes(b)
	if err != nil {
		panic(err)
	}
	return e
}

func whole() partmap.Range { return partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()} }

func reasonOf(err error) Reason {
	var r *Refusal
	if errors.As(err, &r) && errors.Is(err, ErrRefused) {
		return r.Reason
	}
	return 0
}

// TestCut compares the cut of random sources with the best of all cuts.
func TestCut(t *testing.T) {
	rng := randtest.New(t)
	for range 3000 {
		var sources []Source
		type mass struct {
			at     partmap.EPK
			weight int64
		}
		var all []mass
		domain := 1 + rng.Uint64N(30)
		for range 1 + rng.IntN(4) {
			h := new(Histogram)
			for range rng.IntN(12) {
				m := mass{epk(rng.Uint64N(domain), rng.Uint64N(2)), 1 + rng.Int64N(100)}
				h.Add(m.at, m.weight)
				all = append(all, m)
			}
			sources = append(sources, h)
		}
		r := partmap.Range{Min: epk(rng.Uint64N(domain)), Max: epk(domain)}
		best := int64(-1)
		var total int64
		for _, cut := range all {
			var left, right int64
			for _, m := range all {
				switch {
				case !r.Contains(&m.at):
				case m.at.Compare(&cut.at) < 0:
					left += m.weight
				default:
					right += m.weight
				}
			}
			total = max(total, left+right)
			if r.Contains(&cut.at) && cut.at.Compare(&r.Min) > 0 && left > 0 && right > 0 {
				best = max(best, min(left, right))
			}
		}
		got, err := Cut(r, sources)
		switch {
		case total == 0:
			if mid := partmap.Midpoint(r); err == nil && got.At != mid || err != nil && reasonOf(err) != TooNarrow {
				t.Fatalf("nothing in %v: %+v, %v", r, got, err)
			}
		case best < 0:
			if reasonOf(err) != OneLogicalPartition {
				t.Fatalf("%+v in %v: %+v, %v", all, r, got, err)
			}
		case err != nil || min(got.Left, got.Right) != best || got.Left+got.Right != total:
			t.Fatalf("%+v in %v: %+v, %v; the best has %d of %d", all, r, got, err, best, total)
		}
	}
}

func TestHistogramIsBounded(t *testing.T) {
	h := new(Histogram)
	n := uint64(5 * maxPoints)
	for i := range n {
		h.Add(epk(i*7919%n), 1)
	}
	if len(h.points) > 2*maxPoints {
		t.Errorf("%d points", len(h.points))
	}
	got, err := Cut(whole(), []Source{h})
	if err != nil || min(got.Left, got.Right) < int64(n)*45/100 || got.Left+got.Right != int64(n) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPlans(t *testing.T) {
	a, b, c := epk(10), epk(20), epk(30)
	left, right := partmap.Range{Min: a, Max: b}, partmap.Range{Min: b, Max: c}
	check := func(p Plan, err error, children ...partmap.Range) {
		t.Helper()
		if err != nil || !slices.Equal(p.Children, children) {
			t.Errorf("%v of %v: %v, %v", p.Kind, p.Parents, p.Children, err)
		}
	}
	p, err := PlanSplit(left, epk(12))
	check(p, err, partmap.Range{Min: a, Max: epk(12)}, partmap.Range{Min: epk(12), Max: b})
	p, err = PlanMerge(left, right)
	check(p, err, partmap.Range{Min: a, Max: c})
	p, err = PlanMove(left, right, epk(25))
	check(p, err, partmap.Range{Min: a, Max: epk(25)}, partmap.Range{Min: epk(25), Max: c})
	for _, at := range []partmap.EPK{a, b, epk(9), epk(21)} {
		if _, err := PlanSplit(left, at); reasonOf(err) != OutsideRange {
			t.Errorf("split at %v: %v", at, err)
		}
	}
	if _, err := PlanMerge(right, left); reasonOf(err) != NotNeighbours {
		t.Errorf("merge in the wrong order: %v", err)
	}
	if _, err := PlanMove(left, partmap.Range{Min: epk(21), Max: c}, epk(22)); reasonOf(err) != NotNeighbours {
		t.Errorf("move between strangers: %v", err)
	}
	if _, err := PlanMove(left, right, b); reasonOf(err) != OutsideRange {
		t.Errorf("move to where it is: %v", err)
	}
}

func TestBoundary(t *testing.T) {
	long, _ := partmap.EPKFromBytes([]byte{1, 2, 3, 0, 0})
	got, err := Boundary(long, 1)
	if err != nil || got.Compare(&long) != 0 || got.Levels() != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Boundary(epk(1, 2), 1); reasonOf(err) != TooFine {
		t.Errorf("two levels for one: %v", err)
	}
	if got, err := Boundary(epk(1, 0), 1); err != nil || got != epk(1) {
		t.Errorf("zeros: %v, %v", got, err)
	}
	if got, err := Boundary(epk(1, 2), 3); err != nil || got != epk(1, 2) {
		t.Errorf("inside a first level: %v, %v", got, err)
	}
	for _, at := range []partmap.EPK{epk(0x40 << 56), epk(0xFE<<56, 1), partmap.MaxEPK()} {
		if err := AmongKeys(at); reasonOf(err) != OutsideRange {
			t.Errorf("%v, above all keys: %v", at, err)
		}
	}
	if err := AmongKeys(epk(1, 0x40<<56)); err != nil {
		t.Errorf("above all second levels: %v", err)
	}
}

func TestPolicy(t *testing.T) {
	p := Policy{MaxBytes: 100}
	for _, c := range []struct {
		State
		due bool
	}{
		{State{Bytes: 100}, false},
		{State{Bytes: 101}, true},
		{State{Bytes: 101, Inherits: true}, false},
		{State{Bytes: 120, RefusedAt: 101}, false},
		{State{Bytes: 130, RefusedAt: 101}, true},
	} {
		if p.Due(c.State) != c.due {
			t.Errorf("%+v: %v", c.State, !c.due)
		}
	}
	if (Policy{}).Due(State{Bytes: 1 << 60}) {
		t.Error("no limit, yet due")
	}
}

func TestQueue(t *testing.T) {
	var q Queue[int]
	for i := range 4 {
		q.Push(i)
	}
	if !q.Remove(1) || q.Remove(1) || q.Len() != 3 {
		t.Error("Remove")
	}
	for _, want := range []int{0, 2, 3} {
		if got, ok := q.Pop(); !ok || got != want {
			t.Errorf("Pop: %d, %v; want %d", got, ok, want)
		}
	}
	if _, ok := q.Pop(); ok {
		t.Error("Pop of nothing")
	}
}
