// Package murmur computes MurmurHash3, by which the partitioning model places
// partition keys: x64-128 for version 2 of the key hash, x86-32 for version 1.
// Both use seed 0. The algorithm is Austin Appleby's, in the public domain; the
// values are part of the disk format and never change.
//
// The functions are safe for concurrent use and allocate nothing.
package murmur

import (
	"encoding/binary"
	"math/bits"
)

const (
	c1 = 0x87c37b91114253d5
	c2 = 0x4cf5ad432745937f
)

// Sum128 returns the two halves of the x64-128 hash.
func Sum128(b []byte) (h1, h2 uint64) {
	n := uint64(len(b))
	for ; len(b) >= 16; b = b[16:] {
		h1 ^= scramble1(binary.LittleEndian.Uint64(b))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= scramble2(binary.LittleEndian.Uint64(b[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	if len(b) > 8 {
		h2 ^= scramble2(tail(b[8:]))
		b = b[:8]
	}
	if len(b) > 0 {
		h1 ^= scramble1(tail(b))
	}
	h1, h2 = h1^n, h2^n
	h1 += h2
	h2 += h1
	h1, h2 = finish64(h1), finish64(h2)
	h1 += h2
	h2 += h1
	return h1, h2
}

// tail reads at most 8 bytes as a little-endian integer.
func tail(b []byte) (v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

func scramble1(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
func scramble2(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }

func finish64(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Sum32 returns the x86-32 hash.
func Sum32(b []byte) (h uint32) {
	n := uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h ^= scramble32(binary.LittleEndian.Uint32(b))
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	if len(b) > 0 {
		h ^= scramble32(uint32(tail(b)))
	}
	h ^= n
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

func scramble32(k uint32) uint32 { return bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593 }
