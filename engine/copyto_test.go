package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// copyDef is the definition of copies in these tests.
var copyDef = ContainerDef{PartitionKey: []string{"/n"}, DefaultTTL: NoExpiry}

// copied copies a container, and waits until little is missing.
func copied(ctx context.Context, src *Container, name string, def ContainerDef) (*CopyJob, error) {
	p, err := src.CopyTo(ctx, name, def)
	if err == nil {
		err = p.Wait(ctx)
	}
	return p, err
}

// putCopied upserts the document that most of these tests use: n becomes its key.
func putCopied(t testing.TB, c *Container, key, id string, n any) {
	t.Helper()
	_, err := c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":%q,"k":%q,"n":%v}`, id, key, n), nil)
	must(t, err)
}

// sameItems says how what two containers hold differs. Each item must be where
// its document says.
func sameItems(src, dst *Container) error {
	ctx := context.Background()
	n := 0
	for a, err := range src.ScanAll(ctx, nil) {
		if err != nil {
			return err
		}
		n++
		r := requests.Get().(*request)
		key, err := dst.keyIn(r, a.Body)
		r.release()
		if err != nil {
			return err
		}
		b, err := dst.Read(ctx, key, a.ID)
		if err != nil {
			return fmt.Errorf("item %s of %s at %s: %w", a.ID, a.Key, key, err)
		}
		if !bytes.Equal(a.Body, b.Body) || !a.Expires.Equal(b.Expires) {
			return fmt.Errorf("item %s of %s: %s (%v), copied as %s (%v)", a.ID, a.Key, a.Body, a.Expires, b.Body, b.Expires)
		}
	}
	for b, err := range dst.ScanAll(ctx, nil) {
		if err != nil {
			return err
		}
		if n--; n < 0 {
			return fmt.Errorf("item %s of %s in the copy: %s", b.ID, b.Key, b.Body)
		}
	}
	if n != 0 {
		return fmt.Errorf("%d items less in the copy", n)
	}
	return nil
}

// TestCopyTo copies what there is, what is written later, deletes, new keys,
// exchanged places.
func TestCopyTo(t *testing.T) {
	ctx := t.Context()
	db, src := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	for i := range 50 {
		putCopied(t, src, fmt.Sprint("k", i%5), fmt.Sprint("i", i), i%7)
		if i == 30 {
			must(t, db.Flush(ctx))
		}
	}
	_, err := src.Upsert(ctx, []byte(`{"id":"none","k":"k1"}`), nil)
	must(t, err)
	p, err := copied(ctx, src, "dst", copyDef)
	must(t, err)
	last := p.Progress()
	if last.Copied != 51 || last.Removed != 0 || last.Pass != 2 || last.Looked != 0 {
		t.Errorf("progress %+v", last)
	}
	dst := p.Container()
	must(t, sameItems(src, dst))
	if _, err := dst.Read(ctx, UndefinedKey(), "none"); err != nil {
		t.Errorf("without a key: %v", err)
	}
	for what, err := range map[string]error{
		"upsert": second(dst.Upsert(ctx, []byte(`{"id":"x","n":1}`), nil)),
		"delete": dst.Delete(ctx, UndefinedKey(), "none", nil),
		"update": dst.Update(ctx, UndefinedKey(), func(tx *Tx) error { return tx.Delete("none", nil) }),
		"load": second(dst.Load(ctx, func(yield func([]byte, error) bool) {
			yield([]byte(`{"id":"x","n":1}`), nil)
		}, nil)),
		"copy": second(dst.CopyTo(ctx, "third", copyDef)),
	} {
		if !errors.Is(err, ErrCopying) {
			t.Errorf("%s of a copy: %v", what, err)
		}
	}
	if _, err := copied(ctx, src, "dst", copyDef); !errors.Is(err, ErrExists) {
		t.Errorf("a second Copy: %v", err)
	}

	// What was copied goes; gets another key; takes the place of another one, in
	// both directions of the order.
	must(t, src.Delete(ctx, StringKey("k0"), "i0", nil))
	putCopied(t, src, "k1", "i1", `"new"`)
	must(t, src.Delete(ctx, StringKey("k1"), "none", nil))
	for _, pair := range [][2]string{{"a", "b"}, {"c", "d"}} {
		putCopied(t, src, pair[0], "same", fmt.Sprintf("%q", pair[0]))
		putCopied(t, src, pair[1], "same", fmt.Sprintf("%q", pair[1]))
	}
	must(t, p.CatchUp(ctx))
	must(t, sameItems(src, dst))
	must(t, db.Flush(ctx))
	for _, pair := range [][2]string{{"a", "b"}, {"d", "c"}} { // exchanged
		putCopied(t, src, pair[0], "same", `"between"`)
		putCopied(t, src, pair[1], "same", fmt.Sprintf("%q", pair[0]))
		putCopied(t, src, pair[0], "same", fmt.Sprintf("%q", pair[1]))
	}
	must(t, src.Delete(ctx, StringKey("k2"), "i2", nil))
	putCopied(t, src, "k9", "i2", 2) // where the deleted one was
	putCopied(t, src, "k3", "short", 1)
	must(t, src.Delete(ctx, StringKey("k3"), "short", nil))
	must(t, db.Compact(ctx))
	must(t, p.CatchUp(ctx))
	must(t, sameItems(src, dst))

	putCopied(t, src, "k4", "late", 1)
	got, err := p.Finish(ctx)
	must(t, err)
	if got != dst {
		t.Error("Finish returns another container")
	}
	must(t, sameItems(src, dst))
	if _, err := src.Upsert(ctx, []byte(`{"id":"x","k":"k"}`), nil); !errors.Is(err, ErrCopied) {
		t.Errorf("writing to the source: %v", err)
	}
	putCopied(t, dst, "k", "x", 1)
	if _, err := p.Finish(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Finish again: %v", err)
	}
	p.Cancel()
	must(t, p.Wait(ctx))
	must(t, db.DropContainer(ctx, "c"))
	if s := db.Stats().Snapshots; s != 0 {
		t.Errorf("%d snapshots are left", s)
	}
}

