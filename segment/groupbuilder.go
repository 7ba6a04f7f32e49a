package segment

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keyspec"
	"github.com/cleavestore/cleave/internal/payload"
)

// pending is the group that a writer collects.
type groupBuilder struct {
	seed    item.Seed
	raw     []byte // parts one after the other, unless copied
	members []groupMember
	specs   []byte // descriptions of partition keys
	keys    int    // members that are the newest of their item
	first   item.KeyCopy

	// A single member may come compressed from another file.
	copied  bool
	payload []byte
	coding  byte

	head []byte // scratch
}

type groupMember struct {
	seq         uint64
	modified    int64
	expires     int64
	hash        uint64
	flags       byte
	body, annex int
	idOff       int
	idLen       int
	pkFrom      int // description within specs
	pkTo        int
}

// highest returns the highest sequence of the members.
func (p *groupBuilder) highest() (seq uint64) {
	for i := range p.members {
		seq = max(seq, p.members[i].seq)
	}
	return seq
}

// pendingKeep bounds the buffer that a writer keeps from group to group.
const pendingKeep = 8 << 20

// reset begins another group.
func (p *groupBuilder) reset() {
	p.raw, p.members, p.specs, p.keys = p.raw[:0], p.members[:0], p.specs[:0], 0
	p.copied = false
	if cap(p.raw) > pendingKeep {
		p.raw = nil
	}
}

// takes reports whether a body of n bytes may join the group.
func (p *groupBuilder) takes(n int) bool {
	return len(p.members) == 0 || !p.copied && len(p.members) < groupMembers && len(p.raw)+n <= groupRaw
}

// add appends a version. samePK and older tell how it relates to the version
// added before it to the file.
func (p *groupBuilder) add(k *item.Key, v *item.Version, samePK, older bool) {
	m := p.begin(k, v, older)
	start := len(p.raw)
	p.raw = append(p.raw, v.Body...)
	if older && len(p.members) > 0 {
		p.members = append(p.members, m)
		return
	}
	var last *groupMember
	if n := len(p.members); n > 0 {
		last = &p.members[n-1]
	}
	m.idLen = len(k.ID)
	m.idOff = p.place(start, k.ID, last)
	if last != nil && !last.isKeyless() && m.idOff == last.idOff && m.idLen == last.idLen {
		m.flags |= memberSameID
	}
	if samePK && last != nil {
		m.flags |= memberSamePK
	} else {
		m.pkFrom = len(p.specs)
		p.specs = keyspec.Append(p.specs, k.PK, func(text []byte) int { return p.place(start, text, nil) })
		m.pkTo = len(p.specs)
	}
	if m.annex = len(p.raw) - start - m.body; m.annex > 0 {
		m.flags |= memberAnnex
	}
	p.members = append(p.members, m)
}

// begin makes the member of a version without its key.
func (p *groupBuilder) begin(k *item.Key, v *item.Version, older bool) groupMember {
	m := groupMember{seq: v.Seq, modified: v.Modified, hash: p.seed.Hash(k), body: len(v.Body)}
	if v.Deleted() {
		m.flags |= memberTombstone
	}
	if v.Flags&item.Claim != 0 {
		m.flags |= memberClaim
	}
	if v.Expires != 0 {
		m.flags |= memberExpires
		m.expires = v.Expires - v.Modified
	}
	if older {
		m.flags |= memberOlder
	} else {
		if p.keys == 0 {
			p.first.Set(k)
		}
		p.keys++
	}
	return m
}

// isKeyless says that a member has no id of its own.
func (m *groupMember) isKeyless() bool { return m.idLen == 0 && m.flags&memberOlder != 0 }

// place returns the offset of text in the part that begins at start. It tries the offset
// in the member before first. If the part does not have the text, place appends it.
func (p *groupBuilder) place(start int, text []byte, last *groupMember) int {
	part := p.raw[start:]
	if last != nil && last.idOff <= len(part) && bytes.HasPrefix(part[last.idOff:], text) {
		return last.idOff
	}
	if i := bytes.Index(part, text); i >= 0 {
		return i
	}
	p.raw = append(p.raw, text...)
	return len(part)
}

