package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
)

// copyOf is a copy of a container that a feed keeps.
type copyOf struct {
	t     *testing.T
	at    ChangePosition
	seqs  map[itemID]uint64
	docs  map[itemID]string
	last  map[PartitionKey]uint64 // sequence of the newest change of each logical partition
	shown int
}

func newCopy(t *testing.T) *copyOf {
	return &copyOf{t: t, seqs: make(map[itemID]uint64), docs: make(map[itemID]string), last: make(map[PartitionKey]uint64)}
}

// take takes up to limit changes, from a position that went through its text.
func (r *copyOf) take(c *Container, s Scope, limit int) {
	r.t.Helper()
	from, err := ParsePosition(r.at.String())
	must(r.t, err)
	n := 0
	for ch, err := range c.Changes(context.Background(), s, from, &ChangeOptions{Progress: func(p ChangePosition) { r.at = p }}) {
		must(r.t, err)
		id := itemID{"c", ch.Key, ch.ID}
		if ch.Seq <= r.last[ch.Key] {
			r.t.Fatalf("%v/%s: sequence %d after %d in its logical partition", ch.Key, ch.ID, ch.Seq, r.last[ch.Key])
		}
		r.last[ch.Key], r.seqs[id], r.docs[id] = ch.Seq, ch.Seq, string(ch.Body)
		r.shown++
		if n++; n == limit {
			r.at = ch.Position()
			return
		}
	}
}

// check compares the copy with the container. Only what was deleted may be in the
// copy alone.
func (r *copyOf) check(c *Container, deleted map[itemID]bool) {
	r.t.Helper()
	found := 0
	for it, err := range c.ScanAll(context.Background(), nil) {
		must(r.t, err)
		id := itemID{"c", it.Key, it.ID}
		if r.seqs[id] != it.Seq || r.docs[id] != string(it.Body) {
			r.t.Fatalf("%v/%s: %q with sequence %d in the copy, %q with %d in the container", it.Key, it.ID, r.docs[id], r.seqs[id], it.Body, it.Seq)
		}
		found++
	}
	gone := 0
	for id := range r.seqs {
		if deleted[id] {
			gone++
		}
	}
	if found+gone != len(r.seqs) {
		r.t.Fatalf("%d items, %d in the copy, %d of them deleted", found, len(r.seqs), gone)
	}
}

// gone returns which items of the copy the container does not have.
func (r *copyOf) gone(c *Container) map[itemID]bool {
	r.t.Helper()
	gone := make(map[itemID]bool)
	for id := range r.seqs {
		if _, err := c.Read(context.Background(), id.key, id.id); errors.Is(err, ErrNotFound) {
			gone[id] = true
		} else {
			must(r.t, err)
		}
	}
	return gone
}

// TestChanges keeps copies by feeds that are left and resumed among all that can
// happen to a store.
func TestChanges(t *testing.T) {
	for i := range 4 {
		t.Run("", func(t *testing.T) { changes(t, newSeed(t), i%2 == 1) })
	}
}

// feedOrders are numbers of versions that random feeds put in order at once: of
// most parts, less than a logical partition has or less than the part; or all.
var feedOrders = []int{3, 40, 0}