// TestCopyToEmptied deletes logical partitions of the source between passes,
// and writes to one of them again.
func TestCopyToEmptied(t *testing.T) {
	ctx := t.Context()
	db, src := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	for i := range 60 {
		putCopied(t, src, fmt.Sprint("k", i%3), fmt.Sprint("i", i), i%7)
	}
	must(t, db.Flush(ctx))
	p, err := copied(ctx, src, "dst", copyDef)
	must(t, err)
	for i, key := range []string{"k1", "k2"} {
		must(t, src.DeleteLogicalPartition(ctx, StringKey(key), nil))
		if i == 1 {
			putCopied(t, src, key, "i2", 5)
			putCopied(t, src, key, "i5", 5)
			must(t, db.Compact(ctx))
		}
		must(t, p.CatchUp(ctx))
		must(t, sameItems(src, p.Container()))
	}
	putCopied(t, src, "k1", "i1", 1)
	must(t, src.DeleteLogicalPartition(ctx, StringKey("k0"), nil))
	_, err = p.Finish(ctx)
	must(t, err)
	must(t, sameItems(src, p.Container()))
	p.Cancel()
}

// TestCopyToOfUniqueKeys: claims of unique keys, and their tombstones, are no
// changes.
func TestCopyToOfUniqueKeys(t *testing.T) {
	ctx := t.Context()
	_, src := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{"/id"}}, DefaultTTL: NoExpiry})
	for i := range 100 {
		putCopied(t, src, "a", fmt.Sprint(i), i)
	}
	p, err := copied(ctx, src, "dst", copyDef)
	must(t, err)
	for i := range 90 {
		must(t, src.Delete(ctx, StringKey("a"), fmt.Sprint(i), nil))
	}
	must(t, p.CatchUp(ctx))
	must(t, sameItems(src, p.Container()))
	_, err = p.Finish(ctx)
	must(t, err)
}

