package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestDefaultTTL runs random writes with and without a time to live of their own, changes of
// the default, flushes, compactions, passes of the expirer, splits, merges and reopens, while
// time passes, and compares what reads, scans, queries, counts and feeds show with a map.
func TestDefaultTTL(t *testing.T) {
	seed := newSeed(t)
	for name, def := range map[string]ContainerDef{
		"plain":    {},
		"indexed":  {Index: IndexAll()},
		"unique":   {UniqueKeys: [][]string{{"/u"}}},
		"versions": {Index: IndexAll(), UniqueKeys: [][]string{{"/u"}}, ChangeRetention: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range amount(8, 3, 2) {
				m := newTTLModel(t, rand.New(rand.NewPCG(seed, uint64(i))), def)
				for range amount(600, 400, 250) {
					m.step()
				}
				m.check()
				checkVerified(t, m.db)
				must(t, m.db.Close())
			}
		})
	}
}

// ttlModel is a container beside the map that it is compared with.
type ttlModel struct {
	*testing.T
	rng   *rand.Rand
	mem   *vfs.Mem
	opts  Options
	clock *testClock
	db    *DB
	c     *Container

	def      ContainerDef
	ttl      time.Duration // the default
	items    map[string]*ttlItem
	changed  time.Duration // by the steady clock; when the default last changed since the open
	changes  bool          // it has
	restored int           // items that were there again after a change
	lost     int           // items that were not, since they were removed
}

// ttlItem is the newest version of an item.
type ttlItem struct {
	k, id, u string
	body     string
	etag     ETag
	modified time.Time
	own      time.Duration // 0: none, NoExpiry: for ever
	doomed   bool          // it has expired, and may have been removed
}

func newTTLModel(t *testing.T, rng *rand.Rand, def ContainerDef) *ttlModel {
	m := &ttlModel{T: t, rng: rng, mem: vfs.NewMem(), items: make(map[string]*ttlItem), def: def}
	m.opts = *testOptions(m.mem)
	m.opts.memtableBytes = 8<<10 + rng.Int64N(32<<10)
	m.opts.FileBytes = 4<<10 + rng.Int64N(32<<10)
	m.clock = newTestClock(&m.opts)
	m.opts.ExpiryGrace = 10 * time.Second
	m.def.PartitionKey, m.def.MutableTTL, m.def.DefaultTTL = []string{"/k"}, true, m.draw()
	m.ttl = m.def.DefaultTTL
	m.open()
	_, err := m.db.CreateContainer(t.Context(), "c", m.def)
	must(t, err)
	m.find()
	return m
}

func (m *ttlModel) draw() time.Duration {
	return []time.Duration{0, NoExpiry, 5 * time.Second, 20 * time.Second, time.Minute}[m.rng.IntN(5)]
}

func (m *ttlModel) open() {
	m.opts.fs = m.mem
	m.clock.steady.Store(0)
	m.changes = false
	db, err := Open(m.Context(), "mem", &m.opts)
	must(m, err)
	m.db = db
}

func (m *ttlModel) find() {
	var err error
	m.c, err = m.db.Container("c")
	must(m, err)
}

func (m *ttlModel) now() time.Time { return m.opts.clock() }

// expires returns when an item expires under the present default; zero: never.
func (m *ttlModel) expires(it *ttlItem) time.Time {
	switch {
	case m.ttl == 0 || it.own < 0 || it.own == 0 && m.ttl < 0:
		return time.Time{}
	case it.own > 0:
		return it.modified.Add(it.own)
	}
	return it.modified.Add(m.ttl)
}

func (m *ttlModel) gone(it *ttlItem, at time.Time) bool {
	expires := m.expires(it)
	return !expires.IsZero() && !expires.After(at)
}

// live returns an item if readers see it. If it may have been removed, the store is asked.
func (m *ttlModel) live(name string) *ttlItem {
	it := m.items[name]
	if it == nil || m.gone(it, m.now()) {
		return nil
	}
	if it.doomed {
		_, err := m.c.Read(m.Context(), StringKey(it.k), it.id)
		switch {
		case errors.Is(err, ErrNotFound):
			m.lost++
			delete(m.items, name)
			return nil
		case err != nil:
			m.Fatal(err)
		}
		it.doomed = false
		m.restored++
	}
	return it
}

