package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// replicaStep is what replicas are told to do in one range: an entry, or a
// split. Steps of one range are in order; of different ranges they are not.
type replicaStep struct {
	rng   string // "min-max" of the physical partition
	index uint64
	time  time.Time
	make  func(*Container) []*Batch
	at    string            // boundary of a split, which is the entry's effect; else empty
	ttl   *DefaultTTLChange // where the container has MutableTTL
}

var replicaDef = ContainerDef{
	PartitionKey: []string{"/k"}, MinPartitions: 2, Replicated: true, DefaultTTL: NoExpiry, Index: IndexPolicy{Include: []string{"/n/?"}},
	UniqueKeys: [][]string{{"/u"}},
}

// replicaTime is that of the first entry; clocks of replicas are later.
var replicaTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// replicaScript makes entries for the ranges of a new replica, one of which
// splits on the way, twice.
func replicaScript(seed uint64, entries int) (steps []replicaStep) {
	rng := rand.New(rand.NewPCG(seed, 1))
	type log struct {
		rng   partmap.Range
		index uint64
	}
	var logs []*log
	for _, r := range partmap.Ranges(replicaDef.MinPartitions) {
		logs = append(logs, &log{rng: r, index: uint64(rng.IntN(100))})
	}
	keys := make([]PartitionKey, 24)
	for i := range keys {
		keys[i] = StringKey(fmt.Sprintf("key%d", i))
	}
	name := func(r partmap.Range) string { return r.Min.String() + "-" + r.Max.String() }
	for i := range entries {
		l := logs[rng.IntN(len(logs))]
		l.index++
		step := replicaStep{rng: name(l.rng), index: l.index, time: replicaTime.Add(time.Duration(i*700+rng.IntN(900)) * time.Millisecond)}
		if i == entries/3 || i == entries*2/3 {
			at := partmap.Midpoint(l.rng)
			step.at = at.String()
			right := &log{rng: partmap.Range{Min: at, Max: l.rng.Max}, index: l.index - 1}
			l.rng.Max = at
			steps = append(steps, step)
			// The entry is noted in both halves when it has had its effect.
			l.index--
			for _, half := range []*log{l, right} {
				half.index++
				steps = append(steps, replicaStep{rng: name(half.rng), index: half.index, time: step.time, make: func(*Container) []*Batch { return nil }})
			}
			logs = append(logs, right)
			continue
		}
		var mine []PartitionKey
		for _, key := range keys {
			if epk := key.EPK(); l.rng.Contains(&epk) {
				mine = append(mine, key)
			}
		}
		rng.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
		draw := rng.Uint64()
		mine = mine[:min(len(mine), rng.IntN(3))]
		step.make = func(c *Container) []*Batch { return replicaBatches(c, mine, draw) }
		if draw%5 == 0 {
			step.ttl = &DefaultTTLChange{Revision: uint64(i + 1), TTL: []time.Duration{0, NoExpiry, 10 * time.Second, time.Minute}[draw/5%4]}
		}
		steps = append(steps, step)
	}
	return steps
}

// replicaBatches makes the same batches whenever draw is the same. Some of them
// are refused.
func replicaBatches(c *Container, keys []PartitionKey, draw uint64) (batches []*Batch) {
	rng := rand.New(rand.NewPCG(draw, 2))
	for _, key := range keys {
		b := c.NewBatch(key)
		for range 1 + rng.IntN(4) {
			id := fmt.Sprintf("i%d", rng.IntN(6))
			text := fmt.Appendf(nil, `{"id":%q,"k":%s,"u":%d,"n":%d,"s":%q}`, id, key, rng.IntN(24), rng.IntN(50), strings.Repeat("x", rng.IntN(300)))
			var o *WriteOptions
			if rng.IntN(4) == 0 {
				o = &WriteOptions{TTL: time.Duration(1+rng.IntN(20)) * time.Second}
			}
			var err error
			switch rng.IntN(10) {
			case 0, 1:
				err = b.Create(text, o)
			case 2:
				err = b.Replace(text, o)
			case 3:
				err = b.Delete(id, nil)
			case 4:
				err = b.Patch(id, new(Patch).Increment("/n", 1).Increment("/u", 1), o)
			default:
				err = b.Upsert(text, o)
			}
			if err != nil {
				panic(err)
			}
		}
		batches = append(batches, b)
	}
	return batches
}

