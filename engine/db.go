package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/cowmap"
	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/eventqueue"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/loadstats"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/logretention"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/metricset"
	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/pressure"
	"github.com/cleavestore/cleave/internal/rowcache"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/internal/seqtime"
	"github.com/cleavestore/cleave/internal/timestamp"
	"github.com/cleavestore/cleave/splitter"
	"github.com/cleavestore/cleave/wal"
)

// coldReads bounds how many reads from the device run at one time: each takes a thread.
const coldReads = 256

// chunksAhead is how many chunks of memory for memtables are made before writers
// need them.
const chunksAhead = 4

// sequenceReserve is how many sequences a store manifest reserves at a time.
const sequenceReserve = 1 << 32

// DB is an open store. It is safe for concurrent use.
type DB struct {
	env    physical.Env // what partitions use of the store
	dir    string
	opts   Options
	opened time.Time
	begun  time.Duration // Options.elapsed then, which is above 0 after a Refresh

	lock io.Closer
	log  *wal.Log // nil when read-only

	// calls guards Close, which waits until every call has left.
	calls    *epoch.Domain
	draining atomic.Bool   // Shutdown or Close was called: nothing new begins
	closing  atomic.Bool   // Close was called: what is under way ends
	loops    *epoch.Domain // scans of several partitions, and loads
	closed   chan struct{} // closed when Close is done
	close    sync.Once
	closeErr error
	unwatch  func() // tells package cleavetest that the store is closed

	containers atomic.Pointer[cowmap.Map[Container]]
	failure    atomic.Pointer[error]

	// creating is held while a container is made, structure only while the store manifest
	// then changes.
	creating    lockorder.Mutex[locks.Creating]
	checkpoints ctxlock.Mutex // held by lockFiles
	// structure serialises changes of the store manifest.
	storeManifest struct {
		lockorder.Mutex[locks.StoreManifest]
		dir   *manifest.Dir
		state manifest.Store
	}

	renewal   renewal // of a read-only store
	unsampled uint32  // loadstats.Every-1

	foundSeq   uint64      // the newest sequence when the store was opened
	dropped    wal.Dropped // what replay left out of the log
	bearing    bool        // what cannot be read is set aside: see lsm/aside.go
	short      bool        // the reserve file was removed to open the store: see internal/storedir
	unreserved atomic.Bool // upkeep makes the reserve file when there is room

	marks    seqtime.Marks
	stamps   timestamp.Source
	cold     *openfile.ColdReads
	files    *openfile.Budget
	hot      *rowcache.Cache
	counters counters
	totals   metricset.Totals
	times    timings

	retention    logretention.Keeper
	gate         pressure.Gate // admits writes to memory
	work         *scheduler.Scheduler
	events       eventqueue.Queue
	jobs         splitter.Queue[*ReshapeJob]
	reshaping    atomic.Pointer[ReshapeJob] // that was begun last
	jobsWanted   scheduler.Signal
	expiryWanted scheduler.Signal
}

// Open opens the store in dir, making it if dir is empty or absent. It takes the store's
// lock, reads the manifests, opens the files and replays the log; the time depends on
// what was not flushed, not on the size of the data. ctx bounds the opening only.
//
// Errors: ErrLocked, ErrNotStore, ErrTooNew, ErrInvalid for options, *CorruptionError and
// *IOError naming the file. A full disk is an error only if the store has no reserve file
// left, or if the room of that file does not suffice: see docs/crash-safety.md. Damage in
// single segment files and partitions is no error: see Options.RefuseDamaged. An Open
// that fails with damage has changed nothing on disk. An Open that fails later leaves a
// store that the next Open accepts, also after a crash.
func Open(ctx context.Context, dir string, opts *Options) (*DB, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, invalidf("Open: no directory is named")
	}
	db, err := openWith(ctx, dir, o, false)
	if errors.Is(err, errReleased) {
		db, err = openWith(ctx, dir, o, true)
	}
	return db, err
}

