package fuzz

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// FuzzJSON scans any bytes: what it accepts, encoding/json reads with the same
// id, and what it refuses as not being JSON, encoding/json refuses.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","pk":"x"}`,
		` { "id" : "\u0031\ud83d\ude00" , "pk" : -1.5e-7 , "ttl" : 60 } `,
		`{"pk":null,"a":[[],{},[{"b":[1,2.0,true,false,null]}]],"id":"é世界😀"}`,
		`{"id":"1","a":{"x":1,"\u0078":2}}`,
		`{"id":"1","pk":{},"ttl":0}`,
		`{"id":"a/b"}`,
		`{"id":"1","x":"\ud800"}`,
		"{\"id\":\"1\",\"x\":\"\xed\xa0\x80\"}",
		`[[[[[[[[1]]]]]]]]`,
		`{"id":"1"` + strings.Repeat(`,"a":{"b":0`, 9) + strings.Repeat("}", 10),
		`{"a0":0,"a1":0,"a2":0,"a3":0,"a4":0,"a5":0,"a6":0,"a7":0,"a8":0,"a9":0,"b0":0,"b1":0,"b2":0,"b3":0,"b4":0,"b5":0,"b6":0,"b7":0,"b8":0,"b9":0,` +
			`"c0":0,"c1":0,"c2":0,"c3":0,"c4":0,"c5":0,"c6":0,"c7":0,"c8":0,"c9":0,"d0":0,"d1":0,"d2":0,"d3":0,"id":"1","d4":0}`,
	} {
		f.Add([]byte(seed))
	}
	paths, err := jsondoc.Compile([]string{"/pk", "/a/b"})
	if err != nil {
		f.Fatal(err)
	}
	var s jsondoc.Scanner
	var out jsondoc.Doc
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := s.Scan(doc, paths, jsondoc.Limits{MaxDepth: 6}, &out)
		var refused *jsondoc.Error
		switch {
		case err == nil:
			var members map[string]any
			if err := json.Unmarshal(doc, &members); err != nil {
				t.Fatalf("accepted, but encoding/json says: %v", err)
			}
			if !utf8.Valid(doc) || members["id"] != string(out.ID) {
				t.Fatalf("id %q, encoding/json has %q", out.ID, members["id"])
			}
			if out.IDStart >= 0 && string(doc[out.IDStart:out.IDEnd]) != string(out.ID) {
				t.Fatalf("id %q is not at [%d:%d]", out.ID, out.IDStart, out.IDEnd)
			}
		case !errors.As(err, &refused) || refused.Offset < 0 || refused.Offset > len(doc):
			t.Fatalf("error without kind or place: %v", err)
		case errors.Is(err, jsondoc.ErrSyntax):
			if json.Valid(doc) {
				t.Fatalf("encoding/json accepts it, but: %v", err)
			}
		case errors.Is(err, jsondoc.ErrUTF8):
			if utf8.Valid(doc) && !strings.Contains(strings.ToLower(string(doc)), `\ud`) {
				t.Fatalf("it is UTF-8, but: %v", err)
			}
		case errors.Is(err, jsondoc.ErrNoID), errors.Is(err, jsondoc.ErrBadID), errors.Is(err, jsondoc.ErrBadTTL), errors.Is(err, jsondoc.ErrBadKey):
			if !json.Valid(doc) {
				t.Fatalf("not JSON, but: %v", err)
			}
		}
	})
}
