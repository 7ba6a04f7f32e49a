// Package listing cuts lists of databases, containers and other metadata into pages. A list is in the order of ids, and a
// page goes on behind the last id of the one before. So what a client deletes or makes between two pages moves none of
// the rest.
package listing

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Request is what a page is asked for by.
type Request struct {
	After string // what the page before gave; "": there was none
	Size  string // the number of entries that the client wants, at most; all, if it is no number from 1
	// Offset and Limit are those of a query; a Limit of 0 is none.
	Offset, Limit int
}

// Page returns the entries of a page, and what the next page is asked for with, "" if there is none. ok is false for an
// After that no page gave. The order of all changes.
func Page(all []map[string]any, r Request) (page []map[string]any, next string, ok bool) {
	id := func(one map[string]any) string { return one["id"].(string) }
	slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(id(a), id(b)) })
	left, limited := r.Limit, r.Limit > 0
	if r.After == "" {
		all = all[min(max(0, r.Offset), len(all)):]
	} else {
		var last string
		if left, last, ok = parse(r.After); !ok {
			return nil, "", false
		}
		limited = left > 0
		all = slices.DeleteFunc(all, func(one map[string]any) bool { return id(one) <= last })
	}
	if limited {
		all = all[:min(left, len(all))]
	}
	size := len(all)
	if n, err := strconv.Atoi(r.Size); err == nil && n > 0 {
		size = min(n, size)
	}
	if size == len(all) {
		return all, "", true
	}
	page = all[:size:size]
	if limited {
		left -= size
	}
	return page, strconv.Itoa(left) + "." + base64.RawURLEncoding.EncodeToString([]byte(id(page[size-1]))), true
}

// parse takes apart what a page gave: how many entries are left of a limit, 0 for none, and the last id.
func parse(text string) (left int, last string, ok bool) {
	number, name, found := strings.Cut(text, ".")
	left, err := strconv.Atoi(number)
	id, bad := base64.RawURLEncoding.DecodeString(name)
	return left, string(id), found && err == nil && bad == nil && left >= 0
}
