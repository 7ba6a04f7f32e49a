package memtable

import (
	"bytes"
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
)

// node begins the entry of one key; the key bytes (EPK, PK, id) follow it.
type node struct {
	newest  uint32 // link of the newest version; published
	lengths uint32 // see packLengths
}

// version begins one version; the body follows the flags.
type version struct {
	seq       uint64
	modified  int64
	expires   int64
	older     uint32 // link of the next older version, 0 for the oldest
	bodyBytes uint32
	flags     item.Flags
}

const (
	nodeBytes    = int(unsafe.Sizeof(node{}))
	versionBytes = int(unsafe.Offsetof(version{}.flags)) + 1
	linkBytes    = 4

	epkBits, pkBits = 6, 13 // for item.MaxEPK and item.MaxPK; the rest is the id's
	partitionMask   = 1<<(epkBits+pkBits) - 1
)

// packLengths packs the lengths of the parts of a key.
func packLengths(k *item.Key) uint32 {
	return uint32(len(k.EPK) | len(k.PK)<<epkBits | len(k.ID)<<(epkBits+pkBits))
}

func nodeSize(k *item.Key) int {
	return roundUp(nodeBytes + len(k.EPK) + len(k.PK) + len(k.ID))
}

func versionSize(v *item.Version) int { return roundUp(versionBytes + len(v.Body)) }

// fill writes a node without a version.
func (n *node) fill(k *item.Key) {
	*n = node{lengths: packLengths(k)}
	buf := n.bytes()
	c := copy(buf, k.EPK)
	c += copy(buf[c:], k.PK)
	copy(buf[c:], k.ID)
}

// split returns the lengths of the parts of the key.
func (n *node) split() (epk, pk, id int) {
	l := n.lengths
	return int(l & (1<<epkBits - 1)), int(l >> epkBits & (1<<pkBits - 1)), int(l >> (epkBits + pkBits))
}

// bytes returns the key bytes, one part after the other. They are never at the
// end of a chunk: a version follows every node.
func (n *node) bytes() []byte {
	e, p, i := n.split()
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(n), nodeBytes)), e+p+i)
}

// end returns the byte behind the key: a pad or the version's first.
func (n *node) end() byte {
	return *(*byte)(unsafe.Add(unsafe.Pointer(n), nodeBytes+len(n.bytes())))
}

// parts returns the parts of the key.
func (n *node) parts() (epk, pk, id []byte) {
	e, p, _ := n.split()
	buf := n.bytes()
	return buf[:e:e], buf[e : e+p : e+p], buf[e+p:]
}

// borrow sets k to the node's key.
func (n *node) borrow(k *item.Key) {
	k.EPK, k.PK, k.ID = n.parts()
	k.Hash = item.HashOf(k.EPK)
}

// equals reports whether the node's key is k, whose packed lengths are given.
func (n *node) equals(k *item.Key, lengths uint32) bool {
	if n.lengths != lengths {
		return false
	}
	epk, pk, id := n.parts()
	return string(id) == string(k.ID) && string(epk) == string(k.EPK) && string(pk) == string(k.PK)
}

// comparePartition orders the node's key and k by logical partition.
func (n *node) comparePartition(k *item.Key) int {
	epk, pk, _ := n.parts()
	if c := bytes.Compare(epk, k.EPK); c != 0 {
		return c
	}
	return bytes.Compare(pk, k.PK)
}

// compare orders the node's key and k.
func (n *node) compare(k *item.Key) int {
	if c := n.comparePartition(k); c != 0 {
		return c
	}
	_, _, id := n.parts()
	return bytes.Compare(id, k.ID)
}

// fill writes a version and its body.
func (v *version) fill(from *item.Version, older uint32) {
	*v = version{
		seq: from.Seq, modified: from.Modified, expires: from.Expires,
		older: older, bodyBytes: uint32(len(from.Body)), flags: from.Flags,
	}
	copy(v.body(), from.Body)
}

// body returns nil for an empty body: its place may be the end of the chunk.
func (v *version) body() []byte {
	if v.bodyBytes == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(v), versionBytes)), v.bodyBytes)
}

// borrow sets to to the version.
func (v *version) borrow(to *item.Version) {
	to.Seq, to.Modified, to.Expires, to.Flags = v.seq, v.modified, v.expires, v.flags
	to.Body = v.body()
}
