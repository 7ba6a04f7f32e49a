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

	"github.com/cleavestore/cleave/internal/expiry"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/wal"
)

// told is what a feed of all versions says of a change.
type told struct {
	seq      uint64
	id       string
	kind     ChangeKind
	previous uint64
	body     string
}

// historian keeps what was written, and what feeds of all versions tell.
type historian struct {
	*splitStore
	clock   *testClock
	written map[PartitionKey][]told
	seen    map[PartitionKey][]told
	at      ChangePosition
}

func newHistorian(t *testing.T, def ContainerDef, change func(*Options)) *historian {
	h := &historian{written: make(map[PartitionKey][]told), seen: make(map[PartitionKey][]told)}
	h.splitStore = newSplitStore(t, def, func(o *Options) {
		h.clock = newTestClock(o)
		if change != nil {
			change(o)
		}
	})
	return h
}

// newest returns what the item was written as last, and whether it is there.
func (h *historian) newest(k PartitionKey, id string) (told, bool) {
	list := h.written[k]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].kind == ChangeDeletedPartition {
			break
		}
		if list[i].id == id {
			return list[i], list[i].kind < ChangeDeleted
		}
	}
	return told{}, false
}

func (h *historian) write(n int, id, text string, ttl int) {
	h.t.Helper()
	k := fmt.Sprintf("k%d", n)
	key := StringKey(k)
	doc := fmt.Sprintf(`{"id":%q,"k":%q,"v":%q}`, id, k, text)
	if ttl > 0 {
		doc = fmt.Sprintf(`{"id":%q,"k":%q,"v":%q,"ttl":%d}`, id, k, text, ttl)
	}
	_, readErr := h.c.Read(context.Background(), key, id)
	meta, err := h.c.Upsert(context.Background(), []byte(doc), nil)
	if errors.Is(err, ErrUniqueKey) {
		return
	}
	must(h.t, err)
	change := told{seq: meta.Seq, id: id, kind: ChangeCreated, body: doc}
	if old, there := h.newest(key, id); there {
		change.previous = old.seq
		if readErr == nil {
			change.kind = ChangeReplaced
		}
	}
	h.written[key] = append(h.written[key], change)
}

func (h *historian) delete(n int, id string) {
	h.t.Helper()
	key := StringKey(fmt.Sprintf("k%d", n))
	if err := h.c.Delete(context.Background(), key, id, nil); errors.Is(err, ErrNotFound) {
		return
	} else if err != nil {
		h.t.Fatal(err)
	}
	old, _ := h.newest(key, id)
	// Behind it the claims are given up.
	seq := h.db.log.LastSeq() - uint64(len(h.c.Def().UniqueKeys))
	h.written[key] = append(h.written[key], told{seq: seq, id: id, kind: ChangeDeleted, previous: old.seq})
}

func (h *historian) deletePartition(n int) {
	h.t.Helper()
	key := StringKey(fmt.Sprintf("k%d", n))
	must(h.t, h.c.DeleteLogicalPartition(context.Background(), key, nil))
	h.written[key] = append(h.written[key], told{seq: h.db.log.LastSeq(), kind: ChangeDeletedPartition})
}

func (h *historian) read(limit int) error {
	h.t.Helper()
	from, err := ParsePosition(h.at.String())
	must(h.t, err)
	n := 0
	for ch, err := range h.c.Changes(context.Background(), AllPartitions(), from, &ChangeOptions{AllVersions: true, Progress: func(p ChangePosition) { h.at = p }}) {
		if err != nil {
			return err
		}
		h.seen[ch.Key] = append(h.seen[ch.Key], told{ch.Seq, ch.ID, ch.Kind, ch.Previous, string(ch.Body)})
		if n++; n == limit {
			h.at = ch.Position()
			break
		}
	}
	return nil
}

// compare compares what was told with what was written. Which expiries are told
// the writer does not know: it returns the sequences of what expired.
func (h *historian) compare() map[uint64]bool {
	h.t.Helper()
	expired := make(map[uint64]bool)
	for k, want := range h.written {
		var got []told
		for _, c := range h.seen[k] {
			if c.kind != ChangeExpired {
				got = append(got, c)
				continue
			}
			if expired[c.previous] || c.previous == 0 {
				h.t.Fatalf("%v: told twice, or of nothing: %+v", k, c)
			}
			expired[c.previous] = true
		}
		for i := range want {
			if want[i].kind == ChangeCreated && expired[want[i].previous] {
				want[i].previous = 0
			}
			if i < len(got) && got[i] == want[i] {
				continue
			}
			if i == len(got) {
				h.t.Fatalf("%v: %d changes told, %d written", k, len(got), len(want))
			}
			h.t.Fatalf("%v: change %d is told as %+v, is %+v", k, i, got[i], want[i])
		}
		if len(got) > len(want) {
			h.t.Fatalf("%v: told more than was written: %+v", k, got[len(want):])
		}
	}
	return expired
}

