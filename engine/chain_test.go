package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
)

var (
	chainsFlag = flag.Int("chains", 0, "crash chains that TestCrashChains runs; 0: as many as an ordinary run does")
	cutsFlag   = flag.Int("cuts", 1, "power cuts at the end of each life of a crash chain, beside the one that the next life begins with")
)

// TestCrashChains runs chains of lives of one store. A life is an open, writes by
// several goroutines beside flushes, merges and splits, calls of the file system
// that fail, and an end: a close, a killed process or a power cut, at any call. The next life
// begins with what the end left, unsynced state included where only the process
// died. What each open finds must be what the writers had been promised. Other
// images of the same end are opened and left: those of more power cuts, and
// of a killed process for a reader, whose findings a power cut must not take away.
func TestCrashChains(t *testing.T) {
	n := *chainsFlag
	if n == 0 {
		n = amount(200, 30, 10) / lone(1)
	}
	seed := newSeed(t)
	images := 0
	for i := range n {
		// The first chain has the seed itself, so that one that failed runs alone.
		one := seed + uint64(i)
		c := &chain{t: t, seed: one, rng: rand.New(rand.NewPCG(one, 3)), mem: vfs.NewMem()}
		if err := c.run(); err != nil {
			t.Fatalf("chain of seed %d (-chains 1 -seed %d): %v\n%s", one, one, err, strings.Join(c.story, "\n"))
		}
		images += c.images
	}
	t.Logf("%d images", images)
}

// chain is a chain of lives.
type chain struct {
	t       testing.TB
	seed    uint64
	rng     *rand.Rand
	mem     *vfs.Mem
	writers [4]chainWriter
	story   []string // what happened, for the message of a failure
	images  int      // that lives left and that were opened
	unsure  bool     // an end may have taken acknowledged writes, and no open was checked since
}

// chainWriter writes to a logical partition of its own, one write after the
// other. mu guards past, which others look at while it writes.
type chainWriter struct {
	key  PartitionKey
	mu   sync.Mutex
	past history
}

func (c *chain) tell(format string, a ...any) { c.story = append(c.story, fmt.Sprintf(format, a...)) }

func (c *chain) run() error {
	for i := range c.writers {
		c.writers[i].key = StringKey(fmt.Sprintf("w%d", i))
	}
	for range 2 + c.rng.IntN(5) {
		if err := c.live(); err != nil {
			return err
		}
	}
	// In the end nothing fails, and a power cut after a close takes nothing.
	for range 2 {
		db, err := Open(context.Background(), "chain", testOptions(c.mem))
		if err != nil {
			return fmt.Errorf("last open: %w", err)
		}
		err = c.check(db)
		for f, verifyErr := range db.Verify(context.Background()) {
			err = errors.Join(err, fmt.Errorf("verify: %v, %w", f, verifyErr))
		}
		if err := errors.Join(err, db.Close()); err != nil {
			return err
		}
		c.mem = c.mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
	}
	c.images++ // what the first of these opens left
	return nil
}

