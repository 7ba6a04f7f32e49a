package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/partmap"
)

// toldContainer is the replicated container of the model. It is told what a log
// outside of the store has, which the model keeps: whatever a crash takes, or an
// installation takes back, it is told again, with the same outcome.
const toldContainer = "told"

type toldLog struct {
	entries  []*toldEntry           // of all partitions, those of each in order
	durable  map[PartitionID]uint64 // index at which a power cut leaves it at least
	image    []byte                 // a partition as it was once; nil: none
	of       partmap.Range          // which the image is of
	follower *copyOf                // what a feed has shown
}

// toldEntry is an entry of a partition, which may have been split since.
type toldEntry struct {
	rng     partmap.Range
	index   uint64
	time    time.Time
	batches []toldBatch
	outcome string // of the first time
}

type toldBatch struct {
	key PartitionKey
	ops []toldOp
}

type toldOp struct {
	verb     verb
	id, body string
}

// readable draws a container for reading.
func (m *model) readable() (string, *Container) {
	if m.rng.IntN(8) > 0 {
		return m.container()
	}
	return toldContainer, m.toldTo()
}

func (m *model) toldTo() *Container {
	c, err := m.db.Container(toldContainer)
	must(m.t, err)
	return c
}

// lineage returns the entries of a partition with a range, those of the ones that
// it comes from included.
func (l *toldLog) lineage(rng partmap.Range) (list []*toldEntry) {
	for _, e := range l.entries {
		if e.rng.Min.Compare(&rng.Min) <= 0 && rng.Max.Compare(&e.rng.Max) <= 0 {
			list = append(list, e)
		}
	}
	return list
}

// newest returns the index that a partition has come to.
func (l *toldLog) newest(rng partmap.Range) (index uint64) {
	for _, e := range l.lineage(rng) {
		index = e.index
	}
	return index
}

// at returns what a partition has after its entry with an index.
func (l *toldLog) at(rng partmap.Range, index uint64) state {
	s, seq := make(state), uint64(0)
	for _, e := range l.lineage(rng) {
		if e.index <= index {
			seq = e.carryOut(s, seq)
		}
	}
	for id := range s {
		if epk := id.key.EPK(); !rng.Contains(&epk) {
			delete(s, id)
		}
	}
	return s
}

// carryOut does to s what the entry does, of which the newest sequence was seq,
// and returns the newest one.
func (e *toldEntry) carryOut(s state, seq uint64) uint64 {
	seq++ // of the mark
	for _, b := range e.batches {
		made, at, refused := make(map[string]write), seq, false
		for _, op := range b.ops {
			id := itemID{toldContainer, b.key, op.id}
			w, known := made[op.id]
			if !known {
				w = s[id]
			}
			exists := w.body != ""
			refused = refused || op.verb == verbCreate && exists || (op.verb == verbReplace || op.verb == verbDelete) && !exists
			at++
			made[op.id] = write{container: toldContainer, key: b.key, id: op.id, body: op.body, etag: ETag(at)}
		}
		if refused {
			continue
		}
		seq = at
		for name, w := range made {
			if id := (itemID{toldContainer, b.key, name}); w.body == "" {
				delete(s, id)
			} else {
				s[id] = w
			}
		}
	}
	return seq
}

// tell does something with the replicated container.
func (m *model) tell() {
	c := m.toldTo()
	parts := c.routing.Load().parts
	p := parts[m.rng.IntN(len(parts))]
	switch n := m.rng.IntN(40); {
	case n == 0 && len(parts) < 6:
		m.splitTold(c, p)
	case n == 1:
		var b bytes.Buffer
		content, err := c.ExportPartition(context.Background(), p.ID, &b)
		must(m.t, err)
		if content.Index != m.told.newest(p.Range) {
			m.t.Fatalf("exported at entry %d, the partition is at %d", content.Index, m.told.newest(p.Range))
		}
		m.told.image, m.told.of = b.Bytes(), p.Range
	case n == 2:
		m.installTold(c)
	case n < 8:
		m.told.follower.take(c, AllPartitions(), 1+m.rng.IntN(20))
	default:
		m.tellNew(c, p)
	}
}

// tellNew makes an entry.
func (m *model) tellNew(c *Container, p *partition) {
	e := &toldEntry{rng: p.Range, index: m.told.newest(p.Range) + 1, time: m.opts.clock()}
	keys := make(map[PartitionKey]bool)
	for range m.rng.IntN(4) {
		key, members := m.key(toldContainer)
		if epk := key.EPK(); keys[key] || !p.Range.Contains(&epk) {
			continue
		}
		keys[key] = true
		b := toldBatch{key: key}
		for range 1 + m.rng.IntN(4) {
			op := toldOp{verb: []verb{verbCreate, verbReplace, verbUpsert, verbUpsert, verbUpsert, verbDelete}[m.rng.IntN(6)], id: fmt.Sprintf("i%d", m.rng.IntN(40))}
			if op.verb != verbDelete {
				op.body = fmt.Sprintf(`{"id":%q%s,"v":"%s"}`, op.id, members, randomText(m.rng, m.rng.IntN(300)))
			}
			b.ops = append(b.ops, op)
		}
		e.batches = append(e.batches, b)
	}
	m.told.entries = append(m.told.entries, e)
	durability := []Durability{Synced, Buffered}[m.rng.IntN(2)]
	e.outcome = describeApplied(m.tellOne(c, p, e, durability))
	if durability == Synced {
		m.told.durable[p.ID] = e.index
	}
	m.knowTold(c)
}