// TestChangesAllVersions compares the feed of all versions with the history, among all that
// can happen to a store.
func TestChangesAllVersions(t *testing.T) {
	for i := range 4 {
		t.Run("", func(t *testing.T) { allVersions(t, newSeed(t), i%2 == 1) })
	}
}

func allVersions(t *testing.T, seed uint64, unique bool) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(seed, 2))
	def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour, DefaultTTL: NoExpiry}
	values := 1000
	if unique {
		def.UniqueKeys = [][]string{{"/v"}}
		values = 30
	}
	h := newHistorian(t, def, func(o *Options) {
		o.Durability, o.ExpiryGrace, o.feedOrder = Buffered, -1, feedOrders[rng.IntN(len(feedOrders))]
	})
	for step := range amount(1000, 1000, 400) {
		switch n := rng.IntN(100); {
		case n < 55:
			h.write(rng.IntN(6), fmt.Sprint(rng.IntN(20)), fmt.Sprint(step%values), rng.IntN(5))
		case n < 57:
			h.deletePartition(rng.IntN(6))
		case n < 65:
			h.delete(rng.IntN(6), fmt.Sprint(rng.IntN(20)))
		case n < 80:
			must(h.t, h.read(1+rng.IntN(30)))
		case n < 84:
			h.clock.pass(time.Second)
			if rng.IntN(2) == 0 {
				h.expire()
			}
		case n < 88:
			must(h.t, h.db.Flush(ctx))
		case n < 90:
			must(h.t, h.db.Compact(ctx))
		case n < 92:
			if len(h.ids()) < 5 {
				job, err := h.c.Split(ctx, h.ids()[rng.IntN(len(h.ids()))], nil)
				if err == nil {
					err = job.Wait(ctx)
				}
				if err != nil && !errors.Is(err, ErrRefused) {
					t.Fatal(err)
				}
			}
		case n < 94:
			if len(h.ids()) > 1 {
				h.merge(rng.IntN(len(h.ids()) - 1))
			}
		case n < 96:
			for _, p := range h.db.partitions() {
				if err := p.db.retention.Carry(&p.Partition); err != nil && err != lsm.ErrMoved {
					t.Fatal(err)
				}
			}
		case n < 98:
			h.reopen(h.mem.Kill())
		case n < 99:
			h.db.Close()
			h.open()
		default:
			must(h.t, h.db.keepMarks())
		}
	}
	h.clock.pass(10 * time.Second)
	h.expire()
	must(h.t, h.read(-1))
	expired := h.compare()
	for key, list := range h.written {
		for _, c := range list {
			if newest, _ := h.newest(key, c.id); newest == c && strings.Contains(c.body, "ttl") && !expired[c.seq] {
				t.Errorf("%v: nobody tells that it expired: %+v", key, c)
			}
		}
	}
	h.verify()
	// From the start again: nothing is older than the retention.
	h.at, h.seen = FromStart(), make(map[PartitionKey][]told)
	must(h.t, h.read(-1))
	h.compare()
}

// expire lets the expirer make a pass over everything.
func (h *historian) expire() {
	h.t.Helper()
	for _, p := range h.db.partitions() {
		p.expiry = expiry.Pass{}
	}
	must(h.t, h.db.expireItems(context.Background()))
}

// TestChangesOfNothing: a transaction that deletes what it has created has changed
// nothing.
func TestChangesOfNothing(t *testing.T) {
	h := newHistorian(t, ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour}, nil)
	must(h.t, h.c.Update(context.Background(), StringKey("k1"), func(tx *Tx) error {
		must(h.t, tx.Create([]byte(`{"id":"a","k":"k1"}`), nil))
		return tx.Delete("a", nil)
	}))
	must(h.t, h.read(-1))
	if len(h.seen) != 0 {
		t.Errorf("%+v", h.seen)
	}
}

