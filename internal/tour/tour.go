// Package tour lists the logical partitions of a container, with the versions and bytes that each
// has, from the tables of files and from memtables. It reads no documents.
//
// Invariants:
//
//  1. A tour shows each logical partition once, in key-space order, within the range of the
//     physical partition that holds it: files and memtables may have others.
//  2. Each physical partition is shown as it is when the tour reaches it. If it is replaced
//     meanwhile, the tour goes on with those that took its place.
//  3. A tour holds files only while it is in their partition.
package tour

import (
	"bytes"
	"context"
	"slices"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// Logical is a logical partition as a tour finds it. Package engine documents the fields.
// It is valid until the tour goes on.
type Logical struct {
	Partition partmap.PartitionID
	Place     uint64
	Versions  int64
	Bytes     int64

	sources []*logicalSource // that hold it
}

// Key returns the partition key. It may have to read an item. The key is safe to
// keep.
func (l *Logical) Key() (partmap.Key, error) {
	return l.sources[0].key()
}

// key returns the current partition key of the source.
func (s *logicalSource) key() (partmap.Key, error) {
	if s.walk == nil {
		return partmap.FromTrusted(bytes.Clone(s.list[s.at].pk)), nil
	}
	pk, err := s.walk.AppendKey(nil)
	return partmap.FromTrusted(pk), err
}

// leastKey returns those of the sources, which have one place, that have the least key.
func leastKey(sources []*logicalSource) ([]*logicalSource, error) {
	least, kept := partmap.Key{}, sources[:0]
	for _, s := range sources {
		key, err := s.key()
		if err != nil {
			return nil, err
		}
		if order := key.Compare(least); len(kept) == 0 || order < 0 {
			least, kept = key, append(kept[:0], s)
		} else if order == 0 {
			kept = append(kept, s)
		}
	}
	return kept, nil
}

// LogicalPartitions passes to yield the logical partitions of a container in key-space
// order, from a place of the key space on. It shows each physical partition as it is when
// the loop reaches it. It returns nil if yield ended the loop.
func LogicalPartitions(ctx context.Context, h exec.Host, from partmap.EPK, yield func(*Logical) bool) error {
	for rest := (partmap.Range{Min: from, Max: partmap.MaxEPK()}); !rest.Empty(); {
		t, err := newTour(ctx, h, rest)
		if err == lsm.ErrMoved {
			continue
		}
		if err != nil {
			return err
		}
		rest.Min = t.rng.Max
		more, err := t.run(ctx, yield)
		t.release()
		if err != nil && ctx.Err() == nil {
			err = h.ReadError(err)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// tour lists the logical partitions of a physical one: it joins the lists of its
// sources.
type tour struct {
	rng     partmap.Range // the part of the physical partition that is listed
	keys    bool          // places do not tell keys apart, since they are of version 1
	sources []*logicalSource
	at      Logical // the present one
	release func()
}

// logicalSource is a memtable or a run.
type logicalSource struct {
	list  []logicalTally // of a memtable
	at    int
	files []*lsm.File       // of a run, those not begun yet
	clip  *keybounds.Bounds // of the file that walk is in
	from  []byte            // EPK of full width: what lies below it in files is passed over
	walk  *segment.PartitionWalker
	epk   []byte // of the current logical partition, all but the last 8 bytes; nil: at the end
}

// logicalTally is a logical partition in a memtable.
type logicalTally struct {
	epk, pk         []byte
	versions, bytes int64
}

// newTour begins a tour of the partition in which a range begins. It adds up the
// memtables and holds the files. It returns lsm.ErrMoved if the partition was replaced.
func newTour(ctx context.Context, h exec.Host, rest partmap.Range) (*tour, error) {
	call, err := h.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	p := h.Find(rest.Min)
	v, release, err := p.Hold()
	if err != nil {
		return nil, err
	}
	t := &tour{rng: partmap.Range{Min: rest.Min, Max: p.Data().Range.Max}, release: release}
	t.at.Partition, t.keys = p.Data().ID, p.Data().Family.Version1
	for i := -1; i < len(v.Frozen); i++ {
		table := v.Active
		if i >= 0 {
			table = v.Frozen[i].Table
		}
		t.sources = append(t.sources, &logicalSource{list: tallies(table), at: -1})
	}
	from := keybounds.At(&rest.Min, h.Levels()).EPK
	for _, r := range v.Runs {
		t.sources = append(t.sources, &logicalSource{files: r.Files, from: from})
	}
	return t, nil
}

// tallies adds up a memtable by logical partition.
func tallies(table *memtable.Table) (list []logicalTally) {
	for w := table.Walk(lsm.MaxSequence); w.Next(); {
		k := w.Key()
		if n := len(list); n == 0 || !bytes.Equal(list[n-1].pk, k.PK) {
			list = append(list, logicalTally{epk: slices.Clone(k.EPK[:len(k.EPK)-8]), pk: slices.Clone(k.PK)})
		}
		last := &list[len(list)-1]
		last.versions++
		last.bytes += int64(len(w.Version().Body))
	}
	return list
}

// run yields the logical partitions. more says that the loop goes on.
func (t *tour) run(ctx context.Context, yield func(*Logical) bool) (more bool, err error) {
	for _, s := range t.sources {
		if err = s.next(); err != nil {
			return false, err
		}
	}
	l := &t.at
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err = ctx.Err(); err != nil {
				return false, err
			}
		}
		var least []byte
		for _, s := range t.sources {
			if s.epk != nil && (least == nil || bytes.Compare(s.epk, least) < 0) {
				least = s.epk
			}
		}
		if least == nil {
			return true, nil
		}
		l.Place, l.Versions, l.Bytes, l.sources = item.HashOf(least), 0, 0, l.sources[:0]
		for _, s := range t.sources {
			if bytes.Equal(s.epk, least) {
				l.sources = append(l.sources, s)
			}
		}
		if t.keys && len(l.sources) > 1 {
			if l.sources, err = leastKey(l.sources); err != nil {
				return false, err
			}
		}
		for _, s := range l.sources {
			versions, bytes := s.size()
			l.Versions += versions
			l.Bytes += bytes
		}
		if inside, err := t.holds(l, least); err != nil {
			return false, err
		} else if inside && !yield(l) {
			return false, nil
		}
		for _, s := range l.sources {
			if err := s.next(); err != nil {
				return false, err
			}
		}
	}
}

// holds reports whether a logical partition lies in the range of the tour: files and
// memtables may hold others. prefix is all of its EPK but the last 8 bytes. If a
// boundary begins with prefix, holds needs the whole EPK, and reads the key.
func (t *tour) holds(l *Logical, prefix []byte) (bool, error) {
	epk, err := partmap.EPKFromBytes(prefix)
	if err != nil {
		return false, err
	}
	for _, boundary := range []*partmap.EPK{&t.rng.Min, &t.rng.Max} {
		b := boundary.Bytes()
		if len(b) > len(prefix) && bytes.Equal(b[:len(prefix)], prefix) {
			key, err := l.Key()
			if err != nil {
				return false, err
			}
			epk = key.EPK()
		}
	}
	return t.rng.Contains(&epk), nil
}

// size returns the size of the current logical partition in the source.
func (s *logicalSource) size() (versions, bytes int64) {
	if s.walk == nil {
		return s.list[s.at].versions, s.list[s.at].bytes
	}
	return int64(s.walk.Items()), int64(s.walk.RawBytes())
}

// next moves to the next logical partition.
func (s *logicalSource) next() error {
	s.epk = nil
	if s.walk == nil && len(s.files) == 0 {
		if s.at++; s.at < len(s.list) {
			s.epk = s.list[s.at].epk
		}
		return nil
	}
	for {
		if s.walk != nil {
			for s.walk.Next() {
				within, sure := s.clip.HoldsEntry(s.walk.EPK())
				if !sure {
					pk, err := s.walk.AppendKey(nil)
					if err != nil {
						return err
					}
					epk := partmap.HashEncoded(pk)
					within = s.clip.Holds(&item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk})
				}
				if within {
					s.epk = s.walk.EPK()
					return nil
				}
			}
			if err := s.walk.Err(); err != nil {
				return err
			}
		}
		if len(s.files) == 0 {
			return nil
		}
		f := s.files[0]
		first, err := f.LowerLogicalPartition(s.from)
		if err != nil {
			return err
		}
		s.walk, s.clip, s.files = f.WalkPartitionsFrom(first), f.Clip, s.files[1:]
	}
}
