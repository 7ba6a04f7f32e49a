package segment

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/scancache"
)

// A scan that takes documents one by one spends most of its time between them. So a cursor
// can give many together, of groups that have nothing but documents, one version each.

// What Take gives and is asked for.
type (
	Taken  = scancache.Taken
	Part   = scancache.Part
	Wanted = scancache.Wanted
)

// Take appends the documents from the present one on to text and dst, without their partition
// key, which all have in common, and moves to the last of them. Then only Key may be called before the
// cursor moves. Take ends before a group in which there may be something else, such as an
// overwritten version or an expiry: if the present key is in it, Take does nothing. Err tells of an error.
func (c *Cursor) Take(w *Wanted, text []byte, dst []Taken) ([]byte, []Taken) {
	began, most := len(dst), len(dst)+w.Most
	if c.mapped {
		text, dst = c.takeMapped(w, most, text, dst)
	} else {
		text, dst = c.takeCopies(w, most, text, dst)
	}
	switch {
	case len(dst) == began:
	case c.i < 0 || c.err != nil:
		c.id = append(c.id[:0], dst[len(dst)-1].ID.Of(text)...)
		c.key.ID = c.id
	default:
		c.valid = c.setKey(c.i)
	}
	return text, dst
}

// takeCopies is the part of Take for groups that are open one after the other.
func (c *Cursor) takeCopies(w *Wanted, most int, text []byte, dst []Taken) ([]byte, []Taken) {
	o := &c.open
	for c.plain(w) {
		if c.held != nil && c.held.InRun(c.at, w) {
			var more bool
			if text, dst, more = c.takeHeld(w, most, text, dst); !more || !c.follow() {
				break
			}
			continue
		}
		from := max(c.i, 0)
		to := min(o.g.count, from+most-len(dst))
		for w.Edge != nil && to > from && bytes.Compare(o.members[to-1].id(o.raw), w.Edge) >= 0 {
			to--
		}
		if to == from || o.begun && !c.Complete() {
			break
		}
		first, end := &o.members[from], &o.members[to-1]
		at := uint32(len(text) - first.part)
		text = append(text, o.raw[first.part:end.part+end.body+end.annex]...)
		n := len(dst)
		dst = slices.Grow(dst, to-from)[:n+to-from]
		for i := from; i < to; i++ {
			m, t := &o.members[i], &dst[n+i-from]
			t.Seq, t.Modified, t.Expires, t.PK = o.g.sequence(i), o.g.modified(i), 0, Part{}
			t.Body.Off, t.Body.Len = at+uint32(m.part), uint32(m.body)
			t.ID.Off, t.ID.Len = at+uint32(m.idPart+m.idOff), uint32(m.idLen)
		}
		if c.i = to - 1; to < o.g.count || len(dst) == most || len(text) >= w.Bytes || o.end() >= c.r.groups.end() {
			break
		}
		raw := o.g.coding&codingCodec == codecRaw
		if raw && c.inPlace {
			break // what follows may stay in the mapping
		}
		if raw && o.g.count == 1 && c.s.view != nil {
			var more bool
			if text, dst, more = c.takeBehind(w, most, text, dst); more {
				continue
			}
			break
		}
		if !c.follow() {
			break
		}
	}
	return text, dst
}

// takeMapped is the part of Take for a document that stays in the mapping, and those behind it.
func (c *Cursor) takeMapped(w *Wanted, most int, text []byte, dst []Taken) ([]byte, []Taken) {
	o := &c.open
	if !w.InPlace || !c.plainMember(w, &o.members[0], &o.g) || w.Edge != nil && bytes.Compare(c.key.ID, w.Edge) >= 0 {
		return text, dst
	}
	text, dst = w.Give(text, dst, o.g.sequence(0), o.g.modified(0), c.key.ID, o.body(0))
	text, dst, _ = c.takeBehind(w, most, text, dst)
	return text, dst
}

