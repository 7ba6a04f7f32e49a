package engine

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
)

// spaceStore is a store whose space on disk is looked at.
type spaceStore struct {
	*testing.T
	ctx   context.Context
	fs    vfs.FS
	opts  *Options
	db    *DB
	c     *Container
	clock *testClock
	docs  map[string]string // what must be found, by id
}

func newSpaceStore(t *testing.T, fsys vfs.FS, def ContainerDef) *spaceStore {
	s := &spaceStore{T: t, ctx: context.Background(), fs: fsys, opts: testOptions(fsys), docs: make(map[string]string)}
	s.clock = newTestClock(s.opts)
	var err error
	s.db, err = Open(s.ctx, "space", s.opts)
	must(t, err)
	t.Cleanup(func() { s.db.Close() })
	def.PartitionKey = []string{"/k"}
	s.c, err = s.db.CreateContainer(s.ctx, "c", def)
	must(t, err)
	return s
}

// put writes items; round makes them differ.
func (s *spaceStore) put(from, to, round int) {
	s.Helper()
	for i := from; i < to; i++ {
		id := fmt.Sprint(i)
		doc := fmt.Sprintf(`{"id":%q,"k":"k%d","round":%d,"text":"%s"}`, id, i/2, round, strings.Repeat(fmt.Sprint(i*round), 5))
		_, err := s.c.Upsert(s.ctx, []byte(doc), nil)
		must(s.T, err)
		s.docs[id] = doc
	}
}

func (s *spaceStore) delete(from, to int) {
	s.Helper()
	for i := from; i < to; i++ {
		must(s.T, s.c.Delete(s.ctx, StringKey(fmt.Sprintf("k%d", i/2)), fmt.Sprint(i), nil))
		delete(s.docs, fmt.Sprint(i))
	}
}

func (s *spaceStore) settle() {
	s.Helper()
	must(s.T, s.db.Compact(s.ctx))
}

// versions is what runs hold, and what of it is dead.
func (s *spaceStore) versions() (all, dead int64) {
	for _, p := range s.db.partitions() {
		for _, r := range p.Version.Load().Runs {
			all += r.Items()
		}
		dead += p.stats().Dead
	}
	return all, dead
}

// segmentBytes is what segment files take, whether a manifest names them or not.
func (s *spaceStore) segmentBytes() (n int64) {
	s.Helper()
	dirs, err := s.fs.List("p")
	must(s.T, err)
	for _, dir := range dirs {
		names, err := s.fs.List(path.Join("p", dir))
		must(s.T, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".seg") {
				info, err := s.fs.Stat(path.Join("p", dir, name))
				must(s.T, err)
				n += info.Size
			}
		}
	}
	return n
}

// check compares what is found with what must be.
func (s *spaceStore) check() {
	s.Helper()
	n := 0
	for it, err := range s.c.ScanAll(s.ctx, nil) {
		must(s.T, err)
		n++
		if s.docs[it.ID] != string(it.Body) {
			s.Fatalf("item %s is %s, want %s", it.ID, it.Body, s.docs[it.ID])
		}
	}
	if n != len(s.docs) {
		s.Fatalf("%d items, want %d", n, len(s.docs))
	}
}

// lean checks that Compact leaves what lives and nothing else, in little more
// space than a new store with the same documents takes.
func (s *spaceStore) lean() {
	s.Helper()
	s.settle()
	s.check()
	if all, dead := s.versions(); all != int64(len(s.docs)) || dead != 0 {
		s.Errorf("%d versions, %d of them dead, of %d items", all, dead, len(s.docs))
	}
	if h := s.db.Stats().Holders; len(h) != 0 {
		s.Errorf("held by %v", h)
	}
	logical, keys := 0, make(map[string]bool)
	for _, err := range s.c.LogicalPartitions(s.ctx) {
		must(s.T, err)
		logical++
	}
	for _, doc := range s.docs {
		_, rest, _ := strings.Cut(doc, `"k":"`)
		k, _, _ := strings.Cut(rest, `"`)
		keys[k] = true
	}
	if logical != len(keys) {
		s.Errorf("%d logical partitions are listed, of %d", logical, len(keys))
	}
	fresh := newSpaceStore(s.T, vfs.NewMem(), s.c.Def())
	for _, doc := range s.docs {
		_, err := fresh.c.Upsert(s.ctx, []byte(doc), nil)
		must(s.T, err)
	}
	fresh.settle()
	if have, want := s.segmentBytes(), fresh.segmentBytes(); have*10 > want*11 {
		s.Errorf("%d bytes, a new store takes %d", have, want)
	}
	must(s.T, fresh.db.Close())
}

