// Package item defines the key and the version of an item as memtables,
// segments and the engine exchange them.
//
// Sort order of items (invariant 1): effective partition key (EPK), then
// encoded partition key, then id, each by bytes; versions of one item follow
// each other by falling sequence. So a logical partition is one run of
// neighbours in every structure, and equal hashes stay two logical partitions.
package item

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// Key is the sort key of an item. The slices are borrowed from the caller.
type Key struct {
	Hash uint64 // first 8 bytes of EPK, big-endian: compared before any bytes
	EPK  []byte // 16 bytes per level of the partition key
	PK   []byte // encoded partition key (package partmap)
	ID   []byte // id of the item, at most MaxID bytes
}

// Limits of the parts of a key, in bytes.
const (
	MaxLevels = 3
	MaxEPK    = 16 * MaxLevels
	MaxPK     = 4 << 10 // encoded; the engine's own limit is lower
	MaxID     = 1023
)

// Bounds of numbers that are read, so that what counts on from them cannot
// overflow. A reader of a version or a mark refuses what lies above them.
const (
	MaxSeq   = 1<<56 - 1 // of sequences
	MaxIndex = 1<<63 - 1 // of the entries of a replicated log
	// MaxTime is the last millisecond of the year 9999, the highest time stamp.
	MaxTime = 253_402_300_799_999
	// MaxExpires is that of an item which lives for the longest time.Duration.
	MaxExpires = MaxTime + (1<<63-1)/1_000_000
)

// HashOf returns the first 8 bytes of an EPK as an integer, zero-padded.
func HashOf(epk []byte) uint64 {
	if len(epk) >= 8 {
		return binary.BigEndian.Uint64(epk)
	}
	var b [8]byte
	copy(b[:], epk)
	return binary.BigEndian.Uint64(b[:])
}

// Compare orders two keys: -1, 0 or +1.
func Compare(a, b *Key) int {
	if c := ComparePartition(a, b); c != 0 {
		return c
	}
	return bytes.Compare(a.ID, b.ID)
}

// CompareNear is Compare, faster for keys of one logical partition.
func CompareNear(a, b *Key) int {
	if SamePartition(a, b) {
		return bytes.Compare(a.ID, b.ID)
	}
	return Compare(a, b)
}

// ComparePartition orders two keys by logical partition only.
func ComparePartition(a, b *Key) int {
	if a.Hash != b.Hash {
		if a.Hash < b.Hash {
			return -1
		}
		return 1
	}
	if c := bytes.Compare(a.EPK, b.EPK); c != 0 {
		return c
	}
	return bytes.Compare(a.PK, b.PK)
}

// SamePartition reports whether two keys, whose EPKs are known to be those of
// their partition keys, are of one logical partition.
func SamePartition(a, b *Key) bool { return a.Hash == b.Hash && bytes.Equal(a.PK, b.PK) }

// OfPartition reports whether the key, without an id, stands for all items of
// its logical partition. The only versions of it are tombstones: each deletes
// every item of the partition that has a lower sequence. It sorts before the
// items.
func (k *Key) OfPartition() bool { return len(k.ID) == 0 }

// Partition returns the key that stands for all items of k's logical partition.
func (k *Key) Partition() Key { return Key{Hash: k.Hash, EPK: k.EPK, PK: k.PK} }

// Clone returns a key that shares no memory with k.
func (k *Key) Clone() Key {
	buf := make([]byte, 0, len(k.EPK)+len(k.PK)+len(k.ID))
	buf = append(append(append(buf, k.EPK...), k.PK...), k.ID...)
	e, p := len(k.EPK), len(k.EPK)+len(k.PK)
	return Key{Hash: k.Hash, EPK: buf[:e:e], PK: buf[e:p:p], ID: buf[p:]}
}

// KeyCopy is a key with memory of its own, which is used again by each Set.
type KeyCopy struct {
	Key
	buf []byte
}

// Set makes c a copy of k that shares no memory with it. What was set before is
// overwritten.
func (c *KeyCopy) Set(k *Key) {
	c.buf = append(append(append(c.buf[:0], k.EPK...), k.PK...), k.ID...)
	e, p := len(k.EPK), len(k.EPK)+len(k.PK)
	c.Key = Key{Hash: k.Hash, EPK: c.buf[:e:e], PK: c.buf[e:p:p], ID: c.buf[p:]}
}

// Seed keys a hash of items, so that nobody who does not know it can choose ids or
// partition keys that collide.
type Seed [2]uint64

// NewSeed returns a random seed.
func NewSeed() Seed { return Seed{rand.Uint64(), rand.Uint64()} }