// takeBehind is the part of Take for groups behind the open one that have one document each, stored as it is. It does not
// open them one by one. If bodies stay in the mapping it ends before the first group that is none of these, else
// it opens that, and reports whether Take goes on there.
func (c *Cursor) takeBehind(w *Wanted, most int, text []byte, dst []Taken) (_ []byte, _ []Taken, more bool) {
	o, view, end := &c.open, c.s.view, c.r.groups.end()
	last, off, passed, ahead := o.off, o.end(), int64(0), false
	c.err = c.r.Guard(func() error {
		var g group
		var m member
		for ; off < end && len(dst) < most && len(text) < w.Bytes; off += int64(g.size) {
			if ok, err := c.look(&g, &m, off, view); !ok || err != nil {
				return err
			}
			id := m.id(g.payload)
			if ahead = !c.plainMember(w, &m, &g) || w.Edge != nil && bytes.Compare(id, w.Edge) >= 0; ahead {
				c.openAhead(&g, &m, off, id)
				return nil
			}
			if seq, modified := g.sequence(0), g.modified(0); c.mapped {
				text, dst = w.Give(text, dst, seq, modified, id, g.payload[:m.body:m.body])
			} else {
				at := uint32(len(text))
				text = append(text, g.payload...)
				dst = append(dst, Taken{Seq: seq, Modified: modified, Body: Part{Off: at, Len: uint32(m.body)}, ID: Part{Off: at + uint32(m.idOff), Len: uint32(m.idLen)}})
			}
			last = off
			passed++
		}
		return nil
	})
	c.held = nil // of what look has found
	index, next := c.group, c.group
	if index >= 0 {
		index, next = index+passed, index+passed+1
	}
	switch {
	case c.err != nil:
		c.open.off, c.ordinalOf = 0, 0 // as after load: what is open may be neither group
	case ahead:
		c.i, c.group = -1, next
	case !c.mapped && off < end && len(dst) < most && len(text) < w.Bytes:
		c.i = -1
		more = c.load(off, next, false)
	case passed > 0:
		c.i = 0
		c.load(last, index, c.mapped)
	}
	c.valid = c.err == nil
	return text, dst, more
}

// look reads the group at off, and reports whether it is one for takeBehind: in memory, of the present logical partition, and with
// one document, which is stored as it is. What stays in the mapping must have been verified before. The caller is guarded.
func (c *Cursor) look(g *group, m *member, off int64, view *openfile.View) (ok bool, err error) {
	r := c.r
	if !r.residency.Has(off, min(r.groups.end()-off, r.coldFirst)) || c.mapped && !r.verified.Has(view, off) || !c.mapped && c.find(off) >= 0 {
		return false, nil
	}
	b, err := r.groupBytes(&c.s, off)
	if err != nil || c.s.view != view || len(b) < preludeLen || b[4] > 0 || b[5]&codingCodec != codecRaw {
		return false, err
	}
	if err = g.parse(b, off, &r.base, c.mapped); err != nil {
		return false, r.corrupt(off, err)
	}
	pos, err := g.next(m, nil, 0, r.opts.MaxRaw)
	if err == nil && (pos != len(g.members) || m.body+m.annex != len(g.payload)) {
		err = errMember
	}
	if err != nil {
		return false, r.corrupt(off, err)
	}
	view.Expect(off + int64(g.size))
	return g.matchPK(m, g.payload, c.key.PK), nil
}

// openAhead opens the group that takeBehind has read and does not take. The caller is guarded.
func (c *Cursor) openAhead(g *group, m *member, off int64, id []byte) {
	o := &c.open
	o.g, o.off, o.flags, o.rawLen, o.raw = *g, off, m.flags, len(g.payload), g.payload
	o.members[0] = *m
	if c.mapped {
		c.keepHead(id)
	} else {
		c.keepRaw()
		o.raw = o.g.payload
	}
}

// plainMember says whether the one member of a group may be taken.
func (c *Cursor) plainMember(w *Wanted, m *member, g *group) bool {
	return m.flags&notPlain == 0 && g.mod >= w.Written && c.r.props.MaxSeq <= c.maxSeq
}

// follow opens the group that follows the open one.
func (c *Cursor) follow() bool {
	next := int64(-1)
	if c.group >= 0 {
		next = c.group + 1
	}
	c.i = -1 // what it was on is not open any more
	c.valid = c.load(c.open.end(), next, false)
	return c.valid
}

// notPlain are the flags of what Take does not give.
const notPlain = memberTombstone | memberOlder | memberFollowed | memberExpires | memberClaim

// plain says whether all that the open group has from the cursor on may be taken.
func (c *Cursor) plain(w *Wanted) bool {
	o := &c.open
	if c.mapped || o.flags&notPlain != 0 || o.g.mod < w.Written || c.r.props.MaxSeq > c.maxSeq {
		return false
	}
	last := &o.members[o.g.count-1]
	return last.pkSpec == o.members[max(c.i, 0)].pkSpec && (c.i >= 0 || o.g.matchPK(last, o.raw, c.key.PK))
}
