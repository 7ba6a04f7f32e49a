package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
)

// story is a script that a crash may interrupt at any file-system call.
type story struct {
	name string
	run  func(s *stage)
}

// stage is where a story is played: a store and the oracle beside it. Once the
// file system has stopped, or a call of it has failed, every step is tried no
// more.
type stage struct {
	t    testing.TB
	opts *Options
	db   *DB
	o    *oracle
	err  error // what ended the story

	rounds  uint64 // of writes: no two write the same
	dropped string // container whose drop was tried
	gone    bool   // and acknowledged
	nested  bool   // compactAround had a compaction nested in its own
}

var plainStories = []story{
	{"write", func(s *stage) {
		s.start(2)
		s.put("c", 30, 100)
		s.remove("c", 5)
	}},
	{"buffered", func(s *stage) {
		s.opts.Durability = Buffered
		s.start(2)
		s.put("c", 30, 100)
		s.must(s.do(func() error { return s.db.Flush(context.Background()) }))
		s.put("c", 30, 100)
	}},
	{"flush", func(s *stage) {
		s.start(2)
		s.put("c", 20, 300)
		s.flush()
		s.put("c", 20, 300)
		s.remove("c", 5)
		s.flush()
		s.put("c", 5, 10)
	}},
	{"merge", func(s *stage) {
		s.start(1)
		for range 3 {
			s.put("c", 25, 400)
			s.remove("c", 3)
			s.flush()
		}
		s.settle()
		s.put("c", 5, 10)
		s.settle()
	}},
	{"nested compaction", func(s *stage) {
		s.start(1)
		for range 2 {
			s.put("c", 44, 3_000) // so many that they are compacted in several pieces
			s.remove("c", 2)
			s.flush()
		}
		s.compactAround(func() {
			s.put("c", 1, 100)
			s.flush()
		})
		s.remove("c", 3)
		s.settle()
	}},
	{"index policy", func(s *stage) {
		s.start(2)
		s.put("c", 12, 200)
		s.flush()
		s.put("c", 8, 200)
		s.flush()
		s.index("c", IndexPolicy{Include: []string{"/v/?"}})
		s.put("c", 5, 100)
		s.index("c", IndexPolicy{})
		s.flush()
		s.index("c", IndexAll())
		s.settle()
	}},
	{"reopen", func(s *stage) {
		s.start(2)
		s.put("c", 20, 200)
		s.close()
		s.open()
		s.put("c", 20, 200)
		s.flush()
		s.close()
		s.open()
		s.put("c", 2, 10)
	}},
	{"delete key", func(s *stage) {
		s.start(2)
		s.put("c", 20, 200)
		s.deleteKey("c", 1)
		s.put("c", 6, 100)
		s.flush()
		s.deleteKey("c", 0)
		s.carry()
		s.deleteKey("c", 1)
		s.put("c", 3, 100)
		s.split("c", 0)
		s.deleteKey("c", 2)
		s.put("c", 6, 100)
		s.flush()
		s.close()
		s.open()
		s.deleteKey("c", 3)
		s.settle()
	}},
	{"unique keys", func(s *stage) {
		s.open()
		s.define("c", ContainerDef{PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{"/id"}, {"/id", "/n"}}})
		s.put("c", 14, 60)
		s.batches("c", 3, 4, 60)
		s.flush()
		s.remove("c", 3)
		s.updates("c", 3)
		s.deleteKey("c", 1)
		s.put("c", 6, 60)
		s.split("c", 0)
		s.load("c", 8, nil)
		s.flush()
		s.settle()
		s.close()
		s.open()
		s.put("c", 4, 60)
	}},
	{"rotate", func(s *stage) {
		s.start(2)
		s.put("c", 30, 9_000)
		s.flush()
		s.put("c", 20, 9_000)
	}},
	{"drop", func(s *stage) {
		s.open()
		s.create("a", 1)
		s.create("b", 2)
		s.put("a", 10, 100)
		s.put("b", 10, 100)
		s.flush()
		s.put("b", 10, 100)
		s.drop("b")
		s.put("a", 10, 100)
		s.close()
		s.open()
		s.put("a", 2, 100)
	}},
	{"carry", func(s *stage) {
		s.start(2)
		s.put("c", 20, 100)
		s.carry()
		s.put("c", 10, 9_000)
		s.carry()
		s.put("c", 3, 10)
	}},
	{"load", func(s *stage) {
		s.start(2)
		s.load("c", 60, nil)
		s.flush()
		s.load("c", 20, nil)
	}},
}

