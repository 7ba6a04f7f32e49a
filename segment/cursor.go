package segment

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/scancache"
)

// Cursor moves over the keys of a file in both directions and shows of each key
// the newest version at or below its bound, tombstones included; keys without
// one are passed over. It begins unpositioned, and is so again when a movement
// has returned false: at an end, or on an error, which Err tells. Next and Prev
// then return false until a First, Last or Seek succeeds.
//
// A cursor serves one goroutine at a time; its file must not be released before
// the last call.
type Cursor struct {
	r      *Reader
	maxSeq uint64
	s      scratch
	own    []byte // the open group as it is in the file, or from its columns on
	buf    []byte // its decoded payload, unless that is raw
	open   opened
	held   *scancache.Stretch // that has the open group; nil: the group was decoded
	at     int                // index of the open group in held
	missed uint64             // one more than the number of the stretch that was looked for last and is not held; 0: none
	wanted bool               // the cache knows that it is wanted
	group  int64              // index of the open group, -1: not known
	i      int                // member of open; -1: the one before, whose key is key
	valid  bool
	key    shownKey
	id     []byte   // of key, after a Take
	first  shownKey // the key that a search compared last
	ver    item.Version
	err    error
	lo, hi *item.Key // of Within; nil: there is no bound

	inPlace bool   // of InPlace
	mapped  bool   // the payload of the open group lies in the mapping, and key has the partition key of its only member
	onlyID  []byte // of that member
	keys    bool   // of KeysFirst

	ordinal   uint32 // of the first member of the group at ordinalOf
	ordinalOf int64  // 0: not known
}

// Cursor returns a cursor over the versions at or below maxSeq.
func (r *Reader) Cursor(maxSeq uint64) *Cursor {
	c := new(Cursor)
	c.Reset(r, maxSeq)
	return c
}

// Reset makes c an unpositioned cursor over r that keeps its buffers. With a nil reader
// it only releases the file: c must be Reset again before it moves.
func (c *Cursor) Reset(r *Reader, maxSeq uint64) {
	c.r, c.maxSeq = r, maxSeq
	c.valid, c.err, c.lo, c.hi, c.inPlace, c.mapped, c.keys = false, nil, nil, nil, false, false, false
	c.open.g, c.open.dict, c.open.raw = group{}, nil, nil
	c.held, c.missed, c.key.ID, c.ver.Body = nil, 0, nil, nil
	c.open.off, c.key.valid, c.first.valid, c.ordinalOf = 0, false, false, 0
	c.s.open.g, c.s.open.dict, c.s.open.raw, c.s.view = group{}, nil, nil, nil
	if r == nil && cap(c.own)+cap(c.buf)+cap(c.s.cold)+cap(c.s.raw)+cap(c.s.group) > scratchKeep {
		c.own, c.buf, c.s.cold, c.s.raw, c.s.group = nil, nil, nil, nil, nil
	}
}

// Within says that the caller wants no key before lo and none after hi, until the next
// Reset: a movement that has come out of these bounds may return false. Without it a
// movement passes over any number of keys that have no visible version.
func (c *Cursor) Within(lo, hi *item.Key) { c.lo, c.hi = lo, hi }

// InPlace says, until the next Reset, that the caller has pinned the reader until it is
// done with all that the cursor has shown. Then a group is verified once in each mapping of
// the file, and a body that is stored by itself and raw may be shown where the mapping has
// it: see Mapped.
func (c *Cursor) InPlace() { c.inPlace = true }

// KeysFirst says whether Version may lack its body until Complete: it does so where a group has one document, of
// which the key is decoded much faster. It pays where documents are passed over because other files have newer ones.
func (c *Cursor) KeysFirst(on bool) { c.keys = on }

// Complete adds the body to Version. It returns false on an error, which Err tells.
func (c *Cursor) Complete() bool {
	if c.valid && c.open.begun {
		c.buf, c.err = c.open.complete(c.r, c.buf, &c.ver)
		c.valid = c.err == nil
	}
	return c.valid
}

// Mapped reports whether the body of Version stays where it is while the reader is pinned: in
// the mapping of the file, where touching it may be a memory fault (openfile.Guard), or in the
// scan cache.
func (c *Cursor) Mapped() bool { return c.mapped || c.inPlace && c.held != nil }

// First moves to the first key.
func (c *Cursor) First() bool {
	return c.begin() && c.load(c.r.groups.Off, 0, false) && c.forward(0)
}

// Last moves to the last key.
func (c *Cursor) Last() bool {
	return c.begin() && c.loadIndex(int64(c.r.props.Groups)-1, false) && c.backward(c.open.g.count-1)
}

// SeekGE moves to the first key not before k.
func (c *Cursor) SeekGE(k *item.Key) bool {
	if !c.begin() {
		return false
	}
	at, ok := c.lowerBound(k)
	return ok && c.forward(at) && c.settled(item.Compare(&c.key.Key, k) >= 0)
}

