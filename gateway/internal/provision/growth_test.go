package provision

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// fake is a container whose partitions halve their bytes. One of a byte cannot be split.
type fake struct {
	mu    sync.Mutex
	parts []Part
	made  int
	still bool   // splits say that they have been, and are not
	then  func() // called once within a split
}

var errWhole = errors.New("one logical partition is everything")

func (f *fake) Parts() []Part {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.parts)
}

func (f *fake) Split(id string) error {
	if then := f.then; then != nil {
		f.then = nil
		then()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.parts, func(p Part) bool { return p.ID == id })
	switch b := f.parts[i].Bytes; {
	case f.still:
	case b < 2:
		return errWhole
	default:
		f.made += 2
		f.parts = slices.Replace(f.parts, i, i+1, Part{fmt.Sprint(f.made - 1), b / 2}, Part{fmt.Sprint(f.made), b - b/2})
	}
	return nil
}

// TestGrowth: partitions are split until there are as many as are wanted, or none can be.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		bytes      []int64
		still      bool
		throughput int
		parts      int
		smallest   int64
		err        error
	}{
		{[]int64{1 << 20}, false, 100_000, 10, 1 << 16, nil},
		{[]int64{1 << 20}, false, 10_001, 2, 1 << 19, nil},
		{[]int64{1 << 20, 1 << 10}, false, 40_000, 4, 1 << 9, nil},
		{[]int64{1, 1, 64, 1}, false, 60_000, 6, 1, nil}, // the ones of a byte come in the way
		{[]int64{1}, false, 20_000, 1, 1, errWhole},
		{[]int64{4}, false, 100_000, 4, 1, errWhole},
		{[]int64{8}, true, 20_000, 1, 8, errors.ErrUnsupported}, // any error
	} {
		f := &fake{still: c.still}
		for i, b := range c.bytes {
			f.parts = append(f.parts, Part{fmt.Sprint("p", i), b})
		}
		var g Growth
		ended := make(chan error)
		g.To(c.throughput, f, func(err error) { ended <- err })
		if err := <-ended; (err == nil) != (c.err == nil) || c.err == errWhole && err != errWhole {
			t.Errorf("%+v: %v", c, err)
		}
		least := slices.MinFunc(f.parts, func(a, b Part) int { return int(a.Bytes - b.Bytes) }).Bytes
		if len(f.parts) != c.parts || least != c.smallest || g.Pending() {
			t.Errorf("%+v: %v, pending %v", c, f.parts, g.Pending())
		}
		made := f.made
		g.To(400, f, func(error) { t.Error("it has grown again") })
		if g.Pending() || f.made != made {
			t.Errorf("%+v: pending, or splits for less throughput", c)
		}
	}
}

// TestGrowthChanges: the newest throughput counts, also if it comes while partitions are split.
func TestGrowthChanges(t *testing.T) {
	for _, c := range []struct{ first, then, parts int }{{20_000, 80_000, 8}, {80_000, 40_000, 4}, {100_000, 400, 2}} {
		f := &fake{parts: []Part{{"p", 1 << 20}}}
		var g Growth
		ended := make(chan error)
		f.then = func() {
			if !g.Pending() {
				t.Error("not pending in a split")
			}
			g.To(c.then, f, func(error) { t.Error("a second one splits") })
		}
		g.To(c.first, f, func(err error) { ended <- err })
		if err := <-ended; err != nil || len(f.parts) != c.parts {
			t.Errorf("%+v: %d partitions, %v", c, len(f.parts), err)
		}
	}
	// One that came when nothing could be split is tried.
	f := &fake{parts: []Part{{"p", 1}}}
	var g Growth
	ended := make(chan error)
	splits := 0
	f.then = func() {
		g.To(30_000, f, nil)
		f.then = func() { splits++ }
	}
	g.To(20_000, f, func(err error) { ended <- err })
	if err := <-ended; err != errWhole || splits != 1 {
		t.Errorf("%v, %d splits for the newer throughput", err, splits)
	}
}
