package segment

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keyspec"
	"github.com/cleavestore/cleave/internal/payload"
	"github.com/cleavestore/cleave/internal/varint"
)

// Of a group's coding byte; part of the format.
const (
	codecRaw  = payload.Raw
	codecS2   = payload.S2
	codecZstd = payload.Zstd
	codecLZ   = payload.LZ

	codingCodec   = payload.CodecMask
	codingDict    = payload.DictMask
	codingShift   = payload.DictShift
	codingUnknown = 0xC0
)

// Flags of a member; part of the format.
const (
	memberTombstone = 1 << iota // deleted as of this version
	memberOlder                 // an older version of the item before it, which may lie in another group
	memberFollowed              // an older version of the same item comes next
	memberSamePK                // partition key of the member before it
	memberSameID                // id at the same place of its part as in the member before it
	memberExpires               // expiry of its own
	memberAnnex                 // key bytes that the body does not hold follow it
	memberClaim                 // no item but a claim on a unique key
)

const (
	preludeLen = 7                            // fixed bytes of a group
	preludeMax = preludeLen + 2*5             // with the two lengths
	maxPart    = MaxBody + item.MaxPK + 2<<10 // body and annex of one member
	memberMin  = 3                            // bytes of a member: of its hash, its flags and a length
	groupMin   = preludeLen + 2 + 2 + memberMin
	headMax    = 64 + groupMembers*(32+80) // bytes of a head
)

// group is a decoded prelude with its head and payload, which alias the input.
type group struct {
	count   int
	coding  byte
	ws, wm  int // widths of the columns of sequences and of times
	size    int // bytes of the whole group
	seq     uint64
	mod     int64
	columns []byte // what the next four are parts of
	hashes  []byte
	seqs    []byte // begins with count × ws bytes
	mods    []byte // begins with count × wm bytes
	members []byte
	payload []byte
}

// base has the values that those in a file's groups are relative to.
type base struct {
	seq      uint64
	modified int64
	file     uint32 // number of the file, mixed into checksums
}

// mask is mixed into the checksum of the group at off, so that the bytes of
// another place or file never verify.
func (b *base) mask(off int64) uint32 { return uint32(off) ^ uint32(off>>32) ^ b.file*0x9e3779b1 }

var (
	errShort    = fmt.Errorf("group: runs past its section")
	errLengths  = fmt.Errorf("group: lengths out of range")
	errChecksum = fmt.Errorf("group: checksum does not match")
	errHead     = fmt.Errorf("group: malformed head")
	errMember   = fmt.Errorf("group: malformed member")
	errTooLarge = fmt.Errorf("group: item larger than the reader's limit")
	errPayload  = payload.ErrMalformed
)

// groupSize returns the length of the group that begins with b, and the offsets of its
// head and its payload. preludeMax bytes of b suffice. Nothing is verified yet.
func groupSize(b []byte) (n int, head, body int, err error) {
	if len(b) < preludeLen+2 {
		return 0, 0, 0, errShort
	}
	h, i := varint.At(b, preludeLen)
	p, j := varint.At(b, i)
	if i == 0 || j == 0 || h > headMax || p > maxPart {
		return 0, 0, 0, errLengths
	}
	return j + int(h) + int(p), j, j + int(h), nil
}

// parse verifies the checksum of the group at the start of b, which lies at
// off in the file, unless that is known to be right, and splits it.
func (g *group) parse(b []byte, off int64, base *base, known bool) error {
	n, head, body, err := groupSize(b)
	if err != nil {
		return err
	}
	if n > len(b) {
		return errShort
	}
	if !known && binary.LittleEndian.Uint32(b) != checksum(b[4:n])^base.mask(off) {
		return errChecksum
	}
	g.size = n
	g.count = int(b[4]) + 1
	g.coding = b[5]
	g.ws, g.wm = int(b[6]&15), int(b[6]>>4)
	if g.count > groupMembers || g.coding&codingUnknown != 0 || g.ws > 8 || g.wm > 8 {
		return errHead
	}
	seq, i := varint.At(b[:body], head)
	mod, j := varint.At(b[:body], i)
	columns := g.count * (1 + g.ws + g.wm)
	if i == 0 || j == 0 || columns > body-j {
		return errHead
	}
	g.seq = base.seq + uint64(unzigzag(seq))
	g.mod = base.modified + unzigzag(mod)
	g.split(b[j:body])
	g.payload = b[body:n]
	return nil
}

// split makes b, which has the columns and members of g, those of g.
func (g *group) split(b []byte) {
	seqs, mods, members := g.count, g.count*(1+g.ws), g.count*(1+g.ws+g.wm)
	g.columns, g.hashes, g.seqs, g.mods, g.members = b, b[:seqs], b[seqs:], b[mods:], b[members:]
}

func (g *group) sequence(i int) uint64 { return g.seq + column(g.seqs, i, g.ws) }
func (g *group) modified(i int) int64  { return g.mod + int64(column(g.mods, i, g.wm)) }

