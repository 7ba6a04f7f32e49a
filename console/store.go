package console

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// store is the store that the page is about. It may be replaced by a newer state of
// itself.
type store struct {
	refresh func(context.Context) (*engine.DB, error)
	every   time.Duration

	mu         sync.Mutex
	now        *opened
	refreshed  time.Time // when the last refresh ended
	refreshing bool
	err        error // of the last refresh
}

// opened is a store with the number of its users.
type opened struct {
	db    *engine.DB
	users int
	own   bool // to be closed after its last user
	old   bool // another one took its place
}

func newStore(db *engine.DB, refresh func(context.Context) (*engine.DB, error), every time.Duration) *store {
	if every <= 0 {
		refresh = nil
	}
	return &store{refresh: refresh, every: every, now: &opened{db: db}, refreshed: time.Now()}
}

// use returns the store for one request, which calls release at its end.
func (s *store) use() (db *engine.DB, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.now
	o.users++
	return o.db, func() { s.release(o) }
}

func (s *store) release(o *opened) {
	s.mu.Lock()
	o.users--
	unused := o.users == 0 && o.old && o.own
	s.mu.Unlock()
	if unused {
		_ = o.db.Close() // it was only read
	}
}

// renew replaces the store by a newer state if it is time to. Only one caller does so; the
// others go on with what there is. A failure leaves the store as it is.
func (s *store) renew(ctx context.Context) {
	s.mu.Lock()
	if s.refresh == nil || s.refreshing || time.Since(s.refreshed) < s.every {
		s.mu.Unlock()
		return
	}
	s.refreshing = true
	s.mu.Unlock()
	begun := time.Now()
	db, err := s.refresh(context.WithoutCancel(ctx)) // it is for everybody
	s.mu.Lock()
	s.refreshing, s.err = false, err
	s.refreshed = time.Now().Add(10 * time.Since(begun)) // a slow one comes less often
	before := s.now
	if err != nil || db == before.db {
		s.mu.Unlock()
		return
	}
	s.now, before.old = &opened{db: db, own: true}, true
	unused := before.users == 0 && before.own
	s.mu.Unlock()
	if unused {
		_ = before.db.Close() // it was only read
	}
}

// problem returns why the last refresh failed.
func (s *store) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return ""
	}
	return s.err.Error()
}

// container calls fn with the container that a request names.
func (h *handler) container(r *http.Request, name string, fn func(*engine.DB, *engine.Container) (any, error)) (any, error) {
	db, release := h.store.use()
	defer release()
	if db.Closed() {
		return nil, engine.ErrClosed
	}
	c, err := db.Container(name)
	if err != nil {
		return nil, err
	}
	return fn(db, c)
}
