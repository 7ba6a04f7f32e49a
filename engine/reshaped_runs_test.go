package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/splitter"
)

// written is an item as a model has it.
type written struct {
	text    string
	expires int64 // milliseconds; 0: never
}

// runsStore is a store whose runs are merged, cut and written anew at random, with
// a model of what it holds.
type runsStore struct {
	*splitStore
	rng       *rand.Rand
	clock     *testClock
	model     map[itemID]written
	snapshots []readerOf
}

// readerOf is a snapshot and what it must show.
type readerOf struct {
	*Snapshot
	model map[itemID]written
}

// fewTexts are those of documents: few, so that each is found in many places.
var fewTexts = []string{"a", "b", "c"}

func (s *runsStore) now() int64 { return s.clock.wall.Load() / int64(time.Millisecond) }

// TestReshapedRuns takes a store through random histories of writes, flushes,
// splits, merges of partitions, merges of some of their runs, files written anew,
// snapshots, items that expire and ends of the process. After each step the store
// verifies, and what indexes answer is what the model has.
func TestReshapedRuns(t *testing.T) {
	ctx := context.Background()
	for range amount(12, 4, 3) {
		seed := newSeed(t)
		var clock *testClock
		def := ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll(), DefaultTTL: NoExpiry}
		store := newSplitStore(t, def, func(o *Options) {
			clock = newTestClock(o)
			o.ExpiryGrace = time.Minute
			o.FileBytes = 4 << 10
		})
		s := &runsStore{splitStore: store, rng: rand.New(rand.NewPCG(seed, 3)), clock: clock, model: make(map[itemID]written)}
		for step := range amount(120, 60, 60) {
			what := s.step(ctx)
			s.compare(ctx)
			if t.Failed() {
				t.Fatalf("step %d of seed %d: %s", step, seed, what)
			}
		}
		s.letGo()
	}
}

// step does something, and says what.
func (s *runsStore) step(ctx context.Context) string {
	s.t.Helper()
	parts := s.db.partitions()
	i := s.rng.IntN(len(parts))
	p := parts[i]
	switch n := s.rng.IntN(100); {
	case n < 40:
		s.write(ctx)
		if s.rng.IntN(4) == 0 {
			return "write"
		}
		must(s.t, s.db.Flush(ctx))
		return "write and flush"
	case n < 60:
		runs := len(p.Version.Load().Runs)
		if runs == 0 {
			return "nothing"
		}
		end := 1 + s.rng.IntN(runs)
		_, err := p.CompactRuns(ctx, func([]*lsm.Run, bool) (tiers.Plan, error) { return tiers.Plan{First: 0, End: end}, nil })
		must(s.t, err)
		return fmt.Sprintf("merge of %d of the %d runs of partition %d", end, runs, p.ID)
	case n < 70 && len(parts) < 6:
		return s.reshaped(s.c.Split(ctx, p.ID, &SplitOptions{At: placeOf(s.rng.IntN(24))}))
	case n < 80 && i+1 < len(parts):
		return s.reshaped(s.c.Merge(ctx, p.ID, parts[i+1].ID))
	case n < 83 && i+1 < len(parts):
		return s.reshaped(s.c.MoveBoundary(ctx, p.ID, parts[i+1].ID, placeOf(s.rng.IntN(24))))
	case n < 88:
		runs := p.Version.Load().Runs
		if len(runs) == 0 {
			return "nothing"
		}
		r := s.rng.IntN(len(runs))
		f := runs[r].Files[s.rng.IntN(len(runs[r].Files))]
		must(s.t, writeAnew(ctx, &p.Tree, f))
		return fmt.Sprintf("a file of run %d of partition %d is written anew", r, p.ID)
	case n < 91:
		snapshot, err := s.c.Snapshot(ctx)
		must(s.t, err)
		s.snapshots = append(s.snapshots, readerOf{snapshot, maps.Clone(s.model)})
		return "snapshot"
	case n < 93:
		s.letGo()
		return "no snapshot"
	case n < 96:
		s.clock.pass(time.Duration(s.rng.IntN(100)) * time.Second)
		return "time"
	case n < 97:
		must(s.t, s.db.Compact(ctx))
		return "settle"
	}
	s.letGo()
	if s.rng.IntN(2) == 0 {
		s.reopen(s.mem.Kill())
		return "kill"
	}
	s.reopen(s.mem.Crash(vfs.CrashOptions{}))
	return "power cut"
}

