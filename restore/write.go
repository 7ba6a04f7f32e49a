package restore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// ConflictError says that two items cannot both be in the container, since they have the same
// values of a unique key. It wraps the *engine.UniqueKeyError, and so matches ErrUniqueKey.
type ConflictError struct {
	ID     string   // of the item of the backup that was refused
	Holder string   // id of the item that has the values
	Paths  []string // of the unique key
	Err    error
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("item %q of the backup and item %q have the same values at %s, which is a unique key of the container",
		e.ID, e.Holder, strings.Join(e.Paths, ", "))
}

// Unwrap returns the error of the engine.
func (e *ConflictError) Unwrap() error { return e.Err }

// looked bounds how many ids one of several transactions goes through, so that none lasts
// long where most items are equal.
const looked = 4096

// write does step 3. What is written is counted anew.
func (s *session) write() error {
	s.differing = s.result.changes()
	s.progress.Total = s.differing
	r := &s.result
	deletes := r.Deleted > 0
	r.Created, r.Replaced, r.Deleted, r.Bytes = 0, 0, 0, 0
	s.evicted = make(map[string]bool)
	if r.Atomic {
		t := transaction{s: s, puts: true, whole: true}
		err := t.run()
		if err != nil || t.end {
			return err
		}
		// Another writer has added so much that it does not fit any more: this part is done.
		r.Atomic = false
	}
	for _, puts := range []bool{false, true} {
		if !puts && !deletes {
			continue
		}
		for after, end := "", false; !end; {
			t := transaction{s: s, after: after, puts: puts}
			if err := t.run(); err != nil {
				return err
			}
			after, end = t.last, t.end
		}
	}
	return nil
}

// transaction makes the container equal to the backup in a range of ids.
type transaction struct {
	s     *session
	after string   // the ids behind this one
	puts  bool     // false: items that the backup does not have are deleted, and no more
	whole bool     // as many ids as fit
	most  int      // changes, at most; 0: as many as fit
	evict []string // ids to delete first: they have values that are needed

	// Of the newest try:
	last    string // ids up to this one are equal
	end     bool   // there are none behind it
	written int
	done    Result
	large   *large // an item that fits into no transaction; nil: there was none
	lead    string // ids behind after and up to this one were equal before the first change
	changed string // the item that was changed last
}

// large is an item that is too large for a transaction.
type large struct {
	want, have *engine.Item
	err        error // what the transaction said
}

// tries bounds how often an item that is written alone meets another writer.
const tries = 16

