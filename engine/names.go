package engine

import (
	"crypto/rand"
	"encoding/binary"
	"unsafe"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// bytesOf views a string as bytes, which must not be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// stringOf views b as a string; b must not be written to any more.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// keyOf returns the key of an encoding that the engine itself made, or read under
// a checksum.
func keyOf(encoded string) PartitionKey { return partmap.FromTrusted(bytesOf(encoded)) }

// newStoreID returns an id that no other store has, made from random. If random is
// nil, crypto/rand makes it.
func newStoreID(random func() uint64) manifest.ID {
	var id manifest.ID
	if random == nil {
		rand.Read(id[:]) // never fails
		return id
	}
	for at := 0; at < len(id); at += 8 {
		binary.LittleEndian.PutUint64(id[at:], random())
	}
	return id
}