// reshaped waits for a job, which may have been refused.
func (s *runsStore) reshaped(job *ReshapeJob, err error) string {
	s.t.Helper()
	if err == nil {
		err = job.Wait(context.Background())
	}
	if errors.Is(err, ErrInvalid) || errors.Is(err, splitter.ErrRefused) {
		return fmt.Sprintf("refused: %v", err)
	}
	must(s.t, err)
	return fmt.Sprintf("%+v", job.Progress())
}

// letGo closes the snapshots.
func (s *runsStore) letGo() {
	for _, r := range s.snapshots {
		r.Close()
	}
	s.snapshots = nil
}

// write writes some items of neighbouring logical partitions.
func (s *runsStore) write(ctx context.Context) {
	s.t.Helper()
	keys := inKeyOrder(24)
	from := s.rng.IntN(len(keys))
	keys = keys[from:min(len(keys), from+1+s.rng.IntN(12))]
	for range 1 + s.rng.IntN(20) {
		k := fmt.Sprintf("k%d", keys[s.rng.IntN(len(keys))])
		key := StringKey(k)
		id := itemID{"c", key, fmt.Sprint(s.rng.IntN(3))}
		switch n := s.rng.IntN(100); {
		case n < 3:
			must(s.t, s.c.DeleteLogicalPartition(ctx, key, nil))
			maps.DeleteFunc(s.model, func(id itemID, _ written) bool { return id.key == key })
		case n < 20:
			if is, there := s.model[id]; there && !is.gone(s.now()) {
				must(s.t, s.c.Delete(ctx, key, id.id, nil))
				delete(s.model, id)
			}
		default:
			is := written{text: fewTexts[s.rng.IntN(len(fewTexts))]}
			o := new(WriteOptions)
			if n < 40 {
				o.TTL = time.Duration(1+s.rng.IntN(60)) * time.Second
				is.expires = s.now() + o.TTL.Milliseconds()
			}
			_, err := s.c.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":%q,"v":%q,"pad":%q}`, id.id, k, is.text, strings.Repeat("x", s.rng.IntN(200))), o)
			must(s.t, err)
			s.model[id] = is
		}
	}
}

func (w written) gone(now int64) bool { return w.expires != 0 && w.expires <= now }

// compare verifies the store, and compares what it and its snapshots answer with
// the models.
func (s *runsStore) compare(ctx context.Context) {
	s.t.Helper()
	s.verify()
	s.compareCounts("the present", s.model, func(f Filter) (int64, error) { return s.c.Count(ctx, AllPartitions(), f) })
	for _, r := range s.snapshots {
		s.compareCounts("a snapshot", r.model, func(f Filter) (int64, error) { return r.Count(ctx, AllPartitions(), f) })
	}
	rest := maps.Clone(s.model)
	for it, err := range s.c.ScanAll(ctx, nil) {
		must(s.t, err)
		delete(rest, itemID{"c", it.Key, it.ID})
	}
	maps.DeleteFunc(rest, func(_ itemID, w written) bool { return w.gone(s.now()) })
	if len(rest) > 0 {
		s.t.Errorf("a scan does not show %d items", len(rest))
	}
}

func (s *runsStore) compareCounts(what string, model map[itemID]written, count func(Filter) (int64, error)) {
	s.t.Helper()
	want := make(map[string]int64)
	for _, w := range model {
		if !w.gone(s.now()) {
			want[w.text]++
		}
	}
	for _, text := range fewTexts {
		n, err := count(Eq("/v", text))
		if must(s.t, err); n != want[text] {
			s.t.Errorf("%s: %d items say %s, want %d", what, n, text, want[text])
		}
	}
}
