package copypass

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"

	"github.com/cleavestore/cleave/partmap"
)

// held is a snapshot of a fake store.
type held struct {
	state
	seq    uint64
	closed *int
}

func (h held) Seq() uint64 { return h.seq }
func (h held) Close() error {
	*h.closed++
	return nil
}

// store is a source whose items were all written after every snapshot.
type store struct {
	now     state
	dst     *destination
	seq     uint64
	opened  int
	closed  int
	pending int // changes before each of the next passes
	since   []uint64
	dropped bool
	refuse  error
}

func (s *store) Snapshot(context.Context) (held, error) {
	if s.refuse != nil {
		return held{}, s.refuse
	}
	s.opened++
	s.seq++
	return held{maps.Clone(s.now), s.seq, &s.closed}, nil
}

func (s *store) Items() int64                        { return int64(len(s.now)) }
func (s *store) Open() (Source, Destination, func()) { return source(0), s.dst, func() {} }
func (s *store) Dropped() bool                       { return s.dropped }
func (s *store) open() int                           { return s.opened - s.closed }
func (s *store) fill(n int) {
	for i := range n {
		s.now[place{"k", fmt.Sprint(i)}] = "k,l"
	}
}

func (s *store) Changed(_ context.Context, to held, since uint64) iter.Seq2[Item, error] {
	s.since = append(s.since, since)
	return func(yield func(Item, error) bool) {
		if since > 0 { // as if so many had been written
			for range s.pending {
				if !yield(Item{Key: partmap.String("k"), ID: "0", Body: []byte("k,l")}, nil) {
					return
				}
			}
			return
		}
		for it := range to.items(func(place) bool { return true }) {
			s.dst.id = func() string { return it.ID }
			if !yield(it, nil) {
				return
			}
		}
	}
}

// job returns a job between a fake source and a fake destination.
func job() (*Job[held], *store, *[]Progress) {
	s := &store{now: state{}, dst: &destination{state: state{}, id: func() string { return "0" }}}
	told := new([]Progress)
	return &Job[held]{Store: s, Tell: func(p Progress) { *told = append(*told, p) }}, s, told
}

// TestJob: the first pass takes all, the further ones what is above the snapshot before, of
// which one at a time is held.
func TestJob(t *testing.T) {
	ctx := context.Background()
	j, s, told := job()
	s.fill(250)
	if err := j.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	if len(s.dst.state) != 250 {
		t.Errorf("%d items", len(s.dst.state))
	}
	last := (*told)[len(*told)-1]
	if last != (Progress{Pass: 2, Copied: 250}) || (*told)[0] != (Progress{Pass: 1, Items: 250, Looked: 100, Copied: 100}) || len(*told) != 4 {
		t.Errorf("told %+v", *told)
	}
	if s.since[0] != 0 || s.since[1] != 1 || s.open() != 1 {
		t.Errorf("since %v, %d snapshots are held", s.since, s.open())
	}
	s.pending = behind + 1 // never little
	if err := j.CatchUp(ctx); err != nil || len(s.since) != 2+maxPasses {
		t.Errorf("%d passes: %v", len(s.since), err)
	}
	s.pending = behind
	if err := j.CatchUp(ctx); err != nil || len(s.since) != 3+maxPasses {
		t.Errorf("%d passes: %v", len(s.since), err)
	}
	j.Forget()
	if s.open() != 0 {
		t.Errorf("%d snapshots are held after Forget", s.open())
	}
}

// TestJobFails: after an error nothing is held, and the next pass is a first one. If a
// container is dropped in a pass, nothing is held after it.
func TestJobFails(t *testing.T) {
	ctx := context.Background()
	j, s, _ := job()
	s.fill(3)
	if err := j.Pass(ctx); err != nil {
		t.Fatal(err)
	}
	s.refuse = errors.New("refused")
	if err := j.CatchUp(ctx); err != s.refuse || s.open() != 1 {
		t.Errorf("%v, %d snapshots are held", err, s.open())
	}
	s.refuse = nil
	other := place{"other", "0"}
	s.now[other] = "other,l"
	s.dst.state = state{{"l", "0"}: "other,l"}
	s.pending = 1
	var collision *CollisionError
	if err := j.Pass(ctx); !errors.As(err, &collision) || s.open() != 0 {
		t.Errorf("%v, %d snapshots are held", err, s.open())
	}
	delete(s.now, other)
	s.dst.state = state{}
	if err := j.Pass(ctx); err != nil || s.since[len(s.since)-1] != 0 || len(s.dst.state) != 3 {
		t.Errorf("%v, since %v", err, s.since)
	}
	s.dropped = true
	if err := j.Pass(ctx); err != nil || s.open() != 0 {
		t.Errorf("dropped: %v, %d snapshots are held", err, s.open())
	}
}