var stories = slices.Concat(plainStories, batchStories, reshapeStories)

// stops are the calls that a story is stopped at: with -full all of them, else
// some, from one on that the seed gives.
func stops(seed uint64) iter.Seq[int64] { return every(lone(sweep(6, 29, 17)), seed) }

// every yields the calls from one on that the seed gives, step apart.
func every(step int, seed uint64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for n := 1 + int64(seed%uint64(step)); yield(n); n += int64(step) {
		}
	}
}

// crashImages are what a crash at this moment may leave: of the process, and of
// the power, with less or more of what was not synced.
func crashImages(mem *vfs.Mem, seed uint64) []*vfs.Mem {
	return []*vfs.Mem{
		mem.Kill(),
		mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}),
		mem.Crash(vfs.CrashOptions{Keep: vfs.KeepRandom, Seed: seed}),
		mem.Crash(vfs.CrashOptions{Keep: vfs.KeepAll, TornLast: true, Seed: seed}),
	}
}

// play runs a story to its end or to where the file system stops it. Two runs
// write the same bytes, random numbers and times included.
func (st *story) play(t testing.TB, faulty *vfs.Faulty) *stage {
	s := &stage{t: t, opts: testOptions(faulty), o: newOracle()}
	newTestClock(s.opts)
	var drawn atomic.Uint64
	s.opts.random = func() uint64 { return drawn.Add(1) * 0x9E3779B97F4A7C15 }
	st.run(s)
	if s.db != nil {
		s.db.Close()
	}
	if watched.holds(faulty) {
		t.Errorf("%s, ended by %v: a store is open", st.name, s.err)
	}
	return s
}

// TestStoryOfNested: the story of nested compactions has one.
func TestStoryOfNested(t *testing.T) {
	for _, st := range stories {
		if st.name == "nested compaction" {
			if s := st.play(t, vfs.NewFaulty(vfs.NewMem())); s.err != nil || !s.nested {
				t.Errorf("nested %v, %v", s.nested, s.err)
			}
			return
		}
	}
	t.Error("there is no such story")
}

// TestCrashImages stops each story at every file-system call, takes images of
// what a power cut there could have left, and opens them.
func TestCrashImages(t *testing.T) {
	seed := newSeed(t)
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			survivors := newSurvivors(t)
			for n := range stops(seed) {
				mem := vfs.NewMem()
				faulty := vfs.NewFaulty(mem)
				var images []*vfs.Mem
				faulty.StopAt(n, func() { images = crashImages(mem, seed+uint64(n)) })
				s := st.play(t, faulty)
				if images == nil {
					if s.err != nil {
						t.Fatalf("%s: %v", st.name, s.err)
					}
					return // the story ended before call n
				}
				for i, image := range images {
					if err := survivors.check(s, image, i == 0); err != nil {
						t.Fatalf("stopped at call %d (%v), image %d: %v", n, s.err, i, err)
					}
				}
			}
		})
	}
}

// TestFailedCalls makes each file-system call of each story fail, once and
// from then on. Nothing acknowledged may be lost, and what is acknowledged
// after an error must hold too.
func TestFailedCalls(t *testing.T) {
	seed := newSeed(t)
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			survivors := newSurvivors(t)
			for n := range stops(seed) {
				for _, sticky := range []bool{false, true} {
					mem := vfs.NewMem()
					faulty := vfs.NewFaulty(mem)
					faulty.FailAt(n, errInjected, sticky)
					var synced int64 // syncs that did not fail
					faulty.SetHook(func(c vfs.Call) error {
						if c.Op == vfs.OpSync {
							synced++
						}
						return nil
					})
					s := st.play(t, faulty)
					if faulty.Calls() < n {
						return
					}
					// A sync that failed may have lost what the kernel had.
					lost := faulty.CallsOf(vfs.OpSync) > synced
					for i, image := range []*vfs.Mem{mem.Kill(), mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})} {
						if err := survivors.check(s, image, i == 0 && !lost); err != nil {
							t.Fatalf("call %d failed (sticky %v, %v), image %d: %v", n, sticky, s.err, i, err)
						}
					}
				}
			}
		})
	}
}