// run carries out the transaction.
func (t *transaction) run() error {
	s := t.s
	for try := 0; ; {
		err := s.patiently(func() error {
			return s.to.Update(s.ctx, s.key, t.try)
		})
		if errors.Is(err, engine.ErrConflict) && s.sameDefault() == nil {
			if err = t.shorten(err); err != nil {
				return err
			}
			continue
		}
		if err == nil && t.large != nil {
			err = s.patiently(t.writeLarge)
		}
		if taken, ok := errors.AsType[*engine.UniqueKeyError](err); ok {
			if err = t.makeRoom(taken); err != nil {
				return err
			}
			continue
		}
		if t.large != nil && (errors.Is(err, engine.ErrExists) || errors.Is(err, engine.ErrPrecondition) || errors.Is(err, engine.ErrNotFound)) {
			if try++; try == tries {
				return fmt.Errorf("%w: item %q: %w", engine.ErrConflict, t.large.want.ID, err)
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, id := range t.evict {
			s.evicted[id] = true
		}
		s.result.Created += t.done.Created
		s.result.Replaced += t.done.Replaced
		s.result.Deleted += t.done.Deleted
		s.result.Bytes += t.done.Bytes
		s.progress.Items += t.done.changes()
		s.tell()
		return nil
	}
}

// shorten has the next try change fewer items, since other writers were faster. One that they
// change again and again then holds up no other one.
func (t *transaction) shorten(err error) error {
	if t.most == 1 && t.after == t.lead {
		return fmt.Errorf("item %q: %w", t.changed, err)
	}
	t.after, t.most = t.lead, max(1, int(t.done.changes()/2))
	return nil
}

// makeRoom has the next try delete the item that has a value of a unique key, if that item is
// still to be written.
func (t *transaction) makeRoom(taken *engine.UniqueKeyError) error {
	if !t.s.o.Replace || t.end || taken.Holder <= t.last || slices.Contains(t.evict, taken.Holder) {
		return &ConflictError{ID: taken.ID, Holder: taken.Holder, Paths: taken.Paths, Err: taken}
	}
	t.evict = append(t.evict, taken.Holder)
	return nil
}

// try is the function of the transaction.
func (t *transaction) try(tx *engine.Tx) error {
	s := t.s
	t.last, t.end, t.written, t.done, t.large, t.lead = t.after, false, 0, Result{}, nil, t.after
	for _, id := range t.evict {
		if err := tx.Delete(id, nil); err == nil {
			t.written++
		} else if !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
	seen, stopped := 0, false
	err := merge(s.stored(t.after), tx.Scan(engine.IDRange{After: t.after}, nil), func(id string, want, have *engine.Item) error {
		if id > s.highest && !t.whole { // it was written since, and others may follow for ever
			return errStop
		}
		if seen++; seen > looked && !t.whole {
			stopped = true
			return errStop
		}
		if s.expired(want) {
			want = nil
		}
		kind := s.judge(want, have)
		if kind > create && !s.o.Replace {
			return fmt.Errorf("%w: item %q was written meanwhile", engine.ErrExists, id)
		}
		if kind != none && (t.puts || kind == remove) {
			err := t.write(tx, kind, id, want)
			if limit, ok := errors.AsType[*engine.LimitError](err); ok && limit.What == "batch" {
				stopped = true
				if t.written == 0 && want != nil {
					t.large = &large{want: new(*want), err: err}
					if have != nil {
						t.large.have = new(*have)
					}
				}
				return errStop
			}
			if err != nil {
				return err
			}
			if kind == create && s.evicted[id] {
				kind = replace
			}
			t.done.count(kind, want)
			t.written++
			t.changed = id
			stopped = int(t.done.changes()) == t.most
		}
		if t.last = id; t.done == (Result{}) {
			t.lead = id
		}
		if stopped {
			return errStop
		}
		return nil
	})
	if err == nil {
		err = s.sameDefault()
	}
	t.end = err == nil && !stopped
	return err
}

// write makes a change.
func (t *transaction) write(tx *engine.Tx, kind change, id string, want *engine.Item) error {
	switch {
	case kind == remove:
		return tx.Delete(id, nil)
	case t.s.to.Def().Kind == engine.Opaque:
		return tx.Put(id, want.Body, t.s.options(want))
	case !t.s.random:
		return tx.Upsert(want.Body, t.s.options(want))
	case kind == create:
		return tx.Create(want.Body, t.s.options(want))
	}
	return tx.Replace(want.Body, t.s.options(want))
}

// options are those with which an item expires when it does in the backup.
func (s *session) options(want *engine.Item) *engine.WriteOptions {
	o := new(engine.WriteOptions)
	switch {
	case s.to.Def().DefaultTTL == 0, s.unsaid(want):
	case want.Expires.IsZero():
		o.TTL = engine.NoExpiry
	default:
		o.TTL = max(want.Expires.Sub(s.o.Now()), time.Millisecond)
	}
	return o
}

// writeLarge writes an item that fits into no transaction, on the condition that it is as it
// was compared.
func (t *transaction) writeLarge() (err error) {
	s, l := t.s, t.large
	o := s.options(l.want)
	kind := create
	if l.have != nil {
		kind, o.IfMatch = replace, l.have.ETag
	}
	switch {
	case s.to.Def().Kind == engine.Opaque:
		if l.have == nil && !s.o.Replace { // Put has no condition for an item that does not exist
			return fmt.Errorf("item %q is too large for a transaction, and only Options.Replace restores it: %w", l.want.ID, l.err)
		}
		_, err = s.to.Put(s.ctx, s.key, l.want.ID, l.want.Body, o)
	case l.have == nil:
		o.Key = s.key
		_, err = s.to.Create(s.ctx, l.want.Body, o)
	default:
		o.Key = s.key
		_, err = s.to.Replace(s.ctx, l.want.Body, o)
	}
	if err == nil {
		t.last = l.want.ID
		t.done.count(kind, l.want)
	}
	return err
}