// live is one life of the store.
func (c *chain) live() error {
	faulty := vfs.NewFaulty(c.mem)
	opts := testOptions(faulty)
	opts.manual = c.rng.IntN(3) > 0
	if c.rng.IntN(3) == 0 {
		opts.Durability = Buffered
	}
	c.tell("life: buffered %v, manual %v", opts.Durability == Buffered, opts.manual)
	ctx, over := context.WithCancel(context.Background())
	defer over()
	end := &ending{over: over}
	inOpen := c.rng.IntN(3) == 0
	if inOpen {
		c.arm(faulty, end, 1+c.rng.Int64N(60))
	}
	db, err := Open(context.Background(), "chain", opts)
	if err != nil {
		c.tell("  open: %v", err)
		if !end.met() {
			return fmt.Errorf("open: %w", err)
		}
		return c.leave(end)
	}
	if !end.come() {
		faulty.SetHook(nil)
		faulty.StopAt(0, nil)
		if end.met() {
			// A sync that fails loses what only the kernel had, and Open may go on after it: see
			// errReleased. What such an Open shows counts from here on.
			c.lower()
		}
		if err := c.check(db); err != nil {
			db.Close()
			return err
		}
		if end.met() {
			faulty.SetHook(end.fails)
		} else {
			c.arm(faulty, end, faulty.Calls()+1+c.rng.Int64N(400))
		}
	}
	// Who writes behind writes that are gone, and does not know which, has no history.
	var maintained chan struct{}
	if !c.unsure {
		maintained = c.work(ctx, db, opts.Durability != Buffered)
	}
	closed := c.rng.IntN(2) == 0 && !end.come()
	if !closed {
		end.take(c, c.mem) // the process dies here
	}
	err = db.Close()
	if maintained != nil {
		<-maintained
	}
	c.tell("  close: %v", err)
	if closed && err == nil {
		for i := range c.writers {
			p := &c.writers[i].past
			p.durable = p.kernel
		}
	}
	return c.leave(end)
}

// ending is how a life ends.
type ending struct {
	mu     sync.Mutex
	failed bool     // a call has failed
	image  *vfs.Mem // what is left, once the end has come
	killed bool     // the process died, the kernel goes on
	least  [4]int   // what had been promised by then
	cut    vfs.CrashOptions
	others []vfs.CrashOptions // of more power cuts at the end
	left   []*vfs.Mem         // by them
	found  *vfs.Mem           // by a reader after a kill; nil: there is none
	seen   [4]int             // what the reader finds at least
	lasts  [4]int             // what the power cuts leave at least
	reader bool
	over   context.CancelFunc // nobody waits for a store that fails for good
	fails  func(vfs.Call) error
}

func (e *ending) met() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed || e.image != nil
}

// come reports whether the end has come.
func (e *ending) come() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.image != nil
}

// take lets the life end now, unless it has.
func (e *ending) take(c *chain, mem *vfs.Mem) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.image != nil {
		return
	}
	e.over()
	// First what is promised, then what is there: in between both only grow.
	for i := range c.writers {
		w := &c.writers[i]
		w.mu.Lock()
		e.least[i] = w.past.least(e.killed && !e.failed) // a failed sync loses what the kernel had
		e.seen[i], e.lasts[i] = w.past.least(!e.failed), w.past.least(false)
		w.mu.Unlock()
	}
	for _, cut := range e.others {
		e.left = append(e.left, mem.Crash(cut))
	}
	if e.reader {
		e.found = mem.Kill()
	}
	if e.killed {
		e.image = mem.Kill()
	} else {
		e.image = mem.Crash(e.cut)
	}
}

// arm sets what goes wrong in a life: its end at a call, calls that fail, or
// neither.
func (c *chain) arm(faulty *vfs.Faulty, end *ending, at int64) {
	end.killed, end.cut, end.reader = c.rng.IntN(2) == 0, randomCrash(c.rng), c.rng.IntN(3) == 0
	end.others = nil
	for range *cutsFlag {
		end.others = append(end.others, randomCrash(c.rng))
	}
	mem := c.mem
	switch c.rng.IntN(6) {
	case 0:
		c.tell("  no fault, killed %v", end.killed)
		return
	case 1, 2:
		c.tell("  stops at call %d, killed %v", at, end.killed)
		faulty.StopAt(at, func() { end.take(c, mem) })
		return
	case 3, 4:
		// Between two steps of a protocol: calls of other kinds are more frequent.
		op := []vfs.Op{vfs.OpSync, vfs.OpSyncDir, vfs.OpSyncDir, vfs.OpRename, vfs.OpRemove, vfs.OpLink}[c.rng.IntN(6)]
		below := []string{"", "p/"}[c.rng.IntN(2)]
		left := c.rng.IntN(12)
		c.tell("  stops at call %d of %v in %q, killed %v", left, op, below, end.killed)
		faulty.SetHook(func(call vfs.Call) error {
			if call.Op == op && strings.HasPrefix(call.Name, below) {
				left--
			}
			if left >= 0 {
				return nil
			}
			end.take(c, mem)
			return vfs.ErrStopped
		})
		return
	}
	cause := []error{syscall.EIO, syscall.ENOSPC, syscall.EMFILE}[c.rng.IntN(3)]
	sticky := c.rng.IntN(2) == 0
	faulty.SetShortWrite(c.rng.IntN(2) == 0)
	fails := c.failing()
	after := c.rng.IntN(20)
	c.tell("  after %d such calls %v, sticky %v, killed %v", after, cause, sticky, end.killed)
	end.fails = func(call vfs.Call) error {
		if !fails(call) {
			return nil
		}
		if after--; after >= 0 || after < -1 && !sticky {
			return nil
		}
		end.mu.Lock()
		end.failed = true
		end.mu.Unlock()
		if sticky {
			end.over()
		}
		return cause
	}
	faulty.SetHook(end.fails)
}

