package lsm

import (
	"context"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/pacing"
)

// salvaged is a run that a repair reads, past what cannot be read.
type salvaged struct {
	runWalker
	ok       bool
	last     item.KeyCopy // the key before the present one
	gap      bool         // something between from and to could not be read
	own      bool         // a file of the gap has versions that one of its partition tombstones deletes
	from, to item.KeyCopy
}

// advance moves to the next version that can be read.
func (s *salvaged) advance(lost func(f *File, why error)) {
	s.gap, s.own = false, false
	if s.ok {
		s.last.Set(s.walker.Key())
	}
	for {
		before := s.ok
		ok, err := s.next()
		if err == nil {
			if s.ok = ok; ok && s.gap {
				s.to.Set(s.walker.Key())
			}
			return
		}
		b := s.file.Bounds(len(s.file.Properties().Min.EPK) / (item.MaxEPK / item.MaxLevels))
		if !s.gap {
			s.gap = true
			s.from.Set(&b.Lo)
			if before && item.Compare(&b.Lo, &s.last.Key) < 0 {
				s.from.Set(&s.last.Key)
			}
		}
		s.own = s.own || s.file.Properties().DeletedHere > 0
		s.to.Set(&b.Hi)
		lost(s.file, err)
		if !s.walker.Skip() {
			s.walker = nil
		}
	}
}

// hides says that a version of the key may lie in the part that could not be read.
func (s *salvaged) hides(k *item.Key) bool {
	return s.gap && item.Compare(&s.from.Key, k) < 0 && item.Compare(k, &s.to.Key) < 0
}

// Salvager reads trees past what cannot be read. One goroutine uses it.
type Salvager struct {
	Ctx    context.Context
	Claims bool          // marked keys are those of claims, which are left out
	Older  bool          // gives also documents of which a newer version, or a delete, may be lost
	Past   lifetime.Past // which documents have expired
	// Only keys between these, exclusive, are wanted. nil: from the first, to the last.
	After, Before *item.Key
	// Give gets each document. Its arguments are valid only during the call.
	Give func(k *item.Key, v *item.Version) error
	// Lost is told of each part of a file that could not be read.
	Lost func(f *File, why error)
	// Uncertain counts the documents of which a newer version, or a delete, may be lost.
	Uncertain *int64
	Pause     func() // called from time to time
}

// wants says that a key from lo to hi may be wanted.
func (r *Salvager) wants(lo, hi *item.Key) bool {
	return (r.After == nil || item.Compare(r.After, hi) < 0) && (r.Before == nil || item.Compare(lo, r.Before) < 0)
}

// Read reads a tree as a compaction of all of its runs does, with the memtables in front of
// them. The error is ErrMoved if the partition was dropped.
func (r *Salvager) Read(t *Tree) error {
	if b := t.Bounds(); !r.wants(&b.Lo, &b.Hi) {
		return nil
	}
	guard := t.Env.Epoch.Enter()
	defer guard.Leave()
	v, release := t.PinVersion()
	defer release()
	if t.Dropped.Load() {
		return ErrMoved // v may be empty
	}
	lost := func(f *File, why error) {
		if b := f.Bounds(t.Family.Levels); r.wants(&b.Lo, &b.Hi) {
			r.Lost(f, why)
		}
	}
	var mem Cursor
	mem.Open(&Version{Active: v.Active, Frozen: v.Frozen}, MaxSequence, false)
	defer mem.Close()
	mem.Start()
	var runs []*salvaged
	for _, of := range v.Runs {
		s := &salvaged{runWalker: runWalker{files: of.Files}}
		s.advance(lost)
		runs = append(runs, s)
	}
	var k, of item.KeyCopy // the present key, and the logical partition at hand
	var deleted DeletedBefore
	whole, own := len(runs), false // index of the newest run that may have lost a delete of it
	for n := 0; ; n++ {
		if n%pacing.Piece == 0 {
			if err := r.Ctx.Err(); err != nil {
				return err
			}
			r.Pause()
		}
		// The newest version of the lowest key. -1 is memory.
		const none = -2
		at := none
		var key *item.Key
		var ver *item.Version
		if mem.Valid() {
			key, ver = mem.Top()
			at = -1
		}
		for i, s := range runs {
			if !s.ok {
				continue
			}
			c := -1
			if at != none {
				c = item.Compare(s.walker.Key(), key)
			}
			if c < 0 || c == 0 && at >= 0 && s.walker.Version().Seq > ver.Seq {
				at, key, ver = i, s.walker.Key(), s.walker.Version()
			}
		}
		if at == none || r.Before != nil && item.Compare(key, r.Before) >= 0 {
			return mem.Err()
		}
		k.Set(key)
		if n == 0 || !item.SamePartition(key, &of.Key) {
			of.Set(key)
			whole, own = len(runs), false
			partition := key.Partition()
			for i := len(runs) - 1; i >= 0; i-- {
				if runs[i].hides(&partition) {
					whole, own = i, runs[i].own
				}
			}
		}
		gone := deleted.Hides(key, ver) || !Shown(ver, r.Past) || r.Claims && key.Marked() || !r.wants(key, key)
		if !gone {
			uncertain := at > whole || at == whole && own || at >= 0 && runs[at].walker.Older()
			for i := range at {
				uncertain = uncertain || runs[i].hides(key)
			}
			if at >= 0 {
				if err := runs[at].walker.Complete(); err != nil {
					lost(runs[at].file, runs[at].file.Met(err))
					gone = true
				}
				ver = runs[at].walker.Version()
			}
			if uncertain && !gone {
				*r.Uncertain++
				gone = !r.Older
			}
			if !gone {
				if err := r.Give(key, ver); err != nil {
					return err
				}
			}
		}
		if mem.Valid() {
			if at, _ := mem.Top(); item.Compare(at, &k.Key) == 0 {
				mem.Next()
			}
		}
		for _, s := range runs {
			for s.ok && item.Compare(s.walker.Key(), &k.Key) == 0 {
				s.advance(lost)
			}
		}
	}
}