func (s *spaceStore) reopen() {
	s.Helper()
	must(s.T, s.db.Close())
	var err error
	s.db, err = Open(s.ctx, "space", s.opts)
	must(s.T, err)
	s.c, err = s.db.Container("c")
	must(s.T, err)
}

// eachDisk runs a test in memory and on a real file system.
func eachDisk(t *testing.T, test func(t *testing.T, fsys vfs.FS)) {
	t.Run("memory", func(t *testing.T) { test(t, vfs.NewMem()) })
	t.Run("disk", func(t *testing.T) {
		fsys, err := vfs.CreateRoot(path.Join(t.TempDir(), "space"))
		must(t, err)
		test(t, fsys)
	})
}

// TestSettleOverwritten: what is overwritten in a newer run, or deleted, goes, also
// if it is less than half of all.
func TestSettleOverwritten(t *testing.T) {
	eachDisk(t, func(t *testing.T, fsys vfs.FS) {
		s := newSpaceStore(t, fsys, ContainerDef{})
		s.put(0, 2000, 1)
		s.settle()
		s.put(0, 1200, 2)
		s.lean()
		s.delete(400, 800)
		s.lean()
		s.put(1999, 2000, 3) // one item, which no sample of keys finds
		s.lean()
		s.put(2000, 2050, 4) // few new ones: nothing is dead
		s.settle()
		if n := len(s.db.partitions()[0].Version.Load().Runs); n != 2 {
			t.Errorf("%d runs after new items, want 2: the old run was written anew", n)
		}
		s.lean()
		must(t, s.c.DeleteLogicalPartition(s.ctx, StringKey("k1000"), nil))
		delete(s.docs, "2000")
		delete(s.docs, "2001")
		s.lean()
	})
}

// TestSettleSnapshots: what snapshots held goes when they are closed, also if the
// store was closed in between, and in the background down to as much as lives.
func TestSettleSnapshots(t *testing.T) {
	const items, rounds = 300, 20
	for _, how := range []string{"settle", "background", "reopen", "some"} {
		t.Run(how, func(t *testing.T) {
			each := eachDisk
			if how != "settle" {
				each = func(t *testing.T, test func(*testing.T, vfs.FS)) { test(t, vfs.NewMem()) }
			}
			each(t, func(t *testing.T, fsys vfs.FS) {
				s := newSpaceStore(t, fsys, ContainerDef{})
				var open []*Snapshot
				for round := range rounds {
					s.put(0, items, round)
					snap, err := s.c.Snapshot(s.ctx)
					must(t, err)
					open = append(open, snap)
					must(t, s.db.Flush(s.ctx))
				}
				s.settle()
				if all, _ := s.versions(); all != items*rounds {
					t.Fatalf("%d versions while all are held, want %d", all, items*rounds)
				}
				before := s.db.Stats().Compactions
				s.settle()
				s.mergeAll()
				if after := s.db.Stats().Compactions; after != before {
					t.Errorf("%d merges that can drop nothing", after-before)
				}
				last := len(open)
				if how == "some" {
					last = rounds / 4
				}
				for _, snap := range open[:last] {
					must(t, snap.Close())
				}
				switch how {
				case "background":
					s.mergeAll()
					if all, dead := s.versions(); dead*2 > all {
						t.Errorf("%d of %d versions are dead", dead, all)
					}
				case "reopen":
					s.reopen()
				case "some":
					s.settle()
					if all, _ := s.versions(); all != items*(rounds-rounds/4) {
						t.Errorf("%d versions, want %d", all, items*(rounds-rounds/4))
					}
					for _, snap := range open[rounds/4:] {
						n, round := 0, fmt.Sprintf(`"round":%d,`, last)
						for it, err := range snap.ScanAll(s.ctx, nil) {
							must(t, err)
							if n++; !strings.Contains(string(it.Body), round) {
								t.Fatalf("snapshot after round %d: %s", last, it.Body)
							}
						}
						if n != items {
							t.Errorf("snapshot after round %d: %d items", last, n)
						}
						last++
						must(t, snap.Close())
					}
				}
				s.lean()
			})
		})
	}
}