// TestChangesExpiry tells of items that expire.
func TestChangesExpiry(t *testing.T) {
	ctx := context.Background()
	def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour, DefaultTTL: 10 * time.Second}
	h := newHistorian(t, def, func(o *Options) { o.ExpiryGrace = time.Minute })
	h.write(1, "early", "", 0)
	h.write(1, "again", "", 0)
	must(h.t, h.db.Flush(ctx))
	h.write(1, "late", "", 1000)
	h.clock.pass(30 * time.Second)
	h.write(1, "again", "", 1000) // nobody has noticed that it had expired
	h.expire()
	must(h.t, h.read(-1))
	if n := len(h.compare()); n != 0 {
		t.Errorf("%d expired within the grace period", n)
	}
	h.clock.pass(time.Minute)
	h.expire()
	h.expire()
	must(h.t, h.read(-1))
	if n := len(h.compare()); n != 1 {
		t.Fatalf("%d expired", n)
	}
	list := h.seen[StringKey("k1")]
	if last := list[len(list)-1]; last.kind != ChangeExpired || last.id != "early" || last.previous != list[0].seq || last.body != "" {
		t.Errorf("expired: %+v", last)
	}
}

// TestChangeRetention drops versions when they are old enough, and refuses positions
// before them.
func TestChangeRetention(t *testing.T) {
	ctx := context.Background()
	def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Minute}
	h := newHistorian(t, def, nil)
	for i := range 40 {
		h.write(1, "a", fmt.Sprint(i), 0)
		if i%10 == 9 {
			must(h.t, h.db.Flush(ctx))
		}
	}
	h.write(1, "b", "", 0)
	h.delete(1, "b")
	must(h.t, h.db.Compact(ctx))
	versions := func() (n int64) {
		for _, p := range h.db.partitions() {
			for _, r := range p.Version.Load().Runs {
				n += r.Items()
			}
		}
		return n
	}
	if n := versions(); n != 42 {
		t.Errorf("%d versions are kept, 42 were written", n)
	}
	must(h.t, h.read(5))
	early := h.at
	must(h.t, h.read(-1))
	h.compare()
	end := h.at
	must(h.t, h.db.keepMarks())
	h.clock.pass(time.Minute)
	must(h.t, h.db.Compact(ctx))
	if n := versions(); n != 1 {
		t.Errorf("%d versions are kept, one is needed", n)
	}
	check := func() {
		t.Helper()
		h.at = early
		var expired *PositionExpiredError
		if err := h.read(-1); !errors.As(err, &expired) || !errors.Is(err, ErrPositionExpired) {
			t.Fatalf("a position before what was dropped: %v", err)
		}
		h.at = expired.Oldest
		must(h.t, h.read(-1))
		h.at = FromStart()
		if err := h.read(-1); !errors.Is(err, ErrPositionExpired) {
			t.Errorf("all versions from the start: %v", err)
		}
		h.at = end
		must(h.t, h.read(-1))
	}
	check()
	h.reopen(h.mem.Kill())
	check()
	h.write(1, "a", "later", 0)
	must(h.t, h.read(-1))
	h.compare()
	// Latest versions can be had from anywhere.
	r := newCopy(t)
	r.at = early
	r.take(h.c, AllPartitions(), -1)
	if r.shown != 1 {
		t.Errorf("%d items", r.shown)
	}
	_, err := h.db.CreateContainer(ctx, "replicated", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true, ChangeRetention: time.Hour})
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("ChangeRetention of a replicated container: %v", err)
	}
	replicated, err := h.db.CreateContainer(ctx, "replicated", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	must(h.t, err)
	n := 0
	for _, err := range replicated.Changes(ctx, AllPartitions(), FromNow(), &ChangeOptions{AllVersions: true}) {
		if n++; !errors.Is(err, ErrInvalid) {
			t.Errorf("all versions of a replicated container: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("all versions of a replicated container: %d pairs", n)
	}
	other, err := h.db.CreateContainer(ctx, "other", byK)
	must(h.t, err)
	for _, err := range other.Changes(ctx, AllPartitions(), FromNow(), &ChangeOptions{AllVersions: true}) {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("without ChangeRetention: %v", err)
		}
	}
}

// TestVersionsFromTimeReadOnly: a store that is open read-only knows how old sequences are, also after a Refresh: a feed of all
// versions begins at a time, and Stats tells what is kept for feeds.
func TestVersionsFromTimeReadOnly(t *testing.T) {
	ctx := t.Context()
	h := newHistorian(t, ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour}, nil)
	h.write(1, "a", "dropped", 0)
	h.write(1, "a", "overwritten", 0)
	must(t, h.db.keepMarks())
	h.clock.pass(time.Hour)
	must(t, h.db.Compact(ctx))
	h.write(1, "a", "old", 0)
	must(t, h.db.keepMarks())
	h.clock.pass(time.Minute)
	at := h.opts.clock()
	h.write(1, "a", "new", 0)
	must(t, h.db.Flush(ctx))
	held := h.db.Stats().Holders
	if h.c.routing.Load().parts[0].ChangeFloor.Load() == 0 || len(held) != 1 {
		t.Fatalf("nothing was dropped, or it is held by %v", held)
	}
	reader := openReader(t, h.opts)
	c, err := reader.Container("c")
	must(t, err)
	for range 2 {
		n := 0
		for _, err := range c.Changes(ctx, AllPartitions(), FromTime(at), &ChangeOptions{AllVersions: true}) {
			must(t, err)
			n++
		}
		if now := reader.Stats().Holders; n != 1 || !slices.Equal(now, held) {
			t.Errorf("%d changes; held by %+v, in the writer's store by %+v", n, now, held)
		}
		must(t, reader.Refresh(ctx))
	}
}

