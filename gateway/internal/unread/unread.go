// Package unread is about what one side sends and the other does not read: it answers requests whose body is not read, and
// bounds what the answers take that clients leave unread.
package unread

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Answers counts the bytes of answers that connections have not taken yet.
type Answers struct {
	most int64
	held atomic.Int64
}

// NewAnswers returns an empty Answers for so many bytes.
func NewAnswers(most int64) *Answers { return &Answers{most: most} }

// Full says that no further request is to be begun. Those under way are answered all the same.
func (a *Answers) Full() bool { return a.held.Load() >= a.most }

// Write writes an answer. It waits until the connection takes it, or has failed.
func (a *Answers) Write(to io.Writer, body []byte) {
	a.held.Add(int64(len(body)))
	defer a.held.Add(-int64(len(body)))
	_, _ = to.Write(body) // else the client has gone
}

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