// play takes a step, if that has not been taken before. It returns what became
// of the entry.
func (step *replicaStep) play(ctx context.Context, c *Container, d Durability) (Applied, error) {
	for _, p := range c.Partitions() {
		if p.Min+"-"+p.Max != step.rng {
			continue
		}
		if step.at == "" {
			e := Entry{Index: step.index, Time: step.time, Batches: step.make(c), Durability: d}
			if c.def.MutableTTL {
				e.DefaultTTL = step.ttl
			}
			return c.ApplyAt(ctx, p.ID, e)
		}
		// The first entry of all may be a split: it has any index.
		if index, err := c.AppliedIndex(p.ID); err != nil || index != 0 && index+1 != step.index {
			return Applied{}, fmt.Errorf("split at entry %d, the partition has come to %d, %v", step.index, index, err)
		}
		job, err := c.Split(ctx, p.ID, &SplitOptions{At: step.at})
		if err != nil {
			return Applied{}, err
		}
		return Applied{}, job.Wait(ctx)
	}
	return Applied{Skipped: true}, nil // the range was split
}

// answers tells everything that a replica answers.
func answers(t testing.TB, c *Container) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	for _, p := range c.Partitions() {
		index, err := c.AppliedIndex(p.ID)
		must(t, err)
		fmt.Fprintf(&b, "[%s, %s) at %d\n", p.Min, p.Max, index)
	}
	line := func(it Item) {
		fmt.Fprintf(&b, "%s %s %v %d %d %d %s\n", it.Key, it.ID, it.ETag, it.Seq, it.Modified.UnixMilli(), it.Expires.UnixMilli(), it.Body)
	}
	snapshot, err := c.Snapshot(ctx)
	must(t, err)
	defer snapshot.Close()
	for it, err := range snapshot.ScanAll(ctx, nil) {
		must(t, err)
		line(it)
		one, err := snapshot.Read(ctx, it.Key, it.ID)
		must(t, err)
		now, err := c.Read(ctx, it.Key, it.ID)
		must(t, err)
		if one.ETag != it.ETag || now.ETag != it.ETag || !one.Expires.Equal(it.Expires) || !bytes.Equal(one.Body, now.Body) {
			t.Errorf("%s of %s: scan %v, snapshot %v, read %v", it.ID, it.Key, it.ETag, one.ETag, now.ETag)
		}
	}
	for _, q := range []Query{{OrderBy: []QueryOrder{{Path: "/n", Desc: true}}}, {Where: Range("/n", Incl(10), Excl(30))}} {
		for it, err := range c.Query(ctx, AllPartitions(), q).All() {
			must(t, err)
			line(it)
		}
	}
	n, err := c.Count(ctx, AllPartitions(), Range("/n", Incl(10), Excl(30)))
	must(t, err)
	fmt.Fprintf(&b, "%d", n)
	must(t, compareClaims(c.db, c))
	return b.String()
}

// replicaOptions are those of a replica whose clock stands still.
func replicaOptions(fsys vfs.FS, after time.Duration) *Options {
	o := testOptions(fsys)
	o.clock = func() time.Time { return replicaTime.Add(after) }
	return o
}

// TestReplicas: stores that are told the same, in another order of the
// partitions, with duplicates, flushes, merges, reopenings and installations in
// between, answer the same, byte for byte.
func TestReplicas(t *testing.T) {
	// The script of a known seed does enough; a random one may end with few documents.
	if refused, taken, lines := playReplicas(t, 1); refused == 0 || taken == 0 || lines < 50 {
		t.Errorf("seed 1: %d refused, %d more for a unique key, %d lines of answers: the script does too little", refused, taken, lines)
	}
	playReplicas(t, newSeed(t))
}

