package uniquekey

import (
	"strings"
	"testing"
)

// TestClaims: claims are equal only if the values are, however they are written.
func TestClaims(t *testing.T) {
	k, err := Compile([][]string{{"/a", "/b"}, {"/b"}})
	if err != nil {
		t.Fatal(err)
	}
	same := [][]string{
		{`{"a":1,"b":"x"}`, `{"b":"\u0078","a":1.0}`, ` { "a" : 10e-1, "b" : "x", "c" : 2 } `},
		{`{"a":null,"b":"x"}`, `{"b":"x"}`},
		{`{"a":[1, 2],"b":{"c": 3}}`, `{"a":[1,2],"b":{"c":3}}`},
		{`{"a":"1","b":"x"}`},
		{`{"a":true,"b":"x"}`},
		{`{"a":"x","b":null}`},
		{`{"a":"","b":"x1"}`},
	}
	seen := make(map[ClaimID]int)
	for group, docs := range same {
		for _, doc := range docs {
			ids := k.Claims(nil, []byte(doc))
			if len(ids) != k.Len() || strings.Join(k.Paths(ids[0]), " ") != "/a /b" || strings.Join(k.Paths(ids[1]), " ") != "/b" {
				t.Fatalf("%s: claims %x", doc, ids)
			}
			if other, ok := seen[ids[0]]; ok && other != group || !ok && doc != docs[0] {
				t.Errorf("%s: claim %x, of group %d: %v", doc, ids[0], other, ok)
			}
			seen[ids[0]] = group
		}
	}
}

// TestCompile refuses what is no unique key.
func TestCompile(t *testing.T) {
	for name, keys := range map[string][][]string{
		"no path":    {{}},
		"a path":     {{"a"}},
		"twice":      {{"/a", "/a"}},
		"elements":   {{"/a/[]"}},
		"many paths": {strings.Split(strings.Repeat("/a ", maxPaths+1), " ")},
		"many keys":  make([][]string, maxKeys+1),
	} {
		if _, err := Compile(keys); err == nil {
			t.Errorf("%s: compiled", name)
		}
	}
}