// all returns the items that readers see, by name.
func (m *ttlModel) all() map[string]*ttlItem {
	out := make(map[string]*ttlItem)
	for _, name := range slices.Sorted(maps.Keys(m.items)) {
		if it := m.live(name); it != nil {
			out[name] = it
		}
	}
	return out
}

// removes notes what may be removed now.
func (m *ttlModel) removes() {
	open := time.Duration(m.clock.steady.Load())
	grace := m.opts.ExpiryGrace
	if open < grace || m.changes && open-m.changed < grace {
		return
	}
	for _, it := range m.items {
		if m.gone(it, m.now().Add(-grace)) {
			it.doomed = true
		}
	}
}

func (m *ttlModel) step() {
	ctx := m.Context()
	switch p := m.rng.IntN(100); {
	case p < 45:
		m.write()
	case p < 55:
		m.setDefault()
	case p < 72:
		m.clock.pass(time.Duration(m.rng.Int64N(int64(8 * time.Second))))
	case p < 76:
		must(m, m.db.Flush(ctx))
	case p < 79:
		m.removes()
		must(m, m.db.Compact(ctx))
	case p < 81:
		parts := m.db.partitions()
		part := parts[m.rng.IntN(len(parts))]
		m.removes()
		_, err := part.CompactBy(ctx, part.somePicker(m.rng, m.write))
		must(m, err)
	case p < 84:
		if m.def.ChangeRetention > 0 {
			m.removes()
			must(m, m.db.expireItems(ctx))
		}
	case p < 86:
		m.reshape()
	case p < 88:
		if m.rng.IntN(2) == 0 {
			must(m, m.db.Close())
			m.mem = m.mem.Kill()
		} else {
			next := m.mem.Crash(randomCrash(m.rng)) // every write was synced
			m.db.Close()
			m.mem = next
		}
		m.open()
		m.find()
	default:
		m.check()
	}
}

func (m *ttlModel) reshape() {
	parts := m.c.Partitions()
	i := m.rng.IntN(len(parts))
	job := m.c.newJob(ReshapeSplit, "", parts[i].ID)
	if len(parts) > 3 {
		i = min(i, len(parts)-2)
		job = m.c.newJob(ReshapeMerge, "", parts[i].ID, parts[i+1].ID)
	}
	m.db.submit(job)
	if err := job.Wait(m.Context()); err != nil && !errors.Is(err, ErrRefused) {
		m.Fatal(err)
	}
}

func (m *ttlModel) setDefault() {
	ttl := m.draw()
	must(m, m.c.SetDefaultTTL(m.Context(), ttl))
	if ttl != m.ttl {
		m.changed, m.changes = time.Duration(m.clock.steady.Load()), true
	}
	m.ttl = ttl
	if def := m.c.Def(); def.DefaultTTL != ttl {
		m.Fatalf("the default is %v, want %v", def.DefaultTTL, ttl)
	}
}