// playReplicas plays the script of a seed. It returns how many writes were refused, how many more
// for a unique key, and how many lines of answers there are.
func playReplicas(t *testing.T, seed uint64) (refused, taken, lines int) {
	ctx := context.Background()
	const entries = 150
	steps := replicaScript(seed, entries)
	after := 60 * time.Second
	luck := rand.New(rand.NewPCG(seed, 9))
	def := replicaDef
	def.MutableTTL = seed%2 == 0
	open := func(mem *vfs.Mem) (*DB, *Container) {
		o := replicaOptions(mem, after)
		o.keepInheritance = luck.IntN(2) == 0
		if luck.IntN(2) == 0 {
			o.ExpiryGrace = -1 // the clock is ahead of most entries
		}
		db, err := Open(ctx, "store", o)
		must(t, err)
		c, err := db.EnsureContainer(ctx, "docs", def)
		must(t, err)
		return db, c
	}
	db, first := open(vfs.NewMem())
	defer db.Close()
	var outcomes []string
	for i := range steps {
		got, err := steps[i].play(ctx, first, Durability{})
		must(t, err)
		for _, r := range got.Results {
			if errors.Is(r.Err, ErrUniqueKey) {
				taken++
			} else if r.Err != nil {
				refused++
			}
		}
		outcomes = append(outcomes, describeApplied(got))
	}
	want := answers(t, first)
	for replica := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 10+replica))
		mem := vfs.NewMem()
		db, c := open(mem)
		follower := newCopy(t)
		taken := make([]bool, len(steps))
		for left := len(steps); left > 0; {
			// The next step of some range whose partition is there.
			i := rng.IntN(len(steps))
			present := func(i int) bool {
				return slices.ContainsFunc(c.Partitions(), func(p PartitionStats) bool { return p.Min+"-"+p.Max == steps[i].rng })
			}
			ready := !taken[i] && present(i)
			for k := range i {
				ready = ready && (taken[k] || steps[k].rng != steps[i].rng)
			}
			if !ready {
				continue
			}
			got, err := steps[i].play(ctx, c, Durability{})
			must(t, err)
			if text := describeApplied(got); text != outcomes[i] {
				t.Fatalf("seed %d: step %d: %s, at first %s", seed, i, text, outcomes[i])
			}
			taken[i] = true
			left--
			if rng.IntN(4) == 0 {
				follower.take(c, AllPartitions(), 1+rng.IntN(30))
			}
			switch rng.IntN(15) {
			case 0:
				must(t, db.Flush(ctx))
			case 8: // a restored backup has come as far
				var stream bytes.Buffer
				_, err := db.Backup(ctx, &stream, nil)
				must(t, err)
				copied, err := restoredCopy(t, replicaOptions(nil, after), stream.Bytes()).Container("docs")
				must(t, err)
				if got, want := answers(t, copied), answers(t, c); got != want {
					t.Fatalf("seed %d: restored from a backup\n%s\nwant\n%s", seed, got, want)
				}
			case 1:
				must(t, db.Compact(ctx))
			case 2:
				must(t, db.Close())
				db, c = open(mem)
			case 3:
				db.abandonForTest()
				mem = mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
				db, c = open(mem)
			case 7:
				for _, p := range db.partitions() {
					if err := p.db.retention.Carry(&p.Partition); err != lsm.ErrMoved { // something is frozen
						must(t, err)
					}
				}
			case 4: // again, and one that comes too early
				if steps[i].at == "" {
					got, err := steps[i].play(ctx, c, Durability{})
					if err != nil || !got.Skipped {
						t.Fatalf("seed %d: step %d again: %+v, %v", seed, i, got, err)
					}
					later := steps[i]
					later.index += 2
					if _, err := later.play(ctx, c, Durability{}); !errors.Is(err, ErrIndexGap) {
						t.Fatalf("seed %d: a gap: %v", seed, err)
					}
				}
			case 5: // what it has moves to a new store
				to := vfs.NewMem()
				other, moved := open(to)
				moveReplica(t, c, moved)
				must(t, db.Close())
				mem, db, c = to, other, moved
			case 6: // and comes back from one that is behind
				p := c.Partitions()[rng.IntN(len(c.Partitions()))]
				var b bytes.Buffer
				_, err := c.ExportPartition(ctx, p.ID, &b)
				must(t, err)
				_, err = c.InstallPartition(ctx, &b)
				must(t, err)
			}
		}
		if got := answers(t, c); got != want {
			t.Errorf("seed %d: replica %d answers\n%s\nwant\n%s", seed, replica, got, want)
		}
		checkVerified(t, db)
		// The feed that went along goes on in another replica, which has nothing to add.
		follower.take(c, AllPartitions(), -1)
		shown := follower.shown
		follower.take(first, AllPartitions(), -1)
		if follower.check(first, follower.gone(first)); follower.shown != shown {
			t.Errorf("seed %d: the first replica shows %d changes more than replica %d", seed, follower.shown-shown, replica)
		}
		must(t, db.Close())
		db, c = open(mem)
		if got := answers(t, c); got != want {
			t.Errorf("seed %d: replica %d answers otherwise after a reopening", seed, replica)
		}
		must(t, db.Close())
	}
	return refused, taken, strings.Count(want, "\n")
}

