package segment

import (
	"bytes"

	"github.com/cleavestore/cleave/internal/firstkeys"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
)

// lowerBound opens a group and returns the position in it of the first version
// whose key is not before k; ok is false if there is none, or on an error. The
// version is the newest of its key.
func (c *Cursor) lowerBound(k *item.Key) (at int, ok bool) {
	if at, ok = c.lookUp(k); ok || c.err != nil {
		return at, ok
	}
	lo, hi, first, one, err := c.groupRange(k)
	if err != nil {
		c.err = err
		return 0, false
	}
	if lo > hi {
		return 0, false
	}
	if len(k.ID) == 0 {
		// The scan of a logical partition begins here, at its first item.
		if at, ok = c.openAt(lo, first); !ok {
			return 0, false
		}
		if cmp, compared := c.compare(at, k); !compared || cmp >= 0 {
			return at, compared
		}
	}
	// What is remembered of first keys says nothing of their logical partitions: of two that the table cannot tell
	// apart it would lead far to the left, and to a walk. It led to the right place if that has the
	// partition of k: a group to the right of that place begins with a key of a later partition.
	if one && len(k.ID) <= item.MaxID {
		if at, ok = c.lowerBoundIn(lo, hi, k, true); ok && item.SamePartition(&c.key.Key, k) || c.err != nil {
			return at, ok
		}
	}
	return c.lowerBoundIn(lo, hi, k, false)
}

// lowerBoundIn is lowerBound, by a search in groups from lo to hi. remembered says that it
// relies on the first keys that the reader remembers.
func (c *Cursor) lowerBoundIn(lo, hi int64, k *item.Key, remembered bool) (at int, ok bool) {
	if lo, c.err = c.search(lo, hi, k, remembered); c.err != nil || !c.loadIndex(lo, false) {
		return 0, false
	}
	for i := 0; ; i++ {
		if i, ok = c.adjust(i); !ok {
			return 0, false
		}
		cmp, ok := c.compare(i, k)
		if !ok {
			return 0, false
		}
		if cmp >= 0 {
			return i, true
		}
	}
}

// search returns the last group in (lo, hi] whose first key is not above k, else
// lo.
func (c *Cursor) search(lo, hi int64, k *item.Key, remembered bool) (at int64, err error) {
	defer c.r.file.Unguard(openfile.Guard(), &err)
	firsts := c.r.firsts.Load()
	if firsts == nil {
		c.r.firsts.CompareAndSwap(nil, firstkeys.New(c.r.props.Groups, c.r.props.Min.ID, c.r.props.Max.ID))
		firsts = c.r.firsts.Load()
	}
	lead, last := firsts.Lead(k.ID), hi
	for n := 0; lo < hi; n++ {
		probe := (lo + hi + 1) / 2
		if n < 2 && len(k.ID) > item.MaxID {
			probe = hi // the logical partition ends in one of the last two
		} else if even := probe - probe%firstkeys.Every; even > lo {
			probe = even
		}
		cmp := 0
		if remembered && probe < last { // the last may begin with another logical partition
			cmp = firsts.Compare(probe, lead)
		}
		if cmp == 0 {
			if cmp, err = c.compareFirst(uint32(probe), k); err != nil {
				return 0, err
			}
			firsts.Note(probe, c.s.open.members[0].id(c.s.open.raw))
		}
		if cmp <= 0 {
			lo = probe
		} else {
			hi = probe - 1
		}
	}
	return lo, nil
}

// compareFirst orders the first key of a group and k. It neither opens the
// group nor decodes more of it than that key. The caller is guarded.
func (c *Cursor) compareFirst(index uint32, k *item.Key) (int, error) {
	off, _, err := c.r.groupAt(&c.s, index)
	if err != nil {
		return 0, err
	}
	b, err := c.r.groupBytes(&c.s, off)
	if err != nil {
		return 0, err
	}
	o := &c.s.open
	if err = o.parse(c.r, b, off, false); err != nil {
		return 0, err
	}
	if c.s.raw, err = o.expandFirst(c.r, c.s.raw[:0]); err != nil {
		return 0, err
	}
	if m := &o.members[0]; o.g.matchPK(m, o.raw, k.PK) {
		return bytes.Compare(m.id(o.raw), k.ID), nil
	}
	if err := c.first.set(c.r, o, 0); err != nil {
		return 0, err
	}
	return item.Compare(&c.first.Key, k), nil
}

// compare orders the key of member i of the open group and k.
func (c *Cursor) compare(i int, k *item.Key) (cmp int, ok bool) {
	if !c.setKey(i) {
		return 0, false
	}
	return item.Compare(&c.key.Key, k), true
}

// lookUp opens the group that holds the newest version of k, by the locator.
func (c *Cursor) lookUp(k *item.Key) (at int, ok bool) {
	hash := c.r.seed.Hash(k)
	p := probe{r: c.r, hash: hash}
	if c.err = c.r.Guard(func() error {
		ix, err := c.r.index()
		if err == nil {
			p.chunk = ix.chunks.find(k)
		}
		return err
	}); c.err != nil {
		return 0, false
	}
	for {
		var off int64
		if c.err = c.r.Guard(func() (err error) {
			off, err = p.next(&c.s)
			return err
		}); c.err != nil || off == 0 {
			return 0, false
		}
		if !c.load(off, -1, false) {
			return 0, false
		}
		if i := bytes.IndexByte(c.open.g.hashes, memberHash(hash)); i >= 0 {
			if i = c.open.find(i, k, hash); i >= 0 {
				return i, true
			}
		}
	}
}

// groupRange returns the range of groups in which the first key not before k lies, and
// the ordinal of the first item that can have that key; lo > hi if there is none. one says that
// the table tells the logical partition of k from all others.
func (c *Cursor) groupRange(k *item.Key) (lo, hi int64, first uint32, one bool, err error) {
	r := c.r
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, err := r.index()
	if err != nil {
		return 0, 0, 0, false, err
	}
	i, equal, err := r.lowerPartition(&c.s, ix, k.Hash, k.EPK)
	if err != nil || i == ix.partitions.n {
		return 0, -1, 0, false, err
	}
	e, err := r.partition(&c.s, ix, i)
	if err != nil {
		return 0, -1, 0, false, err
	}
	lo, hi, first = int64(e.group), int64(e.group), e.ordinal
	if !equal {
		return lo, hi, first, false, nil
	}
	from := i
	if i, err = r.upperPartition(&c.s, ix, i, k.EPK); err != nil {
		return 0, -1, 0, false, err
	}
	one = i == from+1
	if hi = int64(r.props.Groups) - 1; i < ix.partitions.n {
		if e, err = r.partition(&c.s, ix, i); err != nil {
			return 0, -1, 0, false, err
		}
		hi = int64(e.group)
	}
	if hi < lo {
		err = r.corrupt(ix.partitions.entries, errEntry)
	}
	return lo, hi, first, one, err
}

// openAt opens a group and returns the position in it of an ordinal.
func (c *Cursor) openAt(index int64, ordinal uint32) (at int, ok bool) {
	off, base, err := c.locate(index)
	if err != nil {
		c.err = err
		return 0, false
	}
	if !c.load(off, index, false) {
		return 0, false
	}
	if ordinal < base || ordinal-base >= uint32(c.open.g.count) {
		c.err = c.r.corrupt(off, errOrdinal)
		return 0, false
	}
	return int(ordinal - base), true
}