// SeekLT moves to the last key before k.
func (c *Cursor) SeekLT(k *item.Key) bool {
	if !c.begin() {
		return false
	}
	at, ok := c.lowerBound(k)
	if !ok {
		return c.err == nil && c.Last() && c.settled(item.Compare(&c.key.Key, k) < 0)
	}
	return c.backward(at-1) && c.settled(item.Compare(&c.key.Key, k) < 0)
}

// settled reports whether a seek has come to the right side of its key. If not, a caller
// that seeks from one key to the next could loop forever.
func (c *Cursor) settled(right bool) bool {
	if !right {
		c.valid, c.err = false, c.r.corrupt(c.open.off, errOrder)
	}
	return right
}

// Next moves to the following key.
func (c *Cursor) Next() bool {
	if !c.valid {
		return false
	}
	if i := c.i + 1; i > 0 && i < c.open.g.count && c.open.flags&(memberOlder|memberFollowed) == 0 && c.r.props.MaxSeq <= c.maxSeq {
		c.valid = false
		return c.show(i)
	}
	c.valid = false
	at := 0
	if c.i >= 0 {
		at = c.pass(c.i)
	}
	return at >= 0 && c.forward(at)
}

// Prev moves to the preceding key.
func (c *Cursor) Prev() bool {
	if !c.valid {
		return false
	}
	if c.i < 0 {
		k := c.key.Clone()
		return c.SeekLT(&k)
	}
	c.valid = false
	at := c.newest(c.i)
	return at >= 0 && c.backward(at-1)
}

// Valid reports whether the cursor is at a key.
func (c *Cursor) Valid() bool { return c.valid }

// Key returns the key at the cursor, valid until it moves. Call it only when
// Valid.
func (c *Cursor) Key() *item.Key { return &c.key.Key }

// Version returns the version at the cursor, valid as Key is.
func (c *Cursor) Version() *item.Version { return &c.ver }

// Err returns the error that the last movement met, nil at an end.
func (c *Cursor) Err() error { return c.err }

// begin starts a movement that does not depend on where the cursor is.
func (c *Cursor) begin() bool {
	c.valid, c.err = false, c.r.file.Broken()
	return c.err == nil
}

// Positions are members of the open group. -1 stands for the last member of the group
// before, and the number of members for the first of the group after: adjust opens that
// group.

// forward moves to the first key from member i on that has a version to show. Member i
// is the newest of its key.
func (c *Cursor) forward(i int) bool {
	for {
		var ok bool
		if i, ok = c.adjust(i); !ok {
			return false
		}
		for c.open.g.sequence(i) > c.maxSeq && c.open.isFollowed(i) {
			if i, ok = c.adjust(i + 1); !ok {
				return c.broken()
			}
			if !c.open.isOlder(i) {
				return c.broken()
			}
		}
		if c.open.g.sequence(i) <= c.maxSeq {
			return c.show(i)
		}
		if c.hi != nil && !c.passes(i, c.hi, +1) {
			return false
		}
		i++
	}
}

// backward moves to the last key up to member i that has a version to show. Member i is
// the oldest of its key.
func (c *Cursor) backward(i int) bool {
	for {
		var ok bool
		if i, ok = c.adjust(i); !ok {
			return false
		}
		if c.open.g.sequence(i) > c.maxSeq {
			if i = c.newest(i); i < 0 {
				return false
			}
			if c.lo != nil && !c.passes(i, c.lo, -1) {
				return false
			}
			i--
			continue
		}
		for c.open.isOlder(i) {
			// Is the next newer version still to be shown?
			if i, ok = c.adjust(i - 1); !ok {
				return c.broken()
			}
			if c.open.g.sequence(i) > c.maxSeq {
				if i, ok = c.adjust(i + 1); !ok {
					return c.broken()
				}
				break
			}
		}
		return c.show(i)
	}
}

// passes says whether a movement that passes over member i goes on: its key does not lie
// on the given side of a bound. An error ends the movement.
func (c *Cursor) passes(i int, bound *item.Key, side int) bool {
	return c.setKey(i) && item.Compare(&c.key.Key, bound) != side
}

// pass returns the position after the versions of the key at i, -1 on an error.
func (c *Cursor) pass(i int) int {
	for c.open.isFollowed(i) {
		var ok bool
		if i, ok = c.adjust(i + 1); !ok || !c.open.isOlder(i) {
			c.broken()
			return -1
		}
	}
	return i + 1
}

// newest returns the position of the newest version of the key at i, -1 on an
// error.
func (c *Cursor) newest(i int) int {
	for c.open.isOlder(i) {
		var ok bool
		if i, ok = c.adjust(i - 1); !ok {
			c.broken()
			return -1
		}
	}
	return i
}

// broken reports a chain of versions that the file does not complete.
func (c *Cursor) broken() bool {
	if c.err == nil {
		c.err = c.r.corrupt(c.open.off, errOlder)
	}
	return false
}