// survivors knows what was found to survive, to try each image only once: many
// stops leave the same bytes.
type survivors struct {
	known  map[survivor]bool
	images int
}

// survivor is a hash of an image and of what is asked of it.
type survivor struct{ image, promised uint64 }

func newSurvivors(t testing.TB) *survivors {
	v := &survivors{known: make(map[survivor]bool)}
	t.Cleanup(func() { t.Logf("%d images, %d of them different", v.images, len(v.known)) })
	return v
}

// check is survives for an image that was not found to survive before.
func (v *survivors) check(s *stage, image *vfs.Mem, killed bool) error {
	v.images++
	this := survivor{image.Sum(seedOfHash), s.promised(killed)}
	if v.known[this] {
		return nil
	}
	err := s.survives(image, killed)
	v.known[this] = err == nil
	return err
}

// promised is a hash of all that survives goes by, but for the image.
func (s *stage) promised(killed bool) uint64 {
	var h maphash.Hash
	h.SetSeed(seedOfHash)
	maphash.WriteComparable(&h, [...]any{s.rounds, s.dropped, s.gone, s.o.order})
	for _, id := range slices.Sorted(maps.Keys(s.o.parts)) {
		past := s.o.parts[id]
		maphash.WriteComparable(&h, [...]any{id, len(past.writes), past.least(killed)})
		for _, w := range past.writes {
			maphash.WriteComparable(&h, w)
		}
	}
	return h.Sum64()
}

// survives opens an image of the file system, compares it with the oracle,
// writes to it, and opens it once more.
func (s *stage) survives(image *vfs.Mem, killed bool) error {
	o := s.o.clone()
	least := func(h *history) int { return h.least(killed) }
	opts := *testOptions(image)
	db, err := Open(context.Background(), "image", &opts)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { db.Close() }()
	if intents := db.storeManifest.state.Intents; len(intents) > 0 {
		return fmt.Errorf("the store manifest has intents of jobs that are no more: %+v", intents)
	}
	if err := s.checkDropped(db, o); err != nil {
		return err
	}
	if err := o.check(db, least); err != nil {
		return err
	}
	again := &stage{t: s.t, db: db, opts: &opts, o: o, rounds: s.rounds}
	for info := range db.Containers() {
		again.put(info.Name, 5, 50)
	}
	again.flush()
	for info := range db.Containers() {
		again.put(info.Name, 3, 50)
	}
	if again.err != nil {
		return fmt.Errorf("writing to the survivor: %w", again.err)
	}
	if db, err = again.reopenKilled(image); err != nil {
		return fmt.Errorf("second open: %w", err)
	}
	if err := o.check(db, func(h *history) int { return h.kernel }); err != nil {
		return fmt.Errorf("second open: %w", err)
	}
	for f, err := range db.Verify(context.Background()) {
		if err != nil {
			return err
		}
		return fmt.Errorf("verify: %w", f)
	}
	return nil
}

func (s *stage) reopenKilled(image *vfs.Mem) (*DB, error) {
	next := image.Kill()
	s.db.Close()
	db, err := Open(context.Background(), "image", testOptions(next))
	if err == nil {
		s.db = db
	}
	return s.db, err
}

// checkDropped compares the containers with what the story dropped.
func (s *stage) checkDropped(db *DB, o *oracle) error {
	if s.dropped == "" {
		return nil
	}
	_, err := db.Container(s.dropped)
	if err == nil && s.gone {
		return fmt.Errorf("container %s is back after its drop was acknowledged", s.dropped)
	}
	if errors.Is(err, ErrNoContainer) {
		for id, h := range o.parts {
			if len(h.writes) > 0 && h.writes[0].container == s.dropped {
				delete(o.parts, id)
			}
		}
	}
	return nil
}

