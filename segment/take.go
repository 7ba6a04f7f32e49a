package segment

import (
	"bytes"
	"slices"

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
	o, began, most := &c.open, len(dst), len(dst)+w.Most
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
		if c.i = to - 1; to < o.g.count || len(dst) == most || len(text) >= w.Bytes || c.inPlace || o.end() >= c.r.groups.end() {
			break
		}
		if !c.follow() {
			break
		}
	}
	if c.i < 0 {
		c.id = append(c.id[:0], dst[len(dst)-1].ID.Of(text)...)
		c.key.ID = c.id
	} else if len(dst) > began {
		c.valid = c.setKey(c.i)
	}
	return text, dst
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
