package engine

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/randtest"
)

// The oracle keeps, outside of the store, every write in the order in which it
// was made, and says which states a crash may leave: of each physical
// partition, those after a prefix of its writes that holds at least the
// durable ones.
type oracle struct {
	parts map[PartitionID]*history
	order uint64       // of the newest write
	now   func() int64 // the time, in milliseconds; nil: nothing expires
}

// history is what was written to one physical partition.
type history struct {
	writes  []write
	durable int // writes[:durable] must survive anything
	kernel  int // writes[:kernel] must survive a killed process
}

// least is how many writes must survive a killed process, or a power cut.
func (h *history) least(killed bool) int {
	if killed {
		return h.kernel
	}
	return h.durable
}

// write is one write that was tried. Only the last of a history may have an
// unknown outcome.
type write struct {
	container string
	key       PartitionKey
	id        string // "" deletes all items of the key
	body      string // "" deletes
	etag      ETag   // 0: not known
	expires   int64  // milliseconds, 0: never
	unknown   bool
	more      bool   // the next write of the history is of the same batch
	order     uint64 // among all writes
}

// expired says whether the write is past its time to live.
func (w *write) expired(now int64) bool { return w.expires != 0 && w.expires <= now }

func newOracle() *oracle { return &oracle{parts: make(map[PartitionID]*history)} }

func (o *oracle) history(p PartitionID) *history {
	if o.parts[p] == nil {
		o.parts[p] = new(history)
	}
	return o.parts[p]
}

// note records a write and whether it was acknowledged.
func (o *oracle) note(p PartitionID, w write, acknowledged, synced bool) {
	h := o.history(p)
	w.unknown = !acknowledged
	o.order++
	w.order = o.order
	h.writes = append(h.writes, w)
	if acknowledged {
		h.kernel = len(h.writes)
		if synced {
			h.durable = len(h.writes)
		}
	}
}

// noteBatch records the writes of one batch.
func (o *oracle) noteBatch(p PartitionID, writes []write, acknowledged, synced bool) {
	for i, w := range writes {
		w.more = i < len(writes)-1
		o.note(p, w, acknowledged, synced)
	}
}

// follow gives the histories of partitions that are gone to those that took
// their place. What was durable is so still: where there were two, all that was
// written before the newest durable write of either, since the log is one.
func (o *oracle) follow(db *DB) {
	present := make(map[PartitionID]bool)
	for _, p := range db.partitions() {
		present[p.ID] = true
	}
	for _, p := range db.partitions() {
		if o.parts[p.ID] != nil {
			continue
		}
		h := new(history)
		var durable, kernel uint64
		for id, old := range o.parts {
			if present[id] || len(old.writes) == 0 || old.writes[0].container != p.c.name {
				continue
			}
			mine := false
			for _, w := range old.writes {
				if epk := w.key.EPK(); p.Range.Contains(&epk) {
					h.writes = append(h.writes, w)
					mine = true
				}
			}
			if mine && old.durable > 0 {
				durable = max(durable, old.writes[old.durable-1].order)
			}
			if mine && old.kernel > 0 {
				kernel = max(kernel, old.writes[old.kernel-1].order)
			}
		}
		slices.SortFunc(h.writes, func(a, b write) int { return cmp.Compare(a.order, b.order) })
		for i, w := range h.writes {
			if w.order <= durable {
				h.durable = i + 1
			}
			if w.order <= kernel {
				h.kernel = i + 1
			}
		}
		if len(h.writes) > 0 {
			o.parts[p.ID] = h
		}
	}
	for id, h := range o.parts {
		if len(h.writes) > 0 && !present[id] && db.has(h.writes[0].container) {
			delete(o.parts, id)
		}
	}
}

func (db *DB) has(container string) bool {
	_, err := db.Container(container)
	return err == nil
}

type itemID struct {
	container string
	key       PartitionKey
	id        string
}

type state map[itemID]write

var seedOfHash = maphash.MakeSeed()

func (w *write) hash() uint64 {
	type content struct {
		id   itemID
		body string
	}
	return maphash.Comparable(seedOfHash, content{itemID{w.container, w.key, w.id}, w.body})
}

// after returns the state after the first n writes, at a time.
func (h *history) after(n int, now int64) state {
	s := make(state)
	for _, w := range h.writes[:n] {
		if w.id == "" {
			s.deleteKey(w.container, w.key, nil)
		}
		id := itemID{w.container, w.key, w.id}
		if w.body == "" || w.expired(now) {
			delete(s, id)
		} else {
			s[id] = w
		}
	}
	return s
}

// deleteKey deletes all items of a key. gone, unless nil, is called with each.
func (s state) deleteKey(container string, key PartitionKey, gone func(w write)) {
	for id, w := range s {
		if id.container == container && id.key == key {
			delete(s, id)
			if gone != nil {
				gone(w)
			}
		}
	}
}