var errInjected = fmt.Errorf("injected")

// do runs a step unless the story has ended.
func (s *stage) do(step func() error) error {
	if s.err != nil || s.db == nil {
		return s.err
	}
	return step()
}

// must ends the story on an error.
func (s *stage) must(err error) {
	if err != nil && s.err == nil {
		s.err = err
	}
}

func (s *stage) open() {
	if s.err != nil {
		return
	}
	db, err := Open(context.Background(), "story", s.opts)
	if err != nil {
		s.db = nil
		s.must(err)
		return
	}
	s.db = db
}

// start opens the store and makes a container.
func (s *stage) start(partitions int) {
	s.open()
	s.create("c", partitions)
}

func (s *stage) close() {
	s.must(s.do(func() error {
		err := s.db.Close()
		s.db = nil
		return err
	}))
}

func (s *stage) create(name string, partitions int) {
	s.define(name, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: partitions, Index: IndexAll()})
}

func (s *stage) define(name string, def ContainerDef) {
	s.must(s.do(func() error {
		_, err := s.db.CreateContainer(context.Background(), name, def)
		return err
	}))
}

// index sets an index policy, which is applied at once.
func (s *stage) index(name string, p IndexPolicy) {
	s.must(s.do(func() error {
		c, err := s.db.Container(name)
		if err == nil {
			_, err = c.SetIndexPolicy(context.Background(), p)
		}
		return err
	}))
}

func (s *stage) drop(name string) {
	s.must(s.do(func() error {
		s.dropped = name
		err := s.db.DropContainer(context.Background(), name)
		s.gone = err == nil
		return err
	}))
}

func (s *stage) flush() {
	s.must(s.do(func() error { return s.db.Flush(context.Background()) }))
}

// flushPart flushes what a partition holds at this moment.
func (s *stage) flushPart(i int) {
	s.must(s.do(func() error {
		p := s.db.partitions()[i]
		p.Freeze()
		err := p.FlushFrozen(context.Background())
		s.db.env.Reclaim.NowIfManual()
		return err
	}))
}

func (s *stage) settle() {
	s.must(s.do(func() error { return s.db.Compact(context.Background()) }))
}

// compactAround compacts all runs of the only partition. When the compaction has begun, step
// makes as many runs more as make it let a nested one in.
func (s *stage) compactAround(step func()) {
	s.must(s.do(func() error {
		_, err := s.db.partitions()[0].CompactBy(context.Background(), func(runs []*lsm.Run, _ bool) (tiers.Plan, error) {
			for range tiers.Runs {
				step()
			}
			return tiers.Plan{First: 0, End: len(runs)}, nil
		})
		s.nested = len(s.db.partitions()[0].Version.Load().Runs) == 2
		return err
	}))
}

func (s *stage) carry() {
	s.must(s.do(func() error {
		for _, p := range s.db.partitions() {
			if err := p.db.retention.Carry(&p.Partition); err != nil && err != lsm.ErrMoved {
				return err
			}
		}
		return nil
	}))
}

// stageKeys are the partition keys that storyDoc gives.
var stageKeys = []PartitionKey{StringKey("k0"), StringKey("k1"), StringKey("k2"), StringKey("k3")}

func storyDoc(rng *rand.Rand, i, size int) (key PartitionKey, id, body string) {
	k := fmt.Sprintf("k%d", i%4)
	id = fmt.Sprintf("i%d", i%11)
	body = fmt.Sprintf(`{"id":%q,"k":%q,"n":%d,"v":"%s"}`, id, k, rng.IntN(1e9), strings.Repeat("v", size/2)+randomText(rng, size/2))
	return StringKey(k), id, body
}

