package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

func (m *model) read() {
	name, c := m.readable()
	key, _ := m.key(name)
	id := fmt.Sprintf("i%d", m.rng.IntN(45))
	want, exists := m.items[name][itemID{name, key, id}]
	got, err := c.ReadInto(context.Background(), key, id, make([]byte, m.rng.IntN(10), 1000)[:0])
	m.compare("read", got, err, want, exists)
}

func (m *model) compare(what string, got Item, err error, want write, exists bool) {
	m.t.Helper()
	if !exists {
		if !errors.Is(err, ErrNotFound) {
			m.t.Fatalf("%s: %v, want ErrNotFound", what, err)
		}
		return
	}
	if err != nil {
		m.t.Fatalf("%s %s/%s: %v", what, want.key, want.id, err)
	}
	if string(got.Body) != want.body || got.ETag != want.etag || got.ID != want.id || got.Key != want.key {
		m.t.Fatalf("%s %s/%s: got %s/%s %.60q etag %v, want %.60q etag %v", what, want.key, want.id, got.Key, got.ID, got.Body, got.ETag, want.body, want.etag)
	}
}

// sorted returns what a scan of a logical partition must give.
func (s state) sorted(key PartitionKey, ids IDRange, o ScanOptions) []write {
	var all []write
	for id, w := range s {
		if id.key == key && inRange(ids, id.id) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b write) int {
		c := strings.Compare(a.id, b.id)
		if o.Reverse {
			c = -c
		}
		return c
	})
	if o.Limit > 0 && len(all) > o.Limit {
		all = all[:o.Limit]
	}
	return all
}

// inRange says what IDRange means, word by word.
func inRange(r IDRange, id string) bool {
	return (r.From == "" || id >= r.From) && (r.After == "" || id > r.After) && (r.To == "" || id <= r.To) &&
		(r.Before == "" || id < r.Before) && strings.HasPrefix(id, r.Prefix)
}

// drawRange returns a range of the ids i0 to i44, every third time that of all.
func drawRange(rng *rand.Rand) (r IDRange) {
	if rng.IntN(3) == 0 {
		return r
	}
	for _, bound := range []*string{&r.From, &r.After, &r.To, &r.Before} {
		if rng.IntN(3) == 0 {
			*bound = fmt.Sprintf("i%d", rng.IntN(45))
		}
	}
	if rng.IntN(4) == 0 {
		r.Prefix = []string{"i", "i1", "i2", "i44", "j", "i0"}[rng.IntN(6)]
	}
	return r
}

func (m *model) scan() {
	name, c := m.readable()
	if m.rng.IntN(20) == 0 {
		m.scanAll(name, c)
		return
	}
	m.scanWith(name, m.items[name], c.Scan)
}

type scanFunc func(ctx context.Context, pk PartitionKey, ids IDRange, o *ScanOptions) iter.Seq2[Item, error]

func (m *model) scanWith(name string, items state, scan scanFunc) {
	key, _ := m.key(name)
	ids := drawRange(m.rng)
	o := ScanOptions{Limit: m.rng.IntN(20), Reverse: m.rng.IntN(2) == 0}
	want := items.sorted(key, ids, o)
	n := 0
	for it, err := range scan(context.Background(), key, ids, &o) {
		must(m.t, err)
		if n == len(want) {
			m.t.Fatalf("scan %s of %+v %+v: more than %d items: %s", key, ids, o, n, it.ID)
		}
		m.compare("scan", it, nil, want[n], true)
		n++
	}
	if n != len(want) {
		m.t.Fatalf("scan %s of %+v %+v: %d items, want %d", key, ids, o, n, len(want))
	}
}

// scanAll scans a container, in which partitions may be replaced meanwhile.
func (m *model) scanAll(name string, c *Container) {
	o := &ScanOptions{Reverse: m.rng.IntN(2) == 0}
	n := 0
	var last PartitionKey
	for it, err := range c.ScanAll(context.Background(), o) {
		must(m.t, err)
		w, ok := m.items[name][itemID{name, it.Key, it.ID}]
		m.compare("scan of all", it, nil, w, ok)
		n++
		if it.Key != last && m.rng.IntN(8) == 0 && !c.def.Replicated {
			m.reshapeOf(c)
		}
		last = it.Key
	}
	if n != len(m.items[name]) {
		m.t.Fatalf("container %s, reverse %v: %d items, want %d", name, o.Reverse, n, len(m.items[name]))
	}
}

func (m *model) takeSnapshot() {
	name, c := m.readable()
	s, err := c.Snapshot(context.Background())
	must(m.t, err)
	items := make(state)
	for id, w := range m.items[name] {
		items[id] = w
	}
	hidden := make(state)
	if name == "mortal" {
		maps.Copy(hidden, m.hidden)
	}
	m.snapshots = append(m.snapshots, modelSnapshot{s, items, hidden})
	// Taking it made everything before it durable or at least written.
}

func (m *model) readSnapshot() {
	if len(m.snapshots) == 0 {
		return
	}
	s := m.snapshots[m.rng.IntN(len(m.snapshots))]
	name := s.c.name
	key, _ := m.key(name)
	id := fmt.Sprintf("i%d", m.rng.IntN(45))
	want, exists := s.items[itemID{name, key, id}]
	got, err := s.Read(context.Background(), key, id)
	m.compare("snapshot read", got, err, want, exists)
	m.scanWith(name, s.items, s.Scan)
}

func (m *model) dropSnapshot() {
	if len(m.snapshots) > 0 {
		m.dropSnapshotAt(m.rng.IntN(len(m.snapshots)))
	}
}

func (m *model) dropSnapshotAt(i int) {
	must(m.t, m.snapshots[i].Close())
	m.snapshots = slices.Delete(m.snapshots, i, i+1)
}

func (m *model) compareAll() {
	told := m.toldTo()
	m.told.follower.take(told, AllPartitions(), -1)
	m.told.follower.check(told, m.told.follower.gone(told))
	for name := range modelContainers {
		c, err := m.db.Container(name)
		must(m.t, err)
		m.scanAll(name, c)
	}
	checkVerified(m.t, m.db)
}
