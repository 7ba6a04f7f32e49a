package cleavetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Store is a store in memory, with the machine that it runs on. It is safe for concurrent
// use.
type Store struct {
	t     testing.TB
	base  engine.Options
	env   testenv.Env
	clock clock
	may   bool // AllowLeaks

	opening sync.Mutex // held while DB opens the store
	dying   sync.WaitGroup
	faults  faults

	mu     sync.Mutex
	life   *life
	db     *engine.DB // that DB or Open has opened; nil: none
	things map[*thing]bool
	opened int           // things so far
	ended  chan struct{} // closed, and made anew, when a thing has ended
}

// Option is an option of New.
type Option func(*Store)

// WithOptions sets the options with which the store is opened. Sizes that are zero are
// small ones: 16 MiB of memory, files of 256 KiB.
func WithOptions(o engine.Options) Option { return func(s *Store) { s.base = o } }

// At sets the clock to a time and has it stand still until Advance or SetClock turns it.
func At(now time.Time) Option { return func(s *Store) { s.clock.stop(now) } }

// NoBackground switches background work off: memtables are flushed and files compacted
// only by DB.Flush, DB.Compact and DB.Close. The calls that reach the disk are then the
// same in each run, if one goroutine makes all calls: see CrashAt.
func NoBackground() Option { return func(s *Store) { s.env.Manual = true } }

// AllowLeaks has the end of the test log what is left open, and not fail.
func AllowLeaks() Option { return func(s *Store) { s.may = true } }

// Sizes that suit a test.
const (
	memoryBudget = 16 << 20
	fileBytes    = 256 << 10
)

// New returns a store without containers, not yet opened. It is closed and checked at the
// end of the test.
func New(t testing.TB, opts ...Option) *Store {
	t.Helper()
	s := &Store{t: t, things: make(map[*thing]bool), ended: make(chan struct{})}
	s.clock.start()
	s.env = testenv.Env{
		FS: s.disk, Clock: s.clock.now, Steady: s.clock.elapsed,
		Opened: s.storeOpened, Watch: s.watch,
	}
	for _, o := range opts {
		o(s)
	}
	if s.clock.stands {
		s.env.Pause = s.Advance
	}
	if s.base.MemoryBudget == 0 {
		s.base.MemoryBudget = memoryBudget
	}
	if s.base.LogFileBytes == 0 {
		s.base.LogFileBytes = fileBytes
	}
	if s.base.LogBytes == 0 {
		s.base.LogBytes = 8 * s.base.LogFileBytes
	}
	if s.base.FileBytes == 0 {
		s.base.FileBytes = fileBytes
	}
	s.life = newLife(s, vfs.NewMem())
	t.Cleanup(s.end)
	return s
}

// Dir returns a name for the directory of the store, for engine.Open. Nothing is there on
// the system's disk.
func (s *Store) Dir() string { return "cleavetest" }

// Options returns the options with which engine.Open opens the store, for a program that
// opens its store by itself: they say which file system and clock are used. They hold for
// each open, also after a crash. Further fields may be set.
//
//	service, err := orders.Open(s.Dir(), s.Options())
//
// A second open beside the first one gets ErrLocked, unless it is ReadOnly. The program
// closes what it has opened; the end of the test checks that it has.
func (s *Store) Options() *engine.Options {
	o := s.base
	testenv.Put(&o, &s.env)
	return &o
}

// DB returns the open store. It opens the store if it is not: at first, after Close, Kill and
// CutPower, and after the program has closed what DB returned. If that fails, the test ends: Open returns the error.
func (s *Store) DB() *engine.DB {
	s.t.Helper()
	db, err := s.Open(context.Background())
	if err != nil {
		s.t.Fatalf("cleavetest: %v", err)
	}
	return db
}

// Open is DB that returns the error of engine.Open: ErrCorrupt, say, after Damage.
func (s *Store) Open(ctx context.Context) (*engine.DB, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.mu.Lock()
	db, on := s.db, s.life
	s.mu.Unlock()
	if db != nil && !db.Closed() {
		return db, nil
	}
	db, err := engine.Open(ctx, s.Dir(), s.Options())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == on {
		s.db = db
	} else { // a crash came in between
		s.dying.Go(func() { db.Close() })
	}
	return db, nil
}

// Container returns a container of the store with a partition key of the given paths,
// made if it is not there. If that fails, the test ends.
func (s *Store) Container(name string, partitionKey ...string) *engine.Container {
	s.t.Helper()
	c, err := s.DB().EnsureContainer(context.Background(), name, engine.ContainerDef{PartitionKey: partitionKey})
	if err != nil {
		s.t.Fatalf("cleavetest: %v", err)
	}
	return c
}

// Close closes the store that DB has opened, if it is open, as a program that ends in
// order. If that fails, the test ends. The next DB opens the store again.
func (s *Store) Close() {
	s.t.Helper()
	s.mu.Lock()
	db := s.db
	s.db = nil
	s.mu.Unlock()
	if db == nil {
		return
	}
	if err := db.Close(); err != nil {
		s.t.Fatalf("cleavetest: close the store: %v", err)
	}
}

// disk returns the file system as it is now.
func (s *Store) disk() vfs.FS {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// present returns the present life of the machine.
func (s *Store) present() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}
