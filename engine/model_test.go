package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestModel runs random operations, with flushes, merges, reopens, kills and
// power cuts between them, and compares every answer with a map.
func TestModel(t *testing.T) {
	seed := newSeed(t)
	runs, steps := amount(12, 6, 3), amount(1500, 1500, 500)
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, rand.New(rand.NewPCG(seed, uint64(i))))
			for range steps {
				m.step()
			}
			m.reopen("close")
			m.compareAll()
			m.db.Close()
		})
	}
}

// model is a store beside the maps that it is compared with.
type model struct {
	t    *testing.T
	rng  *rand.Rand
	mem  *vfs.Mem
	opts Options

	faulty  *vfs.Faulty // over mem
	noLinks bool        // files have one name only
	cancel  func()      // called at a call to the file system, when so many have gone by
	calls   int
	db      *DB
	time    *testClock
	o       *oracle

	items     map[string]state // by container
	hidden    state            // what has expired, and may be there again if the clock is set back
	snapshots []modelSnapshot

	backups    [][]byte // each the next after the one before
	lastBackup BackupInfo
	copy       *CopyJob // under way; nil: none
	told       toldLog
}

type modelSnapshot struct {
	*Snapshot
	items, hidden state
}

var modelContainers = map[string]ContainerDef{
	"docs":        {PartitionKey: []string{"/k"}, MinPartitions: 3, Index: modelPolicies[0]},
	"levels":      {PartitionKey: []string{"/k", "/l"}, MinPartitions: 1, Compression: SmallCompression, Index: modelPolicies[1], UniqueKeys: [][]string{{"/id", "/v"}}},
	"plain":       {PartitionKey: []string{"/k"}, MinPartitions: 2, Compression: NoCompression, HashVersion: 1},
	"bytes":       {Kind: Opaque, MinPartitions: 2},
	toldContainer: {PartitionKey: []string{"/k"}, MinPartitions: 2, Replicated: true, Index: IndexAll()},
	"mortal":      {PartitionKey: []string{"/k"}, HashVersion: 1, MinPartitions: 2, DefaultTTL: 20 * time.Second, UniqueKeys: [][]string{{"/id"}, {"/id", "/p", "/g"}}},
}

func newModel(t *testing.T, rng *rand.Rand) *model {
	m := &model{t: t, rng: rng, mem: vfs.NewMem(), o: newOracle(), items: make(map[string]state), hidden: make(state)}
	m.opts = *testOptions(m.mem)
	m.opts.memtableBytes = 16<<10 + rng.Int64N(256<<10)
	m.opts.FileBytes = 4<<10 + rng.Int64N(64<<10)
	m.opts.keepInheritance = rng.IntN(2) == 0
	if rng.IntN(2) == 0 {
		m.opts.ReadMode = ReadPositioned
	}
	if rng.IntN(3) == 0 {
		m.opts.Durability = Buffered
	}
	if rng.IntN(3) > 0 { // more files than may be open or mapped
		m.opts.MaxOpenFiles, m.opts.MaxMappedFiles = 1+rng.IntN(4), 1+rng.IntN(6)
	}
	m.time = newTestClock(&m.opts)
	m.told.durable, m.told.follower = make(map[PartitionID]uint64), newCopy(t)
	m.o.now = func() int64 { return m.opts.clock().UnixMilli() }
	m.opts.ExpiryGrace = 10 * time.Second
	m.open()
	for name, def := range modelContainers {
		if _, err := m.db.CreateContainer(context.Background(), name, def); err != nil {
			t.Fatal(err)
		}
		m.items[name] = make(state)
	}
	return m
}

func (m *model) open() {
	m.faulty = vfs.NewFaulty(m.mem)
	m.faulty.SetHook(m.called)
	m.opts.fs = m.faulty
	m.time.steady.Store(0)
	db, err := Open(context.Background(), "model", &m.opts)
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.db = db
}

// called runs before each call to the file system.
func (m *model) called(c vfs.Call) error {
	if m.cancel != nil {
		if m.calls--; m.calls == 0 {
			m.cancel()
		}
	}
	if m.noLinks && c.Op == vfs.OpLink {
		return syscall.EPERM
	}
	return nil
}

func (m *model) container() (string, *Container) {
	names := []string{"docs", "levels", "plain", "bytes", "mortal"}
	name := names[m.rng.IntN(len(names))]
	c, err := m.db.Container(name)
	must(m.t, err)
	return name, c
}

// key draws a partition key and the JSON members that give it.
func (m *model) key(name string) (PartitionKey, string) {
	n := m.rng.IntN(6)
	text := []string{`"a"`, `"b"`, `3`, `true`, `null`, ``}[n]
	key := []PartitionKey{StringKey("a"), StringKey("b"), NumberKey(3), BoolKey(true), NullKey(), UndefinedKey()}[n]
	members := ""
	if text != "" {
		members = `,"k":` + text
	}
	if name == "levels" {
		l := m.rng.IntN(4)
		return JoinKeys(key, NumberKey(float64(l))), members + fmt.Sprintf(`,"l":%d`, l)
	}
	return inVersion(name, key), members
}

