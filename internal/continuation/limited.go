package continuation

import (
	"strconv"
	"strings"
)

// behindLeft stands between how many results are left of a limit and the continuation of the store.
const behindLeft = ":"

// Limited returns the continuation of a query that is read in pages and has a limit of its own: how many results are left
// of that, and the continuation of the store.
func Limited(left int, text string) string { return strconv.Itoa(left) + behindLeft + text }

// CutLimited takes apart what Limited has made. Of a text that is empty all is left. ok is false for one that no query with this limit
// gave.
func CutLimited(text string, limit int) (left int, inner string, ok bool) {
	if text == "" {
		return limit, "", true
	}
	before, inner, _ := strings.Cut(text, behindLeft) // an empty inner one would begin anew
	left, err := strconv.Atoi(before)
	return left, inner, err == nil && inner != "" && 0 <= left && left <= limit
}
