package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// lives is a model of the items of a replicated container whose default time to live changes. It does
// not know rules: whenever time passes it notes who has expired, and nobody comes back.
type lives struct {
	ttl   time.Duration
	rev   uint64
	now   int64
	items map[string]*life
}

type life struct {
	key, id string
	written int64
	own     int64 // milliseconds; 0: none, negative: for ever
	unique  int
	dead    bool
}

// pass lets time pass up to now.
func (m *lives) pass(now int64) {
	m.now = max(m.now, now)
	for _, l := range m.items {
		switch {
		case m.ttl == 0 || l.own < 0 || l.own == 0 && m.ttl < 0:
		case l.own > 0:
			l.dead = l.dead || m.now >= l.written+l.own
		default:
			l.dead = l.dead || m.now >= l.written+m.ttl.Milliseconds()
		}
	}
}

// taken says whether another item of the logical partition has a unique value.
func (m *lives) taken(key, id string, unique int) bool {
	for _, l := range m.items {
		if !l.dead && l.key == key && l.id != id && l.unique == unique {
			return true
		}
	}
	return false
}

func (m *lives) expires(l *life) (at int64) {
	switch {
	case m.ttl == 0 || l.own < 0 || l.own == 0 && m.ttl < 0:
		return 0
	case l.own > 0:
		return l.written + l.own
	}
	return l.written + m.ttl.Milliseconds()
}

// timeMillis returns a time in milliseconds, 0 for none.
func timeMillis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// TestReplicatedDefaultTTL: replicas whose default is changed by entries agree with a model, and with each other,
// whatever each has compacted, and what has expired does not come back: with changes to and fro, splits, unique keys,
// conditions, patches, reopenings, crashes, backups and installations.
func TestReplicatedDefaultTTL(t *testing.T) {
	for range 4 / lone(1) {
		testReplicatedDefaultTTL(t, newSeed(t))
	}
}

