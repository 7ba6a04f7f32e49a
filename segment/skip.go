package segment

import "github.com/cleavestore/cleave/internal/openfile"

// Skip passes over the group that a walker could not read, for a caller that wants the
// rest of a damaged file: Next goes on behind the group. False: nothing can be found
// behind it.
func (w *Walker) Skip() bool {
	if w.err == nil || w.r.file.Broken() != nil {
		return false
	}
	next := w.r.groups.Off // the beginning of the groups could not be read
	if w.at != 0 {
		next = w.r.behind(w.at)
	}
	if next <= w.at || next >= w.r.groups.end() {
		return false
	}
	w.open, w.key, w.i, w.err = opened{off: next}, shownKey{}, 0, nil
	return true
}

// behind returns the offset of the group behind one that cannot be read: from the table
// of offsets, or else from the group's own length; 0: from neither.
func (r *Reader) behind(off int64) (next int64) {
	s := scratches.Get().(*scratch)
	defer s.free()
	find := func() (err error) {
		defer r.file.Unguard(openfile.Guard(), &err)
		at, err := r.groupIndex(s, off)
		if err != nil || uint64(at)+1 >= r.props.Groups {
			return err
		}
		next, _, err = r.groupAt(s, at+1)
		return err
	}
	if find() == nil {
		return next
	}
	b := make([]byte, min(preludeMax, r.groups.end()-off))
	if r.file.ReadAt(b, off) != nil {
		return 0
	}
	n, _, _, err := groupSize(b)
	if err != nil {
		return 0
	}
	return off + int64(n)
}
