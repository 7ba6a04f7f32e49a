// Package condition has the conditions of requests on etags: If-Match and If-None-Match.
package condition

import (
	"cmp"
	"math"
	"net/http"

	"github.com/cleavestore/cleave/engine"
)

// Unknown is the etag that is shown for what is not committed yet. No item has it ever: a write on condition of it is
// refused, as it would not be if the etag were empty.
const Unknown = `"0"`

// Shown returns an etag as clients and scripts get it.
func Shown(etag engine.ETag) string {
	if etag == 0 {
		return Unknown
	}
	return etag.String()
}

// Header returns the If-Match of a request, "" if it has none. One that is empty is a condition that nothing meets.
func Header(h http.Header) string {
	text := h.Get("If-Match")
	if text == "" && h["If-Match"] != nil {
		return Unknown
	}
	return text
}

// Member is Header for the member of an operation of a batch, nil if it has none.
func Member(text *string) string {
	if text == nil {
		return ""
	}
	return cmp.Or(*text, Unknown)
}

// Match returns the etag that an If-Match wants the item to have, 0 for any.
func Match(text string) engine.ETag {
	if text == "" || text == "*" {
		return 0
	}
	etag, err := engine.ParseETag(text)
	if err != nil {
		// No item of this store ever has it.
		return math.MaxUint64
	}
	return etag
}

// Unchanged says whether a read is answered 304: the client has what it would get.
func Unchanged(ifNoneMatch string, etag engine.ETag) bool {
	return ifNoneMatch == "*" || ifNoneMatch != "" && ifNoneMatch == etag.String()
}
