// Package unread answers requests whose body nobody reads.
package unread

import (
	"net/http"
	"time"
)

// drainTime is how long the server reads the body of a request that is answered unread.
const drainTime = 500 * time.Millisecond

// HangUp has the connection end after the answer, if the request has a body. Call it before the
// answer begins, where the body is not read: without it net/http would wait for the rest of that
// body, up to its time-out, before it answers. It still reads what comes of the body within half a
// second, up to 256 KiB: a connection that is closed with bytes unread could lose the answer.
func HangUp(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.ProtoMajor != 1 {
		return
	}
	w.Header().Set("Connection", "close")                                        // so that it answers first
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime)) // a server of another kind has none to set
}
