package engine

import (
	"slices"

	"github.com/cleavestore/cleave/internal/item"
)

// shadows compares what a file says that it overwrites in the older runs of its
// partition with what its keys and theirs are.
func (v *verifier) shadows(f *file, older []*run) {
	name := v.db.fs.Path(f.name)
	all, _, err := f.Shadows()
	if err != nil {
		v.check(name, f.named(err))
		return
	}
	for _, s := range all {
		for _, r := range older {
			for _, old := range r.files {
				if old.ref.Number == s.File && !v.done() {
					v.check(name, v.shadowsOn(f, old, &shadowList{s.Ordinals, s.Seqs}))
				}
			}
		}
	}
}

// shadowsOn compares both ways within the bounds of the older file: each version
// that a key of the file overwrites must be in the list, and each version in the
// list must have a key of the file. What the list has beyond the bounds the file may
// have taken over from one that was shared; nobody asks for it.
func (v *verifier) shadowsOn(f, old *file, l *shadowList) error {
	name := v.db.fs.Path(f.name)
	if n := len(l.ordinals); n > 0 && uint64(l.ordinals[n-1]) >= old.Properties().Items {
		v.report(name, -1, "shadows: version %d of file %d, which has %d", l.ordinals[n-1], old.ref.Number, old.Properties().Items)
		return nil
	}
	span, err := old.ordinalSpan()
	if err != nil {
		return err
	}
	s := indexSource{file: f}
	err = s.eachKey(func(k *item.Key, oldest uint64) error {
		first, versions, seekErr := old.overwrittenBy(k, 0)
		if seekErr != nil {
			return seekErr
		}
		for o := max(first, span.lo); o < min(first+versions, span.hi); o++ {
			if i, ok := slices.BinarySearch(l.ordinals, o); !ok || l.seqs[i] > oldest {
				v.report(name, -1, "shadows: version %d of file %d is overwritten at %d and not said to be", o, old.ref.Number, oldest)
			}
		}
		return v.ctx.Err()
	})
	if err != nil {
		return err
	}
	c := old.Cursor(maxSequence)
	for _, o := range l.between(span.lo, span.hi).ordinals {
		if !c.SeekOrdinal(o) {
			return old.named(c.Err())
		}
		var newer item.Version
		found, _, err := f.get(c.Key(), c.Key().ItemHash(), maxSequence, nil, true, &newer)
		if err != nil {
			return err
		}
		if !found {
			v.report(name, -1, "shadows: version %d of file %d is said to be overwritten and is not", o, old.ref.Number)
		}
	}
	return nil
}