// addCopied takes over the only member of another file's group with its
// payload. The group must be empty.
func (p *groupBuilder) addCopied(k *item.Key, v *item.Version, g *group, m *member, older bool) {
	to := p.begin(k, v, older)
	to.body, to.annex = m.body, m.annex
	if m.annex > 0 {
		to.flags |= memberAnnex
	}
	to.idOff, to.idLen = m.idOff, m.idLen
	end := keyspec.Skip(g.members, m.pkSpec, m.body+m.annex)
	p.specs = append(p.specs[:0], g.members[m.pkSpec:end]...)
	to.pkTo = len(p.specs)
	p.members = append(p.members, to)
	p.payload = append(p.payload[:0], g.payload...)
	p.copied, p.coding = true, g.coding
}

// appendTo appends the encoded group, which will lie at off, to dst.
func (p *groupBuilder) appendTo(dst []byte, off int64, base *base, c *payload.Encoder) []byte {
	var body []byte
	var coding byte
	if p.copied {
		body, coding = p.payload, p.coding&codingCodec|c.DictBits() // Takes has made sure of this dictionary
	} else {
		body, coding = c.Encode(p.raw)
	}
	minSeq, maxSeq := p.members[0].seq, p.members[0].seq
	minMod, maxMod := p.members[0].modified, p.members[0].modified
	for i := range p.members {
		m := &p.members[i]
		minSeq, maxSeq = min(minSeq, m.seq), max(maxSeq, m.seq)
		minMod, maxMod = min(minMod, m.modified), max(maxMod, m.modified)
	}
	ws, wm := widthOf(maxSeq-minSeq), widthOf(uint64(maxMod-minMod))
	h := p.head[:0]
	h = binary.AppendUvarint(h, zigzag(int64(minSeq-base.seq)))
	h = binary.AppendUvarint(h, zigzag(minMod-base.modified))
	for i := range p.members {
		h = append(h, byte(p.members[i].hash>>8))
	}
	for i := range p.members {
		h = appendColumn(h, p.members[i].seq-minSeq, ws)
	}
	for i := range p.members {
		h = appendColumn(h, uint64(p.members[i].modified-minMod), wm)
	}
	for i := range p.members {
		h = p.appendMember(h, i)
	}
	p.head = h
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(len(p.members)-1), coding, byte(ws)|byte(wm)<<4)
	dst = binary.AppendUvarint(dst, uint64(len(h)))
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	dst = append(append(dst, h...), body...)
	binary.LittleEndian.PutUint32(dst[start:], checksum(dst[start+4:])^base.mask(off))
	return dst
}

func (p *groupBuilder) appendMember(h []byte, i int) []byte {
	m := &p.members[i]
	h = append(h, m.flags)
	h = binary.AppendUvarint(h, uint64(m.body))
	if m.flags&memberAnnex != 0 {
		h = binary.AppendUvarint(h, uint64(m.annex))
	}
	if m.flags&memberExpires != 0 {
		h = binary.AppendUvarint(h, zigzag(m.expires))
	}
	if m.flags&memberOlder != 0 && i > 0 {
		return h
	}
	if m.flags&memberSameID == 0 {
		h = binary.AppendUvarint(h, uint64(m.idOff))
		h = binary.AppendUvarint(h, uint64(m.idLen))
	}
	if m.flags&memberSamePK == 0 {
		h = append(h, p.specs[m.pkFrom:m.pkTo]...)
	}
	return h
}

func widthOf(n uint64) int { return (bits.Len64(n) + 7) / 8 }

func appendColumn(b []byte, n uint64, w int) []byte {
	for range w {
		b = append(b, byte(n))
		n >>= 8
	}
	return b
}
