package engine

import (
	"slices"

	"github.com/cleavestore/cleave/internal/item"
)

// shadows checks the shadows that a file of run n of its partition stores, against the
// keys of the file and of older files.
func (c *treeChecker) shadows(t *tree, f *file, runs []*run, n int) {
	name := t.env.fs.Path(f.name)
	all, _, err := f.Shadows()
	if err != nil {
		c.report.failed(name, f.named(err))
		return
	}
	for _, s := range all {
		for i, r := range runs[n+1:] {
			for _, old := range r.files {
				if old.ref.Number == s.File && !c.done() {
					c.report.failed(name, c.shadowsOn(name, f, old, runs[:n+1+i], &shadowList{s.Ordinals, s.Seqs}))
				}
			}
		}
	}
}

// shadowsOn checks a list of the file with this name both ways, within the bounds of the older file:
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
func (c *treeChecker) shadowsOn(name string, f, old *file, newer []*run, l *shadowList) error {
	if n := len(l.ordinals); n > 0 && uint64(l.ordinals[n-1]) >= old.Properties().Items {
		c.report.wholef(name, "shadows: version %d of file %d, which has %d", l.ordinals[n-1], old.ref.Number, old.Properties().Items)
		return nil
	}
	span, err := old.ordinalSpan()
	if err != nil {
		return err
	}
	s := indexSource{file: f}
	err = s.eachKey(func(k *item.Key, oldest uint64) error {
		first, versions, seekErr := old.overwrittenBy(k.Lookup())
		if seekErr != nil {
			return seekErr
		}
		for o := max(first, span.lo); o < min(first+versions, span.hi); o++ {
			if i, ok := slices.BinarySearch(l.ordinals, o); !ok || l.seqs[i] > oldest {
				c.report.wholef(name, "shadows: version %d of file %d is overwritten at %d and not said to be", o, old.ref.Number, oldest)
			}
		}
		return c.ctx.Err()
	})
	if err != nil {
		return err
	}
	cursor := old.Cursor(maxSequence)
	for _, o := range l.between(span.lo, span.hi).ordinals {
		if !cursor.SeekOrdinal(o) {
			return old.named(cursor.Err())
		}
		found := false
		for i := len(newer) - 1; i >= 0 && !found && err == nil; i-- {
			found, err = newer[i].has(cursor.Key())
		}
		if err != nil {
			return err
		}
		if !found {
			c.report.wholef(name, "shadows: version %d of file %d is said to be overwritten and is not", o, old.ref.Number)
		}
	}
	return nil
}