func testReplicatedDefaultTTL(t *testing.T, seed uint64) {
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(seed, 1))
	var ticks atomic.Int64 // a reader that begins after a change is to be seen to have
	options := func(fsys vfs.FS) *Options {
		o := testOptions(fsys)
		o.clock = func() time.Time { return replicaTime.Add(time.Hour + time.Duration(ticks.Add(1))*time.Millisecond) }
		o.ExpiryGrace = -1
		return o
	}
	def := ContainerDef{
		PartitionKey: []string{"/k"}, Replicated: true, MutableTTL: true, DefaultTTL: []time.Duration{0, NoExpiry, 20 * time.Second}[rng.IntN(3)],
		UniqueKeys: [][]string{{"/u"}}, Index: IndexPolicy{Include: []string{"/n/?"}},
	}
	type replica struct {
		mem *vfs.Mem
		db  *DB
		c   *Container
	}
	open := func(mem *vfs.Mem) *replica {
		db, err := Open(ctx, "store", options(mem))
		must(t, err)
		c, err := db.EnsureContainer(ctx, "docs", def)
		must(t, err)
		return &replica{mem, db, c}
	}
	all := []*replica{open(vfs.NewMem()), open(vfs.NewMem()), open(vfs.NewMem())} // the first one never compacts
	defer func() {
		for _, r := range all {
			must(t, r.db.Close())
		}
	}()
	m := &lives{ttl: def.DefaultTTL, items: make(map[string]*life)}
	type told struct {
		index uint64
		time  time.Time
		make  func(*Container) *Batch
		ttl   *DefaultTTLChange
	}
	var log []told // of all partitions: each entry goes to every one, so that ranges have the same
	play := func(r *replica, e told) (out []Applied) {
		for _, p := range r.c.Partitions() {
			entry := Entry{Index: e.index, Time: e.time, DefaultTTL: e.ttl, Durability: Buffered}
			if b := e.make(r.c); b != nil {
				epk := b.pk.EPK()
				if r.c.partition(p.ID).Range.Contains(&epk) {
					entry.Batches = []*Batch{b}
				}
			}
			a, err := r.c.ApplyAt(ctx, p.ID, entry)
			must(t, err)
			if len(a.Results) > 0 {
				out = append(out, a)
			}
		}
		return out
	}
	// catchUp tells a replica what it has lost.
	catchUp := func(r *replica) {
		for _, e := range log {
			play(r, e)
		}
	}
	check := func(r *replica, what string) {
		t.Helper()
		want := 0
		for _, l := range m.items {
			it, err := r.c.Read(ctx, StringKey(l.key), l.id)
			if l.dead {
				if !errors.Is(err, ErrNotFound) {
					t.Fatalf("seed %d, entry %d, %s: %s/%s has expired, and is read: %v, default %v", seed, len(log), what, l.key, l.id, err, m.ttl)
				}
				continue
			}
			want++
			if err != nil || timeMillis(it.Expires) != m.expires(l) {
				t.Fatalf("seed %d, entry %d, %s: %s/%s of %d, own %d: %v, expires %d, want %d; default %v at %d", seed, len(log), what, l.key, l.id, l.written, l.own, err, timeMillis(it.Expires), m.expires(l), m.ttl, m.now)
			}
		}
		n, err := r.c.Count(ctx, AllPartitions(), Filter{})
		must(t, err)
		found, err := results(r.c.Query(ctx, AllPartitions(), Query{Where: Range("/n", Incl(-1), Unbounded())}))
		must(t, err)
		scanned, err := collectItems(r.c.ScanAll(ctx, nil))
		must(t, err)
		if int(n) != want || len(found) != want || len(scanned) != want {
			t.Fatalf("seed %d, entry %d, %s: %d counted, %d found, %d scanned, want %d; default %v", seed, len(log), what, n, len(found), len(scanned), want, m.ttl)
		}
		for _, it := range scanned {
			if l := m.items[it.Key.String()+"/"+it.ID]; l == nil || timeMillis(it.Expires) != m.expires(l) {
				t.Fatalf("seed %d, %s: scanned %s/%s expires %v", seed, what, it.Key, it.ID, it.Expires)
			}
		}
		must(t, compareClaims(r.db, r.c))
	}
	digests := func(r *replica) (text string) {
		for _, p := range r.c.Partitions() {
			index, sum, err := r.c.DigestPartition(ctx, p.ID)
			must(t, err)
			text += fmt.Sprintf("%s-%s at %d: %x\n", p.Min, p.Max, index, sum)
		}
		return text
	}
	now, revision := replicaTime, uint64(0)
	for i := range 150 {
		now = now.Add(time.Duration(rng.IntN(4000)) * time.Millisecond)
		e := told{index: uint64(i + 1), time: now, make: func(*Container) *Batch { return nil }}
		var key, id, verb string
		var ttl time.Duration
		unique := rng.IntN(30)
		switch n := rng.IntN(10); {
		case n == 0: // a change, or one that is known already
			revision += uint64(rng.IntN(3))
			e.ttl = &DefaultTTLChange{Revision: max(1, revision), TTL: []time.Duration{0, NoExpiry, 5 * time.Second, 20 * time.Second, time.Minute}[rng.IntN(5)]}
		case n < 8:
			key, id, verb = fmt.Sprintf("k%d", rng.IntN(6)), fmt.Sprintf("i%d", rng.IntN(8)), []string{"create", "create", "upsert", "replace", "patch", "delete"}[rng.IntN(6)]
			ttl = []time.Duration{0, 0, NoExpiry, 3 * time.Second, 30 * time.Second}[rng.IntN(5)]
			text := fmt.Appendf(nil, `{"id":%q,"k":%q,"u":%d,"n":%d}`, id, key, unique, rng.IntN(50))
			e.make = func(c *Container) *Batch {
				b := c.NewBatch(StringKey(key))
				var o *WriteOptions
				if ttl != 0 {
					o = &WriteOptions{TTL: ttl}
				}
				switch verb {
				case "create":
					must(t, b.Create(text, o))
				case "upsert":
					must(t, b.Upsert(text, o))
				case "replace":
					must(t, b.Replace(text, o))
				case "patch":
					must(t, b.Patch(id, new(Patch).Set("/u", unique), o))
				case "delete":
					must(t, b.Delete(id, nil))
				}
				return b
			}
		}
		log = append(log, e)
		m.pass(now.UnixMilli())
		name := StringKey(key).String() + "/" + id
		l := m.items[name]
		exists := l != nil && !l.dead
		refused := verb == "create" && exists || verb != "create" && verb != "upsert" && !exists || verb != "delete" && m.taken(key, id, unique)
		var first string
		for j, r := range all {
			for _, a := range play(r, e) {
				if got := a.Results[0].Err != nil; got != refused {
					t.Fatalf("seed %d, entry %d, replica %d: %s of %s: %v, want it to be refused: %v; default %v", seed, i+1, j, verb, name, a.Results[0].Err, refused, m.ttl)
				}
				if text := describeApplied(a); j == 0 {
					first = text
				} else if text != first {
					t.Fatalf("seed %d, entry %d, replica %d: %s, at the first %s", seed, i+1, j, text, first)
				}
			}
		}
		if key != "" && !refused {
			if own := ttl.Milliseconds(); verb == "delete" {
				delete(m.items, name)
			} else {
				if ttl == NoExpiry {
					own = -1
				}
				m.items[name] = &life{key: key, id: id, written: now.UnixMilli(), own: own, unique: unique}
			}
		}
		if e.ttl != nil && e.ttl.Revision > m.rev {
			m.ttl, m.rev = e.ttl.TTL, e.ttl.Revision
		}
		m.pass(now.UnixMilli())
		// The second replica has little left of what has expired, the third one has bad luck.
		must(t, all[1].db.Compact(ctx))
		r := all[2]
		switch rng.IntN(12) {
		case 0:
			must(t, r.db.Flush(ctx))
		case 1:
			must(t, r.db.Compact(ctx))
		case 2:
			must(t, r.db.Close())
			all[2] = open(r.mem)
		case 3:
			r.db.abandonForTest()
			all[2] = open(r.mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
			catchUp(all[2])
		case 4:
			for _, p := range r.db.partitions() {
				if err := p.db.retention.Carry(&p.Partition); err != lsm.ErrMoved {
					must(t, err)
				}
			}
		case 5: // a new replica gets what the one has that has compacted, or that has not
			all[2] = open(vfs.NewMem())
			moveReplica(t, all[rng.IntN(2)].c, all[2].c)
			must(t, r.db.Close())
		case 6: // a backup has come as far
			var b bytes.Buffer
			_, err := r.db.Backup(ctx, &b, nil)
			must(t, err)
			copied := restoredCopy(t, options(nil), b.Bytes())
			c, err := copied.Container("docs")
			must(t, err)
			check(&replica{db: copied, c: c}, "a backup")
			if got, want := digests(&replica{c: c}), digests(r); got != want {
				t.Fatalf("seed %d, entry %d: the backup\n%s\nthe replica\n%s", seed, i+1, got, want)
			}
			must(t, copied.Close())
		case 7:
			if parts := all[0].c.Partitions(); len(parts) < 4 {
				cut := parts[rng.IntN(len(parts))]
				at := partmap.Midpoint(all[0].c.partition(cut.ID).Range)
				for _, r := range all {
					for _, p := range r.c.Partitions() {
						if p.Min == cut.Min {
							job, err := r.c.Split(ctx, p.ID, &SplitOptions{At: at.String()})
							must(t, err)
							must(t, job.Wait(ctx))
						}
					}
				}
			}
		}
		for j, r := range all {
			check(r, fmt.Sprintf("replica %d", j))
		}
		want := digests(all[0])
		for j, r := range all {
			if got := digests(r); got != want {
				t.Fatalf("seed %d, entry %d: replica %d\n%s\nthe first one\n%s", seed, i+1, j, got, want)
			}
		}
	}
}
