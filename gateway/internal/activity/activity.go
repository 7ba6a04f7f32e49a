// Package activity makes the ids by which requests are told apart, in answers and in what clients log.
package activity

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"sync/atomic"
)

// IDs makes ids that no other IDs makes. It is safe for concurrent use.
type IDs struct {
	requests atomic.Uint64
	prefix   [8]byte
}

// New returns IDs that have made none.
func New() *IDs {
	ids := &IDs{}
	rand.Read(ids.prefix[:]) // never fails
	return ids
}

// Of returns the id of a request: the client's, if it has one.
func (ids *IDs) Of(r *http.Request) string {
	if id := r.Header.Get("X-Ms-Activity-Id"); len(id) == 36 {
		return id
	}
	var b [16]byte
	copy(b[:], ids.prefix[:])
	binary.BigEndian.PutUint64(b[8:], ids.requests.Add(1))
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	t := hex.EncodeToString(b[:])
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}
