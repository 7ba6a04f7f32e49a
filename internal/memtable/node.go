package memtable

import (
	"bytes"
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
)

// node begins the entry of one key; the tower and the key bytes follow it.
type node struct {
	newest   uint32 // link of the newest version; published
	previous uint32 // link of the node before it, 0 for the first; published
	hash     uint64
	lengths  uint64 // see packLengths
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

	lengthsMask = 1<<48 - 1 // the part of node.lengths that belongs to the key
)

// packLengths packs the lengths of a key; bits 48 to 63 take a node's height.
func packLengths(k *item.Key) uint64 {
	return uint64(len(k.EPK)) | uint64(len(k.PK))<<16 | uint64(len(k.ID))<<32
}

func nodeSize(k *item.Key, height int) int {
	return roundUp(nodeBytes + linkBytes*height + len(k.EPK) + len(k.PK) + len(k.ID))
}

func versionSize(v *item.Version) int { return roundUp(versionBytes + len(v.Body)) }

// fill writes a node without a version and without neighbours.
func (n *node) fill(k *item.Key, height int) {
	*n = node{hash: k.Hash, lengths: packLengths(k) | uint64(height)<<48}
	buf := unsafe.Slice((*byte)(n.key(height)), len(k.EPK)+len(k.PK)+len(k.ID))
	c := copy(buf, k.EPK)
	c += copy(buf[c:], k.PK)
	copy(buf[c:], k.ID)
}

// tower returns the array of next links, lowest level first.
func (n *node) tower() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(n), nodeBytes) }

// key returns the start of the key bytes.
func (n *node) key(height int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(n), nodeBytes+linkBytes*height)
}

// level returns the link of a tower at a level.
func level(tower unsafe.Pointer, i int) *uint32 {
	return (*uint32)(unsafe.Add(tower, linkBytes*i))
}

// next returns the link of the following node.
func (n *node) next() uint32 { return loadLink(level(n.tower(), 0)) }

// parts returns the key bytes. They are never at the end of a chunk: a version
// follows every node.
func (n *node) parts() (epk, pk, id []byte) {
	l := n.lengths
	e, p, i := int(l&0xffff), int(l>>16&0xffff), int(l>>32&0xffff)
	buf := unsafe.Slice((*byte)(n.key(int(l>>48))), e+p+i)
	return buf[:e:e], buf[e : e+p : e+p], buf[e+p:]
}

// borrow sets k to the node's key.
func (n *node) borrow(k *item.Key) {
	k.Hash = n.hash
	k.EPK, k.PK, k.ID = n.parts()
}

// equals reports whether the node's key is k, whose packed lengths are given.
func (n *node) equals(k *item.Key, lengths uint64) bool {
	if n.hash != k.Hash || n.lengths&lengthsMask != lengths {
		return false
	}
	epk, pk, id := n.parts()
	return string(id) == string(k.ID) && string(epk) == string(k.EPK) && string(pk) == string(k.PK)
}

// below reports whether the node's key sorts before k; nil is after all keys.
func (n *node) below(k *item.Key) bool {
	if k == nil {
		return true
	}
	if n.hash != k.Hash {
		return n.hash < k.Hash
	}
	epk, pk, id := n.parts()
	if c := bytes.Compare(epk, k.EPK); c != 0 {
		return c < 0
	}
	if c := bytes.Compare(pk, k.PK); c != 0 {
		return c < 0
	}
	return bytes.Compare(id, k.ID) < 0
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
