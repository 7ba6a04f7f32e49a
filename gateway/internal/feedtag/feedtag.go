// Package feedtag has the etags of pages of change feeds.
package feedtag

import (
	"errors"
	"strings"

	"github.com/cleavestore/cleave/gateway/internal/keyrange"
	"github.com/cleavestore/cleave/partmap"
)

// Tag is the etag of a page: the range that the feed is about, and the position behind the page. After a split
// or merge a client names another range with it: then the feed is about what both have in common, so that
// nothing comes twice.
type Tag struct {
	Within partmap.Range // of the whole key space for one logical partition
	At     string        // as the store has it
}

// String returns the etag.
func (t Tag) String() string {
	return `"` + t.Within.Min.String() + "-" + t.Within.Max.String() + "@" + t.At + `"`
}

// maxText bounds the header that is read, in bytes.
const maxText = 64 << 10

var errTag = errors.New("it has no range and position, or is too long")

// Parse reads an etag, also a weak one.
func Parse(text string) (t Tag, err error) {
	plain, at, ok := strings.Cut(strings.Trim(strings.TrimPrefix(text, "W/"), `"`), "@")
	lo, hi, found := strings.Cut(plain, "-")
	if !ok || !found || at == "" || len(text) > maxText {
		return t, errTag
	}
	t.At = at
	t.Within, err = keyrange.Parse(2, lo, hi)
	return t, err
}