// mergeAll does what the merger does in the background, until it is done.
func (s *spaceStore) mergeAll() {
	s.Helper()
	for again := true; again; {
		again = false
		for _, p := range s.db.partitions() {
			done, err := p.CompactOne(s.ctx)
			must(s.T, err)
			again = again || done
		}
	}
}

// TestSettleLargeDead: few versions that are large are merged in the background
// too.
func TestSettleLargeDead(t *testing.T) {
	s := newSpaceStore(t, vfs.NewMem(), ContainerDef{Compression: NoCompression})
	large := func() {
		doc := fmt.Sprintf(`{"id":"large","k":"k","text":%q}`, strings.Repeat("0123456789abcdef", 1<<16))
		_, err := s.c.Upsert(s.ctx, []byte(doc), nil)
		must(t, err)
		s.docs["large"] = doc
		must(t, s.db.Flush(s.ctx))
	}
	snap, err := s.c.Snapshot(s.ctx)
	must(t, err)
	for range tiers.Runs {
		must(t, snap.Close())
		large()
		snap, err = s.c.Snapshot(s.ctx)
		must(t, err)
	}
	must(t, snap.Close())
	s.mergeAll()
	if have := s.segmentBytes(); have > 8<<20 {
		t.Errorf("%d bytes for a document of 1 MiB", have)
	}
	s.lean()
}

// TestHolders: each kind of reader keeps what it sees, Stats names it meanwhile, and
// when it is gone Compact leaves what lives only.
func TestHolders(t *testing.T) {
	const items = 200
	blocked := func(s *spaceStore, do func(w io.Writer) error, held func()) {
		r, w := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := do(w)
			w.CloseWithError(err)
			ended <- err
		}()
		var first [1]byte
		_, err := r.Read(first[:]) // it is under way
		must(s.T, err)
		held()
		_, err = io.Copy(io.Discard, r)
		must(s.T, err)
		must(s.T, <-ended)
	}
	for _, c := range []struct {
		what string
		keep int64 // versions that stay of each item
		hold func(s *spaceStore, held func())
	}{
		{"snapshot", 2, func(s *spaceStore, held func()) {
			snap, err := s.c.Snapshot(s.ctx)
			must(s.T, err)
			held()
			must(s.T, snap.Close())
		}},
		{"scan", 2, func(s *spaceStore, held func()) {
			n := 0
			for _, err := range s.c.ScanAll(s.ctx, nil) {
				must(s.T, err)
				if n++; n == 1 {
					held()
				}
			}
		}},
		{"query", 2, func(s *spaceStore, held func()) {
			n := 0
			for _, err := range s.c.Query(s.ctx, AllPartitions(), Query{}).All() {
				must(s.T, err)
				if n++; n == 1 {
					held()
				}
			}
		}},
		{"transaction", 2, func(s *spaceStore, held func()) {
			must(s.T, s.c.View(s.ctx, StringKey("k0"), func(*Tx) error {
				held()
				return nil
			}))
		}},
		{"copy", 2, func(s *spaceStore, held func()) {
			job, err := s.c.CopyTo(s.ctx, "other", ContainerDef{PartitionKey: []string{"/id"}})
			must(s.T, err)
			must(s.T, job.CatchUp(s.ctx))
			held()
			job.Cancel()
			must(s.T, s.db.DropContainer(s.ctx, "other"))
		}},
		{"export", 2, func(s *spaceStore, held func()) {
			blocked(s, func(w io.Writer) error {
				_, err := s.c.ExportPartition(s.ctx, s.c.Partitions()[0].ID, w)
				return err
			}, held)
		}},
		{"backup", 1, func(s *spaceStore, held func()) {
			blocked(s, func(w io.Writer) error {
				_, err := s.db.Backup(s.ctx, w, nil)
				return err
			}, held)
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newSpaceStore(t, vfs.NewMem(), ContainerDef{})
			s.put(0, items, 1)
			must(t, s.db.Flush(s.ctx))
			held := false
			c.hold(s, func() {
				held = true
				s.put(0, items, 2)
				must(t, s.db.Flush(s.ctx))
				s.put(0, items, 3)
				s.settle()
				h := s.db.Stats().Holders
				if len(h) != 1 || h[0].What != c.what || h[0].Count < 1 || (h[0].Seq == 0) != (c.keep == 1) {
					t.Errorf("held by %v", h)
				}
				var all int64
				for _, p := range s.c.Partitions() {
					all += p.Items
				}
				if all != c.keep*items {
					t.Errorf("%d versions of %d items while a %s is under way", all, items, c.what)
				}
			})
			if !held {
				t.Fatal("nothing was held")
			}
			s.lean()
		})
	}
}

