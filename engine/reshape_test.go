package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// crowd is a set of items, each written by one goroutine with rising values,
// that are read while their partitions are split, merged and moved.
type crowd struct {
	t     *testing.T
	db    *DB
	c     *Container
	mem   vfs.FS
	acked []atomic.Int64 // newest value that was acknowledged, of each item
	done  atomic.Bool
}

const crowdKeys = 23

func (c *crowd) name(i int) (PartitionKey, string, string) {
	k := fmt.Sprintf("k%d", i%crowdKeys)
	return StringKey(k), k, fmt.Sprintf("i%d", i)
}

func (c *crowd) document(i int, value int64) []byte {
	_, k, id := c.name(i)
	return fmt.Appendf(nil, `{"id":%q,"k":%q,"pad":"some text that takes space","v":%d}`, id, k, value)
}

// value returns the value of an item, 0 if there is none.
func (c *crowd) value(it Item, err error) int64 {
	if errors.Is(err, ErrNotFound) {
		return 0
	}
	if err != nil {
		c.t.Error(err)
		c.done.Store(true)
		return 0
	}
	body := string(it.Body)
	at := len(body) - 2
	for body[at] != ':' {
		at--
	}
	n, err := strconv.ParseInt(body[at+1:len(body)-1], 10, 64)
	if err != nil {
		c.t.Errorf("%s: %v", body, err)
	}
	return n
}

func (c *crowd) failf(format string, args ...any) {
	c.t.Errorf(format, args...)
	c.done.Store(true)
}

// write writes the items of one goroutine, and reads back what it wrote.
func (c *crowd) write(rng *rand.Rand, items []int) {
	ctx := context.Background()
	for !c.done.Load() {
		i := items[rng.IntN(len(items))]
		key, _, id := c.name(i)
		value := c.acked[i].Load() + 1
		o := &WriteOptions{Durability: []Durability{Synced, Buffered}[rng.IntN(2)]}
		if rng.IntN(3) == 0 && value > 1 {
			it, err := c.c.Read(ctx, key, id)
			if err != nil {
				c.failf("read: %v", err)
				return
			}
			o.IfMatch = it.ETag
		}
		if _, err := c.c.Upsert(ctx, c.document(i, value), o); err != nil {
			c.failf("write: %v", err)
			return
		}
		if got := c.value(c.c.Read(ctx, key, id)); got != value {
			c.failf("item %d: %d after %d was acknowledged", i, got, value)
			return
		}
		c.acked[i].Store(value)
	}
}

// load writes the items of one goroutine in batches.
func (c *crowd) load(rng *rand.Rand, items []int) {
	for value := int64(1); !c.done.Load(); value++ {
		_, err := c.c.Load(context.Background(), func(yield func([]byte, error) bool) {
			for _, i := range items {
				if !yield(c.document(i, value), nil) {
					return
				}
			}
		}, &LoadOptions{BatchBytes: 1 + rng.Int64N(2000), Durability: Buffered})
		if err != nil {
			c.failf("load: %v", err)
			return
		}
		for _, i := range items {
			c.acked[i].Store(value)
		}
	}
}

// read reads single items, scans and snapshots, none of which may be older than
// what was acknowledged before it began.
func (c *crowd) read(rng *rand.Rand) {
	ctx := context.Background()
	least := make([]int64, len(c.acked))
	note := func() {
		for i := range c.acked {
			least[i] = c.acked[i].Load()
		}
	}
	seen := func(items func(func(Item, error) bool)) map[int]int64 {
		found := make(map[int]int64)
		for it, err := range items {
			v := c.value(it, err)
			if c.done.Load() {
				return found
			}
			i, _ := strconv.Atoi(it.ID[1:])
			if _, twice := found[i]; twice {
				c.failf("item %d comes twice", i)
			}
			found[i] = v
		}
		return found
	}
	for !c.done.Load() {
		note()
		switch rng.IntN(5) {
		case 0:
			for range 20 {
				i := rng.IntN(len(c.acked))
				key, _, id := c.name(i)
				if got := c.value(c.c.Read(ctx, key, id)); got < least[i] {
					c.failf("item %d: read %d, acknowledged %d", i, got, least[i])
				}
			}
		case 1:
			n := rng.IntN(crowdKeys)
			found := seen(c.c.Scan(ctx, StringKey(fmt.Sprintf("k%d", n)), IDRange{}, &ScanOptions{Reverse: rng.IntN(2) == 0}))
			for i := n; i < len(least) && !c.done.Load(); i += crowdKeys {
				if found[i] < least[i] {
					c.failf("item %d: scanned %d, acknowledged %d", i, found[i], least[i])
				}
			}
		case 2:
			found := seen(c.c.ScanAll(ctx, &ScanOptions{Reverse: rng.IntN(2) == 0}))
			for i := range least {
				if found[i] < least[i] && !c.done.Load() {
					c.failf("item %d: scanned %d, acknowledged %d", i, found[i], least[i])
				}
			}
		case 4:
			// A reader beside the writer sees all that was acknowledged.
			db, err := Open(ctx, "mem", &Options{ReadOnly: true, fs: c.mem})
			if err != nil {
				c.failf("open for reading: %v", err)
				return
			}
			other, err := db.Container("c")
			if err != nil {
				c.failf("open for reading: %v", err)
				return
			}
			found := seen(other.ScanAll(ctx, nil))
			for i := range least {
				if found[i] < least[i] && !c.done.Load() {
					c.failf("item %d: a reader scanned %d, acknowledged %d", i, found[i], least[i])
				}
			}
			db.Close()
		case 3:
			s, err := c.c.Snapshot(ctx)
			if err != nil {
				c.failf("snapshot: %v", err)
				return
			}
			found := seen(s.ScanAll(ctx, nil))
			for n := 0; n < 20 && !c.done.Load(); n++ {
				i := rng.IntN(len(c.acked))
				key, _, id := c.name(i)
				if got := c.value(s.Read(ctx, key, id)); got != found[i] || got < least[i] {
					c.failf("item %d in a snapshot: %d, then %d; acknowledged %d", i, found[i], got, least[i])
				}
			}
			s.Close()
		}
	}
}