// openWith is Open with checked options. short says that the reserve file was removed to
// make room. If short is false and openWith itself has removed the reserve file, its
// error matches errReleased.
func openWith(ctx context.Context, dir string, o Options, short bool) (*DB, error) {
	db := &DB{
		dir: dir, opts: o, short: short, opened: o.clock(), begun: o.elapsed(), unsampled: loadstats.Every - 1,
		calls:  epoch.New(),
		loops:  epoch.New(),
		cold:   openfile.NewColdReads(coldReads),
		hot:    rowcache.New(o.MemoryBudget / 16),
		closed: make(chan struct{}),

		checkpoints: ctxlock.New(locks.Checkpoints{}),
	}
	db.times.calls.Init(o.SlowCall)
	db.initWork()
	db.initEnv()
	if watch.opened != nil {
		defer watch.opened(db)()
	}
	var err error
	if o.ReadOnly {
		err = db.openReadOnly(ctx)
	} else if err = db.open(ctx); errors.Is(err, ErrDiskFull) && !short && db.releaseReserve() {
		err = fmt.Errorf("%w: %w", errReleased, err)
	}
	if err != nil {
		db.env.Reclaim.Now() // memtables that a replay had flushed
		db.abandon()
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	db.events.Start(db.listenerPanicked)
	if o.env != nil {
		db.unwatch = o.env.Opened(tested{db})
	}
	return db, nil
}

// Dir returns the directory that the store was opened in.
func (db *DB) Dir() string { return db.dir }

// ReadOnly says whether the store was opened with Options.ReadOnly.
func (db *DB) ReadOnly() bool { return db.opts.ReadOnly }

// Closed says whether Close was called.
func (db *DB) Closed() bool { return db.now().closing.Load() }

// enter begins a call; the guard must be left when it ends.
func (db *DB) enter(ctx context.Context) (epoch.Guard, error) {
	return db.enterUnless(ctx, &db.draining)
}

// enterAgain is enter for a step of what is under way: Shutdown lets it come to its end.
func (db *DB) enterAgain(ctx context.Context) (epoch.Guard, error) {
	return db.enterUnless(ctx, &db.closing)
}

func (db *DB) enterUnless(ctx context.Context, over *atomic.Bool) (epoch.Guard, error) {
	if err := ctx.Err(); err != nil {
		return epoch.Guard{}, err
	}
	call := db.calls.Enter()
	if over.Load() {
		call.Leave()
		return epoch.Guard{}, ErrClosed
	}
	return call, nil
}

// enterWriting begins a call that changes the store.
func (db *DB) enterWriting(ctx context.Context) (epoch.Guard, error) {
	call, err := db.now().enter(ctx)
	if err != nil {
		return epoch.Guard{}, err
	}
	if err := db.writable(); err != nil {
		call.Leave()
		return epoch.Guard{}, err
	}
	return call, nil
}

// writable returns why the store takes no writes, nil if it does.
func (db *DB) writable() error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := db.failure.Load(); err != nil {
		return fault.Outcome(ErrFailed, *err)
	}
	return nil
}

// fail makes the store refuse writes until it is reopened. The first cause is
// kept.
func (db *DB) fail(cause error) {
	if db.failure.CompareAndSwap(nil, &cause) {
		db.opts.Logger.Error("store failed", "error", cause)
		notify(db, db.opts.Events.BackgroundError, cause)
		db.gate.Release()
		for c := range db.containers.Load().Values() {
			c.family.Followers.Signal()
		}
	}
}

// uncertain returns an error of the log or of a manifest, or nil. It fails the store if the error
// leaves open what is durable. wal.ErrStalled does not: the log still has the records
// that wait for space, and writes them once there is space.
func (db *DB) uncertain(err error) error {
	if errors.Is(err, wal.ErrStalled) {
		return err
	}
	if errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrFailed) {
		db.fail(err)
	}
	return err
}

// Close ends the store: new calls return ErrClosed, running ones are waited
// for, background work stops, memtables worth a file are flushed, the log is
// synced and its length noted. Close may be called more than once.
//
// Close does not wait for the bodies of loops, for the functions of Updates and Views, or for
// snapshots. A loop over a scan, a query or a feed shows the items that it has read ahead,
// at most 256 or those of a result that is in memory, and then ErrClosed as its last pair. A
// transaction returns ErrClosed from its next call, or from its commit, and writes nothing.
// The calls of a snapshot return ErrClosed; it need not be closed. Shutdown waits for all of
// these.
func (db *DB) Close() (err error) {
	for _, state := range db.renewal.end(db) {
		if stateErr := state.closeState(); err == nil {
			err = stateErr
		}
	}
	db.renewal.ending.Wait()
	return err
}