func changes(t *testing.T, seed uint64, unique bool) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(seed, 1))
	def := byK
	if unique {
		def.UniqueKeys = [][]string{{"/v"}}
	}
	s := newSplitStore(t, def, func(o *Options) { o.Durability, o.feedOrder = Buffered, feedOrders[rng.IntN(len(feedOrders))] })
	follower := newCopy(t)
	one := newCopy(t)
	deleted := make(map[itemID]bool)
	key := func(n int) PartitionKey { return StringKey(fmt.Sprintf("k%d", n)) }
	for step := range amount(1200, 1200, 500) {
		switch n := rng.IntN(100); {
		case n < 60:
			k, id := rng.IntN(12), fmt.Sprint(rng.IntN(30))
			s.put(k, id, fmt.Sprint(step))
			delete(deleted, itemID{"c", key(k), id})
		case n < 62:
			whole := key(rng.IntN(12))
			must(t, s.c.DeleteLogicalPartition(ctx, whole, nil))
			for id := range s.docs {
				if id.key == whole {
					delete(s.docs, id)
					deleted[id] = true
				}
			}
		case n < 70:
			k, id := rng.IntN(12), fmt.Sprint(rng.IntN(30))
			if err := s.c.Delete(ctx, key(k), id, nil); err == nil {
				delete(s.docs, itemID{"c", key(k), id})
				deleted[itemID{"c", key(k), id}] = true
			} else if !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
		case n < 84:
			follower.take(s.c, AllPartitions(), 1+rng.IntN(40))
		case n < 88:
			one.take(s.c, OnePartition(key(3)), 1+rng.IntN(10))
		case n < 91:
			must(t, s.db.Flush(ctx))
		case n < 92:
			must(t, s.db.Compact(ctx))
		case n < 94:
			if len(s.ids()) < 5 {
				job, err := s.c.Split(ctx, s.ids()[rng.IntN(len(s.ids()))], nil)
				if err == nil {
					err = job.Wait(ctx)
				}
				if err != nil && !errors.Is(err, ErrRefused) {
					t.Fatal(err)
				}
			}
		case n < 96:
			if len(s.ids()) > 1 {
				s.merge(rng.IntN(len(s.ids()) - 1))
			}
		case n < 97:
			for _, p := range s.db.partitions() {
				if err := p.db.retention.Carry(&p.Partition); err != nil && err != lsm.ErrMoved {
					t.Fatal(err)
				}
			}
		case n < 98:
			s.reopen(s.mem.Kill())
		case n < 99:
			s.db.Close()
			s.open()
		}
	}
	follower.take(s.c, AllPartitions(), -1)
	follower.check(s.c, deleted)
	fresh := newCopy(t)
	fresh.take(s.c, AllPartitions(), -1)
	fresh.check(s.c, nil)
	one.take(s.c, OnePartition(key(3)), -1)
	for id, doc := range s.docs {
		if id.key == key(3) && one.docs[id] != doc {
			t.Errorf("%v: %s, want %s", id, one.docs[id], doc)
		}
	}
	before := follower.shown
	follower.take(s.c, AllPartitions(), -1)
	if follower.shown != before {
		t.Errorf("%d changes after the end", follower.shown-before)
	}
}

// TestChangesOverwritten: what was written while a feed was on its way, and goes with a
// power cut, hides nothing of what it was to show.
func TestChangesOverwritten(t *testing.T) {
	ctx := context.Background()
	for _, write := range []func(s *splitStore){
		func(s *splitStore) { s.put(1, "last", "new") },
		func(s *splitStore) { must(s.t, s.c.Delete(ctx, StringKey("k1"), "last", nil)) },
		func(s *splitStore) { must(s.t, s.c.DeleteLogicalPartition(ctx, StringKey("k1"), nil)) },
	} {
		s := newSplitStore(t, byK, func(o *Options) { o.Durability = Buffered })
		for i := range 520 { // more than a batch has
			s.put(1, fmt.Sprint(i), "old")
		}
		s.put(1, "last", "old") // of the second batch
		r := newCopy(t)
		r.take(s.c, AllPartitions(), 1)
		n := 0
		for ch, err := range s.c.Changes(ctx, AllPartitions(), r.at, &ChangeOptions{Progress: func(p ChangePosition) { r.at = p }}) {
			must(s.t, err)
			id := itemID{"c", ch.Key, ch.ID}
			r.seqs[id], r.docs[id] = ch.Seq, string(ch.Body)
			if n++; n == 1 {
				write(s)
			}
		}
		s.reopen(s.mem.Crash(vfs.CrashOptions{}))
		r.take(s.c, AllPartitions(), -1)
		r.check(s.c, nil)
	}
}

