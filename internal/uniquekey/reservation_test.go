package uniquekey

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/partmap"
)

// writing makes batches in one logical partition with the unique key /v.
type writing struct {
	*testing.T
	store *lsmtest.Store
	tree  *lsm.Tree
	keys  *Keys
	pk    partmap.Key
	epk   partmap.EPK
	now   int64
}

func newWriting(t *testing.T) *writing {
	store := lsmtest.New(t, 16<<20)
	keys, err := Compile([][]string{{"/v"}})
	if err != nil {
		t.Fatal(err)
	}
	pk := partmap.String("a")
	return &writing{T: t, store: store, tree: store.Tree(), keys: keys, pk: pk, epk: pk.EPK(), now: 1000}
}

// write is a write of a batch.
type write struct {
	id, v string // v: the value of the unique key; empty: the item is deleted
	ttl   int64
}

// begin looks up what a batch needs.
func (w *writing) begin(batch ...write) *Reservation {
	w.Helper()
	r := new(Reservation)
	r.Begin(w.keys, false, false, item.Key{Hash: w.epk.Head(), EPK: w.epk.Bytes(), PK: w.pk.Encoded()}, &w.epk)
	for i, b := range batch {
		if b.v == "" {
			r.Delete(i, []byte(b.id))
		} else {
			r.Put(i, []byte(b.id), []byte(`{"v":"`+b.v+`"}`), b.ttl)
		}
	}
	if err := r.LookUp(w.tree.Version.Load(), lifetime.Past{Expired: w.now}); err != nil {
		w.Fatal(err)
	}
	return r
}

// end checks the batch and writes it.
func (w *writing) end(r *Reservation) error {
	w.Helper()
	if _, err := r.Check(w.tree.Version.Load(), lifetime.Past{Expired: w.now}); err != nil {
		return err
	}
	for _, it := range r.items {
		v := item.Version{Modified: w.now, Body: it.body}
		if it.deletes {
			v = item.Version{Modified: w.now, Flags: item.Tombstone}
		} else if it.ttl != 0 {
			v.Expires = w.now + it.ttl
		}
		w.store.Put(w.tree, w.pk, string(it.id), v)
	}
	for i := range r.Len() {
		k, v := r.Version(i, w.now)
		w.store.Put(w.tree, w.pk, string(k.ID), v)
	}
	return nil
}

// do carries out a batch that is not refused.
func (w *writing) do(batch ...write) {
	w.Helper()
	if err := w.end(w.begin(batch...)); err != nil {
		w.Fatal(err)
	}
}

// refused carries out a batch of which operation op is refused because of holder.
func (w *writing) refused(op int, holder string, batch ...write) {
	w.Helper()
	var taken *TakenError
	if err := w.end(w.begin(batch...)); !errors.As(err, &taken) || taken.Op != op || taken.Holder != holder {
		w.Errorf("%v: %v, want operation %d to be refused because of %s", batch, err, op, holder)
	}
}

// holder returns the id of the item that has a value, empty if none has.
func (w *writing) holder(v string) string {
	id := w.keys.Claims(nil, []byte(`{"v":"`+v+`"}`))[0]
	k := lsmtest.Key(w.pk, string(id[:]))
	var ver item.Version
	if !w.tree.Version.Load().LookupMemory(k.Lookup(), lsm.MaxSequence, &ver) || ver.Deleted() {
		return ""
	}
	return string(ver.Body)
}

// TestReservation: a batch is checked as a whole, and its claims move with the values.
func TestReservation(t *testing.T) {
	w := newWriting(t)
	w.do(write{id: "1", v: "x"}, write{id: "2", v: "y"})
	w.refused(0, "1", write{id: "3", v: "x"})
	w.refused(1, "3", write{id: "3", v: "z"}, write{id: "4", v: "z"})
	w.do(write{id: "1", v: "y"}, write{id: "2", v: "x"}) // they swap
	if one, two := w.holder("y"), w.holder("x"); one != "1" || two != "2" {
		t.Errorf("y belongs to %q, x to %q", one, two)
	}
	w.refused(0, "2", write{id: "3", v: "x"}, write{id: "1"})
	w.do(write{id: "3", v: "x"}, write{id: "2"})
	if has := w.holder("x"); has != "3" {
		t.Errorf("x belongs to %q", has)
	}
	w.do(write{id: "3"})
	if has := w.holder("x"); has != "" {
		t.Errorf("x belongs to %q, which is deleted", has)
	}
}

// TestReservationOfExpired: what an expired item had is free, and who takes it deletes
// the item, so that a clock that is put back does not show two items with one value.
func TestReservationOfExpired(t *testing.T) {
	w := newWriting(t)
	w.do(write{id: "1", v: "x", ttl: 10})
	w.refused(0, "1", write{id: "2", v: "x"})
	w.now += 10
	w.do(write{id: "2", v: "x"})
	w.now -= 10
	k := lsmtest.Key(w.pk, "1")
	var v item.Version
	if !w.tree.Version.Load().LookupMemory(k.Lookup(), lsm.MaxSequence, &v) || !v.Deleted() {
		t.Errorf("the expired item: %+v, want a tombstone", v)
	}
	if has := w.holder("x"); has != "2" {
		t.Errorf("x belongs to %q", has)
	}
}

// TestReservationChanged: a batch begins anew if an item or a claim was written, or has
// expired, since it was looked up.
func TestReservationChanged(t *testing.T) {
	for what, meanwhile := range map[string]func(w *writing){
		"its item":  func(w *writing) { w.do(write{id: "1", v: "other"}) },
		"its claim": func(w *writing) { w.do(write{id: "2", v: "y"}) },
		"an expiry": func(w *writing) { w.now += 10 },
	} {
		w := newWriting(t)
		w.do(write{id: "1", v: "x", ttl: 10})
		if what == "an expiry" { // of the holder of a claim: then its item is to be deleted too
			r := w.begin(write{id: "2", v: "x"})
			meanwhile(w)
			if err := w.end(r); err != ErrChanged {
				t.Errorf("the holder has expired: %v", err)
			}
			w.now -= 10
		}
		r := w.begin(write{id: "1", v: "y"})
		meanwhile(w)
		if err := w.end(r); err != ErrChanged {
			t.Errorf("%s changed: %v", what, err)
		}
		if err := w.end(w.begin(write{id: "3", v: "z"})); err != nil {
			t.Errorf("another batch after %s changed: %v", what, err)
		}
	}
}