// TestCopyToCollision copies items that would become one, and goes on when that
// was put right.
func TestCopyToCollision(t *testing.T) {
	ctx := t.Context()
	_, src := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	putCopied(t, src, "a", "one", 1)
	putCopied(t, src, "b", "two", 2)
	p, err := copied(ctx, src, "dst", copyDef)
	must(t, err)
	for range 2 { // in a later pass, then in a first one
		putCopied(t, src, "b", "one", 1)
		err = p.CatchUp(ctx)
		var collision *CollisionError
		if !errors.As(err, &collision) || !errors.Is(err, ErrExists) {
			t.Fatalf("two items for one place: %v", err)
		}
		if collision.ID != "one" || collision.Key != NumberKey(1) || collision.From[0] == collision.From[1] {
			t.Errorf("%+v", collision)
		}
		if _, err := p.Finish(ctx); !errors.As(err, &collision) {
			t.Errorf("Finish: %v", err)
		}
		putCopied(t, src, "b", "one", 3) // and the source can be written
		must(t, p.CatchUp(ctx))
		must(t, sameItems(src, p.Container()))
	}
	// A pass that ends in its middle has moved some items, which move again.
	moving := func(n int) {
		for i := range 20 {
			putCopied(t, src, fmt.Sprint("m", i), "moving"+fmt.Sprint(i), n)
		}
	}
	moving(10)
	must(t, p.CatchUp(ctx))
	moving(11)
	putCopied(t, src, "b", "one", 1)
	if err := p.CatchUp(ctx); !errors.Is(err, ErrExists) {
		t.Fatal(err)
	}
	moving(12)
	putCopied(t, src, "b", "one", 3)
	must(t, p.CatchUp(ctx))
	must(t, sameItems(src, p.Container()))

	p.Cancel()
	must(t, src.db.DropContainer(ctx, "dst"))
	putCopied(t, src, "b", "one", 1)
	if _, err := copied(ctx, src, "dst", copyDef); !errors.Is(err, ErrExists) {
		t.Errorf("a collision in what there is: %v", err)
	}
	must(t, src.Delete(ctx, StringKey("a"), "one", nil))
	p, err = copied(ctx, src, "dst", copyDef)
	must(t, err)
	must(t, sameItems(src, p.Container()))
	p.Cancel()
}

// TestCopyToRefused asks for copies that cannot be.
func TestCopyToRefused(t *testing.T) {
	ctx := t.Context()
	db, src := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	opaque, err := db.CreateContainer(ctx, "opaque", ContainerDef{Kind: Opaque})
	must(t, err)
	for _, test := range []struct {
		src  *Container
		name string
		def  ContainerDef
		want error
	}{
		{opaque, "dst", copyDef, ErrInvalid},
		{src, "dst", ContainerDef{Kind: Opaque}, ErrInvalid},
		{src, "dst", ContainerDef{PartitionKey: []string{"/n"}}, ErrInvalid}, // items would not expire
		{src, "dst", ContainerDef{PartitionKey: []string{"/n"}, DefaultTTL: NoExpiry, UniqueKeys: [][]string{{"/v"}}}, ErrInvalid},
		{src, "dst", ContainerDef{Synthetic: &SyntheticKey{Join: []string{"/n"}, Suffixes: 4}, DefaultTTL: NoExpiry}, ErrInvalid},
		{src, "dst", ContainerDef{PartitionKey: []string{"/n"}, DefaultTTL: NoExpiry, Replicated: true}, ErrInvalid},
		{src, "", copyDef, ErrInvalid},
		{src, "c", copyDef, ErrExists},
		{src, "opaque", copyDef, ErrExists},
	} {
		if _, err := test.src.CopyTo(ctx, test.name, test.def); !errors.Is(err, test.want) {
			t.Errorf("%s to %q: %v, want %v", test.src.Name(), test.name, err, test.want)
		}
	}
	if _, err := db.Container("dst"); !errors.Is(err, ErrNoContainer) {
		t.Errorf("a refused copy: %v", err)
	}
	_, err = src.Upsert(ctx, []byte(`{"id":"i","k":"k","n":[1]}`), nil)
	must(t, err)
	if _, err := copied(ctx, src, "dst", copyDef); !errors.Is(err, ErrInvalid) {
		t.Errorf("an array for a key: %v", err)
	}
	if _, err := copied(ctx, src, "dst", ContainerDef{PartitionKey: []string{"/v"}, DefaultTTL: NoExpiry}); !errors.Is(err, ErrExists) {
		t.Errorf("to an unfinished copy with another key: %v", err)
	}
	hashed := copyDef
	hashed.HashVersion = 1
	if _, err := copied(ctx, src, "dst", hashed); !errors.Is(err, ErrExists) {
		t.Errorf("to an unfinished copy with another hash: %v", err)
	}
	must(t, src.Delete(ctx, StringKey("k"), "i", nil))
	quoted := copyDef
	quoted.PartitionKey = []string{`/"n"`} // the same path
	p, err := copied(ctx, src, "dst", quoted)
	must(t, err)
	must(t, db.DropContainer(ctx, "c"))
	if _, err := p.Finish(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Finish without a source: %v", err)
	}
	p.Cancel()
}

