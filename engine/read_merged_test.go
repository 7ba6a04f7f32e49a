package engine

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// writeLocked does what a writer does under the commit lock, which is held.
func (p *partition) writeLocked(t *testing.T, key string, body []byte) physical.Record {
	t.Helper()
	k, v := itemKey(StringKey(key), "a"), item.Version{Modified: 1, Body: body}
	seq, pos, err := p.db.log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, logrecord.AppendHead(nil, &k, &v), v.Body)
	must(t, err)
	v.Seq = seq
	active := p.Version.Load().Active
	must(t, active.Put(&k, &v, true))
	return p.NoteLocked(active, seq, pos, true)
}

// TestReadBesideMerge: a read has found its partition when that is merged with another one. A write is durable, and the
// partition that takes their place does not show it yet, since a write of the other one waits for its sync. If the read
// shows the write, the next read shows it too.
func TestReadBesideMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var next atomic.Pointer[func()] // what the next goroutine does that reads the clock
		var seconds atomic.Int64        // each call finds that time has passed: none is throttled
		opts, gate := testOptions(nil), newGate(vfs.NewMem())
		hook := &renameHook{FS: gate}
		opts.fs = hook
		opts.clock = func() time.Time {
			if fn := next.Swap(nil); fn != nil {
				(*fn)()
			}
			return time.Unix(1_700_000_000+seconds.Add(1), 0)
		}
		db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Throughput: 1000})
		lower, upper := c.routing.Load().parts[0], c.routing.Load().parts[1]
		low, high := "", ""
		for i := 'a'; low == "" || high == ""; i++ {
			if key := string(i); partitionOf(c, StringKey(key)) == lower.ID {
				low = key
			} else {
				high = key
			}
		}
		must(t, second(c.Upsert(ctx, smallDocument("a", low, 10), nil)))
		must(t, second(c.Upsert(ctx, smallDocument("a", high, 10), nil)))
		before, err := c.Read(ctx, StringKey(low), "a")
		must(t, err)
		readSeq := func() uint64 {
			it, err := c.Read(ctx, StringKey(low), "a")
			if err != nil {
				t.Error(err)
			}
			return it.Seq
		}

		routed, swapped := make(chan struct{}), make(chan struct{})
		atRoute := func() { <-routed }
		next.Store(&atRoute)
		var first uint64
		read := background(func() error { first = readSeq(); return nil })
		synctest.Wait()

		renames := 0
		hook.before = func() {
			if renames++; renames == 2 { // the intent is the first, the commit the second
				must(t, second(c.Upsert(ctx, smallDocument("b", high, 10), &WriteOptions{Durability: Buffered})))
				gate.syncs.Store(true)
			}
		}
		merged := background(func() error {
			job, err := c.Merge(ctx, lower.ID, upper.ID)
			must(t, err)
			return job.Wait(ctx)
		})
		synctest.Wait() // the merge waits until all is durable that the two have
		var atSwap func()
		atSwap = func() {
			if next.Store(&atSwap); lower.Dropped.Load() {
				next.Store(nil)
				<-swapped
			}
		}
		var late physical.Record
		atStart := func() { // the merge has the commit locks
			gate.syncs.Store(false)
			late = lower.writeLocked(t, low, smallDocument("a", low, 20))
			must(t, <-background(func() error { return db.log.Wait(late.Pos, true) })) // no goroutine syncs under a commit lock
			gate.syncs.Store(true)
			upper.writeLocked(t, high, smallDocument("a", high, 20))
			next.Store(&atSwap)
		}
		next.Store(&atStart)
		gate.open <- struct{}{}
		synctest.Wait()
		if v := lower.Version.Load(); !lower.Dropped.Load() || len(v.Frozen) == 0 || v.Frozen[0].MaxSeq() != late.Seq {
			t.Fatal("the merge has not come to its swap")
		}
		shown := background(func() error { return lower.Show(late) })
		synctest.Wait()
		close(routed)
		must(t, <-read)
		if then := readSeq(); then < first || first < before.Seq {
			t.Errorf("a read shows sequence %d, the next one %d, the one before %d", first, then, before.Seq)
		}
		close(swapped)
		gate.release()
		must(t, <-shown)
		must(t, <-merged)
		if seq := readSeq(); seq != late.Seq {
			t.Errorf("at the end: %d, want %d", seq, late.Seq)
		}
	})
}