func (m *ttlModel) write() {
	ctx := m.Context()
	k, id := fmt.Sprintf("k%d", m.rng.IntN(4)), fmt.Sprintf("i%02d", m.rng.IntN(30))
	name, key := k+"/"+id, StringKey(k)
	old := m.live(name)
	it := &ttlItem{k: k, id: id, u: fmt.Sprint(m.rng.IntN(40))}
	var members string
	o := &WriteOptions{}
	switch m.rng.IntN(6) {
	case 0:
		it.own, members = 7*time.Second, `,"ttl":7`
	case 1:
		it.own, members = NoExpiry, `,"ttl":-1`
	case 2:
		if m.ttl != 0 {
			it.own = []time.Duration{NoExpiry, 12 * time.Second}[m.rng.IntN(2)]
			o.TTL = it.own
		}
	}
	it.body = fmt.Sprintf(`{"id":%q,"k":%q,"u":%q,"n":%d%s,"x":%q}`, id, k, it.u, m.rng.IntN(3), members, strings.Repeat("x", m.rng.IntN(200)))
	verb := m.rng.IntN(8)
	var want error
	switch {
	case verb == 0 && old != nil:
		want = ErrExists
	case (verb == 1 || verb == 2) && old == nil:
		want = ErrNotFound
	case verb == 3 && old == nil:
		o.IfMatch, want = 1, ErrPrecondition
	case verb == 3:
		o.IfMatch = old.etag
	}
	var buried []string // expired items of which this one takes the unique value
	if want == nil && len(m.def.UniqueKeys) > 0 && verb != 2 {
		for other := range m.items {
			if of := m.items[other]; other == name || of.k != k || of.u != it.u {
				continue
			}
			if m.live(other) != nil {
				want = ErrUniqueKey
			} else {
				buried = append(buried, other)
			}
		}
	}
	var meta Meta
	var err error
	switch verb {
	case 0:
		meta, err = m.c.Create(ctx, []byte(it.body), o)
	case 1:
		meta, err = m.c.Replace(ctx, []byte(it.body), o)
	case 2:
		err = m.c.Delete(ctx, key, id, nil)
	case 4:
		b := m.c.NewBatch(key)
		must(m, b.Upsert([]byte(it.body), o))
		var metas []Meta
		if metas, err = m.c.Commit(ctx, b); err == nil {
			meta = metas[0]
		}
	case 5:
		err = m.c.Update(ctx, key, func(tx *Tx) error {
			_, failed := tx.Read(id)
			if (failed == nil) != (old != nil) {
				m.Errorf("a transaction reads %s: %v, there: %v", name, failed, old != nil)
			}
			return tx.Upsert([]byte(it.body), o)
		})
		if err == nil {
			var read Item
			read, err = m.c.Read(ctx, key, id)
			meta = read.Meta
		}
	default:
		meta, err = m.c.Upsert(ctx, []byte(it.body), o)
	}
	if want != nil {
		if !errors.Is(err, want) {
			m.Fatalf("write %d of %s: %v, want %v", verb, name, err, want)
		}
		return
	}
	if err != nil {
		m.Fatalf("write %d of %s: %v; default %v", verb, name, err, m.ttl)
	}
	for _, other := range buried {
		delete(m.items, other)
	}
	if verb == 2 {
		delete(m.items, name)
		return
	}
	it.etag, it.modified = meta.ETag, meta.Modified
	if !meta.Expires.Equal(m.expires(it)) {
		m.Fatalf("%s expires %v, want %v", name, meta.Expires, m.expires(it))
	}
	m.items[name] = it
}

// check compares what the store shows with the map.
func (m *ttlModel) check() {
	m.Helper()
	ctx := m.Context()
	want := m.all()
	same := func(how string, seq func(yield func(Item, error) bool)) {
		m.Helper()
		got := make(map[string]bool)
		for it, err := range seq {
			must(m, err)
			name := strings.Trim(it.Key.String(), `["]`) + "/" + it.ID
			of := want[name]
			switch {
			case got[name]:
				m.Errorf("%s shows %s twice", how, name)
			case of == nil:
				m.Errorf("%s shows %s, written %v, expires %v, at %v; default %v", how, name, it.Modified, it.Expires, m.now(), m.ttl)
			case string(it.Body) != of.body || it.ETag != of.etag || !it.Expires.Equal(m.expires(of)):
				m.Errorf("%s shows %s as %s, expires %v, want %v", how, name, it.Body, it.Expires, m.expires(of))
			}
			got[name] = true
		}
		for name := range want {
			if !got[name] {
				m.Errorf("%s does not show %s, written %v; default %v", how, name, want[name].modified, m.ttl)
			}
		}
		if m.Failed() {
			m.FailNow()
		}
	}
	same("a scan", m.c.ScanAll(ctx, nil))
	for name, it := range m.items {
		_, err := m.c.Read(ctx, StringKey(it.k), it.id)
		if want[name] == nil && !errors.Is(err, ErrNotFound) || want[name] != nil && err != nil {
			m.Fatalf("read of %s: %v, there: %v", name, err, want[name] != nil)
		}
	}
	same("a feed", func(yield func(Item, error) bool) {
		for ch, err := range m.c.Changes(ctx, AllPartitions(), FromStart(), nil) {
			if !yield(ch.Item, err) {
				return
			}
		}
	})
	all, err := ParseQuery("SELECT * FROM c", nil)
	must(m, err)
	same("a query", m.c.Query(ctx, AllPartitions(), all).All())
	counts := make(map[string]int)
	for _, it := range want {
		var d struct{ N int }
		must(m, json.Unmarshal([]byte(it.body), &d))
		counts["all"]++
		counts[fmt.Sprintf("n%d", d.N)]++
		counts[fmt.Sprintf("%s n%d", it.k, d.N)]++
	}
	for n := range 3 {
		m.count(AllPartitions(), fmt.Sprintf("SELECT VALUE COUNT(1) FROM c WHERE c.n = %d", n), counts[fmt.Sprintf("n%d", n)])
		m.count(OnePartition(StringKey("k1")), fmt.Sprintf("SELECT VALUE COUNT(1) FROM c WHERE c.n = %d", n), counts[fmt.Sprintf("k1 n%d", n)])
	}
	m.count(AllPartitions(), "SELECT VALUE COUNT(1) FROM c", counts["all"])
	groups, err := ParseQuery("SELECT c.n, COUNT(1) AS many FROM c GROUP BY c.n", nil)
	must(m, err)
	list, err := results(m.c.Query(ctx, AllPartitions(), groups))
	must(m, err)
	sum := 0
	for _, text := range list {
		var g struct{ N, Many int }
		must(m, json.Unmarshal([]byte(text), &g))
		if sum += g.Many; g.Many != counts[fmt.Sprintf("n%d", g.N)] {
			m.Fatalf("group %s, want %d", text, counts[fmt.Sprintf("n%d", g.N)])
		}
	}
	if sum != len(want) {
		m.Fatalf("%d documents in groups, want %d", sum, len(want))
	}
	ordered, err := ParseQuery("SELECT c.u FROM c ORDER BY c.u", nil)
	must(m, err)
	if list, err = results(m.c.Query(ctx, AllPartitions(), ordered)); err != nil || len(list) != len(want) {
		m.Fatalf("%d in order, %v, want %d", len(list), err, len(want))
	}
}

