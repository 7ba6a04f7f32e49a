package segment

import (
	"github.com/cleavestore/cleave/internal/scancache"
)

// Scans decode the same groups again and again if there are few enough. So cursors keep
// stretches of a file decoded (package scancache). A cursor that opens two groups of a
// stretch, one after the other, wants it.

// stretchShift returns the logarithm of the length of a stretch in a file whose groups take so
// many bytes, and their bodies raw.
func stretchShift(groups int64, raw uint64) (shift uint8) {
	const least, most = 12, 16
	for shift = least; shift < most && uint64(groups)>>shift > raw/scancache.StretchBytes; shift++ {
	}
	return shift
}

// recall opens the group at off if it is held decoded, and reports whether it is.
func (c *Cursor) recall(off int64) (bool, error) {
	if i := c.find(off); i >= 0 {
		return true, c.openHeld(i)
	}
	return false, nil
}

// find finds the stretch that holds the group at off, and makes it if it is wanted. It returns the index of the group in it,
// -1 if there is none.
func (c *Cursor) find(off int64) int {
	r := c.r
	cache := r.opts.ScanCache
	if cache == nil || off < r.groups.Off || off >= r.groups.end() { // as a forged table may say
		c.held = nil
		return -1
	}
	if c.held != nil {
		if i := c.held.Index(off, c.at); i >= 0 {
			return i
		}
		c.held = nil
	}
	n := uint64(off-r.groups.Off) >> r.stretchShift
	if c.missed != n+1 {
		if c.held = cache.Find(r.number, n); c.held == nil {
			c.missed, c.wanted = n+1, false
			return -1
		}
	} else {
		if c.wanted {
			return -1
		}
		c.wanted = true
		if !cache.Want(r.number, n) {
			return -1
		}
		if c.held = r.hold(n); c.held == nil {
			return -1
		}
	}
	i := c.held.Index(off, -1)
	if i < 0 { // it was too large
		c.held, c.missed, c.wanted = nil, n+1, true
		return -1
	}
	c.missed = 0
	return i
}

// openHeld opens group i of the held stretch.
func (c *Cursor) openHeld(i int) error {
	o := &c.open
	h, head, payload := c.held.Group(i)
	c.at = i
	o.off, o.dict, o.begun, o.raw = h.Off, nil, false, payload
	o.g.count, o.g.coding, o.g.ws, o.g.wm = int(h.Count), h.Coding, int(h.WS), int(h.WM)
	o.g.size, o.g.seq, o.g.mod, o.g.payload = int(h.Size), h.Seq, h.Mod, nil
	o.g.split(head)
	return o.head(c.r)
}

// takeHeld is the part of Take for documents of the held stretch. It reports whether Take goes on behind them.
func (c *Cursor) takeHeld(w *Wanted, most int, text []byte, dst []Taken) (_ []byte, _ []Taken, more bool) {
	s, n := c.held, len(dst)
	text, dst, group, member, whole := s.Take(c.at, max(c.i, 0), w, most, text, dst)
	if len(dst) == n {
		return text, dst, false
	}
	if group != c.at {
		if c.group >= 0 {
			c.group += int64(group - c.at)
		}
		if c.err = c.openHeld(group); c.err != nil {
			c.valid = false
			return text, dst, false
		}
	}
	c.i = member
	// What follows another stretch may stay in the mapping, if the cursor is InPlace.
	more = whole && (!c.inPlace || s.HasNext(group)) && len(dst) < most && len(text) < w.Bytes && c.open.end() < c.r.groups.end()
	return text, dst, more
}

// hold decodes stretch n and puts it into the cache. It returns nil if the stretch is not in
// memory as a whole, and on an error, which a cursor meets where it is.
func (r *Reader) hold(n uint64) (held *scancache.Stretch) {
	from := r.groups.Off + int64(n)<<r.stretchShift
	end := min(from+1<<r.stretchShift, r.groups.end())
	if !r.residency.Has(from, end-from) {
		return nil
	}
	s := scratches.Get().(*scratch) // that of the cursor may have what its caller still reads
	defer s.free()
	m := scancache.NewMaker()
	defer m.Free()
	if err := r.Guard(func() error { return r.fill(s, m, from, end) }); err != nil || m.Groups() < 2 {
		return nil
	}
	return r.opts.ScanCache.Put(r.number, n, m)
}

// fill decodes the groups that begin from from to end. The caller is guarded.
func (r *Reader) fill(s *scratch, m *scancache.Maker, from, end int64) error {
	g, off, err := r.groupBefore(s, from)
	if err == nil && off < from {
		if uint64(g)+1 == r.props.Groups {
			return nil
		}
		off, _, err = r.groupAt(s, g+1)
	}
	var o opened
	var pk []byte
	for ; err == nil && off < end; off = o.end() {
		var b []byte
		if b, err = r.groupBytes(s, off); err != nil {
			break
		}
		if err = o.parse(r, b, off, false); err != nil {
			break
		}
		if err = o.head(r); err != nil || len(m.Text())+o.rawLen > scancache.MostBytes {
			break
		}
		var text []byte
		if text, err = o.expand(r, m.Text()); err != nil {
			break
		}
		if o.g.coding&codingCodec == codecRaw {
			text = append(text, o.raw...)
		}
		m.Add(scancache.Group{
			Off: off, Seq: o.g.seq, Mod: o.g.mod, Size: uint32(o.g.size), Count: uint8(o.g.count), Coding: o.g.coding, WS: uint8(o.g.ws), WM: uint8(o.g.wm),
		}, o.g.columns, text)
		if o.flags&notPlain != 0 || o.members[o.g.count-1].pkSpec != o.members[0].pkSpec {
			continue
		}
		pk = o.g.appendPK(pk[:0], &o.members[0], o.raw)
		m.Join(pk)
		for i := range o.members {
			d := &o.members[i]
			m.AddDoc(o.g.sequence(i), o.g.modified(i), Part{Off: uint32(d.part), Len: uint32(d.body)}, Part{Off: uint32(d.idPart + d.idOff), Len: uint32(d.idLen)})
		}
	}
	return err
}