// TestChangeRetentionOfPartitions keeps a deleted logical partition, and what was in it, as
// long as the changes, and for a snapshot.
func TestChangeRetentionOfPartitions(t *testing.T) {
	ctx := context.Background()
	def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Minute, UniqueKeys: [][]string{{"/v"}}}
	h := newHistorian(t, def, nil)
	for i := range 20 {
		h.write(1, fmt.Sprint(i), fmt.Sprint(i), 0)
	}
	must(h.t, h.db.Flush(ctx))
	snap, err := h.c.Snapshot(ctx)
	must(h.t, err)
	h.deletePartition(1)
	must(h.t, h.db.Flush(ctx))
	h.write(1, "5", "6", 0)
	must(h.t, h.db.Compact(ctx))
	must(h.t, h.read(-1))
	h.compare()
	held := func() (n int) {
		for _, err := range snap.ScanAll(ctx, nil) {
			must(h.t, err)
			n++
		}
		return n
	}
	must(h.t, h.db.keepMarks())
	h.clock.pass(time.Minute)
	h.write(2, "late", "", 0)
	must(h.t, h.db.Compact(ctx))
	if n := held(); n != 20 {
		t.Errorf("the snapshot has %d items of 20", n)
	}
	must(h.t, snap.Close())
	h.write(2, "later", "b", 0)
	must(h.t, h.db.keepMarks())
	h.clock.pass(time.Minute)
	must(h.t, h.db.Compact(ctx))
	items := int64(0)
	for _, p := range h.db.partitions() {
		for _, r := range p.Version.Load().Runs {
			items += r.Items()
		}
	}
	if items != 6 {
		t.Errorf("%d versions are kept; there are 3 items with a claim each", items)
	}
	h.at = FromStart()
	if err := h.read(-1); !errors.Is(err, ErrPositionExpired) {
		t.Errorf("from before what was dropped: %v", err)
	}
	h.verify()
}

// TestChangesOfBackup reads a restored store's changes: all from the sequence of
// the backup on, none from before.
func TestChangesOfBackup(t *testing.T) {
	ctx := context.Background()
	def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour, MinPartitions: 2}
	h := newHistorian(t, def, nil)
	for i := range 10 {
		h.write(i%3, "a", fmt.Sprint(i), 0)
	}
	must(h.t, h.db.Flush(ctx))
	must(h.t, h.read(-1))
	early := h.at
	for i := range 10 {
		h.write(i%3, "a", fmt.Sprint("again ", i), 0)
	}
	must(h.t, h.read(-1))
	end := h.at
	var stream bytes.Buffer
	info, err := h.db.Backup(ctx, &stream, nil)
	must(h.t, err)
	h.compare()
	h.db.Close()

	h.db = restoredCopy(t, h.opts, stream.Bytes())
	h.c, err = h.db.Container("c")
	must(h.t, err)
	for _, at := range []ChangePosition{FromStart(), early} {
		h.at = at
		if err := h.read(-1); !errors.Is(err, ErrPositionExpired) {
			t.Errorf("from before the backup: %v", err)
		}
	}
	for _, p := range h.db.partitions() {
		if floor := p.ChangeFloor.Load(); floor == 0 || floor > info.Seq {
			t.Errorf("partition %d keeps all above %d, the backup is of %d", p.ID, floor, info.Seq)
		}
	}
	h.at = end
	for i := range 10 {
		h.write(i%3, "a", fmt.Sprint("restored ", i), 0)
	}
	h.deletePartition(1)
	must(h.t, h.read(-1))
	h.compare()
}

// TestReplayTornCarry: replay has flushed newer versions of what the first record of a
// carry, whose others a crash took, brings again.
func TestReplayTornCarry(t *testing.T) {
	t.Run("kept", func(t *testing.T) { replayTornCarry(t, false) })
	t.Run("first and past its retention", func(t *testing.T) { replayTornCarry(t, true) })
}