// inVersion returns a key as the container has it: some have keys of version 1.
func inVersion(name string, key PartitionKey) PartitionKey {
	return key.OfVersion(2 - modelContainers[name].HashVersion%2)
}

func (m *model) step() {
	switch p := m.rng.IntN(1000); {
	case p < 3:
		m.checkpoint()
	case p < 6:
		m.backup()
	case p < 22:
		m.pass()
	case p < 23:
		m.wrongClock()
	case p < 31:
		m.deleteKey()
	case p < 80:
		m.tell()
	case p < 478:
		m.write()
	case p < 513:
		m.batch()
	case p < 548:
		m.update()
	case p < 798:
		m.read()
	case p < 888:
		m.scan()
	case p < 898:
		m.sources()
	case p < 913:
		must(m.t, m.db.Flush(context.Background()))
	case p < 918:
		must(m.t, m.db.Compact(context.Background()))
	case p < 938:
		m.mergeSome()
	case p < 948:
		m.takeSnapshot()
	case p < 963:
		m.readSnapshot()
	case p < 968:
		m.dropSnapshot()
	case p < 975:
		m.load()
	case p < 979:
		m.reshape()
	case p < 980:
		m.changePolicy()
	case p < 985:
		m.reopen("close")
	case p < 990:
		m.reopen("kill")
	case p < 995:
		m.reopen("crash")
	case p < 997:
		m.carry()
	default:
		m.copyOn()
	}
}

func (m *model) write() {
	name, c := m.container()
	key, members := m.key(name)
	id := fmt.Sprintf("i%d", m.rng.IntN(40))
	which := itemID{name, key, id}
	old, exists := m.items[name][which]
	o := &WriteOptions{TTL: m.ttl(name)}
	precondition := true
	switch m.rng.IntN(6) {
	case 0:
		o.IfMatch = old.etag
	case 1:
		o.IfMatch = ETag(m.rng.Uint64N(1000) + 1)
		precondition = exists && o.IfMatch == old.etag
	}
	if o.IfMatch != 0 && !exists {
		precondition = false
	}
	if m.rng.IntN(3) == 0 {
		o.Durability = Buffered
	}
	synced := o.Durability == Durability{} && m.opts.Durability != Buffered
	size := m.rng.IntN(300)
	if m.rng.IntN(40) == 0 {
		size = m.rng.IntN(20_000)
	}
	body := fmt.Sprintf(`{"id":%q%s,"v":"%s"}`, id, members, strings.Repeat("x", size/2)+randomText(m.rng, size/2))
	w := write{container: name, key: key, id: id, body: body}
	var meta Meta
	var err, want error
	ctx := context.Background()
	verb := m.rng.IntN(5)
	if name == "bytes" && (verb == 0 || verb == 2 || verb == 4) {
		verb = 1
	}
	switch verb {
	case 4:
		if !exists {
			want = ErrNotFound
		}
		n := m.rng.IntN(1000)
		w.body = patchedBody(old.body, n)
		meta, err = c.Patch(ctx, key, id, new(Patch).Set("/p", n), o)
	case 0:
		if exists {
			want = ErrExists
		}
		meta, err = c.Create(ctx, []byte(body), o)
	case 1:
		if name == "bytes" {
			meta, err = c.Put(ctx, key, id, []byte(body), o)
		} else {
			meta, err = c.Upsert(ctx, []byte(body), o)
		}
	case 2:
		if !exists {
			want = ErrNotFound
		}
		meta, err = c.Replace(ctx, []byte(body), o)
	case 3:
		if !exists {
			want = ErrNotFound
		}
		w.body = ""
		err = c.Delete(ctx, key, id, o)
	}
	if want == nil && !precondition {
		want = ErrPrecondition
	}
	if want != nil {
		if !errors.Is(err, want) {
			m.t.Fatalf("write %v: %v, want %v", which, err, want)
		}
		return
	}
	must(m.t, err)
	w.etag = meta.ETag
	m.expires(&w, meta, o.TTL)
	if w.body != "" && (meta.ID != id || meta.Key != key || meta.ETag == 0) {
		m.t.Fatalf("write %v: meta %+v", which, meta)
	}
	m.apply(w, partitionOf(c, key), synced)
}

// deleteKey deletes all items of a key.
func (m *model) deleteKey() {
	name, c := m.container()
	key, _ := m.key(name)
	must(m.t, c.DeleteLogicalPartition(context.Background(), key, nil))
	m.apply(write{container: name, key: key}, partitionOf(c, key), m.opts.Durability != Buffered)
}

// patchedBody is a document of the model with its last member set to p: n.
func patchedBody(body string, n int) string {
	if body == "" {
		return ""
	}
	rest, _, _ := strings.Cut(body, `,"p":`)
	return strings.TrimSuffix(rest, "}") + fmt.Sprintf(`,"p":%d}`, n)
}

func (m *model) apply(w write, p PartitionID, synced bool) {
	which := itemID{w.container, w.key, w.id}
	delete(m.hidden, which)
	if w.id == "" {
		m.items[w.container].deleteKey(w.container, w.key, nil)
		m.hidden.deleteKey(w.container, w.key, nil)
	} else if w.body == "" {
		delete(m.items[w.container], which)
	} else {
		m.items[w.container][which] = w
	}
	m.o.note(p, w, true, synced)
}

