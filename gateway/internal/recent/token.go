package recent

import (
	"strconv"
	"strings"
)

// A token is, with dots between them, its version, the order of the results, how many results
// are left of a TOP or LIMIT, and the continuation of the store.
const (
	tokenVersion = "1"
	// Stated is the order of the query, or that of keys, and Creation that of creation.
	Stated   = "q"
	Creation = "c"
)

// Token is a continuation as clients get it.
type Token struct {
	Order string
	Left  int // 0: there is no limit
	At    string
}

// String returns the token as clients get it.
func (t *Token) String() string {
	return strings.Join([]string{tokenVersion, t.Order, strconv.Itoa(t.Left), t.At}, ".")
}

// mostToken bounds the header that is read.
const mostToken = 64 << 10

// ParseToken reads a token that a client has sent. ok is false for one that no answer gave.
func ParseToken(text string) (t Token, ok bool) {
	parts := strings.SplitN(text, ".", 4)
	if len(text) > mostToken || len(parts) != 4 || parts[0] != tokenVersion || parts[1] != Stated && parts[1] != Creation {
		return t, false
	}
	left, err := strconv.Atoi(parts[2])
	return Token{parts[1], left, parts[3]}, err == nil && left >= 0
}