// match finds the longest prefix, of at least least writes, after which the
// state is the one found.
func (h *history) match(found state, least int, now int64) (n int, ok bool) {
	var want, have uint64
	for _, w := range found {
		want ^= w.hash()
	}
	s := make(state)
	best := -1
	try := func(n int) {
		if n > 0 && h.writes[n-1].more {
			return // a batch is there as a whole or not at all
		}
		if n >= least && have == want && len(s) == len(found) {
			best = n
		}
	}
	try(0)
	for i, w := range h.writes {
		if w.id == "" {
			s.deleteKey(w.container, w.key, func(w write) { have ^= w.hash() })
		}
		id := itemID{w.container, w.key, w.id}
		if old, ok := s[id]; ok {
			have ^= old.hash()
			delete(s, id)
		}
		if w.body != "" && !w.expired(now) {
			s[id] = w
			have ^= w.hash()
		}
		try(i + 1)
	}
	return best, best >= 0
}

// check compares a reopened store with what may have survived, and makes what
// did the new truth. least tells how many writes of a history must be there.
func (o *oracle) check(db *DB, least func(*history) int) error {
	o.follow(db)
	for info := range db.Containers() {
		if c, err := db.Container(info.Name); err == nil && c.unique != nil {
			if err := compareClaims(db, c); err != nil {
				return err
			}
		}
	}
	var now int64
	if o.now != nil {
		now = o.now()
	}
	for id, h := range o.parts {
		found, err := readPartition(db, id)
		if err != nil {
			return err
		}
		n, ok := h.match(found, least(h), now)
		if !ok {
			return fmt.Errorf("partition %d: %d items found are no state after %d to %d writes\n%s", id, len(found), least(h), len(h.writes), h.explain(found, least(h), now))
		}
		h.writes = h.writes[:n]
		for i := range h.writes {
			h.writes[i].unknown = false
		}
		h.durable, h.kernel = n, n
		for _, w := range h.after(n, now) {
			if got := found[itemID{w.container, w.key, w.id}]; w.etag != 0 && got.etag != w.etag {
				return fmt.Errorf("partition %d: item %s: etag %v, was acknowledged as %v", id, w.id, got.etag, w.etag)
			}
		}
	}
	return nil
}

// explain lists how the found state differs from that after least writes.
func (h *history) explain(found state, least int, now int64) string {
	text := ""
	want := h.after(least, now)
	for id, w := range want {
		if got, ok := found[id]; !ok {
			text += fmt.Sprintf("  lost %s/%s/%s = %.40q\n", id.container, id.key, id.id, w.body)
		} else if got.body != w.body {
			text += fmt.Sprintf("  %s/%s/%s = %.40q, want %.40q\n", id.container, id.key, id.id, got.body, w.body)
		}
	}
	for id, w := range found {
		if _, ok := want[id]; !ok {
			text += fmt.Sprintf("  extra %s/%s/%s = %.40q\n", id.container, id.key, id.id, w.body)
		}
	}
	return text
}

// readPartition reads a physical partition by a scan, and each item of it by
// point read too.
func readPartition(db *DB, id PartitionID) (state, error) {
	s := make(state)
	for _, p := range db.partitions() {
		if p.ID != id {
			continue
		}
		for it, err := range p.c.ScanAll(context.Background(), nil) {
			if err != nil {
				return nil, err
			}
			epk := it.Key.EPK()
			if !p.Range.Contains(&epk) {
				continue
			}
			one, err := p.c.Read(context.Background(), it.Key, it.ID)
			if err != nil {
				return nil, fmt.Errorf("scan found %s/%s, read did not: %w", it.Key, it.ID, err)
			}
			if string(one.Body) != string(it.Body) || one.ETag != it.ETag {
				return nil, fmt.Errorf("scan and read differ on %s/%s", it.Key, it.ID)
			}
			s[itemID{p.c.name, it.Key, it.ID}] = write{container: p.c.name, key: it.Key, id: it.ID, body: string(it.Body), etag: it.ETag, expires: millisOf(it.Expires)}
		}
	}
	return s, nil
}

// millisOf returns a time in milliseconds, 0 for the zero time.
func millisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// newSeed returns the seed of a random test, which is told if the test fails.
func newSeed(t testing.TB) uint64 { return randtest.Seed(t) }

var fullFlag = flag.Bool("full", false, "do all: each stop, each byte, and as much with the race detector as without it; takes an hour")

// amount is how much a test does: full in an ordinary run, less of it with
// -short or where the race detector makes everything some ten times slower.
func amount(full, race, short int) int {
	switch {
	case testing.Short():
		return short
	case raceEnabled && !*fullFlag:
		return race
	}
	return full
}

// lone returns n, or four times n in a short run under the race detector: the step of a test
// that has one goroutine, in which the detector finds little. lone(1) divides an amount.
func lone(n int) int {
	if raceEnabled && testing.Short() {
		return 4 * n
	}
	return n
}

// sweep is amount for tests that go over every stop or byte of something: an
// ordinary run takes one of ordinary, at places that its seed draws.
func sweep(ordinary, race, short int) int {
	if *fullFlag {
		return 1
	}
	return amount(ordinary, race, short)
}
