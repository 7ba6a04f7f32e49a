package engine

import (
	"crypto/rand"
	"unsafe"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// bytesOf views a string as bytes that are only read.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// stringOf views bytes as a string; nobody may write to them any more.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// keyOf returns the key with an encoding that the engine itself made or read
// under a checksum.
func keyOf(encoded string) PartitionKey { return partmap.FromTrusted(bytesOf(encoded)) }

// newStoreID returns an id that no other store has.
func newStoreID() manifest.ID {
	var id manifest.ID
	rand.Read(id[:]) // never fails
	return id
}
