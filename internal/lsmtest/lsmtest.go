// Package lsmtest makes trees of memtables, without files and without a store, for the
// tests of packages that read trees.
package lsmtest

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/reclaim"
	"github.com/cleavestore/cleave/partmap"
)

// Store is what the trees of a test have in common.
type Store struct {
	tb  testing.TB
	Env lsm.Env
	seq uint64
}

// New makes a store whose memtables may take limit bytes.
func New(tb testing.TB, limit int64) *Store {
	s := &Store{tb: tb}
	s.Env.Epoch, s.Env.Pool, s.Env.Seed, s.Env.Clock = epoch.New(), arena.NewPool(limit), item.NewSeed(), time.Now
	s.Env.Reclaim = reclaim.New(s.Env.Epoch, func(what string, err error) { tb.Errorf("%s: %v", what, err) }, true)
	tb.Cleanup(s.Env.Pool.Close)
	return s
}

// Tree makes a tree of the whole key space, with keys of one level.
func (s *Store) Tree() *lsm.Tree {
	t := &lsm.Tree{Env: &s.Env, Family: &lsm.Family{Levels: 1}, Range: partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}}
	t.Span.Hi = 1 << 62
	t.Purgeable = func() lifetime.Past { return lifetime.Past{} }
	t.Flushing, t.Compacting = ctxlock.New(locks.Flushing{}), ctxlock.New(locks.Compacting{})
	t.Version.Store(&lsm.Version{Active: s.table(t)})
	s.tb.Cleanup(func() {
		v := t.Version.Load()
		v.Active.Release()
		for i := range v.Frozen {
			v.Frozen[i].Release()
		}
	})
	return t
}

func (s *Store) table(t *lsm.Tree) *memtable.Table {
	return memtable.New(s.Env.Pool, t.Span, 0, s.Env.Seed)
}

// Put writes a version of an item to the active memtable, and makes it visible. The
// version gets the next sequence.
func (s *Store) Put(t *lsm.Tree, pk partmap.Key, id string, v item.Version) {
	s.tb.Helper()
	s.seq++
	v.Seq = s.seq
	k := Key(pk, id)
	if err := t.Version.Load().Active.Put(&k, &v, true); err != nil {
		s.tb.Fatal(err)
	}
	t.Visible.Store(s.seq)
}

// Key returns the sort key of an item.
func Key(pk partmap.Key, id string) item.Key {
	epk := pk.EPK()
	k := item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk.Encoded(), ID: []byte(id)}
	return k.Clone()
}

// Freeze gives the tree a new memtable. It returns false if the present one is empty. A
// tree is frozen by one goroutine at a time.
func (s *Store) Freeze(t *lsm.Tree) bool {
	active := t.Version.Load().Active
	if active.Versions() == 0 {
		return false
	}
	s.Env.FrozenBytes.Add(active.Reserved()) // first, as physical.Partition does
	t.Swap(func(v lsm.Version) lsm.Version {
		v.Active = s.table(t)
		v.Frozen = append([]lsm.Frozen{{Table: active}}, v.Frozen...)
		return v
	})
	return true
}

// Flushed takes the oldest frozen memtable away, as a flush does, and releases it.
func (s *Store) Flushed(t *lsm.Tree) {
	frozen := t.Version.Load().Frozen
	oldest := frozen[len(frozen)-1]
	t.Swap(func(v lsm.Version) lsm.Version {
		v.Frozen = v.Frozen[:len(v.Frozen)-1]
		return v
	})
	s.Env.FrozenBytes.Add(-oldest.Reserved())
	oldest.Release()
}