// TestHoldersOfTime: what a container keeps for changes, and what has expired but
// not for long, is named as long as it stays.
func TestHoldersOfTime(t *testing.T) {
	for what, def := range map[string]ContainerDef{
		"change retention": {ChangeRetention: time.Hour},
		"expiry grace":     {DefaultTTL: NoExpiry},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSpaceStore(t, vfs.NewMem(), def)
			s.clock.pass(defaultExpiryGrace + time.Minute)
			s.put(0, 200, 1)
			s.put(0, 200, 2)
			if def.DefaultTTL != 0 {
				for i := range 100 {
					_, err := s.c.Upsert(s.ctx, fmt.Appendf(nil, `{"id":"e%d","k":"e","ttl":60}`, i), nil)
					must(t, err)
				}
			}
			s.clock.pass(2 * time.Minute)
			s.settle()
			s.settle()
			h := s.db.Stats().Holders
			if len(h) != 1 || h[0].What != what || h[0].Container != "c" {
				t.Fatalf("held by %v", h)
			}
			for range 3 {
				must(t, s.db.keepMarks())
				s.clock.pass(time.Hour)
				_, err := s.c.Upsert(s.ctx, []byte(`{"id":"0","k":"k0"}`), nil)
				must(t, err)
				s.docs["0"] = `{"id":"0","k":"k0"}`
			}
			if def.ChangeRetention > 0 {
				// The newest changes stay.
				s.settle()
				if all, _ := s.versions(); all > 202 {
					t.Errorf("%d versions of 200 items", all)
				}
				return
			}
			s.lean()
		})
	}
}

// somePicker chooses what Compact or the merger would merge. Of some compactions it makes one
// with a nested one in it: write is called when they have begun, and what it writes is flushed, as
// often as makes a tier.
func (p *partition) somePicker(rng interface{ IntN(int) int }, write func()) lsm.Picker {
	choose := []lsm.Picker{p.PickTiers, p.PickFew, p.PickDead(context.Background())}[rng.IntN(3)]
	return func(runs []*lsm.Run, last bool) (tiers.Plan, error) {
		plan, err := choose(runs, last)
		if plan.End > plan.First && rng.IntN(2) == 0 {
			for range tiers.Runs + rng.IntN(3) {
				write()
				p.Freeze()
				if err := p.FlushFrozen(context.Background()); err != nil {
					return plan, err
				}
			}
		}
		return plan, err
	}
}