// Hash returns the 64-bit hash by which point-read tables find an item. It is part
// of the segment format: it must never change. Partition key and id are folded,
// eight bytes at a time, by 64x64->128 bit multiplication (the mixing step known
// from wyhash), with a part of the seed in each factor: a factor that anybody can
// make 0 would make all else count for nothing.
// The zero Seed gives ItemHash.
func (s *Seed) Hash(k *Key) uint64 {
	if *s == (Seed{}) {
		return k.ItemHash()
	}
	h := s.mix(s[0]^uint64(len(k.PK))*0x9e3779b97f4a7c15, k.PK)
	h = s.mix(h, k.ID)
	return fold(h^s[0], uint64(len(k.ID))^s[1])
}

// Lookup is a key that is looked up in one place after the other. It keeps the last
// hash, so that places of one seed hash the key once. It is not safe for concurrent use.
type Lookup struct {
	Key    *Key // not changed as long as the Lookup is used
	seed   Seed
	hash   uint64
	hashed bool // hash is that of Key with seed
}

// Lookup returns a Lookup of the key.
func (k *Key) Lookup() *Lookup { return &Lookup{Key: k} }

// Hash returns the hash of the key with a seed.
func (l *Lookup) Hash(s *Seed) uint64 {
	if !l.hashed || l.seed != *s {
		l.seed, l.hash, l.hashed = *s, s.Hash(l.Key), true
	}
	return l.hash
}

func (s *Seed) mix(h uint64, text []byte) uint64 {
	for len(text) > 16 {
		h = fold(binary.LittleEndian.Uint64(text)^h, binary.LittleEndian.Uint64(text[8:])^s[1])
		text = text[16:]
	}
	var a, b uint64
	switch n := len(text); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[n-8:])
	case n >= 4:
		a = uint64(binary.LittleEndian.Uint32(text)) | uint64(binary.LittleEndian.Uint32(text[n-4:]))<<32
	case n > 0:
		a = uint64(text[0]) | uint64(text[n/2])<<8 | uint64(text[n-1])<<16
	}
	return fold(a^h, b^s[1])
}

// ItemHash returns the hash without a seed by which segments of formats 1 and 2
// find an item. Anybody can make ids that collide. The EPK, itself a
// hash of the partition key, is folded with the id, eight bytes at a time, by
// 64x64->128 bit multiplication (the mixing step known from wyhash).
func (k *Key) ItemHash() uint64 {
	h := k.Hash ^ 0x9e3779b97f4a7c15
	if n := len(k.EPK); n >= 16 {
		h = fold(h^0xe7037ed1a0b428db, binary.LittleEndian.Uint64(k.EPK[n-8:])^0x8ebc6af09c88c6e3)
	}
	id := k.ID
	n := uint64(len(id))
	for len(id) > 16 {
		h = fold(binary.LittleEndian.Uint64(id)^h, binary.LittleEndian.Uint64(id[8:])^0xe7037ed1a0b428db)
		id = id[16:]
	}
	var a, b uint64
	if len(id) >= 8 {
		a = binary.LittleEndian.Uint64(id)
		b = binary.LittleEndian.Uint64(id[len(id)-8:])
	} else {
		for i := len(id) - 1; i >= 0; i-- {
			a = a<<8 | uint64(id[i])
		}
	}
	h = fold(a^h, b^0x589965cc75374cc3)
	return fold(h^0x1d8e4e27c47d124f, n^0x9e3779b97f4a7c15)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Flags of a version.
type Flags uint8

// Flag bits; part of the log and segment formats.
const (
	Tombstone Flags = 1 << iota // the item is deleted as of this version
	Claim                       // no item: what it holds of a unique key; the body is the id of the item
)

// ClaimMark is the first byte of the id of a claim. No UTF-8 text has it; but where there
// are no claims, an id may begin with it.
const ClaimMark = 0xFF

// Marked says whether the id begins with ClaimMark.
func (k *Key) Marked() bool { return len(k.ID) > 0 && k.ID[0] == ClaimMark }

// Version is one version of an item.
type Version struct {
	Seq      uint64 // store-wide sequence of the write, at least 1
	Modified int64  // milliseconds since the Unix epoch
	Expires  int64  // milliseconds since the Unix epoch; 0: never
	Flags    Flags
	Body     []byte // empty for a tombstone
}

// Deleted reports whether the version is a tombstone.
func (v *Version) Deleted() bool { return v.Flags&Tombstone != 0 }

// IsDocument reports whether the version is a document: neither a tombstone nor
// a claim.
func (v *Version) IsDocument() bool { return v.Flags == 0 }