func (m *ttlModel) count(in Scope, text string, want int) {
	m.Helper()
	q, err := ParseQuery(text, nil)
	must(m, err)
	list, err := results(m.c.Query(m.Context(), in, q))
	if err != nil || len(list) != 1 || list[0] != fmt.Sprint(want) {
		m.Fatalf("%s: %v, %v, want %d; default %v", text, list, err, want, m.ttl)
	}
}

// TestDefaultTTLDuringCompaction: a compaction that drops what has expired begins again if the
// default changes before it has shown its result, so what comes back by the change stays.
func TestDefaultTTLDuringCompaction(t *testing.T) {
	ctx := t.Context()
	opts := testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	opts.ExpiryGrace = time.Second
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MutableTTL: true, DefaultTTL: 5 * time.Second})
	for i := range 20 {
		upsert(t, c, fmt.Sprint(i), 10)
	}
	must(t, db.Flush(ctx))
	_, err := c.Upsert(ctx, ttlDoc("ever", -1), nil)
	must(t, err)
	must(t, db.Flush(ctx))
	clock.pass(time.Hour)
	if items, err := collectItems(c.ScanAll(ctx, nil)); err != nil || len(items) != 1 {
		t.Fatalf("%d items before the change, %v", len(items), err)
	}
	// The compaction asks what it may drop when it is chosen, and when it begins.
	p := c.routing.Load().parts[0]
	asked, removable := 0, p.Purgeable
	p.Purgeable = func() lifetime.Past {
		past := removable()
		if asked++; asked == 2 {
			must(t, c.SetDefaultTTL(ctx, NoExpiry))
		}
		return past
	}
	must(t, db.Compact(ctx))
	if asked < 3 {
		t.Fatalf("the compaction asked %d times", asked)
	}
	if items, err := collectItems(c.ScanAll(ctx, nil)); err != nil || len(items) != 21 {
		t.Fatalf("%d items after the change, %v", len(items), err)
	}
	// After another change the grace period begins anew.
	must(t, c.SetDefaultTTL(ctx, time.Second))
	must(t, db.Compact(ctx))
	must(t, c.SetDefaultTTL(ctx, 0))
	if items, err := collectItems(c.ScanAll(ctx, nil)); err != nil || len(items) != 21 {
		t.Fatalf("%d items after a change that was undone, %v", len(items), err)
	}
	must(t, c.SetDefaultTTL(ctx, time.Second))
	clock.pass(time.Second)
	must(t, db.Compact(ctx))
	must(t, c.SetDefaultTTL(ctx, 0))
	if items, err := collectItems(c.ScanAll(ctx, nil)); err != nil || len(items) != 1 {
		t.Fatalf("%d items after the grace period, %v", len(items), err)
	}
}