// put upserts items, over the same ids again and again.
func (s *stage) put(name string, n, size int) {
	s.writes(name, n, func(c *Container, rng *rand.Rand, i int) (write, Meta, error) {
		key, id, body := storyDoc(rng, i, size)
		if c.levels() == 2 {
			// All in one value of the first level.
			key = JoinKeys(StringKey("all"), key)
			body = strings.Replace(body, `"k":`, `"k":"all","l":`, 1)
		}
		meta, err := c.Upsert(context.Background(), []byte(body), nil)
		return write{container: name, key: key, id: id, body: body}, meta, err
	})
}

func (s *stage) remove(name string, n int) {
	s.writes(name, n, func(c *Container, rng *rand.Rand, i int) (write, Meta, error) {
		key, id, _ := storyDoc(rng, i, 0)
		err := c.Delete(context.Background(), key, id, nil)
		return write{container: name, key: key, id: id}, Meta{}, err
	})
}

// deleteKey deletes all items of one of stageKeys.
func (s *stage) deleteKey(name string, i int) {
	s.writes(name, 1, func(c *Container, _ *rand.Rand, _ int) (write, Meta, error) {
		return write{container: name, key: stageKeys[i]}, Meta{}, c.DeleteLogicalPartition(context.Background(), stageKeys[i], nil)
	})
}

// writes makes n writes one by one; those of what is not there are left out.
func (s *stage) writes(name string, n int, one func(c *Container, rng *rand.Rand, i int) (write, Meta, error)) {
	s.groups(name, n, func(c *Container, rng *rand.Rand, i int) ([]write, []Meta, error) {
		w, meta, err := one(c, rng, i)
		if errors.Is(err, ErrNotFound) {
			return nil, nil, nil
		}
		return []write{w}, []Meta{meta}, err
	})
}

// groups makes n groups of writes, each of which happens as a whole or not.
func (s *stage) groups(name string, n int, one func(c *Container, rng *rand.Rand, i int) ([]write, []Meta, error)) {
	s.must(s.do(func() error {
		c, err := s.db.Container(name)
		if err != nil {
			return err
		}
		s.rounds++
		rng := rand.New(rand.NewPCG(s.rounds, 7))
		for i := range n {
			writes, metas, err := one(c, rng, i)
			if errors.Is(err, ErrDiskFull) {
				return err // and nothing was written
			}
			for j := range metas {
				writes[j].etag = metas[j].ETag
			}
			if len(writes) > 0 {
				s.o.noteBatch(partitionOf(c, writes[0].key), writes, err == nil, s.opts.Durability != Buffered)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// load loads documents; during is called once, when some of them are committed.
func (s *stage) load(name string, n int, during func()) {
	s.must(s.do(func() error {
		c, err := s.db.Container(name)
		if err != nil {
			return err
		}
		s.rounds++
		rng := rand.New(rand.NewPCG(s.rounds, 7))
		var tried []write
		stats, err := c.Load(context.Background(), func(yield func([]byte, error) bool) {
			for i := range n {
				key, id, body := storyDoc(rng, i, 80)
				tried = append(tried, write{container: name, key: key, id: id, body: body})
				if !yield([]byte(body), nil) {
					return
				}
			}
		}, &LoadOptions{BatchBytes: 1000, Progress: func(LoadStats) {
			if during != nil {
				during()
				during = nil
			}
		}})
		for i, w := range tried {
			s.o.note(partitionOf(c, w.key), w, int64(i) < stats.Committed, s.opts.Durability != Buffered)
		}
		return err
	}))
}

func (o *oracle) clone() *oracle {
	c := newOracle()
	c.order = o.order
	for id, h := range o.parts {
		c.parts[id] = &history{writes: append([]write(nil), h.writes...), durable: h.durable, kernel: h.kernel}
	}
	return c
}

// randomCrash draws what a power cut keeps.
func randomCrash(rng *rand.Rand) vfs.CrashOptions {
	return vfs.CrashOptions{
		Keep:     []vfs.Keep{vfs.KeepNone, vfs.KeepRandom, vfs.KeepAll}[rng.IntN(3)],
		TornLast: rng.IntN(2) == 0, Seed: rng.Uint64(),
	}
}