// TestCopyToExpiry copies items that expire.
func TestCopyToExpiry(t *testing.T) {
	ctx := t.Context()
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	o := testOptions(vfs.NewMem())
	o.clock = func() time.Time { return time.Unix(0, now.Load()) }
	_, src := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	put := func(id string, n int, ttl time.Duration) {
		t.Helper()
		_, err := src.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":"k","n":%d}`, id, n), &WriteOptions{TTL: ttl})
		must(t, err)
	}
	put("gone", 1, time.Minute)
	put("short", 1, time.Hour)
	put("long", 1, 3*time.Hour)
	put("ever", 1, 0)
	now.Add(int64(10 * time.Minute))
	p, err := copied(ctx, src, "dst", copyDef)
	must(t, err)
	must(t, sameItems(src, p.Container()))
	now.Add(int64(10 * time.Minute))
	put("ever", 2, time.Minute)
	put("long", 1, 0)
	now.Add(int64(time.Hour)) // before the copy hears of either
	must(t, p.CatchUp(ctx))
	must(t, sameItems(src, p.Container()))
	dst, err := p.Finish(ctx)
	must(t, err)
	n := 0
	for it, err := range dst.ScanAll(ctx, nil) {
		must(t, err)
		if n++; it.ID != "long" {
			t.Errorf("in the copy: %s", it.ID)
		}
	}
	if n != 1 {
		t.Errorf("%d items in the copy", n)
	}
}

