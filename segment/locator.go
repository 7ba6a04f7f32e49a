package segment

import (
	"encoding/binary"
	"math/bits"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
)

// The locator gives, for the hash of a key by the seed of the file, the groups
// that may hold its newest version. It is cut into chunks of neighbouring groups;
// each chunk has a hash table of 64-byte buckets:
//
//	0   15    fingerprints: the hash's lowest byte, 1 if that is 0; 0: empty
//	15  1     number of keys that found this bucket full, at most 255
//	16  15×3  offset of the group from the first group of the chunk
//	61  3     zero
//
// The bucket of a hash among n is the high word of hash × n; a full one is
// followed by the next, the last by the first.
//
//	section = header (64) | chunks (64 each) | first keys | padding | buckets
//	header  = number of chunks 4 | zero 60
//	chunk   = hash of its first key 8 | file offset of its first group 8 |
//	          buckets, from the section's start 8 | number of buckets 4 |
//	          keys 4 | index of its first group 4 | first key, from the
//	          section's start 4 | length of the first key 4 | zero 20
const (
	bucketLen   = 64
	bucketSlots = 15
	bucketFill  = 12 // keys per bucket in the mean

	chunkLen   = 64
	chunkKeys  = 32 << 10
	chunkBytes = 16 << 20 // range of a 24-bit offset

	locatorHeader = 64
)

func fingerprint(hash uint64) byte {
	if fp := byte(hash); fp != 0 {
		return fp
	}
	return 1
}

func bucketOf(hash uint64, n uint32) uint32 {
	hi, _ := bits.Mul64(hash, uint64(n))
	return uint32(hi)
}

// memberHash is the byte of a hash that a group's head holds per member.
func memberHash(hash uint64) byte { return byte(hash >> 8) }

// chunk describes a chunk of the locator.
type chunk struct {
	hash       uint64 // of the first key
	base       int64  // of its first group, in the file
	buckets    int64  // of its first bucket: in the section while it is built, in the file for a reader
	count      uint32 // buckets
	keys       uint32
	firstGroup uint32
	first      item.Key
}

// locatorBuilder builds the locator of a file.
type locatorBuilder struct {
	chunks  []chunk
	buckets []byte
	slots   []locatorSlot // of the chunk being filled
}

type locatorSlot struct {
	hash uint64
	off  uint32
}

// add takes the keys of the pending group, which lies at off.
func (l *locatorBuilder) add(p *groupBuilder, off int64, group uint32) {
	if p.keys == 0 {
		return
	}
	if n := len(l.chunks); n == 0 || len(l.slots)+p.keys > chunkKeys || off-l.chunks[n-1].base >= chunkBytes {
		l.finishChunk()
		l.chunks = append(l.chunks, chunk{hash: p.first.Hash, base: off, firstGroup: group, first: p.first.Clone()})
	}
	rel := uint32(off - l.chunks[len(l.chunks)-1].base)
	for i := range p.members {
		if m := &p.members[i]; m.flags&memberOlder == 0 {
			l.slots = append(l.slots, locatorSlot{m.hash, rel})
		}
	}
}

// finishChunk builds the buckets of the last chunk.
func (l *locatorBuilder) finishChunk() {
	if len(l.slots) == 0 {
		return
	}
	c := &l.chunks[len(l.chunks)-1]
	c.keys = uint32(len(l.slots))
	c.count = (c.keys + bucketFill - 1) / bucketFill
	c.buckets = int64(len(l.buckets))
	l.buckets = append(l.buckets, make([]byte, int(c.count)*bucketLen)...)
	table := l.buckets[c.buckets:]
	used := make([]byte, c.count)
	for _, s := range l.slots {
		b := bucketOf(s.hash, c.count)
		for used[b] == bucketSlots {
			if over := &table[b*bucketLen+bucketSlots]; *over < 255 {
				*over++
			}
			if b++; b == c.count {
				b = 0
			}
		}
		at := table[b*bucketLen : (b+1)*bucketLen]
		i := used[b]
		used[b]++
		at[i] = fingerprint(s.hash)
		o := at[16+3*int(i):]
		o[0], o[1], o[2] = byte(s.off), byte(s.off>>8), byte(s.off>>16)
	}
	l.slots = l.slots[:0]
}

// size returns the bytes of the section as far as it is built.
func (l *locatorBuilder) size() int64 {
	return int64(len(l.buckets) + len(l.slots)*bucketLen/bucketFill + locatorHeader + len(l.chunks)*(chunkLen+64))
}

// appendTo appends everything before the buckets, which follow.
func (l *locatorBuilder) appendTo(dst []byte) []byte {
	l.finishChunk()
	le := binary.LittleEndian
	start := len(dst)
	dst = append(dst, make([]byte, locatorHeader+len(l.chunks)*chunkLen)...)
	le.PutUint32(dst[start:], uint32(len(l.chunks)))
	keyAt := make([][2]int, len(l.chunks))
	for i := range l.chunks {
		at := len(dst)
		dst = appendKey(dst, &l.chunks[i].first)
		keyAt[i] = [2]int{at - start, len(dst) - at}
	}
	for len(dst)-start != int(aligned(int64(len(dst)-start))) {
		dst = append(dst, 0)
	}
	buckets := uint64(len(dst) - start)
	for i := range l.chunks {
		c := &l.chunks[i]
		e := dst[start+locatorHeader+i*chunkLen:]
		le.PutUint64(e, c.hash)
		le.PutUint64(e[8:], uint64(c.base))
		le.PutUint64(e[16:], buckets+uint64(c.buckets))
		le.PutUint32(e[24:], c.count)
		le.PutUint32(e[28:], c.keys)
		le.PutUint32(e[32:], c.firstGroup)
		le.PutUint32(e[36:], uint32(keyAt[i][0]))
		le.PutUint32(e[40:], uint32(keyAt[i][1]))
	}
	return dst
}