// failing draws the calls that fail: those of a kind, or all on some files.
func (c *chain) failing() func(vfs.Call) bool {
	if kind := c.rng.IntN(3); kind < 2 {
		op := []vfs.Op{vfs.OpCreate, vfs.OpOpen, vfs.OpOpenWrite, vfs.OpRead, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir,
			vfs.OpRename, vfs.OpLink, vfs.OpRemove, vfs.OpMkdir, vfs.OpList, vfs.OpStat, vfs.OpTruncate, vfs.OpAllocate}[c.rng.IntN(15)]
		c.tell("  calls of %v fail", op)
		return func(call vfs.Call) bool { return call.Op == op }
	}
	pattern := []string{"wal/*.log", "wal/*", "p/*/*.seg*", "p/*/MANIFEST*", "p/000001/*", "MANIFEST*"}[c.rng.IntN(6)]
	c.tell("  calls on %s fail", pattern)
	return func(call vfs.Call) bool {
		matched, _ := path.Match(pattern, call.Name)
		return matched
	}
}

// leave makes what a life left the beginning of the next, after a look at what else
// it could have left.
func (c *chain) leave(end *ending) error {
	end.take(c, c.mem)
	c.mem = end.image
	c.images++
	for i := range c.writers {
		p := &c.writers[i].past
		p.kernel = end.least[i]
		p.durable = min(p.durable, p.kernel)
		certain := len(p.writes)
		if certain > 0 && p.writes[certain-1].unknown {
			certain--
		}
		c.unsure = c.unsure || p.kernel < certain
	}
	for i, image := range end.left {
		if _, err := c.visit(image, false, end.lasts); err != nil {
			return fmt.Errorf("after power cut %d of the same end: %w", i, err)
		}
	}
	if end.found == nil {
		return nil
	}
	shown, err := c.visit(end.found, true, end.seen)
	if err != nil {
		return fmt.Errorf("reader after a kill at the same end: %w", err)
	}
	if _, err = c.visit(end.found.Crash(randomCrash(c.rng)), false, shown); err != nil {
		return fmt.Errorf("after a power cut behind that reader: %w", err)
	}
	return nil
}

// written reports whether a writer has written, so that there is a store.
func (c *chain) written() bool {
	for i := range c.writers {
		if len(c.writers[i].past.writes) > 0 {
			return true
		}
	}
	return false
}

// visit opens an image, which is used for nothing else, and returns how many writes
// of each writer it has, least at least.
func (c *chain) visit(image *vfs.Mem, readOnly bool, least [4]int) (found [4]int, err error) {
	c.images++
	o := testOptions(image)
	o.ReadOnly = readOnly
	db, err := Open(context.Background(), "chain", o)
	if readOnly && errors.Is(err, ErrNotStore) && !c.written() {
		return least, nil // there may be no store yet
	}
	if err != nil {
		return found, fmt.Errorf("open: %w", err)
	}
	found, err = c.compare(db, least)
	return found, errors.Join(err, db.Close())
}

