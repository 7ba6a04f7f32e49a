package listing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// list makes entries with ids of one letter.
func list(ids string) []map[string]any {
	var all []map[string]any
	for _, id := range ids {
		all = append(all, map[string]any{"id": string(id)})
	}
	return all
}

func ids(page []map[string]any) (out string) {
	for _, one := range page {
		out += one["id"].(string)
	}
	return out
}

// TestPages: pages go on behind the last id, whatever has come and gone meanwhile, and a limit counts over all of them.
func TestPages(t *testing.T) {
	for _, c := range []struct {
		lists string // by pages; the last one goes on
		r     Request
		want  string
	}{
		{"dbca", Request{}, "abcd"},
		{"", Request{Size: "2"}, ""},
		{"abcd", Request{Size: "2"}, "ab cd"},
		{"abcd", Request{Size: "-1"}, "abcd"},
		{"abcd", Request{Size: "x"}, "abcd"},
		{"abcd bcd cd d", Request{Size: "1"}, "a b c d"}, // each is deleted
		{"ac abcd", Request{Size: "1"}, "a b c d"},
		{"bd abcde", Request{Size: "1"}, "b c d e"},
		{"abcd", Request{Size: "1", Limit: 3}, "a b c"},
		{"abcd bcd cd d", Request{Size: "1", Limit: 3}, "a b c"},
		{"abcd", Request{Size: "2", Limit: 2}, "ab"},
		{"abcd bcd", Request{Size: "1", Offset: 1, Limit: 2}, "b c"},
		{"abcd acd ad", Request{Size: "1", Offset: 1}, "b c d"},
		{"abcd", Request{Offset: 9}, ""},
	} {
		lists := strings.Split(c.lists, " ")
		var got []string
		for r, i := c.r, 0; ; i++ {
			page, next, ok := Page(list(lists[min(i, len(lists)-1)]), r)
			if !ok {
				t.Fatalf("%+v: not ok", r)
			}
			got = append(got, ids(page))
			if r.After = next; next == "" {
				break
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s, %+v: %q, want %q", c.lists, c.r, text, c.want)
		}
	}
	for _, after := range []string{"x", "1", "-1.YQ", ".YQ", "1.%", "x.YQ"} {
		if page, next, ok := Page(list("ab"), Request{After: after}); ok {
			t.Errorf("after %q: %s, %q", after, ids(page), next)
		}
	}
	// Ids of any characters fit into a header.
	odd := []map[string]any{{"id": "a"}, {"id": "ü.\n"}, {"id": "漢"}}
	_, next, _ := Page(slices.Clone(odd), Request{Size: "2"})
	if page, _, ok := Page(slices.Clone(odd), Request{After: next}); !ok || ids(page) != "漢" || strings.ContainsFunc(next, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("%s, after %s", fmt.Sprint(page), next)
	}
}
