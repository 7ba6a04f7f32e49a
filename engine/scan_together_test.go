package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestScanTogether compares scans of many small documents, which files give together, with a model:
// of one key, of all and of a snapshot, over files that were compacted in part, clipped by splits or
// overwritten by neighbours, while items expire, and while loops write, compact and split.
func TestScanTogether(t *testing.T) {
	rng := randtest.New(t)
	for name, def := range map[string]ContainerDef{
		"plain":   {},
		"levels":  {PartitionKey: []string{"/k", "/l"}, Compression: SmallCompression},
		"opaque":  {Kind: Opaque},
		"fixed":   {DefaultTTL: 20 * time.Second},
		"mutable": {MutableTTL: true, DefaultTTL: 20 * time.Second, Compression: NoCompression},
		"unique":  {UniqueKeys: [][]string{{"/id"}}, HashVersion: 1, Compression: NoCompression},
	} {
		if def.PartitionKey == nil && def.Kind != Opaque {
			def.PartitionKey = []string{"/k"}
		}
		rng := rand.New(rand.NewPCG(rng.Uint64(), 2))
		t.Run(name, func(t *testing.T) {
			m := newTogether(t, rng, def)
			for range amount(120, 40, 40) {
				m.step()
				m.scan()
			}
			checkVerified(t, m.db)
		})
	}
}

type together struct {
	*testing.T
	rng       *rand.Rand
	clock     *testClock
	opts      *Options
	db        *DB
	c         *Container
	items     togetherItems
	snapshots []togetherSnapshot
}

type togetherItems map[PartitionKey]map[string]togetherItem

type togetherItem struct {
	body string
	own  time.Duration // time to live; 0: the default, NoExpiry: for ever
	meta Meta
}

type togetherSnapshot struct {
	*Snapshot
	items togetherItems
}

func newTogether(t *testing.T, rng *rand.Rand, def ContainerDef) *together {
	m := &together{T: t, rng: rng, opts: testOptions(vfs.NewMem()), items: make(togetherItems)}
	m.clock = newTestClock(m.opts)
	m.opts.FileBytes, m.opts.ExpiryGrace = 4<<10+rng.Int64N(32<<10), 1000*time.Hour
	if rng.IntN(2) == 0 {
		m.opts.ReadMode = ReadPositioned
	}
	if rng.IntN(2) == 0 {
		m.opts.MaxOpenFiles, m.opts.MaxMappedFiles = 1+rng.IntN(4), 1+rng.IntN(6)
	}
	m.db, m.c = openStore(t, m.opts, def)
	return m
}

// clone copies the maps.
func (s togetherItems) clone() togetherItems {
	s = maps.Clone(s)
	for key := range s {
		s[key] = maps.Clone(s[key])
	}
	return s
}

// key draws a partition key, with its members: often one of two that have many documents.
func (m *together) key() (key PartitionKey, members string, ids int) {
	n, ids := m.rng.IntN(2), 600
	if m.rng.IntN(4) == 0 {
		n, ids = m.rng.IntN(20), 8
	}
	k := fmt.Sprint("k", n%7)
	if len(m.c.def.PartitionKey) == 2 {
		return JoinKeys(StringKey(k), NumberKey(float64(n))), fmt.Sprintf(`"k":%q,"l":%d`, k, n), ids
	}
	return StringKey(k).OfVersion(2 - m.c.def.HashVersion%2), fmt.Sprintf(`"k":%q`, k), ids
}

func (m *together) step() {
	ctx := m.Context()
	switch p := m.rng.IntN(100); {
	case p < 45:
		m.write()
	case p < 70:
		must(m, m.db.Flush(ctx))
	case p < 80:
		m.compact(m.write)
	case p < 82:
		must(m, m.db.Compact(ctx))
	case p < 86:
		m.reshape()
	case p < 87:
		key, _, _ := m.key()
		must(m, m.c.DeleteLogicalPartition(ctx, key, nil))
		delete(m.items, key)
	case p < 92:
		m.clock.pass(time.Duration(m.rng.Int64N(int64(8 * time.Second))))
	case p < 94 && m.c.def.MutableTTL:
		must(m, m.c.SetDefaultTTL(ctx, []time.Duration{0, NoExpiry, 5 * time.Second, time.Minute}[m.rng.IntN(4)]))
	case p < 97:
		s, err := m.c.Snapshot(ctx)
		must(m, err)
		m.snapshots = append(m.snapshots, togetherSnapshot{s, m.items.clone()})
	case len(m.snapshots) > 0:
		must(m, m.snapshots[0].Close())
		m.snapshots = m.snapshots[1:]
	}
}

