package jsondoc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/partmap"
)

func mustCompile(t testing.TB, paths ...string) *Paths {
	t.Helper()
	p, err := Compile(paths)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestErrors(t *testing.T) {
	long := strings.Repeat("x", 1024)
	tests := []struct {
		doc    string
		kind   error
		offset int
		path   string
	}{
		{``, ErrSyntax, 0, ""},
		{`  `, ErrSyntax, 2, ""},
		{`x`, ErrSyntax, 0, ""},
		{` nul`, ErrSyntax, 4, ""},
		{` [1]`, ErrNotObject, 1, ""},
		{`"{}"`, ErrNotObject, 0, ""},
		{`-1`, ErrNotObject, 0, ""},
		{`null`, ErrNotObject, 0, ""},
		{"\xef\xbb\xbf{}", ErrSyntax, 0, ""},
		{`{`, ErrSyntax, 1, ""},
		{`{"id":"1"`, ErrSyntax, 9, "/id"},
		{`{"id":"1",`, ErrSyntax, 10, ""},
		{`{"id":"1",}`, ErrSyntax, 10, ""},
		{`{"id":"1"}}`, ErrSyntax, 10, ""},
		{`{"id":"1"} {}`, ErrSyntax, 11, ""},
		{"{\"id\":\"1\"}\x00", ErrSyntax, 10, ""},
		{"{\"id\":\"1\"}\v", ErrSyntax, 10, ""},
		{`{,}`, ErrSyntax, 1, ""},
		{`{id:1}`, ErrSyntax, 1, ""},
		{`{"id"}`, ErrSyntax, 5, "/id"},
		{`{"id" 1}`, ErrSyntax, 6, "/id"},
		{`{"id":}`, ErrSyntax, 6, "/id"},
		{`{"id":1 2}`, ErrSyntax, 8, "/id"},
		{`{"id":1]`, ErrSyntax, 7, "/id"},
		{`{"a":[1,]}`, ErrSyntax, 8, "/a/1"},
		{`{"a":[1 2]}`, ErrSyntax, 8, "/a/0"},
		{`{"a":[1}`, ErrSyntax, 7, "/a/0"},
		{`{"a":[`, ErrSyntax, 6, "/a/0"},
		{`{"a":[{"b":1},{"b":[0,1,-]}]}`, ErrSyntax, 25, "/a/1/b/2"},
		{`{"a":01}`, ErrSyntax, 5, "/a"},
		{`{"a":-}`, ErrSyntax, 6, "/a"},
		{`{"a":-01}`, ErrSyntax, 6, "/a"},
		{`{"a":1.}`, ErrSyntax, 7, "/a"},
		{`{"a":.5}`, ErrSyntax, 5, "/a"},
		{`{"a":+5}`, ErrSyntax, 5, "/a"},
		{`{"a":1e}`, ErrSyntax, 7, "/a"},
		{`{"a":1e+}`, ErrSyntax, 8, "/a"},
		{`{"a":1e+`, ErrSyntax, 8, "/a"},
		{`{"a":0x1}`, ErrSyntax, 6, "/a"},
		{`{"a":1_0}`, ErrSyntax, 6, "/a"},
		{`{"a":NaN}`, ErrSyntax, 5, "/a"},
		{`{"a":trux}`, ErrSyntax, 8, "/a"},
		{`{"a":nul`, ErrSyntax, 8, "/a"},
		{`{"a":nulll}`, ErrSyntax, 9, "/a"},
		{`{"a":"b`, ErrSyntax, 7, "/a"},
		{`{"a":"bcdefghijkl\`, ErrSyntax, 17, "/a"},
		{`{"a":"\q"}`, ErrSyntax, 6, "/a"},
		{`{"a":"\u12g4"}`, ErrSyntax, 6, "/a"},
		{`{"a":"\u12`, ErrSyntax, 6, "/a"},
		{"{\"a\":\"x\ny\"}", ErrSyntax, 7, "/a"},
		{"{\"a\":\"x\x00y\"}", ErrSyntax, 7, "/a"},
		{"{\"a\tb\":1}", ErrSyntax, 3, ""},
		{"{\"a\":\"é\xff\"}", ErrUTF8, 8, "/a"},
		{"{\"a\":\"\xc0\xaf and so on\"}", ErrUTF8, 6, "/a"},
		{"{\"a\":\"\xe0\x9f\xbf and so on\"}", ErrUTF8, 6, "/a"},
		{"{\"a\":\"\xed\xa0\x80 and so on\"}", ErrUTF8, 6, "/a"},
		{"{\"a\":\"\xf0\x8f\xbf\xbf and so on\"}", ErrUTF8, 6, "/a"},
		{"{\"a\":\"\xf4\x90\x80\x80 and so on\"}", ErrUTF8, 6, "/a"},
		{"{\"a\":\"\xf5\x80\x80\x80 and so on\"}", ErrUTF8, 6, "/a"},
		{"{\"a\":\"\xc3", ErrUTF8, 6, "/a"},
		{"{\"a\xff\":1}", ErrUTF8, 3, ""},
		{"{\"id\":\"1\"\xff}", ErrSyntax, 9, "/id"},
		{`{"a":"\ud800"}`, ErrUTF8, 6, "/a"},
		{`{"a":"\udc00\ud800"}`, ErrUTF8, 6, "/a"},
		{`{"a":"\ud800\ud800"}`, ErrUTF8, 6, "/a"},
		{`{"a":"\uD83Dx"}`, ErrUTF8, 6, "/a"},
		{`{"a":1,"a":2}`, ErrDuplicateName, 7, "/a"},
		{`{"a":{"a":1,"b":2,"\u0061":3}}`, ErrDuplicateName, 18, "/a/a"},
		{`{"a":[0,{"é":1,"\u00e9":2}]}`, ErrDuplicateName, 16, "/a/1/é"},
		{`{"":1,"":2}`, ErrDuplicateName, 6, "/"},
		{`{"a":[[[[1]]]]}`, ErrTooDeep, 8, "/a/0/0/0"},
		{`{"a":{"b":{"c":{"d":{}}}}}`, ErrTooDeep, 20, "/a/b/c/d"},
		{`{}`, ErrNoID, 0, "/id"},
		{`{"Id":"x","a":{"id":"1"}}`, ErrNoID, 0, "/id"},
		{`{"id":7}`, ErrBadID, 6, "/id"},
		{`{"id":{}}`, ErrBadID, 6, "/id"},
		{`{"id":""}`, ErrBadID, 7, "/id"},
		{`{"id":"` + long + `"}`, ErrBadID, 7, "/id"},
		{`{"id":"1","ttl":0}`, ErrBadTTL, 16, "/ttl"},
		{`{"id":"1","ttl":-2}`, ErrBadTTL, 16, "/ttl"},
		{`{"id":"1","ttl":1.5}`, ErrBadTTL, 16, "/ttl"},
		{`{"id":"1","ttl":2147483648}`, ErrBadTTL, 16, "/ttl"},
		{`{"id":"1","ttl":1e999}`, ErrBadTTL, 16, "/ttl"},
		{`{"id":"1","ttl":null}`, ErrBadTTL, 16, "/ttl"},
		{`{"id":"1","ttl":"60"}`, ErrBadTTL, 17, "/ttl"},
		{`{"id":"1","pk":[]}`, ErrBadKey, 15, "/pk"},
		{`{"id":"1","pk":{"a":1}}`, ErrBadKey, 15, "/pk"},
		{`{"id":"1","pk":-1e999}`, ErrBadKey, 15, "/pk"},
		{`{"id":"1","pk":"` + long + long + `x"}`, ErrBadKey, 16, "/pk"},
		// Errors in the JSON win.
		{`{"id":7,"pk":[],"ttl":0`, ErrSyntax, 23, "/ttl"},
	}
	paths := mustCompile(t, "/pk")
	var s Scanner
	var out Doc
	for _, test := range tests {
		err := s.Scan([]byte(test.doc), paths, Limits{MaxDepth: 4}, &out)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, test.kind) || e.Offset != test.offset || e.Path != test.path {
			t.Errorf("%.60q: got %v, want %v at offset %d, path %q", test.doc, err, test.kind, test.offset, test.path)
		}
	}
}

func TestTooLarge(t *testing.T) {
	doc := []byte(`{"id":"1","pk":2}`)
	paths := mustCompile(t, "/pk")
	var s Scanner
	var out Doc
	if err := s.Scan(doc, paths, Limits{MaxBytes: len(doc)}, &out); err != nil {
		t.Error(err)
	}
	err := s.Scan(doc, paths, Limits{MaxBytes: len(doc) - 1}, &out)
	var e *Error
	if !errors.As(err, &e) || e.Kind != ErrTooLarge || e.Offset != len(doc)-1 {
		t.Errorf("got %v", err)
	}
	if err := s.Scan(make([]byte, DefaultMaxBytes+1), paths, Limits{}, &out); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	nested := func(n int) []byte {
		return []byte(`{"id":"1","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}")
	}
	if err := s.Scan(nested(DefaultMaxDepth-1), paths, Limits{}, &out); err != nil {
		t.Error(err)
	}
	if err := s.Scan(nested(DefaultMaxDepth), paths, Limits{}, &out); !errors.Is(err, ErrTooDeep) {
		t.Errorf("got %v", err)
	}
}

func TestValues(t *testing.T) {
	number := func(f float64) []byte { return partmap.AppendNumber(nil, f) }
	text := func(s string) []byte { return partmap.AppendString(nil, []byte(s)) }
	tests := []struct {
		doc   string
		paths []string
		id    string
		pk    [][]byte
		ttl   int64 // 0: none
	}{
		{`{"id":"1"}`, []string{"/a"}, "1", [][]byte{partmap.AppendUndefined(nil)}, 0},
		{`{"a":null,"id":"1"}`, []string{"/a"}, "1", [][]byte{partmap.AppendNull(nil)}, 0},
		{`{"a":true,"b":false,"id":"1"}`, []string{"/a", "/b"}, "1", [][]byte{partmap.AppendBool(nil, true), partmap.AppendBool(nil, false)}, 0},
		{`{"a":-0,"b":9223372036854775807,"id":"1","c":1e-400}`, []string{"/a", "/b", "/c"}, "1", [][]byte{number(0), number(math.MaxInt64), number(0)}, 0},
		{`{"id":"1","a":{"b":{"c":"deep"},"c":5},"c":6}`, []string{"/c", "/a/b/c", "/a/c"}, "1", [][]byte{number(6), text("deep"), number(5)}, 0},
		{`{"id":"1","a":[{"b":1}],"c":[{"a":{"b":7}}]}`, []string{"/a/b"}, "1", [][]byte{partmap.AppendUndefined(nil)}, 0},
		{`{"id":"1","a":7}`, []string{"/a/b"}, "1", [][]byte{partmap.AppendUndefined(nil)}, 0},
		{`{"id":"1","a":{"a":{"b":3}},"b":4}`, []string{"/a/b"}, "1", [][]byte{partmap.AppendUndefined(nil)}, 0},
		{`{"\u0069d":"\u0031","\u00e9":"\ud83d\ude00\n"}`, []string{"/é"}, "1", [][]byte{text("😀\n")}, 0},
		{`{"id":"both"}`, []string{"/id"}, "both", [][]byte{text("both")}, 0},
		{`{"id":"b\u006fth","a":"\u0062"}`, []string{"/id", "/a"}, "both", [][]byte{text("both"), text("b")}, 0},
		{` { "id" : "1" , "ttl" : 6e1 } `, []string{"/ttl"}, "1", [][]byte{number(60)}, 60},
		{`{"id":"1","ttl":-1,"a":""}`, []string{"/a"}, "1", [][]byte{text("")}, -1},
		{`{"id":"1","ttl":2147483647.0,"x":{"id":5,"ttl":null}}`, []string{"/a"}, "1", [][]byte{partmap.AppendUndefined(nil)}, 2147483647},
		{`{"id":"?#\u0000é"}`, []string{"/a"}, "?#\x00é", [][]byte{partmap.AppendUndefined(nil)}, 0},
	}
	var s Scanner
	var out Doc
	for _, test := range tests {
		if err := s.Scan([]byte(test.doc), mustCompile(t, test.paths...), Limits{}, &out); err != nil {
			t.Errorf("%s: %v", test.doc, err)
			continue
		}
		if string(out.ID) != test.id || !bytes.Equal(out.PK, bytes.Join(test.pk, nil)) || out.TTL != test.ttl || out.HasTTL != (test.ttl != 0) {
			t.Errorf("%s: got %q %x %d", test.doc, out.ID, out.PK, out.TTL)
		}
		if err := check(t, &s, &out, []byte(test.doc), test.paths, 9); err != nil {
			t.Errorf("%s: %v", test.doc, err)
		}
	}
}

func TestKeyLength(t *testing.T) {
	full := strings.Repeat("x", partmap.MaxString)
	// Each string takes two bytes more, an undefined value one.
	rest := full[:partmap.MaxEncoded-partmap.MaxString-2-2-1]
	paths := mustCompile(t, "/a", "/b", "/c")
	tests := []struct{ doc, path string }{
		{`{"id":"1","a":"` + full + `","b":"` + rest + `"}`, ""},
		{`{"id":"1","a":"` + full + `x"}`, "/a"},
		{`{"id":"1","a":"` + full + `","b":"` + rest + `x"}`, "/c"},
		{`{"id":"1","a":"` + full + `","b":"` + full + `","c":null}`, "/b"},
	}
	var s Scanner
	var out Doc
	for _, test := range tests {
		err := s.Scan([]byte(test.doc), paths, Limits{}, &out)
		var e *Error
		switch {
		case test.path == "":
			if err != nil || len(out.PK) != partmap.MaxEncoded {
				t.Errorf("%v, encoding of %d bytes", err, len(out.PK))
			}
		case !errors.As(err, &e) || e.Kind != ErrBadKey || e.Path != test.path:
			t.Errorf("got %v, want an error at %s", err, test.path)
		}
	}
}

func TestIDAliasesDocument(t *testing.T) {
	doc := []byte(`{"id":"abc"}`)
	var s Scanner
	var out Doc
	if err := s.Scan(doc, mustCompile(t, "/a"), Limits{}, &out); err != nil {
		t.Fatal(err)
	}
	if out.IDStart != 7 || out.IDEnd != 10 || &out.ID[0] != &doc[7] || cap(out.ID) != 3 {
		t.Errorf("id %q at [%d:%d], capacity %d", out.ID, out.IDStart, out.IDEnd, cap(out.ID))
	}
	if err := s.Scan([]byte(`{"id":"\u0061"}`), mustCompile(t, "/a"), Limits{}, &out); err != nil {
		t.Fatal(err)
	}
	if out.IDStart != -1 || out.IDEnd != -1 || string(out.ID) != "a" {
		t.Errorf("id %q at [%d:%d]", out.ID, out.IDStart, out.IDEnd)
	}
}

func TestCompile(t *testing.T) {
	for _, paths := range [][]string{
		{"a"}, {""}, {"/"}, {"/a/"}, {"//a"}, {"/a", "/a"}, {"/a", "/a/b"}, {"/a/b", "/a"},
		{"/a/b/c", "/a/b"}, {"/a/*"}, {"/a/?"}, {"/a/[]/b"}, {"/\xff"}, {"/x", "/y/"},
	} {
		bad := paths[len(paths)-1]
		if _, err := Compile(paths); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("%q: error %v does not name the path", paths, err)
		}
	}
	for _, paths := range [][]string{nil, {"/a", "/b", "/c", "/d"}} {
		if _, err := Compile(paths); err == nil {
			t.Errorf("%q: no error", paths)
		}
	}
	for _, paths := range [][]string{{"/a"}, {"/id"}, {"/a/b", "/a/c", "/a/d/e"}, {"/id/x", "/ttl/y"}, {"/Volcano Name"}, {"/日本/é"}} {
		mustCompile(t, paths...)
	}
}

// TestErrorKeepsScannerUsable scans after errors at every depth.
func TestErrorKeepsScannerUsable(t *testing.T) {
	good := []byte(`{"id":"1","a":{"b":[{"c":"x"},2]},"b":1}`)
	var s Scanner
	var out Doc
	paths := mustCompile(t, "/a/c", "/b")
	for i := range good {
		if err := s.Scan(good[:i], paths, Limits{}, &out); err == nil {
			t.Fatalf("%s: accepted", good[:i])
		}
		if err := s.Scan(good, paths, Limits{}, &out); err != nil || string(out.ID) != "1" || len(out.PK) != 10 {
			t.Fatalf("after %s: %v, %+v", good[:i], err, out)
		}
	}
}

// TestLargeObjects crosses from comparing names to the hash table, with tables
// inside tables.
func TestLargeObjects(t *testing.T) {
	member := func(i int) string {
		if i%7 == 3 {
			return fmt.Sprintf(`"\u006ember with é %d"`, i)
		}
		return fmt.Sprintf(`"n%d"`, i)
	}
	object := func(n int, inner string, extra ...string) string {
		var parts []string
		for i := range n {
			value := "1"
			if i == n/2 && inner != "" {
				value = inner
			}
			parts = append(parts, member(i)+":"+value)
		}
		return "{" + strings.Join(append(parts, extra...), ",") + "}"
	}
	var s Scanner
	var out Doc
	paths := []string{"/a"}
	for _, n := range []int{1, 31, 32, 33, 34, 63, 64, 65, 129, 1000, 10000} {
		nested := `{"id":"x","a":1,"o":` + object(n, "["+object(n, object(n, ""))+","+object(n, "")+"]") + `}`
		if err := check(t, &s, &out, []byte(nested), paths, 20); err != nil {
			t.Errorf("%d members: %v", n, err)
		}
		for _, again := range []int{0, n / 2, n - 1} {
			for _, doc := range []string{
				`{"id":"x","o":` + object(n, "", member(again)+":2") + `}`,
				`{"id":"x","o":` + object(n, object(n, ""), member(again)+":2") + `}`,
				`{"id":"x","o":` + object(n, object(n, "", member(again)+":2")) + `}`,
			} {
				if err := check(t, &s, &out, []byte(doc), paths, 20); err != ErrDuplicateName {
					t.Errorf("%d members, %d twice: %v", n, again, err)
				}
			}
		}
	}
}

// TestWorkIsLinear counts the comparisons of names for shapes that defeat
// comparing each with each, or a hash of parts of a name.
func TestWorkIsLinear(t *testing.T) {
	shapes := map[string]func(i int) string{
		"short":           func(i int) string { return fmt.Sprintf("%x", i) },
		"equal ends":      func(i int) string { return fmt.Sprintf("prefix--%08x--suffix", i) },
		"last byte":       func(i int) string { return strings.Repeat("é", i%64) + fmt.Sprint(i) },
		"top bits":        func(i int) string { return topBits(i) },
		"only the length": func(i int) string { return strings.Repeat("a", i%500) + fmt.Sprint(i/500) + strings.Repeat("b", 9) },
	}
	paths := mustCompile(t, "/a")
	for shape, name := range shapes {
		for _, n := range []int{16, 32, 1000, 20000} {
			var doc bytes.Buffer
			doc.WriteString(`{"id":"1"`)
			for i := range n {
				fmt.Fprintf(&doc, `,"%s":1`, name(i))
			}
			doc.WriteString("}")
			var s Scanner
			var out Doc
			if err := s.Scan(doc.Bytes(), paths, Limits{MaxBytes: 1 << 30}, &out); err != nil {
				t.Fatalf("%s: %v", shape, err)
			}
			if limit := 20*n + smallObject*smallObject; s.work > limit {
				t.Errorf("%s: %d names took %d comparisons, more than %d", shape, n, s.work, limit)
			}
		}
	}
}

// topBits returns names whose 8-byte words differ in few high bits, the weak
// place of multiplication.
func topBits(i int) string {
	var b strings.Builder
	for range 18 {
		b.WriteString("aaaaaa")
		if i&1 == 0 {
			b.WriteString("é")
		} else {
			b.WriteString("\u0369")
		}
		i >>= 1
	}
	return b.String()
}

func TestScanAllocatesNothing(t *testing.T) {
	docs := foodDocuments(50)
	docs = append(docs,
		[]byte(`{"id":"\u0041","foodGroup":"\u0042","ttl":60,"\u0043":1,"Latin é":[{"x":1e5},null,true]}`))
	var wide bytes.Buffer
	wide.WriteString(`{"id":"w"`)
	for i := range 3000 {
		fmt.Fprintf(&wide, `,"m%d":0`, i)
	}
	wide.WriteString("}")
	docs = append(docs, wide.Bytes())
	paths := mustCompile(t, "/foodGroup", "/version", "/tags/none")
	var s Scanner
	var out Doc
	scanAll := func() {
		for _, doc := range docs {
			if err := s.Scan(doc, paths, Limits{}, &out); err != nil {
				t.Fatal(err)
			}
		}
	}
	scanAll()
	if n := testing.AllocsPerRun(10, scanAll); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestScratchIsReturned checks that one huge document leaves no huge scanner.
func TestScratchIsReturned(t *testing.T) {
	var doc bytes.Buffer
	doc.WriteString(`{"id":"w"`)
	for i := range 100000 {
		fmt.Fprintf(&doc, `,"\u0061%d":0`, i)
	}
	doc.WriteString("}")
	var s Scanner
	var out Doc
	if err := s.Scan(doc.Bytes(), mustCompile(t, "/a"), Limits{}, &out); err != nil {
		t.Fatal(err)
	}
	if kept := 16*cap(s.names) + 4*cap(s.table) + cap(s.text); kept > 512<<10 {
		t.Errorf("%d bytes kept", kept)
	}
}

// TestRealData scans samples of published data sets.
func TestRealData(t *testing.T) {
	files, err := filepath.Glob(filepath.FromSlash("../../testdata/real/*.ndjson.zst"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no data")
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := zstd.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		var s Scanner
		var out Doc
		paths := []string{"/Country", "/name", "/year"}
		compiled := mustCompile(t, paths...)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 4<<20)
		for n := 0; lines.Scan() && n < 200000; n++ {
			err := s.Scan(lines.Bytes(), compiled, Limits{}, &out)
			if err == nil && n < 500 {
				err = check(t, &s, &out, lines.Bytes(), paths, DefaultMaxDepth)
			}
			if err != nil {
				t.Errorf("%s: line %d: %v", filepath.Base(file), n+1, err)
			}
		}
		r.Close()
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			t.Error(err)
		}
	}
}
