package manifest

import (
	"crypto/rand"
	"encoding/binary"
)

// NewID returns an id that no other store has, made from random. If random is nil,
// crypto/rand makes it.
func NewID(random func() uint64) ID {
	var id ID
	if random == nil {
		rand.Read(id[:]) // never fails
		return id
	}
	for at := 0; at < len(id); at += 8 {
		binary.LittleEndian.PutUint64(id[at:], random())
	}
	return id
}