// replayTornCarry: late says that the store has no files, and what it deleted is
// older than the retention, so that a flush could drop the tombstones.
func replayTornCarry(t *testing.T, late bool) {
	ctx := context.Background()
	def := ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour}
	h := newHistorian(t, def, func(o *Options) {
		o.MemoryBudget, o.memtableBytes, o.Durability = 128<<20, 64<<20, Buffered
	})
	h.write(1, "first", "", 0)
	if !late {
		must(h.t, h.db.Flush(ctx)) // so that the runs above it are merged
	}
	h.write(1, "whole", "", 0)
	h.write(2, "deleted", "", 0)
	h.write(2, "overwritten", "", 0)
	p := h.db.partitions()[0]
	var payload []byte
	var k item.Key
	var ver item.Version
	table := p.Version.Load().Active
	for _, ref := range table.InOrder(0, lsm.MaxSequence) {
		table.Borrow(ref.Ref, &k, &ver)
		payload = logrecord.AppendCarried(payload, &k, &ver)
	}
	h.deletePartition(1)
	h.write(1, "after", "", 0)
	h.delete(2, "deleted")
	h.write(2, "overwritten", "new", 0)
	text := strings.Repeat("x", 64<<10)
	for i := range minMemoryBudget / (64 << 10) {
		h.write(3, fmt.Sprint(i), text, 0)
	}
	end, _, err := h.db.log.AppendCarried(wal.Stream(p.ID), ver.Seq, payload)
	must(h.t, err)
	must(h.t, h.db.log.Wait(end, true))
	if flushes := h.db.counters.flushes.Load(); flushes > 1 {
		t.Fatalf("%d flushes before the crash", flushes)
	}
	if late {
		must(h.t, h.db.keepMarks())
		h.clock.pass(2 * time.Hour)
	}
	h.opts.MemoryBudget, h.opts.memtableBytes = minMemoryBudget, 0
	h.reopen(h.mem.Kill())
	if h.db.counters.flushes.Load() == 0 {
		t.Fatal("replay flushed nothing")
	}
	check := func() {
		t.Helper()
		for n, id := range map[int]string{1: "whole", 2: "deleted"} {
			if _, err := h.c.Read(ctx, StringKey(fmt.Sprint("k", n)), id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if _, err := h.c.Read(ctx, StringKey("k1"), "after"); err != nil {
			t.Errorf("after the delete of its logical partition: %v", err)
		}
		if it, err := h.c.Read(ctx, StringKey("k2"), "overwritten"); err != nil || !strings.Contains(string(it.Body), "new") {
			t.Errorf("overwritten: %s %v", it.Body, err)
		}
		h.verify()
		if late {
			return
		}
		h.at, h.seen = FromStart(), make(map[PartitionKey][]told)
		must(h.t, h.read(-1))
		h.compare()
	}
	check()
	must(h.t, h.db.Compact(ctx))
	check()
}

// TestSlowReader: a reader that does not come on keeps nothing on disk. Of items
// that are overwritten for ten times the retention there stays at most twice what is
// younger than that, and the reader is told that its position is gone.
func TestSlowReader(t *testing.T) {
	ctx := context.Background()
	h := newHistorian(t, ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour}, nil)
	const items, minutes, kept = 5, 600, 60
	minute := func() {
		for i := range items {
			h.write(1, fmt.Sprint(i), "", 0)
		}
		must(h.t, h.db.keepMarks())
		h.clock.pass(time.Minute)
	}
	minute()
	var most int64
	told, failed := 0, error(nil)
	for _, err := range h.c.Changes(ctx, AllPartitions(), FromStart(), &ChangeOptions{AllVersions: true, Follow: true}) {
		if err != nil {
			failed = err
			break
		}
		if told++; told > 1 {
			continue
		}
		for n := range minutes {
			if minute(); n%20 != 19 {
				continue
			}
			must(h.t, h.db.Compact(ctx))
			held := int64(0)
			for _, p := range h.db.partitions() {
				for _, r := range p.Version.Load().Runs {
					held += r.Items()
				}
			}
			most = max(most, held)
		}
		if feeds := h.db.Stats().Feeds; len(feeds) != 1 || feeds[0].Behind < items*minutes || feeds[0].Lag < minutes*time.Minute {
			t.Errorf("the reader that is slow: %+v", feeds)
		}
	}
	if !errors.Is(failed, ErrPositionExpired) || told > items {
		t.Errorf("%d changes, and then %v", told, failed)
	}
	// A merge drops what is too old when it is half of what there is; what was
	// written since comes on top.
	if most < items*kept || most > items*(2*kept+20) {
		t.Errorf("up to %d versions in files, %d are to be kept", most, items*kept)
	}
}
