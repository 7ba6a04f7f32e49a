package engine

import (
	"unsafe"

	"github.com/cleavestore/cleave/partmap"
)

// bytesOf views a string as bytes, which must not be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// stringOf views b as a string; b must not be written to any more.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// keyOf returns the key of an encoding that the engine itself made, or read under
// a checksum.
func keyOf(encoded string) PartitionKey { return partmap.FromTrusted(bytesOf(encoded)) }