// adjust makes i a member of the open group. It returns false at the ends of
// the file and on an error.
func (c *Cursor) adjust(i int) (int, bool) {
	switch {
	case i < 0:
		if c.open.off == c.r.groups.Off {
			return 0, false
		}
		if c.group < 0 && !c.findIndex() {
			return 0, false
		}
		if !c.loadIndex(c.group-1, true) {
			return 0, false
		}
		return c.open.g.count - 1, true
	case i >= c.open.g.count:
		off := c.open.end()
		if off >= c.r.groups.end() {
			return 0, false
		}
		next := int64(-1)
		if c.group >= 0 {
			next = c.group + 1
		}
		return 0, c.load(off, next, true)
	}
	return i, true
}

// show puts the cursor on member i.
func (c *Cursor) show(i int) bool {
	if !c.setKey(i) {
		return false
	}
	c.i, c.valid = i, true
	c.open.version(i, &c.ver)
	return true
}

// setKey makes key that of member i of the open group.
func (c *Cursor) setKey(i int) bool {
	if c.mapped {
		c.key.ID = c.onlyID
		return true
	}
	c.err = c.key.set(c.r, &c.open, i)
	return c.err == nil
}

// load opens the group at off; index is its index, -1 if not known. The cursor keeps what
// it needs of the group, so that it can be used without a guard. stay: its payload may stay
// in the mapping, which only setKey and Version know how to deal with.
func (c *Cursor) load(off, index int64, stay bool) bool {
	c.err = c.fetch(off, stay && c.inPlace)
	if c.group = index; c.err != nil {
		c.open.off, c.ordinalOf = 0, 0 // what is open is neither this group nor the one before
	}
	return c.err == nil
}

func (c *Cursor) fetch(off int64, stay bool) (err error) {
	c.mapped = false
	var held bool
	if held, err = c.recall(off); held || err != nil {
		return err
	}
	defer c.r.file.Unguard(openfile.Guard(), &err)
	o := &c.open
	if at := o.off; off == o.end() || off < at && at-off < coldAhead {
		if err = c.r.warmAhead(&c.s, at, off); err != nil {
			return err
		}
	}
	b, err := c.r.groupBytes(&c.s, off)
	if err != nil {
		return err
	}
	// A large raw payload is verified where it lies: a checksum fetches it faster from memory
	// than a copy does. What is to be decoded is copied first: that is read twice more.
	raw := len(b) > preludeLen && b[5]&codingCodec == codecRaw
	if !raw {
		c.own = append(c.own[:0], b...)
		b = c.own
	}
	known := c.inPlace && c.r.verified.Has(c.s.view, off)
	if err = o.parse(c.r, b, off, known); err != nil {
		return err
	}
	if c.inPlace && !known {
		c.r.verified.Note(c.s.view, off, int64(o.g.size))
	}
	if raw && stay && c.s.view != nil && o.g.count == 1 {
		c.s.view.Expect(o.end())
		return c.keep()
	}
	if raw {
		c.keepRaw()
	}
	if c.keys {
		c.buf, err = o.expandKey(c.r, c.buf)
		return err
	}
	if err = o.head(c.r); err != nil {
		return err
	}
	c.buf, err = o.expand(c.r, c.buf[:0])
	return err
}

// keep is the end of fetch for a group of one member whose payload stays in the mapping.
func (c *Cursor) keep() (err error) {
	o := &c.open
	if err = o.head(c.r); err != nil {
		return err
	}
	if o.raw = o.g.payload; len(o.raw) != o.rawLen {
		return c.r.corrupt(o.off, errPayload)
	}
	if err = c.key.set(c.r, o, 0); err == nil {
		c.keepHead(c.key.ID)
		c.key.ID = c.onlyID
	}
	return err
}

// keepRaw copies what is used without a guard of the open group, of which the payload is raw.
func (c *Cursor) keepRaw() {
	g := &c.open.g
	n := len(g.columns)
	c.own = append(append(c.own[:0], g.columns...), g.payload...)
	g.split(c.own[:n])
	g.payload = c.own[n:]
}

// keepHead is keepRaw without the payload: id is that of the only member.
func (c *Cursor) keepHead(id []byte) {
	g := &c.open.g
	n := len(g.columns)
	c.own = append(append(c.own[:0], g.columns...), id...)
	g.split(c.own[:n])
	c.onlyID, c.mapped = c.own[n:], true
}

// loadIndex opens the group of an index, as load does.
func (c *Cursor) loadIndex(index int64, stay bool) bool {
	off, _, err := c.locate(index)
	if err != nil {
		c.err = err
		return false
	}
	return c.load(off, index, stay)
}

// locate returns the offset of a group and the ordinal of its first member.
func (c *Cursor) locate(index int64) (off int64, ordinal uint32, err error) {
	defer c.r.file.Unguard(openfile.Guard(), &err)
	if index < 0 || uint64(index) >= c.r.props.Groups {
		return 0, 0, c.r.corrupt(c.r.offsets.Off, errEntry)
	}
	return c.r.groupAt(&c.s, uint32(index))
}

// findIndex finds the index of the open group.
func (c *Cursor) findIndex() bool {
	var at uint32
	c.err = c.r.Guard(func() (err error) {
		at, err = c.r.groupIndex(&c.s, c.open.off)
		return err
	})
	c.group = int64(at)
	return c.err == nil
}