// work has all writers write, beside a goroutine that flushes, merges and splits,
// and one that reads. It ends when all have, or when they meet errors. But once the life is
// over a merge may still wait for room, until the store closes: maintained tells when it has ended.
func (c *chain) work(life context.Context, db *DB, synced bool) (maintained chan struct{}) {
	ctx, cancel := context.WithCancel(life)
	var wg, looking sync.WaitGroup
	seeds := [...]uint64{c.rng.Uint64(), c.rng.Uint64()}
	n := 5 + c.rng.IntN(40)
	size := []int{20, 400, 4_000}[c.rng.IntN(3)]
	cont, err := db.EnsureContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Index: IndexAll()})
	if err != nil {
		c.tell("  container: %v", err)
		cancel()
		return nil
	}
	if c.rng.IntN(5) == 0 {
		cancel() // nothing but an open and an end
		return nil
	}
	for i := range c.writers {
		wg.Go(func() { c.writers[i].write(cont, n, size, synced) })
	}
	looking.Go(func() { c.look(ctx, cont, rand.New(rand.NewPCG(seeds[0], 0)), synced) })
	maintained = make(chan struct{})
	go func() {
		defer close(maintained)
		c.maintain(life, ctx, db, cont, rand.New(rand.NewPCG(seeds[1], 0)))
	}()
	wg.Wait()
	cancel()
	looking.Wait()
	select {
	case <-maintained:
	case <-life.Done():
	}
	for i := range c.writers {
		p := &c.writers[i].past
		c.tell("  writer %d: %d writes, %d acknowledged, %d durable", i, len(p.writes), p.kernel, p.durable)
	}
	return maintained
}

// ids is how many items a writer has.
const chainIDs = 5