// TestCopyToConcurrent copies beside writers, and beside splits of both
// containers.
func TestCopyToConcurrent(t *testing.T) {
	seed := newSeed(t)
	ctx := t.Context()
	o := testOptions(vfs.NewMem())
	o.manual = false
	o.Durability = Buffered
	db, src := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	load := func(rng *rand.Rand, w int) error {
		k := fmt.Sprint("k", rng.IntN(20))
		key, id := StringKey(k), fmt.Sprintf("%s-w%d-%d", k, w, rng.IntN(40))
		doc := fmt.Appendf(nil, `{"id":%q,"k":%q,"n":%d,"v":%q}`, id, k, rng.IntN(9), randomText(rng, rng.IntN(300)))
		if rng.IntN(300) == 0 {
			return src.DeleteLogicalPartition(ctx, key, nil)
		}
		switch rng.IntN(10) {
		case 0, 1, 2:
			if err := src.Delete(ctx, key, id, nil); !errors.Is(err, ErrNotFound) {
				return err
			}
			return nil
		case 3:
			b := src.NewBatch(key)
			if err := errors.Join(b.Upsert(doc, nil), b.Delete(id, nil), b.Upsert(doc, nil)); err != nil {
				return err
			}
			_, err := src.Commit(ctx, b)
			return err
		case 4:
			return src.Update(ctx, key, func(tx *Tx) error { return tx.Upsert(doc, nil) })
		}
		_, err := src.Upsert(ctx, doc, nil)
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		must(t, load(rng, 0))
	}
	var wg sync.WaitGroup
	for w := 1; w <= 2; w++ {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for {
				if err := load(rng, w); errors.Is(err, ErrCopied) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	p, err := copied(ctx, src, "dst", copyDef)
	if err != nil {
		db.Close()
		t.Fatal(err)
	}
	for i := range 2 {
		var jobs []*ReshapeJob
		for _, c := range []*Container{src, p.Container()} {
			parts := c.Partitions()
			job, err := c.Split(ctx, parts[rng.IntN(len(parts))].ID, nil)
			must(t, err)
			jobs = append(jobs, job)
		}
		must(t, p.CatchUp(ctx))
		for _, job := range jobs {
			must(t, job.Wait(ctx))
		}
		if i == 0 {
			must(t, db.Flush(ctx))
		}
	}
	dst, err := p.Finish(ctx)
	if err != nil {
		db.Close()
		t.Fatal(err)
	}
	wg.Wait()
	must(t, sameItems(src, dst))
}

// TestCopyToStopped stops a copy at every call to the file system, and makes
// each call fail: the source is whole and takes writes, and the copy can be gone
// on with, or else it has taken the source's place.
func TestCopyToStopped(t *testing.T) {
	seed := newSeed(t)
	ctx := t.Context()
	script := func(o *Options) (finished bool, err error) {
		db, err := Open(ctx, "copy", o)
		if err != nil {
			return false, err
		}
		defer db.Close()
		src, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
		if err != nil {
			return false, err
		}
		put := func(from, to, n int) {
			for i := from; i < to && err == nil; i++ {
				_, err = src.Upsert(ctx, fmt.Appendf(nil, `{"id":"i%d","k":"k%d","n":%d}`, i, i%3, (i+n)%4), &WriteOptions{Durability: Buffered})
			}
		}
		if put(0, 8, 0); err == nil {
			err = db.Flush(ctx)
		}
		var p *CopyJob
		if put(4, 12, 1); err == nil {
			p, err = copied(ctx, src, "dst", copyDef)
		}
		if err != nil {
			return false, err
		}
		defer p.Cancel()
		if err := src.Delete(ctx, StringKey("k1"), "i1", nil); err != nil {
			return false, err
		}
		if put(6, 14, 2); err == nil {
			_, err = p.Finish(ctx)
		}
		return err == nil, err
	}
	check := func(image *vfs.Mem, finished bool) error {
		db, err := Open(ctx, "copy", testOptions(image))
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer db.Close()
		src, err := db.Container("c")
		if errors.Is(err, ErrNoContainer) && !finished {
			return nil
		} else if err != nil {
			return err
		}
		_, err = src.Upsert(ctx, []byte(`{"id":"after","k":"k1","n":1}`), nil)
		if errors.Is(err, ErrCopied) {
			dst, err := db.Container("dst")
			if err == nil {
				err = sameItems(src, dst)
			}
			if err == nil {
				_, err = dst.Upsert(ctx, []byte(`{"id":"after","k":"k1","n":1}`), nil)
			}
			return err
		}
		if err != nil {
			return err
		}
		if finished {
			return errors.New("the source takes writes after Finish")
		}
		p, err := copied(ctx, src, "dst", copyDef)
		if err != nil {
			return fmt.Errorf("CopyTo goes on: %w", err)
		}
		dst, err := p.Finish(ctx)
		if err != nil {
			return err
		}
		return sameItems(src, dst)
	}
	for n := range stops(seed) {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		var images []*vfs.Mem
		faulty.StopAt(n, func() { images = crashImages(mem, seed+uint64(n)) })
		finished, err := script(testOptions(faulty))
		if images == nil {
			must(t, err)
			break
		}
		for i, image := range images {
			// Whether the stop was in Close, after the end.
			if err := check(image, finished); err != nil {
				t.Fatalf("stopped at call %d, image %d: %v", n, i, err)
			}
		}
	}
	for n := range stops(seed) {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		faulty.FailAt(n, errInjected, n%2 == 0)
		finished, _ := script(testOptions(faulty))
		if faulty.Calls() < n {
			break
		}
		for i, image := range []*vfs.Mem{mem.Kill(), mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})} {
			if err := check(image, finished); err != nil {
				t.Fatalf("call %d failed, image %d: %v", n, i, err)
			}
		}
	}
}