// TestDefaultTTLAtOnce: a transaction goes by one default from its beginning to its end, while
// others change it.
func TestDefaultTTLAtOnce(t *testing.T) {
	ctx := t.Context()
	opts := testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	_, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MutableTTL: true})
	upsert(t, c, "x", 10)
	upsert(t, c, "y", 10)
	clock.pass(time.Minute)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range amount(300, 100, 50) {
				if err := c.Update(ctx, StringKey("a"), func(tx *Tx) error {
					_, first := tx.Read("x")
					_, second := tx.Read("y")
					if (first == nil) != (second == nil) {
						t.Errorf("one of two items that expire at the same time: %v, %v", first, second)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range amount(100, 50, 20) {
		must(t, c.SetDefaultTTL(ctx, []time.Duration{time.Second, 0}[i%2]))
	}
	wg.Wait()
}

// TestDefaultTTLRefused: containers and times that SetDefaultTTL refuses.
func TestDefaultTTLRefused(t *testing.T) {
	ctx := t.Context()
	db, fixed := openStore(t, testOptions(vfs.NewMem()))
	if err := fixed.SetDefaultTTL(ctx, time.Hour); !errors.Is(err, ErrInvalid) {
		t.Errorf("without MutableTTL: %v", err)
	}
	replicated, err := db.CreateContainer(ctx, "replicated", ContainerDef{PartitionKey: []string{"/k"}, MutableTTL: true, Replicated: true})
	must(t, err)
	if err := replicated.SetDefaultTTL(ctx, time.Hour); !errors.Is(err, ErrReplicated) {
		t.Errorf("replicated: %v", err)
	}
	unchanging, err := db.CreateContainer(ctx, "unchanging", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	must(t, err)
	for what, tc := range map[string]struct {
		c      *Container
		change DefaultTTLChange
	}{
		"without MutableTTL": {unchanging, DefaultTTLChange{1, time.Hour}},
		"without a revision": {replicated, DefaultTTLChange{0, time.Hour}},
		"of a nanosecond":    {replicated, DefaultTTLChange{1, 1}},
	} {
		if _, err := tc.c.ApplyAt(ctx, tc.c.Partitions()[0].ID, Entry{Index: 1, Time: time.Now(), DefaultTTL: &tc.change}); !errors.Is(err, ErrInvalid) {
			t.Errorf("an entry with a change %s: %v", what, err)
		}
	}
	def := ContainerDef{PartitionKey: []string{"/k"}, MutableTTL: true}
	c, err := db.CreateContainer(ctx, "c2", def)
	must(t, err)
	for _, ttl := range []time.Duration{-2, 1, time.Millisecond - 1} {
		if err := c.SetDefaultTTL(ctx, ttl); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", ttl, err)
		}
	}
	upsert(t, c, "x", 10)
	job, err := c.CopyTo(ctx, "copy", ContainerDef{PartitionKey: []string{"/id"}, MutableTTL: true})
	must(t, err)
	if err := c.SetDefaultTTL(ctx, time.Hour); !errors.Is(err, ErrCopying) {
		t.Errorf("while it is copied: %v", err)
	}
	if err := job.Container().SetDefaultTTL(ctx, time.Hour); !errors.Is(err, ErrCopying) {
		t.Errorf("an unfinished copy: %v", err)
	}
	must(t, second(job.Finish(ctx)))
	if err := c.SetDefaultTTL(ctx, time.Hour); !errors.Is(err, ErrCopied) {
		t.Errorf("what was copied: %v", err)
	}
	copied := job.Container()
	must(t, copied.SetDefaultTTL(ctx, time.Millisecond))
	if n, err := collectItems(copied.ScanAll(ctx, nil)); err != nil || len(n) != 1 || !n[0].Expires.IsZero() {
		t.Errorf("an item keeps its expiry in a copy: %v, %v", n, err)
	}
	must(t, db.DropContainer(context.WithoutCancel(ctx), "copy"))
	if err := copied.SetDefaultTTL(ctx, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("dropped: %v", err)
	}
}

// TestDefaultTTLElsewhere: a read-only store shows a change after a Refresh, a backup has the
// default of its time, and what is exported from a container that has MutableTTL is installed in
// none that has not.
func TestDefaultTTLElsewhere(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	clock := newTestClock(opts)
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MutableTTL: true, MinPartitions: 1})
	upsert(t, c, "x", 10)
	must(t, second(c.Upsert(ctx, ttlDoc("ever", -1), nil)))
	readOnly := testOptions(mem)
	readOnly.clock, readOnly.elapsed, readOnly.ReadOnly = opts.clock, opts.elapsed, true
	beside, err := Open(ctx, "mem", readOnly)
	must(t, err)
	defer beside.Close()
	shown, err := beside.Container("c")
	must(t, err)
	clock.pass(time.Minute)
	shows := func(what string, c *Container, want int, ttl time.Duration) {
		t.Helper()
		if items, err := collectItems(c.ScanAll(ctx, nil)); err != nil || len(items) != want || c.Def().DefaultTTL != ttl || !c.Def().MutableTTL {
			t.Errorf("%s: %d items, %v, %+v", what, len(items), err, c.Def())
		}
	}
	shows("at first", shown, 2, 0)
	must(t, c.SetDefaultTTL(ctx, time.Second))
	var backup bytes.Buffer
	must(t, second(db.Backup(ctx, &backup, nil)))
	shows("before a refresh", shown, 2, 0)
	must(t, beside.Refresh(ctx))
	shows("after it", shown, 1, time.Second)
	must(t, c.SetDefaultTTL(ctx, NoExpiry))
	must(t, beside.Refresh(ctx))
	shows("after another one", shown, 2, NoExpiry)

	restored := testOptions(nil)
	restored.clock, restored.elapsed = opts.clock, opts.elapsed
	again := restoredCopy(t, restored, backup.Bytes())
	c2, err := again.Container("c")
	must(t, err)
	shows("restored", c2, 1, time.Second)
	must(t, c2.SetDefaultTTL(ctx, 0))
	shows("restored, off", c2, 2, 0)

	var exported bytes.Buffer
	must(t, second(c.ExportPartition(ctx, c.Partitions()[0].ID, &exported)))
	to, err := db.CreateContainer(ctx, "to", ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry, Replicated: true})
	must(t, err)
	if _, err := to.InstallPartition(ctx, &exported); !errors.Is(err, ErrInvalid) {
		t.Errorf("installed: %v", err)
	}
}

