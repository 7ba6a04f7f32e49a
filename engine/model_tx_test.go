package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Batches and transactions of the model.

// group is what a batch or transaction of the model does: the state of its
// logical partition as it should see it, and what it writes.
type group struct {
	m       *model
	name    string
	key     PartitionKey
	members string
	state   state
	writes  []write
	fresh   map[string]bool // written by the group: no etag is known
	ttls    []time.Duration // options of the writes
}

func (m *model) group() (*group, *Container) {
	name, c := m.container()
	key, members := m.key(name)
	g := &group{m: m, name: name, key: key, members: members, state: make(state), fresh: make(map[string]bool)}
	for id, w := range m.items[name] {
		if id.key == key {
			g.state[id] = w
		}
	}
	return g, c
}

// writer is what Batch and Tx have in common.
type writer interface {
	Create(doc []byte, o *WriteOptions) error
	Upsert(doc []byte, o *WriteOptions) error
	Replace(doc []byte, o *WriteOptions) error
	Put(id string, body []byte, o *WriteOptions) error
	Delete(id string, o *WriteOptions) error
	Patch(id string, p *Patch, o *WriteOptions) error
}

// write adds a random write. want is the error that it should meet: a Tx returns
// it at once, a Batch when it is committed.
func (g *group) write(to writer) (err, want error) {
	m := g.m
	id := fmt.Sprintf("i%d", m.rng.IntN(40))
	which := itemID{g.name, g.key, id}
	old, exists := g.state[which]
	body := fmt.Sprintf(`{"id":%q%s,"g":"%s"}`, id, g.members, randomText(m.rng, m.rng.IntN(300)))
	o := &WriteOptions{TTL: m.ttl(g.name)}
	if m.rng.IntN(8) == 0 {
		if o.IfMatch = old.etag; g.fresh[id] || !exists || m.rng.IntN(4) == 0 {
			o.IfMatch, want = 1<<62, ErrPrecondition
		}
	}
	verb := m.rng.IntN(6)
	if g.name == "bytes" && verb != 3 {
		verb = 4
	}
	if !exists && (verb == 2 || verb == 3 || verb == 5) && m.rng.IntN(10) > 0 {
		verb = 1 // most batches should succeed
	}
	if exists && verb == 0 && m.rng.IntN(10) > 0 {
		verb = 2
	}
	if g.name == "bytes" && verb < 3 {
		verb = 4
	}
	switch verb {
	case 0:
		if exists {
			want = ErrExists
		}
		err = to.Create([]byte(body), o)
	case 1:
		err = to.Upsert([]byte(body), o)
	case 2:
		if !exists {
			want = ErrNotFound
		}
		err = to.Replace([]byte(body), o)
	case 3:
		if !exists {
			want = ErrNotFound
		}
		body = ""
		err = to.Delete(id, o)
	case 5:
		if !exists {
			want = ErrNotFound
		}
		n := m.rng.IntN(1000)
		body = patchedBody(old.body, n)
		err = to.Patch(id, new(Patch).Set("/p", n), o)
	case 4:
		if g.name == "bytes" {
			err = to.Put(id, []byte(body), o)
		} else {
			err = to.Upsert([]byte(body), o)
		}
	}
	if want != nil {
		return err, want
	}
	w := write{container: g.name, key: g.key, id: id, body: body}
	g.ttls = append(g.ttls, o.TTL)
	g.writes = append(g.writes, w)
	g.fresh[id] = true
	if body == "" {
		delete(g.state, which)
	} else {
		g.state[which] = w
	}
	return err, nil
}

// commit takes over what was written.
func (g *group) commit(c *Container, metas []Meta, synced bool) {
	m := g.m
	if len(metas) != len(g.writes) {
		m.t.Fatalf("%d writes, %d metas", len(g.writes), len(metas))
	}
	for i := range g.writes {
		w := &g.writes[i]
		w.etag = metas[i].ETag
		m.expires(w, metas[i], g.ttls[i])
		if metas[i].ID != w.id || metas[i].Key != w.key || metas[i].Seq != metas[0].Seq+uint64(i) || (w.etag == 0) != (w.body == "") {
			m.t.Fatalf("write %d of %d, %s: %+v", i, len(metas), w.id, metas[i])
		}
		which := itemID{w.container, w.key, w.id}
		delete(m.hidden, which)
		if w.body == "" {
			delete(m.items[g.name], which)
		} else {
			m.items[g.name][which] = *w
		}
	}
	m.o.noteBatch(partitionOf(c, g.key), g.writes, true, synced)
}

func (m *model) batch() {
	g, c := m.group()
	b := c.NewBatch(g.key)
	var want error
	failed := 0
	for i := range 1 + m.rng.IntN(20) {
		err, expect := g.write(b)
		must(m.t, err)
		if expect != nil && want == nil {
			want, failed = expect, i
		}
	}
	if m.rng.IntN(3) == 0 {
		b.Durability = Buffered
	}
	metas, err := c.Commit(context.Background(), b)
	if want != nil {
		var be *BatchError
		if !errors.Is(err, want) || !errors.As(err, &be) || be.Index != failed {
			m.t.Fatalf("batch: %v, want %v of operation %d", err, want, failed)
		}
		return
	}
	must(m.t, err)
	g.commit(c, metas, b.Durability == Durability{} && m.opts.Durability != Buffered)
}