// TestCopyToExpirer: the store writes no tombstones for what has expired in a copy
// under way, nor in what was copied, and goes on in other containers.
func TestCopyToExpirer(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	opts.ExpiryGrace = time.Minute
	db, err := Open(ctx, "db", opts)
	must(t, err)
	defer db.Close()
	def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour, DefaultTTL: 10 * time.Second}
	var all []*Container
	for _, name := range []string{"source", "other"} {
		c, err := db.CreateContainer(ctx, name, def)
		must(t, err)
		_, err = c.Upsert(ctx, []byte(`{"id":"x","k":"a"}`), nil)
		must(t, err)
		all = append(all, c)
	}
	byID := def
	byID.PartitionKey = []string{"/id"}
	cp, err := copied(ctx, all[0], "copy", byID)
	must(t, err)
	defer cp.Cancel()
	expire := func() {
		t.Helper()
		clock.pass(2 * time.Minute)
		if err := db.expireItems(ctx); err != nil {
			t.Error(err)
		}
	}
	told := func(c *Container) (last ChangeKind) {
		for ch, err := range c.Changes(ctx, AllPartitions(), FromStart(), &ChangeOptions{AllVersions: true}) {
			must(t, err)
			last = ch.Kind
		}
		return last
	}
	expire()
	_, err = all[0].Upsert(ctx, []byte(`{"id":"y","k":"a"}`), nil)
	must(t, err)
	to, err := cp.Finish(ctx)
	must(t, err)
	expire()
	for _, c := range []*Container{all[1], to} {
		if kind := told(c); kind != ChangeExpired {
			t.Errorf("container %q: %v", c.name, kind)
		}
	}
}

// TestCopyWaitsForThroughput: a copy begins when the throughput of its source is consumed, and
// waits, wherever it reads.
func TestCopyWaitsForThroughput(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	_, c := openStore(t, opts)
	for i := range 20 {
		must(t, second(c.Upsert(ctx, smallDocument(fmt.Sprint(i), fmt.Sprint(i%3), 50), nil)))
	}
	exhaust := func() {
		must(t, c.SetThroughput(ctx, 1))
		c.routing.Load().parts[0].Charge(nil, 1e9)
	}
	waits := 0
	c.db.opts.pause = func(time.Duration) {
		waits++
		must(t, c.SetThroughput(ctx, 0))
	}
	exhaust()
	j, err := c.CopyTo(ctx, "copy", ContainerDef{PartitionKey: []string{"/id"}})
	must(t, err)
	if err := j.Wait(ctx); err != nil || waits != 1 {
		t.Fatalf("the first pass: %v, waited %d times", err, waits)
	}
	must(t, second(c.Upsert(ctx, smallDocument("5", "2", 60), nil)))
	must(t, c.DeleteLogicalPartition(ctx, StringKey("0"), nil))
	exhaust()
	copied, err := j.Finish(ctx)
	if err != nil || waits < 2 {
		t.Fatalf("the last pass: %v, waited %d times", err, waits)
	}
	n := 0
	for _, err := range copied.ScanAll(ctx, nil) {
		must(t, err)
		n++
	}
	if n != 13 {
		t.Errorf("%d items in the copy", n)
	}
}

// TestFinishTwice: of two copies of a container one takes its place, and the other one does not give it back.
func TestFinishTwice(t *testing.T) {
	ctx := t.Context()
	_, src := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	putCopied(t, src, "a", "1", 1)
	first, err := copied(ctx, src, "first", copyDef)
	must(t, err)
	other, err := copied(ctx, src, "other", copyDef)
	must(t, err)
	must(t, second(first.Finish(ctx)))
	if _, err := other.Finish(ctx); !errors.Is(err, ErrCopied) {
		t.Errorf("the other copy: %v, want ErrCopied", err)
	}
	if _, err := src.Upsert(ctx, doc("2", "a", 2), nil); !errors.Is(err, ErrCopied) {
		t.Errorf("a write to the source: %v, want ErrCopied", err)
	}
}