// TestDefaultTTLClaims: a compaction comes to an expired item of a container that keeps
// changes before the expirer does. Another default brings the item back with its unique value;
// when it was removed, the value is free.
func TestDefaultTTLClaims(t *testing.T) {
	ctx := t.Context()
	o := testOptions(vfs.NewMem())
	clock := newTestClock(o)
	o.ExpiryGrace = time.Second
	db, c := openStore(t, o, ContainerDef{
		PartitionKey: []string{"/k"}, MutableTTL: true, DefaultTTL: 5 * time.Second, UniqueKeys: [][]string{{"/u"}}, ChangeRetention: time.Minute,
	})
	create := func(doc string) error { return second(c.Create(ctx, []byte(doc), nil)) }
	pass := func() {
		must(t, db.keepMarks())
		clock.pass(10 * time.Minute)
		must(t, db.keepMarks())
	}
	must(t, create(`{"id":"A","k":"a","u":1}`))
	must(t, db.Flush(ctx))
	must(t, create(`{"id":"Z","k":"a","u":9,"ttl":-1}`))
	must(t, db.Flush(ctx))
	for range 5 { // until the change floor has passed the claim
		pass()
		must(t, second(c.Upsert(ctx, []byte(`{"id":"Y","k":"a","u":8,"ttl":-1}`), nil)))
		must(t, db.Flush(ctx))
		must(t, db.Compact(ctx))
	}
	must(t, c.SetDefaultTTL(ctx, 0))
	must(t, second(c.Read(ctx, StringKey("a"), "A")))
	if err := create(`{"id":"B","k":"a","u":1}`); !errors.Is(err, ErrUniqueKey) {
		t.Errorf("B has the unique value of A, which is there: %v", err)
	}
	must(t, c.SetDefaultTTL(ctx, 5*time.Second))
	pass()
	must(t, db.expireItems(ctx))
	pass()
	if n := claims(c); n != 2 {
		t.Errorf("%d claims, of two items that are there", n)
	}
	must(t, db.Flush(ctx))
	must(t, db.Compact(ctx))
	must(t, c.SetDefaultTTL(ctx, 0))
	if err := create(`{"id":"B","k":"a","u":1}`); err != nil {
		t.Errorf("A was removed, and its unique value is not free: %v", err)
	}
	checkVerified(t, db)
}

// claims returns how many claims on unique keys a container has.
func claims(c *Container) (n int) {
	for _, p := range c.routing.Load().parts {
		guard := p.Env.Epoch.Enter()
		var m lsm.Cursor
		m.Open(p.Version.Load(), p.Visible.Load(), false)
		for m.Start(); m.Valid(); m.Next() {
			if k, v := m.Top(); c.isClaim(k) && !v.Deleted() {
				n++
			}
		}
		m.Close()
		guard.Leave()
	}
	return n
}