// abandonForTest ends a store as a killed process does.
func (db *DB) abandonForTest() {
	db.closing.Store(true)
	db.stopWork()
	watched.ignore(db) // what waits for its last reader dies with the process
	db.abandon()
}

func describeApplied(a Applied) string {
	var b strings.Builder
	for _, r := range a.Results {
		if r.Err != nil {
			fmt.Fprintf(&b, "%v;", r.Err)
		}
		for _, m := range r.Metas {
			fmt.Fprintf(&b, "%s %s %v %d %d %d;", m.Key, m.ID, m.ETag, m.Seq, m.Modified.UnixMilli(), m.Expires.UnixMilli())
		}
	}
	return b.String()
}

// moveReplica installs every partition of a container in a new one.
func moveReplica(t testing.TB, from, to *Container) {
	t.Helper()
	ctx := context.Background()
	for _, p := range from.Partitions() {
		for _, at := range []string{p.Min, p.Max} {
			for _, q := range to.Partitions() {
				if at > q.Min && at < q.Max && at != "FF" {
					job, err := to.Split(ctx, q.ID, &SplitOptions{At: at})
					must(t, err)
					must(t, job.Wait(ctx))
				}
			}
		}
	}
	for _, p := range from.Partitions() {
		var b bytes.Buffer
		out, err := from.ExportPartition(ctx, p.ID, &b)
		must(t, err)
		in, err := to.InstallPartition(ctx, &b)
		must(t, err)
		if in.Index != out.Index || in.Items != out.Items || in.Bytes != out.Bytes || in.Min != out.Min || in.Max != out.Max {
			t.Fatalf("exported %+v, installed %+v", out, in)
		}
	}
}