// write writes or deletes documents that lie side by side, or a few anywhere.
func (m *together) write() {
	key, members, ids := m.key()
	from, count, by := m.rng.IntN(ids), 1+m.rng.IntN(ids/2), 1
	if m.rng.IntN(3) == 0 {
		from, count, by = 0, 1+m.rng.IntN(4), 1+m.rng.IntN(ids)
	}
	def := m.c.Def()
	long := 200
	if m.rng.IntN(4) == 0 {
		long = 3000 // alone in its group
	}
	erase, aging, lasting := m.rng.IntN(8) == 0, m.rng.IntN(6) == 0, def.DefaultTTL != 0 && m.rng.IntN(2) == 0
	for i := range count {
		id := fmt.Sprintf("%03d", (from+i*by)%ids)
		if erase {
			// What has expired is not deleted: another default may show it again.
			switch err := m.c.Delete(m.Context(), key, id, nil); {
			case err == nil:
				delete(m.items[key], id)
			case !errors.Is(err, ErrNotFound):
				m.Fatal(err)
			}
			continue
		}
		it, o := togetherItem{}, &WriteOptions{}
		switch {
		case aging && def.DefaultTTL != 0 && m.rng.IntN(9) == 0:
			it.own = 5 * time.Second
		case lasting:
			it.own = NoExpiry
		}
		o.TTL = it.own
		it.body = fmt.Sprintf(`{"id":%q,%s,"x":"%s"}`, id, members, strings.Repeat("x", m.rng.IntN(long)))
		var err error
		if m.c.def.Kind == Opaque {
			it.body = it.body[:m.rng.IntN(len(it.body))]
			it.meta, err = m.c.Put(m.Context(), key, id, []byte(it.body), o)
		} else {
			it.meta, err = m.c.Upsert(m.Context(), []byte(it.body), o)
		}
		must(m, err)
		if m.items[key] == nil {
			m.items[key] = make(map[string]togetherItem)
		}
		m.items[key][id] = it
	}
}

// compact compacts in a partition. write may be called meanwhile.
func (m *together) compact(write func()) {
	parts := m.db.partitions()
	p := parts[m.rng.IntN(len(parts))]
	must(m, second(p.CompactBy(m.Context(), p.somePicker(m.rng, write))))
}

func (m *together) reshape() {
	parts := m.c.Partitions()
	i := m.rng.IntN(len(parts))
	at := ""
	if m.rng.IntN(2) == 0 {
		// At the EPK of a key or of its first level, or a little beside it.
		key, _, _ := m.key()
		epk := key.EPK()
		b := slices.Clone(epk.Bytes())
		b = b[:16*(1+m.rng.IntN(len(b)/16))]
		b[len(b)-1-m.rng.IntN(16)] += byte(m.rng.IntN(3) - 1)
		at = fmt.Sprintf("%X", b)
		i = 0
		for i < len(parts)-1 && parts[i].Max <= at {
			i++
		}
	}
	job := m.c.newJob(ReshapeSplit, at, parts[i].ID)
	if len(parts) > 4 {
		i = min(i, len(parts)-2)
		job = m.c.newJob(ReshapeMerge, "", parts[i].ID, parts[i+1].ID)
	}
	m.db.submit(job)
	if err := job.Wait(m.Context()); err != nil && !errors.Is(err, ErrRefused) {
		m.Fatal(err)
	}
}

// expires returns when an item expires, zero: never.
func (m *together) expires(it togetherItem) time.Time {
	def := m.c.Def()
	if !def.MutableTTL {
		return it.meta.Expires
	}
	switch ttl := cmp.Or(it.own, def.DefaultTTL); {
	case def.DefaultTTL == 0 || ttl < 0:
		return time.Time{}
	default:
		return it.meta.Modified.Add(ttl)
	}
}

