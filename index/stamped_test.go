package index

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/vfs"
)

// noteStamped returns a builder with versions of which every other one expires.
func noteStamped(t *testing.T, n int, at func(i int) int64) *Builder {
	b := NewBuilder(mustCompile(t, All()), 0, nil)
	b.Written = true
	for i := range n {
		v := item.Version{Seq: 1, Modified: at(i)}
		if i%2 == 0 {
			v.Expires = at(i)
		}
		b.Note(uint32(i), &v, i%3 == 0)
	}
	return b
}

// TestManyStamped: the terms of times, which are sorted in pieces, are those of all versions.
func TestManyStamped(t *testing.T) {
	const n = 5*stampedPiece + 7
	rng := rand.New(rand.NewPCG(7, 8))
	for _, times := range []int64{1, 3, 1000, 1 << 40} {
		want := make(map[string][]uint32)
		stamps := make([]int64, n)
		for i := range stamps {
			stamps[i] = 1 + rng.Int64N(times)
			term := termWritten
			if i%2 == 0 {
				term = termExpires
			}
			key := string(stampTerm(term, stamps[i]))
			want[key] = append(want[key], uint32(i))
			if i%3 == 0 {
				want[string(termOlder)] = append(want[string(termOlder)], uint32(i))
			}
		}
		b := noteStamped(t, n, func(i int) int64 { return stamps[i] })
		if got := content(t, mustOpen(t, written(t, b, n))); !maps.EqualFunc(got, want, slices.Equal[[]uint32]) {
			t.Errorf("%d times: %d terms, want %d, or others", times, len(got), len(want))
		}
		b.Close()
	}
}

// TestStampedBreathes: Breathe is called while the times of versions are sorted, and its error ends that.
func TestStampedBreathes(t *testing.T) {
	const n = 50_000
	errStop := errors.New("stop")
	b := noteStamped(t, n, func(i int) int64 { return 1 + int64(i)*7919%n })
	defer b.Close()
	calls := 0
	b.Breathe = func() error { calls++; return nil }
	first := 0
	if err := b.WriteTo(func([]byte) error {
		if first == 0 {
			first = calls
		}
		return nil
	}, n); err != nil {
		t.Fatal(err)
	}
	if first < n/breathWork {
		t.Errorf("%d calls before the first bytes", first)
	}
	for stopAt := 1; stopAt <= first; stopAt++ {
		calls = 0
		b.Breathe = func() error {
			if calls++; calls == stopAt {
				return errStop
			}
			return nil
		}
		if err := b.WriteTo(func([]byte) error { return errors.New("written") }, n); err != errStop {
			t.Fatalf("call %d: %v", stopAt, err)
		}
	}
}

// TestStampedAllocates: the terms of times are made one after the other.
func TestStampedAllocates(t *testing.T) {
	const n = 50_000
	b := noteStamped(t, n, func(i int) int64 { return 1 + int64(i)*7919%n })
	defer b.Close()
	if allocs := testing.AllocsPerRun(1, func() {
		if err := b.WriteTo(func([]byte) error { return nil }, n); err != nil {
			t.Fatal(err)
		}
	}); allocs > n/100 {
		t.Errorf("%v allocations for %d terms", allocs, n)
	}
}

// TestMemoryOfVersions: what Note adds counts for Memory, and for the limit of a builder without a temporary
// file. With one it is not written there: it would be again and again.
func TestMemoryOfVersions(t *testing.T) {
	const n = 10_000
	temp := newTempFiles()
	for _, create := range []func() (vfs.File, error){nil, temp.create} {
		b := NewBuilder(mustCompile(t, All()), 16*n, create)
		for i := range n {
			b.Note(uint32(i), &item.Version{Seq: 1, Expires: int64(i) + 1}, false)
		}
		if got := b.Memory(); got < 16*n {
			t.Errorf("%d bytes for %d versions", got, n)
		}
		err := b.Add(n-1, []byte(`{"a":1}`))
		if create == nil && err != ErrTooLarge || create != nil && err != nil || len(b.spilled) > 0 {
			t.Errorf("%v, %d runs", err, len(b.spilled))
		}
		b.Close()
	}
}
