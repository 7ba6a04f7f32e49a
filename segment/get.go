package segment

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
)

// Get finds the newest version of a key at or below maxSeq. It may be a tombstone. Get
// appends the body to dst and returns dst, grown; v.Body is the appended part. If dst
// has room, nothing is allocated. If there is no such version, or on an error, dst is
// returned as it was and v is undefined.
func (r *Reader) Get(l *item.Lookup, maxSeq uint64, dst []byte, v *item.Version) (bool, []byte, error) {
	if hot := r.hot(l, maxSeq); hot != nil {
		*v = *hot
		out := append(dst, hot.Body...)
		v.Body = out[len(dst):len(out):len(out)]
		return true, out, nil
	}
	s := scratches.Get().(*scratch)
	found, out, err := r.get(s, l, maxSeq, dst, v, true)
	s.free()
	if err != nil || !found {
		return false, dst, err
	}
	return true, out, nil
}

// Head is Get without the body, which is nil in v.
func (r *Reader) Head(l *item.Lookup, maxSeq uint64, v *item.Version) (bool, error) {
	if hot := r.hot(l, maxSeq); hot != nil {
		*v = *hot
		v.Body = nil
		return true, nil
	}
	s := scratches.Get().(*scratch)
	found, _, err := r.get(s, l, maxSeq, nil, v, false)
	s.free()
	return found && err == nil, err
}

// hot returns the newest version of a key if it is held, and at or below maxSeq.
func (r *Reader) hot(l *item.Lookup, maxSeq uint64) *item.Version {
	if r.opts.RowCache == nil {
		return nil
	}
	v := r.opts.RowCache.Find(r.number, l.Key, l.Hash(&r.seed))
	if v == nil || v.Seq > maxSeq {
		return nil
	}
	return v
}

func (r *Reader) get(s *scratch, l *item.Lookup, maxSeq uint64, dst []byte, v *item.Version, body bool) (found bool, out []byte, err error) {
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, err := r.index()
	if err != nil {
		return false, dst, err
	}
	k, hash := l.Key, l.Hash(&r.seed)
	p := probe{r: r, chunk: ix.chunks.find(k), hash: hash}
	o := &s.open
	for {
		off, err := p.next(s)
		if off == 0 || err != nil {
			return false, dst, err
		}
		b, err := r.groupBytes(s, off)
		if err != nil {
			return false, dst, err
		}
		if err = o.parse(r, b, off, false); err != nil {
			return false, dst, err
		}
		first := bytes.IndexByte(o.g.hashes, memberHash(hash))
		if first < 0 {
			continue
		}
		if err = o.head(r); err != nil {
			return false, dst, err
		}
		// If the group has one member only, its body is decoded right into dst.
		into := s.raw[:0]
		direct := body && o.g.count == 1
		if direct {
			into = dst
		}
		grown, err := o.expand(r, into)
		if err != nil {
			return false, dst, err
		}
		if !direct {
			s.raw = grown[:0]
		}
		i := o.find(first, k, hash)
		if i < 0 {
			continue
		}
		newest, at := o.off, i
		if i, err = r.descend(s, k, i, maxSeq); i < 0 || err != nil {
			return false, dst, err
		}
		isNewest := o.off == newest && i == at
		o.g.version(i, &o.members[i], v)
		switch m := &o.members[i]; {
		case !body:
			return true, dst, nil
		case direct && o.off == newest && o.g.coding&codingCodec != codecRaw:
			out = grown[:len(dst)+m.body]
		default:
			out = append(dst, o.body(i)...)
		}
		v.Body = out[len(dst):len(out):len(out)]
		if s.decoded++; s.decoded%decodesPerNote == 0 && r.opts.RowCache != nil && isNewest && o.g.coding&codingCodec != codecRaw {
			r.opts.RowCache.Note(r.number, k, hash, v)
		}
		return true, out, nil
	}
}

// find returns the newest version of the key among the members from first on,
// -1 if the key is not there.
func (o *opened) find(first int, k *item.Key, hash uint64) int {
	h := memberHash(hash)
	for i := first; i < o.g.count; i++ {
		if o.g.hashes[i] == h && !o.isOlder(i) && o.is(i, k) {
			return i
		}
	}
	return -1
}

// descend goes from member i of the open group, the newest version of the key,
// to the newest at or below maxSeq, opening the groups that follow. -1: there is
// none.
func (r *Reader) descend(s *scratch, k *item.Key, i int, maxSeq uint64) (int, error) {
	o := &s.open
	for o.g.sequence(i) > maxSeq {
		if !o.isFollowed(i) {
			return -1, nil
		}
		if i++; i == o.g.count {
			off := o.end()
			b, err := r.groupBytes(s, off)
			if err != nil {
				return -1, err
			}
			if s.raw, err = o.decode(r, b, off, s.raw); err != nil {
				return -1, err
			}
			if i = 0; !o.is(0, k) {
				return -1, r.corrupt(off, errOlder)
			}
		}
		if !o.isOlder(i) {
			return -1, r.corrupt(o.off, errOlder)
		}
	}
	return i, nil
}

// probe yields the groups to which the locator leads for a hash.
type probe struct {
	r      *Reader
	chunk  *chunk // nil: there are no groups
	hash   uint64
	begun  bool
	bucket uint32 // being looked at
	left   uint32 // buckets not yet looked at
	b      []byte
	slot   int // that the offset came from
	// A bit of 0x80 in byte i for each slot i, or i+8, that matches.
	lo, hi uint64
}

// next returns the offset of the next group, 0 after the last.
func (p *probe) next(s *scratch) (off int64, err error) {
	c := p.chunk
	if c == nil {
		return 0, nil
	}
	for {
		switch {
		case p.lo != 0:
			p.slot = bits.TrailingZeros64(p.lo) / 8
			p.lo &= p.lo - 1
		case p.hi != 0:
			p.slot = 8 + bits.TrailingZeros64(p.hi)/8
			p.hi &= p.hi - 1
		default:
			if !p.begun {
				p.begun = true
				p.bucket, p.left = bucketOf(p.hash, c.count), c.count-1
			} else {
				if p.b[bucketSlots] == 0 || p.left == 0 {
					return 0, nil
				}
				p.left--
				if p.bucket++; p.bucket == c.count {
					p.bucket = 0
				}
			}
			if p.b, err = p.r.table(s, c.buckets+int64(p.bucket)*bucketLen, bucketLen); err != nil {
				return 0, err
			}
			p.b = p.b[:bucketLen]
			fp := uint64(fingerprint(p.hash)) * (1<<56 | 1<<48 | 1<<40 | 1<<32 | 1<<24 | 1<<16 | 1<<8 | 1)
			p.lo = zeroBytes(binary.LittleEndian.Uint64(p.b) ^ fp)
			p.hi = zeroBytes(binary.LittleEndian.Uint64(p.b[8:])^fp) &^ (0xFF << 56)
			continue
		}
		e := p.b[16+3*p.slot:]
		off = c.base + int64(uint32(e[0])|uint32(e[1])<<8|uint32(e[2])<<16)
		if off >= p.r.groups.end() {
			return 0, p.r.corrupt(c.buckets+int64(p.bucket)*bucketLen, errEntry)
		}
		return off, nil
	}
}

// zeroBytes returns 0x80 in each byte of x that is zero, 0 in the others.
func zeroBytes(x uint64) uint64 {
	const low = 0x7F7F7F7F7F7F7F7F
	return ^((x&low + low) | x | low)
}