// TestReplicaCrash stops a replica at file-system calls, in all ways of losing
// what was not synced. What is there then is the state after some entry of each
// partition, no earlier than the last one that was acknowledged; told everything
// again it comes to the same end.
func TestReplicaCrash(t *testing.T) {
	ctx := context.Background()
	seed := newSeed(t)
	steps := replicaScript(seed, 18)
	def := replicaDef
	def.MutableTTL = seed%2 == 0
	from := vfs.NewMem()
	var images [][]byte // of a store whose partitions are installed at the end
	play := func(db *DB, c *Container, acked map[string]uint64) error {
		for i := range steps {
			if _, err := steps[i].play(ctx, c, Durability{}); err != nil {
				return err
			}
			if steps[i].at == "" {
				acked[steps[i].rng] = max(acked[steps[i].rng], steps[i].index)
			}
			if i%7 == 5 {
				if err := db.Flush(ctx); err != nil {
					return err
				}
			}
		}
		for _, image := range images {
			if _, err := c.InstallPartition(ctx, bytes.NewReader(image)); err != nil {
				return err
			}
		}
		return nil
	}
	open := func(fsys vfs.FS) (*DB, *Container, error) {
		db, err := Open(ctx, "store", replicaOptions(fsys, time.Minute))
		if err != nil {
			return nil, nil, err
		}
		c, err := db.EnsureContainer(ctx, "docs", def)
		return db, c, err
	}
	db, c, err := open(from)
	must(t, err)
	must(t, play(db, c, map[string]uint64{}))
	for _, p := range c.Partitions() {
		var b bytes.Buffer
		_, err := c.ExportPartition(ctx, p.ID, &b)
		must(t, err)
		images = append(images, b.Bytes())
	}
	want := answers(t, c)
	must(t, db.Close())

	stride := int64(13)
	if testing.Short() {
		stride = 31
	}
	stops := 0
	for n := int64(1) + int64(seed%uint64(stride)); ; n += stride {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		var image *vfs.Mem
		acked := make(map[string]uint64)
		var atStop map[string]uint64
		faulty.StopAt(n, func() {
			image, atStop = mem.Clone(), make(map[string]uint64)
			for r, index := range acked {
				atStop[r] = index
			}
		})
		db, c, err := open(faulty)
		if err == nil {
			err = play(db, c, acked)
		}
		if db != nil {
			db.abandonForTest()
		}
		if image == nil {
			must(t, err)
			break
		}
		stops++
		for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: seed + uint64(n)}} {
			db, c, err := open(image.Crash(keep))
			if err != nil {
				t.Fatalf("seed %d: call %d, %v: %v", seed, n, keep, err)
			}
			for _, p := range c.Partitions() {
				index, err := c.AppliedIndex(p.ID)
				must(t, err)
				if index < atStop[p.Min+"-"+p.Max] {
					t.Errorf("seed %d: call %d, %v: [%s, %s) is at entry %d, %d was acknowledged", seed, n, keep, p.Min, p.Max, index, atStop[p.Min+"-"+p.Max])
				}
			}
			if err := play(db, c, map[string]uint64{}); err != nil {
				t.Fatalf("seed %d: call %d, %v: told again: %v", seed, n, keep, err)
			}
			if got := answers(t, c); got != want {
				t.Fatalf("seed %d: call %d, %v: told again it answers\n%s\nwant\n%s", seed, n, keep, got, want)
			}
			must(t, db.Close())
		}
	}
	if stops < 10 {
		t.Errorf("%d stops: the test reached too little", stops)
	}

	// A call that fails: told again, in the same store if that takes writes yet,
	// it comes to the same end.
	stride *= 2
	for n := int64(1) + int64(seed%uint64(stride)); ; n += stride {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		faulty.FailAt(n, fmt.Errorf("injected"), false)
		db, c, err := open(faulty)
		if err == nil {
			err = play(db, c, map[string]uint64{})
		}
		if faulty.Calls() < n {
			must(t, err)
			db.abandonForTest()
			break
		}
		if err != nil && c != nil && db.writable() == nil {
			if err := play(db, c, map[string]uint64{}); err != nil {
				t.Fatalf("seed %d: call %d failed: told again: %v", seed, n, err)
			}
		} else if err != nil {
			if db != nil {
				db.abandonForTest()
			}
			if db, c, err = open(mem); err != nil {
				t.Fatalf("seed %d: call %d failed: %v", seed, n, err)
			}
			if err := play(db, c, map[string]uint64{}); err != nil {
				t.Fatalf("seed %d: call %d failed: told again after a reopening: %v", seed, n, err)
			}
		}
		if got := answers(t, c); got != want {
			t.Fatalf("seed %d: call %d failed: told again it answers\n%s\nwant\n%s", seed, n, got, want)
		}
		db.abandonForTest()
	}
}

// TestFlushOfEntriesWithoutItems: an entry that was applied before a Flush is durable, also
// if it has no batches or all of them were refused, so that no memtable knows of it.
func TestFlushOfEntriesWithoutItems(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	db, c := openStore(t, replicaOptions(mem, 0), replicaDef)
	p := c.Partitions()[0]
	for index := uint64(1); index <= 3; index++ {
		_, err := c.ApplyAt(ctx, p.ID, Entry{Index: index, Time: replicaTime, Durability: Buffered})
		must(t, err)
	}
	must(t, db.Flush(ctx))
	_, after := openStore(t, replicaOptions(mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), 0))
	if index, err := after.AppliedIndex(p.ID); err != nil || index != 3 {
		t.Errorf("after a power cut the partition is at entry %d, %v; entry 3 was applied before a Flush", index, err)
	}
}
