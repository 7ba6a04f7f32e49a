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

// mergeOfTwo is a container of two physical partitions with a document in each, which are merged.
type mergeOfTwo struct {
	db           *DB
	c            *Container
	gate         *gateFS
	hook         *renameHook
	lower, upper *partition
	low, high    string          // partition keys of the documents
	late         physical.Record // of writeLate
	merged       <-chan error
}

func newMergeOfTwo(t *testing.T, throughput float64, clock func() time.Time) *mergeOfTwo {
	t.Helper()
	m := &mergeOfTwo{gate: newGate(vfs.NewMem())}
	m.hook = &renameHook{FS: m.gate}
	opts := testOptions(nil)
	opts.fs, opts.clock = m.hook, clock
	m.db, m.c = openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Throughput: throughput})
	m.lower, m.upper = m.c.routing.Load().parts[0], m.c.routing.Load().parts[1]
	for i := 'a'; m.low == "" || m.high == ""; i++ {
		if key := string(i); partitionOf(m.c, StringKey(key)) == m.lower.ID {
			m.low = key
		} else {
			m.high = key
		}
	}
	must(t, second(m.c.Upsert(t.Context(), smallDocument("a", m.low, 10), nil)))
	must(t, second(m.c.Upsert(t.Context(), smallDocument("a", m.high, 10), nil)))
	return m
}

// begin begins the merge. It waits then until all is durable that the two have.
func (m *mergeOfTwo) begin(t *testing.T) {
	t.Helper()
	renames := 0
	m.hook.before = func() {
		if renames++; renames == 2 { // the intent is the first, the commit the second
			must(t, second(m.c.Upsert(t.Context(), smallDocument("b", m.high, 10), &WriteOptions{Durability: Buffered})))
			m.gate.syncs.Store(true)
		}
	}
	m.merged = background(func() error {
		job, err := m.c.Merge(t.Context(), m.lower.ID, m.upper.ID)
		must(t, err)
		return job.Wait(t.Context())
	})
	synctest.Wait()
}

// writeLate writes the documents again when the merge has the commit locks. The write of the lower one is
// durable, that of the upper one waits for its sync.
func (m *mergeOfTwo) writeLate(t *testing.T) {
	t.Helper()
	m.gate.syncs.Store(false)
	m.late = m.lower.writeLocked(t, m.low, smallDocument("a", m.low, 20))
	must(t, <-background(func() error { return m.db.log.Wait(m.late.Pos, true) })) // no goroutine syncs under a commit lock
	m.gate.syncs.Store(true)
	m.upper.writeLocked(t, m.high, smallDocument("a", m.high, 20))
}

// read returns the sequence of the lower document.
func (m *mergeOfTwo) read(t *testing.T) uint64 {
	it, err := m.c.Read(t.Context(), StringKey(m.low), "a")
	if err != nil {
		t.Error(err)
	}
	return it.Seq
}

// TestReadBesideMerge: a read has found its partition when that is merged with another one. A write is durable, and the
// partition that takes their place does not show it yet, since a write of the other one waits for its sync. If the read
// shows the write, the next read shows it too.
func TestReadBesideMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next atomic.Pointer[func()] // what the next goroutine does that reads the clock
		var seconds atomic.Int64        // each call finds that time has passed: none is throttled
		m := newMergeOfTwo(t, 1000, func() time.Time {
			if fn := next.Swap(nil); fn != nil {
				(*fn)()
			}
			return time.Unix(1_700_000_000+seconds.Add(1), 0)
		})
		before := m.read(t)

		routed, swapped := make(chan struct{}), make(chan struct{})
		atRoute := func() { <-routed }
		next.Store(&atRoute)
		var first uint64
		read := background(func() error { first = m.read(t); return nil })
		synctest.Wait()

		m.begin(t)
		var atSwap func()
		atSwap = func() {
			if next.Store(&atSwap); m.lower.Dropped.Load() {
				next.Store(nil)
				<-swapped
			}
		}
		atStart := func() {
			m.writeLate(t)
			next.Store(&atSwap)
		}
		next.Store(&atStart)
		m.gate.open <- struct{}{}
		synctest.Wait()
		if v := m.lower.Version.Load(); !m.lower.Dropped.Load() || len(v.Frozen) == 0 || v.Frozen[0].MaxSeq() != m.late.Seq {
			t.Fatal("the merge has not come to its swap")
		}
		shown := background(func() error { return m.lower.Show(m.late) })
		synctest.Wait()
		close(routed)
		must(t, <-read)
		if then := m.read(t); then < first || first < before {
			t.Errorf("a read shows sequence %d, the next one %d, the one before %d", first, then, before)
		}
		close(swapped)
		m.gate.release()
		must(t, <-shown)
		must(t, <-m.merged)
		if seq := m.read(t); seq != m.late.Seq {
			t.Errorf("at the end: %d, want %d", seq, m.late.Seq)
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
				var onClock atomic.Pointer[func()] // what goroutines do that read the clock
				m := newMergeOfTwo(t, 0, func() time.Time {
					if fn := onClock.Load(); fn != nil {
						(*fn)()
					}
					return time.Unix(1_700_000_000, 0)
				})
				m.begin(t)

				var shown, ended <-chan error
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
					if !m.lower.Replaced() {
						return
					}
					onClock.Store(nil)
					shown = background(func() error { return m.lower.Show(m.late) })
					for m.lower.Visible.Load() < m.late.Seq {
						runtime.Gosched()
					}
					onClock.Store(&atRound)
					ended = background(func() error {
						return read(t, m.c, StringKey(m.low), func() {
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
				atStart := func() {
					onClock.Store(&atSwap)
					m.writeLate(t)
				}
				onClock.Store(&atStart)
				m.gate.open <- struct{}{}
				synctest.Wait()
				if shown == nil {
					t.Fatal("the merge has not come to its swap")
				}
				close(swapped)
				if first, then := <-saw, m.read(t); then < first {
					t.Errorf("it shows sequence %d, the read after it %d", first, then)
				}
				m.gate.release()
				must(t, <-shown)
				must(t, <-m.merged)
				close(published)
				must(t, <-ended)
				if seq := m.read(t); seq != m.late.Seq {
					t.Errorf("at the end: %d, want %d", seq, m.late.Seq)
				}
			})
		})
	}
}