// TestPinBesideMerge: the partitions of a merge have handed over what they show, and are not dropped yet. Then one of them shows
// a write that is durable, and the partition that takes their place does not. What a scan reads that begins now, the next read
// shows too, and a transaction reads the same again.
func TestPinBesideMerge(t *testing.T) {
	for name, read := range map[string]func(t *testing.T, c *Container, key PartitionKey, begun func(), saw func(seq uint64)) error{
		"transaction": func(t *testing.T, c *Container, key PartitionKey, begun func(), saw func(uint64)) error {
			return c.View(t.Context(), key, func(tx *Tx) error {
				begun()
				it, err := tx.Read("a")
				if err != nil {
					return err
				}
				saw(it.Seq)
				again, err := tx.Read("a")
				if again.Seq != it.Seq {
					t.Errorf("a transaction reads sequence %d, and then %d", it.Seq, again.Seq)
				}
				return err
			})
		},
		"scan": func(t *testing.T, c *Container, key PartitionKey, begun func(), saw func(uint64)) error {
			for it, err := range c.Scan(t.Context(), key, IDRange{}, nil) {
				if err != nil {
					return err
				}
				begun()
				saw(it.Seq)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				var onClock atomic.Pointer[func()]
				opts, gate := testOptions(nil), newGate(vfs.NewMem())
				hook := &renameHook{FS: gate}
				opts.fs = hook
				opts.clock = func() time.Time {
					if fn := onClock.Load(); fn != nil {
						(*fn)()
					}
					return time.Unix(1_700_000_000, 0)
				}
				db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
				lower, upper := c.routing.Load().parts[0], c.routing.Load().parts[1]
				low, high := "", ""
				for i := 'a'; low == "" || high == ""; i++ {
					if key := string(i); partitionOf(c, StringKey(key)) == lower.ID {
						low = key
					} else {
						high = key
					}
				}
				must(t, second(c.Upsert(ctx, smallDocument("a", low, 10), nil)))
				must(t, second(c.Upsert(ctx, smallDocument("a", high, 10), nil)))
				renames := 0
				hook.before = func() {
					if renames++; renames == 2 { // the intent is the first, the commit the second
						must(t, second(c.Upsert(ctx, smallDocument("b", high, 10), &WriteOptions{Durability: Buffered})))
						gate.syncs.Store(true)
					}
				}
				merged := background(func() error {
					job, err := c.Merge(ctx, lower.ID, upper.ID)
					must(t, err)
					return job.Wait(ctx)
				})
				synctest.Wait() // the merge waits until all is durable that the two have

				var shown, ended <-chan error
				var late physical.Record
				const rounds = 100
				round, began, swapped := make(chan struct{}), make(chan struct{}), make(chan struct{})
				saw, published := make(chan uint64), make(chan struct{})
				atRound := func() {
					select {
					case round <- struct{}{}:
					default: // the swap goes on
					}
				}
				atSwap := func() {
					if !lower.Replaced() {
						return
					}
					onClock.Store(nil)
					shown = background(func() error { return lower.Show(late) })
					for lower.Visible.Load() < late.Seq {
						runtime.Gosched()
					}
					onClock.Store(&atRound)
					ended = background(func() error {
						return read(t, c, StringKey(low), func() {
							close(began)
							<-swapped
						}, func(seq uint64) {
							saw <- seq
							<-published
						})
					})
					for again := 0; again < rounds; again++ { // it looks for its partition again and again, unless it has begun
						select {
						case <-round:
						case <-began:
							again = rounds
						}
					}
					onClock.Store(nil)
				}
				atStart := func() { // the merge has the commit locks
					onClock.Store(&atSwap)
					gate.syncs.Store(false)
					late = lower.writeLocked(t, low, smallDocument("a", low, 20))
					must(t, <-background(func() error { return db.log.Wait(late.Pos, true) })) // no goroutine syncs under a commit lock
					gate.syncs.Store(true)
					upper.writeLocked(t, high, smallDocument("a", high, 20))
				}
				onClock.Store(&atStart)
				gate.open <- struct{}{}
				synctest.Wait()
				if shown == nil {
					t.Fatal("the merge has not come to its swap")
				}
				close(swapped)
				first := <-saw
				it, err := c.Read(ctx, StringKey(low), "a")
				must(t, err)
				if it.Seq < first {
					t.Errorf("it shows sequence %d, the read after it %d", first, it.Seq)
				}
				gate.release()
				must(t, <-shown)
				must(t, <-merged)
				close(published)
				must(t, <-ended)
				it, err = c.Read(ctx, StringKey(low), "a")
				if must(t, err); it.Seq != late.Seq {
					t.Errorf("at the end: %d, want %d", it.Seq, late.Seq)
				}
			})
		})
	}
}