// tellOne applies an entry.
func (m *model) tellOne(c *Container, p *partition, e *toldEntry, d Durability) Applied {
	entry := Entry{Index: e.index, Time: e.time, Durability: d}
	for _, told := range e.batches {
		b := c.NewBatch(told.key)
		for _, op := range told.ops {
			var err error
			switch op.verb {
			case verbCreate:
				err = b.Create([]byte(op.body), nil)
			case verbReplace:
				err = b.Replace([]byte(op.body), nil)
			case verbDelete:
				err = b.Delete(op.id, nil)
			default:
				err = b.Upsert([]byte(op.body), nil)
			}
			must(m.t, err)
		}
		entry.Batches = append(entry.Batches, b)
	}
	got, err := c.ApplyAt(context.Background(), p.ID, entry)
	must(m.t, err)
	if got.Skipped {
		m.t.Fatalf("entry %d of partition %d is skipped", e.index, p.ID)
	}
	return got
}

// splitTold splits a partition, as one entry of its log, and notes that entry in
// both halves.
func (m *model) splitTold(c *Container, p *partition) {
	ctx := context.Background()
	at := partmap.Midpoint(p.Range)
	index := m.told.newest(p.Range)
	job, err := c.Split(ctx, p.ID, &SplitOptions{At: at.String()})
	must(m.t, err)
	must(m.t, job.Wait(ctx))
	for _, half := range c.routing.Load().parts {
		if half.Range.Min != at && half.Range.Max != at {
			continue
		}
		// A split is durable with all that its parent has applied.
		m.told.durable[half.ID] = index
		e := &toldEntry{rng: half.Range, index: index + 1, time: m.opts.clock()}
		m.told.entries = append(m.told.entries, e)
		m.tellOne(c, half, e, Buffered)
	}
}

// installTold takes a partition back to what it was when it was exported.
func (m *model) installTold(c *Container) {
	for _, p := range c.routing.Load().parts {
		if m.told.image == nil || p.Range != m.told.of {
			continue
		}
		for i := len(m.snapshots) - 1; i >= 0; i-- {
			if m.snapshots[i].c == c {
				m.dropSnapshotAt(i)
			}
		}
		content, err := c.InstallPartition(context.Background(), bytes.NewReader(m.told.image))
		must(m.t, err)
		m.told.durable[content.Partition] = content.Index
		m.tellAgain(c, c.partition(content.Partition))
	}
}

// recallTold looks at what a reopening has left.
func (m *model) recallTold(how string) {
	c := m.toldTo()
	for _, p := range c.routing.Load().parts {
		index, err := c.AppliedIndex(p.ID)
		must(m.t, err)
		newest, least := m.told.newest(p.Range), m.told.durable[p.ID]
		if how != "crash" {
			least = newest
		}
		if index < least || index > newest {
			m.t.Fatalf("after %s: partition %d is at entry %d, not between %d and %d", how, p.ID, index, least, newest)
		}
		m.told.durable[p.ID] = index
		m.tellAgain(c, p)
	}
	m.knowTold(c)
}

// tellAgain compares a partition with the entry that it is at, and brings it up to
// the newest one.
func (m *model) tellAgain(c *Container, p *partition) {
	index, err := c.AppliedIndex(p.ID)
	must(m.t, err)
	found, err := readPartition(m.db, p.ID)
	must(m.t, err)
	want := m.told.at(p.Range, index)
	for id, w := range want {
		if got := found[id]; got.body != w.body || got.etag != w.etag {
			m.t.Fatalf("partition %d at entry %d: %v is %.60q with etag %v, want %.60q with %v", p.ID, index, id, got.body, got.etag, w.body, w.etag)
		}
	}
	if len(found) != len(want) {
		m.t.Fatalf("partition %d at entry %d has %d items, want %d", p.ID, index, len(found), len(want))
	}
	for _, e := range m.told.lineage(p.Range) {
		if e.index <= index {
			got, err := c.ApplyAt(context.Background(), p.ID, Entry{Index: e.index, Time: e.time, Durability: Buffered})
			if err != nil || !got.Skipped {
				m.t.Fatalf("entry %d again: %+v, %v", e.index, got, err)
			}
			continue
		}
		if e.index > index+1 {
			if _, err := c.ApplyAt(context.Background(), p.ID, Entry{Index: e.index, Time: e.time}); !errors.Is(err, ErrIndexGap) {
				m.t.Fatalf("entry %d after %d: %v", e.index, index, err)
			}
		}
		if got := describeApplied(m.tellOne(c, p, e, Buffered)); got != e.outcome {
			m.t.Fatalf("entry %d told again: %s, at first %s", e.index, got, e.outcome)
		}
		index++
	}
}

// knowTold notes what is in the container now.
func (m *model) knowTold(c *Container) {
	all := make(state)
	for _, p := range c.routing.Load().parts {
		for id, w := range m.told.at(p.Range, m.told.newest(p.Range)) {
			all[id] = w
		}
	}
	m.items[toldContainer] = all
}