func randomText(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rng.IntN(36)]
	}
	return string(b)
}

func (m *model) mergeSome() {
	parts := m.db.partitions()
	p := parts[m.rng.IntN(len(parts))]
	_, err := p.CompactBy(context.Background(), p.somePicker(m.rng, m.write))
	must(m.t, err)
}

// reshape splits, merges or moves partitions of some container.
func (m *model) reshape() {
	_, c := m.container()
	m.reshapeOf(c)
}

func (m *model) reshapeOf(c *Container) {
	parts := c.Partitions()
	i := m.rng.IntN(len(parts))
	at := ""
	if m.rng.IntN(3) == 0 {
		at = fmt.Sprintf("%02X%02X", m.rng.IntN(0x40), m.rng.IntN(256))
	}
	kind, ids := ReshapeSplit, []PartitionID{parts[i].ID}
	if verb := m.rng.IntN(3); len(parts) > 1 && (verb > 0 || len(parts) == 8) {
		kind = ReshapeMove
		if verb != 1 {
			kind, at = ReshapeMerge, ""
		}
		i = min(i, len(parts)-2)
		ids = []PartitionID{parts[i].ID, parts[i+1].ID}
	}
	job := c.newJob(kind, at, ids...)
	if m.rng.IntN(4) == 0 {
		m.cancel, m.calls = job.Cancel, 1+m.rng.IntN(40)
	}
	m.db.submit(job)
	m.cancel = nil
	err := job.Wait(context.Background())
	if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, context.Canceled) {
		m.t.Fatalf("%+v: %v", job.Progress(), err)
	}
	m.o.follow(m.db)
}

func (m *model) load() {
	name, c := m.container()
	if name == "bytes" {
		return
	}
	n := 1 + m.rng.IntN(60)
	var writes []write
	var docs [][]byte
	for range n {
		key, members := m.key(name)
		id := fmt.Sprintf("i%d", m.rng.IntN(40))
		body := fmt.Sprintf(`{"id":%q%s,"load":"%s"}`, id, members, randomText(m.rng, m.rng.IntN(200)))
		w := write{container: name, key: key, id: id, body: body}
		if name == "mortal" { // no time passes in a step
			w.expires = m.o.now() + modelContainers[name].DefaultTTL.Milliseconds()
		}
		writes = append(writes, w)
		docs = append(docs, []byte(body))
	}
	stats, err := c.Load(context.Background(), func(yield func([]byte, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
	}, &LoadOptions{BatchBytes: 1 + m.rng.Int64N(4000), Progress: func(LoadStats) {
		if m.rng.IntN(50) == 0 {
			m.reshapeOf(c)
		}
	}})
	must(m.t, err)
	if stats.Committed != int64(n) {
		m.t.Fatalf("load committed %d of %d", stats.Committed, n)
	}
	for _, w := range writes {
		m.apply(w, partitionOf(c, w.key), m.opts.Durability != Buffered)
	}
	// A load does not tell etags: take them from the store.
	for _, w := range writes {
		which := itemID{name, w.key, w.id}
		got, err := c.Read(context.Background(), w.key, w.id)
		must(m.t, err)
		w = m.items[name][which]
		w.etag = got.ETag
		m.expires(&w, got.Meta, 0)
		m.items[name][which] = w
	}
}

func (m *model) carry() {
	parts := m.db.partitions()
	p := parts[m.rng.IntN(len(parts))]
	if len(p.Version.Load().Frozen) == 0 && p.Version.Load().Active.Versions() > 0 {
		must(m.t, p.db.retention.Carry(&p.Partition))
	}
}

// reopen ends the store in some way and opens it again.
func (m *model) reopen(how string) {
	for _, s := range m.snapshots {
		s.Close()
	}
	m.snapshots = nil
	if m.copy != nil {
		m.copy.Cancel()
		m.copy = nil
	}
	least := func(h *history) int { return len(h.writes) }
	switch how {
	case "close":
		must(m.t, m.db.Close())
		m.mem = m.mem.Kill()
	case "kill":
		next := m.mem.Kill()
		m.db.Close()
		m.mem = next
		least = func(h *history) int { return h.kernel }
	case "crash":
		next := m.mem.Crash(randomCrash(m.rng))
		m.db.Close()
		m.mem = next
		least = func(h *history) int { return h.durable }
	}
	m.open()
	if err := m.o.check(m.db, least); err != nil {
		m.t.Fatalf("after %s: %v", how, err)
	}
	// What survived is the truth from now on.
	for name := range m.items {
		m.items[name] = make(state)
	}
	clear(m.hidden)
	for p, h := range m.o.parts {
		found, err := readPartition(m.db, p)
		must(m.t, err)
		for id, w := range found {
			m.items[id.container][id] = w
		}
		if h.durable != len(h.writes) {
			m.t.Fatal("the oracle kept writes that did not survive")
		}
	}
	m.recallTold(how)
}