// write writes n times, until it meets an error after which the outcome may be
// unknown. It does not write behind such a write of an earlier life, which is not
// looked at if this life ended in its open: a history has one at its end only.
func (w *chainWriter) write(c *Container, n, size int, synced bool) {
	if at := len(w.past.writes); at > 0 && w.past.writes[at-1].unknown {
		return
	}
	for range n {
		w.mu.Lock()
		at := len(w.past.writes)
		this := write{container: "c", key: w.key, id: fmt.Sprintf("i%d", at%chainIDs), unknown: true}
		if at%7 != 6 || at < chainIDs {
			this.body = fmt.Sprintf(`{"id":%q,"k":"w%s","n":%d,"v":%q}`, this.id, w.key.String()[2:3], at, strings.Repeat("v", size))
		}
		w.past.writes = append(w.past.writes, this)
		w.mu.Unlock()
		var meta Meta
		var err error
		if this.body == "" {
			err = c.Delete(context.Background(), w.key, this.id, nil)
		} else {
			meta, err = c.Upsert(context.Background(), []byte(this.body), nil)
		}
		if errors.Is(err, ErrNotFound) {
			err = nil // deleted what was deleted before: as good as a write
		}
		w.mu.Lock()
		switch {
		case errors.Is(err, ErrDiskFull) && !errors.Is(err, ErrOutcomeUnknown):
			w.past.writes = w.past.writes[:at] // nothing was written
		case err == nil:
			w.past.writes[at].unknown, w.past.writes[at].etag = false, meta.ETag
			w.past.note(at, synced)
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// note says that the write at an index was acknowledged, or seen.
func (h *history) note(at int, synced bool) {
	h.kernel = max(h.kernel, at+1)
	if synced {
		h.durable = max(h.durable, at+1)
	}
}

// look reads items: what a reader has seen is never taken back by a crash of the
// process, and where writes are synced by none of the power.
func (c *chain) look(ctx context.Context, cont *Container, rng *rand.Rand, synced bool) {
	for ctx.Err() == nil {
		w := &c.writers[rng.IntN(len(c.writers))]
		it, err := cont.Read(ctx, w.key, fmt.Sprintf("i%d", rng.IntN(chainIDs)))
		if err != nil {
			continue
		}
		w.mu.Lock()
		for at := range w.past.writes {
			if w.past.writes[at].body == string(it.Body) {
				w.past.note(at, synced)
			}
		}
		w.mu.Unlock()
	}
}

// maintain does the work in the background, and what a caller may ask for, for as
// long as others write and some steps more.
func (c *chain) maintain(life, ctx context.Context, db *DB, cont *Container, rng *rand.Rand) {
	for left := 1 + rng.IntN(6); life.Err() == nil && (ctx.Err() == nil || left > 0); left-- {
		var err error
		parts := cont.Partitions()
		switch i := rng.IntN(len(parts)); rng.IntN(8) {
		case 0:
			err = db.Compact(life)
		case 1:
			var job *ReshapeJob
			if job, err = cont.Split(life, parts[i].ID, nil); err == nil {
				err = job.Wait(life)
			}
		case 2:
			var job *ReshapeJob
			if i == 0 {
				continue
			}
			if job, err = cont.Merge(life, parts[i-1].ID, parts[i].ID); err == nil {
				err = job.Wait(life)
			}
		case 3, 4:
			err = db.log.MakeSpare(life)
		case 5:
			for _, p := range db.partitions() {
				if carryErr := p.db.retention.Carry(&p.Partition); carryErr != lsm.ErrMoved {
					err = errors.Join(err, carryErr)
				}
			}
		default:
			err = db.Flush(life)
		}
		if err != nil && db.writable() != nil {
			return
		}
	}
}

// lower takes back what was promised of writes that only the kernel had.
func (c *chain) lower() {
	for i := range c.writers {
		p := &c.writers[i].past
		p.kernel = min(p.kernel, p.durable)
	}
}

// check compares an open store with what the writers were promised. What it
// finds becomes their past: the open has made it durable.
func (c *chain) check(db *DB) error {
	var least [4]int
	for i := range c.writers {
		least[i] = c.writers[i].past.kernel
	}
	there, err := c.compare(db, least)
	if err != nil {
		return err
	}
	for i, n := range there {
		p := &c.writers[i].past
		p.writes, p.durable, p.kernel = p.writes[:n], n, n
		if n > 0 {
			p.writes[n-1].unknown = false
		}
	}
	c.unsure = false
	return nil
}

// compare returns how many writes of each writer are in an open store, or an error if
// it has no state that the writers went through, or one with fewer writes than least.
func (c *chain) compare(db *DB, least [4]int) (there [4]int, err error) {
	found := make(map[PartitionKey]state)
	newest := make(map[PartitionID]ETag) // found, of each physical partition
	cont, err := db.Container("c")
	if err != nil && !errors.Is(err, ErrNoContainer) {
		return there, err
	}
	for i := range c.writers {
		w := &c.writers[i]
		found[w.key] = make(state)
		if cont == nil {
			continue
		}
		id := partitionOf(cont, w.key)
		for it, err := range cont.Scan(context.Background(), w.key, IDRange{}, nil) {
			if err != nil {
				return there, err
			}
			found[w.key][itemID{"c", w.key, it.ID}] = write{container: "c", key: w.key, id: it.ID, body: string(it.Body), etag: it.ETag}
			newest[id] = max(newest[id], it.ETag)
		}
	}
	for i := range c.writers {
		w := &c.writers[i]
		p := &w.past
		// A physical partition has a prefix of its commit order: what was
		// acknowledged before something that is there is there too.
		if cont != nil {
			for at, one := range p.writes {
				if one.etag != 0 && one.etag <= newest[partitionOf(cont, w.key)] {
					least[i] = max(least[i], at+1)
				}
			}
		}
		n, ok := p.match(found[w.key], least[i], 0)
		if !ok {
			return there, fmt.Errorf("writer %d: what is there is no state after %d to %d writes (%d durable)\n%s",
				i, least[i], len(p.writes), p.durable, p.explain(found[w.key], least[i], 0))
		}
		there[i] = n
	}
	return there, nil
}