// column returns the i-th little-endian integer of w bytes. It loads it at once where b has 8 bytes from there on.
func column(b []byte, i, w int) uint64 {
	b = b[i*w:]
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b) & (1<<(8*uint(w)) - 1)
	}
	var v uint64
	for j := w - 1; j >= 0; j-- {
		v = v<<8 | uint64(b[j])
	}
	return v
}

// member is one version in a group. Its part of the raw payload is the body
// and the annex.
type member struct {
	flags   byte
	part    int // where the part begins
	body    int // length
	annex   int // length
	expires int64

	// The id lies in the part of this member or of the newest version of the
	// same item.
	idPart, idOff, idLen int
	// The partition key is described (package keyspec) at pkSpec of the members' bytes, in
	// terms of the part at pkPart.
	pkPart, pkEnd, pkSpec int
}

// next decodes into m the record at pos of g.members, which follows that of before, nil for the
// first one. It returns the position after it; 0 if it is malformed or larger than maxRaw. It sets
// every field of m, so the caller passes the place where m stays: to copy a record that was just
// written is slow.
func (g *group) next(m, before *member, pos, maxRaw int) (int, error) {
	b := g.members
	if pos >= len(b) {
		return 0, errMember
	}
	flags := b[pos]
	pos++
	if flags&(memberClaim|memberTombstone) == memberClaim|memberTombstone || before == nil && flags&(memberSamePK|memberSameID) != 0 {
		return 0, errMember
	}
	body, pos := varint.At(b, pos)
	if pos == 0 || body > MaxBody || flags&memberTombstone != 0 && body != 0 {
		return 0, errMember
	}
	var annex uint64
	if flags&memberAnnex != 0 {
		if annex, pos = varint.At(b, pos); pos == 0 || annex > maxKeyLen {
			return 0, errMember
		}
	}
	part, length := 0, int(body+annex)
	if before != nil {
		part = before.part + before.body + before.annex
	}
	if part+length > maxRaw {
		return 0, errTooLarge
	}
	m.flags, m.part, m.body, m.annex, m.expires = flags, part, int(body), int(annex), 0
	if flags&memberExpires != 0 {
		var n uint64
		if n, pos = varint.At(b, pos); pos == 0 {
			return 0, errMember
		}
		m.expires = unzigzag(n)
	}
	if flags&memberOlder != 0 && before != nil {
		m.idPart, m.idOff, m.idLen = before.idPart, before.idOff, before.idLen
		m.pkPart, m.pkEnd, m.pkSpec = before.pkPart, before.pkEnd, before.pkSpec
		return pos, nil
	}
	m.idPart = part
	if flags&memberSameID != 0 {
		m.idOff, m.idLen = before.idOff, before.idLen
	} else {
		var off, n uint64
		if off, pos = varint.At(b, pos); pos != 0 {
			n, pos = varint.At(b, pos)
		}
		if pos == 0 || n > item.MaxID || off > uint64(length) {
			return 0, errMember
		}
		m.idOff, m.idLen = int(off), int(n)
	}
	if m.idOff > length || m.idLen > length-m.idOff {
		return 0, errMember
	}
	if flags&memberSamePK != 0 {
		m.pkPart, m.pkEnd, m.pkSpec = before.pkPart, before.pkEnd, before.pkSpec
	} else {
		m.pkPart, m.pkEnd, m.pkSpec = part, part+length, pos
		if pos = keyspec.Skip(b, pos, length); pos == 0 {
			return 0, errMember
		}
	}
	return pos, nil
}

func (m *member) id(raw []byte) []byte {
	at := m.idPart + m.idOff
	return raw[at : at+m.idLen]
}

// version fills v with all but the body.
func (g *group) version(i int, m *member, v *item.Version) {
	v.Seq, v.Modified, v.Expires, v.Flags, v.Body = g.sequence(i), g.modified(i), 0, 0, nil
	if m.flags&memberExpires != 0 {
		v.Expires = v.Modified + m.expires
	}
	if m.flags&memberTombstone != 0 {
		v.Flags = item.Tombstone
	}
	if m.flags&memberClaim != 0 {
		v.Flags |= item.Claim
	}
}

// appendPK appends the encoded partition key of m, given the raw payload.
func (g *group) appendPK(dst []byte, m *member, raw []byte) []byte {
	return keyspec.Key(dst, g.members[m.pkSpec:], raw[m.pkPart:m.pkEnd])
}

// reachPK returns how much of m's part its partition key takes, from the part's beginning.
func (g *group) reachPK(m *member) int {
	return keyspec.Reach(g.members[m.pkSpec:], m.pkEnd-m.pkPart)
}

// matchPK reports whether m has the encoded partition key pk.
func (g *group) matchPK(m *member, raw, pk []byte) bool {
	return keyspec.Match(g.members[m.pkSpec:], raw[m.pkPart:m.pkEnd], pk)
}

func zigzag(n int64) uint64   { return uint64(n)<<1 ^ uint64(n>>63) }
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }
