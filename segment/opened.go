package segment

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lz"
	"github.com/cleavestore/cleave/internal/payload"
	"github.com/cleavestore/cleave/internal/varint"
)

// opened is a group being read: its head decoded, then its payload.
type opened struct {
	g       group
	off     int64
	dict    *Dictionary // nil if the payload was made without one
	members []member
	flags   byte // of all members together
	rawLen  int
	raw     []byte
	begun   bool // only the beginning of raw is decoded: see decodeKey
}

// parse verifies the group at the start of b, which lies at off, unless its checksum is
// known to be right.
func (o *opened) parse(r *Reader, b []byte, off int64, known bool) error {
	if err := o.g.parse(b, off, &r.base, known); err != nil {
		return r.corrupt(off, err)
	}
	o.off, o.dict, o.begun = off, nil, false
	if c := o.g.coding; c&codingDict != 0 {
		n := int(c >> codingShift & 7)
		if n >= len(r.dicts) {
			return r.corrupt(off, errNoDict)
		}
		o.dict = r.dicts[n]
	}
	return nil
}

// head decodes the members.
func (o *opened) head(r *Reader) error {
	o.members, o.flags = slices.Grow(o.members[:0], o.g.count)[:o.g.count], 0
	var m, before *member
	pos := 0
	for i := range o.members {
		m, before = &o.members[i], m
		var err error
		if pos, err = o.g.next(m, before, pos, r.opts.MaxRaw); err != nil {
			return r.corrupt(o.off, err)
		}
		o.flags |= m.flags
	}
	if pos != len(o.g.members) {
		return r.corrupt(o.off, errMember)
	}
	o.rawLen = m.part + m.body + m.annex
	return nil
}

// expand decodes the payload behind dst and returns dst, grown. A payload that
// was stored raw stays where it is.
func (o *opened) expand(r *Reader, dst []byte) ([]byte, error) {
	codec := o.g.coding & codingCodec
	out, err := payload.Decode(dst, o.g.payload, codec, o.dict, o.rawLen)
	if err != nil {
		return dst, r.corrupt(o.off, err)
	}
	if codec == codecRaw {
		o.raw = out
		return dst, nil
	}
	o.raw = out[len(dst):]
	return out, nil
}

// expandFirst decodes, behind dst, only as much of the members and the payload as the
// key of the first member takes, and returns dst, grown. The rest of o.raw is undefined.
func (o *opened) expandFirst(r *Reader, dst []byte) ([]byte, error) {
	codec := o.g.coding & codingCodec
	if codec == codecZstd {
		if err := o.head(r); err != nil {
			return dst, err
		}
		return o.expand(r, dst)
	}
	o.members = slices.Grow(o.members[:0], 1)[:1]
	m := &o.members[0]
	end, err := o.g.next(m, nil, 0, r.opts.MaxRaw)
	if err == nil && o.g.count == 1 && end != len(o.g.members) {
		err = errMember
	}
	if err != nil {
		return dst, r.corrupt(o.off, err)
	}
	size := len(o.g.payload)
	if codec != codecRaw {
		n, at := varint.At(o.g.payload, 0)
		if at == 0 || n > uint64(r.opts.MaxRaw) || codec == codecLZ && n > uint64(size)*lz.MaxRatio {
			return dst, r.corrupt(o.off, errPayload)
		}
		size = int(n)
	}
	if size < m.body+m.annex {
		return dst, r.corrupt(o.off, errPayload)
	}
	if codec == codecRaw {
		o.raw = o.g.payload
		return dst, nil
	}
	at := len(dst)
	dst = slices.Grow(dst, size)[:at+size]
	o.raw = dst[at:]
	need, ok := max(m.idOff+m.idLen, o.g.reachPK(m)), false
	if codec == codecLZ {
		_, ok = lz.Decode(o.raw, o.g.payload, o.dict.Content(), need)
	} else {
		_, ok = lz.DecodeS2(o.raw, o.g.payload, o.dict.Content(), need)
	}
	if !ok {
		return dst, r.corrupt(o.off, errPayload)
	}
	return dst, nil
}

// decode is parse, head and expand, into buf, which it returns grown. b must
// live as long as o is used.
func (o *opened) decode(r *Reader, b []byte, off int64, buf []byte) ([]byte, error) {
	if err := o.parse(r, b, off, false); err != nil {
		return buf, err
	}
	if err := o.head(r); err != nil {
		return buf, err
	}
	return o.expand(r, buf[:0])
}

// decodeKey is decode, but of a single member in an LZ or S2 block it decodes only as
// much as the key takes: the rest of raw is undefined.
func (o *opened) decodeKey(r *Reader, b []byte, off int64, buf []byte) ([]byte, error) {
	if err := o.parse(r, b, off, false); err != nil {
		return buf, err
	}
	return o.expandKey(r, buf)
}

// expandKey is the part of decodeKey behind parse.
func (o *opened) expandKey(r *Reader, buf []byte) ([]byte, error) {
	codec := o.g.coding & codingCodec
	if o.begun = o.g.count == 1 && (codec == codecLZ || codec == codecS2); o.begun {
		first, err := o.expandFirst(r, buf[:0])
		if err != nil {
			return first, err
		}
		m := &o.members[0]
		o.flags, o.rawLen = m.flags, m.body+m.annex
		return first, nil
	}
	if err := o.head(r); err != nil {
		return buf, err
	}
	return o.expand(r, buf[:0])
}

func (o *opened) end() int64 { return o.off + int64(o.g.size) }

// is reports whether member i has the key's partition key and id.
func (o *opened) is(i int, k *item.Key) bool {
	m := &o.members[i]
	return bytes.Equal(m.id(o.raw), k.ID) && o.g.matchPK(m, o.raw, k.PK)
}

func (o *opened) isOlder(i int) bool    { return o.members[i].flags&memberOlder != 0 }
func (o *opened) isFollowed(i int) bool { return o.members[i].flags&memberFollowed != 0 }

func (o *opened) body(i int) []byte {
	m := &o.members[i]
	return o.raw[m.part : m.part+m.body : m.part+m.body]
}

// version fills v; the body aliases the payload. If decodeKey left it out it is missing.
func (o *opened) version(i int, v *item.Version) {
	if o.g.version(i, &o.members[i], v); !o.begun {
		v.Body = o.body(i)
	}
}

// complete decodes into buf, which it returns grown, what decodeKey left out, and adds the body to v.
// The bytes that are decoded again are the same: a key that aliases them stays valid.
func (o *opened) complete(r *Reader, buf []byte, v *item.Version) ([]byte, error) {
	if !o.begun {
		return buf, nil
	}
	buf, err := o.expand(r, buf[:0])
	if err == nil {
		o.begun, v.Body = false, o.body(0)
	}
	return buf, err
}

// shownKey is the key of the version that a cursor or walker is on.
type shownKey struct {
	item.Key
	valid   bool
	pk, epk []byte
	off     int64 // of a group
	spec    int   // pkSpec of those of its members that have pk
}

// set makes k the key of member i. Its id aliases the payload.
func (k *shownKey) set(r *Reader, o *opened, i int) error {
	m := &o.members[i]
	k.ID = m.id(o.raw)
	if k.valid && (k.off == o.off && k.spec == m.pkSpec || o.g.matchPK(m, o.raw, k.pk)) {
		k.off, k.spec = o.off, m.pkSpec
		return nil
	}
	k.off, k.spec = o.off, m.pkSpec
	k.pk = o.g.appendPK(k.pk[:0], m, o.raw)
	k.epk = r.opts.EPK(k.epk[:0], k.pk)
	if k.valid = len(k.epk) == 16*r.props.Levels; !k.valid {
		return r.corrupt(o.off, errEPK)
	}
	k.Hash, k.EPK, k.PK = item.HashOf(k.epk), k.epk, k.pk
	return nil
}
