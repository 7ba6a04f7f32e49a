package jsondoc

import (
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/partmap"
)

// TestQuotedKeyPaths: names in the quotes of a key path are those of members, with slashes
// and commas, as they are in every other path.
func TestQuotedKeyPaths(t *testing.T) {
	for path, doc := range map[string]string{
		`/"a,b"`:     `{"id":"1","\"a,b\"":"wrong","a,b":"right"}`,
		`/"a/b"/c`:   `{"id":"1","a":{"b":{"c":"wrong"}},"a/b":{"c":"right"}}`,
		`/"a\"b"`:    `{"id":"1","a\"b":"right"}`,
		`/"a"`:       `{"id":"1","a":"right"}`,
		`/"*"/"[]"`:  `{"id":"1","*":{"[]":"right"}}`,
		`/""`:        `{"id":"1","":"right"}`,
		`/a,b`:       `{"id":"1","a,b":"right"}`,
		`/a"b`:       `{"id":"1","a\"b":"right"}`,
		`/"a"/b/"c"`: `{"id":"1","a":{"b":{"c":"right"}}}`,
	} {
		p, err := Compile([]string{path})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var s Scanner
		var out Doc
		if err = s.Scan([]byte(doc), p, Limits{}, &out); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if key, err := partmap.FromEncoded(out.PK); err != nil || key != partmap.String("right") {
			t.Errorf("%s of %s: the key is %v, %v", path, doc, key, err)
		}
		if got := KeyPath(path).String(); !slices.Equal(KeyPath(got), KeyPath(path)) {
			t.Errorf("%s comes back as %s", path, got)
		}
	}
	for paths, want := range map[string]string{
		`/a,/"a"`:      "given twice",
		`/"a/b",/b,/"`: "bad string",
		`/"a"b`:        "must begin with a slash",
		`/a/[]`:        "[]",
		`/a,b/,/c`:     "must begin with a slash",
		`/a//b`:        "empty name",
		`/a/*`:         "* belongs to index policies",
		"/\xff":        "UTF-8",
	} {
		if _, err := Compile(SplitPaths(paths)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want something of %q", paths, err, want)
		}
	}
}

// TestPathLists: a list of paths is divided at the commas that are outside of quotes, and
// comes back from its paths.
func TestPathLists(t *testing.T) {
	for list, want := range map[string][]string{
		`/a`:                   {`/a`},
		`/a,/b/c`:              {`/a`, `/b/c`},
		`/"a,b",/c`:            {`/"a,b"`, `/c`},
		`/x/"a,\",b"/d,/"c\\"`: {`/x/"a,\",b"/d`, `/"c\\"`},
		`/a"b,/c"d`:            {`/a"b`, `/c"d`},
		`/"a`:                  {`/"a`},
		``:                     {``},
		`/"a\`:                 {`/"a\`},
		`/"a/b","/"c"`:         {`/"a/b"`, `"/"c"`},
	} {
		got := SplitPaths(list)
		if !slices.Equal(got, want) {
			t.Errorf("%s is divided into %q, want %q", list, got, want)
		}
		if back := JoinPaths(got); back != list {
			t.Errorf("%s comes back as %s", list, back)
		}
	}
	if got := SplitPaths(); got != nil {
		t.Errorf("no list has the paths %q", got)
	}
	if got := SplitPaths(`/a,/b`, `/c`); !slices.Equal(got, []string{"/a", "/b", "/c"}) {
		t.Errorf("two lists have the paths %q", got)
	}
	for x, y := range map[string]string{`/a,b`: `/"a,b"`, `/"a"/b`: `/a/"b"`, `/"\u0061"`: `/a`, `/"a`: `/"a`} {
		if !SamePaths([]string{"/k", x}, []string{"/k", y}) || SamePaths([]string{x}, []string{"/k"}) || SamePaths([]string{x, x}, []string{x}) {
			t.Errorf("%s and %s are not told to be the same path", x, y)
		}
	}
	paths := []string{`/a,b`, `/c/d,`, `/"e,f"`}
	if got := JoinPaths(paths); got != `/"a,b",/c/"d,",/"e,f"` {
		t.Errorf("joined: %s", got)
	}
}