// TestChangesFollow follows a container that is written to, split, and dropped.
func TestChangesFollow(t *testing.T) {
	ctx := context.Background()
	db, _ := openStore(t, testOptions(vfs.NewMem()))
	defer db.Close()
	c, err := db.CreateContainer(ctx, "followed", byK)
	must(t, err)
	const n = 2000
	done := make(chan error, 1)
	seen := make(map[string]uint64)
	go func() {
		for ch, err := range c.Changes(ctx, AllPartitions(), FromStart(), &ChangeOptions{Follow: true}) {
			if err != nil {
				done <- err
				return
			}
			if seen[ch.ID] != 0 {
				done <- fmt.Errorf("%s comes twice", ch.ID)
				return
			}
			if seen[ch.ID] = ch.Seq; len(seen) == n {
				done <- nil
			}
		}
	}()
	for i := range n {
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"k%d"}`, i, i%50), &WriteOptions{Durability: Buffered})
		must(t, err)
		if i == n/2 {
			job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
			must(t, err)
			must(t, job.Wait(ctx))
		}
	}
	must(t, <-done)
	must(t, db.DropContainer(ctx, "followed"))
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("the container is dropped: %v", err)
	}
}

// TestChangesEnd ends loops by their context, by Close and by their body.
func TestChangesEnd(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	upsert(t, c, "x", 10)
	follow := &ChangeOptions{Follow: true}
	n := 0
	for _, err := range c.Changes(ctx, AllPartitions(), FromStart(), follow) {
		if n++; n == 1 {
			must(t, err)
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	if n != 2 {
		t.Errorf("%d pairs", n)
	}
	waiting := make(chan struct{})
	ended := make(chan error)
	o := &ChangeOptions{Follow: true, Progress: func(ChangePosition) { close(waiting) }}
	go func() {
		for _, err := range c.Changes(context.Background(), AllPartitions(), FromNow(), o) {
			ended <- err
		}
	}()
	<-waiting
	must(t, db.Close())
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestChangesFromTime begins at a time.
func TestChangesFromTime(t *testing.T) {
	ctx := context.Background()
	var clock *testClock
	s := newSplitStore(t, byK, func(o *Options) { clock = newTestClock(o) })
	s.put(1, "early", "")
	must(t, s.db.Flush(ctx))
	clock.pass(time.Minute)
	at := s.opts.clock()
	s.put(1, "then", "")
	must(t, s.db.Flush(ctx))
	s.put(2, "late", "")
	r := newCopy(t)
	r.at = FromTime(at)
	r.take(s.c, AllPartitions(), 1)
	r.take(s.c, AllPartitions(), -1)
	if r.shown != 2 || r.docs[itemID{"c", StringKey("k1"), "early"}] != "" {
		t.Errorf("from a time: %v", r.docs)
	}
}

func TestPositions(t *testing.T) {
	ctx := context.Background()
	s := newSplitStore(t, byK, nil)
	for i := range 20 {
		s.put(i, "x", "")
	}
	for _, text := range []string{"start", "now", "time:2024-02-29T12:00:00.123Z"} {
		p, err := ParsePosition(text)
		must(t, err)
		if p.String() != text {
			t.Errorf("%s becomes %s", text, p)
		}
	}
	var end ChangePosition
	for _, err := range s.c.Changes(ctx, AllPartitions(), FromNow(), &ChangeOptions{Progress: func(p ChangePosition) { end = p }}) {
		t.Fatal("a change after now", err)
	}
	text := end.String()
	for i := range text {
		if _, err := ParsePosition(text[:i]); !errors.Is(err, ErrInvalid) {
			t.Fatalf("the first %d characters: %v", i, err)
		}
	}
	other, err := s.db.CreateContainer(ctx, "other", byK)
	must(t, err)
	for _, err := range other.Changes(ctx, AllPartitions(), end, nil) {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("position of another container: %v", err)
		}
	}
	var narrow ChangePosition
	for range s.c.Changes(ctx, OnePartition(StringKey("k1")), FromStart(), &ChangeOptions{Progress: func(p ChangePosition) { narrow = p }}) {
	}
	for _, err := range s.c.Changes(ctx, AllPartitions(), narrow, nil) {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("position of a narrower scope: %v", err)
		}
	}
	for _, err := range s.c.Changes(ctx, OnePartition(StringKey("k1")), end, nil) {
		t.Errorf("position of a wider scope: %v", err)
	}
}

// TestFeedStats shows a reader that is slow.
func TestFeedStats(t *testing.T) {
	ctx := context.Background()
	var clock *testClock
	s := newSplitStore(t, byK, func(o *Options) { clock = newTestClock(o) })
	s.put(1, "a", "")
	for _, err := range s.c.Changes(ctx, OnePartition(StringKey("k1")), FromStart(), nil) {
		must(t, err)
		s.put(1, "b", "")
		clock.pass(time.Minute)
		feeds := s.db.Stats().Feeds
		if len(feeds) != 1 || feeds[0].Shown != 1 || feeds[0].Behind != 1 || feeds[0].Lag != time.Minute || feeds[0].Container != "c" {
			t.Errorf("%+v", feeds)
		}
	}
	if feeds := s.db.Stats().Feeds; len(feeds) != 0 {
		t.Errorf("after the loop: %+v", feeds)
	}
}

// TestChangesPowerCut shows buffered writes, and cuts the power: what was shown is
// there, and the position good.
func TestChangesPowerCut(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(newSeed(t), 3))
	s := newSplitStore(t, byK, func(o *Options) { o.Durability = Buffered })
	r := newCopy(t)
	for round := range 6 {
		for i := range 60 {
			s.put(i%7, fmt.Sprintf("%d-%d", round, i), "")
		}
		r.take(s.c, AllPartitions(), 1+rng.IntN(80))
		for i := range 20 { // not shown
			s.put(i%7, fmt.Sprintf("late %d-%d", round, i), "")
		}
		if round == 3 {
			s.split(0, nil)
		}
		s.reopen(s.mem.Crash(vfs.CrashOptions{Keep: []vfs.Keep{vfs.KeepNone, vfs.KeepRandom}[round%2], Seed: rng.Uint64()}))
		for id, seq := range r.seqs {
			if it, err := s.c.Read(ctx, id.key, id.id); err != nil || it.Seq != seq {
				t.Fatalf("%v was shown with sequence %d, is %d: %v", id, seq, it.Seq, err)
			}
		}
	}
	r.take(s.c, AllPartitions(), -1)
	r.check(s.c, nil)
}

// BenchmarkChanges reads latest versions from the start, out of files and out of a
// memtable, and follows: a put and its change.
func BenchmarkChanges(b *testing.B) {
	ctx := context.Background()
	read := func(b *testing.B, c *Container) {
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range c.Changes(ctx, AllPartitions(), FromStart(), nil) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
	}
	db, c := openStore(b, &Options{Durability: Buffered})
	doc := func(i int) []byte {
		return fmt.Appendf(nil, `{"id":"%d","k":"k%d","text":"a document of some hundred bytes, which says nothing that anybody would like to know"}`, i, i%97)
	}
	for i := range 50_000 {
		if _, err := c.Upsert(ctx, doc(i), nil); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("memtable", func(b *testing.B) { read(b, c) })
	if err := db.Compact(ctx); err != nil {
		b.Fatal(err)
	}
	b.Run("files", func(b *testing.B) { read(b, c) })
	b.Run("new", func(b *testing.B) {
		var at ChangePosition
		o := &ChangeOptions{Progress: func(p ChangePosition) { at = p }}
		for range c.Changes(ctx, AllPartitions(), FromNow(), o) {
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := c.Upsert(ctx, doc(i), &WriteOptions{Durability: Buffered}); err != nil {
				b.Fatal(err)
			}
			for _, err := range c.Changes(ctx, AllPartitions(), at, o) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// TestChangesOpaque: an id of an opaque container is any bytes.
func TestChangesOpaque(t *testing.T) {
	ctx := context.Background()
	db, _ := openStore(t, testOptions(vfs.NewMem()))
	defer db.Close()
	c, err := db.CreateContainer(ctx, "o", ContainerDef{Kind: Opaque})
	must(t, err)
	ids := []string{"a", string([]byte{item.ClaimMark, 'b'})}
	for _, id := range ids {
		_, err := c.Put(ctx, StringKey("k"), id, []byte("x"), nil)
		must(t, err)
	}
	var got []string
	for ch, err := range c.Changes(ctx, AllPartitions(), FromStart(), nil) {
		must(t, err)
		got = append(got, ch.ID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("changes of %q", got)
	}
}
