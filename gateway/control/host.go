package control

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/cleavestore/cleave/console"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
)

// Options configure a Host. The zero value is usable; Open works on a copy.
type Options struct {
	// Gateway are the options of the protocol. Clock, SignatureClock and Before are the Host's.
	Gateway gateway.Options
	// Engine are the options of the store.
	Engine engine.Options
	// Key, if not "", is what a request to the control port must show: as a bearer token, or as
	// the password of basic authentication.
	Key string
	// Hosts, if not nil, are the Host headers that the control port serves, ports included: a
	// guard against pages elsewhere that reach it by a name of their own. console.LocalHosts
	// returns those of a local address.
	Hosts []string
	// Uncontrolled: nobody will use Control. Then nothing stands between requests and the store, and
	// the clock is the system's.
	Uncontrolled bool
	// Title stands at the top of the page. "": Gateway.
	Title string
}

// Host serves a store to clients, and to who controls it. It is safe for concurrent use. It is an
// http.Handler of the protocol.
type Host struct {
	o      Options
	place  place
	clock  *clock
	faults faults
	jobs   jobs
	events console.Events
	routes *http.ServeMux

	changing sync.Mutex // held while a checkpoint is made, and over a return
	closing  sync.WaitGroup

	gate gate
	// Read by who has entered the gate, changed while it is shut.
	db     *engine.DB
	plain  *gateway.Handler
	quirky *gateway.Handler
	page   http.Handler
}

// Open opens the store in a directory, which is made if it is absent; "": in memory, gone after
// Close. Close the Host when no request is under way any more.
func Open(ctx context.Context, dir string, o *Options) (*Host, error) {
	h := &Host{clock: newClock()}
	if o != nil {
		h.o = *o
	}
	if h.o.Gateway.Logger == nil {
		h.o.Gateway.Logger = slog.New(slog.DiscardHandler)
	}
	if !h.o.Uncontrolled {
		h.o.Gateway.Clock, h.o.Gateway.SignatureClock, h.o.Gateway.Before = h.clock.now, time.Now, h.faults.before
		h.o.Engine.Events = h.events.Listener(h.o.Engine.Events)
	}
	if dir == "" {
		h.place = newMemory(&h.o.Engine, h.clock)
	} else {
		d, err := newDisk(dir, &h.o.Engine, h.clock, h.o.Uncontrolled)
		if err != nil {
			return nil, err
		}
		h.place = d
	}
	db, err := h.place.open(ctx)
	if err != nil {
		return nil, err
	}
	plain, err := gateway.New(ctx, db, &h.o.Gateway)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	h.serve(db, plain)
	h.route()
	return h, nil
}

// serve makes a store the one that is served. The gate is shut, or nobody knows h yet.
func (h *Host) serve(db *engine.DB, plain *gateway.Handler) {
	h.db, h.plain, h.quirky = db, plain, plain.WithQuirks()
	title := h.o.Title
	if title == "" {
		title = "Gateway"
	}
	h.page = console.Handler(db, &console.Options{Title: title, Events: &h.events, AllowSplit: true, Panels: h.panels()})
}

// Use returns the store that is served. It stays the one until release is called: a return to a
// checkpoint waits for that.
func (h *Host) Use(ctx context.Context) (db *engine.DB, release func(), err error) {
	if err = h.gate.enter(ctx); err != nil {
		return nil, nil, err
	}
	return h.db, h.gate.leave, nil
}

// ServeHTTP implements http.Handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.gate.enter(r.Context()) != nil {
		return // the client has gone
	}
	defer h.gate.leave()
	h.plain.ServeHTTP(w, r)
}

// Quirks returns a handler of the protocol as gateway.Handler.WithQuirks does.
func (h *Host) Quirks() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.gate.enter(r.Context()) != nil {
			return // the client has gone
		}
		defer h.gate.leave()
		h.quirky.ServeHTTP(w, r)
	})
}

// Checkpoint keeps the state of the whole store under a name. Requests go on meanwhile. It has
// what was acknowledged before the call.
func (h *Host) Checkpoint(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	h.changing.Lock()
	defer h.changing.Unlock()
	db, release, err := h.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	return h.place.keep(ctx, db, name)
}

// Return takes the whole store back to a checkpoint, which stays. It waits for the requests under
// way; those that come meanwhile wait, and are carried out on the store as it was then. What was
// written since is lost. Splits and merges under way end with it. The clock, faults and the
// sequences of session tokens go on. After an error the store is as it was.
func (h *Host) Return(ctx context.Context, name string) (err error) {
	if err = checkName(name); err != nil {
		return err
	}
	h.changing.Lock()
	defer h.changing.Unlock()
	h.closing.Wait() // the one before
	if err = h.place.prepare(ctx, name); err != nil {
		return err
	}
	if err = h.gate.close(ctx); err != nil {
		return err
	}
	defer h.gate.open()
	ctx = context.WithoutCancel(ctx)
	former := h.db
	if closeFirst {
		err = former.Close()
	}
	undo, done, failed := h.place.turn()
	if err = errors.Join(err, failed); err != nil {
		return h.resume(ctx, err)
	}
	db, err := h.place.open(ctx)
	if err != nil {
		return h.resume(ctx, errors.Join(err, undo()))
	}
	plain, err := h.plain.Other(ctx, db)
	if err != nil {
		return h.resume(ctx, errors.Join(err, db.Close(), undo()))
	}
	h.serve(db, plain)
	h.closing.Go(func() {
		if failed := errors.Join(former.Close(), done()); failed != nil {
			h.o.Gateway.Logger.Warn("the store before a return was not removed", "error", failed)
		}
	})
	return nil
}

// resume serves the former store again after a return has failed with err.
func (h *Host) resume(ctx context.Context, err error) error {
	if !h.db.Closed() {
		return err
	}
	db, failed := h.place.open(ctx)
	if failed != nil {
		return errors.Join(err, failed)
	}
	plain, failed := h.plain.Other(ctx, db)
	if failed != nil {
		return errors.Join(err, failed, db.Close())
	}
	h.serve(db, plain)
	return err
}

// RemoveFault removes a fault that was planted; with id 0 all.
func (h *Host) RemoveFault(id int64) { h.faults.remove(id) }

// Close closes the store.
func (h *Host) Close() error {
	h.changing.Lock()
	defer h.changing.Unlock()
	h.closing.Wait()
	return h.db.Close()
}
