package lsm

import (
	"cmp"
	"slices"

	"github.com/cleavestore/cleave/internal/deletion"
	"github.com/cleavestore/cleave/internal/item"
)

// vectors checks the deletion vectors that a file of run n of its partition stores,
// against the keys of the file and of older files.
func (c *TreeChecker) vectors(t *Tree, f *File, runs []*Run, n int) {
	name := t.Env.FS.Path(f.Name)
	all, _, err := f.DeletionVectors()
	if err != nil {
		c.report.Failed(name, f.Renamed(err))
		return
	}
	for _, s := range all {
		for i, r := range runs[n+1:] {
			for _, old := range r.Files {
				if old.Ref.Number == s.File && !c.done() {
					c.report.Failed(name, c.Vector(name, f, old, runs[:n+1+i], &s.Vector))
				}
			}
		}
	}
}

// Vector checks a list of the file with this name both ways, within the bounds of the older file:
//
//   - Each version that a key of the file overwrites must be in the list.
//   - Each version in the list must be overwritten by a file of the newer runs, within
//     its bounds.
//
// The newer file need not be the one that has the list: that one may be a part of a
// shared file, with the list of the whole. The partition has the rest in another file,
// which after some merges of partitions is the older one of the two.
//
// Entries of the list beyond the bounds of the older file are never used.
func (c *TreeChecker) Vector(name string, f, old *File, newer []*Run, l *deletion.Vector) error {
	if n := len(l.Ordinals); n > 0 && uint64(l.Ordinals[n-1]) >= old.Properties().Items {
		c.report.wholef(name, "deletion vectors: version %d of file %d, which has %d", l.Ordinals[n-1], old.Ref.Number, old.Properties().Items)
		return nil
	}
	span, err := old.OrdinalSpan()
	if err != nil {
		return err
	}
	s := Source{file: f}
	err = s.eachKey(func(k *item.Key, oldest uint64) error {
		first, versions, seekErr := old.OverwrittenBy(k.Lookup())
		if seekErr != nil {
			return seekErr
		}
		for o := max(first, span.Lo); o < min(first+versions, span.Hi); o++ {
			if i, ok := slices.BinarySearch(l.Ordinals, o); !ok || l.Seqs[i] > oldest {
				c.report.wholef(name, "deletion vectors: version %d of file %d is overwritten at %d and not said to be", o, old.Ref.Number, oldest)
			}
		}
		return c.ctx.Err()
	})
	if err != nil {
		return err
	}
	cursor := old.Cursor(MaxSequence)
	for _, o := range l.Between(span.Lo, span.Hi).Ordinals {
		if !cursor.SeekOrdinal(o) {
			return old.Renamed(cursor.Err())
		}
		found := false
		for i := len(newer) - 1; i >= 0 && !found && err == nil; i-- {
			found, err = newer[i].has(cursor.Key())
		}
		if err = cmp.Or(err, c.ctx.Err()); err != nil {
			return err
		}
		if !found {
			c.report.wholef(name, "deletion vectors: version %d of file %d is said to be overwritten and is not", o, old.Ref.Number)
		}
	}
	return nil
}