// reshape splits, merges and moves, n times in all.
func (c *crowd) reshape(rng *rand.Rand, n int) {
	ctx := context.Background()
	defer c.done.Store(true)
	for n > 0 && !c.done.Load() {
		parts := c.c.Partitions()
		i := rng.IntN(len(parts))
		var job *ReshapeJob
		var err error
		switch verb := rng.IntN(3); {
		case verb == 0 && len(parts) < 6 || len(parts) == 1:
			job, err = c.c.Split(ctx, parts[i].ID, nil)
		case verb == 1:
			i = min(i, len(parts)-2)
			job, err = c.c.MoveBoundary(ctx, parts[i].ID, parts[i+1].ID, "")
		default:
			i = min(i, len(parts)-2)
			job, err = c.c.Merge(ctx, parts[i].ID, parts[i+1].ID)
		}
		if err == nil && rng.IntN(8) == 0 {
			job.Cancel()
		}
		if err == nil {
			err = job.Wait(ctx)
		}
		if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, context.Canceled) {
			c.failf("%+v: %v", job.Progress(), err)
			return
		}
		if err == nil {
			n--
			if testing.Verbose() {
				c.t.Logf("%+v", job.Progress())
			}
		}
	}
}

// TestReshapeConcurrent reads, writes and loads while partitions are replaced.
func TestReshapeConcurrent(t *testing.T) {
	seed := newSeed(t)
	jobs := amount(15, 8, 8)
	rng := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	mem := vfs.NewMem()
	o := &Options{
		MemoryBudget: minMemoryBudget, LogFileBytes: minLogFileBytes, LogBytes: 8 * minLogFileBytes, FileBytes: 16 << 10, fs: mem, memtableBytes: 64 << 10,
		Events: &EventListener{BackgroundError: func(err error) { t.Errorf("in the background: %v", err) }},
	}
	db, c := openStore(t, o)
	all := &crowd{t: t, db: db, c: c, mem: mem, acked: make([]atomic.Int64, 300)}
	var wg sync.WaitGroup
	for w := range 4 {
		var items []int
		for i := w; i < len(all.acked); i += 4 {
			items = append(items, i)
		}
		if w == 3 {
			wg.Go(func() { all.load(rng(uint64(w)), items) })
		} else {
			wg.Go(func() { all.write(rng(uint64(w)), items) })
		}
	}
	for r := range 2 {
		wg.Go(func() { all.read(rng(10 + uint64(r))) })
	}
	wg.Go(func() { all.reshape(rng(20), jobs) })
	wg.Wait()
	check := func() {
		t.Helper()
		n := 0
		for it, err := range all.c.ScanAll(context.Background(), nil) {
			i, _ := strconv.Atoi(it.ID[1:])
			if got, want := all.value(it, err), all.acked[i].Load(); got != want {
				t.Errorf("item %d: %d at the end, acknowledged %d", i, got, want)
			}
			n++
		}
		for i := range all.acked {
			if all.acked[i].Load() > 0 {
				n--
			}
		}
		if n != 0 {
			t.Errorf("%d items too many", n)
		}
		for f, err := range all.db.Verify(context.Background()) {
			t.Errorf("verify: %v, %v", f, err)
		}
	}
	if t.Failed() {
		return
	}
	check()
	next := mem.Kill()
	db.Close()
	o.fs = next
	db, err := Open(context.Background(), "mem", o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all.db = db
	all.c, _ = db.Container("c")
	check()
}