// closeState is Close of one state.
func (db *DB) closeState() error {
	db.close.Do(func() {
		db.draining.Store(true)
		db.closing.Store(true)
		db.gate.Release()
		db.calls.Synchronize()
		db.stopWork()
		if !db.opts.ReadOnly {
			db.closeErr = db.prepareClose()
			db.env.Reclaim.Now()
		}
		db.abandon()
		close(db.closed)
	})
	<-db.closed
	return db.closeErr
}

// prepareClose leaves on disk what the next open needs.
func (db *DB) prepareClose() error {
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	if db.writable() == nil {
		for _, p := range db.partitions() {
			if p.Version.Load().Active.Bytes() >= smallMemtable {
				p.Freeze()
			}
			for len(p.Version.Load().Frozen) > 0 {
				if err := p.FlushOldest(context.Background()); err != nil {
					note(err)
					break
				}
			}
			note(p.EndInheritance(context.Background()))
		}
		note(db.retention.Release())
		note(db.retention.Trim())
	}
	closed, err := db.log.Close()
	note(err)
	if err != nil || db.failure.Load() != nil {
		return first
	}
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	e := db.storeManifest.state.Edit()
	e.Clean, e.TimeHigh, e.Marks = true, db.stamps.Newest(), db.marks.All()
	e.LogClosed = append(e.NeededLog(), closed)
	if err := db.storeManifestLocked(e); err != nil {
		note(err)
		return first
	}
	note(wal.Cut(db.env.FS, manifest.LogDir, closed)) // only after its length was stored
	if first == nil {
		db.keepReserve()
	}
	return first
}

// smallMemtable is the size below which a memtable is not worth a file: the
// log keeps it.
const smallMemtable = scheduler.SmallMemtable

// beginLog stores that the log begins with a file, unless it begins later already, and
// drops the files before it.
func (db *DB) beginLog(first uint64) error {
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	if first <= db.storeManifest.state.LogFirst {
		return db.log.Drop(db.storeManifest.state.LogFirst) // what could not be removed before
	}
	e := db.storeManifest.state.Edit()
	e.BeginLog(first)
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	return db.log.Drop(first)
}

// storeManifestLocked makes a change of the store manifest durable. structure is locked.
func (db *DB) storeManifestLocked(e *manifest.Edit) error {
	e.LastSeq = max(e.LastSeq, db.log.LastSeq())
	return db.uncertain(db.storeManifest.dir.Edit(&db.storeManifest.state, e))
}

// reserveSequences raises the limit in the store manifest before the log
// reaches it.
func (db *DB) reserveSequences() error {
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	last := db.log.LastSeq()
	if db.storeManifest.state.SeqLimit-last > sequenceReserve/2 {
		return nil
	}
	e := db.storeManifest.state.Edit()
	e.SeqLimit = last + sequenceReserve
	return db.storeManifestLocked(e)
}

// abandon releases everything without writing.
func (db *DB) abandon() {
	for _, p := range db.partitions() {
		if v := p.Version.Load(); v != nil {
			v.Release(&db.env.Env)
		}
	}
	db.env.Reclaim.RetryRemovals()
	db.hot.Drop() // the caller may go on to refer to the DB
	db.env.Reader.ScanCache.Drop()
	if db.log != nil {
		db.log.Close() // does nothing if prepareClose has closed it
	}
	db.env.Pool.Close()
	if c, ok := db.env.FS.(io.Closer); ok && db.opts.fs == nil {
		c.Close()
	}
	if db.lock != nil {
		db.lock.Close()
	}
	if db.unwatch != nil {
		db.unwatch()
	}
	if watch.closed != nil {
		watch.closed(db)
	}
}

// watch is set by tests that count what a store holds, before any is opened.
var watch struct {
	opened func(*DB) (begun func()) // opened is called when Open begins, begun when it ends
	closed func(*DB)                // called at the end of Close, or of an Open that failed
}

// partitions returns the physical partitions of all containers.
func (db *DB) partitions() []*partition {
	var all []*partition
	for c := range db.containers.Load().Values() {
		all = append(all, c.routing.Load().parts...)
	}
	return all
}

// clockSince returns the time since start by the store's clock. It is for the durations
// in events.
func (db *DB) clockSince(start time.Time) time.Duration { return db.opts.clock().Sub(start) }