// update runs a transaction that reads and writes, and perhaps meets a write of
// somebody else, a flush or a reshape.
func (m *model) update() {
	var g *group
	outer, c := m.group()
	conflicts := 0
	if m.rng.IntN(4) == 0 {
		conflicts = 1 + m.rng.IntN(2)
	}
	o := &UpdateOptions{Serializable: m.rng.IntN(2) == 0}
	if m.rng.IntN(3) == 0 {
		o.Durability = Buffered
	}
	abort := m.rng.IntN(10) == 0
	metas, err := c.UpdateWith(context.Background(), outer.key, o, func(tx *Tx) error {
		g = &group{m: m, name: outer.name, key: outer.key, members: outer.members, state: make(state), fresh: make(map[string]bool)}
		for id, w := range m.items[g.name] {
			if id.key == g.key {
				g.state[id] = w
			}
		}
		for range 1 + m.rng.IntN(12) {
			m.txStep(g, tx)
		}
		if conflicts > 0 && len(g.writes) > 0 {
			conflicts--
			m.disturb(g, c)
		}
		if m.rng.IntN(20) == 0 {
			must(m.t, m.db.Flush(context.Background()))
		}
		if m.rng.IntN(40) == 0 {
			m.reshapeOf(c)
		}
		if abort {
			return errInjected
		}
		return nil
	})
	if abort {
		if err != errInjected {
			m.t.Fatalf("aborted: %v", err)
		}
		return
	}
	must(m.t, err)
	// Of several writes to one item the last counts, in the place of the first.
	last := make(map[string]write)
	ttl := make(map[string]time.Duration)
	for i, w := range g.writes {
		last[w.id], ttl[w.id] = w, g.ttls[i]
	}
	for i, seen := 0, make(map[string]bool); i < len(g.writes); {
		if id := g.writes[i].id; seen[id] {
			g.writes = slices.Delete(g.writes, i, i+1)
		} else {
			g.writes[i], seen[id] = last[id], true
			g.ttls[i] = ttl[id]
			i++
		}
	}
	g.commit(c, metas, o.Durability == Durability{} && m.opts.Durability != Buffered)
}

// disturb overwrites an item that a transaction has written.
func (m *model) disturb(g *group, c *Container) {
	w := g.writes[m.rng.IntN(len(g.writes))]
	w.body = fmt.Sprintf(`{"id":%q%s,"between":%d}`, w.id, g.members, m.rng.IntN(1000))
	var meta Meta
	var err error
	if g.name == "bytes" {
		meta, err = c.Put(context.Background(), w.key, w.id, []byte(w.body), nil)
	} else {
		meta, err = c.Upsert(context.Background(), []byte(w.body), nil)
	}
	must(m.t, err)
	w.etag = meta.ETag
	m.expires(&w, meta, 0)
	m.apply(w, partitionOf(c, w.key), m.opts.Durability != Buffered)
}

// txStep reads, scans or writes in a transaction.
func (m *model) txStep(g *group, tx *Tx) {
	switch m.rng.IntN(4) {
	case 0:
		id := fmt.Sprintf("i%d", m.rng.IntN(45))
		want, exists := g.state[itemID{g.name, g.key, id}]
		got, err := tx.ReadInto(id, make([]byte, m.rng.IntN(10), 1000)[:0])
		if exists {
			want.etag = g.etag(want)
		}
		m.compare("transaction read", got, err, want, exists)
	case 1:
		ids := drawRange(m.rng)
		o := ScanOptions{Limit: m.rng.IntN(20), Reverse: m.rng.IntN(2) == 0, Borrow: m.rng.IntN(2) == 0}
		want := g.state.sorted(g.key, ids, o)
		n := 0
		for it, err := range tx.Scan(ids, &o) {
			must(m.t, err)
			if n == len(want) {
				m.t.Fatalf("transaction scan of %+v %+v: more than %d items: %s", ids, o, n, it.ID)
			}
			want[n].etag = g.etag(want[n])
			m.compare("transaction scan", it, nil, want[n], true)
			n++
		}
		if n != len(want) {
			m.t.Fatalf("transaction scan of %+v %+v: %d items, want %d", ids, o, n, len(want))
		}
	default:
		before := maps.Clone(g.state)
		err, want := g.write(tx)
		if !errors.Is(err, want) {
			m.t.Fatalf("transaction write: %v, want %v", err, want)
		}
		if want != nil {
			g.state = before
		}
	}
}

// etag returns the etag with which a transaction sees an item: none if it wrote
// it itself.
func (g *group) etag(w write) ETag {
	if g.fresh[w.id] {
		return 0
	}
	return w.etag
}