// chunkTable is the decoded directory of the locator.
type chunkTable struct {
	chunks []chunk
	// dir gives for (hash - first hash) >> shift the last chunk whose first hash is not
	// above the lowest hash of that range.
	dir   []uint32
	low   uint64
	shift uint
}

// decodeChunks decodes the directory of the locator section s. read returns
// bytes of the section, off from its start.
func decodeChunks(file string, s Section, groups Section, p *Properties, read func(off, n int64) ([]byte, error)) (t chunkTable, err error) {
	bad := func(off int64, what string) (chunkTable, error) {
		return chunkTable{}, fault.Corrupt(file, s.Off+off, "locator: %s", what)
	}
	le := binary.LittleEndian
	if s.Len < locatorHeader {
		return bad(0, "no header")
	}
	head, err := read(0, locatorHeader)
	if err != nil {
		return t, err
	}
	n := int64(le.Uint32(head))
	if n == 0 || n > (s.Len-locatorHeader)/chunkLen {
		return bad(0, "bad number of chunks")
	}
	entries, err := read(locatorHeader, n*chunkLen)
	if err != nil {
		return t, err
	}
	t.chunks = make([]chunk, n)
	var keys uint64
	for i := range t.chunks {
		e := entries[i*chunkLen:]
		where := locatorHeader + int64(i)*chunkLen
		c := &t.chunks[i]
		*c = chunk{
			hash: le.Uint64(e), base: int64(le.Uint64(e[8:])), buckets: int64(le.Uint64(e[16:])),
			count: le.Uint32(e[24:]), keys: le.Uint32(e[28:]), firstGroup: le.Uint32(e[32:]),
		}
		if c.base < groups.Off || c.base >= groups.end() || uint64(c.firstGroup) >= p.Groups {
			return bad(where, "chunk outside of the groups")
		}
		if c.count == 0 || c.buckets < locatorHeader || c.buckets%bucketLen != 0 || c.buckets > s.Len ||
			int64(c.count) > (s.Len-c.buckets)/bucketLen || uint64(c.keys) > uint64(c.count)*bucketSlots || c.keys == 0 {
			return bad(where, "buckets outside of the section")
		}
		c.buckets += s.Off
		keyOff, keyLen := int64(le.Uint32(e[36:])), int64(le.Uint32(e[40:]))
		if keyLen > maxKeyLen+6 || keyOff > s.Len || keyLen > s.Len-keyOff {
			return bad(where, "first key outside of the section")
		}
		raw, err := read(keyOff, keyLen)
		if err != nil {
			return chunkTable{}, err
		}
		key, rest, ok := cutKey(raw)
		if !ok || len(rest) != 0 || key.Hash != c.hash || len(key.EPK) != 16*p.Levels {
			return bad(keyOff, "bad first key")
		}
		c.first = key
		if i > 0 && (item.Compare(&t.chunks[i-1].first, &key) >= 0 || t.chunks[i-1].base >= c.base || t.chunks[i-1].firstGroup >= c.firstGroup) {
			return bad(where, "chunks out of order")
		}
		keys += uint64(c.keys)
	}
	if keys != p.Keys {
		return bad(0, "holds another number of keys than the file")
	}
	t.index()
	return t, nil
}

// index builds the directory over the first hashes.
func (t *chunkTable) index() {
	n := len(t.chunks)
	t.low = t.chunks[0].hash
	span := t.chunks[n-1].hash - t.low
	size := bits.Len(uint(4 * n))
	t.shift = uint(max(0, bits.Len64(span)-size))
	t.dir = make([]uint32, span>>t.shift+1)
	at := 0
	for i := range t.dir {
		for at+1 < n && (t.chunks[at+1].hash-t.low)>>t.shift < uint64(i) {
			at++
		}
		t.dir[i] = uint32(at)
	}
}

// find returns the chunk that may hold the key, nil if the key is below all.
func (t *chunkTable) find(k *item.Key) *chunk {
	if k.Hash < t.low {
		return nil
	}
	i := int(t.dir[min((k.Hash-t.low)>>t.shift, uint64(len(t.dir)-1))])
	for i+1 < len(t.chunks) && t.chunks[i+1].hash < k.Hash {
		i++
	}
	if i+1 < len(t.chunks) && t.chunks[i+1].hash == k.Hash {
		// A logical partition, or several of one hash, takes several chunks.
		lo, hi := i, i+1
		for hi < len(t.chunks) && t.chunks[hi].hash == k.Hash {
			hi++
		}
		for lo+1 < hi {
			mid := (lo + hi) / 2
			if item.Compare(&t.chunks[mid].first, k) <= 0 {
				lo = mid
			} else {
				hi = mid
			}
		}
		i = lo
	}
	if i == 0 && t.chunks[0].hash == k.Hash && item.Compare(&t.chunks[0].first, k) > 0 {
		return nil
	}
	return &t.chunks[i]
}
