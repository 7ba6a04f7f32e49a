package jsondoc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	const doc = " { \"a\" : 1 , \"b\\u0062\":[1,{\"x\":\"]}\"}], \"o\": {\"p\":{}, \"q\":[] } ,\"s\":\"a\\\"b,\",\"n\":null,\"f\":-1.5e3,\"\":true }\n"
	var got []string
	Members([]byte(doc), func(name, value []byte) { got = append(got, fmt.Sprintf("%s=%s", name, value)) })
	want := []string{`a=1`, `bb=[1,{"x":"]}"}]`, `o={"p":{}, "q":[] }`, `s="a\"b,"`, `n=null`, `f=-1.5e3`, `=true`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	got = nil
	Members([]byte(`{"p":{"q":1}}`), func(_, value []byte) {
		Members(value, func(name, value []byte) { got = append(got, string(name)+string(value)) })
	})
	if len(got) != 1 || got[0] != "q1" {
		t.Errorf("nested: %q", got)
	}
}

// Members ends on whatever it is given.
func TestMembersOfNoDocument(t *testing.T) {
	const doc = `{"a":{"b":[1,2,{"c":"d\n"}]},"e":"f\u00e9","g":1.5,"h":null}`
	for cut := range len(doc) {
		for _, c := range []string{"", "}", "]", `"`, ":", ",", "x", `\`, `"`, `\"`, `\u`, `"\ud800"`} {
			Members([]byte(doc[:cut]+c), func(_, value []byte) {
				AppendKey(nil, value)
				Members(value, func(_, _ []byte) {})
			})
		}
	}
}

// A key made of members is the key that a scan finds.
func TestAppendKey(t *testing.T) {
	var s Scanner
	var out Doc
	for _, value := range []string{`null`, `true`, `false`, `0`, `-0`, `1e3`, `1.25`, `""`, `"é"`, `"a\u00e9\n\"\ud83d\ude00"`} {
		doc := []byte(`{"id":"1","k":` + value + `}`)
		if err := s.Scan(doc, mustCompile(t, "/k"), Limits{}, &out); err != nil {
			t.Fatal(err)
		}
		Members(doc, func(name, v []byte) {
			if string(name) != "k" {
				return
			}
			if key, ok := AppendKey([]byte("x"), v); !ok || !bytes.Equal(key[1:], out.PK) {
				t.Errorf("%s: %x, want %x", value, key, out.PK)
			}
		})
	}
	for _, value := range []string{`{}`, `[1]`, `1e999`, ``, `"`} {
		if key, ok := AppendKey(nil, []byte(value)); ok || len(key) > 0 {
			t.Errorf("%s: %x", value, key)
		}
	}
	long := strings.Repeat("x", 5000)
	if key, ok := AppendKey(nil, []byte(`"`+long+`"`)); !ok || len(key) != len(long)+2 {
		t.Errorf("long: %d bytes, %v", len(key), ok)
	}
}