// scan compares a scan of the container or of a snapshot with the model.
func (m *together) scan() {
	items, one, all, seen, single := m.items, m.c.Scan, m.c.ScanAll, false, false
	if len(m.snapshots) > 0 && m.rng.IntN(3) == 0 {
		s := m.snapshots[m.rng.IntN(len(m.snapshots))]
		items, one, all, seen = s.items, s.Scan, s.ScanAll, true
	}
	var charge, sum float64
	o := &ScanOptions{Reverse: m.rng.IntN(6) == 0, Borrow: m.rng.IntN(2) == 0, InPlace: m.rng.IntN(3) == 0, Charge: &charge}
	if m.rng.IntN(2) == 0 {
		o.Limit = 1 + m.rng.IntN(400)
	}
	key, _, _ := m.key()
	var r IDRange
	keys := []PartitionKey{key}
	var loop iter.Seq2[Item, error]
	if m.rng.IntN(4) == 0 {
		keys = slices.SortedFunc(maps.Keys(items), func(a, b PartitionKey) int {
			ea, eb := a.EPK(), b.EPK()
			return ea.Compare(&eb)
		})
		loop = all(m.Context(), o)
	} else {
		for _, bound := range []*string{&r.From, &r.After, &r.To, &r.Before} {
			if m.rng.IntN(4) == 0 {
				*bound = fmt.Sprintf("%03d", m.rng.IntN(600))
			}
		}
		if m.rng.IntN(6) == 0 {
			r.Prefix = fmt.Sprint(m.rng.IntN(6))
		}
		loop, seen, single = one(m.Context(), key, r, o), true, true
	}
	if o.Reverse {
		slices.Reverse(keys)
	}
	var want []Item
	for _, key := range keys {
		ids := slices.Sorted(maps.Keys(items[key]))
		if o.Reverse {
			slices.Reverse(ids)
		}
		for _, id := range ids {
			it := items[key][id]
			if e := m.expires(it); inRange(r, id) && (e.IsZero() || e.After(m.opts.clock())) {
				it.meta.Expires = e
				w := Item{Meta: it.meta, Body: []byte(it.body)}
				w.Key, w.ID = key, id
				want = append(want, w)
			}
		}
	}
	if o.Limit > 0 {
		want = want[:min(len(want), o.Limit)]
	}
	var kept []Item
	for it, err := range loop {
		must(m, err)
		i := len(kept)
		if i == len(want) {
			m.Fatalf("%s of %s is one too many, %+v, %+v", it.ID, it.Key, r, o)
		}
		m.same(it, want[i])
		sum += it.Charge
		if o.Borrow || o.InPlace {
			it = want[i]
		}
		kept = append(kept, it)
		switch n := m.rng.IntN(400); {
		case n == 0 && seen:
			m.write()
		case n == 1:
			must(m, m.db.Flush(context.Background()))
		case n == 2 && seen:
			m.compact(m.write)
		case n == 2:
			m.compact(func() {})
		case n == 3 && m.rng.IntN(4) == 0:
			m.reshape()
		}
	}
	if len(kept) != len(want) {
		m.Fatalf("%d items, want %d: %+v, %+v", len(kept), len(want), r, o)
	}
	for i := range kept {
		m.same(kept[i], want[i])
	}
	if len(want) > 0 && single && math.Abs(charge-sum) > 1e-6 {
		m.Fatalf("%d items were charged %v, the scan %v: %+v, %+v", len(want), sum, charge, r, o)
	}
}

func (m *together) same(got, want Item) {
	m.Helper()
	if got.Key != want.Key || got.ID != want.ID || string(got.Body) != string(want.Body) || got.ETag != want.ETag ||
		!got.Modified.Equal(want.Modified) || !got.Expires.Equal(want.Expires) {
		m.Fatalf("%s %s is %q, %+v, want %s %s, %q, %+v", got.Key, got.ID, got.Body, got.Meta, want.Key, want.ID, want.Body, want.Meta)
	}
}
