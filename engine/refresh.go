package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/epoch"
)

// A read-only store shows states of its directory, one after the other. Each state is a DB of
// its own, with its own memtables, files and pins: that of Open, and one for each Refresh. The
// DB and the Containers that the caller has lead new calls to the newest state. What is under
// way stays in the state in which it began, which is closed when nothing is under way there.

// renewal is what the DB of Open knows of the states after it.
type renewal struct {
	newest     atomic.Pointer[DB] // nil: the DB itself
	refreshing sync.Mutex         // held by a Refresh
	mu         sync.Mutex
	closed     bool
	handles    map[uint32]*Container // by id: the Container that the caller has
	ending     sync.WaitGroup        // goroutines that close former states
	former     map[*DB]bool          // states that are not closed yet
}

// now returns the newest state of the store.
func (db *DB) now() *DB {
	if newest := db.renewal.newest.Load(); newest != nil {
		return newest
	}
	return db
}

// now returns the container in the newest state of the store.
func (c *Container) now() *Container {
	if newest := c.renewed.Load(); newest != nil {
		return newest
	}
	return c
}

// outlived says whether a call on a container failed because a Refresh has replaced its state.
func (c *Container) outlived(state *Container, err error) bool {
	return err != nil && errors.Is(err, ErrClosed) && c.now() != state
}

// inNewest calls begin with the container in the newest state, again if a Refresh comes between.
func inNewest[T any](c *Container, begin func(*Container) (T, error)) (T, error) {
	for {
		state := c.now()
		out, err := begin(state)
		if !c.outlived(state, err) {
			return out, err
		}
	}
}

// enterNewest begins a call in the newest state of the store.
func (db *DB) enterNewest(ctx context.Context) (state *DB, call epoch.Guard, err error) {
	for {
		state = db.now()
		if call, err = state.enter(ctx); !errors.Is(err, ErrClosed) || state == db.now() {
			return state, call, err
		}
	}
}

// beginLoop begins a loop over items: in the state of a snapshot, or else in the newest one.
func (c *Container) beginLoop(s *Snapshot) (state *Container, loop epoch.Guard, err error) {
	if s != nil {
		return c, c.db.loops.Enter(), nil
	}
	for {
		state = c.now()
		loop = state.db.loops.Enter()
		if !state.db.draining.Load() {
			return state, loop, nil
		}
		loop.Leave()
		if c.now() == state {
			return nil, epoch.Guard{}, ErrClosed
		}
	}
}

// Refresh makes a read-only store show what its writer has made durable since: what an Open
// would show now. It takes as long as an Open. When it returns nil, later calls on the DB and
// on its Containers see the new state, new containers included; a Container that was dropped
// returns ErrClosed. After an error the store shows what it showed before.
//
// What is under way sees the state in which it began, to its end: loops, transactions, and
// snapshots until they are closed. As long as something is under way in a state, its memory
// and its files stay: a store may need MemoryBudget, MaxOpenFiles and MaxMappedFiles once for
// each state. A Refresh holds up no reader. Stats and Metrics are of the newest state, their
// counters begin at 0 with it.
//
// Errors: those of Open, ErrNotStore also if the directory has another store now, ErrClosed, ErrInvalid for a store that
// is open for writing.
func (db *DB) Refresh(ctx context.Context) error {
	if !db.opts.ReadOnly {
		return invalidf("Refresh: the store is open for writing, and shows all that it has")
	}
	r := &db.renewal
	r.refreshing.Lock()
	defer r.refreshing.Unlock()
	if r.closed {
		return ErrClosed
	}
	next, err := openWith(ctx, db.dir, db.opts, false)
	if err != nil {
		return err
	}
	if next.env.StoreID != db.env.StoreID {
		return errors.Join(fmt.Errorf("refresh %s: it has another store now: %w", db.dir, ErrNotStore), next.closeState())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := db.now()
	if r.handles == nil {
		r.handles, r.former = make(map[uint32]*Container), make(map[*DB]bool)
		for _, c := range db.containers.Load().All() {
			r.handles[c.id] = c
		}
	}
	present := make(map[uint32]*Container)
	for _, c := range next.containers.Load().All() {
		if present[c.id] = r.handles[c.id]; !present[c.id].is(c) {
			present[c.id] = c
		}
	}
	r.newest.Store(next)
	for id, handle := range r.handles {
		if present[id] != handle {
			last := handle.now() // scans pin sequences in the state that its partitions belong to
			gone := &Container{db: last.db, id: id, name: last.name, def: last.def, keys: last.keys}
			gone.routing.Store(last.routing.Load())
			gone.family.Indexing.Store(last.family.Indexing.Load()) // this and what follows is for Def
			gone.throughput.Store(last.throughput.Load())
			gone.life.Init(last.life.Follows(), last.life.Default())
			gone.limits.Set(last.limits.Rules(), 0)
			gone.dropped.Store(true)
			handle.renewed.Store(gone)
		}
	}
	for _, c := range next.containers.Load().All() {
		if handle := present[c.id]; handle != c {
			handle.renewed.Store(c)
		}
	}
	r.handles = present
	r.former[old] = true
	r.ending.Go(func() {
		if err := old.shutdown(context.Background()); err != nil {
			old.backgroundError("close a former state of the store", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.former, old)
	})
	return nil
}

// end says that there will be no further state, and returns those that are not closed, the
// newest last.
func (r *renewal) end(db *DB) (states []*DB) {
	r.refreshing.Lock()
	defer r.refreshing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for state := range r.former {
		states = append(states, state)
	}
	return append(states, db.now())
}

// handle returns the Container that the caller has for one of the newest state.
func (r *renewal) handle(c *Container) *Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.handles[c.id]; h.is(c) {
		return h
	}
	return c
}

// is says whether the container of a caller, which may be nil, is that of another state. A number that was given out again, since
// the store was restored, does not tell it.
func (c *Container) is(of *Container) bool { return c != nil && c.name == of.name }
